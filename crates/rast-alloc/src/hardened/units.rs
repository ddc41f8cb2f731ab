//! Which stretches of the address space are segments of ours, and whose, so that a pointer can be
//! looked at before its header is.
//!
//! | unit | what the stretch is |
//! | --- | --- |
//! | 0 | none of ours, or no segment |
//! | [`OWN`] | a segment of a heap of one's own |
//! | from [`FIRST`] | a segment of the thread's heap with this number |
//! | [`MANY`] | a segment of a thread's heap that came when all numbers were taken |
//!
//! Two bytes for each stretch of a segment's length: as address space 64 MiB on x86-64, of which a
//! page is touched for each 8 GiB that segments lie in. By one look here a heap knows its own
//! blocks, if it does not by one at a table of its own ([`Near`]); their headers, each on a page of
//! its own, are not touched for that.

use core::cell::Cell;
use core::ptr;

use super::marks::{self, Mark, PLACE};
use crate::geometry::{HARDENED, SEGMENT};
use crate::primitive::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// Bits of the addresses that a program gets without asking for more.
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
/// A segment of a heap of one's own.
pub(crate) const OWN: u16 = 1;
/// A segment of some thread's heap.
pub(crate) const MANY: u16 = u16::MAX;
const FIRST: u16 = 2;
/// What no segment is noted as.
const NEVER: u16 = MANY - 1;
/// The number of no stretch.
const NOWHERE: usize = usize::MAX;

static TABLE: [AtomicU16; UNITS] = [const { AtomicU16::new(NONE) }; UNITS];

/// The number that the next heap gets.
static NEXT: AtomicUsize = AtomicUsize::new(FIRST as usize);

/// The number of an arena, if it has one; of no length but in a hardened build.
pub(crate) struct Number([Cell<u16>; HARDENED as usize]);

impl Number {
    /// None yet.
    pub(crate) const fn none() -> Self {
        Self([const { Cell::new(NEVER) }; HARDENED as usize])
    }

    /// Takes a number that no other arena has, if there is one left.
    pub(crate) fn take(&self) {
        if let Some(place) = self.0.first() {
            // Relaxed: a number; each addition makes another one. [AH23]
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            place.set(number.min(usize::from(NEVER)) as u16);
        }
    }

    /// The number, or one that no segment is noted with.
    #[inline(always)]
    fn get(&self) -> u16 {
        self.0.first().map_or(NEVER, Cell::get)
    }

    /// What the arena's segments are noted as: its number, or else this.
    pub(crate) fn or(&self, unit: u16) -> u16 {
        match self.get() {
            NEVER => unit,
            number => number,
        }
    }

    /// Whether the arena's number is at an address: the arena owns what is there.
    #[inline(always)]
    pub(crate) fn is_at(&self, address: usize) -> bool {
        at(address) == self.get()
    }
}

/// How many segments of its own an owner knows at once.
///
/// 256, so that the index is a byte of the number: one instruction less than other masks.
const NEAR: usize = if HARDENED { 256 } else { 0 };

/// Segments by their addresses, a table in which each has one place: so one load tells of a block
/// whether its segment is one of them, unless two share a place. Of no length but in a hardened
/// build.
///
/// With [`NEAR`] places two segments share one if they are a multiple of so many segments apart, 1
/// GiB where a segment has 4 MiB.
struct Stretches<const PLACES: usize>([Cell<usize>; PLACES]);

impl<const PLACES: usize> Stretches<PLACES> {
    /// None yet.
    const fn none() -> Self {
        Self([const { Cell::new(NOWHERE) }; PLACES])
    }

    /// Notes the segment at an address; returns where it has its place, if it has one.
    fn note(&self, address: usize) -> Option<usize> {
        let (stretch, index) = Self::place(address);
        self.0.get(index)?.set(stretch);
        Some(index)
    }

    /// Notes that a segment is none of them any more.
    fn forget(&self, address: usize) {
        let (stretch, index) = Self::place(address);
        if let Some(place) = self.0.get(index)
            && place.get() == stretch
        {
            place.set(NOWHERE);
        }
    }

    /// Whether a block may start at an address and lies in a segment that is noted.
    #[inline(always)]
    fn has(&self, address: usize) -> bool {
        let (stretch, index) = Self::place(address);
        self.0
            .get(index)
            .is_some_and(|place| place.get() == stretch)
    }

    /// The number of an address's stretch, and where it has its place.
    #[inline(always)]
    fn place(address: usize) -> (usize, usize) {
        let stretch = stretch_of(address);
        (stretch, stretch & PLACES.wrapping_sub(1))
    }
}

/// An owner's own segments, and by one load more where a block's mark is.
pub(crate) struct Near {
    stretches: Stretches<NEAR>,
    /// For each of them, how far a block's mark is from the block's address turned ([`turned`]), as
    /// a wrapping sum.
    distances: [Cell<usize>; NEAR],
}

impl Near {
    /// None yet.
    pub(crate) const fn none() -> Self {
        Self {
            stretches: Stretches::none(),
            distances: [const { Cell::new(0) }; NEAR],
        }
    }

    /// Notes the segment that a block lies in, or its header.
    ///
    /// # Safety
    ///
    /// 1. The segment is mapped until it is forgotten, or another one has its place.
    pub(crate) unsafe fn note(&self, address: usize) {
        let index = self.stretches.note(address);
        if let Some(place) = index.and_then(|index| self.distances.get(index)) {
            let segment = address & !(SEGMENT - 1);
            place.set(marks::start(segment).wrapping_sub(turned(segment)));
        }
    }

    /// Notes that a segment is none of them any more.
    pub(crate) fn forget(&self, address: usize) {
        self.stretches.forget(address);
    }

    /// Whether a block may start at an address and lies in a segment that is noted.
    #[inline(always)]
    pub(crate) fn has(&self, address: usize) -> bool {
        self.stretches.has(address)
    }

    /// The mark of a block.
    ///
    /// # Safety
    ///
    /// 1. [`has`](Self::has) is true of it.
    #[inline(always)]
    pub(crate) unsafe fn mark_of(&self, block: *mut u8) -> Mark<'_> {
        let (_, index) = Stretches::<NEAR>::place(block.addr());
        let distance = self.distances.get(index).map_or(0, Cell::get);
        let mark = block.map_addr(|address| turned(address).wrapping_add(distance));
        // SAFETY: obligation 1: the segment that is noted is mapped, and the address lies in it and
        // is a multiple of `PLACE`, so that this is one of its marks.
        unsafe { Mark::at(mark) }
    }
}

/// The segment of one block of an owner, by which it knows others of that segment without a table.
#[derive(Clone, Copy)]
pub(crate) struct Around {
    segment: usize,
}

impl Around {
    /// The segment of no block.
    pub(crate) const fn none() -> Self {
        Self { segment: 0 }
    }

    /// The segment that a block lies in.
    #[inline(always)]
    pub(crate) fn of<T>(block: *mut T) -> Self {
        Self {
            segment: block.addr() & !(SEGMENT - 1),
        }
    }

    /// The mark of a block, if one may start there, in this segment.
    ///
    /// # Safety
    ///
    /// 1. The segment is mapped for `'a`; if there is none, `block` lies in one.
    #[inline(always)]
    pub(crate) unsafe fn mark_of<'a, T>(self, block: *mut T) -> Option<Mark<'a>> {
        let place = turned(block.addr().wrapping_sub(self.segment));
        if place >= SEGMENT / PLACE {
            return None;
        }
        let mark = block.map_addr(|_| marks::start(self.segment).wrapping_add(place));
        // SAFETY: obligation 1: `place` is one of the segment's, and no segment is at 0.
        Some(unsafe { Mark::at(mark.cast()) })
    }
}

/// How many segments of others a thread knows at once.
const AFAR: usize = if HARDENED { 8 } else { 0 };

/// Segments of other owners that have blocks in remote-free batches of this thread, and in which
/// one: until that is delivered the segment stays mapped, and its owner's, so neither the table of
/// units nor the owner in its header has to be asked.
pub(crate) struct Afar<P> {
    stretches: Stretches<AFAR>,
    batches: [Cell<*const P>; AFAR],
}

impl<P> Afar<P> {
    /// None yet.
    pub(crate) const fn none() -> Self {
        Self {
            stretches: Stretches::none(),
            batches: [const { Cell::new(ptr::null()) }; AFAR],
        }
    }

    /// Notes the segment of a block that was put into a remote-free batch.
    ///
    /// # Safety
    ///
    /// 1. The remote-free batch, which is this thread's, has the block until it is forgotten.
    #[inline]
    pub(crate) unsafe fn note(&self, block: *mut u8, batch: &P) {
        let index = self.stretches.note(block.addr());
        if let Some(place) = index.and_then(|index| self.batches.get(index)) {
            place.set(batch);
        }
    }

    /// Forgets the segments that have blocks in a remote-free batch.
    #[inline]
    pub(crate) fn forget(&self, batch: *const P) {
        for (stretch, place) in self.stretches.0.iter().zip(&self.batches) {
            if ptr::eq(place.get(), batch) {
                stretch.set(NOWHERE);
            }
        }
    }

    /// Whether a block may start at an address and lies in a segment that is noted.
    #[inline(always)]
    pub(crate) fn has(&self, address: usize) -> bool {
        self.stretches.has(address)
    }

    /// The remote-free batch for a block's owner.
    ///
    /// # Safety
    ///
    /// 1. [`has`](Self::has) is true of it.
    #[inline(always)]
    pub(crate) unsafe fn batch_of(&self, block: *mut u8) -> &P {
        let place = self.batches.get(Stretches::<AFAR>::place(block.addr()).1);
        let batch = place.map_or(ptr::null(), Cell::get);
        // SAFETY: obligation 1: it was noted with the segment, and is this thread's, as is this
        // table.
        unsafe { &*batch }
    }
}

/// An address in units of [`PLACE`]: turned to the right, so that what makes it no multiple of that
/// are the highest bits.
#[inline(always)]
const fn turned(address: usize) -> usize {
    address.rotate_right(PLACE.trailing_zeros())
}

/// The number of the stretch that an address lies in; of one where no block may start, another
/// number than any segment's.
#[inline(always)]
fn stretch_of(address: usize) -> usize {
    turned(address) >> (SEGMENT / PLACE).trailing_zeros()
}

/// Notes a segment, or that it is none any more; returns whether the table reaches there.
pub(crate) fn note(address: usize, unit: u16) -> bool {
    let Some(place) = TABLE.get(address / SEGMENT) else {
        return false;
    };
    // Relaxed: what brings a block of the segment to a thread brings this too. [AH1]
    place.store(unit, Ordering::Relaxed);
    true
}

/// What is at an address: [`NONE`] also where no block may start.
///
/// One comparison finds what the table does not reach, and such addresses.
#[inline(always)]
pub(crate) fn at(address: usize) -> u16 {
    match TABLE.get(stretch_of(address)) {
        // Relaxed: as for [AH1]; of an address that is no block's any answer will do. [AH2]
        Some(place) => place.load(Ordering::Relaxed),
        None => NONE,
    }
}

#[cfg(all(test, feature = "hardened"))]
mod tests {
    use super::*;

    #[test]
    fn near_segments_are_known_by_their_blocks() {
        let near = Stretches::<NEAR>::none();
        assert!(!near.has(0) && !near.has(PLACE));
        let (first, second) = (5 * SEGMENT, 6 * SEGMENT);
        near.note(first);
        near.note(second);
        for start in [first, second] {
            assert!(near.has(start) && near.has(start + SEGMENT - PLACE));
            assert!((1..PLACE).all(|more| !near.has(start + more)));
        }
        assert!(!near.has(first - PLACE) && !near.has(second + SEGMENT));
        near.forget(first);
        assert!(!near.has(first) && near.has(second));
    }

    #[test]
    fn of_two_segments_with_one_place_the_later_has_it() {
        let near = Stretches::<NEAR>::none();
        let (first, second) = (5 * SEGMENT, (5 + NEAR) * SEGMENT);
        near.note(first);
        near.note(second);
        assert!(!near.has(first) && near.has(second));
        near.forget(first);
        assert!(near.has(second));
        near.forget(second);
        assert!(!near.has(first) && !near.has(second));
    }

    #[test]
    fn segments_of_others_are_known_while_their_batch_is() {
        let afar = Afar::<u8>::none();
        let (one, other) = (0_u8, 1_u8);
        let block = |address: usize| ptr::without_provenance_mut::<u8>(address);
        let note = |address, batch| {
            // SAFETY: neither a mark nor what is in a remote-free batch is asked for, so nothing is
            // touched but these bytes.
            unsafe { afar.note(block(address), batch) };
        };
        // SAFETY: as above, and `has` says that it is there.
        let batch_of = |address| unsafe { ptr::from_ref(afar.batch_of(block(address))) };
        let (first, second, third) = (5 * SEGMENT, 6 * SEGMENT, (5 + AFAR) * SEGMENT);
        note(first + PLACE, &one);
        note(second + PLACE, &other);
        assert!(afar.has(first + 7 * PLACE) && !afar.has(first + 1) && !afar.has(third));
        assert!(ptr::eq(batch_of(first), &one) && ptr::eq(batch_of(second), &other));
        // The third one takes the first one's place.
        note(third, &other);
        assert!(!afar.has(first) && ptr::eq(batch_of(third), &other));
        afar.forget(&one);
        assert!(afar.has(second) && afar.has(third));
        afar.forget(&other);
        assert!(!afar.has(second) && !afar.has(third));
    }
}
