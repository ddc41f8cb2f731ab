//! Statistics of a runtime.

use std_alloc::vec::Vec;

use crate::latency::{Latencies, Sampler, ScheduleLatency};
use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// Counters of one worker. Only that worker writes, so counting is a load and a store.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Number of begins and ends of polls: odd while the worker is in a poll.
    steps: AtomicU64,
    stolen: AtomicU64,
    injected: AtomicU64,
    parks: AtomicU64,
    rescued: AtomicU64,
    /// Chooses which of this worker's wake-ups are measured.
    pub(crate) sampler: Sampler,
    /// The waits of the tasks that this worker polled.
    pub(crate) latencies: Latencies,
}

pub(crate) fn add(counter: &AtomicU64, count: usize) {
    write(counter, read(counter).wrapping_add(count as u64));
}

pub(crate) fn write(counter: &AtomicU64, value: u64) {
    // Relaxed: one writer; readers use it as a statistic. [XM1]
    counter.store(value, Ordering::Relaxed);
}

pub(crate) fn read(counter: &AtomicU64) -> u64 {
    // Relaxed: as XM1. [XM2]
    counter.load(Ordering::Relaxed)
}

impl Counters {
    #[inline]
    pub(crate) fn begin_poll(&self) {
        add(&self.steps, 1);
    }

    #[inline]
    pub(crate) fn end_poll(&self) {
        add(&self.steps, 1);
    }

    pub(crate) fn add_stolen(&self, count: usize) {
        add(&self.stolen, count);
    }

    pub(crate) fn add_injected(&self, count: usize) {
        add(&self.injected, count);
    }

    pub(crate) fn add_park(&self) {
        add(&self.parks, 1);
    }

    pub(crate) fn add_rescued(&self) {
        add(&self.rescued, 1);
    }

    /// Returns how many polls began and ended: odd while the worker is in a poll.
    pub(crate) fn steps(&self) -> u64 {
        read(&self.steps)
    }

    pub(crate) fn figures(&self, queued: usize) -> WorkerMetrics {
        WorkerMetrics {
            polls: read(&self.steps).div_ceil(2),
            stolen: read(&self.stolen),
            injected: read(&self.injected),
            parks: read(&self.parks),
            rescued: read(&self.rescued),
            queued,
        }
    }
}

/// Statistics of one worker, since its runtime began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Polls of tasks.
    pub polls: u64,
    /// Tasks stolen from other workers' queues.
    pub stolen: u64,
    /// Tasks taken from threads that are not workers.
    pub injected: u64,
    /// How often the worker went to sleep.
    pub parks: u64,
    /// Tasks taken from the slot of a worker that did not return from a poll.
    pub rescued: u64,
    /// Tasks in its queue now.
    pub queued: usize,
}

/// Statistics of a runtime: see [`Runtime::metrics`](crate::Runtime::metrics).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Statistics of each worker.
    pub workers: Vec<WorkerMetrics>,
    /// How long tasks waited from their wake-up to their poll.
    pub schedule_latency: ScheduleLatency,
    /// Number of workers that do not sleep now.
    pub active: usize,
    /// Number of active workers that search for a task now.
    pub searching: usize,
    /// Number of tasks that are not complete.
    pub tasks: usize,
    /// Number of blocking calls that are queued or run.
    pub blocking_calls: usize,
    /// Number of threads for blocking calls.
    pub blocking_threads: usize,
}
