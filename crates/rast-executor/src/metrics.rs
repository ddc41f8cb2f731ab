//! Statistics of a runtime.

use std_alloc::vec::Vec;

use crate::latency::{Latencies, Sampler, ScheduleLatency};
use crate::primitive::Counter;

/// Counters of one worker, the only thread that writes them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Number of begins and ends of polls: odd while the worker is in a poll.
    pub(crate) steps: Counter,
    pub(crate) stolen: Counter,
    pub(crate) injected: Counter,
    pub(crate) parks: Counter,
    pub(crate) rescued: Counter,
    /// Chooses which of this worker's wake-ups are measured.
    pub(crate) sampler: Sampler,
    /// The waits of the tasks that this worker polled.
    pub(crate) latencies: Latencies,
}

impl Counters {
    pub(crate) fn figures(&self, queued: usize) -> WorkerMetrics {
        WorkerMetrics {
            polls: self.steps.get().div_ceil(2),
            stolen: self.stolen.get(),
            injected: self.injected.get(),
            parks: self.parks.get(),
            rescued: self.rescued.get(),
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
