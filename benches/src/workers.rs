//! Threads that start together, and the time from the first start to the last end.
//!
//! If the spawning thread started the clock, the time would include the creation of threads. If the
//! clock started after a barrier, it might start late when there are more threads than cores. So
//! each worker reads the clock itself, directly before its first operation and directly after its
//! last one. The time of the run is from the earliest start to the latest end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::processors;

/// What one run of a contender did.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Operations that succeeded; a push into a full queue or a pop from an empty one does not
    /// count.
    pub done: u64,
    /// From the first worker's start to the last worker's end.
    pub elapsed: Duration,
    /// Further figures of the run by name: percentiles, shares, counts.
    pub extras: Vec<(&'static str, f64)>,
    /// Number of threads that worked at the same time.
    pub threads: usize,
    judged: Option<f64>,
}

impl Sample {
    /// So many operations in that time.
    pub fn new(done: u64, elapsed: Duration) -> Self {
        Self {
            done,
            elapsed,
            extras: Vec::new(),
            threads: 1,
            judged: None,
        }
    }

    /// Adds a further figure, which is kept beside the times.
    pub fn with(mut self, name: &'static str, value: f64) -> Self {
        self.extras.push((name, value));
        self
    }

    /// Sets the number of threads that worked at the same time.
    pub fn by(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Judges this run by `ns` instead of the time per operation: for instance a percentile of
    /// hand-over times, if a clock sets the pace of the run.
    pub fn judged_by(mut self, ns: f64) -> Self {
        self.judged = Some(ns);
        self
    }

    /// The figure that [`judged_by`](Self::judged_by) set, or otherwise the nanoseconds per
    /// successful operation.
    ///
    /// # Panics
    ///
    /// If nothing was done: such a run proves nothing.
    pub fn ns_per_op(&self) -> f64 {
        assert!(self.done > 0, "a run without one successful operation");
        self.judged
            .unwrap_or_else(|| self.elapsed.as_nanos().max(1) as f64 / self.done as f64)
    }
}

/// One worker: returns how many operations it counts.
pub type Job<'a> = Box<dyn FnOnce() -> u64 + Send + 'a>;

/// Times `work` on the calling thread.
pub fn alone(work: impl FnOnce() -> u64) -> Sample {
    let start = Instant::now();
    let done = work();
    Sample::new(done, start.elapsed())
}

/// Runs each job on a thread of its own and sums what they count.
///
/// Two threads run on different processors, as by [`apart`]; the system places more threads.
pub fn together(jobs: Vec<Job<'_>>) -> Sample {
    if jobs.len() == 2 {
        return apart(jobs);
    }
    anywhere(jobs)
}

/// As [`together`], but the system also places two threads.
pub fn anywhere(jobs: Vec<Job<'_>>) -> Sample {
    on(&[], jobs)
}

/// As [`together`], each job on a processor of its own, if there are enough.
pub fn apart(jobs: Vec<Job<'_>>) -> Sample {
    on(&processors::allowed(), jobs)
}

/// Runs `work` with 0 and with 1, [`apart`].
pub fn by_two(work: impl Fn(u64) -> u64 + Sync) -> Sample {
    apart(vec![Box::new(|| work(0)), Box::new(|| work(1))])
}

/// Runs each job on a thread of its own, pinned to these processors in turn if there are any.
fn on(processors: &[usize], jobs: Vec<Job<'_>>) -> Sample {
    let threads = jobs.len();
    let awaited = AtomicUsize::new(threads);
    let spans: Vec<(Instant, Instant, u64)> = thread::scope(|scope| {
        let awaited = &awaited;
        let running: Vec<_> = jobs
            .into_iter()
            .enumerate()
            .map(|(index, job)| {
                scope.spawn(move || {
                    if !processors.is_empty() {
                        processors::pin_to(processors[index % processors.len()]);
                    }
                    awaited.fetch_sub(1, Ordering::AcqRel);
                    let mut patience = Patience::new();
                    while awaited.load(Ordering::Acquire) != 0 {
                        patience.wait();
                    }
                    let start = Instant::now();
                    let done = job();
                    (start, Instant::now(), done)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("a bench worker does not panic"))
            .collect()
    });
    let first = spans.iter().map(|span| span.0).min().expect("one job");
    let last = spans.iter().map(|span| span.1).max().expect("one job");
    Sample::new(spans.iter().map(|span| span.2).sum(), last - first).by(threads)
}

/// The one way in which every contender waits on a full or an empty queue: spin, then yield.
///
/// It belongs to the harness and is not `rast`'s `Backoff`, so that all contenders wait alike.
#[derive(Debug)]
pub struct Patience {
    waits: u32,
    since: Option<Instant>,
}

impl Patience {
    const SPINS: u32 = 64;
    /// Yields between two readings of the clock.
    const LOOK: u32 = 1 << 12;
    const END: Duration = Duration::from_secs(20);

    /// Begins a wait.
    pub fn new() -> Self {
        Self {
            waits: 0,
            since: None,
        }
    }

    /// Waits a little.
    ///
    /// # Panics
    ///
    /// If this wait has lasted for 20 seconds: the contender has lost an item or is stuck.
    #[inline]
    pub fn wait(&mut self) {
        self.waits = self.waits.wrapping_add(1);
        if self.waits < Self::SPINS {
            std::hint::spin_loop();
        } else {
            if self.waits.is_multiple_of(Self::LOOK) {
                self.look();
            }
            thread::yield_now();
        }
    }

    #[cold]
    fn look(&mut self) {
        let since = *self.since.get_or_insert_with(Instant::now);
        assert!(
            since.elapsed() < Self::END,
            "nothing moved for {} seconds: an item was lost, or the queue is stuck",
            Self::END.as_secs(),
        );
    }

    /// Ends the wait after a success.
    #[inline]
    pub fn reset(&mut self) {
        *self = Self::new();
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_and_time_passes() {
        let sample = together(vec![Box::new(|| 2), Box::new(|| 3)]);
        assert_eq!((sample.done, sample.threads), (5, 2));
        assert!(sample.ns_per_op() > 0.0);
        assert_eq!(alone(|| 7).done, 7);
    }

    #[test]
    fn a_run_may_be_judged_by_another_figure() {
        let sample = Sample::new(2, Duration::from_nanos(10));
        assert_eq!(sample.ns_per_op(), 5.0);
        let sample = sample.judged_by(3.0).with("p99", 8.0);
        assert_eq!(sample.ns_per_op(), 3.0);
        assert_eq!(sample.extras, [("p99", 8.0)]);
    }
}
