//! Settings of a sharder that its workers read.

use crate::primitive::WaitStrategy;
use crate::timers::{Instant, Nanos};

/// How a sharder runs, apart from its controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Zero: reshard on request only.
    pub(crate) period: Nanos,
    pub(crate) wait: WaitStrategy,
    /// Whether the program gave what workers sleep in, which then looks for I/O.
    pub(crate) polls: bool,
}

impl Settings {
    /// When a worker asks for a resharding in a window that begins now.
    pub(crate) fn window_end(&self, now: Instant) -> Instant {
        match self.period.is_zero() {
            true => Instant::MAX,
            false => now.saturating_add(self.period),
        }
    }
}
