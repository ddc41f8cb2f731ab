//! Heaps that are offered to threads that begin.

use rast_alloc::primitive::cell::UnsafeCell;
use rast_alloc::primitive::model::model;
use rast_alloc::primitive::sync::Arc;
use rast_alloc::primitive::sync::atomic::{AtomicBool, Ordering};
use rast_alloc::primitive::thread;
use rast_alloc::{Mailbox, Offered, Place, Stack};

/// What an offered value guards, as a heap does.
struct Orphan {
    place: Place<Self>,
    mailbox: Mailbox,
    is_parked: AtomicBool,
    claims: UnsafeCell<usize>,
}

impl Offered for Orphan {
    fn place(&self) -> &Place<Self> {
        &self.place
    }
}

/// A stack and what may be offered on it.
struct Orphanage {
    stack: Stack<Orphan>,
    orphans: [Orphan; 2],
}

// SAFETY: only who holds the mailbox, or took the orphan from the stack, touches the count.
unsafe impl Sync for Orphanage {}
// SAFETY: as above.
unsafe impl Send for Orphanage {}

impl Orphanage {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            stack: Stack::new(),
            orphans: [(); 2].map(|()| Orphan {
                place: Place::new(),
                mailbox: Mailbox::new(),
                is_parked: AtomicBool::new(false),
                claims: UnsafeCell::new(0),
            }),
        })
    }

    fn offer(&self, orphan: &Orphan) {
        // SAFETY: the orphans live as long as the stack.
        unsafe { self.stack.offer(orphan) };
    }

    /// As a heap is left. Only the holder calls it.
    fn leave(&self, orphan: &Orphan) {
        assert!(!orphan.mailbox.release(), "no messages are sent");
        if !orphan.is_parked.load(Ordering::Relaxed) {
            self.offer(orphan);
        }
    }

    /// As a heap is adopted.
    fn adopt(&self) -> Option<&Orphan> {
        while let Some(orphan) = self.stack.take() {
            if !orphan.is_parked.load(Ordering::Relaxed) && orphan.mailbox.claim() {
                return Some(orphan);
            }
        }
        None
    }
}

/// A thread takes the top one while another takes both and puts the first back: nothing is lost,
/// and none is had twice.
#[test]
fn offers_are_taken_once_and_not_lost() {
    model(|| {
        let home = Orphanage::new();
        for orphan in &home.orphans {
            home.offer(orphan);
        }
        let use_one = |home: &Orphanage| {
            let taken = home.stack.take()?;
            // SAFETY: the thread that took it has it alone until it is offered again.
            taken.claims.with_mut(|claims| unsafe { *claims += 1 });
            Some(std::ptr::from_ref(taken).addr())
        };
        let theirs = Arc::clone(&home);
        let other = thread::spawn(move || use_one(&theirs).is_some());
        let first = home.stack.take();
        let second = use_one(&home);
        if let Some(first) = first {
            // SAFETY: as above.
            first.claims.with_mut(|claims| unsafe { *claims += 1 });
            home.offer(first);
        }
        let taken = usize::from(other.join().unwrap()) + usize::from(second.is_some());
        let mut left = 0;
        while let Some(orphan) = home.stack.take() {
            // SAFETY: as above.
            orphan.claims.with(|claims| assert!(unsafe { *claims } > 0));
            left += 1;
        }
        assert_eq!(taken + left, 2);
    });
}

/// One thread abandons a heap, one services it, one adopts: in the end the heap is adopted, or
/// offered to the next thread.
#[test]
fn a_heap_that_is_left_is_adopted_or_offered() {
    model(|| {
        let home = Orphanage::new();
        let orphan = &home.orphans[0];
        let theirs = Arc::clone(&home);
        let tender = thread::spawn(move || {
            if theirs.orphans[0].mailbox.claim() {
                // SAFETY: this thread holds the mailbox.
                theirs.orphans[0]
                    .claims
                    .with_mut(|claims| unsafe { *claims += 1 });
                theirs.leave(&theirs.orphans[0]);
            }
        });
        let theirs = Arc::clone(&home);
        let adopter = thread::spawn(move || theirs.adopt().is_some());
        home.leave(orphan);
        tender.join().unwrap();
        let is_adopted = adopter.join().unwrap();
        assert_ne!(is_adopted, home.adopt().is_some());
    });
}

/// A thread ends the parking of its heap while one services it and one adopts: in the end the heap
/// is adopted, or offered.
#[test]
fn a_parked_heap_that_is_abandoned_is_adopted_or_offered() {
    model(|| {
        let home = Orphanage::new();
        let orphan = &home.orphans[0];
        orphan.is_parked.store(true, Ordering::Relaxed);
        // An offer that came late, after the heap was adopted and parked again.
        home.offer(orphan);
        let theirs = Arc::clone(&home);
        // It holds the heap already.
        let tender = thread::spawn(move || theirs.leave(&theirs.orphans[0]));
        let theirs = Arc::clone(&home);
        let adopter = thread::spawn(move || theirs.adopt().is_some());
        orphan.is_parked.store(false, Ordering::Relaxed);
        home.offer(orphan);
        tender.join().unwrap();
        let is_adopted = adopter.join().unwrap();
        assert_ne!(is_adopted, home.adopt().is_some());
    });
}
