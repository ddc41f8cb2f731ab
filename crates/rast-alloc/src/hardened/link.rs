//! Links of free blocks, encoded, each twice: what is in a block is the address of the next one,
//! mixed with a secret of the process, and behind it the same, mixed with the block's own address
//! and another secret.
//!
//! ```text
//!   block of a list    │ first: next ^ secret │ first ^ block ^ other secret │ …
//!   block given out    │ first                │ 0                            │ …
//!   message             │ link ^ secret        │ a seal                       │ …
//! ```
//!
//! The two are looked at when the link is followed: whatever is written to either of them makes
//! them differ, the words of another free block too, unless the other secret is known or both are
//! changed alike; so the second word is the poison of the block too, on the line of the processor's
//! that the link is on anyway. A write further behind is not seen; nor is one to a span without a
//! class, or to a block that is on its way to its owner. But a block that carries others there has
//! a seal on what it says of them ([`crate::remote_batch`]), and one that is a message of its own
//! has a seal here. When a block is given out its second word is cleared, so that it is no block of
//! a list any more, wherever a list leads to it a second time; and who gets it cannot read the
//! other secret from it. Where addresses have 64 bits neither word is one, so the thread that
//! follows it faults; who reads a free block learns no address.
//!
//! The secrets come from the system when the first heap is made.

use crate::geometry::HARDENED;
use crate::primitive::hint::opaque;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use core::cell::Cell;

/// The secrets; 0 before the first heap.
static SECRETS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Sees to it that there are secrets; to be called before the first link is written.
pub(crate) fn begin() {
    if !HARDENED {
        return;
    }
    for (index, secret) in SECRETS.iter().enumerate() {
        // Relaxed: a number. Who makes a heap comes here first, and sees it not zero from then on;
        // who gets that heap or a block of it later does so by an order of its own, so no link is
        // written or followed with the zero. [AH6]
        if secret.load(Ordering::Relaxed) == 0 {
            // Relaxed: who comes first decides; as for [AH6]. [AH7]
            let _ = secret.compare_exchange(
                0,
                shaped(random(), index),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }
}

/// The highest bit, and the next one in the second secret alone: with 64 bits such a word is no
/// address, whatever address it is mixed with, nor are both together; and what is zero, or was
/// cleared, never agrees.
const fn shaped(random: usize, index: usize) -> usize {
    random & (usize::MAX >> 2) | (2 + index) << (usize::BITS - 2)
}

#[inline(always)]
fn secret(index: usize) -> usize {
    // Relaxed: as for [AH6]. [AH8]
    SECRETS[index].load(Ordering::Relaxed)
}

/// The secrets as an arena keeps them, beside its lists; of no length but in a hardened build.
pub(crate) struct Keys([Cell<usize>; 2 * HARDENED as usize]);

impl Keys {
    /// None yet.
    pub(crate) const fn none() -> Self {
        Self([const { Cell::new(0) }; 2 * HARDENED as usize])
    }

    /// Takes what [`begin`] made.
    pub(crate) fn take(&self) {
        for (index, key) in self.0.iter().enumerate() {
            key.set(secret(index));
        }
    }

    #[inline(always)]
    fn get(&self, index: usize) -> usize {
        self.0.get(index).map_or(0, Cell::get)
    }

    /// As [`mix`]; in a build that is not hardened the link as it is.
    #[inline(always)]
    pub(crate) fn mix<T>(&self, link: *mut T) -> *mut T {
        if !HARDENED {
            return link;
        }
        let mixed = link.map_addr(|address| address ^ self.get(0));
        // Hidden from the compiler, which would else mix anew for the second word.
        mixed.map_addr(opaque)
    }

    /// As [`repeat`], behind a first word that [`mix`](Self::mix) gave.
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

/// Encodes a link, or decodes it: one undoes the other.
#[inline(always)]
pub(crate) fn mix<T>(link: *mut T) -> *mut T {
    link.map_addr(|address| address ^ secret(0))
}

/// An odd secret of the process, for seals: those of messages that carry nothing, and of batch
/// headers ([`crate::remote_batch`]).
#[inline(always)]
pub(crate) fn point() -> u64 {
    // Both: with 32 bits one is too short, and who gets a block may learn the first, but not the
    // second.
    (secret(1) as u64 ^ (secret(0) as u64).rotate_left(u32::BITS)) | 1
}

/// Seals a message that carries nothing: its second word says that it is one, and where it is.
///
/// # Safety
///
/// 1. `block` is a free block of two words at least, which the caller alone has.
pub(crate) unsafe fn seal<T>(block: *mut T) {
    // SAFETY: obligation 1.
    unsafe { second(block).write(block.addr() ^ point() as usize) };
}

/// Whether a block was sealed.
///
/// # Safety
///
/// 1. As for [`seal`].
pub(crate) unsafe fn is_sealed<T>(block: *mut T) -> bool {
    // SAFETY: obligation 1.
    unsafe { second(block).read() == block.addr() ^ point() as usize }
}

/// The second word; a block has two at least in a hardened build.
#[inline(always)]
fn second<T>(block: *mut T) -> *mut usize {
    block.cast::<usize>().wrapping_add(1)
}

/// Writes the link once more, behind the first.
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

/// How the two words of a block differ, except for its address.
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

/// Makes the two links differ.
///
/// # Safety
///
/// 1. `block` is a block of two words at least, which the caller alone has.
#[inline(always)]
pub(crate) unsafe fn spoil<T>(block: *mut T) {
    // SAFETY: obligation 1.
    unsafe { second(block).write(0) };
}

/// Whether the second word says the same as the first.
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

/// What differs from run to run where the system gives no random bytes: addresses and the time.
fn chance() -> usize {
    let here = 0_u8;
    let time = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let seed = (core::ptr::from_ref(&here).addr() as u64)
        ^ (core::ptr::from_ref(&SECRETS).addr() as u64).rotate_left(32)
        ^ u64::from(time.subsec_nanos()).rotate_left(20)
        ^ time.as_secs();
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed >> 29)) as usize
}
