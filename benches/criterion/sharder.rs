//! rast-sharder: turns of one worker, and epochs.
//!
//! Each measurement runs a sharder of its own on the thread of the bench.
//! The time runs from its first turn to its last one, without the start and the end of the sharder.

mod settings;

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use criterion::Throughput;
use rast::sharder::{Controller, Progress, ShardId, Sharder, Static, WorkerCx};

fn main() {
    settings::run("sharder", |group| {
        for (name, busy, idle) in [("turns_16_busy", 16, 0), ("turns_1_busy_63_idle", 1, 63)] {
            group.throughput(Throughput::Elements(busy as u64));
            group.bench_function(name, |bencher| {
                bencher.iter_custom(|rounds| turns(busy, idle, rounds));
            });
        }
        group.throughput(Throughput::Elements(1));
        group.bench_function("epoch_16_shards", |bencher| bencher.iter_custom(epochs));
    });
}

/// A shard with a number of turns to take, of which an idle one has none.
#[derive(Clone, Default)]
struct Shard {
    left: u64,
    value: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// Gives each shard its turns and stops after the last one.
struct Turns {
    unfinished: AtomicUsize,
}

impl Controller for Turns {
    type Shard = Shard;
    type Load = ();

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        _: ShardId,
        shard: &mut Shard,
        _: Option<&mut ()>,
    ) -> Progress {
        if shard.left == 0 {
            return Progress::Idle;
        }
        if shard.first.is_none() {
            shard.first = Some(Instant::now());
        }
        shard.value = black_box(shard.value.wrapping_add(shard.left));
        shard.left -= 1;
        if shard.left == 0 {
            shard.last = Some(Instant::now());
            if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
                cx.stop();
            }
        }
        Progress::Again
    }

    fn new_load(&self, _: ShardId) {}
}

/// `rounds` turns of each busy shard, while the idle ones have nothing to do.
fn turns(busy: usize, idle: usize, rounds: u64) -> Duration {
    let mut shards = vec![Shard::default(); busy + idle];
    for shard in &mut shards[..busy] {
        shard.left = rounds;
    }
    let controller = Turns {
        unfinished: AtomicUsize::new(busy),
    };
    let ended = run(controller, shards);
    let first = ended.iter().filter_map(|shard| shard.first).min();
    let last = ended.iter().filter_map(|shard| shard.last).max();
    last.expect("it ended") - first.expect("it began")
}

/// Asks for the next epoch as soon as shard 0 sees one, until there were enough.
struct Epochs {
    wanted: u64,
}

/// What shard 0 saw.
#[derive(Clone, Default)]
struct Seen {
    epoch: Option<u32>,
    count: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Controller for Epochs {
    type Shard = Seen;
    type Load = ();

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        seen: &mut Seen,
        _: Option<&mut ()>,
    ) -> Progress {
        if shard == ShardId(0) && seen.epoch != Some(cx.epoch()) {
            seen.epoch = Some(cx.epoch());
            let now = Instant::now();
            seen.first.get_or_insert(now);
            seen.last = Some(now);
            if seen.count == self.wanted {
                cx.stop();
            } else {
                seen.count += 1;
                cx.reshard();
            }
        }
        Progress::Again
    }

    fn new_load(&self, _: ShardId) {}
}

/// `rounds` epochs of 16 busy shards, none of which moves.
fn epochs(rounds: u64) -> Duration {
    let ended = run(Epochs { wanted: rounds }, vec![Seen::default(); 16]);
    let seen = &ended[0];
    seen.last.expect("it ended") - seen.first.expect("it began")
}

/// Runs one worker on this thread until the controller stops it; epochs begin on request alone.
fn run<C: Controller>(controller: C, shards: Vec<C::Shard>) -> Vec<C::Shard> {
    let outcome = Sharder::builder(controller)
        .shards(shards)
        .workers(1)
        .period(Duration::ZERO)
        .balancer(Static)
        .build()
        .expect("a valid sharder")
        .run()
        .unwrap_or_else(|_| panic!("the sharder runs to its end"));
    outcome.shards.into_iter().map(|exit| exit.state).collect()
}
