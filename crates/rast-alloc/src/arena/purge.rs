//! Memory given back to the system: when asked, and what stayed unneeded for a while.

use super::Arena;
use crate::os::{self, PAGE};
use crate::segment::{SEGMENT, Segment};
use crate::size_class::{CLASSES, SLAB_CLASSES};
use crate::slab::SlabList;
use crate::span::Span;
use core::ptr;

/// How many segments may become empty between two beats.
const BEAT: u32 = 64;
/// Empty segments that stay through a beat.
const KEPT: usize = 1;

impl Arena {
    /// Notes that one free span fills a segment; from time to time gives those back that nobody needed meanwhile.
    pub(super) fn emptied(&self, span: Span) {
        // SAFETY: the span lies in a mapped segment of this arena.
        let segment = unsafe { &*Segment::of(span.start().as_ptr()) };
        segment.enter_empty();
        self.empties.set(self.empties.get() + 1);
        self.beats.set(self.beats.get() + 1);
        if self.beats.get() >= BEAT {
            self.beat();
        }
    }

    /// Gives back the empty segments, and the kept mappings, that stood unused since the last beat.
    #[cold]
    pub(crate) fn beat(&self) {
        self.beats.set(0);
        let unneeded = self.empties_least.replace(self.empties.get());
        self.shed(unneeded.saturating_sub(KEPT));
        self.reserved.subtract(self.kept.beat() as u64);
    }

    /// Gives up to `count` empty segments back; returns how many bytes that were.
    fn shed(&self, count: usize) -> usize {
        let mut shed = 0;
        self.segments.each(|mapped| {
            // SAFETY: the segment is mapped until the end of this block; this reference is not used after.
            let segment = unsafe { &*mapped.as_ptr() };
            if shed == count || !segment.is_empty() {
                return;
            }
            // SAFETY: the segment is mapped, and one free span fills it, which stands first.
            let span = unsafe { Span::at_start(Segment::first(mapped)) };
            self.spans.withdraw(span);
            self.segments.unlink(segment);
            // SAFETY: its one span was withdrawn and it is linked nowhere, so nobody knows it or a block of it.
            unsafe { Segment::unmap(mapped) };
            self.empties.set(self.empties.get() - 1);
            self.reserved.subtract(SEGMENT as u64);
            shed += 1;
        });
        self.empties_least
            .set(self.empties_least.get().min(self.empties.get()));
        shed * SEGMENT
    }

    /// Puts the blocks of all lists back, closes the slabs that are empty then, and gives all memory that no block needs
    /// back to the system: whole segments, and the whole pages of free spans. Returns how many bytes that were.
    ///
    /// Cost: linear in the blocks of the lists and in the free spans.
    pub(crate) fn purge(&self) -> usize {
        let kept = self.shed_kept();
        self.empty_lists();
        let shed = self.shed(usize::MAX);
        kept + shed + self.spans.purge(2 * PAGE, discard)
    }

    /// Gives all kept mappings back; returns how many bytes that were.
    fn shed_kept(&self) -> usize {
        let shed = self.kept.shed(usize::MAX);
        self.reserved.subtract(shed as u64);
        shed
    }

    /// Puts the blocks of all lists back, closes the slabs that are empty then, and gives the kept mappings back.
    pub(crate) fn empty_lists(&self) {
        self.shed_kept();
        for class in 0..CLASSES {
            let (slot, spare) = (self.slot(class), &self.spares[class]);
            spare.count.set(0);
            self.put_back(class, spare.head.replace(ptr::null_mut()));
            slot.carried_off(slot.len(class));
            self.put_back(class, slot.head.replace(ptr::null_mut()));
        }
        for class in 0..SLAB_CLASSES {
            let mut next = self.slabs[class].first();
            while let Some(slab) = next {
                next = SlabList::after(slab);
                if slab.is_empty() {
                    self.slabs[class].unlink(slab);
                    self.close_slab(slab);
                }
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
    // SAFETY: the pages lie wholly in a free span: nobody needs them.
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
