//! The page map: which units of the address space are segments, and of which heap. With the map, a
//! pointer can be checked before its segment's header is read.
//!
//! | entry | the unit is |
//! | --- | --- |
//! | 0 | no segment of this allocator |
//! | [`OWN`] | a segment of a `Heap` or `SharedHeap` |
//! | [`FIRST`] and above | a segment of a thread's heap; the entry is the number of the heap |
//! | [`MANY`] | a segment of a thread's heap without a number: all numbers were in use when the heap was made |
//!
//! Each unit, which is as long as a segment, has two bytes. So the map has 64 MiB of address space
//! on x86-64. One of its pages is touched for each 8 GiB that contain segments. A heap recognises
//! its own blocks by one load from its table [`OwnSegments`], or else by one load from the page
//! map. So this check does not touch the headers of segments, each of which is on a page of its
//! own.

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;

use super::marks::{self, Mark, PLACE};
use crate::geometry::{HARDENED, SEGMENT};
use crate::primitive::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// Bits of the addresses that the system assigns by default.
const ADDRESS_BITS: u32 = if cfg!(target_arch = "x86_64") {
    47
} else if cfg!(target_pointer_width = "64") {
    48
} else {
    32
};
const UNITS: usize = if HARDENED {
    1 << (ADDRESS_BITS - SEGMENT.trailing_zeros())
} else {
    0
};

/// Not ours, or not a segment.
pub(crate) const NONE: u16 = 0;
/// A segment of a `Heap` or `SharedHeap`.
pub(crate) const OWN: u16 = 1;
/// A segment of a thread's heap without a number.
pub(crate) const MANY: u16 = u16::MAX;
const FIRST: u16 = 2;
/// The value that no segment has.
const NEVER: u16 = MANY - 1;
/// The index of no unit.
const NOWHERE: usize = usize::MAX;

/// All [`NONE`].
///
/// `MaybeUninit`, because the compiler would look at each entry of a plain array: that takes eight
/// seconds of each build.
static TABLE: MaybeUninit<[AtomicU16; UNITS]> = MaybeUninit::zeroed();
const _: () = assert!(NONE == 0);

#[inline(always)]
fn table() -> &'static [AtomicU16; UNITS] {
    // SAFETY: the table is initialised: zero is a value of an atomic integer.
    unsafe { TABLE.assume_init_ref() }
}

/// The number of the next heap.
static NEXT: AtomicUsize = AtomicUsize::new(FIRST as usize);

/// The number of an arena, if it has one; of length zero except in a hardened build.
pub(crate) struct Number([Cell<u16>; HARDENED as usize]);

impl Number {
    /// No number yet.
    pub(crate) const fn none() -> Self {
        Self([const { Cell::new(NEVER) }; HARDENED as usize])
    }

    /// Takes a unique number, if one is left.
    pub(crate) fn take(&self) {
        if let Some(place) = self.0.first() {
            // Relaxed: only uniqueness matters. [AH23]
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            place.set(number.min(usize::from(NEVER)) as u16);
        }
    }

    /// The number, or one that no segment has.
    #[inline(always)]
    fn get(&self) -> u16 {
        self.0.first().map_or(NEVER, Cell::get)
    }

    /// The value for the arena's segments: its number, or else `unit`.
    pub(crate) fn or(&self, unit: u16) -> u16 {
        match self.get() {
            NEVER => unit,
            number => number,
        }
    }

    /// Returns `true` if the segment at an address has the arena's number, so that the arena owns
    /// it.
    #[inline(always)]
    pub(crate) fn is_at(&self, address: usize) -> bool {
        at(address) == self.get()
    }
}

/// Number of an owner's own segments in its table.
///
/// 256, so that the index is one byte of the unit's index. This saves one instruction compared with
/// other masks.
const OWN_ENTRIES: usize = if HARDENED { 256 } else { 0 };

/// A table of segments by their addresses, in which each has one entry. One load shows whether a
/// block's segment is in it, unless another segment replaced it. Of length zero except in a
/// hardened build.
///
/// With [`OWN_ENTRIES`] entries two segments share an entry if their distance is a multiple of 1
/// GiB (256 segments of 4 MiB).
struct SegmentTable<const PLACES: usize>([Cell<usize>; PLACES]);

impl<const PLACES: usize> SegmentTable<PLACES> {
    /// An empty table.
    const fn none() -> Self {
        Self([const { Cell::new(NOWHERE) }; PLACES])
    }

    /// Enters the segment at an address; returns its index, if the table is not empty.
    fn note(&self, address: usize) -> Option<usize> {
        let (stretch, index) = Self::place(address);
        self.0.get(index)?.set(stretch);
        Some(index)
    }

    /// Removes a segment.
    fn forget(&self, address: usize) {
        let (stretch, index) = Self::place(address);
        if let Some(place) = self.0.get(index)
            && place.get() == stretch
        {
            place.set(NOWHERE);
        }
    }

    /// Returns `true` if a block may start at an address and lies in a segment of the table.
    #[inline(always)]
    fn has(&self, address: usize) -> bool {
        let (stretch, index) = Self::place(address);
        self.0
            .get(index)
            .is_some_and(|place| place.get() == stretch)
    }

    /// The index of an address's unit, and of its entry.
    #[inline(always)]
    fn place(address: usize) -> (usize, usize) {
        let stretch = unit_of(address);
        (stretch, stretch & PLACES.wrapping_sub(1))
    }
}

/// An owner's own segments; one more load finds a block's mark.
pub(crate) struct OwnSegments {
    table: SegmentTable<OWN_ENTRIES>,
    /// For each segment, the distance of a block's mark from the block's rotated address
    /// ([`rotated`]), as a wrapping sum.
    distances: [Cell<usize>; OWN_ENTRIES],
}

impl OwnSegments {
    /// An empty table.
    pub(crate) const fn none() -> Self {
        Self {
            table: SegmentTable::none(),
            distances: [const { Cell::new(0) }; OWN_ENTRIES],
        }
    }

    /// Enters the segment of a block, or of a header.
    ///
    /// # Safety
    ///
    /// 1. The segment stays mapped until it is removed, or another one replaces it.
    pub(crate) unsafe fn note(&self, address: usize) {
        let index = self.table.note(address);
        if let Some(place) = index.and_then(|index| self.distances.get(index)) {
            let segment = address & !(SEGMENT - 1);
            place.set(marks::start(segment).wrapping_sub(rotated(segment)));
        }
    }

    /// Removes a segment.
    pub(crate) fn forget(&self, address: usize) {
        self.table.forget(address);
    }

    /// Returns `true` if a block may start at an address and lies in a segment of the table.
    #[inline(always)]
    pub(crate) fn has(&self, address: usize) -> bool {
        self.table.has(address)
    }

    /// The mark of a block.
    ///
    /// # Safety
    ///
    /// 1. [`has`](Self::has) is true of it.
    #[inline(always)]
    pub(crate) unsafe fn mark_of(&self, block: *mut u8) -> Mark<'_> {
        let (_, index) = SegmentTable::<OWN_ENTRIES>::place(block.addr());
        let distance = self.distances.get(index).map_or(0, Cell::get);
        let mark = block.map_addr(|address| rotated(address).wrapping_add(distance));
        // SAFETY: obligation 1: the segment in the table is mapped, and the address lies in it and
        // is a multiple of `PLACE`, so this is one of its marks.
        unsafe { Mark::at(mark) }
    }
}

/// The segment of one block of an owner, by which the owner recognises other blocks of that segment
/// without a table.
#[derive(Clone, Copy)]
pub(crate) struct BlockSegment {
    segment: usize,
}

impl BlockSegment {
    /// No segment.
    pub(crate) const fn none() -> Self {
        Self { segment: 0 }
    }

    /// The segment of a block.
    #[inline(always)]
    pub(crate) fn of<T>(block: *mut T) -> Self {
        Self {
            segment: block.addr() & !(SEGMENT - 1),
        }
    }

    /// The mark of a block, if it may start at its address and lies in this segment.
    ///
    /// # Safety
    ///
    /// 1. The segment is mapped for `'a`; if there is none, `block` lies in one.
    #[inline(always)]
    pub(crate) unsafe fn mark_of<'a, T>(self, block: *mut T) -> Option<Mark<'a>> {
        let place = rotated(block.addr().wrapping_sub(self.segment));
        if place >= SEGMENT / PLACE {
            return None;
        }
        let mark = block.map_addr(|_| marks::start(self.segment).wrapping_add(place));
        // SAFETY: obligation 1: `place` is one of the segment's, and no segment is at 0.
        Some(unsafe { Mark::at(mark.cast()) })
    }
}

/// Number of segments of other owners in a thread's table.
const REMOTE_ENTRIES: usize = if HARDENED { 8 } else { 0 };

/// Segments of other owners with blocks in an open remote-free batch of this thread, and that
/// batch. Until the batch is delivered the segment stays mapped and its owner's. So neither the
/// page map nor the segment's header has to be read.
pub(crate) struct RemoteSegments<P> {
    table: SegmentTable<REMOTE_ENTRIES>,
    batches: [Cell<*const P>; REMOTE_ENTRIES],
}

impl<P> RemoteSegments<P> {
    /// An empty table.
    pub(crate) const fn none() -> Self {
        Self {
            table: SegmentTable::none(),
            batches: [const { Cell::new(ptr::null()) }; REMOTE_ENTRIES],
        }
    }

    /// Enters the segment of a block that was put into a remote-free batch.
    ///
    /// # Safety
    ///
    /// 1. The batch, which is this thread's, contains the block until the segment is removed.
    #[inline]
    pub(crate) unsafe fn note(&self, block: *mut u8, batch: &P) {
        let index = self.table.note(block.addr());
        if let Some(place) = index.and_then(|index| self.batches.get(index)) {
            place.set(batch);
        }
    }

    /// Removes the segments with blocks in a remote-free batch.
    #[inline]
    pub(crate) fn forget(&self, batch: *const P) {
        for (stretch, place) in self.table.0.iter().zip(&self.batches) {
            if ptr::eq(place.get(), batch) {
                stretch.set(NOWHERE);
            }
        }
    }

    /// Returns `true` if a block may start at an address and lies in a segment of the table.
    #[inline(always)]
    pub(crate) fn has(&self, address: usize) -> bool {
        self.table.has(address)
    }

    /// The remote-free batch of a block's owner.
    ///
    /// # Safety
    ///
    /// 1. [`has`](Self::has) is true of it.
    #[inline(always)]
    pub(crate) unsafe fn batch_of(&self, block: *mut u8) -> &P {
        let place = self
            .batches
            .get(SegmentTable::<REMOTE_ENTRIES>::place(block.addr()).1);
        let batch = place.map_or(ptr::null(), Cell::get);
        // SAFETY: obligation 1: the batch was entered with the segment, and belongs to this thread,
        // as does this table.
        unsafe { &*batch }
    }
}

/// An address in units of [`PLACE`], rotated to the right: the bits that are not zero in an address
/// that is no multiple of [`PLACE`] become the highest bits.
#[inline(always)]
const fn rotated(address: usize) -> usize {
    address.rotate_right(PLACE.trailing_zeros())
}

/// The index of an address's unit; for an address where no block may start, an index of no segment.
#[inline(always)]
fn unit_of(address: usize) -> usize {
    rotated(address) >> (SEGMENT / PLACE).trailing_zeros()
}

/// Enters or removes a segment; returns `false` if the table does not cover the address.
pub(crate) fn note(address: usize, unit: u16) -> bool {
    let Some(place) = table().get(address / SEGMENT) else {
        return false;
    };
    // Relaxed: whatever publishes a block of the segment to a thread also publishes this. [AH1]
    place.store(unit, Ordering::Relaxed);
    true
}

/// The entry of an address; [`NONE`] also if no block may start there.
///
/// One comparison finds both addresses that the table does not cover and addresses at which no
/// block may start.
#[inline(always)]
pub(crate) fn at(address: usize) -> u16 {
    match table().get(unit_of(address)) {
        // Relaxed: as for [AH1]; for an address without a block any value will do. [AH2]
        Some(place) => place.load(Ordering::Relaxed),
        None => NONE,
    }
}

#[cfg(all(test, feature = "hardened"))]
mod tests {
    use super::*;

    #[test]
    fn own_segments_are_known_by_their_blocks() {
        let own = SegmentTable::<OWN_ENTRIES>::none();
        assert!(!own.has(0) && !own.has(PLACE));
        let (first, second) = (5 * SEGMENT, 6 * SEGMENT);
        own.note(first);
        own.note(second);
        for start in [first, second] {
            assert!(own.has(start) && own.has(start + SEGMENT - PLACE));
            assert!((1..PLACE).all(|more| !own.has(start + more)));
        }
        assert!(!own.has(first - PLACE) && !own.has(second + SEGMENT));
        own.forget(first);
        assert!(!own.has(first) && own.has(second));
    }

    #[test]
    fn of_two_segments_with_one_place_the_later_has_it() {
        let own = SegmentTable::<OWN_ENTRIES>::none();
        let (first, second) = (5 * SEGMENT, (5 + OWN_ENTRIES) * SEGMENT);
        own.note(first);
        own.note(second);
        assert!(!own.has(first) && own.has(second));
        own.forget(first);
        assert!(own.has(second));
        own.forget(second);
        assert!(!own.has(first) && !own.has(second));
    }

    #[test]
    fn segments_of_others_are_known_while_their_batch_is() {
        let remote = RemoteSegments::<u8>::none();
        let (one, other) = (0_u8, 1_u8);
        let block = |address: usize| ptr::without_provenance_mut::<u8>(address);
        let note = |address, batch| {
            // SAFETY: neither a mark nor what is in a remote-free batch is asked for, so nothing is
            // touched but these bytes.
            unsafe { remote.note(block(address), batch) };
        };
        // SAFETY: as above, and `has` says that it is there.
        let batch_of = |address| unsafe { ptr::from_ref(remote.batch_of(block(address))) };
        let (first, second, third) = (5 * SEGMENT, 6 * SEGMENT, (5 + REMOTE_ENTRIES) * SEGMENT);
        note(first + PLACE, &one);
        note(second + PLACE, &other);
        assert!(remote.has(first + 7 * PLACE) && !remote.has(first + 1) && !remote.has(third));
        assert!(ptr::eq(batch_of(first), &one) && ptr::eq(batch_of(second), &other));
        // The third one takes the first one's place.
        note(third, &other);
        assert!(!remote.has(first) && ptr::eq(batch_of(third), &other));
        remote.forget(&one);
        assert!(remote.has(second) && remote.has(third));
        remote.forget(&other);
        assert!(!remote.has(second) && !remote.has(third));
    }
}
