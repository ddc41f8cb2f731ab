//! The feature `hardened`: detects misuse when it happens, or when the block is next used, and
//! reports it.
//!
//! | misuse | detected by |
//! | --- | --- |
//! | a block freed twice | its mark, which says that it is free ([`marks`]) |
//! | a pointer into a block, or to no block | no mark, no segment there ([`page_map`]), or a slab whose blocks start elsewhere |
//! | a block of another heap | the number or the owner of its segment |
//! | a layout of another class or length | the mark or the slab, which have the class; the tag of a span, which has its length |
//! | a large block freed twice, a pointer to no large block, another length | the register of mappings ([`register`]) |
//! | a write to a free block | its link, which is stored twice ([`link`]) |
//! | a write to a block in transit | its seal ([`crate::remote_batch`], [`link`]) |
//! | a write past a segment or a large block, into a header, or to a cached large block | guard pages |
//!
//! A block is *in transit* from the moment another thread frees it until its owner handles the
//! message. Links and seals detect only writes to the words where they are: the first words of a
//! free block, or of a batch header in transit. The other checks detect all misuse of their kind,
//! with the exceptions that these rules name:
//!
//! 1. A segment's header has one byte, a *mark*, for each 16 bytes of the segment. The mark is the
//!    state of the block that starts at these 16 bytes. Only the owner changes the marks of a
//!    slab's blocks, so their cache line stays with one processor.
//! 2. The owner checks the mark of each block that it frees, and of each block that arrives from
//!    another thread. It sets the mark to "freed" before the block goes into a list, and to "in
//!    use" when it allocates the block. So a block is in at most one list, once, however often it
//!    is freed. A double free by the owning thread is reported at the call. A double free by
//!    another thread is reported when the block arrives. If the block was allocated again in
//!    between, the second free releases the new allocation undetected. The error is then reported
//!    when the new user frees the block, unless the block was allocated once more.
//! 3. Another thread that frees a block of a slab reads the class of the slot in the segment's
//!    header, and checks that a block of this class starts at the freed address ([`may_post`]). The
//!    cache lines that this check reads rarely change. On slow paths, such as the opening of a
//!    remote-free batch, it also checks the mark ([`post`]); with debug assertions it always checks
//!    the mark. If it checks the mark, a mark that is "freed" or was never set is reported at the
//!    call. Otherwise such a mark is reported when the block arrives.
//!
//!    If another thread frees a block twice, the block may become a batch header. Then the thread
//!    writes to the block, even if the block is in use again. If the segment has been unmapped,
//!    this write faults, or the owner faults when it reads the message. Otherwise the owner reports
//!    the damage when the message arrives.
//! 4. A thread that frees a span of another owner changes the span's mark by an exchange. So the
//!    second of two frees is detected at the call. A check at arrival would be too late. The owner
//!    joins an arrived span with its neighbours at once, so the second message would name a part of
//!    a larger span.
//! 5. A check that fails in a fast path leads to the slow path, which checks again and reports.
//! 6. A heap recognises its own blocks by the addresses of its segments
//!    ([`page_map::OwnSegments`]), and blocks of other heaps by the addresses of the segments that
//!    have blocks in its open batches ([`page_map::RemoteSegments`]). The mark of a block that
//!    arrives has the block's class. So fast paths read no slab.
//! 7. Nothing here allocates, waits or takes a lock.
//!
//! Without the feature the tables have length zero and the checks are not compiled.

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
pub(crate) mod page_map;
pub(crate) mod register;

use link::Keys;
use marks::{FREED, GONE, Mark, PLACE, live, posted, slot_posted};

/// Ends the process unless `block` lies in a segment of a thread's heap.
pub(crate) fn check_segment(block: *mut u8, layout: Layout) {
    if matches!(page_map::at(block.addr()), page_map::NONE | page_map::OWN) {
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

/// Returns `true` if `block`, which lies in a segment, is in use with this slot.
#[inline(always)]
pub(crate) fn is_used(block: *mut u8, slot: usize) -> bool {
    Mark::of(block).is_live(slot)
}

/// Ends the process unless the used span at `block` has the length for this size.
fn check_length(block: *mut u8, size: usize) {
    // SAFETY: blocks are never null.
    let start = unsafe { NonNull::new_unchecked(block) };
    // SAFETY: the mark says that a span in use starts there; its length changes only at its user's
    // request.
    if unsafe { Span::at_start(start) }.bytes() != bytes_for(size) {
        end(block, SPANS, size);
    }
}

/// Records that a block in use was freed by its own arena.
#[inline(always)]
pub(crate) fn retire(block: *mut u8) {
    Mark::of(block).write(FREED);
}

/// Records that a block is allocated.
#[inline(always)]
pub(crate) fn set_live(block: *mut u8, slot: usize) {
    Mark::of(block).write(live(slot));
}

/// Records that a listed block is allocated. Returns `false`, and changes nothing, if its two links
/// differ. Afterwards its words are no valid link, in case a damaged link leads to it.
///
/// # Safety
///
/// 1. `block` is the first of a list of the arena that has these keys, and of `class`.
#[inline(always)]
pub(crate) unsafe fn take(block: *mut Block, class: usize, keys: &Keys) -> bool {
    // SAFETY: obligation 1: links of lists are written twice.
    let is_free = unsafe { keys.is_repeated(block) };
    if is_free {
        set_live(block.cast(), class);
        // SAFETY: obligation 1: the block is the caller's, and at least two words long.
        unsafe { link::invalidate(block) };
    }
    is_free
}

/// Ends the process unless a listed block is free and its link is undamaged and leads to `next`.
///
/// # Safety
///
/// 1. `block` is in a list, and the caller alone has it; its first link leads to `next`.
#[inline]
pub(crate) unsafe fn check_listed(block: *mut Block, next: *mut Block) {
    if Mark::of(block).read() != FREED {
        not_free(block);
    }
    // SAFETY: obligation 1.
    if !unsafe { link::is_repeated(block) } {
        damaged(block, next);
    }
}

/// Records that a block of another heap is freed; ends the process unless it is in use. Does not
/// access its memory.
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

/// Returns `true` if a block of another owner may be put into a remote-free batch: a block of the
/// class starts there. Reads the mark only with debug assertions.
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

/// Ends the process if the address that arrived as the header of a large block lies in a segment,
/// or is not the start of a page.
pub(crate) fn check_head(head: *mut Block) {
    let is_page = !head.is_null() && head.addr().is_multiple_of(PAGE);
    if !is_page || page_map::at(head.addr()) != page_map::NONE {
        not_a_block(head);
    }
}

/// Ends the process because a list led to `block`, which is not free.
#[cold]
fn not_free(block: *mut Block) -> ! {
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
    let is_free = || page_map::at(next.addr()) != page_map::NONE && Mark::of(next).read() == FREED;
    if next.is_null() || is_free() {
        misuse::end(format_args!(
            "the free block {block:p} was written to after it was freed"
        ));
    }
    misuse::end(format_args!(
        "the link in the free block {block:p} is damaged: it leads to {next:p}; was it written to after it was freed?"
    ))
}

/// Ends the process because a block of this heap that arrived is not in transit.
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

/// Ends the process because an address that arrived is no block of the heap, or a block of another
/// kind.
#[cold]
#[inline(never)]
pub(crate) fn not_a_block(block: *mut Block) -> ! {
    misuse::end(format_args!(
        "double free of {block:p}, which is no block of its heap any more, or a block on its way was written to after it was freed"
    ))
}

/// The name of a block of a slot in messages.
struct KindName(usize);

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SPANS => f.write_str("span"),
            LARGE => f.write_str("mapping"),
            class => write!(f, "{}-byte class", size_of_class(class)),
        }
    }
}

/// Ends the process because `block` cannot be freed with a layout of this slot and size; reports
/// why.
#[cold]
#[inline(never)]
pub(crate) fn end(block: *mut u8, slot: usize, size: usize) -> ! {
    let claimed = KindName(slot);
    match register::lookup(block.addr()) {
        register::Found::Live { bytes } if slot == LARGE => misuse::end(format_args!(
            "{block:p} freed with a layout of {size} bytes, but allocated as {bytes} bytes of another heap or alignment"
        )),
        register::Found::Live { bytes } => misuse::end(format_args!(
            "{block:p} freed with a layout of {size} bytes ({claimed}), but allocated as a mapping of {bytes} bytes"
        )),
        register::Found::Freed => misuse::end(format_args!("double free of {block:p} (mapping)")),
        register::Found::Nothing => {}
    }
    let start = block.map_addr(|address| address & !(PLACE - 1));
    if page_map::at(start.addr()) == page_map::NONE {
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
            KindName(usize::from(mark))
        )),
    }
}
