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
//! 1. The two fences are the pair of [`asymmetric::order`] and [`asymmetric::barrier`]: of the two threads at least one sees
//!    what the other stored. If the owner entered before, the other thread sees `is_inside` and leaves the heap alone. If
//!    it enters after, it sees the ask, and the call becomes a slow one.
//! 2. The slow call takes the ask off by a compare-and-exchange; the other thread ends it by one too. So one of the two
//!    has the heap.
//! 3. No two asks are equal. So a thread that was stopped between its look at `is_inside` and its exchange takes the heap
//!    only if nothing happened to it meanwhile.
//! 4. While the state is in use or an ask, the mailbox counts as held. The thread that took the heap is its holder, and
//!    releases it as any holder does ([`crate::mailbox`]); the owner then claims it like a heap that it parked itself.
//! 5. An ask says what the owner shall do for the thread that asked, if it comes first: look for unneeded memory, or purge.
//!    Where the system has no barrier this is all that an ask does. An ask that follows another one keeps the greater wish,
//!    and the thread that takes the heap by it learns which.
//!
//! Neither side waits for the other: an ask that the owner does not take off stays, and an owner that does not get its
//! heap back takes another one.

use crate::constructor::constructor;
use crate::primitive::asymmetric;
use crate::primitive::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const IN_USE: u64 = 0;
const PARKED: u64 = 1;
const ABANDONED: u64 = 2;
/// The least ask; the lowest bit says which kind it is.
const FIRST_ASK: u64 = 4;
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
    if state & 1 == 0 {
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

    /// Begins a call of the heap's thread; false if the call has to find out why it may not ([`Hold::enter_slow`]).
    ///
    /// Wait-free; two stores with [`exit`](Self::exit), a load and a branch.
    #[inline(always)]
    #[must_use]
    pub fn enter(&self) -> bool {
        // Relaxed: the fence orders it before the load. [AD2]
        self.is_inside.store(true, Ordering::Relaxed);
        asymmetric::order();
        // Relaxed: as above; what others did to the heap is acquired by the claim of its mailbox. [AD3]
        self.state.load(Ordering::Relaxed) == IN_USE
    }

    /// Ends a call.
    #[inline(always)]
    pub fn exit(&self) {
        // Release: pairs with the Acquire in `take`; a thread that takes the heap sees what the call did. [AD4]
        self.is_inside.store(false, Ordering::Release);
    }

    /// Begins a call that [`enter`](Self::enter) refused; lock-free. Only the heap's thread calls it, after that.
    #[must_use]
    pub fn enter_slow(&self) -> Found {
        // Relaxed: guessed; the exchange decides. [AD5]
        let mut state = self.state.load(Ordering::Relaxed);
        while state >= FIRST_ASK {
            // Relaxed: which of the two comes first is all that counts; a thread that asks after this sees `is_inside` by
            // the fences. [AD6]
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

    /// Makes the heap the caller's, which is inside then. Only the holder of the mailbox calls it, for a heap that is parked
    /// or abandoned.
    pub fn take_up(&self) {
        // Relaxed: as for [AD2]. [AD7]
        self.is_inside.store(true, Ordering::Relaxed);
        asymmetric::order();
        // Relaxed: no other thread changes these states; a thread that asks after this sees `is_inside` by the fences. [AD8]
        self.state.store(IN_USE, Ordering::Relaxed);
    }

    /// Says that the heap's thread leaves it but will come back. Only that thread calls it, inside, before it releases the
    /// mailbox. An ask that was made is void then, and no thread makes another one.
    pub fn park(&self) {
        self.leave(PARKED);
    }

    /// Says that the heap's thread will not come back; otherwise as [`park`](Self::park).
    pub fn abandon(&self) {
        self.leave(ABANDONED);
    }

    fn leave(&self, state: u64) {
        // Relaxed: what follows is ordered by the release of the mailbox. An exchange, so that an ask is either before it,
        // and void, or finds this state. [AD9]
        self.state.swap(state, Ordering::Relaxed);
        // Last, or a thread that asked before would take the heap during this call.
        self.exit();
    }

    /// Says that the heap's thread will not come back to the heap, which is parked. Only that thread calls it.
    pub fn abandon_parked(&self) {
        // Relaxed: a heap that is taken for a parked one meanwhile is passed over, and no more. [AD10]
        self.state.store(ABANDONED, Ordering::Relaxed);
    }

    /// Whether the heap's thread will come back to it, as far as is known. Exact for the holder of the mailbox.
    pub fn is_parked(&self) -> bool {
        // Relaxed: as for [AD11]. [AD17]
        self.state.load(Ordering::Relaxed) == PARKED
    }

    /// Whether any thread may adopt the heap. A hint before the mailbox is claimed, and exact after.
    pub fn is_abandoned(&self) -> bool {
        // Relaxed: a hint before a claim; a claim sees what the last holder wrote. [AD11]
        self.state.load(Ordering::Relaxed) == ABANDONED
    }

    /// Asks for a heap that is its thread's; false if it is parked or abandoned. An ask that was made before is void then,
    /// but if it was to purge, this one is.
    pub fn ask(&self, ask: Ask) -> bool {
        // Relaxed: guessed; the exchange decides. [AD12]
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if matches!(state, PARKED | ABANDONED) {
                return false;
            }
            // Relaxed: the fence in `barrier` orders it before the load in `take`. [AD13]
            match self.state.compare_exchange_weak(
                state,
                // In use is even, too.
                ask.0 | state & 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
    }

    /// Takes a heap that was asked for, if its thread is outside and the ask still stands; the caller holds its mailbox then,
    /// and learns the greatest wish of those that asked.
    ///
    /// # Safety
    ///
    /// 1. The caller made the ask, and [`asymmetric::barrier`] returned true after that.
    #[must_use]
    pub unsafe fn take(&self, ask: Ask) -> Option<Wish> {
        // Acquire: pairs with the Release in `exit`; this thread sees what the owner's last call did. [AD14]
        if self.is_inside.load(Ordering::Acquire) {
            return None;
        }
        // Relaxed: guessed; the exchange decides. [AD18]
        let state = self.state.load(Ordering::Relaxed);
        if state | 1 != ask.0 | 1 {
            return None;
        }
        // Relaxed: which of the two comes first is all that counts, as for [AD6]. [AD15]
        self.state
            .compare_exchange(state, PARKED, Ordering::Relaxed, Ordering::Relaxed)
            .ok()
            .map(wish_of)
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

    /// A thread that was in a call when it was asked to purge sleeps from then on: whoever looks later gets its heap, and
    /// purges it.
    #[test]
    fn a_look_takes_what_a_purge_left() {
        let (hold, asks) = (Hold::new(), Asks::new());
        let purge = asks.next(Wish::Purge);
        assert!(hold.ask(purge));
        hold.exit();
        let look = asks.next(Wish::Look);
        assert!(hold.ask(look), "the look is not refused");
        // SAFETY: there is no other thread.
        assert_eq!(unsafe { hold.take(purge) }, None);
        // SAFETY: as above.
        assert_eq!(unsafe { hold.take(look) }, Some(Wish::Purge));
        hold.take_up();
        let look = asks.next(Wish::Look);
        assert!(hold.ask(look));
        assert!(hold.ask(asks.next(Wish::Purge)));
        assert_eq!(hold.enter_slow(), Found::Asked(Wish::Purge));
        // SAFETY: as above.
        assert_eq!(unsafe { hold.take(look) }, None);
    }
}
