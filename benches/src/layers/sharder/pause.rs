//! Epochs beside idle shards: how long an epoch keeps a worker from its turns, and how long it
//! takes.
//!
//! Neither should depend on the number of idle shards. The first epochs do not count: in them,
//! every shard is new to its worker, or has run shortly before.

use std::time::{Duration, Instant};

use rast::primitive::WaitStrategy;
use rast::sharder::{Balancer, Controller, Greedy, Progress, ShardId, Sharder, WorkerCx};
use rast::timers::Nanos;

use super::{Keep, LAYER, run};
use crate::harness::Scenario;
use crate::workers::Sample;

/// Turns of the busy shard between two epochs.
const TURNS: u32 = 64;

/// The last epoch that does not count. Every shard has a turn in the first window, and `Greedy`
/// considers a shard for up to 20 windows after its last turn.
const SETTLED: u32 = 24;

/// Shard 0 is always busy and requests an epoch every [`TURNS`] turns. As many shards are busy as
/// there are workers; the others are idle.
struct Pauses {
    epochs: usize,
    busy: usize,
}

/// What shard 0 saw.
#[derive(Default)]
struct Watch {
    epoch: u32,
    /// Turns in this epoch.
    turns: u32,
    last: Option<Instant>,
    /// The longest time between two turns in this epoch.
    longest: Duration,
    /// The longest time of each epoch.
    pauses: Vec<Duration>,
    /// When the first epoch that counts was seen, and the last one.
    span: Option<(Instant, Instant)>,
}

impl Controller for Pauses {
    type Shard = Watch;
    type Load = u64;

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        watch: &mut Watch,
        _: Option<&mut u64>,
    ) -> Progress {
        if shard.index() >= self.busy {
            return Progress::Idle;
        }
        if shard.0 > 0 {
            return Progress::Again;
        }
        let now = Instant::now();
        if let Some(last) = watch.last.replace(now) {
            watch.longest = watch.longest.max(now - last);
        }
        if cx.epoch() != watch.epoch {
            watch.epoch = cx.epoch();
            watch.turns = 0;
            let pause = std::mem::take(&mut watch.longest);
            if watch.epoch > SETTLED {
                watch.pauses.push(pause);
                let span = watch.span.get_or_insert((now, now));
                span.1 = now;
            }
            if watch.pauses.len() > self.epochs {
                cx.stop();
            }
        }
        watch.turns += 1;
        if watch.turns == TURNS {
            cx.reshard();
        }
        Progress::Again
    }

    fn new_load(&self, _: ShardId) -> u64 {
        0
    }
}

/// Runs some epochs; returns what shard 0 saw.
fn watch(shards: usize, workers: usize, epochs: u64, balancer: impl Balancer) -> Watch {
    let controller = Pauses {
        epochs: usize::try_from(epochs).expect("few epochs"),
        busy: workers,
    };
    let builder = Sharder::builder(controller)
        .shards((0..shards).map(|_| Watch::default()).collect())
        .workers(workers)
        .wait(WaitStrategy::Adaptive)
        .period(Duration::ZERO)
        .balancer(balancer);
    run(builder).swap_remove(0)
}

/// The median of the longest time between two turns of an epoch, on one worker. The balancer is
/// `Keep`, because `Greedy` would need no figures with one worker.
fn pause(shards: usize, epochs: u64) -> Sample {
    let mut pauses = watch(shards, 1, epochs, Keep).pauses;
    pauses.sort_unstable();
    let of = |share: f64| {
        let at = ((pauses.len() - 1) as f64 * share) as usize;
        pauses[at].as_nanos() as f64
    };
    let sum = pauses.iter().sum();
    Sample::new(pauses.len() as u64, sum)
        .with("p99, us", of(0.99) / 1e3)
        .judged_by(of(0.5))
}

/// The time of an epoch on two workers, with `Greedy` and 64 turns of a shard.
fn epoch(shards: usize, epochs: u64) -> Sample {
    let greedy = Greedy::new().least_window(Nanos::from_nanos(1));
    let watch = watch(shards, 2, epochs, greedy);
    let (start, end) = watch.span.expect("some epochs count");
    Sample::new(watch.pauses.len() as u64 - 1, end - start).by(2)
}

/// The scenarios of epochs beside idle shards.
pub(super) fn scenarios() -> Vec<Scenario> {
    let pause = |shards| move |epochs| pause(shards, epochs);
    let epoch = |shards| move |epochs| epoch(shards, epochs);
    vec![
        Scenario::new(LAYER, "pause of an epoch, one worker", 1_000, 10)
            .ours("rast Sharder, of 10 shards", pause(10))
            .ours("rast Sharder, of 10,000", pause(10_000))
            .ours("rast Sharder, of 100,000", pause(100_000)),
        Scenario::new(LAYER, "epoch beside idle shards, two workers", 1_000, 10)
            .ours("rast Greedy, of 10 shards", epoch(10))
            .ours("rast Greedy, of 10,000", epoch(10_000))
            .ours("rast Greedy, of 100,000", epoch(100_000)),
    ]
}
