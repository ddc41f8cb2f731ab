//! A stop ends `run` from any thread, in any state: a thousand moments.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rast_sharder::primitive::{Random, WaitStrategy};
use rast_sharder::{Assignment, Balancer, Decision, Handle, LoadView, Progress, ShardId, Sharder};

use crate::support::{Rotate, hooks};

/// Stops after so many events, no matter which thread counts them.
#[derive(Clone)]
struct Fuse {
    left: Arc<AtomicU64>,
}

impl Fuse {
    fn new(events: u64) -> Self {
        Self {
            left: Arc::new(AtomicU64::new(events)),
        }
    }

    /// Counts an event; tells whether it is the one.
    fn burns(&self) -> bool {
        self.left.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

/// Rotates, and stops from within the balancer.
struct StopFromBalancer {
    fuse: Fuse,
    handle: Arc<std::sync::OnceLock<Handle>>,
    in_begin: bool,
}

impl Balancer for StopFromBalancer {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {
        if self.in_begin && self.fuse.burns() {
            self.handle.get().expect("the handle is set").stop();
        }
    }

    fn step(&mut self, view: &LoadView, now: &Assignment, budget: usize) -> Decision {
        if !self.in_begin && self.fuse.burns() {
            self.handle.get().expect("the handle is set").stop();
        }
        Rotate.step(view, now, budget)
    }
}

/// Where the stop comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    BeforeRun,
    Process,
    Acquire,
    Release,
    BeforeTurn,
    OnWake,
    Report,
    BalancerBegin,
    BalancerStep,
    AnotherThread,
    AnotherThreadWhileAllSleep,
}

const ALL: [From; 11] = [
    From::BeforeRun,
    From::Process,
    From::Acquire,
    From::Release,
    From::BeforeTurn,
    From::OnWake,
    From::Report,
    From::BalancerBegin,
    From::BalancerStep,
    From::AnotherThread,
    From::AnotherThreadWhileAllSleep,
];

fn one_moment(seed: u64) {
    let mut random = Random::new(seed);
    let from = ALL[random.below(ALL.len())];
    // With one worker nothing moves.
    let least = if matches!(from, From::Acquire | From::Release) {
        2
    } else {
        1
    };
    let mut workers = least + random.below(3);
    let shards = workers + random.below(4);
    let wait = match random.below(8) {
        0 => WaitStrategy::Spin,
        1..4 => WaitStrategy::Adaptive,
        _ => WaitStrategy::Park,
    };
    if wait == WaitStrategy::Spin {
        // Those that spin are for cores of their own.
        workers = least;
    }
    let events = 1 + random.draw() % 20;
    println!("{from:?} workers={workers} shards={shards} {wait:?} events={events}");
    let fuse = Fuse::new(events);
    let cell: Arc<std::sync::OnceLock<Handle>> = Arc::default();
    let stop_of = |place: From| {
        let (fuse, cell) = (fuse.clone(), cell.clone());
        move || {
            if from == place && fuse.burns() {
                cell.get().expect("the handle is set").stop();
            }
        }
    };

    let mut script = hooks();
    let sleeps = from == From::AnotherThreadWhileAllSleep;
    let stop = stop_of(From::Process);
    script.process = Box::new(move |cx, shard, turns| {
        *turns += 1;
        stop();
        if sleeps {
            return Progress::Idle;
        }
        cx.reshard();
        // Epochs need all workers, and there are more of them than cores.
        std::thread::yield_now();
        let neighbour = ShardId::from_index((shard.index() + 1) % shards);
        cx.wake(neighbour, 0);
        Progress::Again
    });
    let stop = stop_of(From::Acquire);
    script.on_acquire = Box::new(move |_, _| stop());
    let stop = stop_of(From::Release);
    script.on_release = Box::new(move |_, _| stop());
    let stop = stop_of(From::BeforeTurn);
    script.before_turn = Box::new(move |_| stop());
    let stop = stop_of(From::OnWake);
    script.on_wake = Box::new(move |_, _| stop());
    let stop = stop_of(From::Report);
    script.report = Box::new(move |_| stop());

    let is_balancer = matches!(from, From::BalancerBegin | From::BalancerStep);
    let balancer = StopFromBalancer {
        fuse: if is_balancer {
            fuse.clone()
        } else {
            Fuse::new(u64::MAX)
        },
        handle: cell.clone(),
        in_begin: from == From::BalancerBegin,
    };
    let sharder = Sharder::builder(script)
        .shards(vec![0; shards])
        .workers(workers)
        .wait(wait)
        .period(Duration::ZERO)
        .balancer(balancer)
        .build()
        .expect("it builds");
    let handle = sharder.handle();
    cell.set(handle.clone()).expect("it is set once");
    if from == From::BeforeRun {
        handle.stop();
    }
    let stopper =
        matches!(from, From::AnotherThread | From::AnotherThreadWhileAllSleep).then(|| {
            std::thread::spawn(move || {
                let is_due = |handle: &Handle| {
                    let stats = handle.stats();
                    if sleeps && wait != WaitStrategy::Spin {
                        stats.workers.iter().all(|worker| worker.turns > 0)
                    } else {
                        stats
                            .workers
                            .iter()
                            .map(|worker| worker.rounds)
                            .sum::<u64>()
                            >= events
                    }
                };
                while !is_due(&handle) {
                    std::thread::yield_now();
                }
                handle.stop();
            })
        });
    let outcome = sharder.run().expect("a stop is no error");
    if let Some(stopper) = stopper {
        stopper.join().expect("the stopper ends");
    }
    assert_eq!(outcome.shards.len(), shards);
    assert_eq!(outcome.report.panics, []);
}

#[test]
fn a_stop_ends_the_run_at_a_thousand_moments() {
    for seed in 1..=1_000_u64 {
        // Shown when the run hangs or fails.
        println!("seed {seed}");
        one_moment(seed);
    }
}
