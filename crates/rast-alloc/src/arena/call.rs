//! The calls of an allocator on one arena, each passed to the level that serves the layout.

use super::{Arena, check_span};
use crate::Layout;
use crate::geometry::HARDENED;
use crate::hardened;
use crate::level::{Level, SPANS};
use crate::os::PAGE;
use crate::pool::pool;
use crate::size_class::{SLAB_CLASSES, SLAB_MAX, size_of_class};
use crate::span::{Span, bytes_for, bytes_for_class};
use core::ptr::{self, NonNull};

/// What is known of the contents of a new block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contents {
    Anything,
    Zero,
}

impl Contents {
    fn of(span: Span) -> Self {
        if span.is_clean() {
            Self::Zero
        } else {
            Self::Anything
        }
    }
}

/// Returns `true` if a block may get another alignment in place.
#[cold]
fn may_stay_aligned(block: NonNull<u8>, old: Layout, new: Layout) -> bool {
    // The distance of a large block from the start of its mapping follows from its alignment.
    let is_alike = Level::of(old) != Level::Large || old.align().max(PAGE) == new.align().max(PAGE);
    is_alike && block.addr().get().is_multiple_of(new.align())
}

impl Arena {
    /// Allocates a block; null if the system has no memory.
    #[inline]
    pub(crate) fn allocate(&self, layout: Layout) -> *mut u8 {
        match Level::of(layout) {
            Level::Class(class) => {
                let block = self.pop(class, layout.size());
                if block.is_null() {
                    return self.pop_slow(class, layout.size());
                }
                block
            }
            level => self.allocate_unlisted(layout, level, Contents::Anything).0,
        }
    }

    /// Allocates a zeroed block; null if the system has no memory.
    pub(crate) fn allocate_zeroed(&self, layout: Layout) -> *mut u8 {
        let level = Level::of(layout);
        let (block, contents) = match level {
            Level::Class(class) if class >= SLAB_CLASSES && !self.is_listed(class) => {
                self.allocate_span_of_class(class, layout.size())
            }
            Level::Class(_) => (self.allocate(layout), Contents::Anything),
            level => self.allocate_unlisted(layout, level, Contents::Zero),
        };
        if !block.is_null() && contents == Contents::Anything {
            // SAFETY: the block is new and at least as long as the layout says.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    /// Allocates a span for a class whose lists are empty. Its contents may be known to be zero,
    /// which a list would not record.
    #[inline(never)]
    fn allocate_span_of_class(&self, class: usize, size: usize) -> (*mut u8, Contents) {
        let Some(span) = self.take_span(bytes_for_class(size_of_class(class)), 1) else {
            return (ptr::null_mut(), Contents::Anything);
        };
        span.set_class(class as u8);
        if HARDENED {
            hardened::set_live(span.start().as_ptr(), class);
        }
        let slot = self.slot(class);
        slot.added(1);
        slot.taken.add(1);
        self.bytes_taken.add(size as u64);
        (span.start().as_ptr(), Contents::of(span))
    }

    /// Allocates a span or a mapping. For a zeroed block a new mapping is used: it is zero, and
    /// pages that are not touched are not committed.
    #[inline(never)]
    fn allocate_unlisted(
        &self,
        layout: Layout,
        level: Level,
        wanted: Contents,
    ) -> (*mut u8, Contents) {
        let found = if level == Level::Span {
            self.take_span(bytes_for(layout.size()), layout.align())
                .map(|span| {
                    span.set_class(SPANS as u8);
                    if HARDENED {
                        hardened::set_live(span.start().as_ptr(), SPANS);
                    }
                    (span.start(), Contents::of(span))
                })
        } else if wanted == Contents::Anything
            && let Some(block) = self.take_cached(layout)
        {
            Some((block, Contents::Anything))
        } else {
            let block = self.larges.map(layout);
            if block.is_some() {
                self.reserved
                    .add(self.larges.mapped(layout).unwrap_or_default() as u64);
            }
            block.map(|block| (block, Contents::Zero))
        };
        match found {
            None => (ptr::null_mut(), Contents::Anything),
            Some((block, contents)) => {
                self.slot(level.slot()).taken.add(1);
                self.bytes_taken.add(layout.size() as u64);
                (block.as_ptr(), contents)
            }
        }
    }

    /// Allocates a large block from the mapping cache.
    fn take_cached(&self, layout: Layout) -> Option<NonNull<u8>> {
        if !self.larges.is_cacheable(layout) {
            return None;
        }
        let bytes = self.larges.mapped(layout)?;
        let block = self
            .mapping_cache
            .take(bytes)
            .or_else(|| self.take_pooled(bytes))?;
        if HARDENED && !self.larges.enter(block, layout) {
            // SAFETY: the pages were taken above, and no thread knows them.
            let unmapped = unsafe { self.mapping_cache.put(block, bytes) };
            self.reserved.subtract(unmapped as u64);
            return None;
        }
        Some(block)
    }

    /// Takes a range from the pool, and caches the part that is not needed.
    fn take_pooled(&self, bytes: usize) -> Option<NonNull<u8>> {
        let (start, length) = pool().take(bytes)?;
        if length > bytes {
            // SAFETY: the range is longer than this.
            let rest = unsafe { start.add(bytes) };
            // SAFETY: whole pages of a range that this thread alone has.
            let unmapped = unsafe { self.mapping_cache.put(rest, length - bytes) };
            self.reserved.subtract(unmapped as u64);
        }
        Some(start)
    }

    /// Frees a block.
    /// # Safety
    ///
    /// 1. `block` is a block of this arena with this layout, or a large block of any arena that
    ///    tracks none if this one tracks none, and the caller gives it up.
    #[inline]
    pub(crate) unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        match Level::of(layout) {
            Level::Class(class) => {
                // SAFETY: obligation 1; the class follows from the layout, as it did when the block
                // was taken.
                unsafe { self.push(class, block.as_ptr(), layout.size()) };
            }
            // SAFETY: obligation 1.
            level => unsafe { self.deallocate_unlisted(block, layout, level) },
        }
    }

    /// Frees a span or a mapping.
    /// # Safety
    ///
    /// 1. As for [`Arena::deallocate`], and `level` is the layout's, no class.
    #[inline(never)]
    unsafe fn deallocate_unlisted(&self, block: NonNull<u8>, layout: Layout, level: Level) {
        self.slot(level.slot()).given.add(1);
        self.bytes_given.add(layout.size() as u64);
        if level == Level::Span {
            if HARDENED {
                hardened::check_used(block.as_ptr(), SPANS, layout.size());
                hardened::retire(block.as_ptr());
            } else if cfg!(debug_assertions) {
                // SAFETY: obligation 1: the block lies in a mapped segment.
                unsafe { check_span(block, layout.size()) };
            }
            // SAFETY: the block is a used span, by obligation 1 and its level.
            let span = unsafe { Span::at_start(block) };
            self.give_span(span);
            return;
        }
        let bytes = self.larges.mapped(layout).unwrap_or_default();
        let unmapped = if self.larges.is_cacheable(layout) {
            if HARDENED {
                self.larges.retire(block, layout);
            }
            // SAFETY: the block is whole pages of its own, as `keeps` says, and obligation 1.
            unsafe { self.mapping_cache.put(block, bytes) }
        } else {
            // SAFETY: obligation 1, and the level is the large one.
            unsafe { self.larges.unmap(block, layout) };
            bytes
        };
        self.reserved.subtract(unmapped as u64);
    }

    /// Changes a block's size in place, or lets the system move the block. Returns null, and
    /// changes nothing, if neither is possible.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this arena with the layout `old`, or a large block as for
    ///    [`Arena::deallocate`].
    /// 2. The caller gives `block` up if the call succeeds.
    #[inline]
    pub(crate) unsafe fn resize(&self, block: NonNull<u8>, old: Layout, new: Layout) -> *mut u8 {
        let (from, to) = (Level::of(old), Level::of(new));
        if old.align() != new.align() && !may_stay_aligned(block, old, new) {
            return ptr::null_mut();
        }
        if HARDENED && from != Level::Large {
            hardened::check_used(block.as_ptr(), from.slot(), old.size());
        }
        let resized = match (from, to) {
            (Level::Class(from), Level::Class(to)) if from == to => Some(block),
            (Level::Large, Level::Large) if self.grow_into_cached(block, old, new) => Some(block),
            (Level::Large, Level::Large) => {
                // SAFETY: obligations 1 and 2.
                let moved = unsafe { self.larges.remap(block, old, new) };
                if moved.is_some() {
                    let bytes = |layout| self.larges.bytes(layout).unwrap_or_default() as u64;
                    self.reserved.add(bytes(new).wrapping_sub(bytes(old)));
                }
                moved
            }
            (Level::Large, _) | (_, Level::Large) => None,
            (from, to) => {
                // SAFETY: obligation 1, and the old level is not the large one.
                unsafe { self.resize_span(block, from, to, new) }.then_some(block)
            }
        };
        let Some(resized) = resized else {
            return ptr::null_mut();
        };
        self.count_resize(old.size(), new.size());
        if from != to {
            // One block less in the old class, one more in the new one; neither list has changed.
            let (from, to) = (self.slot(from.slot()), self.slot(to.slot()));
            from.given.add(1);
            from.removed(1);
            to.taken.add(1);
            to.added(1);
            self.moves.add(1);
        }
        resized.as_ptr()
    }

    /// Extends a large block by the cached range behind it. Returns `false`, and changes nothing,
    /// if that is too short.
    fn grow_into_cached(&self, block: NonNull<u8>, old: Layout, new: Layout) -> bool {
        let (Some(from), Some(to)) = (self.larges.mapped(old), self.larges.mapped(new)) else {
            return false;
        };
        if !self.larges.is_cacheable(new) || to <= from {
            return false;
        }
        if HARDENED {
            self.larges.retire(block, old);
        }
        let is_grown = self
            .mapping_cache
            .take_at(block.as_ptr().wrapping_add(from), to - from);
        if HARDENED {
            self.larges
                .enter_again(block, if is_grown { new } else { old });
        }
        is_grown
    }

    /// Changes the length of a block's span to that of its new level.
    ///
    /// # Safety
    ///
    /// 1. `block` is a block of this arena and of the level `from`, which is not the large one.
    unsafe fn resize_span(&self, block: NonNull<u8>, from: Level, to: Level, new: Layout) -> bool {
        let has_span = |level| match level {
            Level::Class(class) => size_of_class(class) > SLAB_MAX,
            level => level == Level::Span,
        };
        if !has_span(from) || !has_span(to) {
            return false;
        }
        let bytes = match to {
            Level::Class(class) => bytes_for_class(size_of_class(class)),
            _ => bytes_for(new.size()),
        };
        // SAFETY: a block of these levels is a used span, obligation 1.
        let span = unsafe { Span::at_start(block) };
        if !self.spans.resize(span, bytes) {
            return false;
        }
        span.set_class(to.slot() as u8);
        if HARDENED {
            hardened::set_live(block.as_ptr(), to.slot());
        }
        true
    }

    /// Changes a block's size, and moves the block if necessary. Returns null, and changes nothing,
    /// if the system has no memory.
    ///
    /// # Safety
    ///
    /// 1. As for [`Arena::resize`].
    pub(crate) unsafe fn reallocate(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> *mut u8 {
        // SAFETY: obligation 1.
        let resized = unsafe { self.resize(block, old, new) };
        if !resized.is_null() {
            return resized;
        }
        let moved = self.allocate(new);
        if moved.is_null() {
            return moved;
        }
        self.count_move();
        // SAFETY: both blocks are at least as long as the shorter layout, and different.
        unsafe { moved.copy_from_nonoverlapping(block.as_ptr(), old.size().min(new.size())) };
        // SAFETY: obligation 1.
        unsafe { self.deallocate(block, old) };
        moved
    }

    /// Counts a change of a block's size from `old` to `new` bytes.
    #[inline]
    pub(crate) fn count_resize(&self, old: usize, new: usize) {
        self.reallocations.add(1);
        if new >= old {
            self.bytes_taken.add((new - old) as u64);
        } else {
            self.lower_margin(old - new);
            self.bytes_given.add((old - new) as u64);
        }
    }

    /// Counts an allocated and a freed block as one block that changed its size.
    #[inline]
    pub(crate) fn count_move(&self) {
        self.moves.add(1);
        self.reallocations.add(1);
    }
}
