//! Which thread may use a heap, and how another thread takes the heap of one that sleeps.
//!
//! ```text
//!   the heap's thread, at each call              another thread, for many heaps at a time
//!     is_inside := true                            state := ask, unless parked or abandoned
//!     order                                        barrier
//!     state = in use? ──► the call                 is_inside = false, and state still the ask?
//!     is_inside := false                             state := parked; the heap is this thread's
//! ```
//!
//! | `state` | the heap | next state, and the thread that sets it |
//! | --- | --- | --- |
//! | in use | its thread's | an ask (any thread); parked, abandoned (its thread) |
//! | an ask | its thread's, until the thread that asked takes it | in use (its thread, at its next call); parked (the thread that asked); another ask (any thread) |
//! | parked | of the thread that holds the mailbox, or of none | in use (its thread, once it has claimed the mailbox); abandoned (its thread) |
//! | abandoned | as parked | in use (a thread that has claimed the mailbox and adopts the heap) |
//!
//! The lowest bit of an ask, of parked and of abandoned is set while a purge is wished.
//!
//! 1. The two fences are the pair of [`asymmetric::order`] and [`asymmetric::barrier`]: of the two
//!    threads at least one sees what the other stored. If the owner entered before, the other
//!    thread sees `is_inside` and leaves the heap alone. If it enters after, it sees the ask, and
//!    the call becomes a slow one.
//! 2. The slow call takes the ask off by a compare-and-exchange; the other thread ends it by one
//!    too. So one of the two has the heap.
//! 3. No two asks are equal. So a thread that was stopped between its look at `is_inside` and its
//!    exchange takes the heap only if nothing happened to it meanwhile.
//! 4. While the state is in use or an ask, the mailbox counts as held. The thread that took the
//!    heap is its holder, and releases it as any holder does ([`crate::mailbox`]); the owner then
//!    claims it like a heap that it parked itself.
//! 5. An ask says what the owner shall do for the thread that asked, if it comes first: look for
//!    unneeded memory, or purge. Where the system has no barrier this is all that an ask does. An
//!    ask that follows another one keeps the greater wish.
//! 6. A wish to purge passes from state to state until a thread takes it off, and that thread
//!    purges. The owner takes it off at its next call, the holder of the mailbox before it releases
//!    that ([`Hold::take_purge_wish`]).
//! 7. No wish stays where no thread holds the mailbox: a thread that wishes tries to claim it after
//!    that ([`Mailbox::claim_anew`]), and a thread that releases it looks for a wish after that
//!    ([`Mailbox::release_unless`]). As with messages, at least one of the two sees what the other
//!    did.
//!
//! [`Mailbox::claim_anew`]: crate::mailbox::Mailbox::claim_anew
//! [`Mailbox::release_unless`]: crate::mailbox::Mailbox::release_unless
//!
//! Neither side waits for the other: an ask that the owner does not take off stays, and an owner
//! that does not get its heap back takes another one.

use crate::constructor::constructor;
use crate::primitive::asymmetric;
use crate::primitive::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const IN_USE: u64 = 0;
const PARKED: u64 = 2;
const ABANDONED: u64 = 4;
/// The least ask.
const FIRST_ASK: u64 = 6;
/// Set in a state while a purge is wished.
const PURGE: u64 = 1;
/// The distance between two asks.
const STEP: u64 = 2;

/// A wish to take a heap, which no other one equals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask(u64);

/// What the owner of a heap is to do if it comes before the thread that asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// To look for memory that is not needed.
    Look,
    /// To give back all memory that is not in use.
    Purge,
}

/// What the owner is to do where the state is an ask.
fn wish_of(state: u64) -> Wish {
    if state & PURGE == 0 {
        Wish::Look
    } else {
        Wish::Purge
    }
}

/// Where asks come from.
#[derive(Debug)]
pub struct Asks(AtomicU64);

impl Asks {
    constructor! {
        /// A source of asks; there must be one for all the heaps that it is used for.
        pub fn new() {
            Self(AtomicU64::new(FIRST_ASK))
        }
    }

    /// A new ask.
    pub fn next(&self, wish: Wish) -> Ask {
        // Relaxed: a number of its own each time; in 64 bits it does not come round. [AD1]
        let ask = self.0.fetch_add(STEP, Ordering::Relaxed);
        Ask(ask | u64::from(wish == Wish::Purge))
    }
}

/// What the owner of a heap finds at a slow call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The heap is the caller's, and it is inside.
    Own,
    /// As [`Found::Own`]; another thread asked for it, and has this wish.
    Asked(Wish),
    /// Another thread has taken the heap, or the caller parked it.
    Parked,
}

/// The right to use a heap.
#[derive(Debug)]
pub struct Hold {
    state: AtomicU64,
    is_inside: AtomicBool,
}

impl Hold {
    constructor! {
        /// The right to use a new heap, of a thread that is inside.
        pub fn new() {
            Self {
                state: AtomicU64::new(IN_USE),
                is_inside: AtomicBool::new(true),
            }
        }
    }

    constructor! {
        /// The right to a heap that no thread ever enters.
        pub fn none() {
            Self {
                state: AtomicU64::new(ABANDONED),
                is_inside: AtomicBool::new(false),
            }
        }
    }

    /// Begins a call of the heap's thread; false if the call has to find out why it may not
    /// ([`Hold::enter_slow`]).
    ///
    /// Wait-free; two stores with [`exit`](Self::exit), a load and a branch.
    #[inline(always)]
    #[must_use]
    pub fn enter(&self) -> bool {
        // Relaxed: the fence orders it before the load. [AD2]
        self.is_inside.store(true, Ordering::Relaxed);
        asymmetric::order();
        // Relaxed: as above; what others did to the heap is acquired by the claim of its mailbox.
        // [AD3]
        self.state.load(Ordering::Relaxed) == IN_USE
    }

    /// Ends a call.
    #[inline(always)]
    pub fn exit(&self) {
        // Release: pairs with the Acquire in `take`; a thread that takes the heap sees what the
        // call did. [AD4]
        self.is_inside.store(false, Ordering::Release);
    }

    /// Begins a call that [`enter`](Self::enter) refused; lock-free. Only the heap's thread calls
    /// it, after that.
    #[must_use]
    pub fn enter_slow(&self) -> Found {
        // Relaxed: guessed; the exchange decides. [AD5]
        let mut state = self.state.load(Ordering::Relaxed);
        while state >= FIRST_ASK {
            // Relaxed: which of the two comes first is all that counts; a thread that asks after
            // this sees `is_inside` by the fences. [AD6]
            match self.state.compare_exchange_weak(
                state,
                IN_USE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Found::Asked(wish_of(state)),
                Err(now) => state = now,
            }
        }
        if state == IN_USE {
            Found::Own
        } else {
            Found::Parked
        }
    }

    /// Makes the heap the caller's, which is inside then; returns what other threads wish. Only the
    /// holder of the mailbox calls it, for a heap that is parked or abandoned.
    #[must_use]
    pub fn take_up(&self) -> Wish {
        // Relaxed: as for [AD2]. [AD7]
        self.is_inside.store(true, Ordering::Relaxed);
        asymmetric::order();
        // Relaxed: other threads only add a wish to these states, which is not lost by the
        // exchange; a thread that asks after this sees `is_inside` by the fences. [AD8]
        wish_of(self.state.swap(IN_USE, Ordering::Relaxed))
    }

    /// Says that the heap's thread leaves it but will come back. Only that thread calls it, inside,
    /// before it releases the mailbox. An ask that was made is void then, except for its wish to
    /// purge.
    pub fn park(&self) {
        self.leave(PARKED);
    }

    /// Says that the heap's thread will not come back; otherwise as [`park`](Self::park).
    pub fn abandon(&self) {
        self.leave(ABANDONED);
    }

    fn leave(&self, state: u64) {
        // Relaxed: what follows is ordered by the release of the mailbox. An exchange, so that an
        // ask is either before it, and void, or finds this state. [AD9]
        let before = self.state.swap(state, Ordering::Relaxed);
        if wish_of(before) == Wish::Purge {
            self.wish_purge();
        }
        // Last, or a thread that asked before would take the heap during this call.
        self.exit();
    }

    /// Says that the heap's thread will not come back to the heap, which is parked. Only that
    /// thread calls it.
    pub fn abandon_parked(&self) {
        // Relaxed: a heap that is taken for a parked one meanwhile is passed over, and no more. An
        // addition keeps a wish. [AD10]
        let before = self.state.fetch_add(ABANDONED - PARKED, Ordering::Relaxed);
        debug_assert_eq!(before & !PURGE, PARKED);
    }

    /// Wishes a purge where the heap is parked or abandoned.
    fn wish_purge(&self) {
        // Relaxed: a wish carries no data; who sees it is settled by the fences of the mailbox.
        // [AD19]
        self.state.fetch_or(PURGE, Ordering::Relaxed);
    }

    /// Whether a purge is wished. A thread that has released the mailbox, or uses the heap, calls
    /// it as a hint or after a fence.
    pub fn is_purge_wished(&self) -> bool {
        // Relaxed: as for [AD19]. [AD20]
        self.state.load(Ordering::Relaxed) & PURGE != 0
    }

    /// Takes the wish to purge off, if there is one; the caller purges after that. Only the thread
    /// that has the heap calls it.
    pub fn take_purge_wish(&self) -> bool {
        // Relaxed: a wish that comes later stays. [AD21]
        self.is_purge_wished() && self.state.fetch_and(!PURGE, Ordering::Relaxed) & PURGE != 0
    }

    /// Whether the heap's thread will come back to it, as far as is known. Exact for the holder of
    /// the mailbox.
    pub fn is_parked(&self) -> bool {
        // Relaxed: as for [AD11]. [AD17]
        self.state.load(Ordering::Relaxed) & !PURGE == PARKED
    }

    /// Whether any thread may adopt the heap. A hint before the mailbox is claimed, and exact
    /// after.
    pub fn is_abandoned(&self) -> bool {
        // Relaxed: a hint before a claim; a claim sees what the last holder wrote. [AD11]
        self.state.load(Ordering::Relaxed) & !PURGE == ABANDONED
    }

    /// Asks for a heap that is its thread's; false if it is parked or abandoned, where only a wish
    /// to purge is left. An ask that was made before is void then, but if it was to purge, this one
    /// is.
    pub fn ask(&self, ask: Ask) -> bool {
        // Relaxed: guessed; the exchange decides. [AD12]
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let is_left = matches!(state & !PURGE, PARKED | ABANDONED);
            let next = if is_left {
                state | ask.0 & PURGE
            } else {
                // In use has no wish.
                ask.0 | state & PURGE
            };
            if next == state {
                return !is_left;
            }
            // Relaxed: the fence in `barrier` orders it before the load in `take`, and the one in
            // `claim_anew` before the look at the mailbox. [AD13]
            match self.state.compare_exchange_weak(
                state,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return !is_left,
                Err(now) => state = now,
            }
        }
    }

    /// Takes a heap that was asked for, if its thread is outside and the ask is still the last one;
    /// the caller holds its mailbox then. A wish to purge is kept.
    ///
    /// # Safety
    ///
    /// 1. The caller made the ask, and [`asymmetric::barrier`] returned true after that.
    #[must_use]
    pub unsafe fn take(&self, ask: Ask) -> bool {
        // Acquire: pairs with the Release in `exit`; this thread sees what the owner's last call
        // did. [AD14]
        if self.is_inside.load(Ordering::Acquire) {
            return false;
        }
        // Relaxed: guessed; the exchange decides. [AD18]
        let state = self.state.load(Ordering::Relaxed);
        if state | PURGE != ask.0 | PURGE {
            return false;
        }
        let parked = PARKED | state & PURGE;
        // Relaxed: which of the two comes first is all that counts, as for [AD6]. [AD15]
        self.state
            .compare_exchange(state, parked, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether a thread asked for the heap, whose thread has not called since and is outside, as
    /// far as is known.
    pub fn is_asked(&self) -> bool {
        // Relaxed: a hint. [AD22]
        let is_inside = self.is_inside.load(Ordering::Relaxed);
        // Relaxed: as above. [AD23]
        !is_inside && self.state.load(Ordering::Relaxed) >= FIRST_ASK
    }

    /// Whether the thread of a parked heap waits for it.
    pub fn is_wanted(&self) -> bool {
        // Relaxed: a hint. [AD16]
        self.is_inside.load(Ordering::Relaxed) && self.is_parked()
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    /// A thread that was in a call when it was asked to purge sleeps from then on: the thread that
    /// looks later gets its heap, and purges it.
    #[test]
    fn a_look_takes_what_a_purge_left() {
        let (hold, asks) = (Hold::new(), Asks::new());
        let purge = asks.next(Wish::Purge);
        assert!(hold.ask(purge));
        hold.exit();
        let look = asks.next(Wish::Look);
        assert!(hold.ask(look), "the look is not refused");
        // SAFETY: there is no other thread.
        assert!(!unsafe { hold.take(purge) });
        // SAFETY: as above.
        assert!(unsafe { hold.take(look) });
        assert!(hold.is_parked());
        assert!(hold.take_purge_wish());
        assert_eq!(hold.take_up(), Wish::Look);
        let look = asks.next(Wish::Look);
        assert!(hold.ask(look));
        assert!(hold.ask(asks.next(Wish::Purge)));
        assert_eq!(hold.enter_slow(), Found::Asked(Wish::Purge));
        // SAFETY: as above.
        assert!(!unsafe { hold.take(look) });
    }

    /// A wish that finds the heap left, or that its thread did not see before it left, is taken off
    /// once.
    #[test]
    fn a_wish_to_purge_stays_until_it_is_taken_off() {
        let (hold, asks) = (Hold::new(), Asks::new());
        assert!(hold.ask(asks.next(Wish::Purge)));
        hold.park();
        assert!(hold.is_parked() && hold.is_purge_wished());
        assert!(!hold.ask(asks.next(Wish::Look)));
        hold.abandon_parked();
        assert!(hold.is_abandoned());
        assert!(hold.take_purge_wish());
        assert!(!hold.take_purge_wish());
        assert!(!hold.ask(asks.next(Wish::Purge)));
        assert!(hold.is_abandoned());
        assert_eq!(hold.take_up(), Wish::Purge);
        assert!(!hold.is_purge_wished());
        assert_eq!(hold.enter_slow(), Found::Own);
    }
}
