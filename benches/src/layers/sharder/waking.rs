//! Wake-ups: the cost of a round trip between two shards, and the cost of idle shards.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rast::primitive::{CachePadded, Parker, WaitStrategy};
use rast::sharder::{Controller, Handle, Progress, ShardId, Sharder, Static, WorkerCx};

use super::LAYER;
use crate::crossing;
use crate::harness::Scenario;
use crate::usage::processor_time;
use crate::workers::Sample;

/// Catches of shard 0 that do not count. After them, all other shards have had their first turn.
const WARM_UP: u64 = 1000;

/// Shards 0 and 1 throw a ball to each other; the others are busy or idle.
struct Throw {
    balls: [CachePadded<AtomicU64>; 2],
    rounds: u64,
    /// The shards from this one on are idle.
    busy: u32,
}

/// When shard 0 or 1 caught its first and its last ball that counts.
#[derive(Default)]
struct Catcher {
    caught: u64,
    began: Option<Instant>,
    ended: Option<Instant>,
}

impl Controller for Throw {
    type Shard = Catcher;
    type Load = ();

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        catcher: &mut Catcher,
        _: Option<&mut ()>,
    ) -> Progress {
        if shard.0 > 1 {
            return match shard.0 < self.busy {
                true => Progress::Again,
                false => Progress::Idle,
            };
        }
        let ball = &self.balls[shard.index()];
        if ball.load(Ordering::Relaxed) == 0 {
            return Progress::Idle;
        }
        ball.store(0, Ordering::Relaxed);
        let now = |at: &mut Option<Instant>| *at = Some(Instant::now());
        catcher.caught += 1;
        match catcher.caught {
            WARM_UP => now(&mut catcher.began),
            caught if caught == WARM_UP + self.rounds => {
                now(&mut catcher.ended);
                cx.stop();
                return Progress::Idle;
            }
            _ => {}
        }
        let other = 1 - shard.0;
        self.balls[other as usize].store(1, Ordering::Relaxed);
        cx.wake(ShardId(other), 0);
        Progress::Idle
    }

    fn new_load(&self, _: ShardId) {}
}

/// Round trips between shard 0 and shard 1 on so many workers, beside other shards.
fn round_trips(workers: usize, wait: WaitStrategy, busy: u32, idle: u32, rounds: u64) -> Sample {
    let shards = 2 + busy + idle;
    let throw = Throw {
        balls: [1, 0].map(|ball| CachePadded::new(AtomicU64::new(ball))),
        rounds,
        busy: 2 + busy,
    };
    let sharder = Sharder::builder(throw)
        .shards((0..shards).map(|_| Catcher::default()).collect())
        .workers(workers)
        .wait(wait)
        .period(Duration::ZERO)
        .balancer(Static)
        .pin_threads()
        .build()
        .expect("a valid sharder");
    // On a thread of its own, which stays on its processor.
    let outcome = thread::spawn(|| {
        sharder
            .run()
            .unwrap_or_else(|_| panic!("the sharder failed"))
    });
    let shards = outcome.join().expect("it does not panic").shards;
    let catcher = &shards[0].state;
    let (began, ended) = (
        catcher.began.expect("it began"),
        catcher.ended.expect("it ended"),
    );
    Sample::new(rounds, ended - began).by(workers)
}

/// Counts the turns of shard 0.
struct Echo(Arc<AtomicU64>);

impl Controller for Echo {
    type Shard = u64;
    type Load = ();

    fn process(
        &self,
        _: &mut WorkerCx<'_>,
        shard: ShardId,
        turns: &mut u64,
        _: Option<&mut ()>,
    ) -> Progress {
        if shard.0 == 0 {
            *turns += 1;
            self.0.store(*turns, Ordering::Release);
        }
        Progress::Idle
    }

    fn new_load(&self, _: ShardId) {}
}

/// Runs `work` beside a sharder whose shards are idle.
fn beside_idle(shards: usize, work: impl FnOnce(&Handle, &AtomicU64) -> Sample) -> Sample {
    let turns = Arc::new(AtomicU64::new(0));
    let sharder = Sharder::builder(Echo(turns.clone()))
        .shards(vec![0; shards])
        .workers(1)
        .wait(WaitStrategy::Park)
        .build()
        .expect("a valid sharder");
    let handle = sharder.handle();
    let running = thread::spawn(|| drop(sharder.run()));
    while handle.stats().workers[0].parks == 0 {
        thread::yield_now();
    }
    let sample = work(&handle, &turns);
    handle.stop();
    running.join().expect("it runs");
    sample
}

/// Wakes a shard whose worker sleeps, and waits for its turn.
fn wakes_from_outside(ops: u64) -> Sample {
    beside_idle(2, |handle, turns| {
        let start = Instant::now();
        for _ in 0..ops {
            let before = turns.load(Ordering::Acquire);
            handle.wake(ShardId(0));
            while turns.load(Ordering::Acquire) == before {
                spin_loop();
            }
        }
        Sample::new(ops, start.elapsed())
    })
}

/// Unparks a thread that sleeps, and waits until it has run.
fn unparks(ops: u64) -> Sample {
    let turns = Arc::new(AtomicU64::new(0));
    let theirs = turns.clone();
    let parker = Parker::new();
    let unparker = parker.unparker();
    let other = thread::spawn(move || {
        for turn in 1..=ops {
            parker.park();
            theirs.store(turn, Ordering::Release);
        }
    });
    let start = Instant::now();
    for turn in 1..=ops {
        unparker.unpark();
        while turns.load(Ordering::Acquire) != turn {
            spin_loop();
        }
    }
    let elapsed = start.elapsed();
    other.join().expect("it wakes");
    Sample::new(ops, elapsed)
}

/// The processor time of the process per second while ten thousand shards are idle.
fn idle(_: u64) -> Sample {
    const SPAN: Duration = Duration::from_millis(300);
    beside_idle(10_000, |_, _| {
        let before = processor_time();
        thread::sleep(SPAN);
        let used = processor_time() - before;
        Sample::new(1, used).judged_by(used.as_nanos() as f64 / SPAN.as_secs_f64())
    })
}

/// The scenarios of waking.
pub(super) fn scenarios() -> Vec<Scenario> {
    let here = |idle| move |ops| round_trips(1, WaitStrategy::Spin, 0, idle, ops);
    let across = |wait, busy| move |ops| round_trips(2, wait, busy, 0, ops);
    vec![
        Scenario::new(
            LAYER,
            "round trip on one worker, beside idle shards",
            2_000_000,
            200,
        )
        .ours("beside 10,000", here(10_000))
        .ours("beside 100,000", here(100_000))
        .ours("beside 10", here(10)),
        Scenario::new(LAYER, "round trip across two workers", 500_000, 100)
            .ours("rast Sharder, spinning", across(WaitStrategy::Spin, 0))
            .ours(
                "rast Sharder, beside 64 busy shards",
                across(WaitStrategy::Spin, 64),
            )
            .ours("rast Sharder, adaptive", across(WaitStrategy::Adaptive, 0))
            .rival("two threads and two lines", crossing::spinning),
        Scenario::new(LAYER, "wake-up from outside", 20_000, 20)
            .ours("rast Handle::wake", wakes_from_outside)
            .rival("rast Unparker", unparks),
        Scenario::new(
            LAYER,
            "processor time of 10,000 idle shards, in a second",
            1,
            1,
        )
        .ours("rast Sharder", idle),
    ]
}
