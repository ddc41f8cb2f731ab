//! Mailboxes: the blocks of a heap that other threads freed, and the flag of its holder.
//!
//! ```text
//!   any thread ── a batch of blocks ─► │ messages │ ─► all taken at once by the holder
//!                                      │ is_held  │ by one thread, or by none
//! ```
//!
//! Messages are a [`LinkStack`] of blocks and of batches of blocks, linked through their first
//! words. The low bits of a link are not part of the address; [`crate::remote_batch`] uses them.
//!
//! A mailbox outlives its thread: when the thread ends, the heap has no holder until another thread
//! claims the mailbox. No message may stay in a mailbox without a holder:
//!
//! 1. `deliver` pushes the message, then checks whether there is a holder. `release` clears the
//!    flag, then checks for messages. A fence is between the two steps on both sides. So at least
//!    one of the two sees what the other did, and claims the mailbox again to empty it.
//! 2. What a holder did before `release` is visible to the next holder after its `claim`.
//! 3. Rule 1 also holds for a value outside the mailbox, which one thread stores before it calls
//!    [`Mailbox::claim_anew`]. The holder checks for the value in [`Mailbox::release_unless`].

use core::ptr::NonNull;

use crate::block::Block;
use crate::primitive::sync::atomic::{AtomicBool, Ordering, fence};
use crate::primitive::{LinkStack, constructor};

/// A stack of freed blocks, and the flag of the holder.
#[derive(Debug)]
pub struct Mailbox {
    messages: LinkStack<Block>,
    is_held: AtomicBool,
}

impl Mailbox {
    constructor! {
        /// Makes an empty mailbox that the caller holds.
        #[must_use]
        pub fn new() -> Self {
            Self {
                messages: LinkStack::new(),
                is_held: AtomicBool::new(true),
            }
        }
    }

    /// Pushes a batch. Lock-free.
    ///
    /// Returns `true` if there was no holder and the caller has become the holder: it must empty
    /// the mailbox and release it.
    ///
    /// # Safety
    ///
    /// 1. `first` leads to a list of free blocks that ends with `last`, whose link need not be
    ///    written. No other thread has these blocks, and the caller gives them up.
    #[must_use]
    pub unsafe fn deliver(&self, first: *mut Block, last: *mut Block) -> bool {
        // SAFETY: obligation 1; a list of blocks begins and ends with one.
        let first = unsafe { NonNull::new_unchecked(first) };
        // SAFETY: as above.
        let last = unsafe { NonNull::new_unchecked(last) };
        // SAFETY: 1, 2. Obligation 1; the memory of a block stays mapped until its owner, which
        // takes the messages, has it back.
        unsafe { self.messages.push(first, last) };
        self.claim_anew()
    }

    /// As [`claim`](Self::claim), for a thread that stored something for the holder before. If it
    /// returns `false`, there is a holder, which sees the stored value after its release.
    #[must_use]
    pub fn claim_anew(&self) -> bool {
        // SeqCst: pairs with the fence in `release_unless`: either this thread sees below that
        // there is no holder, or the thread that released the mailbox sees what was stored. [AM3]
        fence(Ordering::SeqCst);
        self.claim()
    }

    /// Takes all messages, a list that ends with null. Wait-free. Only the holder calls it.
    #[must_use]
    pub fn take(&self) -> *mut Block {
        self.messages.take()
    }

    /// Returns `true` if there is no message. Wait-free.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Becomes the holder if there is none. Wait-free.
    #[must_use]
    pub fn claim(&self) -> bool {
        // Relaxed: a hint that avoids the exchange below; `claim_anew` has a fence before. [AM6]
        if self.is_held.load(Ordering::Relaxed) {
            return false;
        }
        // Acquire: pairs with the Release in `release`; what the last holder did is visible. [AM7]
        let claimed =
            self.is_held
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok()
    }

    /// Releases the mailbox. Only the holder calls it.
    ///
    /// Returns `true` if a message arrived meanwhile and the caller is the holder again: it must
    /// empty the mailbox and release it again.
    #[must_use]
    pub fn release(&self) -> bool {
        self.release_unless(|| false)
    }

    /// As [`release`](Self::release). Also returns `true`, with the caller as the holder again, if
    /// `is_wanted` returned `true` after the release.
    #[must_use]
    pub fn release_unless(&self, is_wanted: impl FnOnce() -> bool) -> bool {
        // Release: pairs with the Acquire in `claim`; publishes what this holder did to the next
        // one. [AM8]
        self.is_held.store(false, Ordering::Release);
        // SeqCst: pairs with the fence in `claim_anew`, as said there. [AM9]
        fence(Ordering::SeqCst);
        (!self.is_empty() || is_wanted()) && self.claim()
    }
}
