//! How long one turn of a processor may take.

use core::time::Duration;

use crate::timers::{Instant, Nanos};

/// The limit of the batch that a processor handles in one turn: a number of messages, and
/// optionally a time.
///
/// A smaller batch is fairer to the other processors on the worker; a larger one costs less per
/// message.
///
/// ```
/// use core::time::Duration;
/// use rast_msgpass::Batch;
///
/// let batch = Batch::messages(16).time(Duration::from_micros(200));
/// assert_eq!(Batch::from(64), Batch::messages(64));
/// assert_ne!(batch, Batch::messages(16));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    pub(crate) messages: u32,
    pub(crate) time: Nanos,
}

impl Batch {
    /// Ends a batch after this number of messages of one edge.
    #[must_use]
    pub const fn messages(messages: usize) -> Self {
        Self {
            messages: match messages > u32::MAX as usize {
                true => u32::MAX,
                false => messages as u32,
            },
            time: Nanos::MAX,
        }
    }

    /// Also ends a batch after this time. The clock is read after 1, 2, 4 and so on messages as
    /// long as these took less than a quarter of the time, and then after each message.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time.into();
        self
    }
}

impl From<usize> for Batch {
    fn from(messages: usize) -> Self {
        Self::messages(messages)
    }
}

/// The time of one turn, if it is limited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    start: Instant,
    /// Whether the time has passed.
    pub(crate) is_over: bool,
    /// Whether much of it has passed: then the time is checked after each message.
    pub(crate) is_near: bool,
}

impl Watch {
    pub(crate) fn start(&mut self, now: Instant) {
        *self = Self {
            start: now,
            ..Self::default()
        };
    }

    /// Records the time.
    pub(crate) fn look(&mut self, now: Instant, limit: Nanos) {
        let spent = now.saturating_since(self.start).as_nanos();
        self.is_over = spent >= limit.as_nanos();
        self.is_near = spent >= limit.as_nanos() / 4;
    }
}
