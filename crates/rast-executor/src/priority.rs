//! Priorities of tasks.

/// How urgent a task is against others that are ready on the same worker.
///
/// A worker takes the most urgent task first, with exceptions that bound starvation. Normal tasks
/// that other threads spawned or woke go before the others, at most 128 times in a row. Of the
/// other times at which a task is taken from the queue every eighth begins at
/// [`Normal`](Self::Normal), every 64th at [`Low`](Self::Low). So a low task with k others ahead of
/// it is polled within 8256 (k + 1) times.
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
    /// How many there are.
    pub(crate) const COUNT: usize = 3;

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}
