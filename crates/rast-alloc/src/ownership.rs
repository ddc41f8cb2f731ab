//! Which thread may use a heap, and how another thread takes the heap of a sleeping thread.
//!
//! ```text
//!   the owner, at each call                      another thread, for many heaps at a time
//!     is_inside := true                            state := request, unless parked or abandoned
//!     order                                        barrier
//!     state = in use? ──► the call                 is_inside = false, and state still the request?
//!     is_inside := false                             state := parked; this thread has the heap
//! ```
//!
//! The *owner* is the thread that the heap was made for or that adopted it. The *mailbox* is the
//! heap's queue of messages, with a flag ([`crate::mailbox`]). The thread that has set this flag
//! *holds* the mailbox. If the owner has left its heap, the holder of the mailbox may use the heap.
//!
//! | `state` | the heap belongs to | next state, and the thread that sets it |
//! | --- | --- | --- |
//! | in use | its owner | a request (any thread); parked, abandoned (its owner) |
//! | a request | its owner, until the requesting thread takes it | in use (its owner, at its next call); parked (the requesting thread, or its owner inside a call); abandoned (its owner, inside a call); another request (any thread) |
//! | parked | the thread that holds the mailbox, or no thread | in use (its owner, once it has claimed the mailbox); abandoned (its owner) |
//! | abandoned | as parked | in use (a thread that has claimed the mailbox and adopts the heap) |
//!
//! The lowest bit of a request, of parked and of abandoned is set while a purge is requested.
//!
//! 1. `order` and `barrier` are the two fences of `primitive::asymmetric`: [`asymmetric::order`]
//!    and [`asymmetric::barrier`]. So at least one of the two threads sees what the other stored.
//!    If the owner entered its heap before the barrier, the other thread sees `is_inside` and
//!    leaves the heap alone. If the owner enters after the barrier, it sees the request, and the
//!    call takes the slow path.
//! 2. The slow path clears the request by a compare-exchange; the other thread takes the heap by a
//!    compare-exchange too. So only one of the two threads gets the heap.
//! 3. No two requests are equal. So a thread that is preempted between its load of `is_inside` and
//!    its compare-exchange takes the heap only if the state has not changed meanwhile.
//! 4. While the state is in use or a request, the mailbox counts as held by the owner. A thread
//!    that takes the heap becomes the holder of the mailbox, and releases it as any holder does. At
//!    its next call the owner claims the mailbox, as it does for a heap that it has parked itself.
//! 5. A request contains the action that the owner performs if its next call comes before the heap
//!    is taken: a decay pass or a purge. Where the system has no barrier this is the only effect of
//!    a request. A request that replaces another one keeps the stronger action.
//! 6. A purge request ends in one of two ways, and the thread that ends it purges. The owner, or a
//!    thread that adopts the heap, changes the state to in use, which has no such bit. Otherwise
//!    the holder of the mailbox clears the bit before it releases the mailbox
//!    ([`Ownership::take_purge_request`]). Every other change of the state keeps the bit.
//! 7. No purge request stays on a heap without a holder. After a thread has set the bit, it tries
//!    to claim the mailbox ([`Mailbox::claim_anew`]). After a thread has released the mailbox, it
//!    checks the bit ([`Mailbox::release_unless`]). As with messages, at least one of the two sees
//!    what the other did.
//!
//! [`Mailbox::claim_anew`]: crate::mailbox::Mailbox::claim_anew
//! [`Mailbox::release_unless`]: crate::mailbox::Mailbox::release_unless
//!
//! All waits are bounded. If the requesting thread finds the owner inside, it does not wait: the
//! request stays until the owner's next call or another request. An owner whose heap was taken
//! tries 1024 times to claim the mailbox, and yields between the tries after the first 64
//! (`ThreadHeap::reacquire`). Then it abandons the heap and adopts another one. `purge_all` waits
//! up to a second in all for threads that have taken heaps.

use crate::primitive::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{asymmetric, constructor};

const IN_USE: u64 = 0;
const PARKED: u64 = 2;
const ABANDONED: u64 = 4;
/// The smallest request.
const FIRST_REQUEST: u64 = 6;
/// Set in a state while a purge is requested.
const PURGE: u64 = 1;
/// The difference of two consecutive requests.
const STEP: u64 = 2;

/// A unique request to take a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request(u64);

/// What the owner does if it comes before the requesting thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A decay pass.
    Decay,
    /// Return all unused memory.
    Purge,
}

/// Returns the action in a state that is a request.
fn action_of(state: u64) -> Action {
    if state & PURGE == 0 {
        Action::Decay
    } else {
        Action::Purge
    }
}

/// The source of requests.
#[derive(Debug)]
pub struct Requests(AtomicU64);

impl Requests {
    constructor! {
        /// Makes a source of requests. All heaps must share one.
        #[must_use]
        pub fn new() -> Self {
            Self(AtomicU64::new(FIRST_REQUEST))
        }
    }

    /// Returns a new request.
    pub fn next(&self, action: Action) -> Request {
        // Relaxed: only uniqueness matters; 64 bits do not wrap around. [AD1]
        let number = self.0.fetch_add(STEP, Ordering::Relaxed);
        Request(number | u64::from(action == Action::Purge))
    }
}

/// What the owner finds in its slow path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The heap is the caller's, which is inside.
    Own,
    /// As [`Found::Own`]; another thread requested the heap, with this action.
    Requested(Action),
    /// Another thread has taken the heap, or the caller parked it.
    Parked,
}

/// The ownership state of a heap.
#[derive(Debug)]
pub struct Ownership {
    state: AtomicU64,
    is_inside: AtomicBool,
}

impl Ownership {
    constructor! {
        /// Makes the state of a new heap, whose owner is inside.
        #[must_use]
        pub fn new() -> Self {
            Self {
                state: AtomicU64::new(IN_USE),
                is_inside: AtomicBool::new(true),
            }
        }
    }

    constructor! {
        /// Makes the state of a heap that no thread ever enters.
        #[must_use]
        pub fn none() -> Self {
            Self {
                state: AtomicU64::new(ABANDONED),
                is_inside: AtomicBool::new(false),
            }
        }
    }

    /// Enters the heap for a call of its owner. Returns `false` if the call must take the slow path
    /// ([`Ownership::enter_slow`]).
    ///
    /// Wait-free. Cost with [`exit`](Self::exit): two stores, a load and a branch.
    #[inline(always)]
    #[must_use]
    pub fn enter(&self) -> bool {
        // Relaxed: the fence orders it before the load. [AD2]
        self.is_inside.store(true, Ordering::Relaxed);
        asymmetric::order();
        // Relaxed: as above; the claim of the mailbox acquires what other threads did to the heap.
        // [AD3]
        self.state.load(Ordering::Relaxed) == IN_USE
    }

    /// Exits the heap at the end of a call.
    #[inline(always)]
    pub fn exit(&self) {
        // Release: pairs with the Acquire in `take`; publishes what the call did to a thread that
        // takes the heap. [AD4]
        self.is_inside.store(false, Ordering::Release);
    }

    /// Enters the heap after [`enter`](Self::enter) returned `false`. Lock-free. Only the owner
    /// calls it.
    #[must_use]
    pub fn enter_slow(&self) -> Found {
        // Relaxed: guessed; the exchange decides. [AD5]
        let mut state = self.state.load(Ordering::Relaxed);
        while state >= FIRST_REQUEST {
            // Relaxed: only the order of the two exchanges matters; by the fences, a thread that
            // requests later sees `is_inside`. [AD6]
            match self.state.compare_exchange_weak(
                state,
                IN_USE,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Found::Requested(action_of(state)),
                Err(now) => state = now,
            }
        }
        if state == IN_USE {
            Found::Own
        } else {
            Found::Parked
        }
    }

    /// Makes the heap, which is parked or abandoned, the caller's, and enters it. Returns the
    /// requested action. Only the holder of the mailbox calls it.
    #[must_use]
    pub fn enter_claimed(&self) -> Action {
        // Relaxed: as for [AD2]. [AD7]
        self.is_inside.store(true, Ordering::Relaxed);
        asymmetric::order();
        // Relaxed: in these states other threads only add a purge request, which the exchange
        // returns. By the fences, a thread that requests later sees `is_inside`. [AD8]
        action_of(self.state.swap(IN_USE, Ordering::Relaxed))
    }

    /// Parks the heap: its owner leaves it and will come back. Cancels a pending request except for
    /// its purge. Only the owner calls it, inside, before it releases the mailbox.
    pub fn park(&self) {
        self.leave(PARKED);
    }

    /// Abandons the heap: its owner will not come back. Otherwise as [`park`](Self::park).
    pub fn abandon(&self) {
        self.leave(ABANDONED);
    }

    fn leave(&self, state: u64) {
        // Relaxed: the release of the mailbox orders what follows. An exchange, so that a request
        // is either before it, and cancelled, or finds this state. [AD9]
        let before = self.state.swap(state, Ordering::Relaxed);
        if action_of(before) == Action::Purge {
            self.request_purge();
        }
        // Last: otherwise a thread that requested before would take the heap during this call.
        self.exit();
    }

    /// Abandons a parked heap. Only its owner calls it.
    pub fn abandon_parked(&self) {
        // Relaxed: a thread that still reads "parked" only skips the heap. An addition keeps a
        // purge request. [AD10]
        let before = self.state.fetch_add(ABANDONED - PARKED, Ordering::Relaxed);
        debug_assert_eq!(before & !PURGE, PARKED);
    }

    /// Requests a purge of a parked or abandoned heap.
    fn request_purge(&self) {
        // Relaxed: the request carries no data; the fences of the mailbox decide which thread sees
        // it. [AD19]
        self.state.fetch_or(PURGE, Ordering::Relaxed);
    }

    /// Returns `true` if a purge is requested. A hint for the heap's user; exact after a fence for
    /// a thread that has released the mailbox.
    pub fn is_purge_requested(&self) -> bool {
        // Relaxed: as for [AD19]. [AD20]
        self.state.load(Ordering::Relaxed) & PURGE != 0
    }

    /// Clears a purge request and returns whether there was one; if so, the caller must purge. Only
    /// the thread that has the heap calls it.
    pub fn take_purge_request(&self) -> bool {
        // Relaxed: a later request stays. [AD21]
        self.is_purge_requested() && self.state.fetch_and(!PURGE, Ordering::Relaxed) & PURGE != 0
    }

    /// Returns `true` if the heap is parked. A hint; exact for the holder of the mailbox.
    pub fn is_parked(&self) -> bool {
        // Relaxed: as for [AD11]. [AD17]
        self.state.load(Ordering::Relaxed) & !PURGE == PARKED
    }

    /// Returns `true` if any thread may adopt the heap. A hint; exact for the holder of the
    /// mailbox.
    pub fn is_abandoned(&self) -> bool {
        // Relaxed: a hint before the mailbox is claimed; the claim acquires what the last holder
        // wrote. [AD11]
        self.state.load(Ordering::Relaxed) & !PURGE == ABANDONED
    }

    /// Requests a heap from its owner. Returns `false` if the heap is parked or abandoned; then
    /// only a purge request is left there. Replaces an earlier request and keeps its purge.
    pub fn request(&self, request: Request) -> bool {
        // Relaxed: guessed; the exchange decides. [AD12]
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let is_left = matches!(state & !PURGE, PARKED | ABANDONED);
            let next = if is_left {
                state | request.0 & PURGE
            } else {
                // The state "in use" has no purge bit.
                request.0 | state & PURGE
            };
            if next == state {
                return !is_left;
            }
            // Relaxed: the fence in `barrier` orders it before the load in `take`, and the one in
            // `claim_anew` before the load of the mailbox's flag. [AD13]
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

    /// Takes a requested heap if its owner is outside and the request is still the last one. The
    /// caller then holds its mailbox. A purge request is kept.
    ///
    /// # Safety
    ///
    /// 1. The caller made the request, and [`asymmetric::barrier`] returned `true` after that.
    #[must_use]
    pub unsafe fn take(&self, request: Request) -> bool {
        // Acquire: pairs with the Release in `exit`; this thread sees what the owner's last call
        // did. [AD14]
        if self.is_inside.load(Ordering::Acquire) {
            return false;
        }
        // Relaxed: guessed; the exchange decides. [AD18]
        let state = self.state.load(Ordering::Relaxed);
        if state | PURGE != request.0 | PURGE {
            return false;
        }
        let parked = PARKED | state & PURGE;
        // Relaxed: only the order of the two exchanges matters, as for [AD6]. [AD15]
        self.state
            .compare_exchange(state, parked, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Returns `true` if the heap was requested, and its owner has not called since and is outside.
    /// A hint.
    pub fn is_requested(&self) -> bool {
        // Relaxed: a hint. [AD22]
        let is_inside = self.is_inside.load(Ordering::Relaxed);
        // Relaxed: as above. [AD23]
        !is_inside && self.state.load(Ordering::Relaxed) >= FIRST_REQUEST
    }

    /// Returns `true` if the owner of a parked heap waits for it. A hint.
    pub fn is_awaited(&self) -> bool {
        // Relaxed: a hint. [AD16]
        self.is_inside.load(Ordering::Relaxed) && self.is_parked()
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    /// A thread was in a call when a purge was requested, and sleeps from then on: a later decay
    /// pass gets its heap, and purges it.
    #[test]
    fn a_decay_request_takes_what_a_purge_left() {
        let (ownership, requests) = (Ownership::new(), Requests::new());
        let purge = requests.next(Action::Purge);
        assert!(ownership.request(purge));
        ownership.exit();
        let decay = requests.next(Action::Decay);
        assert!(ownership.request(decay), "the request is not refused");
        // SAFETY: there is no other thread.
        assert!(!unsafe { ownership.take(purge) });
        // SAFETY: as above.
        assert!(unsafe { ownership.take(decay) });
        assert!(ownership.is_parked());
        assert!(ownership.take_purge_request());
        assert_eq!(ownership.enter_claimed(), Action::Decay);
        let decay = requests.next(Action::Decay);
        assert!(ownership.request(decay));
        assert!(ownership.request(requests.next(Action::Purge)));
        assert_eq!(ownership.enter_slow(), Found::Requested(Action::Purge));
        // SAFETY: as above.
        assert!(!unsafe { ownership.take(decay) });
    }

    /// A purge request that finds the heap left, or that its owner did not see before it left, is
    /// cleared once.
    #[test]
    fn a_purge_request_stays_until_it_is_cleared() {
        let (ownership, requests) = (Ownership::new(), Requests::new());
        assert!(ownership.request(requests.next(Action::Purge)));
        ownership.park();
        assert!(ownership.is_parked() && ownership.is_purge_requested());
        assert!(!ownership.request(requests.next(Action::Decay)));
        ownership.abandon_parked();
        assert!(ownership.is_abandoned());
        assert!(ownership.take_purge_request());
        assert!(!ownership.take_purge_request());
        assert!(!ownership.request(requests.next(Action::Purge)));
        assert!(ownership.is_abandoned());
        assert_eq!(ownership.enter_claimed(), Action::Purge);
        assert!(!ownership.is_purge_requested());
        assert_eq!(ownership.enter_slow(), Found::Own);
    }
}
