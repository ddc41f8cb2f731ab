//! The one clock of a graph, whatever its type is.
//!
//! The system's clock is called directly. A clock of the user may panic. The graph reads it while a
//! place of a door is reserved or a message is in hand, so each panic is caught here. The graph
//! then keeps the time that was read last, and the report has the panic.

use core::fmt;

use crate::panics::text;
use crate::primitive::panics::{Payload, contain};
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use crate::primitive::sync::{Arc, Mutex};
use crate::timers::{Clock, Instant, MonotonicClock};

/// The clock of a graph.
#[derive(Clone)]
pub(crate) enum GraphClock {
    System(MonotonicClock),
    User(Arc<UserClock>),
}

impl GraphClock {
    pub(crate) fn new(clock: impl Clock + Send + Sync + 'static) -> Self {
        Self::User(Arc::new(UserClock {
            clock: Box::new(clock),
            last: AtomicU64::new(0),
            panics: Mutex::new(Panics::default()),
        }))
    }

    /// Returns what is to be said about panics of the clock, if there were any.
    pub(crate) fn fault(&self) -> Option<String> {
        let Self::User(user) = self else {
            return None;
        };
        let panics = user.panics.lock();
        match panics.count {
            0 => None,
            1 => Some(format!("the clock panicked: {}", panics.first)),
            count => Some(format!(
                "the clock panicked {count} times, first: {}",
                panics.first
            )),
        }
    }
}

impl Clock for GraphClock {
    #[inline]
    fn now(&self) -> Instant {
        match self {
            Self::System(clock) => clock.now(),
            Self::User(user) => user.now(),
        }
    }
}

impl fmt::Debug for GraphClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GraphClock").field(&self.now()).finish()
    }
}

/// A clock of the user, and its panics.
pub(crate) struct UserClock {
    clock: Box<dyn Clock + Send + Sync>,
    /// The last time that it returned, in nanoseconds.
    last: AtomicU64,
    panics: Mutex<Panics>,
}

#[derive(Default)]
struct Panics {
    count: u64,
    /// The text of the first one.
    first: String,
}

impl UserClock {
    fn now(&self) -> Instant {
        match contain(|| self.clock.now()) {
            Ok(now) => {
                // Relaxed: a number that orders nothing, and is read after a panic alone.
                self.last.store(now.as_nanos(), Ordering::Relaxed);
                now
            }
            Err(payload) => self.panicked(payload),
        }
    }

    #[cold]
    fn panicked(&self, payload: Payload) -> Instant {
        let text = text(payload);
        let mut panics = self.panics.lock();
        if panics.count == 0 {
            panics.first = text;
        }
        panics.count += 1;
        // Relaxed: as above.
        Instant::from_nanos(self.last.load(Ordering::Relaxed))
    }
}
