//! Priorities of tasks.

/// Urgency of a task relative to others that are ready on the same worker.
///
/// A worker takes the most urgent task first, with exceptions that bound starvation. Normal tasks
/// that threads outside the runtime spawned or woke precede all others of the queue, at most 128
/// times in a row. In between, the worker takes one task of its own lists. It looks first for a
/// [`Normal`](Self::Normal) one every eighth time that it does so, and for a [`Low`](Self::Low) one
/// every 64th time. So a low task with k others of its kind ahead is polled after at most
/// 8256 (k + 1) tasks of both kinds (64 × 129 = 8256).
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
