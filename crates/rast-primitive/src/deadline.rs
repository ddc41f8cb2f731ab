//! A moment at which a wait gives up, or none.

use core::time::Duration;
use std::time::Instant;

use crate::sync::{Condvar, MutexGuard};

/// When a wait gives up. In a model there is no clock: a timed wait lets the
/// others run once and then has run out, so that executions repeat exactly.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) const NEVER: Self = Self(None);

    /// A span too long for the clock is no limit at all.
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    pub(crate) const fn at(moment: Instant) -> Self {
        Self(Some(moment))
    }

    pub(crate) fn is_past(self) -> bool {
        match self.0 {
            None => false,
            Some(moment) => cfg!(any(rast_loom, rast_shuttle)) || Instant::now() >= moment,
        }
    }

    /// Sleeps once on `condvar`; returns true when the deadline has passed.
    #[track_caller]
    pub(crate) fn sleep<T>(self, condvar: &Condvar, guard: &mut MutexGuard<'_, T>) -> bool {
        let Some(moment) = self.0 else {
            condvar.wait(guard);
            return false;
        };
        if cfg!(any(rast_loom, rast_shuttle)) {
            return condvar.wait_timeout(guard, Duration::ZERO);
        }
        let left = moment.saturating_duration_since(Instant::now());
        left.is_zero() || condvar.wait_timeout(guard, left)
    }
}
