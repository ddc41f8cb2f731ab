//! A free block: its first word links it to the next one.

use core::num::NonZero;
use core::ptr::{self, NonNull};

use crate::Layout;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::{Link, Linked};
#[cfg(not(any(rast_loom, rast_shuttle)))]
use crate::{
    geometry::HARDENED,
    hardened::link::{self, Keys},
};

/// The first word of a free block. Under loom a separate value, so that each access is checked.
#[derive(Debug)]
#[repr(transparent)]
pub struct Block {
    next: UnsafeCell<*mut Block>,
}

impl Block {
    /// Makes a block that ends a list.
    #[must_use]
    pub fn last() -> Self {
        Self {
            next: UnsafeCell::new(ptr::null_mut()),
        }
    }

    #[cfg(not(any(rast_loom, rast_shuttle)))]
    const fn before(next: *mut Self) -> Self {
        Self {
            next: UnsafeCell::new(next),
        }
    }

    /// Reads the link.
    ///
    /// # Safety
    ///
    /// 1. `this` is a free block whose link was written, and the caller alone has it.
    #[inline(always)]
    pub unsafe fn next(this: *mut Self) -> *mut Self {
        // SAFETY: obligation 1; the reference ends before the block is anything else.
        let block = unsafe { &*this };
        // SAFETY: no thread writes the link while the caller alone has the block, obligation 1.
        let next = mix(block.next.with(|next| unsafe { *next }));
        // A message may be linked to a block whose memory was returned to the system and mapped
        // again. Every segment exposes its memory, and so does each push of a message.
        Link::from_address(next.addr()).node()
    }

    /// Writes the link; the word may be uninitialised before.
    ///
    /// # Safety
    ///
    /// 1. `this` is at least a word of writable memory, aligned to a word, and the caller alone has
    ///    it.
    #[inline(always)]
    pub unsafe fn set_next(this: *mut Self, next: *mut Self) {
        let next = mix(next);
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        // SAFETY: obligation 1.
        unsafe {
            this.write(Self::before(next));
        }
        #[cfg(any(rast_loom, rast_shuttle))]
        {
            // SAFETY: obligation 1; in a model a block is a value that was made before.
            let block = unsafe { &*this };
            // SAFETY: the caller alone has the block, obligation 1.
            block.next.with_mut(|link| unsafe { *link = next });
        }
    }
}

// SAFETY: 1. It writes the first word of the block, and calls no user code.
unsafe impl Linked for Block {
    #[inline(always)]
    unsafe fn set_next(node: NonNull<Self>, next: Link<Self>) {
        let next = ptr::without_provenance_mut(next.address());
        // SAFETY: the caller alone has the block, which has room for a link.
        unsafe { Self::set_next(node.as_ptr(), next) };
    }
}

/// Links of an owner's lists; links of messages are written once.
#[cfg(not(any(rast_loom, rast_shuttle)))]
impl Block {
    /// Writes the link of a block that is put into a list; the words may be uninitialised before.
    ///
    /// # Safety
    ///
    /// 1. `this` is a block of a class, and the caller alone has it.
    #[inline(always)]
    pub(crate) unsafe fn link(this: *mut Self, next: *mut Self) {
        // SAFETY: obligation 1; every block holds a word and is aligned to it.
        unsafe { Self::set_next(this, next) };
        if HARDENED {
            // SAFETY: obligation 1; in a hardened build every block holds two words.
            unsafe { link::repeat(this, next) };
        }
    }

    /// As [`link`](Self::link), with an arena's keys.
    ///
    /// # Safety
    ///
    /// 1. As for [`Block::link`].
    #[inline(always)]
    pub(crate) unsafe fn link_by(this: *mut Self, next: *mut Self, keys: &Keys) {
        let first = keys.mix(next);
        // SAFETY: obligation 1; every block holds a word and is aligned to it.
        unsafe { this.write(Self::before(first)) };
        if HARDENED {
            // SAFETY: obligation 1; in a hardened build every block holds two words.
            unsafe { keys.repeat(this, first) };
        }
    }

    /// As [`next`](Self::next), with an arena's keys.
    ///
    /// # Safety
    ///
    /// 1. As for [`Block::next`].
    #[inline(always)]
    pub(crate) unsafe fn next_by(this: *mut Self, keys: &Keys) -> *mut Self {
        // SAFETY: obligation 1.
        let block = unsafe { this.read() };
        keys.mix(block.next.into_inner())
    }
}

/// Encodes or decodes a link; in a build that is not hardened the link is unchanged.
#[inline(always)]
fn mix(link: *mut Block) -> *mut Block {
    #[cfg(not(any(rast_loom, rast_shuttle)))]
    if HARDENED {
        return link::mix(link);
    }
    link
}

/// The aligned address that a request of size zero returns.
pub(crate) fn dangling(layout: Layout) -> NonNull<u8> {
    let align = NonZero::new(layout.align()).unwrap_or(NonZero::<usize>::MIN);
    NonNull::without_provenance(align)
}
