//! How late a pop with a time limit returns from an empty queue.
//!
//! Each operation is one call that times out after [`LIMIT`]; no other thread accesses the queue. A
//! run is judged by the median of the lateness, the time between the deadline and the return. It
//! includes the timer and the wake-up of the system.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use rast::queue::Queue;
use rast::queue::primitive::WaitStrategy;

use super::LAYER;
use super::latency::percentiles;
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::{Sample, alone};

const LIMIT: Duration = Duration::from_micros(200);

fn lateness(ops: u64, mut wait: impl FnMut() -> bool) -> Sample {
    let mut histogram = Histogram::new();
    let sample = alone(|| {
        for _ in 0..ops {
            let deadline = Instant::now() + LIMIT;
            assert!(wait(), "nothing comes");
            histogram.record(deadline.elapsed().as_nanos() as u64);
        }
        ops
    });
    percentiles(sample.judged_by(histogram.quantile(0.5)), &histogram)
}

/// The scenario.
pub(super) fn scenarios() -> Vec<Scenario> {
    let queue = Queue::<u64>::new();
    let (sender, receiver) = mpsc::channel::<u64>();
    vec![
        Scenario::new(LAYER, "lateness p50 of a pop with a timeout", 2000, 20)
            .ours("rast Queue", move |ops| {
                lateness(ops, || {
                    queue.pop_timeout(WaitStrategy::Park, LIMIT).is_err()
                })
            })
            .rival("std mpsc", move |ops| {
                let _open = &sender;
                lateness(ops, || receiver.recv_timeout(LIMIT).is_err())
            }),
    ]
}
