//! A lower bound of an arena's bytes in use, which the arena reports to the process in steps.
//!
//! The process adds up what its heaps reported ([`crate::peak`]), so it notices a new peak without
//! visiting every heap. A heap must never report more than it has in use. Otherwise memory that one
//! heap freed and another one allocated would count twice. The fast paths do not check this. So the
//! bound leaves out all bytes that the fast paths may free before the next slow path:
//!
//! ```text
//!   in use  =  reported  +  margin  +  what the fast paths may free:
//!                                       room in lists, reserves of open remote-free batches
//! ```
//!
//! The *margin* is the number of bytes that slow paths may free before the reported value must be
//! corrected.
//!
//! 1. Before a slow path frees a block or makes room in a list, it subtracts the bytes of the block
//!    or of the room from the margin ([`Arena::lower_margin`]).
//! 2. If the margin becomes negative, or the bytes in use have grown by [`STEP`], the margin is
//!    recomputed. If it is then not within [`MARGIN`], the reported value is corrected.
//! 3. The number of blocks that fast paths free into a list has two bounds: the room in the list,
//!    and the number of blocks of its class that are in use.
//! 4. Only slow paths free blocks that are too large for slabs. So each such block changes the
//!    margin by its exact length ([`Arena::slow_allocated`], [`Arena::slow_freed`]). If the margin
//!    then leaves its range, the reported value is corrected without a scan of the lists. After
//!    [`CORRECTIONS_MAX`] such corrections the margin is recomputed.
//!
//! In one case a heap reports too much: if fast paths replace blocks of a class by shorter ones of
//! the same class. Until the next slow path, the reported value may then be too high by up to an
//! eighth of the bytes of these blocks, or by 15 bytes for each block up to 256 bytes.

use super::Arena;
use crate::peak::IN_USE;
use crate::size_class::{SLAB_CLASSES, size_of_class};

/// The margin above which more is reported. Each correction leaves half of it.
const MARGIN: i64 = 1 << 20;
/// Growth of the bytes in use after which the margin is recomputed.
const STEP: i64 = MARGIN / 2;

/// Corrections between two recomputations.
const CORRECTIONS_MAX: u32 = 64;

impl Arena {
    /// Records that a slow path is about to free bytes, or to make room for them in a list.
    #[inline]
    pub(crate) fn lower_margin(&self, bytes: usize) {
        self.reported
            .margin
            .set(self.reported.margin.get() - bytes as i64);
        if self.reported.margin.get() < 0 {
            self.recompute(bytes as u64);
        }
    }

    /// As [`lower_margin`](Self::lower_margin), for blocks of a class. Does nothing if only slow
    /// paths free them.
    #[inline]
    pub(crate) fn lower_margin_of_class(&self, class: usize, bytes: usize) {
        if class < SLAB_CLASSES {
            self.lower_margin(bytes);
        }
    }

    /// Records that a block that only slow paths free was allocated, or has grown by so much.
    #[inline]
    pub(crate) fn slow_allocated(&self, bytes: usize) {
        self.reported
            .margin
            .set(self.reported.margin.get() + bytes as i64);
        // Only growth by other blocks needs a scan of the lists.
        let recompute_at = self.reported.recompute_at.get().wrapping_add(bytes as u64);
        self.reported.recompute_at.set(recompute_at);
        if self.reported.margin.get() > MARGIN {
            self.correct(0);
        }
    }

    /// Records that a block that only slow paths free is about to be freed.
    #[inline]
    pub(crate) fn slow_freed(&self, bytes: usize) {
        self.reported
            .margin
            .set(self.reported.margin.get() - bytes as i64);
        let recompute_at = self.reported.recompute_at.get().wrapping_sub(bytes as u64);
        self.reported.recompute_at.set(recompute_at);
        if self.reported.margin.get() < 0 {
            self.correct(bytes as u64);
        }
    }

    /// Corrects the reported value so that half a [`MARGIN`] is left; `spent` bytes are about to be
    /// freed.
    #[cold]
    #[inline(never)]
    fn correct(&self, spent: u64) {
        let reported = &self.reported;
        let Some(corrections_left) = reported.corrections_left.get().checked_sub(1) else {
            self.recompute(spent);
            return;
        };
        reported.corrections_left.set(corrections_left);
        let excess = reported.margin.get() - MARGIN / 2;
        self.set_reported(reported.bytes.get().wrapping_add(excess.cast_unsigned()));
        reported.margin.set(MARGIN / 2);
    }

    /// Records that the fast paths may put up to so many bytes into a remote-free batch.
    pub(crate) fn reserve_batch(&self, bytes: usize) {
        self.reported
            .batch_reserve
            .set(self.reported.batch_reserve.get() + bytes as u64);
        self.lower_margin(bytes);
    }

    /// Ends the reserve of a remote-free batch, which is closed.
    pub(crate) fn release_batch(&self, bytes: usize) {
        self.reported
            .batch_reserve
            .set(self.reported.batch_reserve.get() - bytes as u64);
    }

    /// Reports the bytes in use if they have changed by much. Only a thread's heap calls it.
    #[inline]
    pub(crate) fn report(&self) {
        let grown = self
            .requested()
            .wrapping_sub(self.reported.recompute_at.get());
        if grown.cast_signed() >= 0 || self.reported.margin.get() < 0 {
            self.recompute(0);
        }
    }

    /// Reports the bytes in use exactly; the next slow path recomputes the margin. Only a thread's
    /// heap calls it.
    #[cold]
    pub(crate) fn report_exact(&self) {
        self.set_reported(self.requested());
        self.reported.margin.set(-1);
        self.reported.corrections_left.set(0);
    }

    /// Recomputes the margin, if `spent` bytes are about to be freed, and corrects the reported
    /// value.
    #[cold]
    #[inline(never)]
    fn recompute(&self, spent: u64) {
        #[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
        recomputes::count();
        let requested = self.requested();
        let sure = requested.wrapping_sub(self.room() + self.reported.batch_reserve.get() + spent);
        let mut margin = sure.wrapping_sub(self.reported.bytes.get()).cast_signed();
        if !(0..=MARGIN).contains(&margin) {
            margin = MARGIN / 2;
            self.set_reported(sure.wrapping_sub(margin.cast_unsigned()));
        }
        self.reported.margin.set(margin);
        self.reported.corrections_left.set(CORRECTIONS_MAX);
        self.reported
            .recompute_at
            .set(requested.wrapping_add(STEP.cast_unsigned()));
    }

    /// The bytes in use less the reported value; negative if that is too high.
    #[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
    pub(crate) fn unreported(&self) -> i64 {
        let reported = self.reported.bytes.get();
        self.requested().wrapping_sub(reported).cast_signed()
    }

    fn set_reported(&self, bytes: u64) {
        let change = bytes.wrapping_sub(self.reported.bytes.replace(bytes));
        if change != 0 {
            IN_USE.change(change.cast_signed());
        }
    }

    /// The maximum number of bytes that the fast path can free into the lists before one is full.
    fn room(&self) -> u64 {
        let mut room = 0;
        for class in 0..SLAB_CLASSES {
            let slot = self.slot(class);
            let live = slot.taken.get().wrapping_sub(slot.given.get());
            let blocks = slot.room().min(live.cast_signed()).max(0);
            room += blocks.cast_unsigned() * size_of_class(class) as u64;
        }
        room
    }
}

/// Counts the recomputations on the test's own thread.
#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
pub(crate) mod recomputes {
    use core::cell::Cell;

    std::thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// Returns how many there are while `f` runs.
    pub(crate) fn of(f: impl FnOnce()) -> usize {
        COUNT.set(0);
        f();
        COUNT.get()
    }
}

#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
mod tests {
    use super::*;
    use crate::Layout;
    use crate::arena::tests::arena;
    use crate::large::LargeBlocks;
    use crate::primitive::Random;
    use crate::size_class::CLASSES;
    use core::ptr::NonNull;
    use std::vec::Vec;

    /// The reported value is never more than is in use, and not much less.
    #[test]
    fn what_was_reported_is_never_more_than_is_in_use() {
        for seed in 1..5 {
            let mut random = Random::new(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
            let arena = arena(LargeBlocks::untracked());
            let mut blocks: Vec<(NonNull<u8>, Layout)> = Vec::new();
            for step in 0..40_000 {
                let grows = (step / 5000) % 2 == 0;
                if blocks.is_empty() || random.below(10) < if grows { 7 } else { 3 } {
                    // Whole classes: replacing blocks by shorter ones of a class is not reported.
                    let class = random.below(CLASSES);
                    let layout = Layout::from_size_align(size_of_class(class).max(16), 8).unwrap();
                    let block = NonNull::new(arena.allocate(layout)).unwrap();
                    if class >= SLAB_CLASSES {
                        arena.slow_allocated(layout.size());
                    }
                    arena.report();
                    blocks.push((block, layout));
                } else {
                    let (block, layout) = blocks.swap_remove(random.below(blocks.len()));
                    if layout.size() > size_of_class(SLAB_CLASSES - 1) {
                        arena.slow_freed(layout.size());
                    }
                    // SAFETY: taken above, and given back once.
                    unsafe { arena.deallocate(block, layout) };
                }
                if step % 9000 == 8999 {
                    arena.empty_lists();
                }
                let unreported = arena.unreported();
                let most = 3 * MARGIN + arena.room().cast_signed();
                assert!(
                    (0..=most).contains(&unreported),
                    "seed {seed}, step {step}: {unreported} bytes unreported",
                );
            }
            for (block, layout) in blocks {
                // SAFETY: taken above, and given back once.
                unsafe { arena.deallocate(block, layout) };
            }
            arena.report_exact();
            assert_eq!(arena.reported.bytes.get(), 0);
        }
    }
}
