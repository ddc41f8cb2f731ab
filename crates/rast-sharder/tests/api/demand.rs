//! Loads are demand: what a shard would use, not what its worker had left for it.

use std::sync::{Arc, Mutex};

use rast_sharder::timers::{ManualClock, Nanos};
use rast_sharder::{
    Assignment, Balancer, Controller, Decision, Greedy, LoadReport, LoadView, Progress, ShardId,
    Sharder, WorkerCx, WorkerId,
};

const SHARDS: usize = 32;

/// Every shard always has something to do: a turn, which returns how long it took.
struct Turns<F>(F);

impl<F: Fn(&mut WorkerCx<'_>) -> Nanos + Send + Sync + 'static> Controller for Turns<F> {
    type Shard = ();
    type Load = Nanos;

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        _: ShardId,
        (): &mut (),
        load: Option<&mut Nanos>,
    ) -> Progress {
        let took = (self.0)(cx);
        if let Some(load) = load {
            *load = load.saturating_add(took);
        }
        Progress::Again
    }

    fn new_load(&self, _: ShardId) -> Nanos {
        Nanos::ZERO
    }

    fn report(&self, _: ShardId, load: &Nanos, out: &mut LoadReport<'_>) {
        out.busy(*load);
    }
}

/// A turn of some microseconds.
fn spin(cx: &mut WorkerCx<'_>) -> Nanos {
    let start = cx.clock().now();
    let end = start.saturating_add(Nanos::from_micros(2));
    while cx.clock().now() < end {
        std::hint::spin_loop();
    }
    cx.clock().now().saturating_since(start)
}

/// The moves of each decision of `Greedy`; ends the run after some.
struct Watched {
    greedy: Greedy,
    moves: Arc<Mutex<Vec<usize>>>,
    decisions: usize,
    stop: rast_sharder::Handle,
}

/// A balancer whose sharder exists only later.
struct Late(Arc<Mutex<Option<Watched>>>);

impl Balancer for Late {
    fn begin(&mut self, view: &LoadView, now: &Assignment) {
        if let Some(watched) = &mut *self.0.lock().unwrap() {
            watched.greedy.begin(view, now);
        }
    }

    fn step(&mut self, view: &LoadView, now: &Assignment, budget: usize) -> Decision {
        let mut watched = self.0.lock().unwrap();
        let Some(watched) = &mut *watched else {
            return Decision::Keep;
        };
        let decision = watched.greedy.step(view, now, budget);
        let moved = match &decision {
            Decision::Pending => return decision,
            Decision::Keep => 0,
            Decision::Adopt(next) => next.moved_from(now),
            Decision::Move(moves) => moves.len(),
        };
        let mut moves = watched.moves.lock().unwrap();
        moves.push(moved);
        if moves.len() == watched.decisions {
            watched.stop.stop();
        }
        decision
    }
}

/// Runs shards that are always busy; returns the moves of each decision, and the shards of
/// worker 0 at the end.
fn run_busy(at_worker_1: usize, decisions: usize) -> (Vec<usize>, usize) {
    let owner = |shard| WorkerId::from_index(usize::from(shard < at_worker_1));
    let owners = (0..SHARDS).map(owner).collect();
    let watched = Arc::new(Mutex::new(None));
    let sharder = Sharder::builder(Turns(spin))
        .shards(vec![(); SHARDS])
        .workers(2)
        .assignment(Assignment::new(owners, 2).unwrap())
        .period(std::time::Duration::from_millis(5))
        .balancer(Late(watched.clone()))
        .build()
        .unwrap();
    let moves = Arc::new(Mutex::new(Vec::new()));
    *watched.lock().unwrap() = Some(Watched {
        greedy: Greedy::new(),
        moves: moves.clone(),
        decisions,
        stop: sharder.handle(),
    });
    let outcome = sharder.run().unwrap();
    let of_worker_0 = outcome.report.assignment.shards_of(WorkerId(0)).count();
    let moves = moves.lock().unwrap().clone();
    (moves, of_worker_0)
}

#[test]
fn two_saturated_workers_do_not_look_alike() {
    let (moves, of_worker_0) = run_busy(1, 10);
    assert!(moves[..3].iter().sum::<usize>() > 0, "{moves:?}");
    assert_eq!(moves[5..], [0; 5], "it settles");
    assert!((14..=18).contains(&of_worker_0), "{of_worker_0} {moves:?}");
}

#[test]
fn a_uniform_load_that_saturates_settles_to_no_moves() {
    let (moves, of_worker_0) = run_busy(SHARDS / 2, 10);
    assert_eq!((moves, of_worker_0), (vec![0; 10], SHARDS / 2));
}

/// Keeps the loads of the first decision.
struct Look(Arc<Mutex<Option<(f64, f64)>>>);

impl Balancer for Look {
    fn begin(&mut self, view: &LoadView, _: &Assignment) {
        let shard = ShardId(0);
        let loads = (view.busy(shard), view.demand(shard));
        self.0.lock().unwrap().get_or_insert(loads);
    }

    fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
        Decision::Keep
    }
}

#[test]
fn time_in_which_the_thread_did_not_run_is_no_load() {
    let (clock, thread) = (ManualClock::new(), ManualClock::new());
    let loads = Arc::new(Mutex::new(None));
    let (by_clock, by_thread) = (clock.clone(), thread.clone());
    // Each turn takes 10 µs by the clock, in which the thread runs for 4 µs.
    let sharder = Sharder::builder(Turns(move |cx: &mut WorkerCx<'_>| {
        by_clock.advance(Nanos::from_micros(10));
        by_thread.advance(Nanos::from_micros(4));
        cx.reshard();
        Nanos::from_micros(10)
    }))
    .shards(vec![()])
    .workers(1)
    .clock(clock)
    .thread_clock(thread)
    .balancer(Look(loads.clone()))
    .build()
    .unwrap();
    let handle = sharder.handle();
    let run = std::thread::spawn(move || sharder.run().unwrap());
    while loads.lock().unwrap().is_none() {
        std::thread::yield_now();
    }
    handle.stop();
    run.join().unwrap();
    let (busy, demand) = loads.lock().unwrap().unwrap();
    assert!((busy - 0.4).abs() < 1e-9, "{busy}");
    // It never rests, so it would take a whole worker.
    assert!((demand - 1.0).abs() < 1e-9, "{demand}");
}
