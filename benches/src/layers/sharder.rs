//! rast-sharder: the cost of a turn compared with a bare loop, and the cost of an epoch.
//!
//! The bare loops own their shards to the end. They have no epochs, no stop and no contained
//! panics. The difference is what these cost in the sharder.

mod pause;
mod waking;

use rast::primitive::Random;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rast::sharder::{
    Assignment, Balancer, Builder, Controller, Decision, Greedy, LoadView, Progress, ShardId,
    Sharder, WorkerCx, WorkerId,
};
use rast::timers::Nanos;

use crate::harness::Scenario;
use crate::workers::{Job, Sample, together};

const LAYER: &str = "sharder";
const SHARDS: usize = 16;

/// A shard that takes a number of turns; it records the times of the first and the last.
struct Turns {
    left: u64,
    value: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Turns {
    fn new(left: u64) -> Self {
        Self {
            left,
            value: 1,
            first: None,
            last: None,
        }
    }

    /// One turn; true at the last one.
    #[inline]
    fn turn(&mut self) -> bool {
        if self.first.is_none() {
            self.first = Some(Instant::now());
        }
        self.value = black_box(
            self.value
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(7),
        );
        self.left -= 1;
        if self.left == 0 {
            self.last = Some(Instant::now());
        }
        self.left == 0
    }
}

/// Gives every shard its turns and stops when the last shard has had them.
struct TakeTurns {
    unfinished: AtomicUsize,
}

impl Controller for TakeTurns {
    type Shard = Turns;
    type Load = u64;

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        _: ShardId,
        turns: &mut Turns,
        load: Option<&mut u64>,
    ) -> Progress {
        if turns.left == 0 {
            return Progress::Idle;
        }
        if let Some(load) = load {
            *load += 1;
        }
        if turns.turn() && self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            cx.stop();
        }
        Progress::Again
    }

    fn new_load(&self, _: ShardId) -> u64 {
        0
    }
}

/// Runs a sharder to its end; returns its shards.
fn run<C: Controller>(builder: Builder<C>) -> Vec<C::Shard> {
    let sharder = builder.build().expect("a valid sharder");
    let outcome = sharder.run();
    let outcome = outcome.unwrap_or_else(|_| panic!("the sharder failed"));
    outcome.shards.into_iter().map(|exit| exit.state).collect()
}

/// Turns of 16 shards under the sharder; a period of zero never reshards.
fn turns(workers: usize, period: Duration, ops: u64) -> Sample {
    let each = ops / SHARDS as u64;
    turns_of(vec![each; SHARDS], workers, period)
}

/// Turns of one shard, beside a number of idle ones.
fn turns_beside(idle: usize, ops: u64) -> Sample {
    let mut each = vec![0; 1 + idle];
    each[0] = ops;
    turns_of(each, 1, Duration::ZERO)
}

/// Gives each shard its number of turns.
fn turns_of(each: Vec<u64>, workers: usize, period: Duration) -> Sample {
    let ops = each.iter().sum();
    let controller = TakeTurns {
        unfinished: AtomicUsize::new(each.iter().filter(|&&turns| turns > 0).count()),
    };
    let builder = Sharder::builder(controller)
        .shards(each.into_iter().map(Turns::new).collect())
        .workers(workers)
        .period(period);
    let ended = run(builder);
    let first = ended.iter().filter_map(|turns| turns.first).min();
    let last = ended.iter().filter_map(|turns| turns.last).max();
    let elapsed = last.expect("it ended") - first.expect("it began");
    Sample::new(ops, elapsed).by(workers)
}

/// The same turns by bare loops over shards of their own.
fn bare(workers: usize, ops: u64) -> Sample {
    let each = ops / SHARDS as u64;
    let share = SHARDS / workers;
    let jobs = (0..workers).map(|_| {
        Box::new(move || {
            let mut own: Vec<Turns> = (0..share).map(|_| Turns::new(each)).collect();
            let mut unfinished = share;
            while unfinished > 0 {
                for turns in own.iter_mut().filter(|turns| turns.left > 0) {
                    unfinished -= usize::from(turns.turn());
                }
            }
            each * share as u64
        }) as Job<'_>
    });
    together(jobs.collect())
}

/// Requests an epoch as soon as the last one has begun, until there were enough.
struct Epochs {
    wanted: u32,
}

/// When shard 0 saw the first and the last epoch.
#[derive(Default)]
struct Seen {
    epoch: Option<u32>,
    first: Option<(Instant, u32)>,
    last: Option<(Instant, u32)>,
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
            let now = (Instant::now(), cx.epoch());
            seen.epoch = Some(cx.epoch());
            let first = *seen.first.get_or_insert(now);
            seen.last = Some(now);
            if now.1 - first.1 >= self.wanted {
                cx.stop();
            } else {
                cx.reshard();
            }
        }
        Progress::Again
    }

    fn new_load(&self, _: ShardId) {}
}

/// Moves no shard, but has the figures collected.
struct Keep;

impl Balancer for Keep {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
        Decision::Keep
    }
}

/// Moves every shard to the next worker, every time.
struct MoveAll;

impl Balancer for MoveAll {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, view: &LoadView, now: &Assignment, _: usize) -> Decision {
        let workers = view.workers();
        let owners = (0..view.shards())
            .map(|shard| {
                let owner = now.owner(ShardId(shard as u32)).index();
                WorkerId(((owner + 1) % workers) as u16)
            })
            .collect();
        Assignment::new(owners, workers).map_or(Decision::Keep, Decision::Adopt)
    }
}

fn epochs(balancer: impl Balancer, ops: u64) -> Sample {
    let controller = Epochs {
        wanted: u32::try_from(ops).expect("few epochs"),
    };
    let builder = Sharder::builder(controller)
        .shards((0..SHARDS).map(|_| Seen::default()).collect())
        .workers(2)
        .period(Duration::ZERO)
        .balancer(balancer);
    let seen = &run(builder)[0];
    let (start, first) = seen.first.expect("it began");
    let (end, last) = seen.last.expect("it ended");
    Sample::new(u64::from(last - first), end - start).by(2)
}

/// The longest slice of a decision of `Greedy` on 128 workers, where each shard exchanges messages
/// with three others. The result is the best of several decisions, because other programs interrupt
/// some. The first decisions, which allocate memory, have a figure of their own.
fn longest_slice(shards: usize) -> Sample {
    const WORKERS: usize = 128;
    let mut view = LoadView::new(WORKERS, shards);
    let mut numbers = Random::new(0);
    let mut random = |below: usize| numbers.below(below);
    for shard in 0..shards {
        let busy = 0.001 + random(1_000) as f64 * 1e-5;
        view.set(ShardId::from_index(shard), busy, Nanos::from_millis(100));
        for _ in 0..3 {
            let from = ShardId::from_index(random(shards));
            view.add_traffic(from, ShardId::from_index(shard), 1_000.0);
        }
    }
    let now = Assignment::round_robin(shards, WORKERS);
    let longest = |greedy: &mut Greedy| {
        let mut longest = Duration::ZERO;
        let start = Instant::now();
        greedy.begin(&view, &now);
        longest = longest.max(start.elapsed());
        loop {
            let start = Instant::now();
            let decision = black_box(greedy.step(&view, &now, 256));
            longest = longest.max(start.elapsed());
            if decision != Decision::Pending {
                return longest;
            }
        }
    };
    // All balancers are kept, so that none reuses the memory of an earlier one.
    let mut all: Vec<_> = (0..5).map(|_| Greedy::new()).collect();
    let first = all.iter_mut().map(longest).min().unwrap_or_default();
    let best = (0..5).map(|_| longest(&mut all[0])).min();
    let first = first.as_nanos() as f64 / 1e3;
    Sample::new(1, best.unwrap_or_default()).with("of the first decision, us", first)
}

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    const DEFAULT: Duration = Duration::from_millis(100);
    let mut scenarios = vec![
        Scenario::new(LAYER, "turns of 16 shards, one worker", 20_000_000, 1600)
            .ours("rast Sharder", |ops| turns(1, DEFAULT, ops))
            .ours("rast Sharder, never resharding", |ops| {
                turns(1, Duration::ZERO, ops)
            })
            .rival("a bare loop", |ops| bare(1, ops)),
        Scenario::new(LAYER, "turns of 16 shards, two workers", 20_000_000, 1600)
            .ours("rast Sharder", |ops| turns(2, DEFAULT, ops))
            .ours("rast Sharder, never resharding", |ops| {
                turns(2, Duration::ZERO, ops)
            })
            .rival("a bare loop per thread", |ops| bare(2, ops)),
        Scenario::new(LAYER, "turn of one busy shard", 10_000_000, 1600)
            .ours("rast Sharder, of 10 shards", |ops| turns_beside(9, ops))
            .ours("rast Sharder, of 10,000", |ops| turns_beside(9_999, ops)),
        Scenario::new(LAYER, "epochs of 16 busy shards, two workers", 20_000, 20)
            .ours("rast Sharder, nothing moves", |ops| epochs(Keep, ops))
            .ours("rast Sharder, everything moves", |ops| epochs(MoveAll, ops)),
        Scenario::new(LAYER, "longest slice of Greedy, 128 workers", 1, 1)
            .ours("rast Greedy, 10,000 shards", |_| longest_slice(10_000))
            .ours("rast Greedy, 100,000 shards", |_| longest_slice(100_000)),
    ];
    scenarios.extend(pause::scenarios());
    scenarios.extend(waking::scenarios());
    scenarios
}
