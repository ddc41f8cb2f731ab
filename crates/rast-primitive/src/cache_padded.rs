//! A value on cache lines of its own.
//!
//! If two threads write different values on one cache line, each write costs a miss. The unit here
//! is 128 bytes: a cache line of Apple's processors, and the pair of 64-byte lines that Intel's
//! prefetcher fetches together.

use core::ops::{Deref, DerefMut};

/// Pads and aligns a value to 128 bytes, so that no other value shares its cache line or the
/// neighbouring line that the prefetcher fetches with it.
///
/// # Examples
///
/// ```
/// use rast_primitive::CachePadded;
/// use rast_primitive::sync::atomic::AtomicUsize;
///
/// struct Ring {
///     head: CachePadded<AtomicUsize>, // Written by the consumer.
///     tail: CachePadded<AtomicUsize>, // Written by the producer.
/// }
/// assert_eq!(size_of::<Ring>(), 256);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(align(128))]
pub struct CachePadded<T>(T);

const _: () = assert!(align_of::<CachePadded<u8>>() == 128);

impl<T> CachePadded<T> {
    /// Pads `value`.
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value.
    #[inline]
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> From<T> for CachePadded<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
