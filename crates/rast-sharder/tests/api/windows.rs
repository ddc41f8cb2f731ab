//! An epoch costs what the used shards cost: the others are not touched, and their load is zero.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use rast_sharder::timers::{ManualClock, Nanos};
use rast_sharder::{
    Assignment, Balancer, Controller, Decision, Handle, LoadReport, LoadView, Move, Progress,
    ShardId, Sharder, Stepper, WorkerCx, WorkerId,
};

/// How long a turn takes.
const TURN: Nanos = Nanos::from_micros(10);

/// Every turn takes [`TURN`], and then the shard is idle. The figures are the time of the turns.
struct Turns {
    clock: ManualClock,
    touched: Arc<Mutex<Touched>>,
}

/// The shards that the sharder touched, in the order of the calls.
#[derive(Default)]
struct Touched {
    restarted: Vec<ShardId>,
    reported: Vec<ShardId>,
}

impl Controller for Turns {
    type Shard = ();
    type Load = Nanos;

    fn process(
        &self,
        _: &mut WorkerCx<'_>,
        _: ShardId,
        (): &mut (),
        load: Option<&mut Nanos>,
    ) -> Progress {
        self.clock.advance(TURN);
        if let Some(load) = load {
            *load = load.saturating_add(TURN);
        }
        Progress::Idle
    }

    fn new_load(&self, _: ShardId) -> Nanos {
        Nanos::ZERO
    }

    fn restart_load(&self, shard: ShardId, load: &mut Nanos) {
        *load = Nanos::ZERO;
        self.touched.lock().unwrap().restarted.push(shard);
    }

    fn report(&self, shard: ShardId, load: &Nanos, out: &mut LoadReport<'_>) {
        out.busy(*load);
        self.touched.lock().unwrap().reported.push(shard);
    }
}

/// What the balancer saw, and what it is to decide.
#[derive(Default)]
struct Seen {
    /// The time of the turns, in nanoseconds, of the used shards.
    busy: BTreeMap<u32, f64>,
    /// The demands of the used shards.
    demands: Vec<f64>,
    /// How long each worker measured.
    windows: Vec<Nanos>,
    moves: Vec<Move>,
}

/// Notes the loads, and makes the moves that it is told.
struct Told(Arc<Mutex<Seen>>);

impl Balancer for Told {
    fn begin(&mut self, view: &LoadView, _: &Assignment) {
        let mut seen = self.0.lock().unwrap();
        let busy = |&(shard, load): &(ShardId, rast_sharder::ShardLoad)| {
            (shard.0, load.busy * load.window.as_nanos() as f64)
        };
        seen.busy = view.used().iter().map(busy).collect();
        assert_eq!(seen.busy.len(), view.used().len(), "each shard once");
        seen.demands = view.used().iter().map(|(_, load)| load.demand).collect();
        let workers = (0..view.workers()).map(WorkerId::from_index);
        seen.windows = workers.map(|worker| view.worker_window(worker)).collect();
    }

    fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
        Decision::Move(std::mem::take(&mut self.0.lock().unwrap().moves))
    }
}

/// A sharder on this thread.
struct World {
    steps: Stepper<Turns>,
    handle: Handle,
    clock: ManualClock,
    touched: Arc<Mutex<Touched>>,
    seen: Arc<Mutex<Seen>>,
}

impl World {
    /// Starts; each shard has its first turn.
    fn new(shards: usize, workers: usize) -> Self {
        let clock = ManualClock::new();
        let touched = Arc::default();
        let seen = Arc::default();
        let turns = Turns {
            clock: clock.clone(),
            touched: Arc::clone(&touched),
        };
        let sharder = Sharder::builder(turns)
            .shards(vec![(); shards])
            .workers(workers)
            .clock(clock.clone())
            .period(Duration::ZERO)
            .balancer(Told(Arc::clone(&seen)))
            .build()
            .unwrap();
        let steps = sharder.stepper();
        let handle = steps.handle();
        let mut world = Self {
            steps,
            handle,
            clock,
            touched,
            seen,
        };
        for shard in (0..shards).map(ShardId::from_index) {
            assert!(world.steps.turn(shard), "it was acquired");
        }
        world
    }

    /// Gives a shard a turn, or several.
    fn turn(&mut self, shard: ShardId, turns: u32) {
        for _ in 0..turns {
            self.handle.wake(shard);
            self.steps.look();
            assert!(self.steps.turn(shard), "it was woken");
        }
    }

    /// Ends the window, with some moves. Shards that move have a turn.
    fn epoch(&mut self, moves: &[Move]) {
        let epochs = self.handle.stats().epochs;
        self.seen.lock().unwrap().moves = moves.to_vec();
        *self.touched.lock().unwrap() = Touched::default();
        self.handle.reshard();
        self.steps.look();
        assert_eq!(self.handle.stats().epochs, epochs + 1);
        for moved in moves {
            assert_eq!(self.steps.holder(moved.shard), Some(moved.to));
        }
    }

    fn reported(&self) -> Vec<u32> {
        let touched = self.touched.lock().unwrap();
        let mut reported: Vec<_> = touched.reported.iter().map(|shard| shard.0).collect();
        reported.sort_unstable();
        reported
    }
}

const SIZES: [usize; 3] = [10, 10_000, 100_000];

#[test]
fn an_epoch_touches_the_used_shards_alone() {
    for shards in SIZES {
        let mut world = World::new(shards, 2);
        world.epoch(&[]);
        assert_eq!(world.reported().len(), shards, "all were acquired");
        assert_eq!(world.handle.stats().last_used, shards as u64);
        // Nothing was used.
        world.epoch(&[]);
        assert_eq!(world.reported(), []);
        // Three were, one of them twice.
        for shard in [2, 7, 4, 7] {
            world.turn(ShardId(shard), 1);
        }
        let restarted = world.touched.lock().unwrap().restarted.clone();
        assert_eq!(restarted, [2, 7, 4].map(ShardId), "at the first turn");
        world.epoch(&[]);
        assert_eq!(world.reported(), [2, 4, 7]);
        assert_eq!(world.handle.stats().last_used, 3);
        let seen = world.seen.lock().unwrap();
        let turn = TURN.as_nanos() as f64;
        let used = seen.busy.iter();
        let used = used.map(|(&shard, &busy)| (shard, (busy / turn).round()));
        assert_eq!(used.collect::<Vec<_>>(), [(2, 1.0), (4, 1.0), (7, 2.0)]);
        assert!(
            seen.windows
                .iter()
                .all(|&window| window == Nanos::from_micros(40))
        );
        drop(seen);
        // A shard that moves is measured from its acquisition on, and no other is touched.
        let moved = Move {
            shard: ShardId(2),
            to: WorkerId(1),
        };
        world.epoch(&[moved]);
        assert_eq!(world.touched.lock().unwrap().restarted, [ShardId(2)]);
        assert_eq!(world.handle.stats().last_moves, 1);
        world.epoch(&[]);
        assert_eq!(world.reported(), [2]);
    }
}

#[test]
fn a_shard_that_waits_through_a_window_is_used() {
    let mut world = World::new(3, 1);
    world.epoch(&[]);
    world.handle.wake(ShardId(1));
    world.steps.look();
    world.clock.advance(TURN);
    world.epoch(&[]);
    // It had no turn, and would have used the whole worker.
    assert_eq!(world.reported(), [1]);
    assert_eq!(world.seen.lock().unwrap().demands, [1.0]);
    world.clock.advance(TURN);
    world.epoch(&[]);
    assert_eq!(world.reported(), [1], "it still waits");
    assert_eq!(world.seen.lock().unwrap().demands, [1.0]);
    assert!(world.steps.turn(ShardId(1)));
    world.epoch(&[]);
    assert_eq!(world.reported(), [1]);
    world.epoch(&[]);
    assert_eq!(world.reported(), []);
}

/// What is done in a window: turns of shards, and then moves.
type Ops = Vec<(Vec<(u32, u32)>, Vec<(u32, u16)>)>;

/// Runs the windows, and compares the loads with a model that adds up the turns of each window.
fn compare_with_sums(shards: usize, workers: usize, windows: Ops) {
    let mut world = World::new(shards, workers);
    let mut owners = Assignment::round_robin(shards, workers);
    world.epoch(&[]);
    let mut acquired = Vec::new();
    for (turns, moves) in windows {
        let mut sums = BTreeMap::new();
        // A shard that was acquired is used, with a turn or without.
        for &shard in &acquired {
            assert!(world.steps.turn(shard), "it was acquired");
            sums.insert(shard.0, 1);
        }
        for (shard, count) in turns {
            let shard = ShardId(shard % shards as u32);
            world.turn(shard, count);
            *sums.entry(shard.0).or_insert(0) += count;
        }
        let mut moves: Vec<_> = (moves.into_iter())
            .map(|(shard, to)| Move {
                shard: ShardId(shard % shards as u32),
                to: WorkerId(to % workers as u16),
            })
            .collect();
        moves.sort_by_key(|moved| moved.shard);
        moves.dedup_by_key(|moved| moved.shard);
        world.epoch(&moves);
        let seen = world.seen.lock().unwrap();
        assert_eq!(
            seen.busy.keys().collect::<Vec<_>>(),
            sums.keys().collect::<Vec<_>>(),
            "the used shards"
        );
        for (shard, turns) in sums {
            let expected = f64::from(turns) * TURN.as_nanos() as f64;
            let busy = seen.busy[&shard];
            assert!((busy - expected).abs() < 1e-3, "{busy} of {expected}");
        }
        drop(seen);
        moves.retain(|moved| owners.owner(moved.shard) != moved.to);
        owners.apply(&moves).unwrap();
        acquired = moves.iter().map(|moved| moved.shard).collect();
    }
    let published = world.handle.assignment().assignment.clone();
    assert_eq!(published, owners);
    let outcome = world.steps.finish();
    assert_eq!(outcome.report.assignment, owners);
    assert_eq!(outcome.report.rejections, Vec::<String>::new());
    assert_eq!(outcome.report.panics, []);
}

fn windows(count: usize, shards: u32) -> impl Strategy<Value = Ops> {
    let turns = prop::collection::vec((0..shards, 1_u32..4), 0..6);
    let moves = prop::collection::vec((0..shards, 0_u16..4), 0..4);
    prop::collection::vec((turns, moves), count)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn loads_of_ten_shards_are_the_sums_of_their_windows(
        workers in 1_usize..4,
        ops in windows(20, 10),
    ) {
        compare_with_sums(10, workers, ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn loads_of_ten_thousand_shards_are_the_sums_of_their_windows(
        ops in windows(20, 10_000),
    ) {
        compare_with_sums(10_000, 3, ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn loads_of_a_hundred_thousand_shards_are_the_sums_of_their_windows(
        ops in windows(12, 100_000),
    ) {
        compare_with_sums(100_000, 2, ops);
    }
}

#[test]
fn moves_that_are_wrong_are_refused() {
    let mut world = World::new(4, 2);
    let to = |shard, worker| Move {
        shard: ShardId(shard),
        to: WorkerId(worker),
    };
    for moves in [
        [to(0, 1), to(0, 0)],
        [to(0, 1), to(4, 0)],
        [to(0, 1), to(1, 2)],
    ] {
        world.seen.lock().unwrap().moves = moves.to_vec();
        world.handle.reshard();
        world.steps.look();
    }
    let outcome = world.steps.finish();
    assert_eq!(outcome.report.assignment, Assignment::round_robin(4, 2));
    assert_eq!(
        outcome.report.rejections,
        [
            "the balancer moved shard 0 twice",
            "shard 4 is moved, of 4",
            "shard 1 is given to worker 2 of 2"
        ]
    );
}
