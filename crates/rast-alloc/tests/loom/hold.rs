//! Heaps that are taken from threads that are in no call.

use rast_alloc::primitive::asymmetric;
use rast_alloc::primitive::cell::UnsafeCell;
use rast_alloc::primitive::model::model;
use rast_alloc::primitive::sync::Arc;
use rast_alloc::primitive::thread;
use rast_alloc::{Asks, Found, Hold, Mailbox, Wish};

/// A heap that one thread uses by calls, and that others take from it.
struct Heap {
    hold: Hold,
    mailbox: Mailbox,
    asks: Asks,
    count: UnsafeCell<usize>,
    purges: UnsafeCell<usize>,
}

// SAFETY: only the thread that is inside, or took the heap, touches the counts.
unsafe impl Sync for Heap {}
// SAFETY: as above.
unsafe impl Send for Heap {}

impl Heap {
    /// A heap of the caller's, which is outside.
    fn new() -> Self {
        let heap = Self {
            hold: Hold::new(),
            mailbox: Mailbox::new(),
            asks: Asks::new(),
            count: UnsafeCell::new(0),
            purges: UnsafeCell::new(0),
        };
        heap.hold.exit();
        heap
    }

    fn add(&self, more: usize) {
        // SAFETY: this thread alone has the heap.
        self.count.with_mut(|count| unsafe { *count += more });
    }

    /// Begins a call of the owner's; false if it gave the heap up.
    fn enter(&self) -> bool {
        if self.hold.enter() {
            return true;
        }
        let found = self.hold.enter_slow();
        if found != Found::Parked {
            self.purge_if(found == Found::Asked(Wish::Purge));
            return true;
        }
        let is_claimed = self.mailbox.claim();
        if is_claimed {
            let wish = self.hold.take_up();
            self.purge_if(wish == Wish::Purge);
        } else {
            self.hold.abandon_parked();
        }
        is_claimed
    }

    /// A call of the owner's; false if it gave the heap up.
    fn call(&self) -> bool {
        let is_inside = self.enter();
        if is_inside {
            self.add(1);
            self.hold.exit();
        }
        is_inside
    }

    /// Tends the heap if it can be had; returns whether it was.
    fn revoke(&self) -> bool {
        let ask = self.asks.next(Wish::Look);
        self.hold.ask(ask);
        let is_fenced = asymmetric::barrier();
        // SAFETY: this thread made the ask, and the barrier came after.
        let is_taken = self.mailbox.claim() || is_fenced && unsafe { self.hold.take(ask) };
        if is_taken {
            self.add(1);
            let has_messages = self.mailbox.release();
            assert!(!has_messages, "nobody delivers");
        }
        is_taken
    }

    fn purge_if(&self, is_wished: bool) {
        if is_wished {
            // SAFETY: this thread alone has the heap.
            self.purges.with_mut(|purges| unsafe { *purges += 1 });
        }
    }

    /// Releases the heap, and purges before if that is wished.
    fn leave(&self) {
        loop {
            self.purge_if(self.hold.take_purge_wish());
            if !self.mailbox.release_unless(|| self.hold.is_purge_wished()) {
                break;
            }
        }
    }

    /// Wishes that the heap be purged, and does so if it can be had.
    fn purge(&self, is_fenced: bool) {
        let ask = self.asks.next(Wish::Purge);
        self.hold.ask(ask);
        let is_fenced = is_fenced && asymmetric::barrier();
        // SAFETY: this thread made the ask, and the barrier came after if it says so.
        if self.mailbox.claim_anew() || is_fenced && unsafe { self.hold.take(ask) } {
            self.leave();
        }
    }

    fn purges(&self) -> usize {
        // SAFETY: the others have ended.
        self.purges.with(|purges| unsafe { *purges })
    }

    fn count(&self) -> usize {
        // SAFETY: the others have ended.
        self.count.with(|count| unsafe { *count })
    }
}

/// A thread calls while another one takes its heap: each is alone with the heap, and sees what the
/// other did.
#[test]
fn hold_a_heap_is_taken_between_two_calls() {
    model(|| {
        let heap = Arc::new(Heap::new());
        let theirs = Arc::clone(&heap);
        let revoker = thread::spawn(move || usize::from(theirs.revoke()));
        let mut called = usize::from(heap.call());
        if called > 0 {
            called += usize::from(heap.call());
        }
        let taken = revoker.join().unwrap();
        assert_eq!(heap.count(), called + taken);
    });
}

/// Two threads ask for the heap of a third, which calls meanwhile: an ask that the owner took off
/// takes nothing, even if another one was made since.
#[test]
fn hold_no_ask_takes_for_another() {
    model(|| {
        let heap = Arc::new(Heap::new());
        let revokers: Vec<_> = (0..2)
            .map(|_| {
                let heap = Arc::clone(&heap);
                thread::spawn(move || usize::from(heap.revoke()))
            })
            .collect();
        let called = usize::from(heap.call());
        let taken: usize = revokers
            .into_iter()
            .map(|revoker| revoker.join().unwrap())
            .sum();
        assert_eq!(heap.count(), called + taken);
    });
}

/// A thread ends while another one takes its heap, or adopts it and calls, and a third takes it
/// from that: each is alone with it.
#[test]
fn hold_a_heap_is_taken_as_its_thread_ends() {
    model(|| {
        let heap = Arc::new(Heap::new());
        let theirs = Arc::clone(&heap);
        let adopter = thread::spawn(move || {
            if !theirs.hold.is_abandoned() || !theirs.mailbox.claim() {
                return 0;
            }
            if !theirs.hold.is_abandoned() {
                assert!(!theirs.mailbox.release(), "nobody delivers");
                return 0;
            }
            let _ = theirs.hold.take_up();
            theirs.add(1);
            theirs.hold.exit();
            1
        });
        let theirs = Arc::clone(&heap);
        let revoker = thread::spawn(move || usize::from(theirs.revoke()));
        let mut called = 0;
        if heap.enter() {
            heap.hold.abandon();
            heap.add(1);
            called = 1;
            assert!(!heap.mailbox.release(), "nobody delivers");
        }
        let others = adopter.join().unwrap() + revoker.join().unwrap();
        assert_eq!(heap.count(), called + others);
    });
}

/// A thread wishes a purge while another one tends the heap and releases it: one of the two purges.
#[test]
fn hold_a_wish_reaches_the_thread_that_tends() {
    model(|| {
        let heap = Arc::new(Heap::new());
        assert!(heap.enter());
        heap.hold.park();
        let theirs = Arc::clone(&heap);
        let purger = thread::spawn(move || theirs.purge(false));
        heap.leave();
        purger.join().unwrap();
        assert_eq!((heap.purges(), heap.hold.is_purge_wished()), (1, false));
    });
}

/// A thread wishes a purge while the owner parks the heap and comes back: one of the two purges, at
/// the owner's next call at the latest.
#[test]
fn hold_a_wish_reaches_the_thread_that_comes_back() {
    model(|| {
        let heap = Arc::new(Heap::new());
        let theirs = Arc::clone(&heap);
        let purger = thread::spawn(move || theirs.purge(true));
        let mut is_owner = heap.enter();
        if is_owner {
            heap.hold.park();
            heap.leave();
            is_owner = heap.call();
        }
        purger.join().unwrap();
        if is_owner {
            assert!(heap.call());
        }
        assert_eq!((heap.purges(), heap.hold.is_purge_wished()), (1, false));
    });
}
