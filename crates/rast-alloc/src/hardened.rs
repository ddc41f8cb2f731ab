//! Hardening, behind the feature of that name: misuse is seen when it happens, or when the block is
//! next used, and named.
//!
//! | what | how it is seen |
//! | --- | --- |
//! | a block freed twice | its mark says that it is free ([`marks`]) |
//! | a pointer into a block, or into none | no mark, no segment there ([`units`]), or a slab whose blocks start elsewhere |
//! | a block of another heap | its segment has another number, or names another owner |
//! | a layout of another class or length | the mark, or the slab, says which class the block is of; spans know their length |
//! | a large block freed twice, or not a block, or of another length | the register of mappings ([`register`]) |
//! | a free block written to | its link is there twice, and the two differ ([`link`]) |
//! | a block written to while it is on its way | its seal is not that of what it says ([`crate::remote_batch`], [`link`]) |
//! | a write past a segment or a large block, into a header, or to a large block that is kept | pages no thread may touch |
//!
//! Links and seals see what was written where they are: in the first words of a block that its
//! owner has, or that carries others to him. All else is exact, within the following rules.
//!
//! 1. A mark is a byte for each 16 bytes of a segment, in its header: what begins there. A block of
//!    a slab has its mark changed by its owner alone, so the line that it is on stays with one
//!    processor.
//! 2. The owner looks at the mark of a block that he frees, and of one that arrives, and makes it
//!    "freed" before the block goes into a list; he makes it "in use" when he gives the block out.
//!    So a block is in one list at most, once, the thread that frees it how often. A second free is
//!    named, his own at the call, another thread's when it arrives, unless the block was given out
//!    between the two: then it frees what is in use there, unseen, and the thread that uses that is
//!    named by his own free, unless the block was given out once more.
//! 3. Another thread that frees a block of a slab asks the segment's header for the class that the
//!    slot serves, and whether a block of it starts there ([`may_post`]): lines that hardly change.
//!    It looks at the mark as well ([`post`]) on slow paths, as when it opens a remote-free batch,
//!    and everywhere if debug assertions are on: what it finds to be freed, or not given out yet,
//!    is named at the call, else when it arrives. What it frees twice may be its batch header,
//!    which it writes to, no matter which thread has the block then; where the segment is unmapped
//!    that faults, there or when the message arrives. Else the message is named when it arrives, or
//!    the links that it damaged are.
//! 4. Who frees a span of another owner changes its mark by an exchange: a span that comes back is
//!    joined at once.
//! 5. What the checks of a fast path do not like is left to the slow one, which looks again and
//!    says why.
//! 6. A heap knows its own blocks by the addresses of its segments ([`units::Near`]), those of
//!    others by the segments whose blocks lie in its remote-free batches ([`units::Afar`]), and
//!    what returns to it goes by the class in its mark: fast paths ask no slab.
//! 7. Nothing here allocates, waits or takes a lock.
//!
//! Without the feature the tables have no length and the checks are not compiled.

use core::fmt;

use crate::Layout;
use crate::block::Block;
use crate::level::{LARGE, Level, SLOTS, SPANS};
use crate::misuse;
use crate::os::PAGE;
use crate::segment::Segment;
use crate::size_class::{SLAB_CLASSES, size_of_class};
use crate::span::{Span, bytes_for};
use core::ptr::NonNull;

pub(crate) mod link;
pub(crate) mod marks;
pub(crate) mod register;
pub(crate) mod units;

use link::Keys;
use marks::{FREED, GONE, Mark, PLACE, live, posted, slot_posted};

/// Ends the process unless `block` lies in a segment of a thread's heap.
pub(crate) fn check_segment(block: *mut u8, layout: Layout) {
    if matches!(units::at(block.addr()), units::NONE | units::OWN) {
        end(block, Level::of(layout).slot(), layout.size());
    }
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
    // SAFETY: the mark says that a span in use starts there; its length changes only when its user
    // asks for it.
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

/// A block of a list is given out; `false`, and nothing has changed, if its two links differ. Its
/// links are no links then, wherever a damaged link leads to it.
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

/// A block of another heap is given back: ends the process unless it is in use. Its memory is not
/// touched.
#[inline]
pub(crate) fn post(block: *mut u8, slot: usize, size: usize) {
    let mark = Mark::of(block);
    if slot < SLAB_CLASSES {
        if !mark.is_live(slot) {
            end(block, slot, size);
        }
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

/// Whether a block of another owner may go into a remote-free batch: its segment says that a block
/// of the class starts there. The mark is not read, unless debug assertions are on.
///
/// # Safety
///
/// 1. `block` lies in a segment that is mapped, where a block may start.
#[inline(always)]
pub(crate) unsafe fn may_post(block: *mut u8, class: usize) -> bool {
    // SAFETY: obligation 1.
    let is_start = unsafe { Segment::is_start(block, class) };
    is_start && (!cfg!(debug_assertions) || is_used(block, class))
}

/// Ends the process if what arrived as the head of a large block lies in a segment, or at no page.
pub(crate) fn check_head(head: *mut Block) {
    let is_page = !head.is_null() && head.addr().is_multiple_of(PAGE);
    if !is_page || units::at(head.addr()) != units::NONE {
        misled(head);
    }
}

/// Ends the process because a list led to `block`, which is not free.
#[cold]
fn astray(block: *mut Block) -> ! {
    let found = match Mark::of(block).read() {
        0 => "none",
        _ => "in use",
    };
    misuse::end(format_args!(
        "a link of a free block is damaged: it leads to {block:p}, which is {found}; was it written to after it was freed?"
    ))
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

/// Ends the process because a block of this heap that another thread freed is not on its way.
#[cold]
#[inline(never)]
pub(crate) fn arrived(block: *mut Block) -> ! {
    match Mark::of(block).read() {
        0 => misuse::end(format_args!(
            "pointer not from this allocator: {block:p}, which another thread freed, is no start of a block"
        )),
        FREED | GONE => misuse::end(format_args!(
            "double free of {block:p}: it is free already, and another thread freed it too"
        )),
        _ => misuse::end(format_args!(
            "double free of {block:p}: another thread freed it twice, or a block on its way was written to after it was freed"
        )),
    }
}

/// Ends the process because what arrived at a heap is none of its blocks, or none of that kind.
#[cold]
#[inline(never)]
pub(crate) fn misled(block: *mut Block) -> ! {
    misuse::end(format_args!(
        "double free of {block:p}, which is no block of its heap any more, or a block on its way was written to after it was freed"
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

/// Ends the process because `block` is none that could be given back with a layout of this slot and
/// size; says why.
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
