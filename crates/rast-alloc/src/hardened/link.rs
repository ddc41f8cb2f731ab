//! Encoded links of free blocks. The first word of a block is the address of the next one, mixed
//! with a secret of the process. The second word is the first word, mixed with the block's own
//! address and another secret.
//!
//! ```text
//!   block of a list    │ first: next ^ secret │ first ^ block ^ other secret │ …
//!   allocated block    │ first                │ 0                            │ …
//!   message            │ link ^ secret        │ a seal                       │ …
//! ```
//!
//! Both words are checked when the link is followed. A write to either of them makes them
//! inconsistent, even if it copies the words of another free block. There are two exceptions: the
//! writer knows the second secret, or flips the same bits in both words. The second word is on the
//! cache line of the link, so the check costs no further cache miss.
//!
//! The contents of a block in transit (freed by another thread, and not handled by its owner yet)
//! are not checked, with two exceptions. A batch header has a seal over its contents
//! ([`crate::remote_batch`]), and a block that is a message of its own has a seal in its second
//! word.
//!
//! When a block is allocated its second word is cleared. So the check fails if a list leads to an
//! allocated block, and the block's user cannot read the second secret. A thread that reads a free
//! block learns no address. On x86-64 neither word is a valid address, so a thread that uses one as
//! a pointer faults. AArch64 ignores the highest byte of an address. So on AArch64 the thread
//! possibly does not fault if the second-highest byte is zero.
//!
//! The secrets come from the system when the first heap is made.

use crate::geometry::HARDENED;
use crate::primitive::hint::opaque;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use core::cell::Cell;

/// The secrets; 0 before the first heap.
static SECRETS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Makes the secrets, unless they exist; to be called before the first link is written.
pub(crate) fn begin() {
    if !HARDENED {
        return;
    }
    for (index, secret) in SECRETS.iter().enumerate() {
        // Relaxed: a number. The thread that makes a heap calls this first, and sees a value other
        // than zero from then on. A thread that gets this heap, or a block of it, is ordered after
        // that. So no link is written or followed with zero. [AH6]
        if secret.load(Ordering::Relaxed) == 0 {
            // Relaxed: the first thread decides; as for [AH6]. [AH7]
            let _ = secret.compare_exchange(
                0,
                shaped(random(), index),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}

/// Sets the highest bit, and in the second secret alone the next one. So on x86-64 neither a word
/// mixed with an address, nor both mixed together, is a valid address. And a zero word is never
/// consistent.
const fn shaped(random: usize, index: usize) -> usize {
    random & (usize::MAX >> 2) | (2 + index) << (usize::BITS - 2)
}

#[inline(always)]
fn secret(index: usize) -> usize {
    // Relaxed: as for [AH6]. [AH8]
    SECRETS[index].load(Ordering::Relaxed)
}

/// An arena's copy of the secrets, beside its lists; of length zero except in a hardened build.
pub(crate) struct Keys([Cell<usize>; 2 * HARDENED as usize]);

impl Keys {
    /// No secrets yet.
    pub(crate) const fn none() -> Self {
        Self([const { Cell::new(0) }; 2 * HARDENED as usize])
    }

    /// Copies the secrets that [`begin`] made.
    pub(crate) fn take(&self) {
        for (index, key) in self.0.iter().enumerate() {
            key.set(secret(index));
        }
    }

    #[inline(always)]
    fn get(&self, index: usize) -> usize {
        self.0.get(index).map_or(0, Cell::get)
    }

    /// As [`mix`]; returns the link unchanged except in a hardened build.
    #[inline(always)]
    pub(crate) fn mix<T>(&self, link: *mut T) -> *mut T {
        if !HARDENED {
            return link;
        }
        let mixed = link.map_addr(|address| address ^ self.get(0));
        // Hidden from the compiler, which would otherwise mix again for the second word.
        mixed.map_addr(opaque)
    }

    /// As [`repeat`], for a first word from [`mix`](Self::mix).
    ///
    /// # Safety
    ///
    /// 1. As for [`repeat`].
    #[inline(always)]
    pub(crate) unsafe fn repeat<T>(&self, block: *mut T, first: *mut T) {
        // SAFETY: obligation 1.
        unsafe { second(block).write(first.addr() ^ block.addr() ^ self.get(1)) };
    }

    /// As [`is_repeated`].
    ///
    /// # Safety
    ///
    /// 1. As for [`is_repeated`].
    #[inline(always)]
    pub(crate) unsafe fn is_repeated<T>(&self, block: *mut T) -> bool {
        // SAFETY: obligation 1.
        unsafe { differ(block) == self.get(1) }
    }
}

/// Encodes or decodes a link; the operation is its own inverse.
#[inline(always)]
pub(crate) fn mix<T>(link: *mut T) -> *mut T {
    link.map_addr(|address| address ^ secret(0))
}

/// An odd secret of the process, for the seals of messages and of batch headers
/// ([`crate::remote_batch`]).
#[inline(always)]
pub(crate) fn point() -> u64 {
    // From both secrets: one of 32 bits is too short, and a user of a block may learn the first
    // one, but not the second.
    (secret(1) as u64 ^ (secret(0) as u64).rotate_left(u32::BITS)) | 1
}

/// Seals a message: its second word is computed from its address and a secret.
///
/// # Safety
///
/// 1. `block` is a free block of two words at least, which the caller alone has.
pub(crate) unsafe fn seal<T>(block: *mut T) {
    // SAFETY: obligation 1.
    unsafe { second(block).write(block.addr() ^ point() as usize) };
}

/// Returns `true` if a block is sealed.
///
/// # Safety
///
/// 1. As for [`seal`].
pub(crate) unsafe fn is_sealed<T>(block: *mut T) -> bool {
    // SAFETY: obligation 1.
    unsafe { second(block).read() == block.addr() ^ point() as usize }
}

/// The second word; in a hardened build a block has at least two.
#[inline(always)]
fn second<T>(block: *mut T) -> *mut usize {
    block.cast::<usize>().wrapping_add(1)
}

/// Writes the second word for the link `next`.
///
/// # Safety
///
/// 1. `block` is a free block of two words at least, which the caller alone has.
#[inline(always)]
pub(crate) unsafe fn repeat<T>(block: *mut T, next: *mut T) {
    let again = mix(next).addr() ^ block.addr() ^ secret(1);
    // SAFETY: obligation 1.
    unsafe { second(block).write(again) };
}

/// The difference of the two words of a block, without its address.
///
/// # Safety
///
/// 1. `block` is a free block of two words at least, which the caller alone has.
#[inline(always)]
unsafe fn differ<T>(block: *mut T) -> usize {
    // SAFETY: obligation 1.
    let first = unsafe { block.cast::<usize>().read() };
    // SAFETY: as above.
    first ^ unsafe { second(block).read() } ^ block.addr()
}

/// Makes the two words of a block inconsistent.
///
/// # Safety
///
/// 1. `block` is a block of two words at least, which the caller alone has.
#[inline(always)]
pub(crate) unsafe fn invalidate<T>(block: *mut T) {
    // SAFETY: obligation 1.
    unsafe { second(block).write(0) };
}

/// Returns `true` if the two words are consistent.
///
/// # Safety
///
/// 1. `block` is a free block whose link was written twice, and the caller alone has it.
#[inline(always)]
pub(crate) unsafe fn is_repeated<T>(block: *mut T) -> bool {
    // SAFETY: obligation 1.
    unsafe { differ(block) == secret(1) }
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

/// A number that differs between runs, if the system has no random bytes: addresses and the time.
fn chance() -> usize {
    let here = 0_u8;
    let time = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let seed = (core::ptr::from_ref(&here).addr() as u64)
        ^ (core::ptr::from_ref(&SECRETS).addr() as u64).rotate_left(32)
        ^ u64::from(time.subsec_nanos()).rotate_left(20)
        ^ time.as_secs();
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed >> 29)) as usize
}
