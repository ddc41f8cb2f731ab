//! Checks of a block that is freed or resized, by what its segment says of it.

use core::ptr::NonNull;

use crate::Layout;
use crate::geometry::{HARDENED, SLOT};
use crate::hardened;
use crate::level::{Level, SPANS};
use crate::misuse;
use crate::segment::Segment;
use crate::size_class::{SLAB_CLASSES, size_of_class};
use crate::span::{Span, bytes_for};

/// Ends the process if a block is not of this class, as far as its slab or its place tell; any
/// thread may ask of a block that it has, as neither changes meanwhile.
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

/// Ends the process if a span is not as long as this size asks; any thread may ask of a block that
/// it has.
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

/// What is checked of a block that goes to its owner from another thread, or as a message: all of
/// it in a hardened build, the layout where debug assertions are on.
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

/// What is checked of another owner's block that keeps its place: all of it in a hardened build,
/// the layout where debug assertions are on.
///
/// # Safety
///
/// 1. `block` lies in a mapped segment.
#[inline]
pub(crate) unsafe fn check_kept(block: NonNull<u8>, layout: Layout) {
    let level = Level::of(layout);
    if HARDENED {
        hardened::check_used(block.as_ptr(), level.slot(), layout.size());
    } else if cfg!(debug_assertions) {
        // SAFETY: obligation 1.
        unsafe { check_layout(block, layout) };
    }
}

/// Ends the process if a block was not taken with this layout, as far as that is seen.
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
