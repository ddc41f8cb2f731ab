//! A pointer and a count of full width, whatever layout [`TaggedPtr`](super::TaggedPtr) has.
//!
//! Use it for a count that grows for as long as the pointer stays the same, which may be years.
//! Outside of models it has the double-word layout. A model uses the layout of `TaggedPtr`, because
//! loom has no 128-bit atomics.

use core::fmt;
use core::marker::PhantomData;

use super::{AddressTooWide, refuse_slow, wide};
use crate::constructor;
use crate::sync::atomic::Ordering;

/// A pointer and a wrapping count, as one copyable word. The count has 64 bits, or 32 with 32-bit
/// pointers; under loom it has the width of `TaggedPtr`'s count.
///
/// # Examples
///
/// ```
/// use rast_primitive::WideTaggedPtr;
///
/// let mut value = 7_u64;
/// let tagged = WideTaggedPtr::new(&mut value, 1 << 20);
/// assert_eq!(tagged.count(), 1 << 20);
/// assert!(core::ptr::eq(tagged.ptr(), &value));
/// ```
pub struct WideTaggedPtr<T> {
    word: wide::Word,
    of: PhantomData<*mut T>,
}

impl<T> WideTaggedPtr<T> {
    /// Number of bits of the count, which wraps modulo `2^COUNT_BITS`.
    ///
    /// 64, or 32 with 32-bit pointers; in a model that of [`TaggedPtr`](super::TaggedPtr).
    pub const COUNT_BITS: u32 = wide::count_bits::<T>();

    /// The maximum count.
    pub const COUNT_MAX: u64 = match Self::COUNT_BITS {
        64 => u64::MAX,
        bits => (1 << bits) - 1,
    };

    /// A null pointer with count 0.
    #[must_use]
    pub const fn null() -> Self {
        Self {
            word: wide::NULL,
            of: PhantomData,
        }
    }

    /// Joins `pointer` and `count`, which is taken modulo `2^COUNT_BITS`.
    ///
    /// # Panics
    ///
    /// Never outside of a model. In a model, if the address does not fit the layout.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn new(pointer: *mut T, count: u64) -> Self {
        let address = pointer.addr();
        if !wide::fits::<T>(address) {
            refuse_slow(AddressTooWide { address });
        }
        Self::from_word(wide::pack(pointer, count & Self::COUNT_MAX))
    }

    /// Returns the pointer.
    #[inline]
    #[must_use]
    pub fn ptr(self) -> *mut T {
        wide::pointer(self.word)
    }

    /// Returns the count.
    #[inline]
    #[must_use]
    pub fn count(self) -> u64 {
        wide::count::<T>(self.word)
    }

    #[inline]
    fn from_word(word: wide::Word) -> Self {
        Self {
            word,
            of: PhantomData,
        }
    }
}

impl<T> Clone for WideTaggedPtr<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for WideTaggedPtr<T> {}

impl<T> PartialEq for WideTaggedPtr<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl<T> Eq for WideTaggedPtr<T> {}

impl<T> Default for WideTaggedPtr<T> {
    fn default() -> Self {
        Self::null()
    }
}

impl<T> fmt::Debug for WideTaggedPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WideTaggedPtr")
            .field("ptr", &self.ptr())
            .field("count", &self.count())
            .finish()
    }
}

/// A [`WideTaggedPtr`] that threads share: each operation accesses both parts at once.
///
/// Every operation is lock-free if the processor has a double-word instruction: always on AArch64,
/// and on x86-64 builds with the target feature `cmpxchg16b`. Other x86-64 builds check for the
/// instruction at run time; only the first x86-64 processors lack it. Without the instruction, an
/// operation takes a lock for a short time, and [`is_lock_free`](Self::is_lock_free) returns
/// `false`. There are several such locks; the address of the word selects one. A load may be a
/// read-modify-write of the double word, so the memory must be writable.
///
/// # Examples
///
/// ```
/// use rast_primitive::{AtomicWideTaggedPtr, WideTaggedPtr};
/// use rast_primitive::sync::atomic::Ordering;
///
/// let mut node = 0_u64;
/// let head = AtomicWideTaggedPtr::new(WideTaggedPtr::new(&mut node, 0));
///
/// let seen = head.fetch_add_count(1, Ordering::Acquire);
/// assert_eq!((seen.ptr(), seen.count()), (&raw mut node, 0));
/// assert_eq!(head.load(Ordering::Relaxed).count(), 1);
/// ```
pub struct AtomicWideTaggedPtr<T> {
    word: wide::AtomicWord,
    /// Implements `Send` and `Sync` as an atomic pointer does.
    of: PhantomData<core::sync::atomic::AtomicPtr<T>>,
}

impl<T> AtomicWideTaggedPtr<T> {
    constructor! {
        /// Makes an atomic with this value.
        #[must_use]
        #[cfg_attr(rast_loom, track_caller)]
        pub fn new(value: WideTaggedPtr<T>) -> Self {
            Self {
                word: wide::AtomicWord::new(value.word),
                of: PhantomData,
            }
        }
    }

    /// Returns `true` if the operations are lock-free on this processor.
    #[must_use]
    pub fn is_lock_free() -> bool {
        wide::is_lock_free()
    }

    /// Returns both parts.
    #[inline]
    #[track_caller]
    pub fn load(&self, order: Ordering) -> WideTaggedPtr<T> {
        WideTaggedPtr::from_word(self.word.load(order))
    }

    /// Replaces both parts if both equal `current`; may fail spuriously. Returns the previous pair.
    ///
    /// # Errors
    ///
    /// The current pair, which may be `current`.
    #[inline]
    #[track_caller]
    pub fn compare_exchange_weak(
        &self,
        current: WideTaggedPtr<T>,
        new: WideTaggedPtr<T>,
        success: Ordering,
        failure: Ordering,
    ) -> Result<WideTaggedPtr<T>, WideTaggedPtr<T>> {
        self.word
            .compare_exchange_weak(current.word, new.word, success, failure)
            .map(WideTaggedPtr::from_word)
            .map_err(WideTaggedPtr::from_word)
    }

    /// Adds `n` to the count, which wraps and leaves the pointer unchanged; returns the previous
    /// pair.
    #[inline]
    #[track_caller]
    pub fn fetch_add_count(&self, n: u64, order: Ordering) -> WideTaggedPtr<T> {
        WideTaggedPtr::from_word(wide::fetch_add::<T>(&self.word, n, order))
    }
}

impl<T> Default for AtomicWideTaggedPtr<T> {
    fn default() -> Self {
        Self::new(WideTaggedPtr::null())
    }
}

impl<T> fmt::Debug for AtomicWideTaggedPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: for debug output only; the pointer is not dereferenced. [TP4]
        self.load(Ordering::Relaxed).fmt(f)
    }
}
