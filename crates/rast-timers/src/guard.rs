//! What the amortised timers look at to know that little time has passed.
//!
//! Source: RAST 2.6 counts calls, which says nothing of time. A guard is a word
//! that moves with time and costs less than a clock: a published
//! [`Tick`](crate::Tick), a load; or the upper bits of the processor's counter,
//! which needs no publisher.

use crate::primitive::CachePadded;
use crate::primitive::sync::Arc;
use crate::{Instant, Tick};

/// A word that moves with time.
///
/// It owes the timers this, and their bounds speak of it: if two calls of
/// [`word`](Self::word) return the same word, and the first one was vouched
/// for, then at most τ + δ passed between the first one's return and the
/// second one's.
///
/// For a [`Tick`] τ is the period of its publisher and δ the publisher's
/// lateness.
pub trait Guard {
    /// Returns the word now.
    fn word(&self) -> u64;

    /// Tells whether `word`, loaded before the timer's clock showed `now`, may
    /// be trusted. A timer that is told no reads its clock at the next call
    /// too.
    fn vouches(&self, word: u64, now: Instant) -> bool;
}

impl Guard for Tick {
    #[inline(always)]
    fn word(&self) -> u64 {
        self.load()
    }

    /// A word ahead of the clock breaks the tick's first promise and says
    /// nothing of how old it is.
    #[inline]
    fn vouches(&self, word: u64, now: Instant) -> bool {
        word <= now.as_nanos()
    }
}

macro_rules! forward {
    ($($generics:tt)*) => {
        impl<$($generics)* {
            #[inline(always)]
            fn word(&self) -> u64 {
                (**self).word()
            }

            #[inline]
            fn vouches(&self, word: u64, now: Instant) -> bool {
                (**self).vouches(word, now)
            }
        }
    };
}

forward!(G: Guard + ?Sized> Guard for &G);
forward!(G: Guard + ?Sized> Guard for Arc<G>);
forward!(G: Guard> Guard for CachePadded<G>);
