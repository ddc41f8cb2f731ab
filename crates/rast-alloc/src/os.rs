//! Memory of the system: mappings, their growth, and pages given back.
//!
//! On unix the calls are the kernel's, through `libc`; elsewhere a mapping is a block of the
//! system's allocator, so that the layer builds and works wherever std does, without giving single
//! pages back.

use core::ptr::NonNull;

/// The length of a page that no thread may touch, behind what could be written past; none in a
/// plain build.
pub(crate) const GUARD: usize = if crate::geometry::HARDENED { PAGE } else { 0 };

/// A length that every page size of the platform divides.
///
/// Other processors than these run with pages of 4, 16 or 64 KiB, chosen by the kernel; the
/// greatest serves all.
pub(crate) const PAGE: usize = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
    LEAST_PAGE
} else {
    64 * 1024
};

/// No kernel's pages are shorter.
const LEAST_PAGE: usize = 4096;

#[cfg(all(unix, not(rast_system_segments)))]
pub(crate) use unix::{
    bytes_stranded, discard, map, now_ms, protect, relocate, remap, unmap, unmap_stranded,
};

#[cfg(any(not(unix), rast_system_segments))]
pub(crate) use portable::{
    bytes_stranded, discard, map, now_ms, protect, relocate, remap, unmap, unmap_stranded,
};

/// Whether freed mappings may be kept: only where one may be given back in parts, and two that
/// adjoin be used as one.
pub(crate) const KEEPS: bool = cfg!(all(unix, not(any(miri, rast_system_segments))));

/// What a call of the system costs, in bytes given back.
pub(crate) const CALL: usize = 192 * 1024;

/// What a page allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Forbidden,
    Allowed,
}

/// What no request may reach, as no address space of a process has so many bytes.
pub(crate) const ADDRESSES: usize = if cfg!(target_pointer_width = "64") {
    1 << 47
} else {
    isize::MAX as usize
};

/// Calls that the system refuses because a test wants it, on the test's own thread.
#[cfg(all(test, unix, not(rast_system_segments)))]
pub(crate) mod refusal {
    use core::cell::Cell;

    /// The calls that may be refused.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Call {
        Protect,
        Relocate,
        Remap,
    }

    std::thread_local! {
        static PLAN: Cell<Option<(Call, u32)>> = const { Cell::new(None) };
    }

    /// Has one call refused, once: that of this kind before which so many others of it pass.
    pub(crate) fn plan(call: Call, passed: u32) {
        PLAN.set(Some((call, passed)));
    }

    /// Whether what was planned has happened.
    pub(crate) fn is_over() -> bool {
        PLAN.get().is_none()
    }

    /// Whether this call is to be refused.
    pub(super) fn is_due(call: Call) -> bool {
        match PLAN.get() {
            Some((planned, 0)) if planned == call => {
                PLAN.set(None);
                true
            }
            Some((planned, passed)) if planned == call => {
                PLAN.set(Some((planned, passed - 1)));
                false
            }
            _ => false,
        }
    }
}

/// Whether a byte may be read, as the system tells.
#[cfg(all(test, unix, not(rast_system_segments)))]
pub(crate) fn is_readable(byte: *const u8) -> bool {
    let mut ends = [0; 2];
    // SAFETY: there is room for two numbers.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: where the byte may not be read the call says so.
    let written = unsafe { libc::write(ends[1], byte.cast(), 1) };
    for end in ends {
        // SAFETY: an end of the pipe made above.
        unsafe { libc::close(end) };
    }
    written == 1
}

#[cfg(all(unix, not(rast_system_segments)))]
mod unix {
    #[cfg(test)]
    use super::refusal;
    use super::{Access, NonNull, PAGE};
    use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
    use crate::stranded;
    use core::ffi::c_void;
    use core::ptr;

    /// Where a mapping like the last aligned one may be wished for: next to it, or where one was
    /// given back.
    static NEAR: AtomicUsize = AtomicUsize::new(0);

    /// Maps zeroed pages, at the address `wish` if that is free.
    fn map_pages(bytes: usize, wish: usize) -> Option<NonNull<u8>> {
        // SAFETY: an anonymous mapping at an address that the kernel chooses touches nothing that
        // exists; it takes a wish only if nothing is mapped there.
        let start = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(wish),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANON,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(start.cast())
    }

    /// Maps `bytes` zeroed bytes at a multiple of `align`; both are multiples of [`PAGE`], `align`
    /// a power of two.
    pub(crate) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        debug_assert!(bytes.is_multiple_of(PAGE) && align.is_multiple_of(PAGE));
        map_exactly(bytes, align)
            .or_else(|| map_longer(bytes, align))
            .or_else(|| stranded::take(bytes, align))
    }

    /// Maps no more than what is asked for, as that may be all that the system grants: where the
    /// kernel chooses, or, if that is not aligned, just before.
    fn map_exactly(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let is_like_last = align > PAGE && bytes == align;
        let mut wish = 0;
        if is_like_last {
            // Relaxed: a hint; the kernel takes another place if that one is taken. [AY1]
            wish = NEAR.load(Ordering::Relaxed);
        }
        for _ in 0..2 {
            let start = map_pages(bytes, wish)?;
            let address = start.addr().get();
            if address.is_multiple_of(align) {
                if is_like_last {
                    // Relaxed: as above. [AY2]
                    NEAR.store(address.saturating_sub(bytes), Ordering::Relaxed);
                }
                return Some(start);
            }
            // SAFETY: the mapping was made above, with this length, and no thread knows it.
            unsafe { unmap(start, bytes, PAGE) };
            wish = address & !(align - 1);
        }
        None
    }

    /// Maps so much that an aligned part is in it, and gives the rest back.
    #[cold]
    fn map_longer(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let whole = bytes.checked_add(align)?;
        let start = map_pages(whole, 0)?;
        let before = start.addr().get().wrapping_neg() & (align - 1);
        let after = whole - before - bytes;
        // SAFETY: `before` is less than `align`, so it lies inside the mapping.
        let aligned = unsafe { start.add(before) };
        if before > 0 {
            // SAFETY: the pages before the aligned start belong to the mapping made above and are
            // used by no thread.
            unsafe { unmap(start, before, PAGE) };
        }
        if after > 0 {
            // SAFETY: `before + bytes` is less than the mapping's length.
            let rest = unsafe { aligned.add(bytes) };
            // SAFETY: as for the pages before.
            unsafe { unmap(rest, after, PAGE) };
        }
        Some(aligned)
    }

    /// Gives a mapping, or whole pages at the end or start of one, back.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages that [`map`] or [`remap`] gave, and no thread uses
    ///    them any more.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize, align: usize) {
        // SAFETY: obligation 1.
        if unsafe { try_unmap(start, bytes) } {
            if align > PAGE && bytes == align {
                // Relaxed: as for [AY2]: nothing is there now. [AY3]
                NEAR.store(start.addr().get(), Ordering::Relaxed);
            }
            return;
        }
        // The limit on mappings: this one lies in a longer one. Its memory can go without a split.
        // SAFETY: obligation 1.
        let is_zero = unsafe { discard(start, bytes) };
        stranded::note(start, bytes, is_zero);
    }

    /// Gives a mapping back, or nothing of it; returns whether the system took it.
    ///
    /// # Safety
    ///
    /// 1. As for [`unmap`].
    unsafe fn try_unmap(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: obligation 1.
        unsafe { libc::munmap(start.as_ptr().cast::<c_void>(), bytes) == 0 }
    }

    /// How many bytes the system refused to take back.
    pub(crate) fn bytes_stranded() -> usize {
        stranded::bytes()
    }

    /// Gives back what the system refused to take before.
    pub(crate) fn unmap_stranded() {
        // SAFETY: ranges that were to be given back, which no thread uses; each is this thread's
        // alone.
        stranded::retry(|start, bytes| unsafe { try_unmap(start, bytes) });
    }

    /// Gives the pages' memory back and keeps the addresses; returns whether the bytes read as
    /// zeroes from now on.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages of a mapping of this module, and no thread needs
    ///    their contents.
    pub(crate) unsafe fn discard(start: NonNull<u8>, bytes: usize) -> bool {
        // Linux drops the pages at once and reads zeroes after; elsewhere the call is a hint that
        // promises nothing. SAFETY: obligation 1.
        let done =
            unsafe { libc::madvise(start.as_ptr().cast::<c_void>(), bytes, libc::MADV_DONTNEED) };
        done == 0 && cfg!(any(target_os = "linux", target_os = "android"))
    }

    /// Forbids or allows all access to pages; returns whether the system did so, else some of them
    /// may be as they were.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages of mappings of this module, and no thread uses
    ///    them.
    pub(crate) unsafe fn protect(start: NonNull<u8>, bytes: usize, access: Access) -> bool {
        let rights = match access {
            Access::Forbidden => libc::PROT_NONE,
            Access::Allowed => libc::PROT_READ | libc::PROT_WRITE,
        };
        #[cfg(test)]
        let (bytes, is_refused) = match refusal::is_due(refusal::Call::Protect) {
            // As far as it came.
            true => (PAGE.min(bytes), true),
            false => (bytes, false),
        };
        #[cfg(not(test))]
        let is_refused = false;
        // SAFETY: obligation 1.
        let done = unsafe { libc::mprotect(start.as_ptr().cast::<c_void>(), bytes, rights) };
        done == 0 && !is_refused
    }

    /// Milliseconds since some moment, to within a tick of the system; it never goes back.
    pub(crate) fn now_ms() -> u64 {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is writable; without such a clock it stays 0, and no time passes.
        let _ = unsafe { libc::clock_gettime(CLOCK, &raw mut time) };
        (time.tv_sec as u64).wrapping_mul(1000) + time.tv_nsec as u64 / 1_000_000
    }

    /// Whether a mapping that is lengthened may be moved. Where the kernel's pages may be shorter
    /// than [`PAGE`] it may not: the kernel chooses a multiple of its own page, which is too little
    /// for the alignments up to `PAGE`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const MAY_MOVE: libc::c_int = if PAGE == super::LEAST_PAGE {
        libc::MREMAP_MAYMOVE
    } else {
        0
    };

    /// Changes the length of a mapping, moving it if need be and allowed; `None` if the system
    /// cannot, and nothing has changed.
    ///
    /// # Safety
    ///
    /// 1. The `old` bytes at `start` are a whole mapping of [`map`] or of this function.
    /// 2. The caller forgets `start` if the call succeeds.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) unsafe fn remap(start: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
        #[cfg(test)]
        if refusal::is_due(refusal::Call::Remap) {
            return None;
        }
        // SAFETY: obligation 1; pages that move are not referred to under the old address, by
        // obligation 2.
        let moved = unsafe { libc::mremap(start.as_ptr().cast::<c_void>(), old, new, MAY_MOVE) };
        if moved == libc::MAP_FAILED {
            return None;
        }
        NonNull::new(moved.cast())
    }

    /// Moves the memory of pages to other addresses, at a multiple of `align` if such are free; the
    /// old ones stay mapped, and read as zeroes. `None`, and nothing has changed, if the system
    /// cannot.
    ///
    /// The new place is a wish, and the kernel takes another one if some thread was quicker. It is
    /// not prescribed, since what is at a prescribed place is unmapped first, and stays so if the
    /// call fails then: the thread that mapped there in between would lose it to who cleans up.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages of mappings of this module, and no thread uses
    ///    them.
    #[cfg(target_os = "linux")]
    pub(crate) unsafe fn relocate(
        start: NonNull<u8>,
        bytes: usize,
        align: usize,
    ) -> Option<NonNull<u8>> {
        const HOW: libc::c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
        #[cfg(test)]
        if refusal::is_due(refusal::Call::Relocate) {
            return None;
        }
        let whole = bytes.checked_add(align)?;
        let free = map_pages(whole, 0)?;
        // SAFETY: the mapping was made above, and no thread knows it.
        unsafe { unmap(free, whole, PAGE) };
        let wish = free.addr().get().next_multiple_of(align);
        let start = start.as_ptr().cast::<c_void>();
        // The call itself, since the library's passes a place on only if it is prescribed.
        // SAFETY: obligation 1; what has been moved is where nothing was.
        let moved = unsafe { libc::syscall(libc::SYS_mremap, start, bytes, bytes, HOW, wish) };
        if moved == -1 {
            return None;
        }
        NonNull::new(ptr::with_exposed_provenance_mut(moved as usize))
    }

    /// As on Linux, where it exists; here it does not.
    ///
    /// # Safety
    ///
    /// None are needed where nothing is done.
    #[cfg(not(target_os = "linux"))]
    pub(crate) unsafe fn relocate(_: NonNull<u8>, _: usize, _: usize) -> Option<NonNull<u8>> {
        None
    }

    /// As on Linux, where it exists; here it does not.
    ///
    /// # Safety
    ///
    /// None are needed where nothing is done.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) unsafe fn remap(_: NonNull<u8>, _: usize, _: usize) -> Option<NonNull<u8>> {
        None
    }
}

#[cfg(any(not(unix), rast_system_segments))]
mod portable {
    use super::{Access, NonNull};
    use crate::Layout;
    use std::alloc::{GlobalAlloc, System};

    /// As on unix: `bytes` zeroed bytes at a multiple of `align`.
    pub(crate) fn map(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, align).ok()?;
        // SAFETY: no caller maps nothing.
        NonNull::new(unsafe { System.alloc_zeroed(layout) })
    }

    /// Gives a whole mapping back.
    ///
    /// # Safety
    ///
    /// 1. `start` came from [`map`] with these `bytes` and `align`, and no thread uses it any more.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize, align: usize) {
        // SAFETY: `map` made the same layout.
        let layout = unsafe { Layout::from_size_align_unchecked(bytes, align) };
        // SAFETY: obligation 1.
        unsafe { System.dealloc(start.as_ptr(), layout) };
    }

    /// None: the system's allocator takes back what it gave.
    pub(crate) fn bytes_stranded() -> usize {
        0
    }

    /// Does nothing: the system's allocator takes back what it gave.
    pub(crate) fn unmap_stranded() {}

    /// Does nothing: the system's allocator takes no single pages back.
    ///
    /// # Safety
    ///
    /// None are needed where nothing is done.
    pub(crate) unsafe fn discard(_: NonNull<u8>, _: usize) -> bool {
        false
    }

    /// Does nothing, and says so: the system's allocator protects no pages.
    ///
    /// # Safety
    ///
    /// None are needed where nothing is done.
    pub(crate) unsafe fn protect(_: NonNull<u8>, _: usize, _: Access) -> bool {
        false
    }

    /// As on unix, but by a clock that may be set back; where std has none and would panic, no time
    /// passes.
    pub(crate) fn now_ms() -> u64 {
        if cfg!(all(target_family = "wasm", target_os = "unknown")) {
            return 0;
        }
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        now.as_millis() as u64
    }

    /// Does nothing, and says so.
    ///
    /// # Safety
    ///
    /// None are needed where nothing is done.
    pub(crate) unsafe fn relocate(_: NonNull<u8>, _: usize, _: usize) -> Option<NonNull<u8>> {
        None
    }

    /// Does nothing: the caller copies.
    ///
    /// # Safety
    ///
    /// None are needed where nothing is done.
    pub(crate) unsafe fn remap(_: NonNull<u8>, _: usize, _: usize) -> Option<NonNull<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_aligned_zeroed_and_grow() {
        for align in [PAGE, 4 * PAGE, 1 << 22] {
            let start = map(4 * PAGE, align).unwrap();
            assert_eq!(start.addr().get() % align, 0);
            // SAFETY: the mapping is this long, ours, and zeroed.
            let bytes = unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), 4 * PAGE) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            // SAFETY: whole pages of the mapping; what was there is not needed.
            let zeroed = unsafe { discard(start, 4 * PAGE) };
            assert!(!zeroed || bytes.iter().all(|byte| *byte == 0));
            bytes.fill(9);
            // SAFETY: the mapping is whole; `start` is not used if it moves.
            let (start, length) = match unsafe { remap(start, 4 * PAGE, 64 * PAGE) } {
                Some(moved) => (moved, 64 * PAGE),
                None => (start, 4 * PAGE),
            };
            assert_eq!(start.addr().get() % PAGE, 0);
            // SAFETY: the mapping is this long and ours.
            let bytes = unsafe { core::slice::from_raw_parts(start.as_ptr(), length) };
            assert!(bytes[..4 * PAGE].iter().all(|byte| *byte == 9));
            assert!(bytes[4 * PAGE..].iter().all(|byte| *byte == 0));
            let align = if length == 4 * PAGE { align } else { PAGE };
            // SAFETY: the mapping is whole and not used any more.
            unsafe { unmap(start, length, align) };
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(map(isize::MAX as usize & !(PAGE - 1), PAGE).is_none());
    }
}
