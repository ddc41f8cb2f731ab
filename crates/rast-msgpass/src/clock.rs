//! The one clock of a graph.

use core::fmt;

use crate::primitive::sync::Arc;
use crate::timers::{Clock, Instant};

/// The clock of a graph.
#[derive(Clone)]
pub(crate) struct GraphClock(Arc<Box<dyn Clock + Send + Sync>>);

impl GraphClock {
    pub(crate) fn new(clock: impl Clock + Send + Sync + 'static) -> Self {
        Self(Arc::new(Box::new(clock)))
    }
}

impl Clock for GraphClock {
    #[inline]
    fn now(&self) -> Instant {
        (**self.0).now()
    }
}

impl fmt::Debug for GraphClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GraphClock").field(&self.now()).finish()
    }
}
