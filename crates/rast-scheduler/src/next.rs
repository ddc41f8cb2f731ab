//! The return value of a step.

use rast_timers::Instant;

use crate::remote::Remote;

/// What to do with a task after a step.
///
/// [`or_at`](Self::or_at) adds a deadline to a wait: the task runs again at whichever comes first.
#[derive(Clone, Debug)]
#[must_use = "the answer decides whether the task runs again"]
pub enum Next {
    /// Run again, after the ready tasks of this worker.
    Again,
    /// Run again at this time, or when woken or signalled. A time in the past is as
    /// [`Again`](Self::Again).
    At(Instant),
    /// Run again when woken or signalled.
    Wait,
    /// Run again at once on another scheduler; on the current one if the other was dropped.
    Hop(Remote),
    /// The task ends.
    Exit,
}

impl Next {
    /// Returns a `Next` with the earlier of its deadline and `at`.
    ///
    /// ```
    /// use rast_scheduler::{Next, timers::Instant};
    /// let at = Instant::from_nanos;
    /// assert!(matches!(Next::Wait.or_at(at(7)).or_at(at(9)), Next::At(due) if due == at(7)));
    /// assert!(matches!(Next::Again.or_at(at(7)), Next::Again));
    /// ```
    pub fn or_at(self, at: Instant) -> Self {
        match self {
            Self::Wait => Self::At(at),
            Self::At(other) => Self::At(other.min(at)),
            other => other,
        }
    }
}
