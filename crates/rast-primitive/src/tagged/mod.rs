//! A pointer and a count in one word, read and changed together.
//!
//! A thread that claims an entry of a structure by incrementing a count must know to which
//! structure the count belongs. So one read-modify-write must return the count and a pointer to the
//! structure. There are three layouts with one interface, chosen at compile time:
//!
//! | layout      | chosen by                                        | count            | refuses                       | addition  |
//! | ----------- | ------------------------------------------------ | ---------------- | ----------------------------- | --------- |
//! | high-bits   | default, 64-bit pointers                         | 16 bits          | addresses of 2^48 and above   | wait-free |
//! | low-bits    | `--cfg rast_tagged_low`, 64-bit pointers         | log2(align) bits | addresses not aligned         | lock-free |
//! | double-word | `--cfg rast_tagged_wide`, Android on aarch64, or other pointer widths | half of the word | nothing | lock-free if the processor has a double-word instruction |
//!
//! `rast_tagged_wide` takes precedence over `rast_tagged_low`. loom has no 128-bit atomics, so
//! under loom one of the first two layouts is used. Android on aarch64 cannot use high-bits,
//! because its heap pointers have a tag in the top byte. An address is checked when a [`TaggedPtr`]
//! is made from it; loads check nothing.
//!
//! [`WideTaggedPtr`] always has the double-word layout, except under loom.

use core::fmt;
use core::marker::PhantomData;

use crate::constructor;
use crate::sync::atomic::Ordering;

#[cfg(all(
    target_pointer_width = "64",
    not(rast_tagged_low),
    any(
        rast_loom,
        not(any(rast_tagged_wide, all(target_os = "android", target_arch = "aarch64")))
    )
))]
#[path = "high.rs"]
mod layout;
#[cfg(all(
    target_pointer_width = "64",
    rast_tagged_low,
    any(
        rast_loom,
        not(any(rast_tagged_wide, all(target_os = "android", target_arch = "aarch64")))
    )
))]
#[path = "low.rs"]
mod layout;
#[cfg(any(
    not(target_pointer_width = "64"),
    all(
        any(rast_tagged_wide, all(target_os = "android", target_arch = "aarch64")),
        not(rast_loom)
    )
))]
use wide as layout;
#[cfg(all(
    target_pointer_width = "64",
    any(
        rast_loom,
        not(any(rast_tagged_wide, all(target_os = "android", target_arch = "aarch64")))
    )
))]
mod word;

mod double;
// Used by the wide pointers; a model uses the layout of the others.
#[cfg(all(rast_loom, target_pointer_width = "64"))]
use layout as wide;
#[cfg(not(all(rast_loom, target_pointer_width = "64")))]
mod wide;

pub use double::{AtomicWideTaggedPtr, WideTaggedPtr};

/// A pointer and a wrapping count, as one copyable word.
///
/// # Examples
///
/// ```
/// use rast_primitive::TaggedPtr;
///
/// let mut value = 7_u64;
/// let tagged = TaggedPtr::new(&mut value, 3);
/// assert_eq!(tagged.count(), 3);
/// assert!(core::ptr::eq(tagged.ptr(), &value));
/// ```
pub struct TaggedPtr<T> {
    word: layout::Word,
    of: PhantomData<*mut T>,
}

impl<T> TaggedPtr<T> {
    /// Number of bits of the count, which wraps modulo `2^COUNT_BITS`.
    ///
    /// 16 in the high-bits layout, log2 of the alignment of `T` in the low-bits one, 64 (32 with
    /// 32-bit pointers) in the double-word one. Code that needs more must assert it: `const {
    /// assert!(TaggedPtr::<T>::COUNT_BITS >= 10) }`.
    pub const COUNT_BITS: u32 = layout::count_bits::<T>();

    /// The maximum count.
    pub const COUNT_MAX: u64 = match Self::COUNT_BITS {
        64 => u64::MAX,
        bits => (1 << bits) - 1,
    };

    /// The name of the layout: `high-bits`, `low-bits` or `double-word`.
    pub const LAYOUT: &'static str = layout::NAME;

    /// A null pointer with count 0.
    #[must_use]
    pub const fn null() -> Self {
        Self {
            word: layout::NULL,
            of: PhantomData,
        }
    }

    /// A null pointer with `count`, modulo `2^COUNT_BITS`: a start value before memory is
    /// allocated.
    #[must_use]
    pub const fn null_with_count(count: u64) -> Self {
        Self {
            word: layout::null_with_count::<T>(count & Self::COUNT_MAX),
            of: PhantomData,
        }
    }

    /// Joins `pointer` and `count`, which is taken modulo `2^COUNT_BITS`.
    ///
    /// # Panics
    ///
    /// If the address does not fit the layout; the message names both.
    #[inline]
    #[track_caller]
    pub fn new(pointer: *mut T, count: u64) -> Self {
        match Self::try_new(pointer, count) {
            Ok(tagged) => tagged,
            Err(refused) => refuse_slow(refused),
        }
    }

    /// Joins `pointer` and `count`, which is taken modulo `2^COUNT_BITS`.
    ///
    /// # Errors
    ///
    /// [`AddressTooWide`] if the address has bits set where the layout has the count.
    #[inline]
    pub fn try_new(pointer: *mut T, count: u64) -> Result<Self, AddressTooWide> {
        let address = pointer.addr();
        if layout::fits::<T>(address) {
            Ok(Self::pack(pointer, count))
        } else {
            Err(AddressTooWide { address })
        }
    }

    /// Returns the pointer.
    #[inline]
    #[must_use]
    pub fn ptr(self) -> *mut T {
        layout::pointer(self.word)
    }

    /// Returns the count.
    #[inline]
    #[must_use]
    pub fn count(self) -> u64 {
        layout::count::<T>(self.word)
    }

    /// Returns the same pointer with `count`, modulo `2^COUNT_BITS`.
    #[inline]
    #[must_use]
    pub fn with_count(self, count: u64) -> Self {
        Self::pack(self.ptr(), count)
    }

    /// Returns `true` if the pointer is null, for any count.
    #[inline]
    #[must_use]
    pub fn is_null(self) -> bool {
        self.ptr().is_null()
    }

    /// Joins pointer and count; the address must fit the layout.
    #[inline]
    fn pack(pointer: *mut T, count: u64) -> Self {
        Self::from_word(layout::pack(pointer, count & Self::COUNT_MAX))
    }

    #[inline]
    fn from_word(word: layout::Word) -> Self {
        Self {
            word,
            of: PhantomData,
        }
    }
}

#[cold]
#[track_caller]
fn refuse_slow(refused: AddressTooWide) -> ! {
    panic!("{refused}")
}

impl<T> Clone for TaggedPtr<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TaggedPtr<T> {}

impl<T> PartialEq for TaggedPtr<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl<T> Eq for TaggedPtr<T> {}

impl<T> Default for TaggedPtr<T> {
    fn default() -> Self {
        Self::null()
    }
}

impl<T> fmt::Debug for TaggedPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaggedPtr")
            .field("ptr", &self.ptr())
            .field("count", &self.count())
            .finish()
    }
}

/// The error for an address that does not fit the layout of [`TaggedPtr`].
///
/// # Examples
///
/// ```
/// use rast_primitive::TaggedPtr;
///
/// let tagged_by_hand = core::ptr::without_provenance_mut::<u64>(usize::MAX);
/// if let Err(refused) = TaggedPtr::try_new(tagged_by_hand, 0) {
///     assert!(refused.to_string().contains(TaggedPtr::<u64>::LAYOUT));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressTooWide {
    address: usize,
}

impl AddressTooWide {
    /// Returns the rejected address.
    #[must_use]
    pub const fn address(self) -> usize {
        self.address
    }
}

impl fmt::Display for AddressTooWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "address {:#x} does not fit the {} layout of TaggedPtr: {}",
            self.address,
            layout::NAME,
            layout::RULE
        )
    }
}

impl core::error::Error for AddressTooWide {}

/// A [`TaggedPtr`] that threads share: each operation accesses both parts at once.
///
/// Loads, stores and exchanges are one instruction in the one-word layouts.
///
/// # Examples
///
/// ```
/// use rast_primitive::{AtomicTaggedPtr, TaggedPtr};
/// use rast_primitive::sync::atomic::Ordering;
///
/// let mut block = 0_u64;
/// let head = AtomicTaggedPtr::new(TaggedPtr::new(&mut block, 0));
///
/// // Claim an entry: returns the block and the index of the entry.
/// let claimed = head.fetch_add_count(1, Ordering::Acquire);
/// assert_eq!((claimed.ptr(), claimed.count()), (&raw mut block, 0));
/// assert_eq!(head.load(Ordering::Relaxed).count(), 1);
/// ```
pub struct AtomicTaggedPtr<T> {
    word: layout::AtomicWord,
    /// Implements `Send` and `Sync` as an atomic pointer does.
    of: PhantomData<core::sync::atomic::AtomicPtr<T>>,
}

impl<T> AtomicTaggedPtr<T> {
    constructor! {
        /// Makes an atomic with this value.
        #[must_use]
        #[cfg_attr(rast_loom, track_caller)]
        pub fn new(value: TaggedPtr<T>) -> Self {
            Self {
                word: layout::AtomicWord::new(value.word),
                of: PhantomData,
            }
        }
    }

    /// Returns whether the operations are lock-free: in the double-word layout this depends on the
    /// processor.
    ///
    /// ```
    /// use rast_primitive::AtomicTaggedPtr;
    ///
    /// assert!(AtomicTaggedPtr::<u64>::is_lock_free());
    /// ```
    #[inline]
    #[must_use]
    pub fn is_lock_free() -> bool {
        layout::is_lock_free()
    }

    /// Returns both parts. Wait-free and without branches in the one-word layouts.
    #[inline]
    #[track_caller]
    pub fn load(&self, order: Ordering) -> TaggedPtr<T> {
        TaggedPtr::from_word(self.word.load(order))
    }

    /// Replaces both parts. Wait-free in the one-word layouts.
    #[inline]
    #[track_caller]
    pub fn store(&self, value: TaggedPtr<T>, order: Ordering) {
        self.word.store(value.word, order);
    }

    /// Replaces both parts and returns the previous pair. Wait-free in the one-word
    /// layouts.
    #[inline]
    #[track_caller]
    pub fn swap(&self, value: TaggedPtr<T>, order: Ordering) -> TaggedPtr<T> {
        TaggedPtr::from_word(self.word.swap(value.word, order))
    }

    /// Replaces both parts if both equal `current`; returns the previous pair.
    ///
    /// # Errors
    ///
    /// The current pair, if it is not `current`.
    #[inline]
    #[track_caller]
    pub fn compare_exchange(
        &self,
        current: TaggedPtr<T>,
        new: TaggedPtr<T>,
        success: Ordering,
        failure: Ordering,
    ) -> Result<TaggedPtr<T>, TaggedPtr<T>> {
        self.word
            .compare_exchange(current.word, new.word, success, failure)
            .map(TaggedPtr::from_word)
            .map_err(TaggedPtr::from_word)
    }

    /// As [`compare_exchange`](Self::compare_exchange), but may fail spuriously; for loops.
    ///
    /// # Errors
    ///
    /// The current pair, which may be `current`.
    #[inline]
    #[track_caller]
    pub fn compare_exchange_weak(
        &self,
        current: TaggedPtr<T>,
        new: TaggedPtr<T>,
        success: Ordering,
        failure: Ordering,
    ) -> Result<TaggedPtr<T>, TaggedPtr<T>> {
        self.word
            .compare_exchange_weak(current.word, new.word, success, failure)
            .map(TaggedPtr::from_word)
            .map_err(TaggedPtr::from_word)
    }

    /// Adds `n` to the count, which wraps and leaves the pointer unchanged; returns the previous
    /// pair.
    ///
    /// Wait-free in the high-bits layout; lock-free in the others.
    #[inline]
    #[track_caller]
    pub fn fetch_add_count(&self, n: u64, order: Ordering) -> TaggedPtr<T> {
        TaggedPtr::from_word(layout::fetch_add::<T>(&self.word, n, order))
    }
}

impl<T> Default for AtomicTaggedPtr<T> {
    fn default() -> Self {
        Self::new(TaggedPtr::null())
    }
}

impl<T> fmt::Debug for AtomicTaggedPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: for debug output only; the pointer is not dereferenced. [TP3]
        self.load(Ordering::Relaxed).fmt(f)
    }
}
