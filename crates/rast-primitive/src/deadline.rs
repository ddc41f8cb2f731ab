//! The instant at which a wait times out, or none.

use core::time::Duration;
use std::time::Instant;

use crate::sync::{Condvar, MutexGuard};

/// The end of a timed wait. So that executions repeat exactly, a model has no clock: a timed wait
/// lets the other threads run once and then times out.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) const NEVER: Self = Self(None);

    /// A duration that exceeds the clock's range means no limit.
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

    /// Sleeps once on `condvar`; returns `true` if the deadline has passed.
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
