//! Ranges that the system refused to take back.
//!
//! A mapping that is split counts as two, and the system has a limit on mappings. Where it refuses
//! for that reason, the memory goes back without the addresses, which needs no split. The range is
//! noted here: it serves a later mapping of its length, is given back at a purge if the system
//! takes it then, and counts as reserved until then. What finds no place here, or did not even lose
//! its memory, stays mapped for ever, and counts too.

use core::ptr::NonNull;

use crate::geometry::HARDENED;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::ranges::Ranges;

static RANGES: Ranges<64> = Ranges::new();
/// Bytes of all such ranges.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// How many bytes the system refused to take back.
pub(crate) fn bytes() -> usize {
    // Relaxed: figures are read one by one; no other memory hangs on them. [AP5]
    BYTES.load(Ordering::Relaxed)
}

/// Notes a range; `is_zero` says that it reads as zeroes now.
#[cold]
pub(crate) fn note(start: NonNull<u8>, bytes: usize, is_zero: bool) {
    // Relaxed: a sum of its own; publishes nothing. [AP6]
    BYTES.fetch_add(bytes, Ordering::Relaxed);
    if is_zero {
        // Without a place it stays as it is.
        let _ = RANGES.put(start, bytes);
    }
}

/// Takes a range of this length and alignment, which reads as zeroes.
#[cold]
pub(crate) fn take(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    // In a hardened build some of its pages may not be touched.
    if HARDENED || self::bytes() == 0 {
        return None;
    }
    let (start, bytes) = RANGES
        .take(|start, length| (length == bytes && start.is_multiple_of(align)).then_some(0))?;
    forget(bytes);
    Some(start)
}

/// Calls `unmap` on each range, to give it back; it says whether the system took it.
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

/// Calls `unmap` on each range, by rising address; puts those back that it refuses.
fn retry_each<const N: usize>(ranges: &Ranges<N>, unmap: impl Fn(NonNull<u8>, usize) -> bool) {
    let mut past = 0;
    let next = |past| move |start, _| (start > past).then_some(start);
    while let Some((start, bytes)) = ranges.take(next(past)) {
        past = start.addr().get();
        if !unmap(start, bytes) {
            // Without a place it stays as it is.
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
        let ask = |start: NonNull<u8>, _| {
            let page = start.addr().get() >> 12;
            asked.borrow_mut().push(page);
            page.is_multiple_of(2)
        };
        retry_each(&ranges, ask);
        assert_eq!(asked.take(), [1, 2, 3, 4]);
        retry_each(&ranges, ask);
        assert_eq!(asked.take(), [1, 3], "what was refused stays");
    }
}
