//! Memory given back to the system: when asked, and what stayed unneeded for a while.

use super::Arena;
use crate::geometry::SEGMENT;
use crate::os::{self, PAGE};
use crate::pool::pool;
use crate::segment::Segment;
use crate::size_class::{CLASSES, SLAB_CLASSES, size_of_class};
use crate::slab::SlabList;
use crate::span::{Aged, Span};
use core::ptr::{self, NonNull};

/// How many segments may become empty between two decay ticks.
const TICK: u32 = 64;
/// Empty segments that stay through a decay tick.
const KEPT: usize = 1;
/// The least span that is given back because no thread needed it; a shorter one is not worth the
/// call.
const AGED_LEAST: usize = 64 * 1024;
/// Bytes of them that one step gives back, each counted with [`CALL`](os::CALL) besides: 32 of the
/// least.
const AGED_MOST: usize = 8 << 20;
/// Segments that one step gives back.
const PURGE_MOST: usize = 4;

/// How much one step of [`Arena::age`] gives back.
pub(crate) struct Pace<'a> {
    /// The least span that is worth a call.
    least: usize,
    bytes: usize,
    segments: usize,
    is_over: &'a dyn Fn() -> bool,
}

impl<'a> Pace<'a> {
    /// That of a thread that has other things to do.
    pub(crate) fn step() -> Self {
        Self {
            least: AGED_LEAST,
            bytes: AGED_MOST,
            segments: PURGE_MOST,
            is_over: &|| false,
        }
    }

    /// All there is, until `is_over`, which is asked before each call of the system.
    #[cfg(all(
        any(target_os = "linux", target_os = "android"),
        not(any(miri, rast_system_segments))
    ))]
    pub(crate) fn until(is_over: &'a dyn Fn() -> bool) -> Self {
        Self {
            least: 2 * PAGE,
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
    /// Notes that one free span fills a segment; from time to time gives those back that no thread
    /// needed meanwhile.
    pub(super) fn emptied(&self, span: Span) {
        // SAFETY: the span lies in a mapped segment of this arena.
        let segment = unsafe { &*Segment::of(span.start().as_ptr()) };
        segment.enter_empty();
        self.empties.set(self.empties.get() + 1);
        self.ticks.set(self.ticks.get() + 1);
        if self.ticks.get() >= TICK {
            self.tick();
        }
    }

    /// Gives back the empty segments, and the kept mappings, that was unused since the last decay
    /// tick.
    #[cold]
    pub(crate) fn tick(&self) {
        self.ticks.set(0);
        self.purge_segments(self.empties_least.since_tick().saturating_sub(KEPT));
        self.empties_least.tick(self.empties.get());
        self.reserved.subtract(self.kept.tick() as u64);
    }

    /// Gives up to `count` empty segments back; returns how many bytes that were.
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
        self.empties.set(self.empties.get() - freed);
        self.empties_least.fell_by(freed);
        self.reserved.subtract((freed * SEGMENT) as u64);
        freed * SEGMENT
    }

    /// Puts the blocks of all lists back, closes the slabs that are empty then, and gives all
    /// memory that no block needs back to the system: whole segments, and the whole pages of free
    /// spans. Returns how many bytes that were.
    ///
    /// Cost: linear in the blocks of the lists and in the free spans.
    pub(crate) fn purge(&self) -> usize {
        os::unmap_stranded();
        let kept = self.purge_kept() + self.purge_pool(usize::MAX);
        self.empty_lists();
        let empty = self.purge_segments(usize::MAX);
        kept + empty + self.spans.purge(2 * PAGE, discard)
    }

    /// Gives up to `most` bytes of what is kept for all threads back; returns how many bytes that
    /// were.
    fn purge_pool(&self, most: usize) -> usize {
        if !self.larges.is_untracked() {
            return 0;
        }
        // It was added in another heap's sum; the total is right.
        let freed = pool().purge(most);
        self.reserved.subtract(freed as u64);
        freed
    }

    /// Gives all kept mappings back; returns how many bytes that were.
    fn purge_kept(&self) -> usize {
        let freed = self.kept.purge(usize::MAX);
        self.reserved.subtract(freed as u64);
        freed
    }

    /// Gives back what no thread needed since the last call of this: the lists of classes that no
    /// thread used, segments that stayed empty, and long free spans that no thread touched. Of the
    /// last two only as many as the pace allows; the rest goes by [`purge_aged`](Self::purge_aged),
    /// if this says that it was not all, before the next call of this.
    ///
    /// Cost: linear in the blocks of unused lists and in the long free spans, and the system calls
    /// of the pace.
    pub(crate) fn age(&self, pace: &mut Pace) -> Aged {
        for class in 0..CLASSES {
            let slot = self.slot(class);
            let calls = slot.taken.get().wrapping_add(slot.given.get());
            if self.spares[class].calls.replace(calls) == calls {
                self.empty_list(class);
            }
        }
        self.reserved.subtract(self.kept.look() as u64);
        self.reserved.subtract(pool().look() as u64);
        self.unneeded.set(self.unneeded_segments());
        self.empties_least.look(self.empties.get());
        self.step(true, pace)
    }

    /// How many segments stood empty since the last look, past the first.
    fn unneeded_segments(&self) -> usize {
        self.empties_least.since_look().saturating_sub(KEPT)
    }

    /// Goes on with what [`age`](Self::age) left.
    pub(crate) fn purge_aged(&self, pace: &mut Pace) -> Aged {
        self.step(false, pace)
    }

    fn step(&self, is_look: bool, pace: &mut Pace) -> Aged {
        // What was taken since was needed.
        let mut unneeded = self.unneeded.get().min(self.unneeded_segments());
        while unneeded > 0 && pace.may_unmap() {
            self.purge_segments(1);
            unneeded -= 1;
        }
        self.unneeded.set(unneeded);
        let least = pace.least;
        let may = |bytes| pace.may_discard(bytes);
        let aged = self.spans.age(least, is_look, may, discard);
        Aged {
            is_all: aged.is_all && unneeded == 0,
            is_clean: aged.is_clean && self.is_spent(),
        }
    }

    /// Whether nothing but free spans is left that a look may give back.
    fn is_spent(&self) -> bool {
        self.empties.get() <= KEPT
            && self.kept.is_empty()
            && (0..CLASSES).all(|class| !self.is_listed(class))
    }

    /// Puts the blocks of all lists back, closes the slabs that are empty then, and gives the kept
    /// mappings back.
    pub(crate) fn empty_lists(&self) {
        self.purge_kept();
        for class in 0..CLASSES {
            self.empty_list(class);
        }
    }

    /// Puts the blocks of a class's lists back and closes its slabs that are empty then.
    fn empty_list(&self, class: usize) {
        let (slot, spare) = (self.slot(class), &self.spares[class]);
        spare.count.set(0);
        self.put_back(class, spare.head.replace(ptr::null_mut()));
        self.spend_in(class, slot.len(class) * size_of_class(class));
        slot.carried_off(slot.len(class));
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

    /// How many segments there are.
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

/// Gives the whole pages of a free span back and clears the rest of it.
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
    use crate::large::Larges;
    use std::vec::Vec;

    /// Takes blocks of some levels, writes to them, and gives all but `kept` of each size back.
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
        arena.age(&mut Pace::step()).is_all
    }

    fn purge_aged(arena: &Arena) -> bool {
        arena.purge_aged(&mut Pace::step()).is_all
    }

    fn committed(arena: &Arena) -> u64 {
        arena.reserved.get().wrapping_sub(arena.spans.clean.get())
    }

    #[test]
    fn what_stays_unused_goes_back() {
        let arena = arena(Larges::untracked());
        let kept = use_and_free(&arena, 1);
        let full = committed(&arena);
        // The first look marks, the second gives back what is still there, the third what the lists
        // held till the second.
        for _ in 0..3 {
            let mut is_all = age(&arena);
            while !is_all {
                is_all = purge_aged(&arena);
            }
            arena.check();
        }
        let rest = committed(&arena);
        // What is kept is a fifteenth; then there are its slabs and the headers, which are longer
        // when hardened.
        assert!(rest * 5 < full, "{rest} of {full} bytes are left");
        for (block, layout) in kept {
            // SAFETY: the block is in use, and its first byte was written.
            assert_eq!(unsafe { block.read() }, 1);
            // SAFETY: taken above.
            unsafe { arena.deallocate(block, layout) };
        }
    }

    #[test]
    fn what_is_used_between_two_looks_stays() {
        let arena = arena(Larges::untracked());
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
            // One segment's bytes, less what was never touched behind the third block.
            assert!(committed(&arena) >= least + 3 * (1 << 20));
        }
    }

    /// Takes spans that fill some segments, and gives them back.
    fn fill_and_free(arena: &Arena, segments: usize) {
        let layout = Layout::from_size_align(SEGMENT / 4, 8).unwrap();
        let blocks: Vec<_> = (0..3 * segments).map(|_| arena.allocate(layout)).collect();
        for block in blocks {
            let block = NonNull::new(block).unwrap();
            // SAFETY: taken above.
            unsafe { arena.deallocate(block, layout) };
        }
    }

    /// Steps that give back empty segments leave what was needed since the look.
    #[test]
    fn steps_leave_what_is_needed_meanwhile() {
        const SEGMENTS: usize = 3 * PURGE_MOST;
        let arena = arena(Larges::untracked());
        fill_and_free(&arena, SEGMENTS);
        age(&arena);
        fill_and_free(&arena, 2);
        assert!(!age(&arena), "more than one step gives back");
        let rest = SEGMENTS - PURGE_MOST;
        assert_eq!(arena.reserved.get(), (rest * SEGMENT) as u64);
        fill_and_free(&arena, rest - KEPT - 1);
        assert!(purge_aged(&arena));
        assert_eq!(arena.reserved.get(), ((rest - 1) * SEGMENT) as u64);
    }

    /// A look that gives more back than one step does leaves what it was the first to find.
    #[test]
    fn what_a_look_marks_stays_until_the_next() {
        let arena = arena(Larges::untracked());
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

    /// A decay tick between two looks does not make the one that follows think that all was unused.
    #[test]
    fn a_look_finds_what_stood_unused_since_the_last_look() {
        const SEGMENTS: usize = 3;
        let arena = arena(Larges::untracked());
        fill_and_free(&arena, SEGMENTS);
        age(&arena);
        fill_and_free(&arena, SEGMENTS);
        arena.tick();
        age(&arena);
        assert_eq!(arena.reserved.get(), (SEGMENTS * SEGMENT) as u64);
        age(&arena);
        assert_eq!(arena.reserved.get(), (KEPT * SEGMENT) as u64);
    }

    /// A slot that is cut out of a long free span leaves two rests, both as old as the span was.
    #[test]
    fn what_is_left_of_a_span_stays_as_old() {
        let arena = arena(Larges::untracked());
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
