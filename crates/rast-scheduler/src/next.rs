//! What a step answers, and how urgent a task is.

use rast_timers::Instant;

use crate::Remote;

/// What becomes of a task after a step.
///
/// Two answers that wait combine by [`or_at`](Self::or_at): the task runs again at whichever comes
/// first.
#[derive(Clone, Debug)]
#[must_use = "the answer decides whether the task runs again"]
pub enum Next {
    /// Run again, behind what is ready on this worker.
    Again,
    /// Run again at this time, or when woken or signalled. A time in the past is as
    /// [`Again`](Self::Again).
    At(Instant),
    /// Run again when woken or signalled.
    Wait,
    /// Run again at once on another scheduler; on the present one if the other is dropped.
    Hop(Remote),
    /// The task ends.
    Exit,
}

impl Next {
    /// Runs at `at` at the latest: the earlier of the two deadlines, never a later one.
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

/// Which of the ready tasks a worker runs first.
///
/// The order has a bound: of any 8 consecutive steps of a worker one goes to a normal task, and of
/// any 32 one to a low one, if such tasks are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Before the others.
    High,
    /// What a task has that says nothing.
    #[default]
    Normal,
    /// When nothing else is ready, or once in 32 steps.
    Low,
}

impl Priority {
    /// How many there are.
    pub(crate) const COUNT: usize = 3;
}
