//! What an arena tells the process of its bytes in use: a lower bound, in steps.
//!
//! The process adds up what its heaps told ([`crate::level`]), so that a new peak is seen without a
//! look at every heap. What a heap told must not be more than it has in use, or memory that one
//! heap freed and another one took would count twice. The fast paths test nothing, so the bound
//! holds for whatever they may free before the next slow path:
//!
//! ```text
//!   in use  =  told  +  margin  +  what the fast paths may free:
//!                                  room in lists, pledged remote-free batches
//! ```
//!
//! 1. A slow path that frees, or that makes room in a list, first takes that from the margin
//!    ([`Arena::spend`]).
//! 2. Where the margin falls below zero, or the bytes in use have grown by [`STEP`], the margin is
//!    computed anew, and what was told is corrected if the margin is not within [`MARGIN`].
//! 3. A list frees no more than it has room for, nor more than the blocks of its class that are in
//!    use.
//! 4. Blocks past the classes of slabs are freed by slow paths alone. So they change the margin
//!    exactly ([`Arena::earn`], [`Arena::repay`]), and what was told is corrected by the margin,
//!    without a look at the lists. After [`QUICK`] such corrections the margin is computed anew.
//!
//! One case is left out: where blocks of a class are replaced by shorter ones of the same class on
//! fast paths alone, the bytes in use fall by up to an eighth of these blocks (15 bytes of each up
//! to 256) before the next slow path tells it.

use super::Arena;
use crate::peak::IN_USE;
use crate::size_class::{SLAB_CLASSES, size_of_class};

/// The margin from which on more is told; half of it is left each time.
const MARGIN: i64 = 1 << 20;
/// By how much the bytes in use grow before the margin is computed anew.
const STEP: i64 = MARGIN / 2;

/// Corrections without a look at the lists between two with one.
const QUICK: u32 = 64;

impl Arena {
    /// Says that a slow path is about to free bytes, or to make room for them in a list.
    #[inline]
    pub(crate) fn spend(&self, bytes: usize) {
        self.told.margin.set(self.told.margin.get() - bytes as i64);
        if self.told.margin.get() < 0 {
            self.retell(bytes as u64);
        }
    }

    /// As [`spend`](Self::spend), of blocks of a class: nothing if only slow paths free them.
    #[inline]
    pub(crate) fn spend_in(&self, class: usize, bytes: usize) {
        if class < SLAB_CLASSES {
            self.spend(bytes);
        }
    }

    /// Says that a block was taken, or has grown by so much, that only slow paths free.
    #[inline]
    pub(crate) fn earn(&self, bytes: usize) {
        self.told.margin.set(self.told.margin.get() + bytes as i64);
        // Only the growth by other blocks needs a look at the lists.
        let again = self.told.again.get().wrapping_add(bytes as u64);
        self.told.again.set(again);
        if self.told.margin.get() > MARGIN {
            self.correct(0);
        }
    }

    /// Says that a block is about to be freed that only slow paths free.
    #[inline]
    pub(crate) fn repay(&self, bytes: usize) {
        self.told.margin.set(self.told.margin.get() - bytes as i64);
        let again = self.told.again.get().wrapping_sub(bytes as u64);
        self.told.again.set(again);
        if self.told.margin.get() < 0 {
            self.correct(bytes as u64);
        }
    }

    /// Corrects what was told so that half a [`MARGIN`] is left, where `spent` bytes are about to
    /// be freed.
    #[cold]
    #[inline(never)]
    fn correct(&self, spent: u64) {
        let told = &self.told;
        let Some(quick) = told.quick.get().checked_sub(1) else {
            self.retell(spent);
            return;
        };
        told.quick.set(quick);
        let excess = told.margin.get() - MARGIN / 2;
        self.set_told(told.bytes.get().wrapping_add(excess.cast_unsigned()));
        told.margin.set(MARGIN / 2);
    }

    /// Says that the fast paths may put up to so many bytes into a remote-free batch.
    pub(crate) fn pledge(&self, bytes: usize) {
        self.told
            .pledged
            .set(self.told.pledged.get() + bytes as u64);
        self.spend(bytes);
    }

    /// Says that a remote-free batch that was pledged is closed.
    pub(crate) fn redeem(&self, bytes: usize) {
        self.told
            .pledged
            .set(self.told.pledged.get() - bytes as u64);
    }

    /// Tells the process if the bytes in use have changed by much. Only a thread's heap calls it.
    #[inline]
    pub(crate) fn tell(&self) {
        let grown = self.requested().wrapping_sub(self.told.again.get());
        if grown.cast_signed() >= 0 || self.told.margin.get() < 0 {
            self.retell(0);
        }
    }

    /// Tells the process the bytes in use exactly; the next slow path computes the margin. Only a
    /// thread's heap calls it.
    #[cold]
    pub(crate) fn tell_all(&self) {
        self.set_told(self.requested());
        self.told.margin.set(-1);
        self.told.quick.set(0);
    }

    /// Computes the margin where `spent` bytes are about to be freed, and corrects what was told.
    #[cold]
    #[inline(never)]
    fn retell(&self, spent: u64) {
        #[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
        looks::count();
        let requested = self.requested();
        let sure = requested.wrapping_sub(self.room() + self.told.pledged.get() + spent);
        let mut margin = sure.wrapping_sub(self.told.bytes.get()).cast_signed();
        if !(0..=MARGIN).contains(&margin) {
            margin = MARGIN / 2;
            self.set_told(sure.wrapping_sub(margin.cast_unsigned()));
        }
        self.told.margin.set(margin);
        self.told.quick.set(QUICK);
        self.told
            .again
            .set(requested.wrapping_add(STEP.cast_unsigned()));
    }

    /// The bytes in use that were not told; negative if more was told than is in use.
    #[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
    pub(crate) fn untold(&self) -> i64 {
        let told = self.told.bytes.get();
        self.requested().wrapping_sub(told).cast_signed()
    }

    fn set_told(&self, bytes: u64) {
        let change = bytes.wrapping_sub(self.told.bytes.replace(bytes));
        if change != 0 {
            IN_USE.change(change.cast_signed());
        }
    }

    /// The most bytes that the fast path can free into the lists before one is full.
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

/// How often all lists were looked at, on the test's own thread.
#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
pub(crate) mod looks {
    use core::cell::Cell;

    std::thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// How often while `f` runs.
    pub(crate) fn of(f: impl FnOnce()) -> usize {
        LOOKS.set(0);
        f();
        LOOKS.get()
    }
}

#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
mod tests {
    use super::*;
    use crate::Layout;
    use crate::arena::tests::arena;
    use crate::large::Larges;
    use crate::primitive::Random;
    use crate::size_class::CLASSES;
    use core::ptr::NonNull;
    use std::vec::Vec;

    /// At no call more was told than is in use, and not much less.
    #[test]
    fn what_was_told_is_never_more_than_is_in_use() {
        for seed in 1..5 {
            let mut random = Random::new(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
            let arena = arena(Larges::untracked());
            let mut blocks: Vec<(NonNull<u8>, Layout)> = Vec::new();
            for step in 0..40_000 {
                let grows = (step / 5000) % 2 == 0;
                if blocks.is_empty() || random.below(10) < if grows { 7 } else { 3 } {
                    // Whole classes, as replacing blocks by shorter ones of a class is not told.
                    let class = random.below(CLASSES);
                    let layout = Layout::from_size_align(size_of_class(class).max(16), 8).unwrap();
                    let block = NonNull::new(arena.allocate(layout)).unwrap();
                    if class >= SLAB_CLASSES {
                        arena.earn(layout.size());
                    }
                    arena.tell();
                    blocks.push((block, layout));
                } else {
                    let (block, layout) = blocks.swap_remove(random.below(blocks.len()));
                    if layout.size() > size_of_class(SLAB_CLASSES - 1) {
                        arena.repay(layout.size());
                    }
                    // SAFETY: taken above, and given back once.
                    unsafe { arena.deallocate(block, layout) };
                }
                if step % 9000 == 8999 {
                    arena.empty_lists();
                }
                let untold = arena.untold();
                let most = 3 * MARGIN + arena.room().cast_signed();
                assert!(
                    (0..=most).contains(&untold),
                    "seed {seed}, step {step}: {untold} bytes untold",
                );
            }
            for (block, layout) in blocks {
                // SAFETY: taken above, and given back once.
                unsafe { arena.deallocate(block, layout) };
            }
            arena.tell_all();
            assert_eq!(arena.told.bytes.get(), 0);
        }
    }
}
