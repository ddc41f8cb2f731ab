//! How a worker spent a window (the period in which loads are measured): whether it had time left,
//! and how long its thread ran.
//!
//! The time that a shard used shows its demand only if its worker had time left. On a full worker
//! the shards share the time, so the used time does not show how much more each of them could use.
//! On such a worker a shard's demand is the time in which it was ready or in a turn, because it
//! would use this time on a worker of its own.
//!
//! ```text
//!   worked  = time of its turns × share (see below)
//!   asked   = time in which it was ready or in a turn
//!   demand  = worked + fullness × (asked − worked)          as shares of the window
//!
//!   fullness  1 ┤▔▔╲
//!             0 ┤   ╲▁▁▁▁▁▁▁▁▁▁
//!               └┬──┬───────────  idle share of the worker
//!                0  SPARE
//! ```
//!
//! While the OS runs another thread, the time of a turn passes without work. So the times of turns
//! are reduced if they add up to more than the processor time of the thread, which is read at both
//! ends of the window:
//!
//! ```text
//!   share = min(1, processor time of the thread / time of all turns of the worker)
//! ```
//!
//! Most controllers measure only a sample of their turns. If the OS runs another thread during a
//! sampled turn, this time counts for many turns. The share corrects the sum: the loads of a busy
//! worker add up to the time for which its thread ran.

use crate::timers::{Instant, Nanos};

/// A worker with at least this share of idle time met all demand of its shards.
const SPARE: f64 = 0.1;

/// How a worker spent the window that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    /// How long the thread ran, if that is known.
    pub(crate) ran: Option<Nanos>,
    /// 1 for a worker without idle time, falling to 0 at [`SPARE`].
    pub(crate) fullness: f64,
}

impl Spent {
    /// Converts the worked and the asked time of a shard, as shares of its window, to its load and
    /// its demand. `turns` is the time of all turns of its worker, in nanoseconds.
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

/// Measures the window of one worker, from clock readings that the worker makes anyway.
#[derive(Debug)]
pub(crate) struct Meter {
    since: Instant,
    /// How long the thread had run at `since`, if that is known.
    ran: Option<Instant>,
    idle: Nanos,
    /// Since when the worker has had no work.
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

    /// Records that the worker found no work.
    #[inline]
    pub(crate) fn rest(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// Records that the worker found work.
    #[inline]
    pub(crate) fn work(&mut self, now: Instant) {
        if let Some(since) = self.idle_since.take() {
            self.idle = self.idle.saturating_add(now.saturating_since(since));
        }
    }

    /// Ends the window. `ran` is called if it is known how long the thread had run at its begin.
    pub(crate) fn spent(&mut self, now: Instant, ran: impl FnOnce() -> Option<Instant>) -> Spent {
        let is_idle = self.idle_since.is_some();
        self.work(now);
        self.idle_since = is_idle.then_some(now);
        let window = now.saturating_since(self.since);
        let idle = self.idle.as_nanos() as f64 / window.as_nanos().max(1) as f64;
        Spent {
            ran: (self.ran).and_then(|before| Some(ran()?.saturating_since(before))),
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
        let spent = meter.spent(at(100), || None);
        assert_eq!((spent.ran, spent.fullness), (None, 0.0));
        assert_eq!(spent.demand(0.3, 0.9, 1e5), (0.3, 0.3));
    }

    #[test]
    fn a_full_worker_met_none_of_what_waited() {
        let mut meter = Meter::new(at(0), None);
        let spent = meter.spent(at(100), || None);
        assert_eq!(spent.demand(0.25, 1.0, 1e5), (0.25, 1.0));
        // A worker that is idle at the end of a window is idle at the start of the next.
        meter.rest(at(100));
        meter.restart(at(100), None);
        assert_eq!(meter.spent(at(200), || None).fullness, 0.0);
    }

    #[test]
    fn time_that_the_system_gave_to_another_thread_is_no_work() {
        let mut meter = Meter::new(at(0), Some(at(7)));
        meter.rest(at(10));
        meter.work(at(70));
        let spent = meter.spent(at(100), || Some(at(17)));
        assert_eq!(spent.ran, Some(Nanos::from_micros(10)));
        // Of 40 µs of turns the thread ran 10 µs.
        assert_eq!(spent.demand(0.4, 0.4, 4e4), (0.1, 0.1));
        assert_eq!(spent.demand(0.1, 0.1, 1e4), (0.1, 0.1));
    }
}
