//! Memory that returns to the system: by request, or because it was unused for a while.

use super::Arena;
use crate::geometry::SEGMENT;
use crate::os::{self, PAGE};
use crate::pool::pool;
use crate::segment::Segment;
use crate::size_class::{CLASSES, SLAB_CLASSES, size_of_class};
use crate::slab::SlabList;
use crate::span::{Aged, Span};
use core::ptr::{self, NonNull};

/// How many segments become empty between two decay ticks.
const TICK: u32 = 64;
/// Empty segments that a decay tick leaves.
const EMPTY_MIN: usize = 1;
/// The shortest span that returns because it is unused; shorter ones are not worth a system call.
const AGED_MIN: usize = 64 * 1024;
/// Bytes of such spans that one step returns, where each call counts as [`CALL`](os::CALL) more: 32
/// of the shortest.
const AGED_MAX: usize = 8 << 20;
/// Segments that one step returns.
const PURGE_MAX: usize = 4;

/// How much one step of [`Arena::age`] returns.
pub(crate) struct StepLimit<'a> {
    /// The shortest span that is worth a call.
    bytes_min: usize,
    bytes: usize,
    segments: usize,
    is_over: &'a dyn Fn() -> bool,
}

impl<'a> StepLimit<'a> {
    /// The limit of a thread that has other work.
    pub(crate) fn step() -> Self {
        Self {
            bytes_min: AGED_MIN,
            bytes: AGED_MAX,
            segments: PURGE_MAX,
            is_over: &|| false,
        }
    }

    /// No limit until `is_over` returns `true`; it is called before each system call.
    #[cfg(all(
        any(target_os = "linux", target_os = "android"),
        not(any(miri, rast_system_segments))
    ))]
    pub(crate) fn until(is_over: &'a dyn Fn() -> bool) -> Self {
        Self {
            bytes_min: 2 * PAGE,
            bytes: usize::MAX,
            segments: usize::MAX,
            is_over,
        }
    }

    fn may_unmap(&mut self) -> bool {
        let may = self.segments > 0 && !(self.is_over)();
        self.segments -= usize::from(may);
        may
    }

    fn may_discard(&mut self, bytes: usize) -> bool {
        let may = self.bytes > 0 && !(self.is_over)();
        self.bytes = self.bytes.saturating_sub(if may { bytes } else { 0 });
        may
    }
}

impl Arena {
    /// Records that one free span fills a segment. At a decay tick, returns segments that stayed
    /// empty.
    pub(super) fn segment_emptied(&self, span: Span) {
        // SAFETY: the span lies in a mapped segment of this arena.
        let segment = unsafe { &*Segment::of(span.start().as_ptr()) };
        segment.enter_empty();
        self.empty_segments.set(self.empty_segments.get() + 1);
        self.ticks.set(self.ticks.get() + 1);
        if self.ticks.get() >= TICK {
            self.tick();
        }
    }

    /// Returns the empty segments and the cached mappings that were unused since the last decay
    /// tick.
    #[cold]
    pub(crate) fn tick(&self) {
        self.ticks.set(0);
        self.purge_segments(self.empty_low_water.since_tick().saturating_sub(EMPTY_MIN));
        self.empty_low_water.tick(self.empty_segments.get());
        self.reserved.subtract(self.mapping_cache.tick() as u64);
    }

    /// Returns up to `count` empty segments to the system, and the number of bytes to the caller.
    fn purge_segments(&self, count: usize) -> usize {
        let mut freed = 0;
        while freed < count
            && let Some(span) = self.spans.take_whole(Segment::BYTES)
        {
            let mapped = Segment::of(span.start().as_ptr()).cast_mut();
            // SAFETY: the span lies in a mapped segment of this arena, which is not at the address
            // zero.
            let mapped = unsafe { NonNull::new_unchecked(mapped) };
            // SAFETY: as above.
            self.segments.unlink(unsafe { mapped.as_ref() });
            // SAFETY: its one span was taken out and it is linked nowhere, so no thread knows it or
            // a block of it.
            unsafe { Segment::unmap(mapped) };
            freed += 1;
        }
        self.empty_segments.set(self.empty_segments.get() - freed);
        self.empty_low_water.subtract(freed);
        self.reserved.subtract((freed * SEGMENT) as u64);
        freed * SEGMENT
    }

    /// Flushes all lists, closes the slabs that are then empty, and returns all unused memory to
    /// the system: whole segments, and the whole pages of free spans. Returns the number of bytes.
    ///
    /// Cost: linear in the number of listed blocks and of free spans.
    pub(crate) fn purge(&self) -> usize {
        os::unmap_stranded();
        let kept = self.purge_cache() + self.purge_pool(usize::MAX);
        self.empty_lists();
        let empty = self.purge_segments(usize::MAX);
        kept + empty + self.spans.purge(2 * PAGE, discard)
    }

    /// Returns up to `most` bytes of the pool to the system, and their number to the caller.
    fn purge_pool(&self, most: usize) -> usize {
        if !self.larges.is_untracked() {
            return 0;
        }
        // These bytes were added to another heap's sum; the total is exact.
        let freed = pool().purge(most);
        self.reserved.subtract(freed as u64);
        freed
    }

    /// Returns all cached mappings to the system, and the number of bytes to the caller.
    fn purge_cache(&self) -> usize {
        let freed = self.mapping_cache.purge(usize::MAX);
        self.reserved.subtract(freed as u64);
        freed
    }

    /// A decay pass: returns what was unused since the previous pass. These are the lists of
    /// classes that no call used, segments that stayed empty, and long free spans that no thread
    /// used. Of the last two it returns only as much as `limit` allows. If the result says that
    /// more is left, [`purge_aged`](Self::purge_aged) returns the rest before the next pass.
    ///
    /// Cost: linear in the blocks of unused lists and in the long free spans, and the system calls
    /// within the limit.
    pub(crate) fn age(&self, limit: &mut StepLimit) -> Aged {
        for class in 0..CLASSES {
            let slot = self.slot(class);
            let calls = slot.taken.get().wrapping_add(slot.given.get());
            if self.spares[class].calls.replace(calls) == calls {
                self.empty_list(class);
            }
        }
        self.reserved.subtract(self.mapping_cache.decay() as u64);
        self.reserved.subtract(pool().decay() as u64);
        self.unneeded.set(self.unneeded_segments());
        self.empty_low_water.pass(self.empty_segments.get());
        self.step(true, limit)
    }

    /// The number of segments that stayed empty since the last pass, except for one.
    fn unneeded_segments(&self) -> usize {
        self.empty_low_water.since_pass().saturating_sub(EMPTY_MIN)
    }

    /// Continues what [`age`](Self::age) left.
    pub(crate) fn purge_aged(&self, limit: &mut StepLimit) -> Aged {
        self.step(false, limit)
    }

    fn step(&self, is_new_pass: bool, limit: &mut StepLimit) -> Aged {
        // Segments used since the pass are needed.
        let mut unneeded = self.unneeded.get().min(self.unneeded_segments());
        while unneeded > 0 && limit.may_unmap() {
            self.purge_segments(1);
            unneeded -= 1;
        }
        self.unneeded.set(unneeded);
        let bytes_min = limit.bytes_min;
        let may = |bytes| limit.may_discard(bytes);
        let aged = self.spans.age(bytes_min, is_new_pass, may, discard);
        Aged {
            is_all: aged.is_all && unneeded == 0,
            is_clean: aged.is_clean && self.is_spent(),
        }
    }

    /// Returns `true` if only free spans are left for decay passes to return.
    fn is_spent(&self) -> bool {
        self.empty_segments.get() <= EMPTY_MIN
            && self.mapping_cache.is_empty()
            && (0..CLASSES).all(|class| !self.is_listed(class))
    }

    /// Flushes all lists, closes the slabs that are then empty, and returns the cached mappings.
    pub(crate) fn empty_lists(&self) {
        self.purge_cache();
        for class in 0..CLASSES {
            self.empty_list(class);
        }
    }

    /// Flushes the lists of a class and closes its slabs that are then empty.
    fn empty_list(&self, class: usize) {
        let (slot, spare) = (self.slot(class), &self.spares[class]);
        spare.count.set(0);
        self.put_back(class, spare.head.replace(ptr::null_mut()));
        self.lower_margin_of_class(class, slot.len(class) * size_of_class(class));
        slot.removed(slot.len(class));
        self.put_back(class, slot.head.replace(ptr::null_mut()));
        if class >= SLAB_CLASSES {
            return;
        }
        let mut next = self.slabs[class].first();
        while let Some(slab) = next {
            next = SlabList::after(slab);
            if slab.is_empty() {
                self.slabs[class].unlink(slab);
                self.close_slab(slab);
            }
        }
    }

    /// The number of segments.
    #[cfg(test)]
    pub(crate) fn segments(&self) -> usize {
        self.segments.count()
    }

    /// Checks the rules of spans in every segment.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.segments.each(|segment| {
            self.spans.check(Segment::first(segment));
        });
    }
}

/// Returns the whole pages of a free span to the system and clears the rest of the span.
fn discard(span: Span) -> Option<usize> {
    let start = span.start().addr().get();
    let end = start + span.bytes();
    let first = start.next_multiple_of(PAGE);
    let last = end & !(PAGE - 1);
    if first >= last {
        return None;
    }
    // SAFETY: `first` lies inside the span.
    let pages = unsafe { span.start().add(first - start) };
    // SAFETY: the pages lie wholly in a free span: no thread needs them.
    if !unsafe { os::discard(pages, last - first) } {
        return None;
    }
    // SAFETY: the bytes up to the first whole page lie in the span.
    unsafe { span.start().write_bytes(0, first - start) };
    // SAFETY: `last` lies inside the span, or at its end.
    let back = unsafe { span.start().add(last - start) };
    // SAFETY: the bytes from the last whole page to the end of the span.
    unsafe { back.write_bytes(0, end - last) };
    Some(last - first)
}

#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
mod tests {
    use super::super::tests::arena;
    use super::*;
    use crate::Layout;
    use crate::large::LargeBlocks;
    use std::vec::Vec;

    /// Allocates blocks of some levels, writes to them, and frees all except `kept` of each size.
    fn use_and_free(arena: &Arena, kept: usize) -> Vec<(NonNull<u8>, Layout)> {
        let mut blocks = Vec::new();
        for size in [64, 3000, 20_000, 100_000, 700_000] {
            let layout = Layout::from_size_align(size, 8).unwrap();
            let taken: Vec<_> = (0..(8 << 20) / size)
                .map(|_| {
                    let block = NonNull::new(arena.allocate(layout)).unwrap();
                    // SAFETY: the block is new and that long.
                    unsafe { block.write_bytes(1, size) };
                    block
                })
                .collect();
            for (index, block) in taken.into_iter().enumerate() {
                if index < kept {
                    blocks.push((block, layout));
                } else {
                    // SAFETY: taken above.
                    unsafe { arena.deallocate(block, layout) };
                }
            }
        }
        blocks
    }

    fn age(arena: &Arena) -> bool {
        arena.age(&mut StepLimit::step()).is_all
    }

    fn purge_aged(arena: &Arena) -> bool {
        arena.purge_aged(&mut StepLimit::step()).is_all
    }

    fn committed(arena: &Arena) -> u64 {
        arena.reserved.get().wrapping_sub(arena.spans.clean.get())
    }

    #[test]
    fn what_stays_unused_goes_back() {
        let arena = arena(LargeBlocks::untracked());
        let kept = use_and_free(&arena, 1);
        let full = committed(&arena);
        // The first pass marks, the second returns what is still unused, the third what the lists
        // held until the second.
        for _ in 0..3 {
            let mut is_all = age(&arena);
            while !is_all {
                is_all = purge_aged(&arena);
            }
            arena.check();
        }
        let rest = committed(&arena);
        // The kept blocks are a fifteenth; the rest is their slabs and the headers, which are
        // longer in a hardened build.
        assert!(rest * 5 < full, "{rest} of {full} bytes are left");
        for (block, layout) in kept {
            // SAFETY: the block is in use, and its first byte was written.
            assert_eq!(unsafe { block.read() }, 1);
            // SAFETY: taken above.
            unsafe { arena.deallocate(block, layout) };
        }
    }

    #[test]
    fn what_is_used_between_two_passes_stays() {
        let arena = arena(LargeBlocks::untracked());
        let layout = Layout::from_size_align(1 << 20, 8).unwrap();
        let least = committed(&arena);
        for _ in 0..10 {
            let blocks: Vec<_> = (0..3).map(|_| arena.allocate(layout)).collect();
            for block in blocks {
                let block = NonNull::new(block).unwrap();
                // SAFETY: taken above.
                unsafe { arena.deallocate(block, layout) };
            }
            age(&arena);
            // One segment, less what was never touched behind the third block.
            assert!(committed(&arena) >= least + 3 * (1 << 20));
        }
    }

    /// Allocates spans that fill some segments, and frees them.
    fn fill_and_free(arena: &Arena, segments: usize) {
        let layout = Layout::from_size_align(SEGMENT / 4, 8).unwrap();
        let blocks: Vec<_> = (0..3 * segments).map(|_| arena.allocate(layout)).collect();
        for block in blocks {
            let block = NonNull::new(block).unwrap();
            // SAFETY: taken above.
            unsafe { arena.deallocate(block, layout) };
        }
    }

    /// Steps that return empty segments leave those that were used since the pass.
    #[test]
    fn steps_leave_what_is_needed_meanwhile() {
        const SEGMENTS: usize = 3 * PURGE_MAX;
        let arena = arena(LargeBlocks::untracked());
        fill_and_free(&arena, SEGMENTS);
        age(&arena);
        fill_and_free(&arena, 2);
        assert!(!age(&arena), "more than one step gives back");
        let rest = SEGMENTS - PURGE_MAX;
        assert_eq!(arena.reserved.get(), (rest * SEGMENT) as u64);
        fill_and_free(&arena, rest - EMPTY_MIN - 1);
        assert!(purge_aged(&arena));
        assert_eq!(arena.reserved.get(), ((rest - 1) * SEGMENT) as u64);
    }

    /// A pass with more to return than one step allows leaves what it was the first to find.
    #[test]
    fn what_a_pass_marks_stays_until_the_next() {
        let arena = arena(LargeBlocks::untracked());
        let long = Layout::from_size_align(SEGMENT / 4, 8).unwrap();
        let short = Layout::from_size_align(SEGMENT / 8, 8).unwrap();
        let take = |layout| NonNull::new(arena.allocate(layout)).unwrap();
        let mut blocks = Vec::new();
        for _ in 0..20 {
            blocks.extend((0..3).map(|_| take(long)));
            // Stays, so that the segment is not empty.
            take(short);
        }
        let young = blocks.split_off(30);
        let free = |blocks: Vec<_>| {
            for block in blocks {
                // SAFETY: taken above.
                unsafe { arena.deallocate(block, long) };
            }
        };
        free(blocks);
        assert!(age(&arena), "nothing stood there before");
        free(young);
        let before = arena.spans.clean.get();
        assert!(!age(&arena), "more than one step gives back");
        while !purge_aged(&arena) {}
        let gone = (arena.spans.clean.get() - before) as usize;
        assert!(gone >= 30 * long.size(), "{gone} bytes of the old ones");
        assert!(gone < 45 * long.size(), "{gone} bytes, of young ones too");
        assert!(!age(&arena));
        while !purge_aged(&arena) {}
        let gone = (arena.spans.clean.get() - before) as usize;
        assert!(gone >= 60 * long.size(), "{gone} bytes of all");
    }

    /// A decay tick between two passes does not make the second pass find everything unused.
    #[test]
    fn a_pass_finds_what_was_unused_since_the_last_pass() {
        const SEGMENTS: usize = 3;
        let arena = arena(LargeBlocks::untracked());
        fill_and_free(&arena, SEGMENTS);
        age(&arena);
        fill_and_free(&arena, SEGMENTS);
        arena.tick();
        age(&arena);
        assert_eq!(arena.reserved.get(), (SEGMENTS * SEGMENT) as u64);
        age(&arena);
        assert_eq!(arena.reserved.get(), (EMPTY_MIN * SEGMENT) as u64);
    }

    /// A slot that is cut out of a long free span leaves two rests, both as old as the span was.
    #[test]
    fn what_is_left_of_a_span_stays_as_old() {
        let arena = arena(LargeBlocks::untracked());
        let long = Layout::from_size_align(1 << 20, 8).unwrap();
        let blocks: Vec<_> = (0..3).map(|_| arena.allocate(long)).collect();
        for block in blocks {
            let block = NonNull::new(block).unwrap();
            // SAFETY: taken above.
            unsafe { arena.deallocate(block, long) };
        }
        let full = committed(&arena);
        assert!(age(&arena), "marks, and gives nothing back");
        assert_eq!(committed(&arena), full);
        // A grain off, so that a span's start is seldom a slot's.
        let short = Layout::from_size_align(300 << 10, 1024).unwrap();
        assert!(!arena.allocate(short).is_null());
        let slot = Layout::from_size_align(64 << 10, 64 << 10).unwrap();
        assert!(!arena.allocate(slot).is_null());
        let mut is_all = age(&arena);
        while !is_all {
            is_all = purge_aged(&arena);
        }
        let rest = committed(&arena);
        assert!(rest + (2 << 20) < full, "{rest} of {full} bytes are left");
        arena.check();
    }
}
