//! The priority of a task.

/// Priority of a task among the ready tasks of a worker.
///
/// Starvation is bounded. Of any 8 consecutive steps of a worker, one runs a normal task if one is
/// ready. Of any 32, one runs a low task if one is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Before the others.
    High,
    /// The default.
    #[default]
    Normal,
    /// If no other task is ready, or once in 32 steps.
    Low,
}

impl Priority {
    /// Number of priorities.
    pub(crate) const COUNT: usize = 3;
}
