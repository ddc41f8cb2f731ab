//! Mappings kept: address ranges with their memory, of large blocks that were freed.
//!
//! A page that comes from the system costs a fault and is cleared, more than most programs do with
//! it; so a few ranges stay, and the next large block takes from them:
//!
//! ```text
//!   kept     │░░░░░░░░░░░░░░ 14 MiB ░░░░░░░░░░░░░░│
//!   2 MiB    │ block │░░░░░░░░░░ 12 MiB ░░░░░░░░░░│    taken from its front
//!   4 MiB    │     block     │░░░░░░ 10 MiB ░░░░░░│    grown in place:       what follows it is kept
//! ```
//!
//! 1. Neighbours are joined, so that what a growing block gave back serves the next one whole.
//! 2. At most [`BYTES`] in [`RANGES`] ranges are kept by an owner; what does not fit is left to all
//!    threads ([`crate::pool`]), and goes back if that has no room either. An owner that asked for
//!    none since the last decay tick leaves what it frees to all threads first.
//! 3. In a hardened build no thread may touch a block that was freed, and one is taken with the
//!    page that guards it, its last. Either the range is kept without access, or, from [`MOVED`]
//!    bytes on, its memory is moved to addresses that no thread knows: that changes an entry for
//!    each 2 MiB, where rights are changed page by page. What is at the old addresses then has no
//!    memory and no access; as many as [`RANGES`] of these stay.
//! 4. What was unused between two decay ticks of [`TICK`] ranges put in goes back, or between two
//!    looks; at a purge and at the end of a thread all of it does.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::geometry::HARDENED;
use crate::least::Least;
use crate::os::{self, Access, GUARD, PAGE};
use crate::pool::pool;

/// Bytes that an owner keeps at most: as much as glibc serves from its heap before it maps.
const BYTES: usize = 32 << 20;
/// Ranges that an owner keeps at most.
const RANGES: usize = 8;
/// Ranges put in between two decay ticks.
const TICK: u32 = 64;

/// From how many bytes on memory is moved: what one entry of the kernel's tables of pages stands
/// for, and what these are aligned to.
const MOVED: usize = 2 << 20;

/// A range; empty if it has no bytes.
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

    /// Takes `bytes` from the front.
    fn cut(&self, bytes: usize) -> *mut u8 {
        let start = self.start.get();
        self.start.set(start.wrapping_add(bytes));
        self.bytes.set(self.bytes.get() - bytes);
        start
    }
}

/// The kept ranges of one owner.
pub(crate) struct Kept {
    ranges: [Range; RANGES],
    /// Addresses that memory was moved away from; of no length but in a hardened build.
    vacated: [Range; if HARDENED { RANGES } else { 0 }],
    /// Which of them is the oldest.
    oldest: Cell<usize>,
    bytes: Cell<usize>,
    least: Least,
    puts: Cell<u32>,
    /// Whether a range was asked for since the last decay tick.
    is_asked: Cell<bool>,
}

impl Kept {
    pub(crate) const fn new() -> Self {
        Self {
            ranges: [const { Range::none() }; RANGES],
            vacated: [const { Range::none() }; if HARDENED { RANGES } else { 0 }],
            oldest: Cell::new(0),
            bytes: Cell::new(0),
            least: Least::new(),
            puts: Cell::new(0),
            is_asked: Cell::new(false),
        }
    }

    /// Takes `bytes` from the shortest range that has them; what is in them is not known.
    pub(crate) fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.is_asked.set(true);
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

    /// Takes the `bytes` that start at `start`, behind a block that was taken before and the page
    /// that guards it; false, and nothing has changed, if they are not kept.
    pub(crate) fn take_at(&self, start: *mut u8, bytes: usize) -> bool {
        let range = self
            .ranges
            .iter()
            .find(|range| range.bytes.get() >= bytes && range.start.get() == start);
        match range {
            Some(range) => {
                if HARDENED {
                    // The block ends with what is allowed now; a guard is behind it again.
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

    /// Takes bytes from the front of a range, to be used.
    fn cut(&self, range: &Range, bytes: usize) {
        range.cut(bytes);
        self.bytes.set(self.bytes.get() - bytes);
        self.least.fell(self.bytes.get());
    }

    /// Keeps a range, or gives it back; and what was unused since the last decay tick, if one is
    /// due. Returns how many bytes went back.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start` are whole pages of mappings of [`os`] that no thread uses any
    ///    more, and this owner alone may give them back.
    pub(crate) unsafe fn put(&self, start: NonNull<u8>, bytes: usize) -> usize {
        debug_assert!(start.addr().get().is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE));
        let is_asked = self.is_asked.get();
        let freed = self.count();
        // SAFETY: obligation 1.
        if !is_asked && unsafe { pool().put(start, bytes) } {
            return freed;
        }
        if bytes > BYTES - self.bytes.get() {
            // SAFETY: obligation 1.
            return freed + unsafe { give_away(start, bytes) };
        }
        let hidden = if HARDENED {
            // SAFETY: obligation 1.
            unsafe { self.hide(start, bytes) }
        } else {
            Some(start)
        };
        let Some(start) = hidden else {
            return freed + bytes;
        };
        if !self.join(start.as_ptr(), bytes) {
            // SAFETY: obligation 1, of the range or of where its memory is now.
            return freed + unsafe { give_away(start, bytes) };
        }
        self.bytes.set(self.bytes.get() + bytes);
        freed
    }

    /// Sees to it that no thread touches a range that is to be kept; returns where its memory is
    /// now, `None` if it went back.
    ///
    /// # Safety
    ///
    /// 1. As for [`Kept::put`].
    unsafe fn hide(&self, start: NonNull<u8>, bytes: usize) -> Option<NonNull<u8>> {
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
        // The kernel's pages are smaller than `PAGE`, and it chose the place.
        // SAFETY: whole pages of the kernel's, which no thread knows.
        unsafe { os::unmap(to, bytes, PAGE) };
        None
    }

    /// Notes addresses that memory was moved away from, and gives the oldest such ones back.
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

    /// Gives addresses back that memory was moved away from.
    fn give_back(range: &Range) {
        let bytes = range.bytes.replace(0);
        if let Some(start) = NonNull::new(range.start.get())
            && bytes > 0
        {
            // SAFETY: whole pages that were put in, that no thread uses, and that are noted once.
            unsafe { os::unmap(start, bytes, PAGE) };
        }
    }

    /// Adds a range to its neighbours, or to an empty place; false if there is none.
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

    /// Gives back what was unused since the last decay tick; returns how many bytes went back.
    #[cold]
    pub(crate) fn tick(&self) -> usize {
        self.puts.set(0);
        self.is_asked.set(false);
        let freed = self.purge(self.least.since_tick());
        self.least.tick(self.bytes.get());
        freed
    }

    /// Gives back what was unused since the last look; returns how many bytes went back.
    pub(crate) fn look(&self) -> usize {
        let freed = self.purge(self.least.since_look());
        self.least.look(self.bytes.get());
        freed
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.get() == 0
    }

    /// Gives up to `most` bytes back; returns how many went.
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
        self.least.fell_by(freed);
        freed
    }
}

/// Leaves a range to all threads, or gives it back; returns how many bytes went back.
///
/// # Safety
///
/// 1. As for [`Kept::put`].
unsafe fn give_away(start: NonNull<u8>, bytes: usize) -> usize {
    // SAFETY: obligation 1.
    if unsafe { pool().put(start, bytes) } {
        return 0;
    }
    // SAFETY: obligation 1.
    unsafe { os::unmap(start, bytes, PAGE) };
    bytes
}

/// Moves the memory of a block with its guard to addresses that no thread knows; `None`, and only
/// the guard's rights have changed, if the system cannot.
///
/// # Safety
///
/// 1. As for [`Kept::put`].
unsafe fn relocate(start: NonNull<u8>, bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the range is longer than its guard.
    let guard = unsafe { start.add(bytes - GUARD) };
    // With rights of its own it is a mapping of its own, and one call moves one.
    // SAFETY: obligation 1.
    if !unsafe { os::protect(guard, GUARD, Access::Allowed) } {
        return None;
    }
    // SAFETY: obligation 1.
    unsafe { os::relocate(start, bytes, MOVED) }
}

/// Allows access to kept pages that are about to be a block's, except for the last, its guard;
/// false if the system refuses, and some of them may be allowed then.
fn allow_guarded(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the range is longer than its guard.
    let guard = unsafe { start.add(bytes - GUARD) };
    // First, so that where one call only is refused nothing has been allowed. SAFETY: whole pages
    // of a kept range and the guard before it, which no thread uses, by the obligation of `put`.
    let is_guarded = unsafe { os::protect(guard, GUARD, Access::Forbidden) };
    // SAFETY: as above.
    is_guarded && unsafe { os::protect(start, bytes - GUARD, Access::Allowed) }
}

/// Allows access to the guard of a block and to the kept pages behind it, except for their last,
/// which guards it now; false if the system refuses, and the old guard stays.
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

    /// One that was asked for a range, so that it keeps what is put in.
    fn asked() -> Kept {
        let kept = Kept::new();
        assert!(kept.take(PAGE).is_none());
        kept
    }

    fn kept() -> usize {
        64 * PAGE
    }

    #[test]
    fn what_was_put_in_is_taken_grown_and_joined() {
        let kept_ranges = asked();
        let start = os::map(kept(), PAGE).unwrap();
        // SAFETY: the mapping is new, and no thread uses it.
        assert_eq!(unsafe { kept_ranges.put(start, kept()) }, 0);
        assert!(kept_ranges.take(kept() + PAGE).is_none());
        let block = kept_ranges.take(16 * PAGE).unwrap();
        assert_eq!(block, start);
        // It grows into what follows, and into nothing else.
        let behind = block.as_ptr().wrapping_add(16 * PAGE);
        assert!(kept_ranges.take_at(behind, 16 * PAGE));
        assert!(!kept_ranges.take_at(behind, 16 * PAGE));
        // SAFETY: the range was taken above, and no thread uses it.
        assert_eq!(unsafe { kept_ranges.put(block, 32 * PAGE) }, 0);
        // The whole again.
        assert_eq!(kept_ranges.take(kept()), Some(start));
        // SAFETY: as above.
        assert_eq!(unsafe { kept_ranges.put(start, kept()) }, 0);
        assert_eq!(kept_ranges.purge(usize::MAX), kept());
        assert!(kept_ranges.take(PAGE).is_none());
    }

    /// The memory of a long block is moved and comes again; what the system does not move is kept
    /// in place: a block that was taken from two mappings, each with pages of its own.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_moved_comes_again() {
        if !HARDENED {
            return;
        }
        let bytes = 2 * MOVED;
        let kept_ranges = asked();
        let start = os::map(bytes, PAGE).unwrap();
        for round in 0..20_u8 {
            let block = kept_ranges.take(bytes).unwrap_or(start);
            // SAFETY: the block is longer than this.
            let byte = unsafe { block.add(MOVED) };
            if round > 0 {
                // SAFETY: the byte is before the guard, and was written to.
                assert_eq!(unsafe { byte.read() }, round);
            }
            // SAFETY: as above.
            unsafe { byte.write(round + 1) };
            // SAFETY: the block is used no more.
            assert_eq!(unsafe { kept_ranges.put(block, bytes) }, 0);
        }
        assert_eq!(kept_ranges.purge(usize::MAX), bytes);
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
        assert_eq!(unsafe { kept_ranges.put(start, bytes) }, 0);
        let again = kept_ranges.take(bytes).unwrap();
        for at in [0, MOVED + PAGE] {
            // SAFETY: inside the block.
            let byte = unsafe { again.add(at) };
            // SAFETY: before the guard, and written to.
            assert_eq!(unsafe { byte.read() }, 7);
        }
        // SAFETY: no thread uses the block.
        unsafe { os::unmap(again, bytes, PAGE) };
        kept_ranges.purge(usize::MAX);
    }

    /// A block that does not grow, as the system refuses, keeps its guard and is otherwise as it
    /// was.
    #[test]
    fn a_guard_that_cannot_move_stays() {
        if !HARDENED {
            return;
        }
        let bytes = 16 * PAGE;
        let kept_ranges = asked();
        let start = os::map(2 * bytes, PAGE).unwrap();
        // SAFETY: the mapping is new, and no thread uses it.
        assert_eq!(unsafe { kept_ranges.put(start, 2 * bytes) }, 0);
        let block = kept_ranges.take(bytes).unwrap();
        let behind = block.as_ptr().wrapping_add(bytes);
        let guard = behind.wrapping_sub(GUARD);
        for passed in 0..2 {
            refusal::plan(Call::Protect, passed);
            assert!(!kept_ranges.take_at(behind, bytes));
            assert!(refusal::is_over());
            assert!(!os::is_readable(guard), "call {passed}");
            assert!(os::is_readable(guard.wrapping_sub(1)));
        }
        assert!(kept_ranges.take_at(behind, bytes));
        assert!(os::is_readable(guard));
        assert!(!os::is_readable(guard.wrapping_add(bytes)));
        // SAFETY: no thread uses the block.
        unsafe { os::unmap(block, 2 * bytes, PAGE) };
    }

    /// What the system does not move is kept in place, without access.
    #[test]
    fn what_cannot_be_moved_is_kept_where_it_stands() {
        if !HARDENED {
            return;
        }
        let bytes = 2 * MOVED;
        let kept_ranges = asked();
        let block = os::map(bytes, PAGE).unwrap();
        // SAFETY: the mapping is this long.
        unsafe { block.write(7) };
        // The guard's rights are the first step, the move is the second.
        for call in [Call::Protect, Call::Relocate] {
            refusal::plan(call, 0);
            // SAFETY: the mapping is new, or was taken, and no thread uses it.
            assert_eq!(unsafe { kept_ranges.put(block, bytes) }, 0);
            assert!(refusal::is_over());
            assert!(!os::is_readable(block.as_ptr()));
            assert_eq!(kept_ranges.take(bytes), Some(block));
            // SAFETY: taken above; the byte was written to, and its memory was not moved.
            assert_eq!(unsafe { block.read() }, 7);
        }
        // SAFETY: no thread uses the block.
        unsafe { os::unmap(block, bytes, PAGE) };
    }

    #[test]
    fn neighbours_on_both_sides_are_joined() {
        let kept_ranges = asked();
        let start = os::map(3 * PAGE, PAGE).unwrap();
        let part = |index: usize| NonNull::new(start.as_ptr().wrapping_add(index * PAGE)).unwrap();
        for index in [0, 2, 1] {
            // SAFETY: pages of the mapping, each put in once and used by no thread.
            assert_eq!(unsafe { kept_ranges.put(part(index), PAGE) }, 0);
        }
        assert_eq!(kept_ranges.take(3 * PAGE), Some(start));
        // SAFETY: the range was taken above, and no thread uses it.
        unsafe { os::unmap(start, 3 * PAGE, PAGE) };
    }

    #[test]
    fn what_does_not_fit_and_what_stands_unused_goes_back() {
        let kept_ranges = asked();
        let start = os::map(BYTES + PAGE, PAGE).unwrap();
        // SAFETY: the mapping is new, and no thread uses it.
        let too_long = unsafe { kept_ranges.put(start, BYTES + PAGE) };
        assert_eq!(too_long, BYTES + PAGE);
        let mut back = 0;
        let idle = os::map(PAGE, PAGE).unwrap();
        // SAFETY: as above.
        back += unsafe { kept_ranges.put(idle, PAGE) };
        for _ in 0..2 * TICK {
            let block = kept_ranges.take(PAGE).unwrap();
            // SAFETY: the range was taken just now, and no thread uses it.
            back += unsafe { kept_ranges.put(block, PAGE) };
        }
        assert_eq!(back, 0, "what is used stays");
        assert_eq!(kept_ranges.tick() + kept_ranges.tick(), PAGE);
    }

    #[test]
    fn ticks_and_looks_have_a_least_each() {
        let kept_ranges = asked();
        let bytes = 4 * PAGE;
        let put = |start| {
            // SAFETY: a mapping that is new, or was taken, and that no thread uses.
            assert_eq!(unsafe { kept_ranges.put(start, bytes) }, 0);
        };
        put(os::map(bytes, PAGE).unwrap());
        assert_eq!(kept_ranges.look(), 0);
        put(kept_ranges.take(bytes).unwrap());
        assert_eq!(kept_ranges.tick(), 0);
        assert_eq!(kept_ranges.look(), 0, "used since the last look");
        put(kept_ranges.take(bytes).unwrap());
        assert_eq!(kept_ranges.look(), 0);
        assert_eq!(kept_ranges.tick(), 0, "used since the last decay tick");
        assert_eq!(kept_ranges.look(), bytes, "unused since the last look");
    }
}
