//! Ranges that the system refused to unmap.
//!
//! The system limits the number of mappings, and unmapping a part of one may split it in two. If
//! the system refuses for that reason, the pages are returned without their addresses, which needs
//! no split. The range is recorded here. It serves a later mapping of its length, or is unmapped at
//! a purge if the system then allows it. Until then it counts as reserved. If the table is full, or
//! if the pages could not be returned either, the range stays mapped permanently, and counts as
//! reserved.

use core::ptr::NonNull;

use crate::geometry::HARDENED;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::ranges::Ranges;

static RANGES: Ranges<64> = Ranges::new();
/// The bytes of all such ranges.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of bytes that the system refused to unmap.
pub(crate) fn bytes() -> usize {
    // Relaxed: a statistic that publishes nothing. [AP5]
    BYTES.load(Ordering::Relaxed)
}

/// Records a range; `is_zero` if it now reads as zero.
#[cold]
pub(crate) fn note(start: NonNull<u8>, bytes: usize, is_zero: bool) {
    // Relaxed: a sum that publishes nothing. [AP6]
    BYTES.fetch_add(bytes, Ordering::Relaxed);
    if is_zero {
        // If the table is full, the range stays mapped.
        let _ = RANGES.put(start, bytes);
    }
}

/// Takes a range of this length and alignment, which reads as zero.
#[cold]
pub(crate) fn take(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    // In a hardened build some of its pages may be inaccessible.
    if HARDENED || self::bytes() == 0 {
        return None;
    }
    let (start, bytes) = RANGES
        .take(|start, length| (length == bytes && start.is_multiple_of(align)).then_some(0))?;
    forget(bytes);
    Some(start)
}

/// Calls `unmap` on each range, which returns whether the system accepted it.
pub(crate) fn retry(unmap: impl Fn(NonNull<u8>, usize) -> bool) {
    if bytes() == 0 {
        return;
    }
    retry_each(&RANGES, |start, bytes| {
        let is_taken = unmap(start, bytes);
        if is_taken {
            forget(bytes);
        }
        is_taken
    });
}

/// Calls `unmap` on each range, in the order of addresses; stores those again that it refuses.
fn retry_each<const N: usize>(ranges: &Ranges<N>, unmap: impl Fn(NonNull<u8>, usize) -> bool) {
    let mut past = 0;
    let next = |past| move |start, _| (start > past).then_some(start);
    while let Some((start, bytes)) = ranges.take(next(past)) {
        past = start.addr().get();
        if !unmap(start, bytes) {
            // If the table is full, the range stays mapped.
            let _ = ranges.put(start, bytes);
        }
    }
}

fn forget(bytes: usize) {
    // Relaxed: as for [AP6]. [AP7]
    BYTES.fetch_sub(bytes, Ordering::Relaxed);
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use core::cell::RefCell;
    use core::ptr;
    use std::vec::Vec;

    #[test]
    fn a_refusal_holds_up_no_other_range() {
        let ranges = Ranges::<4>::new();
        for page in [3_usize, 1, 4, 2] {
            let start = NonNull::new(ptr::without_provenance_mut(page << 12)).unwrap();
            assert!(ranges.put(start, 4096));
        }
        let asked = RefCell::new(Vec::new());
        let unmap = |start: NonNull<u8>, _| {
            let page = start.addr().get() >> 12;
            asked.borrow_mut().push(page);
            page.is_multiple_of(2)
        };
        retry_each(&ranges, unmap);
        assert_eq!(asked.take(), [1, 2, 3, 4]);
        retry_each(&ranges, unmap);
        assert_eq!(asked.take(), [1, 3], "what was refused stays");
    }
}
