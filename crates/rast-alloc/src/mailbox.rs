//! Mailboxes: blocks that other threads freed, on their way to their owner, and who the owner is at
//! the time.
//!
//! ```text
//!   any thread ── a batch of blocks ─► │ messages │ ─► taken whole by who holds the mailbox
//!                                      │ held     │ by a thread, or by none
//! ```
//!
//! Messages are a [`LinkStack`] of batches: lists of blocks, linked through their first words by
//! the thread that freed them; what a link says besides is the remote-free batches' matter
//! ([`crate::remote_batch`]).
//!
//! A mailbox outlives its thread: when the thread ends, what it guards is held by no thread until
//! another thread claims it. No message may stay in a mailbox that no thread holds:
//!
//! 1. `deliver` puts the message in, then looks whether some thread holds the mailbox; `release`
//!    gives the hold up, then looks whether a message is in. A fence is between the two steps on
//!    both sides, so at least one of the two sees what the other did, and claims the mailbox again
//!    to empty it.
//! 2. What a holder did before `release` is seen by the next one after `claim`.
//! 3. The same holds for what a thread leaves elsewhere before [`Mailbox::claim_anew`], if the
//!    holder looks for it in [`Mailbox::release_unless`].

use core::ptr::NonNull;

use crate::block::Block;
use crate::constructor::constructor;
use crate::primitive::LinkStack;
use crate::primitive::sync::atomic::{AtomicBool, Ordering, fence};

/// A list of freed blocks and a hold on what they return to.
#[derive(Debug)]
pub struct Mailbox {
    messages: LinkStack<Block>,
    is_held: AtomicBool,
}

impl Mailbox {
    constructor! {
        /// An empty mailbox that the caller holds.
        pub fn new() {
            Self {
                messages: LinkStack::new(),
                is_held: AtomicBool::new(true),
            }
        }
    }

    /// Puts a batch in; lock-free.
    ///
    /// Returns whether no thread held the mailbox and the caller holds it now: it has to empty and
    /// release it.
    ///
    /// # Safety
    ///
    /// 1. `first` leads to a list of free blocks that ends with `last`, whose link need not be
    ///    written; the caller alone has them and gives them up.
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

    /// As [`claim`](Self::claim), for a thread that left something for the holder before: if this
    /// returns false, a thread holds the mailbox, and sees it once it has released that.
    #[must_use]
    pub fn claim_anew(&self) -> bool {
        // SeqCst: pairs with the fence in `release_unless`: either this thread sees below that no
        // thread holds the mailbox, or the one that released it sees what was left. [AM3]
        fence(Ordering::SeqCst);
        self.claim()
    }

    /// Takes all messages, a list that ends with null; wait-free. Only the holder calls it.
    #[must_use]
    pub fn take(&self) -> *mut Block {
        self.messages.take()
    }

    /// Whether there is no message; wait-free.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Takes the hold if no thread has it; wait-free.
    #[must_use]
    pub fn claim(&self) -> bool {
        // Relaxed: a hint that spares the exchange below; `claim_anew` has a fence before. [AM6]
        if self.is_held.load(Ordering::Relaxed) {
            return false;
        }
        // Acquire: pairs with the Release in `release`; what the last holder did is seen. [AM7]
        let claimed =
            self.is_held
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok()
    }

    /// Gives the hold up. Only the holder calls it.
    ///
    /// Returns whether a message came in meanwhile and the caller holds the mailbox still: it has
    /// to empty it and release it again.
    #[must_use]
    pub fn release(&self) -> bool {
        self.release_unless(|| false)
    }

    /// As [`release`](Self::release); returns true as well where `is_wanted` said that the caller
    /// is wanted again, and the caller holds the mailbox still.
    #[must_use]
    pub fn release_unless(&self, is_wanted: impl FnOnce() -> bool) -> bool {
        // Release: pairs with the Acquire in `claim`; the next holder sees what this one did. [AM8]
        self.is_held.store(false, Ordering::Release);
        // SeqCst: pairs with the fence in `claim_anew`, as said there. [AM9]
        fence(Ordering::SeqCst);
        (!self.is_empty() || is_wanted()) && self.claim()
    }
}
