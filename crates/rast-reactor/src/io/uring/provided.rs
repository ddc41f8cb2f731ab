//! The ring of free buffers from which the kernel takes memory for receives.
//!
//! ```text
//!   entries  │ address, length, id │ ... │      a power of two, at the begin of a page
//!                 ▲ kernel takes      ▲ tail: this thread adds
//! ```

use core::cell::Cell;
use core::ptr::NonNull;
use std::io;

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use crate::io::pages::Pages;
use crate::primitive::sync::atomic::{AtomicU16, Ordering};

/// The group of the buffers; a ring has one.
pub(crate) const GROUP: u16 = 0;

/// The entries of the free buffers.
pub(crate) struct Provided {
    entries: Pages,
    mask: u16,
    tail: Cell<u16>,
}

impl Provided {
    /// Registers an empty ring for `number` buffers, a power of two, with the kernel.
    pub(crate) fn register(uring: &IoUring, number: u16) -> io::Result<Self> {
        debug_assert!(number.is_power_of_two(), "the kernel masks indices");
        let entries = Pages::new(usize::from(number) * size_of::<BufRingEntry>());
        let begin = entries.begin().as_ptr() as u64;
        let submitter = uring.submitter();
        // SAFETY: the memory has so many entries, begins a page, and outlives the registration:
        // the owner unregisters it or drops the ring first.
        unsafe { submitter.register_buf_ring_with_flags(begin, number, GROUP, 0) }?;
        Ok(Self {
            entries,
            mask: number - 1,
            tail: Cell::new(0),
        })
    }

    /// Gives a buffer back to the kernel.
    pub(crate) fn give_back(&self, id: u16, address: NonNull<u8>, bytes: usize) {
        let base = self.entries.begin().cast::<BufRingEntry>();
        let tail = self.tail.get();
        // SAFETY: the index is below the number of entries.
        let mut entry = unsafe { base.add(usize::from(tail & self.mask)) };
        // SAFETY: the memory is initialised. The kernel reads this entry only after the tail has
        // passed it. It has already taken the former content, because there are as many entries as
        // buffers.
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(address.as_ptr() as u64);
        entry.set_len(bytes as u32);
        entry.set_bid(id);
        let tail = tail.wrapping_add(1);
        self.tail.set(tail);
        // SAFETY: the address is the first entry of the ring, which is initialised.
        let word = unsafe { BufRingEntry::tail(base.as_ptr()) };
        // SAFETY: the word is aligned and lives with the ring; this thread and the kernel use it by
        // atomic operations alone.
        let word = unsafe { AtomicU16::from_ptr(word.cast_mut()) };
        // Release: pairs with the kernel's acquire of the tail; publishes the entry. [UB1]
        word.store(tail, Ordering::Release);
    }
}
