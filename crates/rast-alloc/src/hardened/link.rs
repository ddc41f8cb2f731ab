//! Links of free blocks, encoded: what stands in a block is the address of the next one, mixed with a secret of the
//! process and with the block's own address.
//!
//! So an overwritten link, decoded, leads to some random address, where no free block is, and who reads a free block
//! learns no address. The secret comes from the system when the first heap is made.

use crate::block::Block;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};

/// The secret; 0 before the first heap.
static SECRET: AtomicUsize = AtomicUsize::new(0);

/// Sees to it that there is a secret; to be called before the first link is written.
pub(crate) fn begin() {
    if !super::HARDENED {
        return;
    }
    // Relaxed: a number; each thread looks here before it writes a link, so it never sees the zero again. [AH6]
    if SECRET.load(Ordering::Relaxed) == 0 {
        // Relaxed: who comes first decides; as for [AH6]. [AH7]
        let _ = SECRET.compare_exchange(0, random() | 1, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Encodes the link that stands in `block`, or decodes it: one undoes the other.
#[inline(always)]
pub(crate) fn mix(block: *mut Block, link: *mut Block) -> *mut Block {
    // Relaxed: as for [AH6]. [AH8]
    let secret = SECRET.load(Ordering::Relaxed);
    link.map_addr(|address| address ^ secret ^ block.addr().rotate_left(19))
}

#[cfg(unix)]
fn random() -> usize {
    let mut bytes = [0; size_of::<usize>()];
    // SAFETY: the buffer is this long.
    let done = unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) };
    if done == 0 {
        usize::from_ne_bytes(bytes)
    } else {
        chance()
    }
}

#[cfg(not(unix))]
fn random() -> usize {
    chance()
}

/// What differs from run to run where the system gives no random bytes: addresses and the time.
fn chance() -> usize {
    let here = 0_u8;
    let time = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let seed = (core::ptr::from_ref(&here).addr() as u64)
        ^ (core::ptr::from_ref(&SECRET).addr() as u64).rotate_left(32)
        ^ u64::from(time.subsec_nanos()).rotate_left(20)
        ^ time.as_secs();
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed >> 29)) as usize
}
