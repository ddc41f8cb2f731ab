//! Producers that put as fast as they can, and consumers that handle the values that they find. The
//! tables show puts per second, and the number of handled values.
//!
//! Both are shown, because a slow consumer makes puts look fast. Contenders that do not conflate
//! handle the value of each put.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::contenders::{Executor, MapAndDeque, MutexPerKey, Ours, Ring, WatchPerKey};
use super::{KEYS, LAYER, draws};
use crate::harness::Scenario;
use crate::workers::{Job, Sample, together};

/// Runs a number of producers and consumers; the handler spins `WORK` times.
pub(super) fn flow<E: Executor>(
    ops: u64,
    (producers, consumers): (usize, usize),
    (zipf, work): (bool, u32),
) -> Sample {
    let executor = &E::new(KEYS);
    let each = ops / producers as u64;
    let putting = &AtomicUsize::new(producers);
    let handled = &AtomicU64::new(0);
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for at in 0..producers {
        let mut producer = executor.producer();
        let keys = draws(KEYS, zipf, at as u64 + 1);
        jobs.push(Box::new(move || {
            for number in 0..each {
                let key = keys[number as usize % keys.len()];
                producer.put(key, [number; 3]);
            }
            putting.fetch_sub(1, Ordering::Release);
            each
        }));
        if at < consumers {
            jobs.push(consume(executor, putting, handled, work));
        }
    }
    for _ in producers..consumers {
        jobs.push(consume(executor, putting, handled, work));
    }
    let sample = together(jobs);
    let handled = handled.load(Ordering::Relaxed) as f64;
    let seconds = sample.elapsed.as_secs_f64();
    let puts = sample.done as f64;
    sample
        .with("handled M/s", handled / seconds / 1e6)
        .with("puts per handled", puts / handled.max(1.0))
}

fn consume<'a, E: Executor>(
    executor: &'a E,
    putting: &'a AtomicUsize,
    handled: &'a AtomicU64,
    work: u32,
) -> Job<'a> {
    let mut consumer = executor.consumer();
    Box::new(move || {
        let mut sum = 0;
        loop {
            // Loaded before the pass, so the pass finds each value that was put before the end.
            let is_last = putting.load(Ordering::Acquire) == 0;
            let count = consumer.take(&mut |key, value| {
                black_box((key, value));
                for _ in 0..work {
                    std::hint::spin_loop();
                }
            });
            sum += count;
            if count == 0 {
                if is_last {
                    break;
                }
                std::thread::yield_now();
            }
        }
        handled.fetch_add(sum, Ordering::Relaxed);
        // Only puts are counted.
        0
    })
}

macro_rules! contend {
    ($scenario:expr, $threads:expr, $load:expr) => {{
        let scenario = $scenario
            .ours("rast, tree", |ops| {
                flow::<Ours<4096, false>>(ops, $threads, $load)
            })
            .ours("rast, flat", |ops| {
                flow::<Ours<4096, true>>(ops, $threads, $load)
            })
            .rival("mutex with map and deque", |ops| {
                flow::<MapAndDeque>(ops, $threads, $load)
            })
            .rival("mutex per key with queue", |ops| {
                flow::<MutexPerKey>(ops, $threads, $load)
            })
            .rival("watch per key with deque", |ops| {
                flow::<WatchPerKey>(ops, $threads, $load)
            })
            .rival("ring, no conflation", |ops| {
                flow::<Ring>(ops, $threads, $load)
            });
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = {
            use super::rivals::{DashAndQueue, PapayaAndQueue, TokioMpsc, TokioWatch};
            scenario
                .rival("dashmap with queue", |ops| {
                    flow::<DashAndQueue>(ops, $threads, $load)
                })
                .rival("papaya with queue", |ops| {
                    flow::<PapayaAndQueue>(ops, $threads, $load)
                })
                .rival("tokio watch per key", |ops| {
                    flow::<TokioWatch>(ops, $threads, $load)
                })
                .rival("tokio mpsc, no conflation", |ops| {
                    flow::<TokioMpsc>(ops, $threads, $load)
                })
        };
        scenario
    }};
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    let new = |name| Scenario::new(LAYER, name, 1_000_000, 2000);
    vec![
        contend!(new("flow, 700 keys, 1P1C"), (1, 1), (false, 0)),
        contend!(new("flow, 700 keys, 2P2C"), (2, 2), (false, 0)),
        contend!(new("flow, 700 keys, 4P4C"), (4, 4), (false, 0)),
        contend!(new("flow, 700 keys by Zipf, 1P1C"), (1, 1), (true, 0)),
        contend!(new("flow, 700 keys by Zipf, 4P4C"), (4, 4), (true, 0)),
    ]
}
