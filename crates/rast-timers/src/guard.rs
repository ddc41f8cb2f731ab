//! The word by which an amortised timer knows that little time has passed.
//!
//! Source: the original RAST design, 2.6. The original counts calls, which says nothing about time.
//! A guard is a word that changes with time and costs less than a clock. It is either a published
//! [`Tick`](crate::Tick), which costs a load, or the upper bits of the processor's counter, which
//! needs no publisher.

use crate::primitive::CachePadded;
use crate::primitive::sync::Arc;
use crate::{Instant, Tick};

/// A word that changes with time.
///
/// An implementation must guarantee the following, on which the bounds of the timers rest. Suppose
/// that two calls of [`word`](Self::word) return the same word, and `vouches` accepted it after the
/// first call. Then at most τ + δ passed between the returns of the two calls.
///
/// For a [`Tick`], τ is the period of its publisher and δ the publisher's lateness.
pub trait Guard {
    /// Returns the current word.
    fn word(&self) -> u64;

    /// Returns whether `word`, loaded before the timer's clock showed `now`, may be trusted. If
    /// not, the timer reads its clock at the next call too.
    fn vouches(&self, word: u64, now: Instant) -> bool;
}

impl Guard for Tick {
    #[inline(always)]
    fn word(&self) -> u64 {
        self.load()
    }

    /// A word ahead of the clock breaks the tick's first promise, and its age is unknown.
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
