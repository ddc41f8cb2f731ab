//! A task submitted to a pool of one thread, from another processor.
//!
//! Idle: one task at a time, each after a pause in which the pool's thread falls asleep. A run is
//! judged by the median time from the submission to the start of the task. Busy: empty tasks as
//! fast as they can be submitted. A run is judged by its time divided by the number of tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rast::executor::{block_on, sleep};
use rast::reactor::{Policy, Reactors, background_task, spawn_local};

use super::{LAYER, on_processor, one_reactor};
use crate::harness::Scenario;
use crate::processors::pin_in_turn;
use crate::workers::Sample;

/// The pause after a task, where the pool is idle.
const PAUSE: Duration = Duration::from_micros(200);
/// The number of tasks of the reactor that submit, and how many submissions each of them awaits
/// together, if the pool is busy.
const SUBMITTERS: u64 = 8;
const BATCH: u64 = 128;

/// The sample of the times from submission to start.
fn median(mut times: Vec<u64>, elapsed: Duration) -> Sample {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64;
    Sample::new(times.len() as u64, elapsed)
        .judged_by(at(0.5))
        .with("p99 ns", at(0.99))
        .by(2)
}

/// Nanoseconds since then.
fn since(submitted: Instant) -> u64 {
    submitted.elapsed().as_nanos() as u64
}

/// A reactor, which submits, and its pool.
struct Rig(Reactors);

impl Rig {
    fn new() -> Self {
        let reactors = one_reactor().build().expect("two threads");
        let pinned = reactors.pool().run(Policy::High, || pin_in_turn(1));
        let pinned = pinned.unwrap_or_else(|_| panic!("the pool is empty"));
        block_on(pinned).expect("it runs");
        Self(reactors)
    }

    fn on<F, R>(&self, begin: F) -> R::Output
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        let reactor = self.0.reactor(0).expect("there is one");
        block_on(reactor.spawn(begin)).expect("no task of a bench panics")
    }
}

/// Our pool, to which a task of a reactor submits.
fn idle_from_reactor() -> impl FnMut(u64) -> Sample {
    let mut rig = None;
    move |ops| {
        let rig = rig.get_or_insert_with(Rig::new);
        rig.on(move || async move {
            let begin = Instant::now();
            let mut times = Vec::with_capacity(ops as usize);
            for _ in 0..ops {
                let submitted = Instant::now();
                let call = background_task(Policy::High, move || since(submitted));
                let call = call.unwrap_or_else(|_| panic!("the pool is idle"));
                times.push(call.await.expect("it runs"));
                sleep(PAUSE).await;
            }
            median(times, begin.elapsed())
        })
    }
}

/// Submits from a thread, with a pause after each task: `submit` passes a task to the pool and
/// returns when it has run.
fn from_thread(ops: u64, mut submit: impl FnMut(Instant, Arc<AtomicU64>) + Send) -> Sample {
    on_processor(0, move || {
        let begin = Instant::now();
        let mut times = Vec::with_capacity(ops as usize);
        let time = Arc::new(AtomicU64::new(0));
        for _ in 0..ops {
            submit(Instant::now(), Arc::clone(&time));
            // Relaxed: the task has ended before its submission returned.
            times.push(time.load(Ordering::Relaxed));
            std::thread::sleep(PAUSE);
        }
        median(times, begin.elapsed())
    })
}

/// Our pool, to which another thread submits.
fn idle_from_thread() -> impl FnMut(u64) -> Sample {
    let mut rig = None;
    move |ops| {
        let pool = rig.get_or_insert_with(Rig::new).0.pool();
        from_thread(ops, |submitted, time| {
            let task = move || time.store(since(submitted), Ordering::Relaxed);
            let call = pool.run(Policy::High, task);
            let call = call.unwrap_or_else(|_| panic!("the pool is idle"));
            block_on(call).expect("it runs");
        })
    }
}

/// Submits so many batches, one after the other.
async fn submit_batches(batches: u64) {
    for _ in 0..batches {
        let submit = |number| background_task(Policy::High, move || number);
        let calls: Vec<_> = (0..BATCH).map(submit).collect();
        for (number, call) in (0..).zip(calls) {
            let call = call.unwrap_or_else(|_| panic!("there is room"));
            assert_eq!(call.await.expect("it runs"), number);
        }
    }
}

/// Our pool, to which eight tasks of a reactor submit.
fn busy_from_reactor() -> impl FnMut(u64) -> Sample {
    let mut rig = None;
    move |ops| {
        let rig = rig.get_or_insert_with(Rig::new);
        let batches = ops.div_ceil(SUBMITTERS * BATCH);
        rig.on(move || async move {
            let begin = Instant::now();
            let submitter = |_| spawn_local(submit_batches(batches));
            let submitters: Vec<_> = (0..SUBMITTERS).map(submitter).collect();
            for submitter in submitters {
                submitter.await.expect("no task of a bench panics");
            }
            Sample::new(batches * SUBMITTERS * BATCH, begin.elapsed()).by(2)
        })
    }
}

/// Our pool, to which another thread submits; it awaits all tasks at the end.
fn busy_from_thread() -> impl FnMut(u64) -> Sample {
    let mut rig = None;
    move |ops| {
        let pool = rig.get_or_insert_with(Rig::new).0.pool();
        on_processor(0, move || {
            let begin = Instant::now();
            let submit = |number| pool.run(Policy::High, move || number);
            let calls: Vec<_> = (0..ops).map(submit).collect();
            for (number, call) in (0..).zip(calls) {
                let call = call.unwrap_or_else(|_| panic!("there is room"));
                assert_eq!(block_on(call).expect("it runs"), number);
            }
            Sample::new(ops, begin.elapsed()).by(2)
        })
    }
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    let idle = Scenario::new(LAYER, "pool: submit to run, idle", 300, 16)
        .ours("rast background_task", idle_from_reactor())
        .ours("rast Pool::run", idle_from_thread());
    let busy = Scenario::new(LAYER, "pool: submit to run, busy", 40_000, 1024)
        .ours("rast background_task", busy_from_reactor())
        .ours("rast Pool::run", busy_from_thread());
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let (idle, busy) = (
        idle.rival("rayon spawn", rivals::idle()),
        busy.rival("rayon spawn", rivals::busy()),
    );
    vec![idle, busy]
}

#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals {
    use super::*;
    use std::sync::mpsc;

    fn pool() -> rayon::ThreadPool {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
        let builder = builder.start_handler(|_| pin_in_turn(1));
        builder.build().expect("one thread")
    }

    pub(super) fn idle() -> impl FnMut(u64) -> Sample {
        let mut made = None;
        move |ops| {
            let pool = &*made.get_or_insert_with(pool);
            let (sender, receiver) = mpsc::channel();
            from_thread(ops, move |submitted, time| {
                let sender = sender.clone();
                pool.spawn(move || {
                    time.store(since(submitted), Ordering::Relaxed);
                    sender.send(()).expect("the bench waits");
                });
                receiver.recv().expect("it runs");
            })
        }
    }

    pub(super) fn busy() -> impl FnMut(u64) -> Sample {
        let mut made = None;
        move |ops| {
            let pool = &*made.get_or_insert_with(pool);
            on_processor(0, move || {
                let (sender, receiver) = mpsc::channel();
                let left = Arc::new(AtomicU64::new(ops));
                let begin = Instant::now();
                for _ in 0..ops {
                    let (left, sender) = (Arc::clone(&left), sender.clone());
                    pool.spawn(move || {
                        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                            sender.send(()).expect("the bench waits");
                        }
                    });
                }
                receiver.recv().expect("they run");
                Sample::new(ops, begin.elapsed()).by(2)
            })
        }
    }
}
