//! A value that fits one word, stored inline: a put is one swap.

use core::num::{NonZeroI64, NonZeroU32, NonZeroU64};

use super::{Cell, Put, Taken};
use crate::primitive::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed, Release},
};

/// A value that is stored inline as one word; zero means "no value".
///
/// `decode` is the inverse of `encode`. For [`Least`](crate::Least) and
/// [`Greatest`](crate::Greatest) `encode` must also keep the order: `a < b` if and only if
/// `a.encode() < b.encode()`. All impls here keep the order, except the one for `NonZeroI64`; the
/// order of floats is that of `total_cmp`.
///
/// `u64` and `i64` use every bit and leave no word for "no value": use the `NonZero` types, or
/// [`Newest`](crate::Newest).
///
/// ```
/// use rast_conflate::Word;
/// use core::num::NonZeroU64;
///
/// #[derive(Clone, Copy)]
/// struct Level(u16);
///
/// impl Word for Level {
///     fn encode(self) -> NonZeroU64 {
///         NonZeroU64::new(u64::from(self.0) + 1).unwrap()
///     }
///     fn decode(word: NonZeroU64) -> Self {
///         Self((word.get() - 1) as u16)
///     }
/// }
/// assert_eq!(Level::decode(Level(7).encode()).0, 7);
/// ```
pub trait Word: Copy + Send + 'static {
    /// Returns the word of this value.
    fn encode(self) -> NonZeroU64;
    /// Returns the value of a word that [`encode`](Self::encode) made.
    fn decode(word: NonZeroU64) -> Self;
}

/// Returns the word of a number below 2^64 - 1.
#[inline(always)]
const fn above(number: u64) -> NonZeroU64 {
    match NonZeroU64::new(number.wrapping_add(1)) {
        Some(word) => word,
        None => panic!("the encoding leaves zero free"),
    }
}

macro_rules! small {
    ($($unsigned:ty, $signed:ty);*) => {$(
        impl Word for $unsigned {
            #[inline(always)]
            fn encode(self) -> NonZeroU64 {
                above(u64::from(self))
            }
            #[inline(always)]
            fn decode(word: NonZeroU64) -> Self {
                (word.get() - 1) as $unsigned
            }
        }

        impl Word for $signed {
            #[inline(always)]
            fn encode(self) -> NonZeroU64 {
                above(u64::from(self as $unsigned ^ (1 << (<$unsigned>::BITS - 1))))
            }
            #[inline(always)]
            fn decode(word: NonZeroU64) -> Self {
                ((word.get() - 1) as $unsigned ^ (1 << (<$unsigned>::BITS - 1))) as $signed
            }
        }
    )*};
}
small!(u8, i8; u16, i16; u32, i32);

impl Word for bool {
    #[inline(always)]
    fn encode(self) -> NonZeroU64 {
        above(u64::from(self))
    }
    #[inline(always)]
    fn decode(word: NonZeroU64) -> Self {
        word.get() == 2
    }
}

impl Word for char {
    #[inline(always)]
    fn encode(self) -> NonZeroU64 {
        above(u64::from(u32::from(self)))
    }
    #[inline(always)]
    fn decode(word: NonZeroU64) -> Self {
        Self::from_u32((word.get() - 1) as u32).expect("the word of a char")
    }
}

/// In the order of `f32::total_cmp`.
impl Word for f32 {
    #[inline(always)]
    fn encode(self) -> NonZeroU64 {
        let bits = self.to_bits();
        let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
        above(u64::from(bits ^ flip))
    }
    #[inline(always)]
    fn decode(word: NonZeroU64) -> Self {
        let bits = (word.get() - 1) as u32;
        let flip = if bits >> 31 == 0 { u32::MAX } else { 1 << 31 };
        Self::from_bits(bits ^ flip)
    }
}

/// In the order of `f64::total_cmp`; every NaN becomes the one of [`f64::NAN`].
impl Word for f64 {
    #[inline(always)]
    fn encode(self) -> NonZeroU64 {
        let bits = if self.is_nan() {
            Self::NAN.to_bits()
        } else {
            self.to_bits()
        };
        let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
        above(bits ^ flip)
    }
    #[inline(always)]
    fn decode(word: NonZeroU64) -> Self {
        let bits = word.get() - 1;
        let flip = if bits >> 63 == 0 { u64::MAX } else { 1 << 63 };
        Self::from_bits(bits ^ flip)
    }
}

impl Word for NonZeroU64 {
    #[inline(always)]
    fn encode(self) -> NonZeroU64 {
        self
    }
    #[inline(always)]
    fn decode(word: NonZeroU64) -> Self {
        word
    }
}

impl Word for NonZeroU32 {
    #[inline(always)]
    fn encode(self) -> NonZeroU64 {
        self.into()
    }
    #[inline(always)]
    fn decode(word: NonZeroU64) -> Self {
        Self::new(word.get() as u32).expect("the word of a non-zero number")
    }
}

impl Word for NonZeroI64 {
    #[inline(always)]
    fn encode(self) -> NonZeroU64 {
        self.cast_unsigned()
    }
    #[inline(always)]
    fn decode(word: NonZeroU64) -> Self {
        word.cast_signed()
    }
}

impl Word for () {
    #[inline(always)]
    fn encode(self) -> NonZeroU64 {
        NonZeroU64::MIN
    }
    #[inline(always)]
    fn decode(_: NonZeroU64) -> Self {}
}

impl Word for (u32, u16) {
    #[inline(always)]
    fn encode(self) -> NonZeroU64 {
        above(u64::from(self.0) << 16 | u64::from(self.1))
    }
    #[inline(always)]
    fn decode(word: NonZeroU64) -> Self {
        let bits = word.get() - 1;
        ((bits >> 16) as u32, bits as u16)
    }
}

/// A cell of one word; see [`Word`].
pub struct WordCell(AtomicU64);

impl<V: Word> Cell<V> for WordCell {
    type Spare = ();

    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    fn put(&self, _: &mut (), value: V) -> Put<V> {
        // Release: pairs with the AcqRel in take; the producer's earlier writes happen-before the
        // handler. [CW1]
        let old = self.0.swap(value.encode().get(), Release);
        Put::counted(u64::from(old != 0))
    }

    #[inline(always)]
    fn take(&self, _: &mut ()) -> Option<Taken<V>> {
        // AcqRel: pairs with the Release in put, and with a producer that takes its value back.
        // [CW2]
        let word = NonZeroU64::new(self.0.swap(0, AcqRel))?;
        Some(Taken::new(V::decode(word)))
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        // Relaxed: the swap that follows decides. [CW3]
        self.0.load(Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Debug;

    fn keeps_order<T: Word + PartialEq + Debug>(rising: &[T]) {
        for pair in rising.windows(2) {
            assert!(pair[0].encode() < pair[1].encode(), "{pair:?}");
        }
        for &value in rising {
            assert_eq!(T::decode(value.encode()), value);
        }
    }

    #[test]
    fn words_return_and_keep_their_order() {
        keeps_order(&[0_u8, 1, u8::MAX]);
        keeps_order(&[i8::MIN, -1, 0, 1, i8::MAX]);
        keeps_order(&[0_u32, 1, u32::MAX]);
        keeps_order(&[i32::MIN, -1, 0, 1, i32::MAX]);
        keeps_order(&[false, true]);
        keeps_order(&['\0', 'a', char::MAX]);
        keeps_order(&[f32::NEG_INFINITY, -1.0, 0.0, 1e-40, 1.0, f32::INFINITY]);
        keeps_order(&[f64::NEG_INFINITY, -1.0, 0.0, 5e-324, 1.0, f64::INFINITY]);
        keeps_order(&[NonZeroU64::MIN, NonZeroU64::MAX]);
        keeps_order(&[(0, 0), (0, 1), (1, 0), (u32::MAX, u16::MAX)]);
        for word in [NonZeroI64::MIN, NonZeroI64::MAX] {
            assert_eq!(NonZeroI64::decode(word.encode()), word);
        }
        for nan in [f64::NAN, -f64::NAN, f64::from_bits(u64::MAX)] {
            assert!(f64::decode(nan.encode()).is_nan());
        }
        assert!(f32::decode(f32::NAN.encode()).is_nan());
        assert!((-0.0_f64).encode() < 0.0_f64.encode());
    }
}
