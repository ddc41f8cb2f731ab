//! Tokens that go from shard to shard while shards move at every epoch and idle workers sleep
//! without limit: a lost wake-up stops a token for ever, and the test hangs.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use rast_sharder::primitive::{Random, WaitStrategy};
use rast_sharder::{
    Assignment, Balancer, Builder, Controller, Decision, LoadView, Progress, ShardId, Sharder,
    WorkerCx, WorkerId,
};

/// Passes tokens on. Nothing but the wake-ups orders the mail.
struct Storm {
    mail: Vec<AtomicU64>,
    hops: AtomicI64,
    tokens: u64,
    done: AtomicU64,
}

impl Controller for Storm {
    type Shard = Random;
    type Load = ();

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        random: &mut Random,
        _: Option<&mut ()>,
    ) -> Progress {
        let tokens = self.mail[shard.index()].swap(0, Ordering::Relaxed);
        for _ in 0..tokens {
            if self.hops.fetch_sub(1, Ordering::Relaxed) > 0 {
                let to = random.below(self.mail.len());
                self.mail[to].fetch_add(1, Ordering::Relaxed);
                cx.wake(ShardId::from_index(to), to as u32);
            } else if self.done.fetch_add(1, Ordering::Relaxed) + 1 == self.tokens {
                cx.stop();
            }
        }
        Progress::Idle
    }

    fn new_load(&self, _: ShardId) {}

    fn before_turn(&self, cx: &mut WorkerCx<'_>) {
        cx.reshard();
    }

    fn on_wake(&self, shard: ShardId, _: &mut Random, note: Option<u32>) {
        assert!(
            note.is_none_or(|note| note == shard.0),
            "a note finds its shard"
        );
    }
}

/// Moves a share of the shards that are not at dedicated workers, other ones each time.
struct Shuffle {
    random: Random,
    /// One in so many moves.
    share: u64,
}

impl Balancer for Shuffle {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, view: &LoadView, now: &Assignment, _: usize) -> Decision {
        let owners = now.owners().iter().map(|&owner| {
            let is_drawn = self.random.draw().is_multiple_of(self.share);
            match is_drawn && !view.is_dedicated(owner) {
                true => WorkerId(self.random.below(SHARED) as u16),
                false => owner,
            }
        });
        Decision::Adopt(Assignment::new(owners.collect(), now.workers()).expect("they exist"))
    }
}

/// The workers that are not dedicated.
const SHARED: usize = 3;

fn storm(shards: usize, dedicated: usize, share: u64, hops: i64, wait: WaitStrategy, seed: u64) {
    println!("{shards} shards, {dedicated} dedicated workers, {wait:?}, seed {seed:#x}");
    const TOKENS: u64 = 40;
    let mut random = Random::new(seed);
    let storm = Storm {
        mail: (0..shards).map(|_| AtomicU64::new(0)).collect(),
        hops: AtomicI64::new(hops),
        tokens: TOKENS,
        done: AtomicU64::new(0),
    };
    let storm = std::sync::Arc::new(storm);
    let builder = Sharder::builder(Shared(storm.clone()))
        .shards((0..shards).map(|_| Random::new(random.draw())).collect())
        .workers(SHARED + dedicated)
        .wait(wait)
        .period(Duration::ZERO)
        .balancer(Shuffle {
            random: Random::new(seed),
            share,
        });
    let dedicated = (SHARED..SHARED + dedicated).map(WorkerId::from_index);
    let sharder = dedicated.fold(builder, Builder::dedicate);
    let sharder = sharder.build().expect("it builds");
    let handle = sharder.handle();
    let outside = std::thread::spawn(move || {
        for _ in 0..TOKENS {
            let to = random.below(shards);
            storm.mail[to].fetch_add(1, Ordering::Relaxed);
            handle.wake(ShardId::from_index(to));
            std::thread::yield_now();
        }
    });
    let outcome = sharder.run().expect("it runs");
    outside.join().expect("the outside finds nothing wrong");
    assert_eq!(outcome.report.panics, []);
    assert!(outcome.report.rejections.is_empty(), "{:?}", outcome.report);
}

/// The storm, reached from outside.
struct Shared(std::sync::Arc<Storm>);

impl Controller for Shared {
    type Shard = Random;
    type Load = ();

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        random: &mut Random,
        load: Option<&mut ()>,
    ) -> Progress {
        self.0.process(cx, shard, random, load)
    }

    fn new_load(&self, _: ShardId) {}

    fn before_turn(&self, cx: &mut WorkerCx<'_>) {
        self.0.before_turn(cx);
    }

    fn on_wake(&self, shard: ShardId, random: &mut Random, note: Option<u32>) {
        self.0.on_wake(shard, random, note);
    }
}

#[test]
fn no_wake_up_is_lost_among_ten_shards() {
    for (at, wait) in [WaitStrategy::Park, WaitStrategy::Adaptive]
        .into_iter()
        .enumerate()
    {
        for seed in 1..=10 {
            storm(10, 0, 2, 5_000, wait, seed * 0x9e37_79b9 + at as u64);
        }
    }
}

#[test]
fn no_wake_up_is_lost_between_dedicated_workers_and_others() {
    for seed in 1..=10 {
        let seed = seed * 0x9e37_79b9;
        storm(20, 2, 2, 5_000, WaitStrategy::Park, seed);
        storm(20, 2, 2, 5_000, WaitStrategy::Adaptive, seed + 1);
    }
}

#[test]
fn no_wake_up_is_lost_among_ten_thousand_shards() {
    for seed in 1..=2 {
        storm(
            10_000,
            0,
            10,
            20_000,
            WaitStrategy::Park,
            seed * 0x9e37_79b9,
        );
    }
}

#[test]
fn no_wake_up_is_lost_among_a_hundred_thousand_shards() {
    storm(100_000, 0, 100, 10_000, WaitStrategy::Adaptive, 0x9e37_79b9);
}
