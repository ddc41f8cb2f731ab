//! The level that serves a layout, and the *slot*: the index of the counters for its blocks.
//!
//! The level follows from the layout alone, so a free determines it again without reading the
//! block:
//!
//! | key (size rounded up to the alignment) | alignment | level |
//! | --- | --- | --- |
//! | up to 8 KiB | - | a class, from slabs |
//! | up to 256 KiB | up to 1 KiB | a class, from spans |
//! | up to a quarter of a segment | up to 64 KiB | a span |
//! | beyond | beyond | a mapping of its own |

use crate::Layout;
use crate::geometry::{GRAIN, SEGMENT, SLOT};
use crate::os::PAGE;
use crate::size_class::{CACHED_MAX, CLASSES, class_of, key_of, size_of_class, small_class_of};
use crate::span::bytes_for;

/// The slot that counts spans without a class.
pub(crate) const SPANS: usize = CLASSES;
/// The slot that counts large blocks.
pub(crate) const LARGE: usize = CLASSES + 1;
/// Number of slots.
pub(crate) const SLOTS: usize = CLASSES + 2;

/// The largest block that a span serves.
pub(crate) const SPAN_MAX: usize = SEGMENT / 4;

/// The level that serves a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    Class(usize),
    Span,
    Large,
}

impl Level {
    /// The level of a layout, whatever its size.
    #[inline]
    pub(crate) fn of(layout: Layout) -> Self {
        if let Some(class) = small_class_of(layout) {
            return Self::Class(class);
        }
        let key = key_of(layout);
        // A layout without size has no block; if one is requested all the same, it gets the
        // smallest class.
        if key == 0 || key <= CACHED_MAX && layout.align() <= GRAIN {
            Self::Class(class_of(key))
        } else if key <= SPAN_MAX && layout.align() <= SLOT {
            Self::Span
        } else {
            Self::Large
        }
    }

    /// Returns the size in bytes of a block of this layout, whose level this is; 0 for a layout
    /// without size, which has no block.
    pub(crate) fn usable_size(self, layout: Layout) -> usize {
        match self {
            _ if layout.size() == 0 => 0,
            Self::Class(class) => size_of_class(class),
            Self::Span => bytes_for(layout.size()),
            Self::Large => layout.size().next_multiple_of(PAGE),
        }
    }

    /// The slot that counts blocks of this level.
    #[inline]
    pub(crate) fn slot(self) -> usize {
        match self {
            Self::Class(class) => class,
            Self::Span => SPANS,
            Self::Large => LARGE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size_class::SLAB_MAX;

    #[test]
    fn the_level_follows_from_key_and_alignment() {
        for align in (0..21).map(|bits| 1_usize << bits) {
            let sizes = [
                0,
                1,
                8,
                SLAB_MAX,
                CACHED_MAX,
                SPAN_MAX,
                SEGMENT,
                isize::MAX as usize,
            ];
            for near in sizes
                .iter()
                .flat_map(|size| [size.wrapping_sub(1), *size, size + 1])
            {
                let Ok(layout) = Layout::from_size_align(near, align) else {
                    continue;
                };
                let key = near.next_multiple_of(align);
                let wanted = if key <= SLAB_MAX || key <= CACHED_MAX && align <= GRAIN {
                    Level::Class(class_of(key))
                } else if key <= SPAN_MAX && align <= SLOT {
                    Level::Span
                } else {
                    Level::Large
                };
                assert_eq!(Level::of(layout), wanted, "{layout:?}");
            }
        }
    }
}
