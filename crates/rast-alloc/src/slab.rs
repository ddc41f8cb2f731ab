//! A slab is a slot (a part of a segment, of fixed size) that is divided into blocks of equal size,
//! which have no headers.
//!
//! ```text
//!   slot   │ block │ block │ block │ block │ ░░░░░░ not carved yet ░░░░░░ │
//!             used    free ──► free    used  ▲ carved
//! ```
//!
//! A slab's own fields are in the header of its segment, not in the slot. So *carving* (dividing
//! unused memory of the slot into blocks) touches only the blocks that are needed.
//!
//! 1. `used` counts the blocks that were taken from the slab and not put back: those that the
//!    program has, and the free ones in the lists of the arena.
//! 2. Blocks are carved in the order of their addresses. One carving makes about 4 KiB of blocks,
//!    or one block if a block is larger.
//! 3. A slab is in its class's list if and only if it has a free block, or memory that is not
//!    carved yet.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::block::Block;
use crate::geometry::{HARDENED, SLOT};
use crate::hardened::marks;
use crate::size_class::size_of_class;

/// Number of bytes that are carved at once; at least one block.
const CARVE: usize = 4096;
/// No class. Classes are stored plus one, so that all zeroes are a slab without a class.
const NONE: u8 = 0;

/// The fields of one slab.
#[repr(C)]
pub(crate) struct Slab {
    free: Cell<*mut Block>,
    previous: Cell<*const Slab>,
    next: Cell<*const Slab>,
    start: Cell<*mut u8>,
    used: Cell<u16>,
    free_count: Cell<u16>,
    carved: Cell<u16>,
    capacity: Cell<u16>,
    class: Cell<u8>,
    listed: Cell<bool>,
}

/// A list of blocks that were taken from a slab, with its length.
pub(crate) struct Taken {
    pub(crate) first: *mut Block,
    pub(crate) count: usize,
}

impl Slab {
    /// Opens the slab for `class` in the slot at `start`, in a mapped segment that the caller has.
    pub(crate) fn open(&self, start: NonNull<u8>, class: usize) {
        self.free.set(ptr::null_mut());
        self.start.set(start.as_ptr());
        self.used.set(0);
        self.free_count.set(0);
        self.carved.set(0);
        self.capacity.set((SLOT / size_of_class(class)) as u16);
        self.class.set(class as u8 + 1);
    }

    /// Closes the slab; returns the slot's start.
    pub(crate) fn close(&self) -> Option<NonNull<u8>> {
        debug_assert!(self.used.get() == 0 && !self.listed.get());
        if HARDENED && let Some(class) = self.class() {
            marks::give_up(self.start.get(), class, usize::from(self.carved.get()));
        }
        self.class.set(NONE);
        NonNull::new(self.start.get())
    }

    /// The class of the slab, if it is open.
    #[inline]
    pub(crate) fn class(&self) -> Option<usize> {
        match self.class.get() {
            NONE => None,
            class => Some(usize::from(class) - 1),
        }
    }

    /// Returns `true` if no block is outside.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used.get() == 0
    }

    /// Returns `true` if no block is left inside.
    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free_count.get() == 0 && self.carved.get() == self.capacity.get()
    }

    /// Takes all free blocks, or carves some; at least one unless the slab is exhausted.
    pub(crate) fn take(&self) -> Taken {
        let (first, count) = if self.free_count.get() > 0 {
            (
                self.free.replace(ptr::null_mut()),
                self.free_count.replace(0),
            )
        } else {
            self.carve()
        };
        self.used.set(self.used.get() + count);
        Taken {
            first,
            count: usize::from(count),
        }
    }

    fn carve(&self) -> (*mut Block, u16) {
        let size = size_of_class(usize::from(self.class.get()) - 1);
        let left = usize::from(self.capacity.get() - self.carved.get());
        let count = (CARVE / size).clamp(1, left.max(1)).min(left);
        let from = usize::from(self.carved.get()) * size;
        let mut first = ptr::null_mut();
        for index in (0..count).rev() {
            // SAFETY: `carved + index` is below the capacity, so the block lies in the slot.
            let block = unsafe { self.start.get().add(from + index * size) }.cast::<Block>();
            // SAFETY: the block was never given out since the slab was opened; a class is a
            // multiple of a word.
            unsafe { Block::link(block, first) };
            if HARDENED {
                marks::prepare(block);
            }
            first = block;
        }
        self.carved.set(self.carved.get() + count as u16);
        (first, count as u16)
    }

    /// Returns a block to the slab.
    ///
    /// # Safety
    ///
    /// 1. `block` was taken from this slab, and the caller alone has it and gives it up.
    #[inline]
    pub(crate) unsafe fn put(&self, block: *mut Block) {
        // SAFETY: obligation 1.
        unsafe { Block::link(block, self.free.get()) };
        self.free.set(block);
        self.free_count.set(self.free_count.get() + 1);
        self.used.set(self.used.get() - 1);
    }
}

/// The slabs of a class that are not exhausted.
pub(crate) struct SlabList {
    first: Cell<*const Slab>,
}

impl SlabList {
    pub(crate) const fn new() -> Self {
        Self {
            first: Cell::new(ptr::null()),
        }
    }

    /// The first of the list.
    #[inline]
    pub(crate) fn first<'a>(&self) -> Option<&'a Slab> {
        // SAFETY: slabs in a list are in mapped segments that this thread has.
        unsafe { self.first.get().as_ref() }
    }

    /// Returns `true` if the slab is the only one of the list.
    #[inline]
    pub(crate) fn is_only(&self, slab: &Slab) -> bool {
        ptr::eq(self.first.get(), slab) && slab.next.get().is_null()
    }

    /// Inserts the slab into the list unless it is there.
    #[inline]
    pub(crate) fn link(&self, slab: &Slab) {
        if slab.listed.replace(true) {
            return;
        }
        slab.previous.set(ptr::null());
        slab.next.set(self.first.get());
        if let Some(first) = self.first() {
            first.previous.set(slab);
        }
        self.first.set(slab);
    }

    /// Removes the slab from the list if it is there.
    pub(crate) fn unlink(&self, slab: &Slab) {
        if !slab.listed.replace(false) {
            return;
        }
        let (previous, next) = (slab.previous.get(), slab.next.get());
        // SAFETY: as in `first`.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first.set(next),
        }
        // SAFETY: as in `first`.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
    }

    /// The slab after `slab`.
    pub(crate) fn after<'a>(slab: &Slab) -> Option<&'a Slab> {
        // SAFETY: as in `first`.
        unsafe { slab.next.get().as_ref() }
    }
}
