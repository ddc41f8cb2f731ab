//! Which halves of a ring or of a segmented queue are dropped.

use crate::primitive::sync::atomic::{AtomicU8, Ordering};

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Side {
    Producer = 1,
    Consumer = 2,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Producer => Self::Consumer,
            Self::Consumer => Self::Producer,
        }
    }
}

/// The sum of the sides that are gone; written twice in the life of a queue.
pub(super) struct Gone(AtomicU8);

impl Gone {
    pub(super) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Returns whether the half opposite of `side` was dropped. If so, later loads return its last
    /// index or count.
    #[inline(always)]
    pub(super) fn has_other(&self, side: Side) -> bool {
        // Acquire: pairs with the release half of the AcqRel in leave; the next load of the other
        // half's index returns its last one. [RG5]
        self.0.load(Ordering::Acquire) & side.other() as u8 != 0
    }

    /// Records that `side` is dropped. Returns `true` if the other half was dropped before; the
    /// caller then owns the memory.
    #[inline(always)]
    pub(super) fn leave(&self, side: Side) -> bool {
        // AcqRel: pairs with itself in the other half. All accesses of the first half happen before
        // the second half frees the memory, and the second half finds what the first wrote last.
        // [RG6]
        let gone = self.0.fetch_add(side as u8, Ordering::AcqRel);
        debug_assert!(gone & side as u8 == 0, "spsc: a half leaves once");
        gone & side.other() as u8 != 0
    }
}
