//! How a worker spent a window: whether it had time to spare, and how long its thread ran.
//!
//! What a shard took says what it wants only where its worker had time left: then it got all
//! that it asked for. A worker without spare time shares itself out, so two of them look
//! alike, however many shards want more of each. There a shard counts with the time in which
//! it was ready or in its turn, which is what it would take of a worker of its own.
//!
//! ```text
//!   worked  = time of its turns × share that the thread can have run of all turns
//!   asked   = time in which it was ready or in a turn
//!   demand  = worked + fullness × (asked − worked)          as shares of the window
//!
//!   fullness  1 ┤▔▔╲
//!             0 ┤   ╲▁▁▁▁▁▁▁▁▁▁
//!               └┬──┬───────────  idle share of the worker
//!                0  SPARE
//! ```
//!
//! A thread that the system does not run does not work, although the time of its turns passes.
//! So the times of turns are cut where they add up to more than the thread's own processor
//! time, read at the two ends of the window:
//!
//! ```text
//!   share = min(1, processor time of the thread / time of all turns of the worker)
//! ```
//!
//! The time of turns is what controllers report, mostly from timers that read few of them, and
//! one turn that was read while the system ran another thread counts for many. The share takes
//! that error out of the sum: the loads of a busy worker add up to what its thread ran.
//! A share of the time awake would leave the error in, and add that of the time asleep.

use crate::timers::{Instant, Nanos};

/// A worker with so large a share of idle time gives its shards all they ask for.
const SPARE: f64 = 0.1;

/// How a worker spent the window that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spent {
    /// How long the thread ran, where that is known.
    pub(crate) ran: Option<Nanos>,
    /// One for a worker without idle time, zero for one with time to spare.
    pub(crate) fullness: f64,
}

impl Spent {
    /// Turns what a shard worked and asked for, as shares of its window, into what it worked
    /// and what it wants. `turns` is the time of all turns of its worker, in nanoseconds.
    pub(crate) fn demand(self, worked: f64, asked: f64, turns: f64) -> (f64, f64) {
        let worked = worked * self.share(turns);
        let unmet = (asked.min(1.0) - worked).max(0.0);
        (worked, worked + self.fullness * unmet)
    }

    /// Returns the share of `turns` that the thread can have run.
    fn share(self, turns: f64) -> f64 {
        match self.ran {
            Some(ran) if (ran.as_nanos() as f64) < turns => ran.as_nanos() as f64 / turns,
            _ => 1.0,
        }
    }
}

/// Measures the window of one worker, by the times that it reads in any case.
#[derive(Debug)]
pub(crate) struct Meter {
    since: Instant,
    /// What the thread had run at `since`, where that is known.
    ran: Option<Instant>,
    idle: Nanos,
    /// The worker has had nothing to do since then.
    idle_since: Option<Instant>,
}

impl Meter {
    pub(crate) fn new(now: Instant, ran: Option<Instant>) -> Self {
        Self {
            since: now,
            ran,
            idle: Nanos::ZERO,
            idle_since: None,
        }
    }

    /// Opens the next window.
    pub(crate) fn restart(&mut self, now: Instant, ran: Option<Instant>) {
        *self = Self {
            idle_since: self.idle_since.map(|_| now),
            ..Self::new(now, ran)
        };
    }

    /// The worker found nothing to do.
    #[inline]
    pub(crate) fn rest(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// The worker found something to do.
    #[inline]
    pub(crate) fn work(&mut self, now: Instant) {
        if let Some(since) = self.idle_since.take() {
            self.idle = self.idle.saturating_add(now.saturating_since(since));
        }
    }

    /// Ends the window.
    pub(crate) fn spent(&mut self, now: Instant, ran: Option<Instant>) -> Spent {
        let is_idle = self.idle_since.is_some();
        self.work(now);
        self.idle_since = is_idle.then_some(now);
        let window = now.saturating_since(self.since);
        let idle = self.idle.as_nanos() as f64 / window.as_nanos().max(1) as f64;
        Spent {
            ran: (self.ran.zip(ran)).map(|(before, now)| now.saturating_since(before)),
            fullness: (1.0 - idle / SPARE).max(0.0),
        }
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::ORIGIN.saturating_add(Nanos::from_micros(micros))
    }

    #[test]
    fn a_worker_with_time_to_spare_met_all_demand() {
        let mut meter = Meter::new(at(0), None);
        meter.rest(at(50));
        meter.rest(at(60));
        meter.work(at(70));
        let spent = meter.spent(at(100), None);
        assert_eq!((spent.ran, spent.fullness), (None, 0.0));
        assert_eq!(spent.demand(0.3, 0.9, 1e5), (0.3, 0.3));
    }

    #[test]
    fn a_full_worker_met_none_of_what_waited() {
        let mut meter = Meter::new(at(0), None);
        let spent = meter.spent(at(100), None);
        assert_eq!(spent.demand(0.25, 1.0, 1e5), (0.25, 1.0));
        // One that is idle at the end of a window is so at the start of the next.
        meter.rest(at(100));
        meter.restart(at(100), None);
        assert_eq!(meter.spent(at(200), None).fullness, 0.0);
    }

    #[test]
    fn time_that_the_system_gave_to_another_thread_is_no_work() {
        let mut meter = Meter::new(at(0), Some(at(7)));
        meter.rest(at(10));
        meter.work(at(70));
        let spent = meter.spent(at(100), Some(at(17)));
        assert_eq!(spent.ran, Some(Nanos::from_micros(10)));
        // Of 40 µs of turns the thread ran 10.
        assert_eq!(spent.demand(0.4, 0.4, 4e4), (0.1, 0.1));
        assert_eq!(spent.demand(0.1, 0.1, 1e4), (0.1, 0.1));
    }
}
