//! A pile: a list of blocks that any thread puts on, and that is taken whole.
//!
//! ```text
//!   any thread    first ─► block ─► last ┄┄► ┌──────┐
//!                 one exchange per batch     │ head │ ─► block ─► block ─► null      taken whole by one swap
//!                                            └──────┘
//! ```
//!
//! A batch is a list of blocks, linked through their first words. Nobody reads the link of a block that is on the pile: it
//! could be taken, and be unmapped, before the link is read.
//!
//! 1. [`Pile::take`] swaps the head against null, so it asks nothing of what stands there, and there is no ABA problem.
//! 2. [`Pile::take_first`] does the same, and puts all but the first block on again by another swap. Nothing is lost by
//!    that if nobody puts anything on between the two steps: the head is null then, whatever others take. So it is for a
//!    pile that one thread alone puts on, and that thread's. Others find the pile empty between the two steps.

use core::ptr;

use crate::block::Block;
use crate::constructor::constructor;
use crate::primitive::sync::atomic::{AtomicPtr, Ordering};

/// A list that is taken whole.
#[derive(Debug)]
pub struct Pile {
    first: AtomicPtr<Block>,
}

impl Pile {
    constructor! {
        /// An empty pile.
        pub fn new() {
            Self {
                first: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// Puts a batch on; lock-free. Returns whether the pile was empty.
    ///
    /// # Safety
    ///
    /// 1. `first` leads to a list of free blocks that ends with `last`, whose link need not be written; the caller alone
    ///    has them and gives them up.
    pub unsafe fn put(&self, first: *mut Block, last: *mut Block) -> bool {
        // Relaxed: only compared; what it points to is not read here. [AM1]
        let mut head = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: obligation 1; the block is not on the pile yet.
            unsafe { Block::set_next(last, head) };
            // Release: pairs with the Acquire in `take`; publishes the links and whatever was done to the blocks. [AM2]
            match self.first.compare_exchange_weak(
                head,
                first,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return head.is_null(),
                Err(now) => head = now,
            }
        }
    }

    /// Takes all blocks, a list that ends with null; wait-free. Whoever took them has them alone.
    #[must_use]
    pub fn take(&self) -> *mut Block {
        // Acquire: pairs with the Release in `put`, of each batch: a later exchange continues an earlier one's
        // release, as that of `take_first` does. [AM4]
        self.first.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes the block that was put on last, null if there is none; wait-free. Whoever took it has it alone.
    ///
    /// To others the pile looks empty for a moment.
    ///
    /// # Safety
    ///
    /// 1. Nobody puts anything on meanwhile.
    #[must_use]
    pub unsafe fn take_first(&self) -> *mut Block {
        let first = self.take();
        if first.is_null() {
            return first;
        }
        // SAFETY: the block was put on with its link written, and is this thread's alone now.
        let rest = unsafe { Block::next(first) };
        if !rest.is_null() {
            // Relaxed: nothing of the rest was written since it was put on, and an exchange continues the releases of
            // [AM2]. [AM10]
            let between = self.first.swap(rest, Ordering::Relaxed);
            debug_assert!(between.is_null(), "by obligation 1: who takes leaves null");
        }
        first
    }

    /// Whether there is no block; wait-free.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a hint; `take` acquires, and `Mailbox::release` has a fence before. [AM5]
        self.first.load(Ordering::Relaxed).is_null()
    }
}
