//! Checks of a block that is freed or resized, against its segment's header.

use core::ptr::NonNull;

use crate::Layout;
use crate::geometry::{HARDENED, SLOT};
use crate::hardened;
use crate::level::{Level, SPANS};
use crate::misuse;
use crate::segment::Segment;
use crate::size_class::{SLAB_CLASSES, size_of_class};
use crate::span::{Span, bytes_for};

/// Ends the process if a block is not of this class, as far as its slab or its address shows. A
/// thread that has the block may call it, as neither changes meanwhile.
///
/// # Safety
///
/// 1. `block` lies in a mapped segment.
pub(crate) unsafe fn check_class(class: usize, block: *mut u8) {
    // SAFETY: obligation 1.
    let is_served = match unsafe { Segment::slab_of(block) }.class() {
        Some(served) => {
            served == class && (block.addr() % SLOT).is_multiple_of(size_of_class(class))
        }
        None => class >= SLAB_CLASSES,
    };
    if !is_served {
        let bytes = size_of_class(class);
        misuse::end(format_args!(
            "{block:p} freed with a layout of the {bytes}-byte class, but not allocated as one"
        ));
    }
}

/// Ends the process if a span does not have the length for this size. A thread that has the block
/// may call it.
///
/// # Safety
///
/// 1. `block` lies in a mapped segment.
pub(crate) unsafe fn check_span(block: NonNull<u8>, size: usize) {
    // SAFETY: obligation 1; where no span starts the tag is an old one, or zero.
    let span = unsafe { Span::at_start(block) };
    // SAFETY: obligation 1.
    let is_slab = unsafe { Segment::slab_of(block.as_ptr()) }
        .class()
        .is_some();
    if is_slab || usize::from(span.class()) != SPANS || span.bytes() != bytes_for(size) {
        misuse::end(format_args!(
            "{block:p} freed with a layout of {size} bytes, but not allocated as such a span"
        ));
    }
}

/// Checks a block that returns to its owner in a batch or a message: everything in a hardened
/// build, the layout with debug assertions.
///
/// # Safety
///
/// 1. `block` lies in a mapped segment.
#[inline]
pub(crate) unsafe fn check_given(block: NonNull<u8>, layout: Layout) {
    let level = Level::of(layout);
    if HARDENED {
        hardened::post(block.as_ptr(), level.slot(), layout.size());
    } else if cfg!(debug_assertions) {
        // SAFETY: obligation 1.
        unsafe { check_layout(block, layout) };
    }
}

/// Checks a block of another owner that stays in place: everything in a hardened build, the layout
/// with debug assertions.
///
/// # Safety
///
/// 1. `block` lies in a mapped segment.
#[inline]
pub(crate) unsafe fn check_in_place(block: NonNull<u8>, layout: Layout) {
    let level = Level::of(layout);
    if HARDENED {
        hardened::check_used(block.as_ptr(), level.slot(), layout.size());
    } else if cfg!(debug_assertions) {
        // SAFETY: obligation 1.
        unsafe { check_layout(block, layout) };
    }
}

/// Ends the process if a block was allocated with another layout, as far as that is detectable.
///
/// # Safety
///
/// 1. `block` lies in a mapped segment.
unsafe fn check_layout(block: NonNull<u8>, layout: Layout) {
    match Level::of(layout) {
        // SAFETY: obligation 1.
        Level::Class(class) => unsafe { check_class(class, block.as_ptr()) },
        // SAFETY: as above.
        _ => unsafe { check_span(block, layout.size()) },
    }
}
