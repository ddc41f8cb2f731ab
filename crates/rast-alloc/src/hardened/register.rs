//! The register of large blocks. Their memory is unmapped when they are freed, so it cannot contain
//! a mark.
//!
//! A lock-free table with open addressing: a compare-exchange claims an entry, which never moves.
//!
//! ```text
//!   entry          0: none │ a: block a is in use │ a + FREED: it was freed │ a + BUSY: it is written
//! ```
//!
//! 1. A new block takes the first entry of its probe sequence that is empty or freed. So in this
//!    sequence a block in use comes before freed blocks of the same address.
//! 2. Entries never become empty again: a sequence ends at an entry that was never used.

use crate::geometry::HARDENED;
use crate::os::PAGE;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of large blocks in use at once; by its limit on mappings, Linux allows a process
/// about half as many.
const ENTRIES: usize = if HARDENED { 1 << 16 } else { 0 };
const FREED: usize = 1;
const BUSY: usize = 2;

struct Entry {
    address: AtomicUsize,
    bytes: AtomicUsize,
    owner: AtomicUsize,
}

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        address: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        owner: AtomicUsize::new(0),
    }
}; ENTRIES];

/// The register's knowledge of an address.
pub(crate) enum Found {
    Live { bytes: usize },
    Freed,
    Nothing,
}

fn sequence(address: usize) -> impl Iterator<Item = &'static Entry> {
    let first = (address / PAGE).wrapping_mul(0x9e37_79b1) >> 4;
    (0..ENTRIES).map(move |step| &TABLE[first.wrapping_add(step) & ENTRIES.wrapping_sub(1)])
}

/// Enters a block; `false` if the register is full.
pub(crate) fn enter(address: usize, bytes: usize, owner: usize) -> bool {
    for entry in sequence(address) {
        // Relaxed: only compared; the exchange decides. [AH9]
        let seen = entry.address.load(Ordering::Relaxed);
        if seen != 0 && seen & FREED == 0 {
            continue;
        }
        let claim = address | BUSY;
        // Acquire: pairs with the Release in `take` of the thread that freed the previous block;
        // the words below are then this thread's. [AH10]
        let claimed =
            entry
                .address
                .compare_exchange(seen, claim, Ordering::Acquire, Ordering::Relaxed);
        if claimed.is_ok() {
            // Relaxed: published by the store of the address. [AH11]
            entry.bytes.store(bytes, Ordering::Relaxed);
            // Relaxed: as for [AH11]. [AH12]
            entry.owner.store(owner, Ordering::Relaxed);
            // Release: pairs with the Acquire in `find`; publishes the two words above. [AH13]
            entry.address.store(address, Ordering::Release);
            return true;
        }
    }
    false
}

/// Finds the entry of a block with these bytes and this owner that is in use.
fn find(address: usize, bytes: usize, owner: usize) -> Option<&'static Entry> {
    for entry in sequence(address) {
        // Acquire: pairs with the Release in `enter`; the two words are this block's. [AH14]
        let seen = entry.address.load(Ordering::Acquire);
        if seen == 0 {
            return None;
        }
        if seen == address {
            // Relaxed: acquired above. [AH15]
            let is_long = entry.bytes.load(Ordering::Relaxed) == bytes;
            // Relaxed: as for [AH15]. [AH16]
            let is_same = is_long && entry.owner.load(Ordering::Relaxed) == owner;
            return is_same.then_some(entry);
        }
    }
    None
}

/// Removes a block; `false` if none with these bytes and this owner is in use.
pub(crate) fn take(address: usize, bytes: usize, owner: usize) -> bool {
    find(address, bytes, owner).is_some_and(|entry| {
        // Release: pairs with the Acquire in `enter`; if two threads free a block at once, one
        // fails. [AH17]
        let freed = entry.address.compare_exchange(
            address,
            address | FREED,
            Ordering::Release,
            Ordering::Relaxed,
        );
        freed.is_ok()
    })
}

/// Returns `true` if a block with these bytes and this owner is in use.
pub(crate) fn knows(address: usize, bytes: usize, owner: usize) -> bool {
    find(address, bytes, owner).is_some()
}

/// Looks up an address, for an error message.
pub(crate) fn lookup(address: usize) -> Found {
    let mut found = Found::Nothing;
    for entry in sequence(address) {
        // Acquire: as for [AH14]. [AH18]
        let seen = entry.address.load(Ordering::Acquire);
        if seen == 0 {
            break;
        }
        if seen == address {
            // Relaxed: acquired above. [AH19]
            let bytes = entry.bytes.load(Ordering::Relaxed);
            return Found::Live { bytes };
        }
        if seen == address | FREED {
            found = Found::Freed;
        }
    }
    found
}
