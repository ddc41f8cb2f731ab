//! Whether the machine is quiet: a fixed loop on two processors, compared with its shortest time.
//!
//! Other programs on the same host slow two threads that hand items to each other far more than
//! they slow one thread. A percentile of a slowed round says nothing about the queue. So a round of
//! two threads counts only if a loop of 5 ms, before and after it, was not slowed on either
//! processor.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::processors;

/// Approximate time of the loop on a quiet machine.
const LENGTH: Duration = Duration::from_millis(5);

/// A round counts if the loop takes at most this many times its shortest time.
const SLOWER_AT_MOST: f64 = 1.1;

/// Rounds tried at most, when some are not quiet.
pub const TRIES_MAX: usize = 60;

/// Number of loops that are run to find the shortest time.
const FIRST: usize = 20;

/// Compares a fixed loop with its shortest time, which the first call measures.
#[derive(Debug, Default)]
pub struct Quiet {
    turns: u64,
    least: Option<Duration>,
}

impl Quiet {
    /// Nothing measured yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs the loop on two processors at once; returns whether both took at most 1.1 times the
    /// shortest time.
    pub fn is_quiet(&mut self) -> bool {
        if self.least.is_none() {
            self.calibrate();
        }
        let (shortest, longest) = on_two(self.turns);
        self.learn(shortest, longest)
    }

    fn calibrate(&mut self) {
        const SAMPLE: u64 = 1 << 20;
        let sample = (0..5).map(|_| time(SAMPLE)).min().expect("five");
        let turns = SAMPLE as f64 * LENGTH.as_secs_f64() / sample.as_secs_f64();
        self.turns = turns as u64;
        for _ in 0..FIRST {
            let (shortest, longest) = on_two(self.turns);
            self.learn(shortest, longest);
        }
    }

    /// Takes one measurement into account; returns whether it is quiet.
    fn learn(&mut self, shortest: Duration, longest: Duration) -> bool {
        let least = self.least.map_or(shortest, |least| least.min(shortest));
        self.least = Some(least);
        longest.as_secs_f64() <= least.as_secs_f64() * SLOWER_AT_MOST
    }
}

/// How long the loop takes on the calling thread.
fn time(turns: u64) -> Duration {
    let start = Instant::now();
    let mut value = 1_u64;
    for turn in 0..turns {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(turn);
    }
    black_box(value);
    start.elapsed()
}

/// Runs the loop on two processors at once; returns the shorter and the longer time.
fn on_two(turns: u64) -> (Duration, Duration) {
    let processors = processors::allowed();
    let awaited = &AtomicUsize::new(2);
    let times = thread::scope(|scope| {
        let run = |index: usize| {
            let processor = processors.get(index).copied();
            scope.spawn(move || {
                if let Some(processor) = processor {
                    processors::pin_to(processor);
                }
                awaited.fetch_sub(1, Ordering::AcqRel);
                while awaited.load(Ordering::Acquire) != 0 {
                    thread::yield_now();
                }
                time(turns)
            })
        };
        let threads = [run(0), run(1)];
        threads.map(|thread| thread.join().expect("a loop does not panic"))
    });
    (times[0].min(times[1]), times[0].max(times[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_quiet_up_to_a_tenth_over_its_least_time() {
        let ns = Duration::from_nanos;
        let mut quiet = Quiet::new();
        assert!(quiet.learn(ns(1000), ns(1100)));
        assert!(!quiet.learn(ns(1000), ns(1101)));
        assert!(quiet.learn(ns(900), ns(990)));
        assert!(
            !quiet.learn(ns(1000), ns(1000)),
            "the least time is 900 now"
        );
    }

    #[test]
    fn both_loops_run() {
        let (shortest, longest) = on_two(1000);
        assert!(Duration::ZERO < shortest && shortest <= longest);
    }
}
