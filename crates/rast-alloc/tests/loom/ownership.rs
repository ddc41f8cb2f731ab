//! Heaps that another thread takes between two calls of their owner.

use rast_alloc::primitive::asymmetric;
use rast_alloc::primitive::cell::UnsafeCell;
use rast_alloc::primitive::model::model;
use rast_alloc::primitive::sync::Arc;
use rast_alloc::primitive::thread;
use rast_alloc::{Action, Found, Mailbox, Ownership, Requests};

/// A heap that one thread uses in calls, and that other threads take.
struct Heap {
    ownership: Ownership,
    mailbox: Mailbox,
    requests: Requests,
    count: UnsafeCell<usize>,
    purges: UnsafeCell<usize>,
}

// SAFETY: only the thread that is inside, or took the heap, touches the counts.
unsafe impl Sync for Heap {}
// SAFETY: as above.
unsafe impl Send for Heap {}

impl Heap {
    /// Makes a heap of the caller, which is outside.
    fn new() -> Self {
        let heap = Self {
            ownership: Ownership::new(),
            mailbox: Mailbox::new(),
            requests: Requests::new(),
            count: UnsafeCell::new(0),
            purges: UnsafeCell::new(0),
        };
        heap.ownership.exit();
        heap
    }

    fn add(&self, more: usize) {
        // SAFETY: this thread alone has the heap.
        self.count.with_mut(|count| unsafe { *count += more });
    }

    /// Enters for a call of the owner; returns `false` if it abandoned the heap.
    fn enter(&self) -> bool {
        if self.ownership.enter() {
            return true;
        }
        let found = self.ownership.enter_slow();
        if found != Found::Parked {
            self.purge_if(found == Found::Requested(Action::Purge));
            return true;
        }
        let is_claimed = self.mailbox.claim();
        if is_claimed {
            let action = self.ownership.enter_claimed();
            self.purge_if(action == Action::Purge);
        } else {
            self.ownership.abandon_parked();
        }
        is_claimed
    }

    /// A call of the owner; returns `false` if it abandoned the heap.
    fn call(&self) -> bool {
        let is_inside = self.enter();
        if is_inside {
            self.add(1);
            self.ownership.exit();
        }
        is_inside
    }

    /// Services the heap if it can be taken; returns whether it was.
    fn revoke(&self) -> bool {
        let request = self.requests.next(Action::Decay);
        self.ownership.request(request);
        let is_fenced = asymmetric::barrier();
        // SAFETY: this thread made the request, and the barrier came after it.
        let is_taken = self.mailbox.claim() || is_fenced && unsafe { self.ownership.take(request) };
        if is_taken {
            self.add(1);
            let has_messages = self.mailbox.release();
            assert!(!has_messages, "no thread delivers");
        }
        is_taken
    }

    fn purge_if(&self, is_requested: bool) {
        if is_requested {
            // SAFETY: this thread alone has the heap.
            self.purges.with_mut(|purges| unsafe { *purges += 1 });
        }
    }

    /// Releases the heap, and purges before if that is requested.
    fn leave(&self) {
        loop {
            self.purge_if(self.ownership.take_purge_request());
            if !self
                .mailbox
                .release_unless(|| self.ownership.is_purge_requested())
            {
                break;
            }
        }
    }

    /// Requests a purge of the heap, and purges it if it can be taken.
    fn purge(&self, is_fenced: bool) {
        let request = self.requests.next(Action::Purge);
        self.ownership.request(request);
        let is_fenced = is_fenced && asymmetric::barrier();
        // SAFETY: this thread made the request, and the barrier came after it if `is_fenced`.
        if self.mailbox.claim_anew() || is_fenced && unsafe { self.ownership.take(request) } {
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

/// A thread calls while another one takes its heap: each uses the heap exclusively, and sees what
/// the other did.
#[test]
fn ownership_a_heap_is_taken_between_two_calls() {
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

/// Two threads request the heap of a third, which calls meanwhile: a request that the owner cleared
/// takes nothing, even if another one was made since.
#[test]
fn ownership_no_request_takes_for_another() {
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
/// from that thread: each uses it exclusively.
#[test]
fn ownership_a_heap_is_taken_as_its_thread_ends() {
    model(|| {
        let heap = Arc::new(Heap::new());
        let theirs = Arc::clone(&heap);
        let adopter = thread::spawn(move || {
            if !theirs.ownership.is_abandoned() || !theirs.mailbox.claim() {
                return 0;
            }
            if !theirs.ownership.is_abandoned() {
                assert!(!theirs.mailbox.release(), "no thread delivers");
                return 0;
            }
            let _ = theirs.ownership.enter_claimed();
            theirs.add(1);
            theirs.ownership.exit();
            1
        });
        let theirs = Arc::clone(&heap);
        let revoker = thread::spawn(move || usize::from(theirs.revoke()));
        let mut called = 0;
        if heap.enter() {
            heap.ownership.abandon();
            heap.add(1);
            called = 1;
            assert!(!heap.mailbox.release(), "no thread delivers");
        }
        let others = adopter.join().unwrap() + revoker.join().unwrap();
        assert_eq!(heap.count(), called + others);
    });
}

/// A thread requests a purge while another one services the heap and releases it: one of the two
/// purges.
#[test]
fn ownership_a_request_reaches_the_servicing_thread() {
    model(|| {
        let heap = Arc::new(Heap::new());
        assert!(heap.enter());
        heap.ownership.park();
        let theirs = Arc::clone(&heap);
        let purger = thread::spawn(move || theirs.purge(false));
        heap.leave();
        purger.join().unwrap();
        assert_eq!(
            (heap.purges(), heap.ownership.is_purge_requested()),
            (1, false)
        );
    });
}

/// A thread requests a purge while the owner parks the heap and returns: one of the two purges, at
/// the owner's next call at the latest.
#[test]
fn ownership_a_request_reaches_the_returning_thread() {
    model(|| {
        let heap = Arc::new(Heap::new());
        let theirs = Arc::clone(&heap);
        let purger = thread::spawn(move || theirs.purge(true));
        let mut is_owner = heap.enter();
        if is_owner {
            heap.ownership.park();
            heap.leave();
            is_owner = heap.call();
        }
        purger.join().unwrap();
        if is_owner {
            assert!(heap.call());
        }
        assert_eq!(
            (heap.purges(), heap.ownership.is_purge_requested()),
            (1, false)
        );
    });
}
