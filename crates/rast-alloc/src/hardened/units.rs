//! Which stretches of the address space are segments of ours, and whose, so that a pointer can be looked at before its
//! header is.
//!
//! | unit | what the stretch is |
//! | --- | --- |
//! | 0 | none of ours, or no segment |
//! | [`OWN`] | a segment of a heap of one's own |
//! | from [`FIRST`] | a segment of the thread's heap with this number |
//! | [`MANY`] | a segment of a thread's heap that came when all numbers were taken |
//!
//! Two bytes for each stretch of a segment's length: as address space 64 MiB on x86-64, of which a page is touched for
//! each 8 GiB that segments lie in.
//! By one look here a heap knows its own blocks, if it does not by one at a table of its own ([`Near`]); their headers, each
//! on a page of its own, are not touched for that.

use core::cell::Cell;

use super::HARDENED;
use super::marks::PLACE;
use crate::primitive::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use crate::segment::SEGMENT;

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

    /// Whether the arena's number stands at an address: the arena owns what stands there.
    #[inline(always)]
    pub(crate) fn is_at(&self, address: usize) -> bool {
        at(address) == self.get()
    }
}

/// How many segments an owner knows by [`Near`].
const NEAR: usize = if HARDENED { 128 } else { 0 };

/// Segments of one owner by their addresses, a table in which each has one place: so one load tells of a block whose it
/// is, unless two segments that are a multiple of 512 MiB apart share a place. Of no length but in a hardened build.
pub(crate) struct Near([Cell<usize>; NEAR]);

impl Near {
    /// None yet.
    pub(crate) const fn none() -> Self {
        // The number of no stretch.
        Self([const { Cell::new(usize::MAX) }; NEAR])
    }

    /// Notes a segment of the owner.
    pub(crate) fn note(&self, address: usize) {
        if let Some(place) = self.place(address) {
            place.set(stretch_of(address));
        }
    }

    /// Notes that a segment is the owner's no more.
    pub(crate) fn forget(&self, address: usize) {
        if let Some(place) = self.place(address)
            && place.get() == stretch_of(address)
        {
            place.set(usize::MAX);
        }
    }

    /// Whether a block may start at an address and lies in a segment that is noted: the owner has it.
    #[inline(always)]
    pub(crate) fn has(&self, address: usize) -> bool {
        self.place(address)
            .is_some_and(|place| place.get() == stretch_of(address))
    }

    #[inline(always)]
    fn place(&self, address: usize) -> Option<&Cell<usize>> {
        self.0.get(stretch_of(address) & NEAR.wrapping_sub(1))
    }
}

/// The number of the stretch that an address lies in; of one where no block may start, another number than any segment's.
///
/// Turned to the right, the bits that make an address no multiple of [`PLACE`] are the highest of the number.
#[inline(always)]
fn stretch_of(address: usize) -> usize {
    const TURN: u32 = PLACE.trailing_zeros();
    address.rotate_right(TURN) >> (SEGMENT.trailing_zeros() - TURN)
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

/// What stands at an address: [`NONE`] also where no block may start.
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
        let near = Near::none();
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
        let near = Near::none();
        let (first, second) = (5 * SEGMENT, (5 + NEAR) * SEGMENT);
        near.note(first);
        near.note(second);
        assert!(!near.has(first) && near.has(second));
        near.forget(first);
        assert!(near.has(second));
        near.forget(second);
        assert!(!near.has(first) && !near.has(second));
    }
}
