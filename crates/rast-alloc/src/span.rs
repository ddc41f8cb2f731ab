//! Spans: two-level free lists of ranges with boundary tags, for sizes above those of slabs, and
//! for the slabs themselves.
//!
//! Source: the original RAST design, 2.1, which has one list per power of two. Here each power of
//! two is a group of 32 lists, as in TLSF (Masmano and others, 2004). One bitmap has the groups
//! that are not empty, and each group has a bitmap of its lists. So two bit scans find the first
//! list in which every span is long enough. The search may skip a span that fits. Unless the
//! request has an alignment above 1 KiB, a skipped span is at most 1/32 longer than needed.
//!
//! ```text
//!   segment   ┌────────────────────────────┬────────┬────┬───────────────┬──────────────┐
//!             │ header: … │ tags │ links    │ span   │ …  │ span          │ span         │
//!             └────────────────────────────┴────────┴────┴───────────────┴──────────────┘
//!   a tag for each grain of 1 KiB; only the tag of a span's first grain is used:
//!             │ grains: u16 │ before: u16 │ state: u8 │ class: u8 │ clean: u8 │ aged: u8 │
//! ```
//!
//! | field | meaning |
//! | --- | --- |
//! | `grains` | length; the tag of the next span is that many tags further on |
//! | `before` | length of the span before, 0 for the first span of a segment |
//! | `state` | free, used, or sentinel: the tag behind the last grain, which is never free and has no next tag |
//! | `class` | the class of a used span, or none |
//! | `clean` | of a free span: all bytes are zero |
//! | `aged` | of a free span: the mark (1 or 2 in turn) of the decay pass that first found the span free, or 0; if the span is split, the free part keeps the mark |
//!
//! 1. The tags are in the header, not in the spans. So splitting and joining touch no page of a
//!    block. Tags inside the spans would touch one or two pages that are rarely cached.
//! 2. Spans start at multiples of 1 KiB and have no header, so alignments up to 1 KiB cost nothing.
//! 3. No two free spans are neighbours: freeing joins both sides at once.
//! 4. A free span is in exactly one list, that of its length. The bit of a list is set if and only
//!    if the list is not empty.
//! 5. Because of the sentinel no test for the segment's end is needed; `before == 0` shows its
//!    start.
//!
//! One thread at a time uses a [`SpanIndex`] and all of its segments. Only the counter
//! [`SpanIndex::clean`] is atomic, because other threads read it.

use core::cell::Cell;
use core::iter;
use core::ptr::NonNull;

use crate::geometry::{GRAIN, GRAINS, SEGMENT, TAGS};
use crate::os::CALL;
use crate::primitive::Counter;

/// The sets of a first-level cache repeat after this many bytes.
const WAY: usize = 4096;

/// Lists per doubling.
const LISTS: usize = 32;
/// Number of doublings, and one group of lists for lengths below 32 grains.
const GROUPS: usize = (SEGMENT / GRAIN).ilog2() as usize - 4;
/// Number of spans of a list that are tried for a large alignment before longer spans are.
const TRIES: usize = 8;

const FREE: u8 = 0;
const USED: u8 = 1;
const SENTINEL: u8 = 2;

#[repr(C, align(8))]
struct Tag {
    grains: Cell<u16>,
    before: Cell<u16>,
    state: Cell<u8>,
    class: Cell<u8>,
    clean: Cell<bool>,
    aged: Cell<u8>,
}

/// The links of a free span in its list.
#[repr(C)]
struct Links {
    next: Cell<Option<Span>>,
    previous: Cell<Option<Span>>,
}

/// The tags and links of a segment; all zeroes are a valid value.
#[repr(C)]
pub(crate) struct Tags {
    tags: [Tag; GRAINS + 1],
    links: [Links; GRAINS],
}

const _: () = assert!(size_of::<Tag>() == 8 && GRAINS <= u16::MAX as usize);

/// The tag of a span in a mapped segment.
///
/// Invariant: a value of this type refers to a tag that [`SpanIndex::format`] or a split wrote. It
/// is not used after the tag was joined into another span or its segment was unmapped. Only the
/// holder of the segment uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct Span(NonNull<Tag>);

impl Span {
    /// Returns the span that starts at an address.
    ///
    /// # Safety
    ///
    /// 1. `start` was given by [`Span::start`] of a span that still exists, or is the start that
    ///    [`SpanIndex::format`] was given, and the caller has its segment.
    #[inline]
    pub(crate) unsafe fn at_start(start: NonNull<u8>) -> Self {
        let index = start.addr().get() % SEGMENT / GRAIN;
        let offset = TAGS + index * size_of::<Tag>();
        let tag = start
            .as_ptr()
            .map_addr(|address| (address & !(SEGMENT - 1)) + offset);
        // SAFETY: the tags are in the segment's header, which is not at the address zero.
        Self(unsafe { NonNull::new_unchecked(tag) }.cast())
    }

    #[inline]
    fn tag<'a>(self) -> &'a Tag {
        // SAFETY: the tag exists, by the invariant of this type; its fields are cells, and only
        // this thread uses them.
        unsafe { self.0.as_ref() }
    }

    /// The index of the span's first grain.
    #[inline]
    fn index(self) -> usize {
        (self.0.addr().get() % SEGMENT - TAGS) / size_of::<Tag>()
    }

    #[inline]
    fn links<'a>(self) -> &'a Links {
        let offset = TAGS + core::mem::offset_of!(Tags, links) + self.index() * size_of::<Links>();
        let links = self
            .0
            .as_ptr()
            .map_addr(|address| (address & !(SEGMENT - 1)) + offset);
        // SAFETY: the links of each grain are behind the tags; only this thread uses them.
        unsafe { &*links.cast::<Links>() }
    }

    /// The start of the span.
    #[inline]
    pub(crate) fn start(self) -> NonNull<u8> {
        let offset = self.index() * GRAIN;
        let start = self
            .0
            .as_ptr()
            .map_addr(|address| (address & !(SEGMENT - 1)) + offset);
        // SAFETY: a span lies in its segment, which is not at the address zero.
        unsafe { NonNull::new_unchecked(start) }.cast()
    }

    /// The length in bytes.
    #[inline]
    pub(crate) fn bytes(self) -> usize {
        usize::from(self.tag().grains.get()) * GRAIN
    }

    /// Returns `true` if all bytes are zero.
    #[inline]
    pub(crate) fn is_clean(self) -> bool {
        self.tag().clean.get()
    }

    /// The class of the span.
    #[inline]
    pub(crate) fn class(self) -> u8 {
        self.tag().class.get()
    }

    /// Sets the class of the span.
    #[inline]
    pub(crate) fn set_class(self, class: u8) {
        self.tag().class.set(class);
    }

    #[inline]
    fn is_free(self) -> bool {
        self.tag().state.get() == FREE
    }

    /// The tag that many bytes further.
    #[inline]
    fn at(self, bytes: usize) -> Self {
        // SAFETY: callers stay inside the segment: the next tag, or the place of one inside this
        // span.
        Self(unsafe { self.0.add(bytes / GRAIN) })
    }

    /// The next span; the sentinel behind the last one.
    #[inline]
    fn next(self) -> Self {
        self.at(self.bytes())
    }

    #[inline]
    fn previous(self) -> Option<Self> {
        match self.tag().before.get() {
            0 => None,
            // SAFETY: a tag is that far before, in the same segment.
            before => Some(Self(unsafe { self.0.sub(usize::from(before)) })),
        }
    }

    /// Returns `true` if the span fills its segment.
    #[inline]
    pub(crate) fn is_whole(self) -> bool {
        self.tag().before.get() == 0 && self.next().tag().state.get() == SENTINEL
    }

    #[inline]
    fn set_bytes(self, bytes: usize) {
        debug_assert!(bytes.is_multiple_of(GRAIN) && bytes < SEGMENT);
        let grains = (bytes / GRAIN) as u16;
        self.tag().grains.set(grains);
        self.at(bytes).tag().before.set(grains);
    }

    /// Writes a tag, except for its length.
    #[inline]
    fn write(self, before: usize, state: u8, clean: bool) {
        let tag = self.tag();
        tag.before.set((before / GRAIN) as u16);
        tag.state.set(state);
        tag.clean.set(clean);
    }
}

/// The length of the span for `size` bytes.
#[inline]
pub(crate) const fn bytes_for(size: usize) -> usize {
    size.next_multiple_of(GRAIN)
}

/// The length of the spans of a class with blocks of `size` bytes.
///
/// Blocks whose size is a multiple of [`WAY`] get one grain more. Otherwise neighbours would use
/// the same cache sets, and data that a program uses side by side would evict each other.
#[inline]
pub(crate) const fn bytes_for_class(size: usize) -> usize {
    let bytes = bytes_for(size);
    if bytes.is_multiple_of(WAY) {
        bytes + GRAIN
    } else {
        bytes
    }
}

/// The result of a decay pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aged {
    /// Whether everything that two passes found unused has been returned.
    pub(crate) is_all: bool,
    /// Whether, in addition, no free span is left that later passes may return.
    pub(crate) is_clean: bool,
}

/// The free spans of one owner.
pub(crate) struct SpanIndex {
    groups: Cell<u32>,
    lists: [Cell<u32>; GROUPS],
    heads: [[Cell<Option<Span>>; LISTS]; GROUPS],
    /// The mark of the last pass, 1 and 2 in turn.
    pass_mark: Cell<u8>,
    /// Bytes of free spans that are zero: never touched, or returned to the system.
    pub(crate) clean: Counter,
}

impl SpanIndex {
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "each use makes a new cell, as an array needs"
    )]
    pub(crate) const fn new() -> Self {
        const NONE: Cell<Option<Span>> = Cell::new(None);
        const ROW: [Cell<Option<Span>>; LISTS] = [NONE; LISTS];
        const ZERO: Cell<u32> = Cell::new(0);
        Self {
            groups: Cell::new(0),
            lists: [ZERO; GROUPS],
            heads: [ROW; GROUPS],
            pass_mark: Cell::new(1),
            clean: Counter::new(),
        }
    }

    /// The list of spans of this length.
    #[inline]
    const fn list_of(bytes: usize) -> (usize, usize) {
        let grains = bytes / GRAIN;
        if grains < LISTS {
            (0, grains)
        } else {
            let log = grains.ilog2() as usize;
            (log - 4, (grains >> (log - 5)) - LISTS)
        }
    }

    /// The first list all of whose spans are at least this long; it may be behind the last group.
    #[inline]
    const fn list_from(bytes: usize) -> (usize, usize) {
        let grains = bytes / GRAIN;
        if grains < LISTS {
            (0, grains)
        } else {
            let log = grains.ilog2() as usize;
            Self::list_of((grains + (1 << (log - 5)) - 1) * GRAIN)
        }
    }

    /// Makes the `bytes` from `start` to the end of its segment one free span.
    ///
    /// # Safety
    ///
    /// 1. The bytes (a multiple of [`GRAIN`]) and the segment's [`Tags`] are zero, writable, and
    ///    the caller's alone. They stay writable and the caller's alone until the span is whole
    ///    again and taken out by [`SpanIndex::take_whole`].
    pub(crate) unsafe fn format(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: obligation 1; the tag is written now.
        let span = unsafe { Span::at_start(start) };
        span.write(0, FREE, true);
        span.at(bytes).write(bytes, SENTINEL, false);
        span.set_bytes(bytes);
        self.insert(span, bytes, true);
    }

    /// Inserts a span into the list of its length; the arguments become its tag.
    #[inline]
    fn insert(&self, span: Span, bytes: usize, is_clean: bool) {
        debug_assert!(bytes == span.bytes() && is_clean == span.is_clean());
        let (group, list) = Self::list_of(bytes);
        let head = &self.heads[group][list];
        let links = span.links();
        links.previous.set(None);
        links.next.set(head.get());
        if let Some(next) = head.get() {
            next.links().previous.set(Some(span));
        }
        head.set(Some(span));
        self.lists[group].set(self.lists[group].get() | 1 << list);
        self.groups.set(self.groups.get() | 1 << group);
        span.tag().state.set(FREE);
        span.tag().aged.set(0);
        if is_clean {
            self.clean.add(bytes as u64);
        }
    }

    /// Removes a free span from its list.
    #[inline]
    fn remove(&self, span: Span) {
        debug_assert!(span.is_free());
        let links = span.links();
        let next = links.next.get();
        if let Some(next) = next {
            next.links().previous.set(links.previous.get());
        }
        match links.previous.get() {
            Some(previous) => previous.links().next.set(next),
            None => {
                let (group, list) = Self::list_of(span.bytes());
                self.heads[group][list].set(next);
                if next.is_none() {
                    self.lists[group].set(self.lists[group].get() & !(1 << list));
                    if self.lists[group].get() == 0 {
                        self.groups.set(self.groups.get() & !(1 << group));
                    }
                }
            }
        }
        span.tag().state.set(USED);
        if span.is_clean() {
            self.clean.subtract(span.bytes() as u64);
        }
    }

    /// The spans of a list, from `first` on. The link of a span is read before the span is
    /// returned, so the span may be changed then.
    fn list(first: Option<Span>) -> impl Iterator<Item = Span> {
        iter::successors(first, |span| span.links().next.get())
    }

    /// The dirty free spans of at least `bytes` bytes.
    fn dirty(&self, bytes: usize) -> impl Iterator<Item = Span> {
        let (first, _) = Self::list_of(bytes);
        let heads = self.heads[first..].iter().flatten();
        let spans = heads.flat_map(|head| Self::list(head.get()));
        spans.filter(move |span| !span.is_clean() && span.bytes() >= bytes)
    }

    /// Records that a free span was cleared.
    fn set_clean(&self, span: Span) {
        span.tag().clean.set(true);
        self.clean.add(span.bytes() as u64);
    }

    /// The first span of the first list that is not empty, from this list on.
    #[inline]
    fn first_from(&self, group: usize, list: usize) -> Option<Span> {
        if group >= GROUPS {
            return None;
        }
        let here = self.lists[group].get() & (u32::MAX << list);
        if here != 0 {
            return self.heads[group][here.trailing_zeros() as usize].get();
        }
        let above = self.groups.get() & (u32::MAX << group << 1);
        if above == 0 {
            return None;
        }
        let group = above.trailing_zeros() as usize;
        let list = self.lists[group].get().trailing_zeros() as usize;
        self.heads[group][list].get()
    }

    /// Splits a used span after `bytes`, unless nothing is left, and frees the rest.
    #[inline]
    fn split(&self, span: Span, bytes: usize) {
        let rest = span.bytes() - bytes;
        if rest > 0 {
            self.cut(span, bytes, rest, span.is_clean());
            span.at(bytes).tag().aged.set(span.tag().aged.get());
        }
    }

    /// Frees the `rest` behind the first `bytes` of a used span.
    #[inline]
    fn cut(&self, span: Span, bytes: usize, rest: usize, is_clean: bool) {
        let tail = span.at(bytes);
        tail.write(bytes, FREE, is_clean);
        tail.set_bytes(rest);
        span.tag().grains.set((bytes / GRAIN) as u16);
        self.insert(tail, rest, is_clean);
    }

    /// Takes a span of `bytes`, a multiple of [`GRAIN`]; constant time.
    #[inline]
    pub(crate) fn take(&self, bytes: usize) -> Option<Span> {
        let (group, list) = Self::list_from(bytes);
        let span = self.first_from(group, list)?;
        self.remove(span);
        self.split(span, bytes);
        Some(span)
    }

    /// Takes a span of `bytes` that starts at a multiple of `align`, a power of two above
    /// [`GRAIN`]; constant time.
    pub(crate) fn take_aligned(&self, bytes: usize, align: usize) -> Option<Span> {
        let front_of = |span: Span| span.start().addr().get().wrapping_neg() & (align - 1);
        // A span of exactly this length and alignment fits as it is, such as the slot of each freed
        // slab.
        let (group, list) = Self::list_of(bytes);
        let first = self.heads.get(group).and_then(|lists| lists[list].get());
        let mut tried = Self::list(first).take(TRIES);
        let mut span = match tried.find(|&span| front_of(span) + bytes <= span.bytes()) {
            Some(span) => span,
            None => {
                let (group, list) = Self::list_from(bytes + align);
                self.first_from(group, list)?
            }
        };
        self.remove(span);
        let front = front_of(span);
        if front > 0 {
            let aligned = span.at(front);
            aligned.write(front, USED, span.is_clean());
            aligned.set_bytes(span.bytes() - front);
            span.set_bytes(front);
            // Both parts are as old as the whole was; the tag of the second part held no mark.
            let aged = span.tag().aged.get();
            aligned.tag().aged.set(aged);
            self.insert(span, front, span.is_clean());
            span.tag().aged.set(aged);
            span = aligned;
        }
        self.split(span, bytes);
        Some(span)
    }

    /// Frees a used span, joined with its free neighbours, and returns the joined span; constant
    /// time.
    #[inline]
    pub(crate) fn give(&self, mut span: Span) -> Span {
        debug_assert!(span.tag().state.get() == USED);
        span.tag().clean.set(false);
        let mut bytes = span.bytes();
        let next = span.next();
        if next.is_free() {
            self.remove(next);
            bytes += next.bytes();
        }
        if let Some(previous) = span.previous()
            && previous.is_free()
        {
            self.remove(previous);
            bytes += previous.bytes();
            previous.tag().clean.set(false);
            span = previous;
        }
        span.set_bytes(bytes);
        self.insert(span, bytes, false);
        span
    }

    /// Makes a used span `bytes` long, a multiple of [`GRAIN`], if the next span is free and long
    /// enough; constant time.
    pub(crate) fn resize(&self, span: Span, bytes: usize) -> bool {
        let next = span.next();
        let behind = if next.is_free() { next.bytes() } else { 0 };
        if span.bytes() + behind < bytes {
            return false;
        }
        if span.bytes() == bytes {
            return true;
        }
        let mut clean = false;
        if behind > 0 {
            self.remove(next);
            clean = next.is_clean();
            span.set_bytes(span.bytes() + behind);
        }
        let rest = span.bytes() - bytes;
        if rest > 0 {
            // The rest is clean only if it lies entirely in what was clean.
            self.cut(span, bytes, rest, clean && rest <= behind);
        }
        true
    }

    /// Takes a free span of `bytes` that fills its segment, before the segment is unmapped. If
    /// there are several, takes the most recently freed one.
    ///
    /// Cost: linear in the number of free spans of nearly that length.
    pub(crate) fn take_whole(&self, bytes: usize) -> Option<Span> {
        let (group, list) = Self::list_of(bytes);
        let span = Self::list(self.heads[group][list].get()).find(|span| span.is_whole())?;
        self.remove(span);
        Some(span)
    }

    /// Calls `discard` on each dirty free span of at least `bytes_min` bytes. `discard` may return
    /// its memory to the system, and must then clear the span. Returns the number of returned
    /// bytes.
    pub(crate) fn purge(
        &self,
        bytes_min: usize,
        mut discard: impl FnMut(Span) -> Option<usize>,
    ) -> usize {
        let mut purged = 0;
        for span in self.dirty(bytes_min) {
            if let Some(bytes) = discard(span) {
                purged += bytes;
                self.set_clean(span);
            }
        }
        purged
    }

    /// Calls `discard`, as [`purge`](Self::purge) does, on dirty free spans of at least `bytes_min`
    /// bytes that two passes found unused, as long as `may` allows the cost in bytes.
    ///
    /// A call with `is_new_pass` starts a pass, and marks the spans that have no mark yet. Other
    /// calls continue the pass, and leave the spans that it marked.
    pub(crate) fn age(
        &self,
        bytes_min: usize,
        is_new_pass: bool,
        mut may: impl FnMut(usize) -> bool,
        mut discard: impl FnMut(Span) -> Option<usize>,
    ) -> Aged {
        let mut aged = Aged {
            is_all: true,
            is_clean: true,
        };
        if is_new_pass {
            self.pass_mark.set(3 - self.pass_mark.get());
        }
        for span in self.dirty(bytes_min) {
            let mark = &span.tag().aged;
            if mark.get() == 0 {
                if is_new_pass {
                    mark.set(self.pass_mark.get());
                }
                aged.is_clean = false;
            } else if mark.get() == self.pass_mark.get() {
                // The last pass marked it.
                aged.is_clean = false;
            } else if !may(span.bytes() + CALL) {
                aged.is_all = false;
            } else if discard(span).is_some() {
                self.set_clean(span);
            } else {
                // If the system rejects the pages, it is not asked again in each call.
                mark.set(0);
                aged.is_clean = false;
            }
        }
        aged
    }

    /// Checks the rules of this file for the segment whose first span starts at `start`.
    #[cfg(test)]
    pub(crate) fn check(&self, start: NonNull<u8>) {
        // SAFETY: the segment was formatted from there on.
        let mut span = unsafe { Span::at_start(start) };
        let mut before = 0;
        let mut was_free = false;
        loop {
            assert_eq!(usize::from(span.tag().before.get()) * GRAIN, before);
            if span.tag().state.get() == SENTINEL {
                break;
            }
            assert_eq!(span.start().addr().get() % GRAIN, 0);
            assert!(!(was_free && span.is_free()), "two free neighbours");
            if span.is_free() {
                let (group, list) = Self::list_of(span.bytes());
                let mut members = Self::list(self.heads[group][list].get());
                assert!(
                    members.any(|member| member == span),
                    "a free span in its list"
                );
                if span.is_clean() {
                    // SAFETY: the span is no thread's, and initialised where it is clean.
                    let is_zero = unsafe { crate::arena::is_zero(span.start(), span.bytes()) };
                    assert!(is_zero, "a clean span is zero");
                }
            }
            was_free = span.is_free();
            before = span.bytes();
            span = span.next();
        }
        for (group, lists) in self.heads.iter().enumerate() {
            let bits = lists
                .iter()
                .enumerate()
                .filter(|(_, head)| head.get().is_some())
                .fold(0, |bits, (list, _)| bits | 1 << list);
            assert_eq!(self.lists[group].get(), bits);
            assert_eq!(self.groups.get() >> group & 1 != 0, bits != 0);
        }
    }
}
