//! The time from when a put was due to the handling of its value, in an open loop.
//!
//! The producer puts by a schedule, independent of the consumer, and stamps each value with the
//! time at which its put was due. Only handled values have a latency; the table shows the number of
//! puts per handled value. The first 20,000 puts are not recorded. A run is judged by its median.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::contenders::{Executor, MapAndDeque, MutexPerKey, Ours};
use super::{KEYS, LAYER, draws};
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::{Sample, together};

/// Puts that warm up.
const WARM: u64 = 20_000;

/// One producer that puts each `period_ps` picoseconds, one consumer whose handler takes `work_ns`.
fn open_loop<E: Executor>(ops: u64, period_ps: u64, work_ns: u64) -> Sample {
    let executor = &E::new(KEYS);
    let keys = draws(KEYS, false, 1);
    let zero = Instant::now();
    let now = move || zero.elapsed().as_nanos() as u64;
    let warm = WARM.min(ops / 2);
    let is_over = &AtomicBool::new(false);
    let mut histogram = Histogram::new();
    let mut handled = 0;
    let (into, count) = (&mut histogram, &mut handled);
    let mut producer = executor.producer();
    let mut consumer = executor.consumer();
    let sample = together(vec![
        Box::new(move || {
            let start = now();
            for number in 0..ops {
                let due = start + number * period_ps / 1000;
                while now() < due {
                    std::hint::spin_loop();
                }
                let key = keys[number as usize % keys.len()];
                producer.put(key, [due, u64::from(number >= warm), 0]);
            }
            is_over.store(true, Ordering::Release);
            ops
        }),
        Box::new(move || {
            loop {
                let is_last = is_over.load(Ordering::Acquire);
                let found = consumer.take(&mut |_, [due, is_recorded, _]| {
                    let seen = now();
                    if is_recorded == 1 {
                        into.record(seen.saturating_sub(due));
                        *count += 1;
                    }
                    while work_ns > 0 && now() < seen + work_ns {
                        std::hint::spin_loop();
                    }
                });
                if found == 0 {
                    if is_last {
                        return 0;
                    }
                    std::hint::spin_loop();
                }
            }
        }),
    ]);
    sample
        .judged_by(histogram.quantile(0.5))
        .with("p50 ns", histogram.quantile(0.5))
        .with("p99 ns", histogram.quantile(0.99))
        .with("p99.9 ns", histogram.quantile(0.999))
        .with(
            "puts per handled",
            (ops - warm) as f64 / f64::from(handled.max(1)),
        )
}

fn scenario(name: &'static str, period_ps: u64, work_ns: u64) -> Scenario {
    Scenario::new(LAYER, name, 200_000, 2000)
        .ours("rast, tree, 4,096 cells", move |ops| {
            open_loop::<Ours<4096, false>>(ops, period_ps, work_ns)
        })
        .ours("rast, flat, 4,096 cells", move |ops| {
            open_loop::<Ours<4096, true>>(ops, period_ps, work_ns)
        })
        .ours("rast, tree, 16,384 cells", move |ops| {
            open_loop::<Ours<16_384, false>>(ops, period_ps, work_ns)
        })
        .ours("rast, flat, 16,384 cells", move |ops| {
            open_loop::<Ours<16_384, true>>(ops, period_ps, work_ns)
        })
        .rival("mutex with map and deque", move |ops| {
            open_loop::<MapAndDeque>(ops, period_ps, work_ns)
        })
        .rival("mutex per key with queue", move |ops| {
            open_loop::<MutexPerKey>(ops, period_ps, work_ns)
        })
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario("latency p50, 1 M puts/s", 1_000_000, 0),
        scenario("latency p50, 4 M puts/s", 250_000, 0),
        scenario(
            "latency p50, at what the handler can do (1 M/s)",
            1_000_000,
            1000,
        ),
        scenario(
            "latency p50, four times what the handler can do",
            1_000_000,
            4000,
        ),
    ]
}
