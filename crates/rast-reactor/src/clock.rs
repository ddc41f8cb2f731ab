//! Clocks that reactors and pools share.

use rast_executor::timers::{Clock, ContainedClock, MonotonicClock};

use crate::primitive::sync::Arc;

/// A clock of the program behind a pointer. Its panics are caught, because threads of this crate
/// read and drop it.
pub(crate) fn shared_clock(
    clock: impl Clock + Send + Sync + 'static,
) -> Arc<dyn Clock + Send + Sync> {
    crate::primitive::unsized_arc!(ContainedClock::new(clock))
}

/// The system's monotonic clock behind a pointer.
pub(crate) fn system_clock() -> Arc<dyn Clock + Send + Sync> {
    let clock = MonotonicClock::new();
    crate::primitive::unsized_arc!(clock)
}
