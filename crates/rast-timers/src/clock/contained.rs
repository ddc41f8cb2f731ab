//! A clock whose panics are caught, for threads that serve more than the owner of the clock.

use super::Clock;
use crate::primitive::panics::{contain, discard};
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use crate::{Instant, Nanos};
use core::fmt;

/// How far the stored reading may be behind the last one.
const BEHIND: Nanos = Nanos::from_millis(1);

/// A clock whose panics are caught, for a thread that must continue even if a clock of the program
/// panics.
///
/// If the clock panics, the reading returns a time that is at most 1 ms before the last successful
/// reading. If there was none, it returns [`Instant::ORIGIN`]. So a panic moves time back by at
/// most 1 ms. While every reading panics, time stops. The payload of such a panic, or of a panic in
/// the clock's destructor, is [discarded](crate::primitive::panics::discard).
///
/// A reading costs an indirect call and one load more than a reading of the inner clock. At most
/// once per millisecond, a reading also writes the word that all threads share.
///
/// ```
/// use rast_timers::{Clock, ContainedClock, Instant};
///
/// struct Broken;
/// impl Clock for Broken {
///     fn now(&self) -> Instant {
///         panic!("no time")
///     }
/// }
/// assert_eq!(ContainedClock::new(Broken).now(), Instant::ORIGIN);
/// ```
pub struct ContainedClock<C> {
    /// `None` while it is dropped.
    clock: Option<C>,
    /// A reading, in nanoseconds. Written once per [`BEHIND`] at most, because all threads share
    /// the word.
    last: AtomicU64,
}

impl<C: Clock> ContainedClock<C> {
    /// Wraps a clock. Does not read it.
    #[must_use]
    pub fn new(clock: C) -> Self {
        Self {
            clock: Some(clock),
            last: AtomicU64::new(Instant::ORIGIN.as_nanos()),
        }
    }
}

impl<C: Clock> Clock for ContainedClock<C> {
    #[inline]
    fn now(&self) -> Instant {
        // Relaxed: any earlier reading is a time too.
        let last = || Instant::from_nanos(self.last.load(Ordering::Relaxed));
        let Some(clock) = &self.clock else {
            return last();
        };
        match contain(|| clock.now()) {
            Ok(now) => {
                if now.saturating_since(last()) >= BEHIND {
                    // Relaxed: as above; of two readings the later one stays.
                    self.last.fetch_max(now.as_nanos(), Ordering::Relaxed);
                }
                now
            }
            Err(payload) => {
                discard(payload);
                // Loaded after the call, because other threads may have read meanwhile.
                last()
            }
        }
    }
}

impl<C> Drop for ContainedClock<C> {
    fn drop(&mut self) {
        discard(self.clock.take());
    }
}

impl<C> fmt::Debug for ContainedClock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContainedClock").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::boxed::Box;
    use std::sync::Barrier;
    use std::vec::Vec;

    /// A clock that panics at some readings and in its destructor, with payloads whose destructors
    /// panic too.
    struct Broken<'a> {
        readings: Cell<u64>,
        drops: &'a Cell<u32>,
    }

    struct Loud;

    impl Drop for Loud {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }

    impl Clock for Broken<'_> {
        fn now(&self) -> Instant {
            let reading = self.readings.replace(self.readings.get() + 1);
            if reading % 2 == 1 {
                std::panic::resume_unwind(Box::new(Loud));
            }
            // A third of a millisecond from one reading to the next.
            Instant::from_nanos(10_000_000 + reading * 333_333)
        }
    }

    impl Drop for Broken<'_> {
        fn drop(&mut self) {
            self.drops.set(self.drops.get() + 1);
            std::panic::resume_unwind(Box::new(Loud));
        }
    }

    #[test]
    fn a_reading_that_panics_is_at_most_a_millisecond_behind() {
        let drops = Cell::new(0);
        let clock = ContainedClock::new(Broken {
            readings: Cell::new(0),
            drops: &drops,
        });
        let readings: Vec<_> = (0..100).map(|_| clock.now()).collect();
        for pair in readings.chunks(2) {
            let behind = pair[0].saturating_since(pair[1]);
            assert!(pair[1] <= pair[0] && behind < BEHIND, "{pair:?}");
        }
        drop(clock);
        assert_eq!(drops.get(), 1);
    }

    /// A clock whose first reading waits twice and then panics, and whose others are late.
    struct Slow<'a> {
        readings: AtomicU64,
        gates: [&'a Barrier; 2],
    }

    impl Clock for Slow<'_> {
        fn now(&self) -> Instant {
            if self.readings.fetch_add(1, Ordering::Relaxed) == 0 {
                self.gates.iter().for_each(|gate| _ = gate.wait());
                std::panic::resume_unwind(Box::new(()));
            }
            Instant::from_nanos(10_000_000_000)
        }
    }

    #[test]
    fn a_slow_reading_that_panics_is_not_behind_those_of_other_threads() {
        let (entered, goes_on) = (Barrier::new(2), Barrier::new(2));
        let clock = ContainedClock::new(Slow {
            readings: AtomicU64::new(0),
            gates: [&entered, &goes_on],
        });
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| clock.now());
            entered.wait();
            let fast = clock.now();
            goes_on.wait();
            let slow = slow.join().expect("the panic is contained");
            assert!(fast.saturating_since(slow) < BEHIND, "{fast:?} {slow:?}");
        });
    }
}
