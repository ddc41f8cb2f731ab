//! Scenarios of the wake-up primitives: no wake-up is lost, and what was written
//! before a wake-up is seen after it.
//!
//! Under `--cfg rast_loom` each runs in every interleaving; otherwise it runs as
//! a stress on real threads. docs/verification.md says which one catches what.
#![cfg(feature = "std")]

use rast_primitive::asymmetric;
use rast_primitive::cell::UnsafeCell;
use rast_primitive::model::model;
use rast_primitive::sync::Arc;
use rast_primitive::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use rast_primitive::{
    AtomicTaggedPtr, ClassEvent, Counter, EventCount, Link, LinkStack, Linked, Parker, Signal,
    Snapshot, TaggedPtr, WaitStrategy, fence_after_exchange, thread,
};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// A plain number: a data race on it fails the model.
struct Plain(UnsafeCell<u32>);

// SAFETY: the scenarios order every access by the primitive under test, which is
// what they check.
unsafe impl Send for Plain {}
// SAFETY: as above.
unsafe impl Sync for Plain {}

impl Plain {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn set(&self, value: u32) {
        self.0.with_mut(|number| {
            // SAFETY: see `Plain`.
            unsafe { *number = value }
        });
    }

    fn get(&self) -> u32 {
        self.0.with(|number| {
            // SAFETY: see `Plain`.
            unsafe { *number }
        })
    }
}

/// A thread that reads a counted step sees what the counting thread did before the step.
#[test]
fn counter_publishes_what_it_counts() {
    model(|| {
        let shared = Arc::new((Counter::new(), Plain::new()));
        let theirs = Arc::clone(&shared);
        // The reader is the second thread: loom runs it after the stores and lets it load each of
        // them. Loom does not put a load of the first thread between the load and the store of
        // `add_after`.
        let reader = thread::spawn(move || {
            if theirs.0.get_after() == 2 {
                assert_eq!(theirs.1.get(), 7);
            }
        });
        shared.0.add(1);
        shared.1.set(7);
        shared.0.add_after(1);
        reader.join().unwrap();
        assert_eq!(shared.0.get(), 2);
    });
}

/// A node of a stack, with a plain number beside the link.
struct Node {
    next: UnsafeCell<Link<Node>>,
    number: Plain,
}

// SAFETY: 1. It writes the link alone.
unsafe impl Linked for Node {
    unsafe fn set_next(node: NonNull<Self>, next: Link<Self>) {
        // SAFETY: by the caller the node is alive.
        let node = unsafe { node.as_ref() };
        node.next.with_mut(|link| {
            // SAFETY: by the caller it is the caller's alone.
            unsafe { *link = next }
        });
    }
}

impl Node {
    fn boxed(number: u32) -> NonNull<Self> {
        let node = Box::new(Self {
            next: UnsafeCell::new(Link::NULL),
            number: Plain::new(),
        });
        node.number.set(number);
        NonNull::from(Box::leak(node))
    }

    /// Frees the nodes that were taken; returns their numbers.
    fn numbers(mut at: *mut Self) -> Vec<u32> {
        let mut numbers = Vec::new();
        while !at.is_null() {
            // SAFETY: the nodes were taken, and are boxes.
            let node = unsafe { Box::from_raw(at) };
            let next = node.next.with(|link| {
                // SAFETY: the node is this thread's.
                unsafe { *link }
            });
            at = next.node();
            numbers.push(node.number.get());
        }
        numbers
    }
}

/// What was done to a node before its push is seen by the thread that takes it, also if a push of
/// another thread lies between; each node is taken once, and one push finds the stack empty after
/// each take.
#[test]
fn link_stack_publishes() {
    model(|| {
        let stack = Arc::new(LinkStack::<Node>::new());
        let pushing = [1, 2].map(|number| {
            let theirs = Arc::clone(&stack);
            thread::spawn(move || {
                let node = Node::boxed(number);
                // SAFETY: 1, 2. A chain of one node, which lives until it was taken.
                unsafe { theirs.push(node, node) }
            })
        });
        let mut numbers = Node::numbers(stack.take());
        let takes = 1 + usize::from(!numbers.is_empty());
        let first = pushing.map(|thread| thread.join().unwrap());
        numbers.extend(Node::numbers(stack.take()));
        let empty = first.into_iter().filter(|&was_empty| was_empty).count();
        assert!((1..=takes).contains(&empty), "{first:?}");
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
        assert!(stack.is_empty());
    });
}

/// A push either is taken by the close, with its node, or finds the stack closed, and then sees
/// what was done before the close.
#[test]
fn link_stack_close_is_seen() {
    model(|| {
        let shared = Arc::new((LinkStack::<Node, true>::new(), Plain::new()));
        let theirs = Arc::clone(&shared);
        let pushing = thread::spawn(move || {
            let node = Node::boxed(1);
            // SAFETY: 1, 2. A chain of one node, which lives until it was taken.
            let pushed = unsafe { theirs.0.try_push(node, node) };
            if pushed.is_none() {
                assert_eq!(theirs.1.get(), 7);
                // SAFETY: the node is a box, and this thread's as before.
                drop(unsafe { Box::from_raw(node.as_ptr()) });
            }
            pushed.is_some()
        });
        shared.1.set(7);
        let taken = shared.0.close().expect("it was open");
        let numbers = Node::numbers(taken);
        assert_eq!(numbers.len(), usize::from(pushing.join().unwrap()));
        assert!(shared.0.is_closed() && shared.0.is_empty());
        assert_eq!(shared.0.close(), None);
    });
}

/// Two threads exchange a word each, fence, and load the other's: at least one of them sees the
/// other.
#[test]
fn exchange_fence_sees_or_is_seen() {
    model(|| {
        let words = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let theirs = Arc::clone(&words);
        let other = thread::spawn(move || {
            theirs.0.swap(1, Relaxed);
            fence_after_exchange();
            theirs.1.load(Relaxed)
        });
        words.1.swap(1, Relaxed);
        fence_after_exchange();
        let seen = words.0.load(Relaxed);
        assert_ne!((seen, other.join().unwrap()), (0, 0));
    });
}

/// Of the two threads at least one sees what the other stored; where there is no barrier nothing is
/// learnt.
#[test]
fn asymmetric_barrier_sees_or_is_seen() {
    model(|| {
        let words = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let theirs = Arc::clone(&words);
        let often = thread::spawn(move || {
            theirs.0.store(1, Relaxed);
            asymmetric::order();
            theirs.1.load(Relaxed)
        });
        words.1.store(1, Relaxed);
        let is_done = asymmetric::barrier();
        let seen = words.0.load(Relaxed);
        let seen_often = often.join().unwrap();
        assert!(!is_done || seen == 1 || seen_often == 1);
    });
}

#[test]
fn signal_publishes() {
    model(|| {
        let shared = Arc::new((Signal::new(), Plain::new()));
        let theirs = Arc::clone(&shared);
        let sender = thread::spawn(move || {
            theirs.1.set(7);
            theirs.0.send();
        });
        shared.0.receive_blocking();
        assert_eq!(shared.1.get(), 7);
        assert!(!shared.0.receive(), "one event is received once");
        sender.join().unwrap();
    });
}

#[test]
fn signal_send_over_send() {
    // The receiver sleeps again unless it has seen both: an event that merges
    // into one that stands must publish as well.
    model(|| {
        let shared = Arc::new((Signal::new(), AtomicUsize::new(0)));
        let senders = [(); 2].map(|()| {
            let theirs = Arc::clone(&shared);
            thread::spawn(move || {
                theirs.1.fetch_add(1, Relaxed);
                theirs.0.send();
            })
        });
        loop {
            shared.0.receive_blocking();
            if shared.1.load(Relaxed) == 2 {
                break;
            }
        }
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

#[test]
fn signal_wakes_each_receiver() {
    // A receiver answers before the next event is sent: two events, two wake-ups.
    model(|| {
        let shared = Arc::new((Signal::new(), Signal::new()));
        let receivers = [(); 2].map(|()| {
            let theirs = Arc::clone(&shared);
            thread::spawn(move || {
                theirs.0.receive_blocking();
                theirs.1.send();
            })
        });
        shared.0.send();
        shared.1.receive_blocking();
        shared.0.send();
        shared.1.receive_blocking();
        for receiver in receivers {
            receiver.join().unwrap();
        }
    });
}

#[test]
fn signal_timeout_keeps_the_event() {
    model(|| {
        let shared = Arc::new((Signal::new(), Plain::new()));
        let theirs = Arc::clone(&shared);
        let sender = thread::spawn(move || {
            theirs.1.set(7);
            theirs.0.send();
        });
        if !shared.0.receive_timeout(Duration::from_micros(1)) {
            shared.0.receive_blocking();
        }
        assert_eq!(shared.1.get(), 7);
        sender.join().unwrap();
    });
}

#[test]
fn signal_freed_by_its_receiver() {
    struct Shared(*const Signal);
    // SAFETY: the pointer is used while the receiver has not received.
    unsafe impl Send for Shared {}

    model(|| {
        let signal = Box::into_raw(Box::new(Signal::new()));
        let theirs = Shared(signal);
        let sender = thread::spawn(move || {
            let theirs = theirs;
            // SAFETY: freed only after the event that this sends is received.
            let signal = unsafe { &*theirs.0 };
            signal.send();
        });
        // SAFETY: this thread alone frees it, below.
        let mine = unsafe { &*signal };
        mine.receive_blocking();
        // SAFETY: made by `Box::into_raw` above; no further send can start, and
        // the drop lets the one whose event was received leave.
        drop(unsafe { Box::from_raw(signal) });
        sender.join().unwrap();
    });
}

#[test]
fn parker_publishes() {
    model(|| {
        let parker = Parker::new();
        let unparker = parker.unparker();
        let written = Arc::new(Plain::new());
        let theirs = Arc::clone(&written);
        let waker = thread::spawn(move || {
            theirs.set(7);
            unparker.unpark();
        });
        parker.park();
        assert_eq!(written.get(), 7);
        waker.join().unwrap();
    });
}

#[test]
fn parker_token_over_token() {
    model(|| {
        let parker = Parker::new();
        let count = Arc::new(AtomicUsize::new(0));
        let wakers = [(); 2].map(|()| {
            let unparker = parker.unparker();
            let count = Arc::clone(&count);
            thread::spawn(move || {
                count.fetch_add(1, Relaxed);
                unparker.unpark();
            })
        });
        while count.load(Relaxed) < 2 {
            parker.park();
        }
        for waker in wakers {
            waker.join().unwrap();
        }
    });
}

#[test]
fn parker_timeout_keeps_the_token() {
    model(|| {
        let parker = Parker::new();
        let unparker = parker.unparker();
        let written = Arc::new(Plain::new());
        let theirs = Arc::clone(&written);
        let waker = thread::spawn(move || {
            theirs.set(7);
            unparker.unpark();
        });
        if !parker.park_timeout(Duration::from_micros(1)) {
            parker.park();
        }
        assert_eq!(written.get(), 7);
        waker.join().unwrap();
    });
}

#[test]
fn parker_token_is_taken_once() {
    model(|| {
        let parker = Parker::new();
        parker.unparker().unpark();
        parker.unparker().unpark();
        parker.park();
        assert!(!parker.park_timeout(Duration::from_micros(1)));
    });
}

/// Waits for `flag` as a user of the event count would, with nothing but its
/// fences to order the two.
fn wait_for(event: &EventCount, flag: &AtomicUsize) {
    loop {
        let key = event.prepare();
        if flag.load(Relaxed) != 0 {
            event.cancel(key);
            return;
        }
        event.wait(key);
    }
}

#[test]
fn event_count_loses_no_wakeup() {
    model(|| {
        let shared = Arc::new((EventCount::new(), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        let notifier = thread::spawn(move || {
            theirs.1.store(1, Relaxed);
            theirs.0.notify_one();
        });
        wait_for(&shared.0, &shared.1);
        notifier.join().unwrap();
        shared.0.check_invariants();
    });
}

#[test]
fn class_event_loses_no_wakeup() {
    model(|| {
        let shared = Arc::new((ClassEvent::new(2), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        let notifier = thread::spawn(move || {
            // Relaxed on purpose: the change of the word publishes it.
            theirs.1.store(1, Relaxed);
            theirs.0.wake(1, 1);
        });
        loop {
            let seen = shared.0.look();
            if shared.1.load(Relaxed) == 1 {
                break;
            }
            shared.0.wait(seen, 1);
        }
        notifier.join().unwrap();
    });
}

#[test]
fn event_count_wakes_all() {
    model(|| {
        let shared = Arc::new((EventCount::new(), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        let waiter = thread::spawn(move || wait_for(&theirs.0, &theirs.1));
        let theirs = Arc::clone(&shared);
        let notifier = thread::spawn(move || {
            theirs.1.store(1, Relaxed);
            theirs.0.notify_all();
        });
        wait_for(&shared.0, &shared.1);
        waiter.join().unwrap();
        notifier.join().unwrap();
        shared.0.check_invariants();
    });
}

#[test]
fn event_count_cancel_hands_on() {
    // One wake-up, two registered: the one that cancels must not swallow it.
    model(|| {
        let shared = Arc::new((EventCount::new(), AtomicUsize::new(0)));
        let quits = shared.0.prepare();
        let theirs = Arc::clone(&shared);
        let waiter = thread::spawn(move || wait_for(&theirs.0, &theirs.1));
        let theirs = Arc::clone(&shared);
        let notifier = thread::spawn(move || {
            theirs.1.store(1, Relaxed);
            theirs.0.notify_one();
        });
        shared.0.cancel(quits);
        waiter.join().unwrap();
        notifier.join().unwrap();
        shared.0.check_invariants();
    });
}

#[test]
fn event_count_timeout_hands_on() {
    // A waiter whose time runs out may be picked after its last look: the wake-up
    // is for the other then. One that looked in time passes it on itself.
    model(|| {
        let shared = Arc::new((EventCount::new(), AtomicUsize::new(0)));
        let theirs = Arc::clone(&shared);
        let waiter = thread::spawn(move || wait_for(&theirs.0, &theirs.1));
        let theirs = Arc::clone(&shared);
        let notifier = thread::spawn(move || {
            theirs.1.store(1, Relaxed);
            theirs.0.notify_one();
        });
        let held = shared
            .0
            .wait_until_deadline(WaitStrategy::Park, Instant::now(), || {
                shared.1.load(Relaxed) != 0
            });
        if held {
            shared.0.notify_one();
        }
        waiter.join().unwrap();
        notifier.join().unwrap();
        shared.0.check_invariants();
    });
}

#[test]
fn event_count_one_each() {
    // Two wake-ups for two waiters: neither goes to a waiter that has one.
    model(|| {
        let event = Arc::new(EventCount::new());
        let mine = event.prepare();
        let also = event.prepare();
        let theirs = Arc::clone(&event);
        let notifier = thread::spawn(move || {
            theirs.notify_one();
            theirs.notify_one();
        });
        event.wait(also);
        event.wait(mine);
        notifier.join().unwrap();
        event.check_invariants();
    });
}

#[test]
fn event_count_wait_until() {
    for strategy in [
        WaitStrategy::Spin,
        WaitStrategy::Adaptive,
        WaitStrategy::Park,
    ] {
        model(move || {
            let shared = Arc::new((EventCount::new(), AtomicUsize::new(0)));
            let theirs = Arc::clone(&shared);
            let notifier = thread::spawn(move || {
                theirs.1.store(1, Relaxed);
                theirs.0.notify_one();
            });
            shared
                .0
                .wait_until(strategy, || shared.1.load(Relaxed) != 0);
            notifier.join().unwrap();
            shared.0.check_invariants();
        });
    }
}

#[test]
fn snapshot_is_whole_and_never_older() {
    model(|| {
        let snapshot = Arc::new(Snapshot::new([0_u32; 2]));
        let theirs = Arc::clone(&snapshot);
        let writer = thread::spawn(move || {
            theirs.store([1, 1]);
            theirs.store([2, 2]);
        });
        let first = snapshot.load();
        let second = snapshot.load();
        assert_eq!(first[0], first[1]);
        assert_eq!(second[0], second[1]);
        assert!(first[0] <= second[0]);
        writer.join().unwrap();
        assert_eq!(snapshot.load()[0], 2);
    });
}

#[test]
fn tagged_claims_are_unique() {
    // Claims race with a change of the pointer: each pair is handed out once.
    model(|| {
        let blocks = Box::into_raw(Box::new([0_u64; 2]));
        let [first, second] = [blocks.cast::<u64>(), blocks.cast::<u64>().wrapping_add(1)];
        let head = Arc::new(AtomicTaggedPtr::new(TaggedPtr::new(first, 0)));
        let theirs = Arc::clone(&head);
        let claimer = thread::spawn(move || {
            let claimed = theirs.fetch_add_count(1, Relaxed);
            (claimed.ptr().addr(), claimed.count())
        });
        let theirs = Arc::clone(&head);
        let next = TaggedPtr::new(second, 0);
        let next = Arc::new(AtomicTaggedPtr::new(next));
        let switcher = thread::spawn(move || {
            let previous = theirs.swap(next.load(Relaxed), Relaxed);
            previous.count()
        });
        let mine = head.fetch_add_count(1, Relaxed);
        let mine = (mine.ptr().addr(), mine.count());
        let other = claimer.join().unwrap();
        let before = switcher.join().unwrap();

        assert_ne!(mine, other, "one place is claimed once");
        let claims = |block: *mut u64| {
            [mine, other]
                .iter()
                .filter(|claim| claim.0 == block.addr())
                .count() as u64
        };
        assert_eq!(
            claims(first),
            before,
            "the switch saw every claim before it"
        );
        assert_eq!(claims(second), head.load(Relaxed).count());
        // SAFETY: made by `Box::into_raw` above, and both threads have ended.
        drop(unsafe { Box::from_raw(blocks) });
    });
}
