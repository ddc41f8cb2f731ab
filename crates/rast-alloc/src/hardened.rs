//! Hardening, behind the feature of that name: misuse is seen when it happens, or when the block is next used, and named.
//!
//! | what | how it is seen |
//! | --- | --- |
//! | a block freed twice | its mark says that it is free, or on its way to its owner ([`marks`]) |
//! | a pointer into a block, or into none | no mark, or no segment there ([`units`]) |
//! | a block of another heap | its segment names another owner |
//! | a layout of another class or length | the mark says which class the block is of; spans know their length |
//! | a large block freed twice, or not a block, or of another length | the register of mappings ([`register`]) |
//! | a free block written to | its link leads to no free block ([`link`]), or its poison is damaged ([`poison`]) |
//! | a write past a segment or a large block, into a header, or to a large block that is kept | pages nobody may touch |
//!
//! All of it is exact but for the link and the poison, which see what was written where they stand: in the first two
//! words of a block that its owner has.
//!
//! 1. A mark is a byte for each 16 bytes of a segment, in its header: what begins there.
//! 2. Who frees a block of its own heap changes the mark by a load and a store; who frees another's, by an exchange. If
//!    two threads free a block at once, either one of them sees the other's mark, or the owner finds another mark than
//!    "posted" when the block arrives: both are named.
//! 3. Nothing here allocates, waits or takes a lock.
//!
//! Without the feature the tables have no length and the checks are not compiled.

use core::fmt;

use crate::Layout;
use crate::arena::{Arena, LARGE, Level, SPANS};
use crate::block::Block;
use crate::misuse;
use crate::segment::Segment;
use crate::size_class::size_of_class;
use crate::span::{Span, bytes_for};
use core::ptr::{self, NonNull};

pub(crate) mod link;
pub(crate) mod marks;
pub(crate) mod poison;
pub(crate) mod register;
pub(crate) mod units;

use marks::{FREED, POSTED, live};
use units::Kind;

/// Whether this build is hardened.
pub(crate) const HARDENED: bool = cfg!(feature = "hardened");

/// Ends the process unless `block` lies in a segment of a thread's heap.
#[inline(always)]
pub(crate) fn check_segment(block: *mut u8, layout: Layout) {
    if units::kind(block.addr()) != Kind::Threads as u8 {
        end(block, Level::of(layout).slot(), layout.size());
    }
}

/// Ends the process unless `block` may be a block of this arena with this layout.
pub(crate) fn check_own(arena: &Arena, block: *mut u8, layout: Layout) {
    let level = Level::of(layout);
    if level == Level::Large {
        return;
    }
    if !is_of(arena, block, layout) {
        end(block, level.slot(), layout.size());
    }
}

/// Whether `block` may be a block of this arena with this layout, whose large blocks are tracked.
pub(crate) fn is_of(arena: &Arena, block: *mut u8, layout: Layout) -> bool {
    if Level::of(layout) == Level::Large {
        return arena.knows_large(block, layout);
    }
    // SAFETY: where the units know a segment, its header is mapped.
    units::kind(block.addr()) != Kind::None as u8
        && ptr::eq(unsafe { Segment::owner_of(block) }, arena.owner())
}

/// Ends the process unless `block`, which lies in a segment, is in use with this slot and size.
#[inline(always)]
pub(crate) fn check_used(block: *mut u8, slot: usize, size: usize) {
    if marks::read(block) != live(slot) || !marks::is_place(block) {
        end(block, slot, size);
    }
    if slot == SPANS {
        check_length(block, size);
    }
}

/// Ends the process unless the used span at `block` is as long as its size asks.
fn check_length(block: *mut u8, size: usize) {
    // SAFETY: blocks are never null.
    let start = unsafe { NonNull::new_unchecked(block) };
    // SAFETY: the mark says that a span in use starts there; its length changes only when its user asks for it.
    if unsafe { Span::at_start(start) }.bytes() != bytes_for(size) {
        end(block, SPANS, size);
    }
}

/// A block of a class is given back to the arena that has it: ends the process unless it is in use.
#[inline(always)]
pub(crate) fn retire(block: *mut u8, class: usize, size: usize) {
    if marks::read(block) != live(class) || !marks::is_place(block) {
        end(block, class, size);
    }
    marks::write(block, FREED);
    poison::write(block);
}

/// A block of any level is given back to the arena that has it: ends the process unless it is in use.
pub(crate) fn retire_any(block: *mut u8, slot: usize, size: usize) {
    check_used(block, slot, size);
    marks::write(block, FREED);
    poison::write(block);
}

/// A block is given out.
#[inline(always)]
pub(crate) fn revive(block: *mut u8, slot: usize) {
    marks::write(block, live(slot));
}

/// A block of a class is given out, from a list in which `next` follows.
///
/// That `next` is a free block is looked at when it is given out itself; by then its mark is at hand.
#[inline(always)]
pub(crate) fn revive_listed(block: *mut Block, next: *mut Block, class: usize) {
    if !next.is_null() && !is_in_segment(next) {
        damaged(block, next);
    }
    if marks::read(block.cast()) != FREED {
        astray(block);
    }
    if !poison::is_intact(block.cast()) {
        written(block);
    }
    marks::write(block.cast(), live(class));
}

/// A block that was never in use, or not as this one, is about to stand in a list.
#[inline]
pub(crate) fn prepare(block: *mut Block) {
    marks::write(block.cast(), FREED);
    poison::write(block.cast());
}

/// Ends the process unless `next`, which `block` links to, is a free block or none.
#[inline(always)]
pub(crate) fn check_link(block: *mut Block, next: *mut Block) {
    if !next.is_null() && !is_marked(next, FREED) {
        damaged(block, next);
    }
}

/// A block of another heap goes into a parcel: ends the process unless it is in use. Its memory is not touched.
pub(crate) fn post(block: *mut u8, slot: usize, size: usize) {
    let found = marks::exchange(block, POSTED);
    if found != live(slot) || !marks::is_place(block) {
        marks::write(block, found);
        end(block, slot, size);
    }
    if slot == SPANS {
        check_length(block, size);
    }
}

/// Ends the process unless a block that arrived is on its way, and this arena's.
#[inline]
pub(crate) fn check_posted(arena: &Arena, block: *mut Block) {
    if !is_marked(block, POSTED) {
        arrived(block);
    }
    // SAFETY: a marked block lies in a segment.
    if !ptr::eq(unsafe { Segment::owner_of(block) }, arena.owner()) {
        arrived(block);
    }
}

/// A block that arrived becomes a free one.
#[inline]
pub(crate) fn accept(arena: &Arena, block: *mut Block) {
    check_posted(arena, block);
    marks::write(block.cast(), FREED);
    poison::write(block.cast());
}

#[inline(always)]
fn is_in_segment(block: *mut Block) -> bool {
    marks::is_place(block) && units::kind(block.addr()) != Kind::None as u8
}

#[inline(always)]
fn is_marked(block: *mut Block, mark: u8) -> bool {
    is_in_segment(block) && marks::read(block.cast()) == mark
}

#[cold]
fn astray(block: *mut Block) -> ! {
    misuse::end(format_args!(
        "a link of a free block is damaged: it leads to {block:p}, which is none; was it written to after it was freed?"
    ))
}

#[cold]
fn damaged(block: *mut Block, next: *mut Block) -> ! {
    misuse::end(format_args!(
        "the link in the free block {block:p} is damaged: it leads to {next:p}; was it written to after it was freed?"
    ))
}

#[cold]
fn written(block: *mut Block) -> ! {
    misuse::end(format_args!(
        "the free block {block:p} was written to after it was freed"
    ))
}

#[cold]
fn arrived(block: *mut Block) -> ! {
    misuse::end(format_args!(
        "double free of {block:p}: it came from another thread, but is not on its way to this heap"
    ))
}

/// How a block of a slot is called in messages.
struct Called(usize);

impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SPANS => f.write_str("span"),
            LARGE => f.write_str("mapping"),
            class => write!(f, "{}-byte class", size_of_class(class)),
        }
    }
}

/// Ends the process because `block` is none that could be given back with a layout of this slot and size; says why.
#[cold]
#[inline(never)]
pub(crate) fn end(block: *mut u8, slot: usize, size: usize) -> ! {
    let claimed = Called(slot);
    match register::look(block.addr()) {
        register::Found::Live { bytes } if slot == LARGE => misuse::end(format_args!(
            "{block:p} freed with a layout of {size} bytes, but allocated as {bytes} bytes of another heap or alignment"
        )),
        register::Found::Live { bytes } => misuse::end(format_args!(
            "{block:p} freed with a layout of {size} bytes ({claimed}), but allocated as a mapping of {bytes} bytes"
        )),
        register::Found::Freed => misuse::end(format_args!("double free of {block:p} (mapping)")),
        register::Found::Nothing => {}
    }
    if units::kind(block.addr()) == Kind::None as u8 {
        misuse::end(format_args!("pointer not from this allocator: {block:p}"));
    }
    if !marks::is_place(block) {
        misuse::end(format_args!(
            "pointer not from this allocator: {block:p} is no start of a block"
        ));
    }
    match marks::read(block) {
        0 => misuse::end(format_args!(
            "pointer not from this allocator: {block:p} is no start of a block"
        )),
        FREED => misuse::end(format_args!("double free of {block:p} ({claimed})")),
        POSTED => misuse::end(format_args!(
            "double free of {block:p} ({claimed}), which another thread freed"
        )),
        mark if mark == live(slot) && slot != SPANS => misuse::end(format_args!(
            "pointer not from this allocator: {block:p} is a block of another heap"
        )),
        mark => misuse::end(format_args!(
            "{block:p} freed with a layout of {size} bytes ({claimed}), but allocated as {}",
            Called(usize::from(mark) - 1)
        )),
    }
}
