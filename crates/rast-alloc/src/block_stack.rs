//! A Treiber stack of blocks: any thread pushes, and all are taken at once.
//!
//! ```text
//!   any thread    first ─► block ─► last ┄┄► ┌──────┐
//!                 one exchange per batch     │ head │ ─► block ─► block ─► null      all taken by one swap
//!                                            └──────┘
//! ```
//!
//! A batch is a list of blocks, linked through their first words. No thread reads the link of a
//! block on the stack: the block could be taken, and be unmapped, before.
//!
//! [`BlockStack::take`] swaps the head with null, so it does not depend on the old head, and there
//! is no ABA problem.

use core::ptr;

use crate::block::Block;
use crate::constructor::constructor;
use crate::primitive::sync::atomic::{AtomicPtr, Ordering};

/// A stack whose blocks are all taken at once.
#[derive(Debug)]
pub struct BlockStack {
    first: AtomicPtr<Block>,
}

impl BlockStack {
    constructor! {
        /// Makes an empty stack.
        pub fn new() {
            Self {
                first: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// Pushes a batch. Lock-free.
    ///
    /// # Safety
    ///
    /// 1. `first` leads to a list of free blocks that ends with `last`, whose link need not be
    ///    written; the caller alone has them and gives them up.
    pub unsafe fn put(&self, first: *mut Block, last: *mut Block) {
        // Relaxed: only compared; what it points to is not read here. [AM1]
        let mut head = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: obligation 1; the block is not on the stack yet.
            unsafe { Block::set_next(last, head) };
            // Release: pairs with the Acquire in `take`; publishes the links and all that was done
            // to the blocks. [AM2]
            match self.first.compare_exchange_weak(
                head,
                first,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes all blocks, a list that ends with null. Wait-free. The caller then has them
    /// exclusively.
    #[must_use]
    pub fn take(&self) -> *mut Block {
        // Acquire: pairs with the Release in `put` of each batch: a later exchange continues an
        // earlier one's release sequence. [AM4]
        self.first.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Returns `true` if there is no block. Wait-free.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a hint; `take` acquires, and `Mailbox::release` has a fence before. [AM5]
        self.first.load(Ordering::Relaxed).is_null()
    }
}
