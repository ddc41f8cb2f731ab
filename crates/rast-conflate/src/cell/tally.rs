//! Values that are merged in one word: sums, and the minimum or maximum.

use core::num::NonZeroU64;

use super::{Cell, Put, Taken, Word};
use crate::primitive::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed, Release},
};

/// An integer of 64 bits that [`Sum`](crate::Sum) adds, wrapping around.
pub trait Integer: Copy + Send + 'static {
    /// Returns the number's bits.
    fn to_bits(self) -> u64;
    /// Returns the number with these bits.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integers {
    ($($integer:ty, $to_bits:expr, $from_bits:expr;)*) => {$(
        impl Integer for $integer {
            #[inline(always)]
            fn to_bits(self) -> u64 {
                $to_bits(self)
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                $from_bits(bits)
            }
        }
    )*};
}
integers! {
    u64, core::convert::identity, core::convert::identity;
    i64, i64::cast_unsigned, u64::cast_signed;
}

/// A sum; zero means that there is no value.
pub struct SumCell(AtomicU64);

impl Default for SumCell {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl<V: Integer> Cell<V> for SumCell {
    type Spare = ();

    fn new() -> Self {
        Self::default()
    }

    #[inline(always)]
    fn put(&self, _: &mut (), value: V) -> Put<V> {
        // Release: pairs with the AcqRel in take; the producers' earlier writes happen-before the
        // handler. An addition continues the release sequence of an earlier one. [CT1]
        let old = self.0.fetch_add(value.to_bits(), Release);
        let new = old.wrapping_add(value.to_bits());
        // Two values that cancel out both count as conflated, as does a zero on its own.
        Put::counted(u64::from(old != 0) + u64::from(new == 0))
    }

    #[inline(always)]
    fn take(&self, _: &mut ()) -> Option<Taken<V>> {
        // AcqRel: pairs with the Release in put, and with a producer that takes its value back.
        // [CT2]
        let sum = self.0.swap(0, AcqRel);
        (sum != 0).then(|| Taken::new(V::from_bits(sum)))
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        // Relaxed: the swap that follows decides. [CT3]
        self.0.load(Relaxed) != 0
    }
}

/// The maximum word, or the minimum if `LEAST`: then the words are negated, which reverses their
/// order.
pub struct PeakCell<const LEAST: bool>(AtomicU64);

impl<const LEAST: bool> PeakCell<LEAST> {
    #[inline(always)]
    fn turn(word: u64) -> u64 {
        if LEAST { word.wrapping_neg() } else { word }
    }
}

impl<V: Word, const LEAST: bool> Cell<V> for PeakCell<LEAST> {
    type Spare = ();

    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    fn put(&self, _: &mut (), value: V) -> Put<V> {
        // Release: pairs with the AcqRel in take; the producers' earlier writes happen-before the
        // handler. [CT4]
        let old = self.0.fetch_max(Self::turn(value.encode().get()), Release);
        Put::counted(u64::from(old != 0))
    }

    #[inline(always)]
    fn take(&self, _: &mut ()) -> Option<Taken<V>> {
        // AcqRel: pairs with the Release in put, and with a producer that takes its value back.
        // [CT5]
        let word = Self::turn(self.0.swap(0, AcqRel));
        Some(Taken::new(V::decode(NonZeroU64::new(word)?)))
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        // Relaxed: the swap that follows decides. [CT6]
        self.0.load(Relaxed) != 0
    }
}
