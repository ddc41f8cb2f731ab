//! How a thread waits: by spinning, by sleeping, or by spinning first and then sleeping.

use crate::backoff::Backoff;

/// How a thread that has nothing to do waits for work.
///
/// | strategy | while waiting                        | wakes in                             | costs                        |
/// | -------- | ------------------------------------ | ------------------------------------ | ---------------------------- |
/// | Spin     | spins, then yields, and never sleeps | the next check                       | a whole core, always         |
/// | Adaptive | spins and yields, then sleeps        | as Spin while awake, as Park asleep  | a few yields per idle period |
/// | Park     | sleeps at once                       | a system wake-up                     | a system call per wake-up    |
///
/// The awake phase of Adaptive is that of [`Backoff`]. On four cores or more it has 1 + 2 + .. + 32
/// spin hints. On two or three cores it has 1 + 2 + 4 spin hints, and on one core none. Then it
/// yields 4 times.
///
/// # Examples
///
/// ```
/// use rast_primitive::{Backoff, WaitStrategy};
///
/// let strategy = WaitStrategy::default();
/// assert_eq!(strategy, WaitStrategy::Adaptive);
///
/// let backoff = Backoff::new();
/// while strategy.is_awake(&backoff) {
///     backoff.snooze(); // Check for work here, too.
/// }
/// // Register, check once more, then sleep.
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WaitStrategy {
    /// Never sleeps. For threads that own their core.
    Spin,
    /// Stays awake for a moment, then sleeps.
    #[default]
    Adaptive,
    /// Sleeps at once. For threads that share a core with others.
    Park,
}

impl WaitStrategy {
    /// Returns `true` while a waiting thread should check again rather than sleep. Between two
    /// checks the thread calls [`Backoff::snooze`] of `backoff`.
    #[inline]
    pub fn is_awake(self, backoff: &Backoff) -> bool {
        match self {
            Self::Spin => true,
            Self::Adaptive => !backoff.is_completed(),
            Self::Park => false,
        }
    }
}
