//! Clocks that reactors and pools share.

use rast_executor::timers::{Clock, Instant, MonotonicClock, Nanos};

use crate::primitive::panics::{contain, discard};
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use crate::quiet::Quiet;

/// How far the remembered time of a clock may be behind.
const BEHIND: Nanos = Nanos::from_millis(1);

/// A clock of the program whose panics are contained: instead of a reading that panics it returns a
/// remembered one, at most a millisecond before the last.
struct Contained<C> {
    clock: Quiet<C>,
    /// In nanoseconds; written once a millisecond at most, since all threads share the word.
    last: AtomicU64,
}

impl<C: Clock> Clock for Contained<C> {
    fn now(&self) -> Instant {
        // Relaxed: an old time is one too.
        let last = Instant::from_nanos(self.last.load(Ordering::Relaxed));
        match contain(|| self.clock.now()) {
            Ok(now) => {
                if now.saturating_since(last) >= BEHIND {
                    // Relaxed: as above; of two readings the later one is kept.
                    self.last.fetch_max(now.as_nanos(), Ordering::Relaxed);
                }
                now
            }
            Err(payload) => {
                discard(payload);
                last
            }
        }
    }
}

/// A clock of the program behind a pointer.
pub(crate) fn shared_clock(
    clock: impl Clock + Send + Sync + 'static,
) -> Arc<dyn Clock + Send + Sync> {
    let last = AtomicU64::new(0);
    let clock = Contained {
        clock: Quiet::new(clock),
        last,
    };
    crate::primitive::unsized_arc!(clock)
}

/// The system's monotonic clock behind a pointer.
pub(crate) fn system_clock() -> Arc<dyn Clock + Send + Sync> {
    let clock = MonotonicClock::new();
    crate::primitive::unsized_arc!(clock)
}
