//! Processors that may block, on workers of their own.
//!
//! ```text
//!   shared workers  0 .. n       all other processors; the balancer moves them
//!   dedicated       n .. n + t   the first blocking processor: replica r always at n + r mod t
//!   dedicated       n + t ..     the next blocking processor
//! ```
//!
//! The shards of a blocking processor are pinned, so no balancer moves them. [`Reserved`] shows the
//! balancer only the shared workers, so it moves no other shard to a dedicated worker. The sharder
//! also runs the dedicated workers, but a resharding does not wait for them.

use crate::sharder::{Assignment, Balancer, Decision, LoadView, Move, ShardId, WorkerId};

/// Which worker has which shard at the start, and which stay there.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The number of shared workers.
    shared: usize,
    workers: usize,
    /// Per shard: its worker, if it is a dedicated one.
    dedicated: Vec<Option<WorkerId>>,
}

impl Places {
    /// `blocking`: processors, each with its number of workers. `shared`: the number of other
    /// workers; zero if there is no other processor.
    pub(crate) fn new(replicas: &[usize], blocking: &[(usize, usize)], shared: usize) -> Self {
        let mut workers = shared;
        let mut dedicated = Vec::new();
        for (node, &count) in replicas.iter().enumerate() {
            let threads = blocking.iter().find(|(blocked, _)| *blocked == node);
            let Some(&(_, threads)) = threads else {
                dedicated.extend((0..count).map(|_| None));
                continue;
            };
            let worker = |replica| Some(WorkerId::from_index(workers + replica % threads));
            dedicated.extend((0..count).map(worker));
            workers += threads;
        }
        Self {
            shared,
            workers,
            dedicated,
        }
    }

    /// Returns the number of all workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the dedicated workers.
    pub(crate) fn dedicated_workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (self.shared..self.workers).map(WorkerId::from_index)
    }

    /// Returns the shards that stay at dedicated workers.
    pub(crate) fn pins(&self) -> impl Iterator<Item = (ShardId, WorkerId)> + '_ {
        let shards = self.dedicated.iter().enumerate();
        shards.filter_map(|(shard, worker)| Some((ShardId::from_index(shard), (*worker)?)))
    }

    /// Returns whether a shard stays at a dedicated worker.
    pub(crate) fn is_dedicated(&self, shard: ShardId) -> bool {
        self.dedicated[shard.index()].is_some()
    }

    /// Returns the first assignment: the shared workers get the other shards in turn.
    pub(crate) fn first(&self) -> Assignment {
        let mut turn = 0;
        let owner = |dedicated: &Option<WorkerId>| {
            dedicated.unwrap_or_else(|| {
                turn += 1;
                WorkerId::from_index((turn - 1) % self.shared)
            })
        };
        let owners = self.dedicated.iter().map(owner).collect();
        assignment(owners, self.workers)
    }
}

fn assignment(owners: Vec<WorkerId>, workers: usize) -> Assignment {
    match Assignment::new(owners, workers) {
        Ok(assignment) => assignment,
        Err(error) => unreachable!("a shard has one of the workers: {error}"),
    }
}

/// Number of owners that are compared for each unit of a slice's budget.
const OWNERS_PER_UNIT: usize = 32;

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Copies the loads of used shards from this entry on.
    Loads(usize),
    /// Copies the traffic from this entry on.
    Traffic(usize),
    /// Copies the owners that have changed, from this shard on.
    Owners(usize),
    /// Has the other balancer decide.
    Decide,
}

/// Has another balancer decide about the shared workers.
///
/// The other balancer sees the shared workers and all shards. In what it sees, the shards of
/// dedicated workers have no load and no traffic, and are pinned to worker 0. In fact they stay at
/// their dedicated workers.
pub(crate) struct Reserved {
    inner: Box<dyn Balancer>,
    places: Places,
    stage: Stage,
    /// What the other balancer sees.
    view: LoadView,
    /// The assignment as the other balancer sees it.
    shown: Assignment,
    /// Whether `shown` is known to be the current assignment. It is not at the start, nor after a
    /// decision that moves shards, which the sharder makes or refuses.
    is_current: bool,
}

impl Reserved {
    /// `pins`: those of other shards.
    pub(crate) fn new(
        inner: Box<dyn Balancer>,
        places: Places,
        pins: &[(ShardId, WorkerId)],
    ) -> Self {
        let mut view = LoadView::new(places.shared, places.dedicated.len());
        for &(shard, worker) in pins {
            view.add_pin(shard, worker);
        }
        for (shard, _) in places.pins() {
            view.add_pin(shard, WorkerId(0));
        }
        // Without a shared worker no decision is made.
        let owners = std::vec![WorkerId(0); places.dedicated.len()];
        let shown = assignment(owners, places.shared.max(1));
        Self {
            inner,
            places,
            stage: Stage::Loads(0),
            view,
            shown,
            is_current: false,
        }
    }

    /// Shows the owners of some shards from `next` on to the other balancer; returns the end of
    /// these shards.
    fn show(&mut self, current: &Assignment, next: usize, budget: usize) -> usize {
        let count = budget.saturating_mul(OWNERS_PER_UNIT);
        let end = current.shards().min(next.saturating_add(count));
        for at in next..end {
            let (shard, to) = (ShardId::from_index(at), current.owners()[at]);
            if self.places.dedicated[at].is_none() && self.shown.owner(shard) != to {
                let moved = self.shown.apply(&[Move { shard, to }]);
                debug_assert!(moved.is_ok(), "the shard and the shared worker exist");
            }
        }
        end
    }

    /// Returns what an assignment of the other balancer means for all workers.
    fn meant(&self, next: &Assignment) -> Assignment {
        let owners = next.owners().iter().zip(&self.places.dedicated);
        let owners = owners.map(|(owner, dedicated)| dedicated.unwrap_or(*owner));
        assignment(owners.collect(), self.places.workers)
    }

    fn decide(&mut self, budget: usize) -> Decision {
        let current = &self.shown;
        match self.inner.step(&self.view, current, budget) {
            Decision::Adopt(next) => Decision::Adopt(match (next.shards(), next.workers()) {
                shape if shape == (current.shards(), current.workers()) => self.meant(&next),
                // It has the shape that the sharder expects, and was made for another one.
                (_, workers) if workers == self.places.workers => assignment(Vec::new(), workers),
                // The sharder refuses it.
                _ => next,
            }),
            Decision::Move(moves) => {
                let moves = moves.into_iter();
                let moves = moves.filter(|one| {
                    let shards = &self.places.dedicated;
                    // One that does not exist is for the sharder to refuse.
                    !matches!(shards.get(one.shard.index()), Some(Some(_)))
                });
                // So is a worker that the other balancer does not see.
                let meant = |one: Move| match one.to.index() < self.places.shared {
                    true => one,
                    false => Move {
                        to: WorkerId::from_index(self.places.workers),
                        ..one
                    },
                };
                Decision::Move(moves.map(meant).collect())
            }
            other => other,
        }
    }
}

impl Balancer for Reserved {
    fn needs_figures(&self, _: &LoadView, _: &Assignment) -> bool {
        if self.places.shared == 0 {
            return false;
        }
        // A step shows the owners, and needs figures. The shapes are right from the start.
        !self.is_current || self.inner.needs_figures(&self.view, &self.shown)
    }

    fn begin(&mut self, view: &LoadView, _: &Assignment) {
        self.view.clear();
        for worker in (0..self.places.shared).map(WorkerId::from_index) {
            let window = view.worker_window(worker);
            self.view.set_worker_window(worker, window);
        }
        self.stage = Stage::Loads(0);
    }

    fn step(&mut self, view: &LoadView, current: &Assignment, budget: usize) -> Decision {
        if self.places.shared == 0 {
            return Decision::Keep;
        }
        match self.stage {
            Stage::Loads(next) => {
                let used = view.used();
                let end = used.len().min(next.saturating_add(budget));
                for &(shard, load) in &used[next..end] {
                    if !self.places.is_dedicated(shard) {
                        self.view.set_load(shard, load);
                    }
                }
                self.stage = match end == used.len() {
                    true => Stage::Traffic(0),
                    false => Stage::Loads(end),
                };
            }
            Stage::Traffic(next) => {
                let all = view.traffic();
                let end = all.len().min(next.saturating_add(budget));
                for one in &all[next..end] {
                    if !self.places.is_dedicated(one.from) && !self.places.is_dedicated(one.to) {
                        self.view.add_traffic(one.from, one.to, one.per_second);
                    }
                }
                self.stage = match end == all.len() {
                    true => Stage::Owners(0),
                    false => Stage::Traffic(end),
                };
            }
            Stage::Owners(next) => {
                let end = self.show(current, next, budget);
                self.stage = Stage::Owners(end);
                if end == current.shards() {
                    self.stage = Stage::Decide;
                    self.inner.begin(&self.view, &self.shown);
                }
            }
            Stage::Decide => {
                let decision = self.decide(budget);
                if decision != Decision::Pending {
                    self.is_current = decision == Decision::Keep;
                    self.view.clear();
                }
                return decision;
            }
        }
        Decision::Pending
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;
    use crate::sharder::Greedy;
    use crate::timers::Nanos;

    /// Gives each shard to the next worker that it sees, or to one that is not there.
    struct Rotate {
        is_wrong: bool,
    }

    impl Balancer for Rotate {
        fn begin(&mut self, _: &LoadView, _: &Assignment) {}

        fn step(&mut self, view: &LoadView, current: &Assignment, _: usize) -> Decision {
            let workers = view.workers() + usize::from(self.is_wrong);
            let owners = current.owners().iter();
            let owners = owners.map(|owner| WorkerId::from_index((owner.index() + 1) % workers));
            Decision::Adopt(assignment(owners.collect(), workers))
        }
    }

    fn decide(balancer: &mut Reserved, view: &LoadView, current: &Assignment) -> Decision {
        balancer.begin(view, current);
        loop {
            match balancer.step(view, current, 2) {
                Decision::Pending => {}
                decision => return decision,
            }
        }
    }

    /// The workers of an assignment by number.
    fn numbers(assignment: &Assignment) -> Vec<usize> {
        assignment
            .owners()
            .iter()
            .map(|owner| owner.index())
            .collect()
    }

    #[test]
    fn dedicated_workers_have_their_own_shards_alone() {
        // Processors with 2, 3, 1 and 2 replicas, of which the second and the last block.
        let places = Places::new(&[2, 3, 1, 2], &[(3, 1), (1, 2)], 2);
        assert_eq!(places.workers(), 5);
        let mut current = places.first();
        assert_eq!(numbers(&current), [0, 1, 2, 3, 2, 0, 4, 4]);
        let view = LoadView::new(5, 8);
        let mut balancer = Reserved::new(Box::new(Rotate { is_wrong: false }), places, &[]);
        for turn in 1..5 {
            let next = decide(&mut balancer, &view, &current).next(&current);
            let next = next.expect("it fits").expect("it is another one");
            let (one, other) = (turn % 2, (turn + 1) % 2);
            assert_eq!(numbers(&next), [one, other, 2, 3, 2, one, 4, 4]);
            current = next;
        }
    }

    #[test]
    fn an_assignment_of_another_shape_goes_on_to_be_refused() {
        let places = Places::new(&[2, 1], &[(1, 1)], 2);
        let current = places.first();
        let view = LoadView::new(3, 3);
        let mut balancer = Reserved::new(Box::new(Rotate { is_wrong: true }), places, &[]);
        // It has as many workers as there are.
        let Decision::Adopt(next) = decide(&mut balancer, &view, &current) else {
            panic!("it adopts an assignment");
        };
        assert_ne!(next.shards(), current.shards());
    }

    /// Moves a shard, one of a dedicated worker, and one to a worker that it does not see.
    struct Nudge;

    fn moved(shard: u32, to: u16) -> Move {
        Move {
            shard: ShardId(shard),
            to: WorkerId(to),
        }
    }

    impl Balancer for Nudge {
        fn begin(&mut self, _: &LoadView, _: &Assignment) {}

        fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
            Decision::Move(vec![moved(0, 1), moved(2, 0), moved(1, 2)])
        }
    }

    #[test]
    fn moves_of_dedicated_shards_are_left_out_and_wrong_ones_go_on_to_be_refused() {
        let places = Places::new(&[2, 1], &[(1, 1)], 2);
        let current = places.first();
        let view = LoadView::new(3, 3);
        let mut balancer = Reserved::new(Box::new(Nudge), places, &[]);
        assert!(balancer.needs_figures(&view, &current));
        let decision = decide(&mut balancer, &view, &current);
        assert_eq!(decision, Decision::Move(vec![moved(0, 1), moved(1, 3)]));
        assert!(decision.next(&current).is_err());
    }

    #[test]
    fn a_graph_of_blocking_processors_alone_has_nothing_to_decide() {
        let places = Places::new(&[2], &[(0, 2)], 0);
        assert_eq!(numbers(&places.first()), [0, 1]);
        let view = LoadView::new(2, 2);
        let current = places.first();
        let mut balancer = Reserved::new(Box::new(Greedy::new()), places, &[]);
        assert!(!balancer.needs_figures(&view, &current));
        assert_eq!(decide(&mut balancer, &view, &current), Decision::Keep);
    }

    /// Moves each shard to worker 0, and needs figures as long as one is elsewhere.
    struct Pack;

    impl Balancer for Pack {
        fn needs_figures(&self, view: &LoadView, current: &Assignment) -> bool {
            assert!(
                view.used().is_empty(),
                "it is asked before there are figures"
            );
            current.owners().iter().any(|&owner| owner != WorkerId(0))
        }

        fn begin(&mut self, _: &LoadView, _: &Assignment) {}

        fn step(&mut self, view: &LoadView, current: &Assignment, _: usize) -> Decision {
            assert_eq!(view.used().len(), 1);
            let shards = (0..current.shards() as u32).map(|shard| moved(shard, 0));
            match current.owners().iter().all(|&owner| owner == WorkerId(0)) {
                true => Decision::Keep,
                false => Decision::Move(shards.collect()),
            }
        }
    }

    #[test]
    fn a_balancer_is_asked_for_the_current_assignment_whether_it_needs_figures() {
        let places = Places::new(&[3, 1], &[(1, 1)], 2);
        let first = places.first();
        let mut view = LoadView::new(3, 4);
        view.set(ShardId(0), 0.5, Nanos::from_millis(100));
        let mut balancer = Reserved::new(Box::new(Pack), places, &[]);
        let next = |balancer: &mut Reserved, current: &Assignment| {
            assert!(balancer.needs_figures(&LoadView::new(3, 4), current));
            let next = decide(balancer, &view, current).next(current);
            next.expect("it fits")
        };
        // The sharder may refuse a decision.
        let packed = [0; 2].map(|_| next(&mut balancer, &first));
        let packed = packed.map(|packed| packed.expect("it moves a shard"));
        assert_eq!(numbers(&packed[0]), [0, 0, 0, 2]);
        assert_eq!(packed[0], packed[1]);
        assert_eq!(next(&mut balancer, &packed[0]), None);
        assert!(!balancer.needs_figures(&LoadView::new(3, 4), &packed[0]));
    }

    /// Notes which assignment it sees, and moves nothing.
    struct Notes(std::sync::mpsc::Sender<Vec<usize>>);

    impl Balancer for Notes {
        fn begin(&mut self, _: &LoadView, current: &Assignment) {
            self.0.send(numbers(current)).expect("the test listens");
        }

        fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
            Decision::Keep
        }
    }

    #[test]
    fn owners_are_shown_in_slices() {
        const SHARDS: usize = 10 * OWNERS_PER_UNIT;
        let places = Places::new(&[SHARDS, 1], &[(1, 1)], 3);
        let (sender, seen) = std::sync::mpsc::channel();
        let mut balancer = Reserved::new(Box::new(Notes(sender)), places.clone(), &[]);
        let view = LoadView::new(4, SHARDS + 1);
        let mut current = places.first();
        for turn in 0..3 {
            balancer.begin(&view, &current);
            let slices = (1..).find(|_| balancer.step(&view, &current, 1) != Decision::Pending);
            // Those of the loads, of the traffic, of the owners, and of the decision.
            assert_eq!(slices, Some(2 + 11 + 1));
            // The dedicated shard is shown at worker 0.
            let mut expected = numbers(&current);
            expected[SHARDS] = 0;
            assert_eq!(seen.try_recv(), Ok(expected));
            let moves: Vec<_> = (turn..SHARDS as u32)
                .step_by(7)
                .map(|shard| moved(shard, turn as u16))
                .collect();
            current.apply(&moves).expect("they exist");
        }
    }

    #[test]
    fn loads_of_dedicated_shards_pull_no_other() {
        // Four equal shards that all talk to a busy one that blocks.
        let places = Places::new(&[4, 1], &[(1, 1)], 2);
        let current = places.first();
        let mut view = LoadView::new(3, 5);
        let window = Nanos::from_millis(100);
        for shard in 0..5 {
            view.set(ShardId(shard), 0.3, window);
            view.add_traffic(ShardId(shard), ShardId(4), 1e6);
        }
        let mut balancer = Reserved::new(Box::new(Greedy::new()), places, &[]);
        assert_eq!(decide(&mut balancer, &view, &current), Decision::Keep);
    }
}
