//! Memory of the operating system: mappings, their growth, and pages that are returned.
//!
//! On unix the calls are system calls, through `libc`. Elsewhere a mapping is a block of the
//! system's allocator; so the crate works wherever std does, but cannot return single pages.

use core::ptr::NonNull;

/// Length of a guard page, which no thread may access; 0 in a build that is not hardened.
pub(crate) const GUARD: usize = if crate::geometry::HARDENED { PAGE } else { 0 };

/// A multiple of every page size of the platform.
///
/// On processors other than x86 the kernel uses pages of 4, 16 or 64 KiB; the largest is a multiple
/// of all.
pub(crate) const PAGE: usize = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
    PAGE_MIN
} else {
    64 * 1024
};

/// No kernel has smaller pages.
const PAGE_MIN: usize = 4096;

#[cfg(all(unix, not(rast_system_segments)))]
pub(crate) use unix::{
    bytes_stranded, discard, map, now_ms, protect, relocate, remap, unmap, unmap_stranded,
};

#[cfg(any(not(unix), rast_system_segments))]
pub(crate) use portable::{
    bytes_stranded, discard, map, now_ms, protect, relocate, remap, unmap, unmap_stranded,
};

/// Whether freed mappings may be cached. This requires that a part of a mapping can be unmapped,
/// and that two adjacent ones can be used as one.
pub(crate) const CAN_CACHE: bool = cfg!(all(unix, not(any(miri, rast_system_segments))));

/// The cost of a system call, as a number of returned bytes.
pub(crate) const CALL: usize = 192 * 1024;

/// The access rights of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Forbidden,
    Allowed,
}

/// An upper limit for requests: no process has so many bytes of address space.
pub(crate) const ADDRESSES: usize = if cfg!(target_pointer_width = "64") {
    1 << 47
} else {
    isize::MAX as usize
};

/// Injects refused system calls for tests, on the test's own thread.
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

    /// Refuses one call: the one of this kind that comes after `passed` others of it.
    pub(crate) fn plan(call: Call, passed: u32) {
        PLAN.set(Some((call, passed)));
    }

    /// Returns `true` if the planned refusal has happened.
    pub(crate) fn is_over() -> bool {
        PLAN.get().is_none()
    }

    /// Returns `true` if this call is to be refused.
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

/// Returns `true` if a byte is readable, as the system reports.
#[cfg(all(test, unix, not(rast_system_segments)))]
pub(crate) fn is_readable(byte: *const u8) -> bool {
    let mut ends = [0; 2];
    // SAFETY: there is room for two numbers.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: if the byte is not readable the call fails.
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

    /// A hint for the address of the next aligned mapping of the same length: next to the last one,
    /// or where one was unmapped.
    static HINT: AtomicUsize = AtomicUsize::new(0);

    /// Maps zeroed pages, at the address `hint` if that is free.
    fn map_pages(bytes: usize, hint: usize) -> Option<NonNull<u8>> {
        // SAFETY: an anonymous mapping at an address that the kernel chooses touches nothing that
        // exists; the kernel uses the hint only if nothing is mapped there.
        let start = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(hint),
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

    /// Maps exactly `bytes`, as the system may grant no more. Tries the kernel's choice, and, if
    /// that is not aligned, the address just before it.
    fn map_exactly(bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let is_like_last = align > PAGE && bytes == align;
        let mut hint = 0;
        if is_like_last {
            // Relaxed: a hint; the kernel chooses another address if that one is used. [AY1]
            hint = HINT.load(Ordering::Relaxed);
        }
        for _ in 0..2 {
            let start = map_pages(bytes, hint)?;
            let address = start.addr().get();
            if address.is_multiple_of(align) {
                if is_like_last {
                    // Relaxed: as above. [AY2]
                    HINT.store(address.saturating_sub(bytes), Ordering::Relaxed);
                }
                return Some(start);
            }
            // SAFETY: the mapping was made above, with this length, and no thread knows it.
            unsafe { unmap(start, bytes, PAGE) };
            hint = address & !(align - 1);
        }
        None
    }

    /// Maps a longer range that contains an aligned part, and unmaps the rest.
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

    /// Unmaps a mapping, or whole pages at its start or end.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages that [`map`] or [`remap`] gave, and no thread uses
    ///    them any more.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize, align: usize) {
        // SAFETY: obligation 1.
        if unsafe { try_unmap(start, bytes) } {
            if align > PAGE && bytes == align {
                // Relaxed: as for [AY2]; nothing is mapped there now. [AY3]
                HINT.store(start.addr().get(), Ordering::Relaxed);
            }
            return;
        }
        // The limit on the number of mappings: the range is part of a longer mapping. Its memory
        // can be returned without a split.
        // SAFETY: obligation 1.
        let is_zero = unsafe { discard(start, bytes) };
        stranded::note(start, bytes, is_zero);
    }

    /// Unmaps a range, or changes nothing; returns whether the system accepted it.
    ///
    /// # Safety
    ///
    /// 1. As for [`unmap`].
    unsafe fn try_unmap(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: obligation 1.
        unsafe { libc::munmap(start.as_ptr().cast::<c_void>(), bytes) == 0 }
    }

    /// Returns the number of bytes that the system refused to unmap.
    pub(crate) fn bytes_stranded() -> usize {
        stranded::bytes()
    }

    /// Unmaps ranges that the system refused before.
    pub(crate) fn unmap_stranded() {
        // SAFETY: ranges that were to be given back, which no thread uses; each is this thread's
        // alone.
        stranded::retry(|start, bytes| unsafe { try_unmap(start, bytes) });
    }

    /// Returns the pages' memory to the system and keeps the addresses. Returns `true` if the bytes
    /// now read as zero.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages of a mapping of this module, and no thread needs
    ///    their contents.
    pub(crate) unsafe fn discard(start: NonNull<u8>, bytes: usize) -> bool {
        // Linux drops the pages at once, and they read as zero afterwards; elsewhere the call is
        // only a hint.
        // SAFETY: obligation 1.
        let done =
            unsafe { libc::madvise(start.as_ptr().cast::<c_void>(), bytes, libc::MADV_DONTNEED) };
        done == 0 && cfg!(any(target_os = "linux", target_os = "android"))
    }

    /// Forbids or allows all access to pages. Returns `true` if the system did so; otherwise some
    /// pages may be unchanged.
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
            // As far as the call got.
            true => (PAGE.min(bytes), true),
            false => (bytes, false),
        };
        #[cfg(not(test))]
        let is_refused = false;
        // SAFETY: obligation 1.
        let done = unsafe { libc::mprotect(start.as_ptr().cast::<c_void>(), bytes, rights) };
        done == 0 && !is_refused
    }

    /// Milliseconds since some moment, with the resolution of the system's tick; monotonic.
    pub(crate) fn now_ms() -> u64 {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is writable; if the system has no such clock it stays 0, so no time
        // passes.
        let _ = unsafe { libc::clock_gettime(CLOCK, &raw mut time) };
        (time.tv_sec as u64).wrapping_mul(1000) + time.tv_nsec as u64 / 1_000_000
    }

    /// Whether a mapping that grows may be moved. Not where the kernel's pages may be smaller than
    /// [`PAGE`]: the kernel aligns only to its own pages, which is too little for alignments up to
    /// `PAGE`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const MAY_MOVE: libc::c_int = if PAGE == super::PAGE_MIN {
        libc::MREMAP_MAYMOVE
    } else {
        0
    };

    /// Changes the length of a mapping, moving it if that is necessary and allowed. Returns `None`,
    /// and changes nothing, if the system cannot.
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

    /// Moves the memory of pages to other addresses. The new address is a multiple of `align`, if
    /// the kernel accepts the hint (see below). The old addresses stay mapped, and read as zero.
    /// Returns `None`, and changes nothing, if the system cannot move the memory.
    ///
    /// The new address is only a hint: the kernel chooses another one if a thread mapped something
    /// there meanwhile. If the address were fixed instead, the kernel would unmap what that thread
    /// has mapped.
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
        let hint = free.addr().get().next_multiple_of(align);
        let start = start.as_ptr().cast::<c_void>();
        // The system call itself: the library's function passes an address only if it is fixed.
        // SAFETY: obligation 1; the memory moves to an unused address.
        let moved = unsafe { libc::syscall(libc::SYS_mremap, start, bytes, bytes, HOW, hint) };
        if moved == -1 {
            return None;
        }
        NonNull::new(ptr::with_exposed_provenance_mut(moved as usize))
    }

    /// Does nothing, and returns `None`: only Linux can move pages.
    ///
    /// # Safety
    ///
    /// None are needed where nothing is done.
    #[cfg(not(target_os = "linux"))]
    pub(crate) unsafe fn relocate(_: NonNull<u8>, _: usize, _: usize) -> Option<NonNull<u8>> {
        None
    }

    /// Does nothing, and returns `None`: only Linux and Android can.
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
        // SAFETY: no caller maps zero bytes.
        NonNull::new(unsafe { System.alloc_zeroed(layout) })
    }

    /// Frees a whole mapping.
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

    /// 0: the system's allocator accepts all it granted.
    pub(crate) fn bytes_stranded() -> usize {
        0
    }

    /// Does nothing: the system's allocator accepts all it granted.
    pub(crate) fn unmap_stranded() {}

    /// Does nothing: the system's allocator accepts no single pages.
    ///
    /// # Safety
    ///
    /// None are needed where nothing is done.
    pub(crate) unsafe fn discard(_: NonNull<u8>, _: usize) -> bool {
        false
    }

    /// Does nothing, and returns `false`: the system's allocator protects no pages.
    ///
    /// # Safety
    ///
    /// None are needed where nothing is done.
    pub(crate) unsafe fn protect(_: NonNull<u8>, _: usize, _: Access) -> bool {
        false
    }

    /// As on unix, with a clock that may be set back; where std has no clock and would panic, no
    /// time passes.
    pub(crate) fn now_ms() -> u64 {
        if cfg!(all(target_family = "wasm", target_os = "unknown")) {
            return 0;
        }
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        now.as_millis() as u64
    }

    /// Does nothing, and returns `None`.
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
