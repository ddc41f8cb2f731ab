//! Size classes: which sizes share a list.
//!
//! ```text
//!   class     size                                  step
//!   0         8                                     -
//!   1..=16    16, 32, 48 .. 256                     16
//!   17..=24   288 .. 512                            32
//!   25..=32   576 .. 1024                           64
//!   33..=56   1152 .. 8192        (slabs end here)  128, 256, 512
//!   57..=96   9216 .. 262144      (cached spans)    1024 .. 16 K
//! ```
//!
//! Spans up to 256 KiB have classes so that lists can hold them. Splitting and joining a span for
//! each use costs three times a list's push and pop, and gives an address whose cache line and page
//! are cold.
//!
//! A hardened build serves requests of up to 8 bytes from class 1, because it records the state of
//! blocks in a table with one byte per 16 bytes ([`crate::hardened::marks`]).
//!
//! From 256 bytes on there are eight classes per doubling of the size. So rounding up loses at most
//! an eighth of a block.
//!
//! Alignment: a request is first rounded up to a multiple of its alignment. The size of the class
//! that serves it is again a multiple of the alignment (a test below checks all sizes). Blocks
//! start at multiples of their size from an aligned base, so they have the requested alignment. So
//! no alignment needs classes of its own.

use crate::Layout;
use crate::geometry::{HARDENED, SLOT};

/// The largest size that slabs serve. One load finds its class.
pub(crate) const SLAB_MAX: usize = 8192;
/// The largest size that has a class.
pub(crate) const CACHED_MAX: usize = 256 * 1024;
/// Number of classes that slabs serve.
pub(crate) const SLAB_CLASSES: usize = 57;
/// Number of classes.
pub(crate) const CLASSES: usize = 97;

/// The class of the smallest requests.
pub(crate) const CLASS_MIN: usize = if HARDENED { 1 } else { 0 };
/// Sizes up to this are in steps of 16.
const STEPPED: usize = 256;
/// The first class above them.
const FIRST_DOUBLING: usize = STEPPED / 16 + 1;

/// The size by which a request is served: its size, rounded up to a multiple of its alignment.
#[inline(always)]
pub(crate) const fn key_of(layout: Layout) -> usize {
    // No overflow: a layout's size rounded up to its alignment is at most `isize::MAX`.
    (layout.size() + layout.align() - 1) & !(layout.align() - 1)
}

/// The class of a key of at most [`CACHED_MAX`].
#[inline(always)]
pub(crate) const fn class_of(key: usize) -> usize {
    debug_assert!(key <= CACHED_MAX);
    if key <= 8 {
        CLASS_MIN
    } else if key <= STEPPED {
        key.div_ceil(16)
    } else {
        let doubling = (key - 1).ilog2() as usize;
        let eighth = ((key - 1) >> (doubling - 3)) - 8;
        FIRST_DOUBLING + 8 * (doubling - 8) + eighth
    }
}

/// The class of a layout whose key is at most [`SLAB_MAX`], by one load; `None` for other layouts,
/// and for one without size.
#[inline(always)]
pub(crate) fn small_class_of(layout: Layout) -> Option<usize> {
    // The key minus one: rounding up to a power of two, minus one, sets the bits below it. Without
    // a size it is the maximum.
    let last = layout.size().wrapping_sub(1) | (layout.align() - 1);
    if last < SLAB_MAX {
        Some(usize::from(TABLE[last / 8]))
    } else {
        None
    }
}

/// The block size of a class.
#[inline(always)]
pub(crate) const fn size_of_class(class: usize) -> usize {
    if class == 0 {
        8
    } else if class < FIRST_DOUBLING {
        16 * class
    } else {
        let doubling = (class - FIRST_DOUBLING) / 8;
        let eighth = (class - FIRST_DOUBLING) % 8;
        (STEPPED << doubling) + (eighth + 1) * ((STEPPED / 8) << doubling)
    }
}

/// Returns `true` if a block of a slab's class starts at this offset in the slot.
#[inline(always)]
pub(crate) fn is_start(class: usize, offset: usize) -> bool {
    debug_assert!(offset < SLOT);
    let Some(starts) = STARTS.get(class) else {
        return false;
    };
    // For a multiple of the size the product is below the step, as its fractional part is below one
    // block's.
    offset as u32 <= starts.last && (offset as u32).wrapping_mul(starts.step) < starts.step
}

/// The offsets at which blocks of a class start in a slot.
struct Starts {
    /// 2³² divided by the size, rounded up.
    step: u32,
    /// The offset of the last block.
    last: u32,
}

/// For each class that slabs serve.
static STARTS: [Starts; SLAB_CLASSES] = {
    let mut starts = [const { Starts { step: 0, last: 0 } }; SLAB_CLASSES];
    let mut class = 0;
    while class < SLAB_CLASSES {
        let size = size_of_class(class);
        starts[class] = Starts {
            step: (1_u64 << u32::BITS).div_ceil(size as u64) as u32,
            last: ((SLOT / size - 1) * size) as u32,
        };
        class += 1;
    }
    starts
};

/// Maximum number of blocks of a class in one of a heap's two lists.
pub(crate) const fn list_limit(class: usize) -> usize {
    let limit = 32 * 1024 / size_of_class(class);
    if limit > 256 {
        256
    } else if limit < 4 {
        4
    } else {
        limit
    }
}

/// The class of the keys in each eight bytes.
static TABLE: [u8; SLAB_MAX / 8] = {
    let mut table = [0; SLAB_MAX / 8];
    let mut index = 0;
    while index < table.len() {
        table[index] = class_of(8 * index + 8) as u8;
        index += 1;
    }
    table
};

const _: () = assert!(size_of_class(SLAB_CLASSES - 1) == SLAB_MAX);
const _: () = assert!(size_of_class(CLASSES - 1) == CACHED_MAX);
const _: () = assert!(class_of(CACHED_MAX) == CLASSES - 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_class_that_holds_the_key() {
        for key in 1..=CACHED_MAX {
            let class = class_of(key);
            assert!(size_of_class(class) >= key);
            assert!(
                class == CLASS_MIN || size_of_class(class - 1) < key,
                "{key}"
            );
            let layout = Layout::from_size_align(key, 1).unwrap();
            let expected = (key <= SLAB_MAX).then_some(class);
            assert_eq!(small_class_of(layout), expected, "{key}");
        }
    }

    #[test]
    fn a_block_starts_at_each_multiple_of_its_size_where_it_has_room() {
        for class in 0..SLAB_CLASSES {
            for offset in 0..SLOT {
                let size = size_of_class(class);
                let expected = offset.is_multiple_of(size) && offset + size <= SLOT;
                assert_eq!(is_start(class, offset), expected, "{class} {offset}");
            }
        }
        assert!(!is_start(SLAB_CLASSES, 0));
    }

    #[test]
    fn a_class_is_a_multiple_of_each_alignment_that_its_keys_have() {
        for bits in 0..16 {
            let align = 1 << bits;
            for size in 1..=CACHED_MAX {
                let layout = Layout::from_size_align(size, align).unwrap();
                let key = key_of(layout);
                if key <= CACHED_MAX {
                    assert_eq!(size_of_class(class_of(key)) % align, 0, "{size} {align}");
                }
                let expected = (key <= SLAB_MAX).then(|| class_of(key));
                assert_eq!(small_class_of(layout), expected, "{size} {align}");
            }
        }
    }
}
