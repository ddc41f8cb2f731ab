//! Priorities of tasks.

/// Urgency of a task relative to others that are ready on the same worker.
///
/// A worker takes the most urgent task first, with exceptions that bound starvation. Normal tasks
/// that other threads spawned or woke precede the others, at most 128 times in a row. Of the other
/// turns in which a worker takes a task from its queue, every eighth begins at
/// [`Normal`](Self::Normal), every 64th at [`Low`](Self::Low). So a low task with k others ahead of
/// it is polled within 8256 (k + 1) such turns.
///
/// ```
/// use rast_executor::{Priority, Runtime};
///
/// let runtime = Runtime::new().unwrap();
/// let urgent = runtime.task().priority(Priority::High).name("urgent").spawn(async { 1 });
/// assert_eq!(runtime.block_on(urgent).unwrap(), 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Before all others.
    High,
    /// The default.
    #[default]
    Normal,
    /// After all others.
    Low,
}

impl Priority {
    /// Number of priorities.
    pub(crate) const COUNT: usize = 3;

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}
