//! Remote-free batches: freed blocks of one other owner, packed so that neither the freeing thread
//! nor the owner waits for the blocks' memory.
//!
//! With a plain list through the blocks, the owner would have one cache miss per block, because
//! another processor wrote the block's first word, the link. So a block with enough space stores
//! the positions of the blocks that follow it:
//!
//! ```text
//!   first ─► │ link │ count │ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ │ ─► │ link │ ─► │ link │ count │ ▪ ▪ ▪ │ ─► …
//!              batch header of 64 bytes                            8 bytes       batch header
//!                              └► blocks that the freeing thread does not write to
//! ```
//!
//! A position is the block's distance from the batch header in units of 8 bytes. It has 32 bits,
//! half of an address. A block 16 GiB or more away starts a new batch header. Blocks are at
//! multiples of 8, so bit 0 of a link is free: it is set if the link leads to a batch header.
//!
//! In a hardened build the word with the count also contains a seal: a keyed digest of the count,
//! the distances and the batch header's address. The owner checks the seal before it follows a
//! distance.
//!
//! The freeing thread writes only to batch headers. From a batch header of 64 bytes, one cache
//! line, the owner learns the addresses of thirteen further blocks. The owner prefetches the next
//! batch header before it handles the blocks of the current one. It does not read the other blocks.
//! It writes to them, and no processor waits for these writes.

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::block::Block;
use crate::geometry::{GRAIN, HARDENED};
use crate::hardened::link;
use crate::misuse;
use crate::primitive::hint::prefetch_write;

/// The bit of a link to a batch header.
const CARRIES: usize = 1;
/// Size of a batch header before the distances: its link and the count.
const HEAD: usize = size_of::<usize>() + size_of::<u32>();
/// Offset of the count.
const COUNT: usize = size_of::<usize>();
/// Maximum number of distances in a batch header.
const CARRIED_MAX: usize = (1 << COUNT_BITS) - 1;
/// Bits of the count; in a hardened build the other bits of its word are the [`seal`].
const COUNT_BITS: u32 = 6;
/// Blocks are at multiples of eight bytes.
const UNIT_BITS: u32 = 3;
/// The weight of a full remote-free batch; see [`weight`].
pub(crate) const FULL: usize = 64 * WEIGHT_MIN;
/// The minimum weight of a block.
const WEIGHT_MIN: usize = 1024;

// A span without a class has at least one grain.
const _: () = assert!(room(GRAIN) == CARRIED_MAX);

/// The number of distances that fit into a batch header of `size` bytes.
#[inline(always)]
const fn room(size: usize) -> usize {
    let room = size.saturating_sub(HEAD) / size_of::<i32>();
    if room < CARRIED_MAX {
        room
    } else {
        CARRIED_MAX
    }
}

/// The weight of a block of `size` bytes in a remote-free batch: one number that bounds both the
/// blocks (64) and the bytes (64 KiB).
#[inline(always)]
const fn weight(size: usize) -> usize {
    if size > WEIGHT_MIN { size } else { WEIGHT_MIN }
}

/// Freed blocks of one owner; on cache lines of its own, so that a shift finds an entry of an
/// array.
#[repr(align(64))]
pub(crate) struct RemoteBatch<O> {
    owner: Cell<*const O>,
    /// The link to the first block.
    first: Cell<*mut Block>,
    last: Cell<*mut Block>,
    /// The last batch header; null if the first link leads to none.
    header: Cell<*mut Block>,
    /// Where the batch header stores the next distance.
    place: Cell<*mut i32>,
    /// The end of its space.
    end: Cell<*mut i32>,
    /// The weight that is left.
    left: Cell<usize>,
}

/// The contents of a remote-free batch that was taken.
pub(crate) struct Packed<'a, O> {
    pub(crate) owner: &'a O,
    /// The link to the first block of the list; `last` ends it.
    pub(crate) first: *mut Block,
    pub(crate) last: *mut Block,
}

impl<O> RemoteBatch<O> {
    pub(crate) const fn new() -> Self {
        Self {
            owner: Cell::new(ptr::null()),
            first: Cell::new(ptr::null_mut()),
            last: Cell::new(ptr::null_mut()),
            header: Cell::new(ptr::null_mut()),
            place: Cell::new(ptr::null_mut()),
            end: Cell::new(ptr::null_mut()),
            left: Cell::new(FULL),
        }
    }

    /// Returns `true` if the batch is open for this owner.
    #[inline(always)]
    pub(crate) fn is_for(&self, owner: *const O) -> bool {
        ptr::eq(self.owner.get(), owner)
    }

    /// Opens an empty batch for an owner that is never unmapped.
    pub(crate) fn open(&self, owner: &'static O) {
        debug_assert!(self.owner.get().is_null());
        self.owner.set(owner);
    }

    /// Returns `true` if the batch must be delivered.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.left.get() == 0
    }

    /// Adds a block if the last batch header has room for its distance and the batch is not full
    /// afterwards. Otherwise returns `false` and changes nothing.
    ///
    /// # Safety
    ///
    /// 1. As for [`RemoteBatch::put`].
    #[inline(always)]
    pub(crate) unsafe fn try_put(&self, block: *mut Block, size: usize) -> bool {
        // Both are at most `FULL`.
        let rest = self.left.get().cast_signed() - weight(size).cast_signed();
        if rest <= 0 {
            return false;
        }
        let Some(distance) = self.distance_to(block) else {
            return false;
        };
        self.carry(distance);
        self.left.set(rest.cast_unsigned());
        true
    }

    /// The distance of a block from the last batch header, if the header has room for it and the
    /// distance fits.
    #[inline(always)]
    fn distance_to(&self, block: *mut Block) -> Option<i32> {
        if self.place.get() == self.end.get() {
            return None;
        }
        let bytes = block.addr().wrapping_sub(self.header.get().addr());
        let distance = bytes.cast_signed() >> UNIT_BITS;
        if distance as i32 as isize != distance {
            return None;
        }
        Some(distance as i32)
    }

    /// Stores a block's distance in the last batch header, which has room.
    #[inline(always)]
    fn carry(&self, distance: i32) {
        let place = self.place.get();
        debug_assert_ne!(place, self.end.get());
        // SAFETY: the address is inside the batch header's space, which belongs to this batch, and
        // is aligned to four bytes, as the end of the head is.
        unsafe { place.write(distance) };
        // SAFETY: as above, so the next address is in the space or at its end.
        self.place.set(unsafe { place.add(1) });
    }

    /// Adds a block.
    ///
    /// # Safety
    ///
    /// 1. `block` is a free block of the remote-free batch's owner, `size` bytes long or more; the
    ///    caller alone has it and gives it up.
    /// 2. Its provenance was exposed.
    #[inline]
    pub(crate) unsafe fn put(&self, block: *mut Block, size: usize) {
        self.left.set(self.left.get().saturating_sub(weight(size)));
        if let Some(distance) = self.distance_to(block) {
            self.carry(distance);
            return;
        }
        self.seal();
        // SAFETY: obligation 1.
        unsafe { Block::set_next(block, self.first.get()) };
        if self.first.get().is_null() {
            self.last.set(block);
        }
        let room = room(size);
        if room > 0 {
            self.header.set(block);
            // SAFETY: the block has room for the head.
            let place = unsafe { block.byte_add(HEAD) }.cast::<i32>();
            self.place.set(place);
            // SAFETY: and for this many distances behind it.
            self.end.set(unsafe { place.add(room) });
            self.first.set(block.map_addr(|address| address | CARRIES));
        } else {
            self.first.set(block);
        }
    }

    /// Writes the count, and in a hardened build the seal, of the last batch header, which is then
    /// complete.
    #[inline]
    fn seal(&self) {
        let header = self.header.replace(ptr::null_mut());
        let place = self.place.replace(ptr::null_mut());
        self.end.set(ptr::null_mut());
        if header.is_null() {
            return;
        }
        let carried = (place.addr() - header.addr() - HEAD) / size_of::<i32>();
        let mut word = carried as u32;
        if HARDENED {
            // SAFETY: the batch header belongs to this batch, and so many distances were written.
            word |= unsafe { seal(header, carried) } << COUNT_BITS;
        }
        // SAFETY: a batch header is longer than its head.
        let count = unsafe { header.byte_add(COUNT) };
        // SAFETY: as above; the batch header belongs to this batch, and is aligned to a word.
        unsafe { count.cast::<u32>().write(word) };
    }

    /// Takes all blocks, with their owner; `None` if the batch is empty.
    pub(crate) fn take<'a>(&self) -> Option<Packed<'a, O>> {
        // SAFETY: owners are never unmapped, which `open` requires.
        let owner = unsafe { self.owner.replace(ptr::null()).as_ref() }?;
        self.seal();
        self.left.set(FULL);
        Some(Packed {
            owner,
            first: self.first.replace(ptr::null_mut()),
            last: self.last.replace(ptr::null_mut()),
        })
    }
}

/// The seal of a batch header in a hardened build: a polynomial of its count, its distances and its
/// address, evaluated at a secret point. Without the secret, a change is undetected only by chance.
///
/// # Safety
///
/// 1. Behind the head of `header`, which the caller alone has, `count` distances are written.
#[inline]
unsafe fn seal(header: *mut Block, count: usize) -> u32 {
    // SAFETY: obligation 1.
    let first = unsafe { header.byte_add(HEAD) }.cast::<u32>();
    // SAFETY: as above.
    let distances = unsafe { core::slice::from_raw_parts(first, count) };
    digest(header.addr(), distances, link::point())
}

/// The upper bits of a polynomial whose coefficients are an address, the number of distances and
/// each distance.
#[inline]
fn digest(address: usize, distances: &[u32], point: u64) -> u32 {
    // A coefficient has 32 bits, and the point is odd; so each of its bits reaches the upper half
    // with 32 bits of the point.
    let times = |one: u32, power: u64| u64::from(one).wrapping_mul(power);
    let square = point.wrapping_mul(point);
    let cube = square.wrapping_mul(point);
    let fourth = square.wrapping_mul(square);
    let (fours, rest) = distances.as_chunks();
    let mut sum = address as u64 ^ distances.len() as u64;
    // Four at once, as each step depends on the previous one.
    for &[a, b, c, d] in fours {
        let four = times(a, cube)
            .wrapping_add(times(b, square))
            .wrapping_add(times(c, point))
            .wrapping_add(u64::from(d));
        sum = sum.wrapping_mul(fourth).wrapping_add(four);
    }
    for &one in rest {
        sum = sum.wrapping_mul(point).wrapping_add(u64::from(one));
    }
    (sum.wrapping_mul(point) >> (u32::BITS + COUNT_BITS)) as u32
}

/// Calls `accept` on the blocks that a batch header at `link` carries, and then on the block at
/// `link`. Returns the next link and the number of blocks.
///
/// # Safety
///
/// 1. `link`, not null, leads into a list that [`RemoteBatch::take`] gave, which the caller alone
///    has; the caller forgets it.
#[inline]
pub(crate) unsafe fn unpack(
    link: *mut Block,
    mut accept: impl FnMut(NonNull<Block>),
) -> (*mut Block, usize) {
    let block = block_of(link);
    // SAFETY: obligation 1: the first word is the link.
    let next = unsafe { Block::next(block) };
    let mut count = 0;
    // It is written to when its turn comes.
    prefetch_write(block_of(next));
    if link.addr() & CARRIES != 0 {
        // SAFETY: a batch header has a head, whose end is the count.
        let place = unsafe { block.byte_add(COUNT) };
        // SAFETY: it was written when the batch header was sealed.
        count = unsafe { place.cast::<u32>().read() } as usize & CARRIED_MAX;
        // SAFETY: that many distances follow.
        let places = unsafe { block.byte_add(HEAD) }.cast::<i32>();
        let carried = |index| {
            // SAFETY: as above.
            let place = unsafe { places.add(index) };
            // SAFETY: they were written when the blocks were put in.
            let distance = unsafe { place.read() };
            let address = block
                .addr()
                .wrapping_add_signed((distance as isize) << UNIT_BITS);
            // The block's provenance was exposed before it was put in.
            ptr::with_exposed_provenance_mut::<Block>(address)
        };
        for index in 0..count {
            // SAFETY: blocks are never null.
            accept(unsafe { NonNull::new_unchecked(carried(index)) });
        }
    }
    // Last, as its words may be overwritten from now on.
    // SAFETY: blocks are never null.
    accept(unsafe { NonNull::new_unchecked(block) });
    (next, count + 1)
}

/// Ends the process unless a link leads to a batch header whose count and distances are unchanged.
/// Hardened builds only, where every block has room for at least one distance.
///
/// # Safety
///
/// 1. `link` leads into a list that [`RemoteBatch::take`] gave, to a block of `size` bytes at least
///    that the caller alone has.
#[inline]
pub(crate) unsafe fn check_header(link: *mut Block, size: usize) {
    let block = block_of(link);
    // SAFETY: obligation 1: every block has room for a head.
    let place = unsafe { block.byte_add(COUNT) }.cast::<u32>();
    // SAFETY: as above.
    let word = unsafe { place.read() };
    let count = word as usize & CARRIED_MAX;
    let has_seal = || {
        // SAFETY: obligation 1; so many distances have room.
        word >> COUNT_BITS == unsafe { seal(block, count) }
    };
    if link.addr() & CARRIES == 0 || count > room(size) || !has_seal() {
        misuse::end(format_args!(
            "the free block {block:p} was written to after it was freed, or freed by two threads at once"
        ));
    }
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
        let batch = RemoteBatch::<u8>::new();
        let mut memory = Vec::new();
        let mut blocks = Vec::new();
        for number in 0..300 {
            let words = [1, 2, 3, 8, 100][number % 5];
            let mut block = std::vec![0_usize; words].into_boxed_slice();
            if !batch.is_for(&OWNER) {
                batch.open(&OWNER);
            }
            blocks.push(block.as_mut_ptr().addr());
            let start = block.as_mut_ptr();
            start.expose_provenance();
            memory.push(block);
            // SAFETY: the block is writable, this long, aligned, exposed, and kept until the end.
            unsafe { batch.put(start.cast(), words * size_of::<usize>()) };
        }
        assert!(batch.is_full());
        let packed = batch.take().unwrap();
        assert!(batch.take().is_none());
        // SAFETY: the last block of the list is there.
        assert!(unsafe { Block::next(packed.last) }.is_null());
        let (mut link, mut found) = (packed.first, Vec::new());
        while !link.is_null() {
            // SAFETY: the list came from the remote-free batch.
            (link, _) = unsafe { unpack(link, |block| found.push(block.addr().get())) };
        }
        found.sort_unstable();
        blocks.sort_unstable();
        assert_eq!(found, blocks);
    }
    /// Changes that cancel each other if distances are weighted too high or too low.
    #[test]
    fn changed_distances_have_another_digest() {
        const POINT: u64 = 0x9e37_79b9_7f4a_7c15;
        let distances: [u32; 23] = core::array::from_fn(|index| 8 * index as u32 + 8);
        for count in 0..=distances.len() {
            let distances = &distances[..count];
            let whole = digest(64, distances, POINT);
            assert_ne!(whole, digest(128, distances, POINT), "{count}");
            if count > 0 {
                assert_ne!(whole, digest(64, &distances[1..], POINT), "{count}");
                assert_ne!(whole, digest(64, &distances[..count - 1], POINT), "{count}");
            }
            for first in 0..count {
                for second in 0..first {
                    for bit in 0..32 {
                        let mut changed = distances.to_vec();
                        changed[first] ^= 1 << bit;
                        assert_ne!(whole, digest(64, &changed, POINT), "{first} {bit}");
                        changed[second] ^= 1 << bit;
                        let digest = digest(64, &changed, POINT);
                        assert_ne!(whole, digest, "{first} {second} {bit}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_batch_is_full_by_blocks_or_by_bytes() {
        for (size, count) in [(64, 64), (1024, 64), (4096, 16), (8192, 8)] {
            assert_eq!(FULL.div_ceil(weight(size)), count, "{size}");
        }
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_block_too_far_away_is_not_carried() {
        static OWNER: u8 = 0;
        let batch = RemoteBatch::<u8>::new();
        batch.open(&OWNER);
        let mut block = std::vec![0_usize; 100].into_boxed_slice();
        let start = block.as_mut_ptr();
        // SAFETY: the block is writable, this long, aligned, and kept until the end.
        unsafe { batch.put(start.cast(), 800) };
        let far = |bytes: isize| start.wrapping_byte_offset(bytes).cast::<Block>();
        assert!(batch.distance_to(far(16 << 30)).is_none());
        assert!(batch.distance_to(far((-16 << 30) - 8)).is_none());
        for block in [far((16 << 30) - 8), far(-16 << 30)] {
            batch.carry(batch.distance_to(block).unwrap());
        }
        let packed = batch.take().unwrap();
        let mut found = Vec::new();
        // SAFETY: the list came from the remote-free batch.
        let (next, count) = unsafe { unpack(packed.first, |block| found.push(block.addr().get())) };
        assert!(next.is_null() && count == 3);
        let near = start.addr();
        assert_eq!(found, [near + (16 << 30) - 8, near - (16 << 30), near]);
    }
}
