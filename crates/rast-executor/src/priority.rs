//! Priorities of tasks.

/// How urgent a task is against others that are ready on the same worker.
///
/// A worker takes the most urgent task first, with two exceptions that bound starvation: every
/// eighth time it takes the next task from its queue it begins at [`Normal`](Self::Normal), and every
/// 64th time at [`Low`](Self::Low). See the crate docs for the bounds.
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
