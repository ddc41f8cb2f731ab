//! What the tests share: an allocator that counts and can fail, and payloads that count their
//! drops.
#![allow(dead_code, reason = "each test binary uses its part")]

use rast_queue::alloc::{AllocError, Allocator, Global, Layout};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Counts bytes and blocks in use, and refuses when told.
#[derive(Clone, Default)]
pub(crate) struct Counting(Arc<Counts>);

#[derive(Default)]
struct Counts {
    bytes: AtomicUsize,
    blocks: AtomicUsize,
    allocations: AtomicUsize,
    refuses: AtomicBool,
}

impl Counting {
    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::SeqCst)
    }

    /// Blocks in use.
    pub(crate) fn blocks(&self) -> usize {
        self.0.blocks.load(Ordering::SeqCst)
    }

    /// Blocks ever taken.
    pub(crate) fn allocations(&self) -> usize {
        self.0.allocations.load(Ordering::SeqCst)
    }

    /// From now on, refuses everything, or nothing.
    pub(crate) fn set_refuses(&self, refuses: bool) {
        self.0.refuses.store(refuses, Ordering::SeqCst);
    }
}

// SAFETY: the memory is the global allocator's, handed through unchanged; clones share it, being
// the same allocator.
unsafe impl Allocator for Counting {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if self.0.refuses.load(Ordering::SeqCst) {
            return Err(AllocError);
        }
        let block = Global.allocate(layout)?;
        self.0.bytes.fetch_add(layout.size(), Ordering::SeqCst);
        self.0.blocks.fetch_add(1, Ordering::SeqCst);
        self.0.allocations.fetch_add(1, Ordering::SeqCst);
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.0.bytes.fetch_sub(layout.size(), Ordering::SeqCst);
        self.0.blocks.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: the caller's obligations are the global allocator's.
        unsafe { Global.deallocate(block, layout) };
    }
}

/// Drops both halves of a queue in the order asked for.
pub(crate) fn drop_halves<P, C>(producer: P, consumer: C, producer_first: bool) {
    if producer_first {
        drop(producer);
        drop(consumer);
    } else {
        drop(consumer);
        drop(producer);
    }
}

/// Counts the payloads alive, and how many were made.
///
/// Its memory stays for good and is known to a list, so that a payload that a test forgets on
/// purpose is no leak.
#[derive(Clone)]
pub(crate) struct Ledger(&'static [AtomicUsize; 2]);

static LEDGERS: Mutex<Vec<&'static [AtomicUsize; 2]>> = Mutex::new(Vec::new());

impl Default for Ledger {
    fn default() -> Self {
        let counts: &'static [AtomicUsize; 2] = Box::leak(Box::default());
        LEDGERS.lock().unwrap().push(counts);
        Self(counts)
    }
}

impl Ledger {
    /// A payload that carries `value`.
    pub(crate) fn payload(&self, value: u64) -> Payload {
        self.make(value, false)
    }

    /// A payload whose drop panics, unless a panic is under way.
    pub(crate) fn bomb(&self, value: u64) -> Payload {
        self.make(value, true)
    }

    fn make(&self, value: u64, panics: bool) -> Payload {
        self.0[0].fetch_add(1, Ordering::SeqCst);
        Payload {
            value,
            ledger: self.clone(),
            panics,
        }
    }

    /// Payloads made.
    pub(crate) fn made(&self) -> usize {
        self.0[0].load(Ordering::SeqCst)
    }

    /// Payloads dropped.
    pub(crate) fn dropped(&self) -> usize {
        self.0[1].load(Ordering::SeqCst)
    }

    /// Asserts that each payload was dropped once.
    pub(crate) fn assert_settled(&self) {
        assert_eq!(self.made(), self.dropped(), "made and dropped");
    }
}

/// A value whose drop is counted.
pub(crate) struct Payload {
    pub(crate) value: u64,
    ledger: Ledger,
    panics: bool,
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.ledger.0[1].fetch_add(1, Ordering::SeqCst);
        if self.panics && !std::thread::panicking() {
            panic!("bomb");
        }
    }
}
