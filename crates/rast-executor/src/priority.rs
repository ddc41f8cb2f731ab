//! Priorities of tasks.

/// Urgency of a task relative to others that are ready on the same worker.
///
/// A worker takes the most urgent task first, with exceptions that bound starvation. If a thread
/// outside the runtime spawns or wakes a normal task, this task precedes all others. At most 128
/// such tasks run in a row. Then the worker takes one task from its lists, of which it has one per
/// priority. Every eighth time that it takes one, it looks first for a [`Normal`](Self::Normal)
/// task, and every 64th time for a [`Low`](Self::Low) one. The guarantees of this [crate] have the
/// bounds.
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
}
