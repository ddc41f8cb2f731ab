//! The mapping cache: address ranges, with their memory, of large blocks that were freed.
//!
//! The system clears each new page, and the first access to the page costs a page fault. Both
//! together take longer than the work of most programs on the page. So some ranges are cached, and
//! the next large block is allocated from them:
//!
//! ```text
//!   cached   │░░░░░░░░░░░░░░ 14 MiB ░░░░░░░░░░░░░░│
//!   2 MiB    │ block │░░░░░░░░░░ 12 MiB ░░░░░░░░░░│    taken from its front
//!   4 MiB    │     block     │░░░░░░ 10 MiB ░░░░░░│    grown in place: the cached range follows it
//! ```
//!
//! 1. Adjacent ranges are joined, so that the ranges which a growing block has freed can serve its
//!    next size.
//! 2. A heap caches at most [`BYTES`] in [`RANGES`] ranges. Further ranges go to the pool for all
//!    threads ([`crate::pool`]), or to the system if the pool is full. If a heap has requested no
//!    range since its last decay tick, its freed ranges go to the pool, and into its own cache only
//!    if the pool is full.
//! 3. In a hardened build a freed block must not be accessible, and the last page of a block's
//!    range is its guard page. A range of up to [`MOVED`] bytes is cached without access rights.
//!    The memory of a longer range is moved to addresses that no thread knows, and is cached there.
//!    A move is cheaper than a change of the rights: it changes one page-table entry per 2 MiB,
//!    instead of one per page. The old addresses then have no memory and no access. So a late write
//!    to the freed block faults. The old addresses of the last [`RANGES`] moved ranges stay
//!    reserved in this way; older ones are unmapped.
//! 4. A range returns to the system if it was unused between two decay passes, or between two decay
//!    ticks, which are [`TICK`] insertions apart. At a purge and at the end of a thread all ranges
//!    return.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::geometry::HARDENED;
use crate::low_water::LowWater;
use crate::os::{self, Access, GUARD, PAGE};
use crate::pool::pool;

/// Maximum number of cached bytes; glibc serves blocks up to this size from its heap before it
/// maps.
const BYTES: usize = 32 << 20;
/// Maximum number of cached ranges.
const RANGES: usize = 8;
/// Insertions between two decay ticks.
const TICK: u32 = 64;

/// Ranges longer than this are moved. It is the length, and the alignment, of one entry in the
/// kernel's page tables.
const MOVED: usize = 2 << 20;

/// A range; empty if its length is zero.
struct Range {
    start: Cell<*mut u8>,
    bytes: Cell<usize>,
}

impl Range {
    const fn none() -> Self {
        Self {
            start: Cell::new(ptr::null_mut()),
            bytes: Cell::new(0),
        }
    }

    fn end(&self) -> *mut u8 {
        self.start.get().wrapping_add(self.bytes.get())
    }

    /// Removes `bytes` from the front.
    fn cut(&self, bytes: usize) -> *mut u8 {
        let start = self.start.get();
        self.start.set(start.wrapping_add(bytes));
        self.bytes.set(self.bytes.get() - bytes);
        start
    }
}

/// The cached ranges of one heap.
pub(crate) struct MappingCache {
    ranges: [Range; RANGES],
    /// Addresses whose memory was moved away; of length zero except in a hardened build.
    vacated: [Range; if HARDENED { RANGES } else { 0 }],
    /// Index of the oldest of them.
    oldest: Cell<usize>,
    bytes: Cell<usize>,
    low_water: LowWater,
    puts: Cell<u32>,
    /// Whether a range was requested since the last decay tick.
    is_requested: Cell<bool>,
}

impl MappingCache {
    pub(crate) const fn new() -> Self {
        Self {
            ranges: [const { Range::none() }; RANGES],
            vacated: [const { Range::none() }; if HARDENED { RANGES } else { 0 }],
            oldest: Cell::new(0),
            bytes: Cell::new(0),
            low_water: LowWater::new(),
            puts: Cell::new(0),
            is_requested: Cell::new(false),
        }
    }

    /// Removes `bytes` from the shortest range that has them. Their contents are unspecified.
    pub(crate) fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.is_requested.set(true);
        let fits = self
            .ranges
            .iter()
            .filter(|range| range.bytes.get() >= bytes);
        let range = fits.min_by_key(|range| range.bytes.get())?;
        // SAFETY: a range that is not empty is not at null.
        let start = unsafe { NonNull::new_unchecked(range.start.get()) };
        if HARDENED && !allow_guarded(start, bytes) {
            return None;
        }
        self.cut(range, bytes);
        Some(start)
    }

    /// Removes the `bytes` at `start`, which follow an allocated block and its guard page. Returns
    /// `false`, and changes nothing, if they are not cached.
    pub(crate) fn take_at(&self, start: *mut u8, bytes: usize) -> bool {
        let range = self
            .ranges
            .iter()
            .find(|range| range.bytes.get() >= bytes && range.start.get() == start);
        match range {
            Some(range) => {
                if HARDENED {
                    // The block ends where the access ends; a guard follows it again.
                    let guard = NonNull::new(start.wrapping_sub(GUARD));
                    if !guard.is_some_and(|guard| move_guard(guard, bytes)) {
                        return false;
                    }
                }
                self.cut(range, bytes);
                true
            }
            None => false,
        }
    }

    /// Removes bytes from the front of a range, for use.
    fn cut(&self, range: &Range, bytes: usize) {
        range.cut(bytes);
        self.bytes.set(self.bytes.get() - bytes);
        self.low_water.record(self.bytes.get());
    }

    /// Caches a range, or returns it to the system. If a decay tick is due, also returns what was
    /// unused since the last one. Returns the number of bytes that went to the system.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages of mappings of [`os`] that no thread uses any
    ///    more, and this owner alone may give them back.
    pub(crate) unsafe fn put(&self, start: NonNull<u8>, bytes: usize) -> usize {
        debug_assert!(start.addr().get().is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE));
        let is_requested = self.is_requested.get();
        let freed = self.count();
        // SAFETY: obligation 1.
        if !is_requested && unsafe { pool().put(start, bytes) } {
            return freed;
        }
        if bytes > BYTES - self.bytes.get() {
            // SAFETY: obligation 1.
            return freed + unsafe { pool_or_unmap(start, bytes) };
        }
        let hidden = if HARDENED {
            // SAFETY: obligation 1.
            unsafe { self.make_inaccessible(start, bytes) }
        } else {
            Some(start)
        };
        let Some(start) = hidden else {
            return freed + bytes;
        };
        if !self.join(start.as_ptr(), bytes) {
            // SAFETY: obligation 1, of the range or of where its memory is now.
            return freed + unsafe { pool_or_unmap(start, bytes) };
        }
        self.bytes.set(self.bytes.get() + bytes);
        freed
    }

    /// Makes a range that is to be cached inaccessible. Returns the address of its memory, or
    /// `None` if the memory went to the system.
    ///
    /// # Safety
    ///
    /// 1. As for [`MappingCache::put`].
    unsafe fn make_inaccessible(&self, start: NonNull<u8>, bytes: usize) -> Option<NonNull<u8>> {
        let moved = if bytes > MOVED {
            // SAFETY: obligation 1.
            unsafe { relocate(start, bytes) }
        } else {
            None
        };
        // SAFETY: obligation 1. Where the system refuses, a write to what was freed is not seen.
        let _ = unsafe { os::protect(start, bytes, Access::Forbidden) };
        let Some(to) = moved else {
            return Some(start);
        };
        self.vacate(start, bytes);
        if to.addr().get().is_multiple_of(PAGE) {
            return Some(to);
        }
        // The kernel's pages are smaller than `PAGE`, and the kernel chose the address.
        // SAFETY: whole pages of the kernel's, which no thread knows.
        unsafe { os::unmap(to, bytes, PAGE) };
        None
    }

    /// Records addresses whose memory was moved away, and unmaps the oldest such addresses.
    fn vacate(&self, start: NonNull<u8>, bytes: usize) {
        let oldest = self.oldest.get();
        let Some(range) = self.vacated.get(oldest) else {
            return;
        };
        self.oldest.set((oldest + 1) % RANGES);
        Self::give_back(range);
        range.start.set(start.as_ptr());
        range.bytes.set(bytes);
    }

    /// Unmaps addresses whose memory was moved away.
    fn give_back(range: &Range) {
        let bytes = range.bytes.replace(0);
        if let Some(start) = NonNull::new(range.start.get())
            && bytes > 0
        {
            // SAFETY: whole pages that were put in, that no thread uses, and that are noted once.
            unsafe { os::unmap(start, bytes, PAGE) };
        }
    }

    /// Adds a range to its neighbours, or to an empty entry. Returns `false` if there is none.
    fn join(&self, start: *mut u8, bytes: usize) -> bool {
        let (mut start, mut bytes, mut place) = (start, bytes, None);
        for range in &self.ranges {
            let end = start.wrapping_add(bytes);
            if range.bytes.get() == 0 {
                place = place.or(Some(range));
            } else if range.end() == start {
                start = range.start.get();
                bytes += range.bytes.replace(0);
                place = Some(range);
            } else if range.start.get() == end {
                bytes += range.bytes.replace(0);
                place = Some(range);
            }
        }
        if let Some(range) = place {
            range.start.set(start);
            range.bytes.set(bytes);
        }
        place.is_some()
    }

    fn count(&self) -> usize {
        self.puts.set(self.puts.get() + 1);
        if self.puts.get() < TICK {
            return 0;
        }
        self.tick()
    }

    /// Returns to the system what was unused since the last decay tick, and the number of bytes to
    /// the caller.
    #[cold]
    pub(crate) fn tick(&self) -> usize {
        self.puts.set(0);
        self.is_requested.set(false);
        let freed = self.purge(self.low_water.since_tick());
        self.low_water.tick(self.bytes.get());
        freed
    }

    /// Returns to the system what was unused since the last decay pass, and the number of bytes to
    /// the caller.
    pub(crate) fn decay(&self) -> usize {
        let freed = self.purge(self.low_water.since_pass());
        self.low_water.pass(self.bytes.get());
        freed
    }

    /// Returns `true` if the cache is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.get() == 0
    }

    /// Returns up to `most` bytes to the system, and their number to the caller.
    pub(crate) fn purge(&self, most: usize) -> usize {
        let mut left = most.min(self.bytes.get());
        let freed = left;
        if most == usize::MAX {
            self.vacated.iter().for_each(Self::give_back);
        }
        for range in &self.ranges {
            let bytes = range.bytes.get().min(left);
            if bytes == 0 {
                continue;
            }
            // SAFETY: a range that is not empty is not at null.
            let start = unsafe { NonNull::new_unchecked(range.cut(bytes)) };
            // SAFETY: whole pages that this owner keeps and no thread uses, by the obligation of
            // `put`.
            unsafe { os::unmap(start, bytes, PAGE) };
            left -= bytes;
        }
        self.bytes.set(self.bytes.get() - freed);
        self.low_water.subtract(freed);
        freed
    }
}

/// Puts a range into the pool, or returns it to the system. Returns the number of bytes that went
/// to the system.
/// # Safety
///
/// 1. As for [`MappingCache::put`].
unsafe fn pool_or_unmap(start: NonNull<u8>, bytes: usize) -> usize {
    // SAFETY: obligation 1.
    if unsafe { pool().put(start, bytes) } {
        return 0;
    }
    // SAFETY: obligation 1.
    unsafe { os::unmap(start, bytes, PAGE) };
    bytes
}

/// Moves the memory of a block and its guard to addresses that no thread knows. Returns `None`,
/// with only the guard's rights changed, if the system cannot.
///
/// # Safety
///
/// 1. As for [`MappingCache::put`].
unsafe fn relocate(start: NonNull<u8>, bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the range is longer than its guard.
    let guard = unsafe { start.add(bytes - GUARD) };
    // With rights of its own the guard is a separate mapping, and one call moves one mapping.
    // SAFETY: obligation 1.
    if !unsafe { os::protect(guard, GUARD, Access::Allowed) } {
        return None;
    }
    // SAFETY: obligation 1.
    unsafe { os::relocate(start, bytes, MOVED) }
}

/// Allows access to cached pages that become a block, except for the last page, its guard. Returns
/// `false` if the system refuses; some pages may be accessible then.
fn allow_guarded(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the range is longer than its guard.
    let guard = unsafe { start.add(bytes - GUARD) };
    // First, so that if a single call is refused no access has been allowed. SAFETY: whole pages of
    // a cached range and the guard before it, which no thread uses, by the obligation of `put`.
    let is_guarded = unsafe { os::protect(guard, GUARD, Access::Forbidden) };
    // SAFETY: as above.
    is_guarded && unsafe { os::protect(start, bytes - GUARD, Access::Allowed) }
}

/// Allows access to the guard of a block and to the cached pages behind it, except for the last
/// page, which becomes the guard. Returns `false` if the system refuses; the old guard stays.
fn move_guard(guard: NonNull<u8>, bytes: usize) -> bool {
    let is_moved = allow_guarded(guard, bytes + GUARD);
    if !is_moved {
        // SAFETY: the page is no part of the block. That the system refuses this too is not to be
        // helped: a write past the block is not seen then.
        let _ = unsafe { os::protect(guard, GUARD, Access::Forbidden) };
    }
    is_moved
}

#[cfg(all(test, unix, not(any(miri, rast_system_segments))))]
mod tests {
    use super::*;
    use crate::os::refusal::{self, Call};

    /// A cache from which a range was requested, so that it caches what is put in.
    fn requested() -> MappingCache {
        let cache = MappingCache::new();
        assert!(cache.take(PAGE).is_none());
        cache
    }

    fn range_bytes() -> usize {
        64 * PAGE
    }

    #[test]
    fn what_was_put_in_is_taken_grown_and_joined() {
        let cache = requested();
        let start = os::map(range_bytes(), PAGE).unwrap();
        // SAFETY: the mapping is new, and no thread uses it.
        assert_eq!(unsafe { cache.put(start, range_bytes()) }, 0);
        assert!(cache.take(range_bytes() + PAGE).is_none());
        let block = cache.take(16 * PAGE).unwrap();
        assert_eq!(block, start);
        // It grows into what follows it, and into nothing else.
        let behind = block.as_ptr().wrapping_add(16 * PAGE);
        assert!(cache.take_at(behind, 16 * PAGE));
        assert!(!cache.take_at(behind, 16 * PAGE));
        // SAFETY: the range was taken above, and no thread uses it.
        assert_eq!(unsafe { cache.put(block, 32 * PAGE) }, 0);
        // The whole range again.
        assert_eq!(cache.take(range_bytes()), Some(start));
        // SAFETY: as above.
        assert_eq!(unsafe { cache.put(start, range_bytes()) }, 0);
        assert_eq!(cache.purge(usize::MAX), range_bytes());
        assert!(cache.take(PAGE).is_none());
    }

    /// The memory of a long block is moved and reused. What the system does not move, here a block
    /// from two mappings, each with pages of its own, is cached in place.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_moved_comes_again() {
        if !HARDENED {
            return;
        }
        let bytes = 2 * MOVED;
        let cache = requested();
        let start = os::map(bytes, PAGE).unwrap();
        for round in 0..20_u8 {
            let block = cache.take(bytes).unwrap_or(start);
            // SAFETY: the block is longer than this.
            let byte = unsafe { block.add(MOVED) };
            if round > 0 {
                // SAFETY: the byte is before the guard, and was written to.
                assert_eq!(unsafe { byte.read() }, round);
            }
            // SAFETY: as above.
            unsafe { byte.write(round + 1) };
            // SAFETY: the block is used no more.
            assert_eq!(unsafe { cache.put(block, bytes) }, 0);
        }
        assert_eq!(cache.purge(usize::MAX), bytes);
        let start = os::map(bytes, PAGE).unwrap();
        // SAFETY: a page of the mapping.
        let middle = unsafe { start.add(MOVED) };
        for access in [Access::Forbidden, Access::Allowed] {
            // SAFETY: as above; no thread uses it.
            assert!(unsafe { os::protect(middle, PAGE, access) });
            for at in [0, MOVED + PAGE] {
                // SAFETY: inside the mapping.
                let byte = unsafe { start.add(at) };
                // SAFETY: of an allowed page, before or behind the middle one.
                unsafe { byte.write(7) };
            }
        }
        // SAFETY: no thread uses the mapping.
        assert_eq!(unsafe { cache.put(start, bytes) }, 0);
        let again = cache.take(bytes).unwrap();
        for at in [0, MOVED + PAGE] {
            // SAFETY: inside the block.
            let byte = unsafe { again.add(at) };
            // SAFETY: before the guard, and written to.
            assert_eq!(unsafe { byte.read() }, 7);
        }
        // SAFETY: no thread uses the block.
        unsafe { os::unmap(again, bytes, PAGE) };
        cache.purge(usize::MAX);
    }

    /// A block that cannot grow, because the system refuses, keeps its guard and is otherwise
    /// unchanged.
    #[test]
    fn a_guard_that_cannot_move_stays() {
        if !HARDENED {
            return;
        }
        let bytes = 16 * PAGE;
        let cache = requested();
        let start = os::map(2 * bytes, PAGE).unwrap();
        // SAFETY: the mapping is new, and no thread uses it.
        assert_eq!(unsafe { cache.put(start, 2 * bytes) }, 0);
        let block = cache.take(bytes).unwrap();
        let behind = block.as_ptr().wrapping_add(bytes);
        let guard = behind.wrapping_sub(GUARD);
        for passed in 0..2 {
            refusal::plan(Call::Protect, passed);
            assert!(!cache.take_at(behind, bytes));
            assert!(refusal::is_over());
            assert!(!os::is_readable(guard), "call {passed}");
            assert!(os::is_readable(guard.wrapping_sub(1)));
        }
        assert!(cache.take_at(behind, bytes));
        assert!(os::is_readable(guard));
        assert!(!os::is_readable(guard.wrapping_add(bytes)));
        // SAFETY: no thread uses the block.
        unsafe { os::unmap(block, 2 * bytes, PAGE) };
    }

    /// What the system does not move is cached in place, without access.
    #[test]
    fn what_cannot_be_moved_is_cached_in_place() {
        if !HARDENED {
            return;
        }
        let bytes = 2 * MOVED;
        let cache = requested();
        let block = os::map(bytes, PAGE).unwrap();
        // SAFETY: the mapping is this long.
        unsafe { block.write(7) };
        // The guard's rights are the first step, the move is the second.
        for call in [Call::Protect, Call::Relocate] {
            refusal::plan(call, 0);
            // SAFETY: the mapping is new, or was taken, and no thread uses it.
            assert_eq!(unsafe { cache.put(block, bytes) }, 0);
            assert!(refusal::is_over());
            assert!(!os::is_readable(block.as_ptr()));
            assert_eq!(cache.take(bytes), Some(block));
            // SAFETY: taken above; the byte was written to, and its memory was not moved.
            assert_eq!(unsafe { block.read() }, 7);
        }
        // SAFETY: no thread uses the block.
        unsafe { os::unmap(block, bytes, PAGE) };
    }

    #[test]
    fn neighbours_on_both_sides_are_joined() {
        let cache = requested();
        let start = os::map(3 * PAGE, PAGE).unwrap();
        let part = |index: usize| NonNull::new(start.as_ptr().wrapping_add(index * PAGE)).unwrap();
        for index in [0, 2, 1] {
            // SAFETY: pages of the mapping, each put in once and used by no thread.
            assert_eq!(unsafe { cache.put(part(index), PAGE) }, 0);
        }
        assert_eq!(cache.take(3 * PAGE), Some(start));
        // SAFETY: the range was taken above, and no thread uses it.
        unsafe { os::unmap(start, 3 * PAGE, PAGE) };
    }

    #[test]
    fn what_does_not_fit_and_what_is_unused_goes_back() {
        let cache = requested();
        let start = os::map(BYTES + PAGE, PAGE).unwrap();
        // SAFETY: the mapping is new, and no thread uses it.
        let too_long = unsafe { cache.put(start, BYTES + PAGE) };
        assert_eq!(too_long, BYTES + PAGE);
        let mut back = 0;
        let idle = os::map(PAGE, PAGE).unwrap();
        // SAFETY: as above.
        back += unsafe { cache.put(idle, PAGE) };
        for _ in 0..2 * TICK {
            let block = cache.take(PAGE).unwrap();
            // SAFETY: the range was taken just now, and no thread uses it.
            back += unsafe { cache.put(block, PAGE) };
        }
        assert_eq!(back, 0, "what is used stays");
        assert_eq!(cache.tick() + cache.tick(), PAGE);
    }

    #[test]
    fn ticks_and_passes_have_a_minimum_each() {
        let cache = requested();
        let bytes = 4 * PAGE;
        let put = |start| {
            // SAFETY: a mapping that is new, or was taken, and that no thread uses.
            assert_eq!(unsafe { cache.put(start, bytes) }, 0);
        };
        put(os::map(bytes, PAGE).unwrap());
        assert_eq!(cache.decay(), 0);
        put(cache.take(bytes).unwrap());
        assert_eq!(cache.tick(), 0);
        assert_eq!(cache.decay(), 0, "used since the last pass");
        put(cache.take(bytes).unwrap());
        assert_eq!(cache.decay(), 0);
        assert_eq!(cache.tick(), 0, "used since the last decay tick");
        assert_eq!(cache.decay(), bytes, "unused since the last pass");
    }
}
