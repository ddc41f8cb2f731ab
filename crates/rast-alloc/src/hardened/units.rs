//! Which stretches of the address space are segments of ours, so that a pointer can be looked at before its header is.
//!
//! A byte for each stretch of a segment's length: as address space 32 MiB on x86-64, of which a page is touched for each
//! 16 GiB that segments lie in.

use super::HARDENED;
use crate::primitive::sync::atomic::{AtomicU8, Ordering};
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

/// What a stretch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Not ours, or not a segment.
    None = 0,
    /// A segment of a thread's heap.
    Threads = 1,
    /// A segment of a heap of one's own.
    Own = 2,
}

static TABLE: [AtomicU8; UNITS] = [const { AtomicU8::new(Kind::None as u8) }; UNITS];

/// Notes a segment, or that it is none any more; returns whether the table reaches there.
pub(crate) fn note(address: usize, kind: Kind) -> bool {
    let Some(unit) = TABLE.get(address / SEGMENT) else {
        return false;
    };
    // Relaxed: what brings a block of the segment to a thread brings this too. [AH1]
    unit.store(kind as u8, Ordering::Relaxed);
    true
}

/// What stands at an address.
#[inline(always)]
pub(crate) fn kind(address: usize) -> u8 {
    match TABLE.get(address / SEGMENT) {
        // Relaxed: as for [AH1]; of an address that is no block's any answer will do. [AH2]
        Some(unit) => unit.load(Ordering::Relaxed),
        None => Kind::None as u8,
    }
}
