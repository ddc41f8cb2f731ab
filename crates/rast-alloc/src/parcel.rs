//! Parcels: blocks of one other owner that a thread freed, packed so that neither side waits for their memory.
//!
//! A plain list through the blocks costs the owner a wait for each: its first word was last written by another processor,
//! and only it tells where the next one is.
//! So a block that has the room carries the addresses of those that come after it:
//!
//! ```text
//!   first ─► │ link │ count │ ▪ ▪ ▪ ▪ ▪ ▪ │ ─► │ link │ ─► │ link │ count │ ▪ ▪ ▪ │ ─► …
//!              carrier of 64 bytes             8 bytes       carrier
//!                              └► blocks that nobody writes to
//! ```
//!
//! The bit 0 of a link says that the block it leads to is a carrier; blocks are at multiples of 8.
//! The freeing thread touches the carriers alone, and the owner reads one line for six blocks of 64 bytes; to the others
//! it only writes, which nothing waits for.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::block::Block;
use crate::hardened::HARDENED;
use crate::misuse;

/// The bit of a link to a carrier.
const CARRIES: usize = 1;
/// The words of a carrier before the addresses.
const HEAD: usize = 2;
/// Addresses that a carrier takes at most.
const CARRIED_MAX: usize = 62;

/// Freed blocks of one owner.
pub(crate) struct Parcel<O> {
    owner: Cell<*const O>,
    /// The link to the first block.
    first: Cell<*mut Block>,
    last: Cell<*mut Block>,
    carrier: Cell<*mut *mut Block>,
    carried: Cell<usize>,
    room: Cell<usize>,
    count: Cell<usize>,
    bytes: Cell<usize>,
}

/// What a parcel held when it was taken out.
pub(crate) struct Packed<'a, O> {
    pub(crate) owner: &'a O,
    /// The link to the first block, of a list that the last one ends.
    pub(crate) first: *mut Block,
    pub(crate) last: *mut Block,
}

impl<O> Parcel<O> {
    pub(crate) const fn new() -> Self {
        Self {
            owner: Cell::new(ptr::null()),
            first: Cell::new(ptr::null_mut()),
            last: Cell::new(ptr::null_mut()),
            carrier: Cell::new(ptr::null_mut()),
            carried: Cell::new(0),
            room: Cell::new(0),
            count: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// Whether the parcel is for this owner.
    #[inline]
    pub(crate) fn is_for(&self, owner: &O) -> bool {
        ptr::eq(self.owner.get(), owner)
    }

    /// Begins a parcel for an owner who stays for ever; it must be empty.
    pub(crate) fn open(&self, owner: &'static O) {
        debug_assert!(self.owner.get().is_null());
        self.owner.set(owner);
    }

    /// How many blocks are in it.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.get()
    }

    /// How many bytes were asked for with them.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Puts a block in.
    ///
    /// # Safety
    ///
    /// 1. `block` is a free block of the parcel's owner, `size` bytes long or more; the caller alone has it and gives it
    ///    up.
    #[inline]
    pub(crate) unsafe fn put(&self, block: *mut Block, size: usize) {
        self.count.set(self.count.get() + 1);
        self.bytes.set(self.bytes.get() + size);
        let carried = self.carried.get();
        if carried < self.room.get() {
            // SAFETY: the carrier has room for this many addresses past its head.
            let place = unsafe { self.carrier.get().add(HEAD + carried) };
            // SAFETY: as above; the carrier is this parcel's, and aligned to a word.
            unsafe { place.write(block) };
            self.carried.set(carried + 1);
            return;
        }
        self.seal();
        // SAFETY: obligation 1.
        unsafe { Block::set_next(block, self.first.get()) };
        if self.first.get().is_null() {
            self.last.set(block);
        }
        let room = (size / size_of::<usize>())
            .saturating_sub(HEAD)
            .min(CARRIED_MAX);
        self.carried.set(0);
        self.room.set(room);
        if room > 0 {
            self.carrier.set(block.cast());
            self.first.set(block.map_addr(|address| address | CARRIES));
        } else {
            self.first.set(block);
        }
    }

    /// Writes how many addresses the last carrier carries.
    #[inline]
    fn seal(&self) {
        if self.room.replace(0) > 0 {
            // SAFETY: a carrier is longer than its head.
            let count = unsafe { self.carrier.get().add(1) };
            // SAFETY: as above; the carrier is this parcel's, and aligned to a word.
            unsafe { count.cast::<usize>().write(self.carried.get()) };
        }
    }

    /// Takes all blocks out, with the owner; `None` if there is none.
    pub(crate) fn take<'a>(&self) -> Option<Packed<'a, O>> {
        // SAFETY: owners stay for ever, as `open` asks.
        let owner = unsafe { self.owner.replace(ptr::null()).as_ref() }?;
        self.seal();
        self.carried.set(0);
        self.count.set(0);
        self.bytes.set(0);
        Some(Packed {
            owner,
            first: self.first.replace(ptr::null_mut()),
            last: self.last.replace(ptr::null_mut()),
        })
    }
}

/// Calls `accept` on the block that `link` leads to and on those that it carries; returns the next link and how many
/// blocks that were.
///
/// # Safety
///
/// 1. `link`, not null, leads into a list that [`Parcel::take`] gave, which the caller alone has; the caller forgets it.
#[inline]
pub(crate) unsafe fn unpack(
    link: *mut Block,
    mut accept: impl FnMut(NonNull<Block>),
) -> (*mut Block, usize) {
    let block = block_of(link);
    // SAFETY: obligation 1: the first word is the link.
    let next = unsafe { Block::next(block) };
    let mut count = 0;
    if link.addr() & CARRIES != 0 {
        let carrier = block.cast::<*mut Block>();
        // SAFETY: a carrier has a head of two words.
        let place = unsafe { carrier.add(1) };
        // SAFETY: the second one is the count, written when the carrier was sealed.
        count = unsafe { place.cast::<usize>().read() };
        if HARDENED && count > CARRIED_MAX {
            misuse::end(format_args!(
                "the free block {block:p} was written to after it was freed"
            ));
        }
        for index in 0..count {
            // SAFETY: that many addresses follow.
            let place = unsafe { carrier.add(HEAD + index) };
            // SAFETY: they were written when the blocks were put in.
            let carried = unsafe { place.read() };
            // SAFETY: blocks are never null.
            accept(unsafe { NonNull::new_unchecked(carried) });
        }
    }
    // Last, since its words may be written now.
    // SAFETY: blocks are never null.
    accept(unsafe { NonNull::new_unchecked(block) });
    (next, count + 1)
}

/// The block that a link leads to.
#[inline]
pub(crate) fn block_of(link: *mut Block) -> *mut Block {
    link.map_addr(|address| address & !CARRIES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn each_block_comes_out_once() {
        static OWNER: u8 = 0;
        let parcel = Parcel::<u8>::new();
        let mut memory = Vec::new();
        let mut blocks = Vec::new();
        for number in 0..300 {
            let words = [1, 2, 3, 8, 100][number % 5];
            let mut block = std::vec![0_usize; words].into_boxed_slice();
            if !parcel.is_for(&OWNER) {
                parcel.open(&OWNER);
            }
            blocks.push(block.as_mut_ptr().addr());
            let start = block.as_mut_ptr();
            memory.push(block);
            // SAFETY: the block is writable, this long, aligned, and kept until the end.
            unsafe { parcel.put(start.cast(), words * size_of::<usize>()) };
        }
        assert_eq!(parcel.count(), 300);
        let packed = parcel.take().unwrap();
        assert!(parcel.take().is_none());
        // SAFETY: the last block of the list is there.
        assert!(unsafe { Block::next(packed.last) }.is_null());
        let (mut link, mut found) = (packed.first, Vec::new());
        while !link.is_null() {
            // SAFETY: the list came from the parcel.
            (link, _) = unsafe { unpack(link, |block| found.push(block.addr().get())) };
        }
        found.sort_unstable();
        blocks.sort_unstable();
        assert_eq!(found, blocks);
    }
}
