//! Hardening, behind the feature of that name: misuse is seen when it happens, or when the block is next used, and named.
//!
//! | what | how it is seen |
//! | --- | --- |
//! | a block freed twice | its mark says that it is free, or on its way to its owner ([`marks`]) |
//! | a pointer into a block, or into none | no mark, or no segment there ([`units`]) |
//! | a block of another heap | its segment has another number, or names another owner |
//! | a layout of another class or length | the mark says which class the block is of; spans know their length |
//! | a large block freed twice, or not a block, or of another length | the register of mappings ([`register`]) |
//! | a free block written to | its link stands there twice, and the two differ ([`link`]) |
//! | a write past a segment or a large block, into a header, or to a large block that is kept | pages nobody may touch |
//!
//! All of it is exact but for the links, which see what was written where they stand: in the first two words of a block
//! that its owner has.
//!
//! 1. A mark is a byte for each 16 bytes of a segment, in its header: what begins there.
//! 2. Who frees a block of a slab looks at its mark and stores another: "freed" if it is the owner, else "posted". That
//!    is no exchange, so of two threads that free one block at the same moment both may have found it in use. Then it is
//!    the owner who names it, as it alone takes blocks in and gives them out:
//!    - A letter makes "posted" to "freed" when it arrives, and is named if it finds another mark: "freed", or that of a
//!      block in use. So of two letters the second is, and the letter if the owner's "freed" stays, or was followed by
//!      the mark of a block in use.
//!    - Or the letter's "posted" stands on a block that the owner put into a list, and is taken away when that arrives: then
//!      the block stands in lists twice. It is given out once: that spoils its links ([`link`]), so it is named when a list
//!      leads to it again, unless it was freed and linked anew, or when its slab is given up ([`give_up`]) or has more
//!      blocks back than it gave out.
//!
//!    So but by chance no block is given out, nor its slab, while it is in use. What is not seen is a second call that ends
//!    after the block was given out again: it frees what is in use there then. And where a thread that frees a block at
//!    the same moment as its owner made a carrier of it ([`crate::parcel`]), it may write there until its letter arrives
//!    and is named, although the owner gave the block out meanwhile; mostly that spoils the links, and is named before.
//! 3. Who frees a span of another owner changes its mark by an exchange: a span that comes back is joined at once.
//! 4. What the checks of a fast path do not like is left to the slow one, which looks again and says why.
//! 5. A heap knows its own blocks by the addresses of its segments ([`units::Near`]), those of others by the segments whose
//!    blocks lie in its parcels ([`units::Afar`]), and what comes home goes by the class that the mark of a posted block
//!    keeps: fast paths ask no header and no slab.
//! 6. Nothing here allocates, waits or takes a lock.
//!
//! Without the feature the tables have no length and the checks are not compiled.

use core::fmt;

use crate::Layout;
use crate::arena::{Arena, LARGE, Level, SLOTS, SPANS};
use crate::block::Block;
use crate::misuse;
use crate::os::PAGE;
use crate::segment::Segment;
use crate::size_class::{SLAB_CLASSES, size_of_class};
use crate::span::{Span, bytes_for};
use core::ptr::{self, NonNull};

pub(crate) mod link;
pub(crate) mod marks;
pub(crate) mod register;
pub(crate) mod units;

use link::Keys;
use marks::{FREED, GONE, Mark, PLACE, live, posted, slot_posted};

/// Whether this build is hardened.
pub(crate) const HARDENED: bool = cfg!(feature = "hardened");

/// Ends the process unless `block` lies in a segment of a thread's heap.
pub(crate) fn check_segment(block: *mut u8, layout: Layout) {
    if matches!(units::at(block.addr()), units::NONE | units::OWN) {
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
    is_in(arena, block)
}

/// Whether `block` lies where a block of this arena may start.
#[inline]
fn is_in(arena: &Arena, block: *mut u8) -> bool {
    // SAFETY: where the units know a segment, its header is mapped.
    let is_named = || ptr::eq(unsafe { Segment::owner_of(block) }, arena.owner());
    arena.is_known(block) || units::at(block.addr()) != units::NONE && is_named()
}

/// Ends the process unless `block`, which lies in a segment, is in use with this slot and size.
#[inline]
pub(crate) fn check_used(block: *mut u8, slot: usize, size: usize) {
    if !is_used(block, slot) {
        end(block, slot, size);
    }
    if slot == SPANS {
        check_length(block, size);
    }
}

/// Whether `block`, which lies in a segment, is in use with this slot.
#[inline(always)]
pub(crate) fn is_used(block: *mut u8, slot: usize) -> bool {
    Mark::of(block).is_live(slot)
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

/// A block in use is given back to the arena that has it.
#[inline(always)]
pub(crate) fn retire(block: *mut u8) {
    Mark::of(block).write(FREED);
}

/// A block is given out.
#[inline(always)]
pub(crate) fn revive(block: *mut u8, slot: usize) {
    Mark::of(block).write(live(slot));
}

/// A block of a list is given out; `false`, and nothing has changed, if its two links differ. Its links are no links then:
/// where it stands in a list a second time it is not given out again.
///
/// # Safety
///
/// 1. `block` is the first of a list of the arena that has these keys, and of `class`.
#[inline(always)]
pub(crate) unsafe fn take(block: *mut Block, class: usize, keys: &Keys) -> bool {
    // SAFETY: obligation 1: links of lists are written twice.
    let is_free = unsafe { keys.is_repeated(block) };
    if is_free {
        revive(block.cast(), class);
        // SAFETY: obligation 1: the block is the caller's, and two words long at least.
        unsafe { link::spoil(block) };
    }
    is_free
}

/// Ends the process unless a list leads to a free block that links to `next`.
///
/// # Safety
///
/// 1. `block` is in a list, and the caller alone has it; its first link leads to `next`.
#[inline]
pub(crate) unsafe fn check_listed(block: *mut Block, next: *mut Block) {
    if Mark::of(block).read() != FREED {
        astray(block);
    }
    // SAFETY: obligation 1.
    if !unsafe { link::is_repeated(block) } {
        damaged(block, next);
    }
}

/// A block that was never in use, or not as this one, is about to stand in a list.
#[inline]
pub(crate) fn prepare(block: *mut Block) {
    Mark::of(block).write(FREED);
}

/// A block of another heap goes into a parcel: ends the process unless it is in use. Its memory is not touched.
#[inline]
pub(crate) fn post(block: *mut u8, slot: usize, size: usize) {
    let mark = Mark::of(block);
    if slot < SLAB_CLASSES {
        if !mark.is_live(slot) {
            end(block, slot, size);
        }
        mark.write(posted(slot));
        return;
    }
    let found = mark.exchange(posted(slot));
    if found != live(slot) {
        mark.write(found);
        end(block, slot, size);
    }
    if slot == SPANS {
        check_length(block, size);
    }
}

/// Ends the process unless a block that arrived lies where one of this arena may start.
#[inline]
fn check_home(arena: &Arena, block: *mut Block) {
    if !is_in(arena, block.cast()) {
        arrived(block);
    }
}

/// Ends the process unless a block that arrived is on its way, and this arena's; returns its slot.
#[inline]
pub(crate) fn check_posted(arena: &Arena, block: *mut Block) -> usize {
    check_home(arena, block);
    let slot = slot_posted(Mark::of(block).read());
    if slot >= SLOTS {
        arrived(block);
    }
    slot
}

/// Ends the process if what arrived as the head of a large block lies in a segment, or at no page.
pub(crate) fn check_head(head: *mut Block) {
    let is_page = !head.is_null() && head.addr().is_multiple_of(PAGE);
    if !is_page || units::at(head.addr()) != units::NONE {
        arrived(head);
    }
}

/// A block that arrived becomes a free one; returns its slot. Ends the process unless it is on its way, and this arena's.
#[inline(always)]
pub(crate) fn accept(arena: &Arena, block: *mut Block) -> usize {
    let mark = if arena.has_near(block.cast()) {
        // SAFETY: the block is known to be this arena's.
        unsafe { arena.near_mark(block.cast()) }
    } else {
        check_home(arena, block);
        Mark::of(block)
    };
    let slot = slot_posted(mark.read());
    if slot >= SLOTS {
        arrived(block);
    }
    mark.write(FREED);
    slot
}

/// A slab is given up: ends the process unless its blocks, so many of a class from `start` on, are free.
pub(crate) fn give_up(start: *mut u8, class: usize, count: usize) {
    for index in 0..count {
        let block = start.wrapping_add(index * size_of_class(class));
        if Mark::of(block).read() != FREED {
            given_up(block);
        }
        Mark::of(block).write(GONE);
    }
}

/// Ends the process because a slab has more blocks back than it gave out.
#[cold]
pub(crate) fn given_up(block: *mut u8) -> ! {
    misuse::end(format_args!(
        "double free of a block of the slab of {block:p}, by two threads at once"
    ))
}

/// Ends the process because a list led to `block`, which is not free.
#[cold]
fn astray(block: *mut Block) -> ! {
    match Mark::of(block).read() {
        0 => misuse::end(format_args!(
            "a link of a free block is damaged: it leads to {block:p}, which is none; was it written to after it was freed?"
        )),
        _ => misuse::end(format_args!(
            "double free of {block:p}, by two threads at once, or a damaged link of another free block"
        )),
    }
}

/// Ends the process because the two links in `block` differ; the first one leads to `next`.
#[cold]
#[inline(never)]
fn damaged(block: *mut Block, next: *mut Block) -> ! {
    let is_free = || units::at(next.addr()) != units::NONE && Mark::of(next).read() == FREED;
    if next.is_null() || is_free() {
        misuse::end(format_args!(
            "the free block {block:p} was written to after it was freed"
        ));
    }
    misuse::end(format_args!(
        "the link in the free block {block:p} is damaged: it leads to {next:p}; was it written to after it was freed?"
    ))
}

#[cold]
#[inline(never)]
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
    let stretch = block.map_addr(|address| address & !(PLACE - 1));
    if units::at(stretch.addr()) == units::NONE {
        misuse::end(format_args!("pointer not from this allocator: {block:p}"));
    }
    if !marks::is_place(block) {
        misuse::end(format_args!(
            "pointer not from this allocator: {block:p} is no start of a block"
        ));
    }
    match Mark::of(block).read() {
        0 => misuse::end(format_args!(
            "pointer not from this allocator: {block:p} is no start of a block"
        )),
        FREED | GONE => misuse::end(format_args!("double free of {block:p} ({claimed})")),
        mark if slot_posted(mark) < SLOTS => misuse::end(format_args!(
            "double free of {block:p} ({claimed}), which another thread freed"
        )),
        mark if mark == live(slot) && slot != SPANS => misuse::end(format_args!(
            "pointer not from this allocator: {block:p} is a block of another heap"
        )),
        mark => misuse::end(format_args!(
            "{block:p} freed with a layout of {size} bytes ({claimed}), but allocated as {}",
            Called(usize::from(mark))
        )),
    }
}
