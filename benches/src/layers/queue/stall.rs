//! Stalled threads: what a thread that is stopped inside an operation does to the other threads.
//!
//! Two producers and two consumers work on a queue. A signal stops one of them, or one producer and
//! one consumer, at a random instant. Meanwhile each of the other threads has to complete [`QUOTA`]
//! calls, and together they have to move [`QUOTA`] items. A stop counts only if it came inside an
//! operation.
//!
//! A pop that finds no item counts as a completed call, because it does not wait for the stopped
//! thread. While enough items are queued, a producer only checks their number; each check counts as
//! a call, too. No thread yields: on a busy machine, a thread that yields does not run for many
//! time slices.
//!
//! The segments of `Queue` come from [`RastAlloc`], which has no locks. With segments from the
//! system's allocator, one or two stops in a thousand came while the stopped thread held a lock of
//! `malloc`, for which the other threads then waited in `free`.
//!
//! With our queues, the other threads must not wait at any stop. With the controls (a lock and,
//! among the rivals, `SegQueue`), the other threads must wait at some stop. Otherwise the test
//! proves nothing.

use rast::primitive::Random;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rast::alloc::RastAlloc;
use rast::queue::Queue;
use rast::queue::list::ListQueue;

use super::contenders::{Handle, Mpmc, Shared as Unhandled};
use crate::histogram::Histogram;
use crate::options::Options;
use crate::report::{document, machine, quoted};
use crate::signals::{Target, hold};

/// Calls that each of the others completes while a thread is stopped, and items that they move.
const QUOTA: u64 = 1000;
/// If the others take longer than this, they count as waiting.
const LONG: Duration = Duration::from_secs(2);
/// Time between two checks of what the others have done.
const LOOK: Duration = Duration::from_micros(50);
/// The test of a contender ends after so many stops at which the others waited.
const WAITS_MAX: u64 = 10;
const PRODUCERS: usize = 2;
const THREADS: usize = 4;
/// Position of the producer in an item; the number of the item is in the bits below.
const PRODUCER_SHIFT: u32 = 48;

/// Ours in memory without locks, in segments of `SLOTS`.
struct InRast<const SLOTS: usize>(Queue<u64, RastAlloc>);

impl<const SLOTS: usize> Unhandled for InRast<SLOTS> {
    type Item = u64;

    fn new(_room: usize) -> Self {
        Self(Queue::with_segment_slots_in(SLOTS, RastAlloc))
    }

    fn push(&self, item: u64) -> Result<(), u64> {
        self.0.push(item).map_err(|closed| closed.0)
    }

    fn pop(&self) -> Option<u64> {
        self.0.pop()
    }
}

/// The results of the stops of a contender.
struct Verdict {
    name: &'static str,
    ours: bool,
    /// Stops that came inside an operation.
    stops: u64,
    /// Number of these stops during which another thread did not complete its quota.
    waited: u64,
    /// How long the others took for their quota, in nanoseconds.
    quota_ns: Histogram,
}

impl Verdict {
    fn is_as_claimed(&self) -> bool {
        (self.waited == 0) == self.ours
    }

    fn row(&self) -> String {
        let us = |share: f64| self.quota_ns.quantile(share) / 1e3;
        let taken = match self.stops - self.waited {
            0 => "-".to_owned(),
            _ => format!("{:.0}, {:.0}, {:.0}", us(0.5), us(0.99), us(1.0)),
        };
        format!(
            "| {} | {} | {} | {taken} |",
            self.name, self.stops, self.waited
        )
    }

    fn json(&self) -> String {
        let us = |share: f64| match self.stops - self.waited {
            0 => "null".to_owned(),
            _ => (self.quota_ns.quantile(share) / 1e3).to_string(),
        };
        format!(
            "    {{\"name\": {}, \"ours\": {}, \"stops\": {}, \"waited\": {}, \"quota\": {QUOTA}, \"quota_us_p50\": {}, \"quota_us_p99\": {}, \"quota_us_max\": {}}}",
            quoted(self.name),
            self.ours,
            self.stops,
            self.waited,
            us(0.5),
            us(0.99),
            us(1.0),
        )
    }
}

/// Runs the test for ours and for the controls, prints it, and writes the JSON.
///
/// # Errors
///
/// If other threads waited for a thread that was stopped in one of our queues, if no thread ever
/// waited in one of the controls, or if the JSON cannot be written.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let stops = if options.smoke { 50 } else { 1000 };
    println!("machine: {}", machine());
    println!(
        "\n## queue: stalled threads\n\n| contender | stops inside an operation | the others waited | us until each of the others had done {QUOTA}: p50, p99, max |\n|---|---|---|---|"
    );
    let mut verdicts = Vec::new();
    let mut add = |name: &'static str, ours, stopped: fn(&'static str, bool, u64) -> Verdict| {
        if options
            .only
            .as_deref()
            .is_none_or(|part| name.contains(part))
        {
            let verdict = stopped(name, ours, stops);
            println!("{}", verdict.row());
            verdicts.push(verdict);
        }
    };
    add(
        "rast Queue",
        true,
        stopped::<InRast<{ Queue::<u64>::DEFAULT_SEGMENT_SLOTS }>>,
    );
    add("rast Queue, 64 slots", true, stopped::<InRast<64>>);
    add("rast ListQueue", true, stopped::<ListQueue<u64>>);
    add(
        "std Mutex<VecDeque>",
        false,
        stopped::<Mutex<VecDeque<u64>>>,
    );
    #[cfg(all(rast_rivals, feature = "rivals"))]
    add(
        "crossbeam SegQueue",
        false,
        stopped::<crossbeam_queue::SegQueue<u64>>,
    );
    if let Some(file) = &options.json {
        let entries: Vec<String> = verdicts.iter().map(Verdict::json).collect();
        std::fs::write(file, document(options, "stalls", &entries))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        println!("\nwritten: {}", file.display());
    }
    match verdicts.iter().find(|verdict| !verdict.is_as_claimed()) {
        None => Ok(()),
        Some(wrong) if wrong.ours => Err(format!(
            "{}: in {} of {} stops the others waited for the stopped thread",
            wrong.name, wrong.waited, wrong.stops,
        )),
        Some(blind) => Err(format!(
            "{}: never seen waiting in {} stops, so this run proves nothing",
            blind.name, blind.stops,
        )),
    }
}

/// What the threads share.
struct Shared<Q> {
    queue: Q,
    /// Completed calls of each thread, producers first.
    turns: [Padded<AtomicU64>; THREADS],
    /// Items that each thread has pushed or popped.
    moved: [Padded<AtomicU64>; THREADS],
    /// Whether each thread is inside an operation.
    inside: [Padded<AtomicBool>; THREADS],
    /// Producers rest while more items than this are queued.
    limit: AtomicU64,
    /// Producers end.
    end: AtomicBool,
    /// Producers that have not ended.
    producing: AtomicUsize,
    /// An item came twice, or before an older one of its producer.
    disordered: AtomicBool,
}

/// On cache lines of its own, so that the count of one thread does not slow another one.
#[derive(Default)]
#[repr(align(128))]
struct Padded<T>(T);

impl<Q: Mpmc<Item = u64>> Shared<Q> {
    fn new() -> Self {
        Self {
            queue: Q::new(1 << 16),
            turns: Default::default(),
            moved: Default::default(),
            inside: Default::default(),
            limit: AtomicU64::new(0),
            end: AtomicBool::new(false),
            producing: AtomicUsize::new(PRODUCERS),
            disordered: AtomicBool::new(false),
        }
    }

    fn turns(&self, thread: usize) -> u64 {
        self.turns[thread].0.load(Ordering::Acquire)
    }

    /// Items that these threads have moved.
    fn moved(&self, threads: impl IntoIterator<Item = usize>) -> u64 {
        let of = |thread: usize| self.moved[thread].0.load(Ordering::Acquire);
        threads.into_iter().map(of).sum()
    }

    fn pushed(&self) -> u64 {
        self.moved(0..PRODUCERS)
    }

    fn popped(&self) -> u64 {
        self.moved(PRODUCERS..THREADS)
    }

    /// Runs an operation of a thread, and sets `inside` during it.
    fn operate<R>(&self, thread: usize, operation: impl FnOnce() -> R) -> R {
        self.inside[thread].0.store(true, Ordering::Relaxed);
        let result = operation();
        self.inside[thread].0.store(false, Ordering::Relaxed);
        result
    }

    fn produce(&self, thread: usize) {
        let mut handle = self.queue.handle();
        let (mut number, mut turns) = (0, 0);
        while !self.end.load(Ordering::Acquire) {
            self.turns[thread].0.store(turns, Ordering::Release);
            turns += 1;
            let standing = self.pushed().saturating_sub(self.popped());
            if standing > self.limit.load(Ordering::Relaxed) {
                std::hint::spin_loop();
                continue;
            }
            number += 1;
            let item = (thread as u64) << PRODUCER_SHIFT | number;
            self.operate(thread, || handle.push_patiently(item));
            self.moved[thread].0.store(number, Ordering::Release);
        }
        self.producing.fetch_sub(1, Ordering::AcqRel);
    }

    fn consume(&self, thread: usize) {
        let mut handle = self.queue.handle();
        let mut taken = 0;
        let mut latest = [0_u64; PRODUCERS];
        let mut turns = 0;
        // Until no producer is left and as many items were popped as pushed.
        while self.producing.load(Ordering::Acquire) != 0 || self.popped() < self.pushed() {
            let popped = self.operate(thread, || handle.pop());
            turns += 1;
            self.turns[thread].0.store(turns, Ordering::Release);
            let Some(item) = popped else {
                std::hint::spin_loop();
                continue;
            };
            let producer = (item >> PRODUCER_SHIFT) as usize;
            let number = item & ((1 << PRODUCER_SHIFT) - 1);
            if number <= latest[producer] {
                self.disordered.store(true, Ordering::Relaxed);
            }
            latest[producer] = number;
            taken += 1;
            self.moved[thread].0.store(taken, Ordering::Release);
        }
    }
}

/// Stops the threads of a contender, `stops` times inside an operation.
fn stopped<Q: Mpmc<Item = u64>>(name: &'static str, ours: bool, stops: u64) -> Verdict {
    let shared = Shared::<Q>::new();
    let shared = &shared;
    let mut verdict = Verdict {
        name,
        ours,
        stops: 0,
        waited: 0,
        quota_ns: Histogram::new(),
    };
    let targets = Mutex::new([None; THREADS]);
    let targets = &targets;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    targets.lock().expect("no panic inside")[thread] = Some(Target::current());
                    if thread < PRODUCERS {
                        shared.produce(thread);
                    } else {
                        shared.consume(thread);
                    }
                })
            })
            .collect();
        let targets: [Target; THREADS] = loop {
            let known = *targets.lock().expect("no panic inside");
            if known.iter().all(Option::is_some) {
                break known.map(|target| target.expect("all are known"));
            }
            thread::yield_now();
        };
        let mut random = Random::new(0);
        while verdict.stops < stops && verdict.waited < WAITS_MAX {
            stop_once(shared, &targets, &mut random, &mut verdict);
        }
        shared.end.store(true, Ordering::Release);
        for thread in threads {
            thread.join().expect("a worker does not panic");
        }
    });
    assert!(
        !shared.disordered.load(Ordering::Relaxed),
        "{name}: an item came twice or out of order",
    );
    assert_eq!(shared.pushed(), shared.popped(), "{name}: an item is lost");
    verdict
}

/// Lets all threads run for a moment, stops one or two of them, and observes the others.
fn stop_once<Q: Mpmc<Item = u64>>(
    shared: &Shared<Q>,
    targets: &[Target; THREADS],
    random: &mut Random,
    verdict: &mut Verdict,
) {
    // Both short queues, in which consumers reach the slot of a stopped producer, and long ones.
    let limit = if random.below(2) == 0 { 16 } else { 4096 };
    shared.limit.store(limit, Ordering::Relaxed);
    thread::sleep(Duration::from_nanos(random.below(100_000) as u64));
    let producer = random.below(PRODUCERS);
    let consumer = PRODUCERS + random.below(THREADS - PRODUCERS);
    let victims = match random.below(3) {
        0 => vec![producer],
        1 => vec![consumer],
        _ => vec![producer, consumer],
    };
    let stopping: Vec<Target> = victims.iter().map(|&victim| targets[victim]).collect();
    // SAFETY: 1: a worker ends only after `end` is set, which this thread does when all stops are
    // over; 2: this is the one thread of the process that stops others.
    let held = unsafe { hold(&stopping) };
    let is_inside = |&victim: &usize| shared.inside[victim].0.load(Ordering::Relaxed);
    if !victims.iter().any(is_inside) {
        return;
    }
    verdict.stops += 1;
    let start = Instant::now();
    let others = (0..THREADS).filter(|thread| !victims.contains(thread));
    let moved = shared.moved(others.clone()) + QUOTA;
    let turns: Vec<(usize, u64)> = others
        .clone()
        .map(|thread| (thread, shared.turns(thread) + QUOTA))
        .collect();
    let waited = loop {
        let turned = turns
            .iter()
            .all(|&(thread, turns)| shared.turns(thread) >= turns);
        if turned && shared.moved(others.clone()) >= moved {
            break false;
        }
        if start.elapsed() > LONG {
            break true;
        }
        thread::sleep(LOOK);
    };
    if waited {
        verdict.waited += 1;
    } else {
        verdict.quota_ns.record(start.elapsed().as_nanos() as u64);
    }
    drop(held);
}
