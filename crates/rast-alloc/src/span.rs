//! Spans: the multi-level free lists over blocks with boundary tags, for sizes past the slabs' and for the slabs.
//!
//! Source: RAST 2.1, whose lists by the logarithm of the size become two levels, as in TLSF (Masmano and others, 2004):
//! 32 lists to each doubling, and a bitmap for each level, so that the first list that surely fits is found by two counts
//! of zeroes, and at most 1/32 of a span's size is passed over.
//!
//! ```text
//!   segment   ┌────────┬─────┬─────────┬─────┬─────────────┬─────┬───────┬──────────┐
//!             │ header │ tag │ payload │ tag │   payload   │ tag │  ...  │ sentinel │
//!             └────────┴─────┴─────────┴─────┴─────────────┴─────┴───────┴──────────┘
//!   tag, 16 bytes: │ bytes: u32 │ before: u32 │ state: u8 │ class: u8 │ clean: u8 │
//! ```
//!
//! | field | meaning |
//! | --- | --- |
//! | `bytes` | length with the tag, a multiple of 64; the next tag stands there |
//! | `before` | length of the span before, 0 for the first of a segment |
//! | `state` | free, used, or the sentinel, which is never free and has no next |
//! | `class` | the class that a used span serves, or that it serves none |
//! | `clean` | the payload is zero, but for the two words of the links |
//!
//! 1. Payloads start at multiples of 64: no two blocks share a line, and alignments up to 64 cost nothing.
//! 2. No two free spans are neighbours: giving back joins both sides at once.
//! 3. A free span stands in exactly one list, that of its length; a list's bit is set exactly if it is not empty.
//! 4. The sentinel needs no test for the end of the segment, and `before == 0` none for its start.
//!
//! One thread at a time has an index and all segments beneath it, so nothing here is atomic but the two figures.

use core::cell::Cell;
use core::ptr::NonNull;

use crate::segment::SEGMENT;
use crate::tally::Tally;

/// Lengths and starts of payloads are multiples of this.
pub(crate) const GRAIN: usize = 64;
/// The length of a tag.
pub(crate) const TAG: usize = size_of::<Tag>();

/// Lists to a doubling.
const LISTS: usize = 32;
/// Doublings, and one group of lists for lengths below 32 grains.
const GROUPS: usize = (SEGMENT / GRAIN).ilog2() as usize - 4;
/// How many spans of a list are tried for a wide alignment before the next larger ones are.
const TRIES: usize = 8;

const FREE: u8 = 0;
const USED: u8 = 1;
const SENTINEL: u8 = 2;

#[repr(C, align(16))]
struct Tag {
    bytes: Cell<u32>,
    before: Cell<u32>,
    state: Cell<u8>,
    class: Cell<u8>,
    clean: Cell<bool>,
}

/// What a free span's payload starts with.
#[repr(C)]
struct Links {
    next: Cell<Option<Span>>,
    previous: Cell<Option<Span>>,
}

const _: () = assert!(TAG == 16 && size_of::<Links>() <= GRAIN - TAG);

/// A tag that stands in a mapped segment.
///
/// Invariant: a value of this type is made for a tag that [`SpanIndex::format`] or a split wrote, and is not used after
/// the tag was joined into another span or its segment unmapped; the thread that uses it has the segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span(NonNull<Tag>);

impl Span {
    /// The span of a payload.
    ///
    /// # Safety
    ///
    /// 1. `payload` was given by [`Span::payload`] of a span that is still used, and the caller has its segment.
    #[inline]
    pub(crate) unsafe fn of_payload(payload: NonNull<u8>) -> Self {
        // SAFETY: the tag stands right before the payload, obligation 1.
        Self(unsafe { payload.sub(TAG) }.cast())
    }

    /// The span whose tag stands at `start`.
    ///
    /// # Safety
    ///
    /// 1. [`SpanIndex::format`] was called for `start`, the caller has its segment, and it is mapped.
    #[inline]
    pub(crate) unsafe fn first(start: NonNull<u8>) -> Self {
        Self(start.cast())
    }

    #[inline]
    fn tag<'a>(self) -> &'a Tag {
        // SAFETY: the tag stands, by the invariant of this type; its fields are cells, and only this thread has them.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn links<'a>(self) -> &'a Links {
        // SAFETY: a span is at least a grain long, which holds tag and links; only free spans have links, and nobody
        // else has a free span's payload.
        unsafe { self.payload().cast().as_ref() }
    }

    /// The start of the bytes behind the tag.
    #[inline]
    pub(crate) fn payload(self) -> NonNull<u8> {
        // SAFETY: a span is longer than its tag.
        unsafe { self.0.cast::<u8>().add(TAG) }
    }

    /// The length with the tag.
    #[inline]
    pub(crate) fn bytes(self) -> usize {
        self.tag().bytes.get() as usize
    }

    /// The length of the payload.
    #[inline]
    pub(crate) fn capacity(self) -> usize {
        self.bytes() - TAG
    }

    /// Whether the payload is zero from its third word on.
    #[inline]
    pub(crate) fn is_clean(self) -> bool {
        self.tag().clean.get()
    }

    /// The class that the span was marked with.
    #[inline]
    pub(crate) fn class(self) -> u8 {
        self.tag().class.get()
    }

    /// Marks the span with the class that it serves.
    #[inline]
    pub(crate) fn set_class(self, class: u8) {
        self.tag().class.set(class);
    }

    #[inline]
    fn is_free(self) -> bool {
        self.tag().state.get() == FREE
    }

    #[inline]
    fn at(self, offset: usize) -> Self {
        // SAFETY: callers stay inside the segment: the next tag, or the place of one inside this span.
        Self(unsafe { self.0.byte_add(offset) })
    }

    /// The span behind; the sentinel behind the last one.
    #[inline]
    fn next(self) -> Self {
        self.at(self.bytes())
    }

    #[inline]
    fn previous(self) -> Option<Self> {
        match self.tag().before.get() {
            0 => None,
            // SAFETY: a tag stands that far before, in the same segment.
            before => Some(Self(unsafe { self.0.byte_sub(before as usize) })),
        }
    }

    /// Whether the span fills its segment.
    #[inline]
    pub(crate) fn is_whole(self) -> bool {
        self.tag().before.get() == 0 && self.next().tag().state.get() == SENTINEL
    }

    #[inline]
    fn set_bytes(self, bytes: usize) {
        debug_assert!(bytes.is_multiple_of(GRAIN) && bytes < SEGMENT);
        self.tag().bytes.set(bytes as u32);
        self.at(bytes).tag().before.set(bytes as u32);
    }

    /// Writes a tag where none stands.
    fn write(self, before: usize, state: u8, clean: bool) {
        let tag = Tag {
            bytes: Cell::new(0),
            before: Cell::new(before as u32),
            state: Cell::new(state),
            class: Cell::new(0),
            clean: Cell::new(clean),
        };
        // SAFETY: the place lies in a segment that this thread has, at a multiple of 16, and belongs to no block.
        unsafe { self.0.write(tag) };
    }
}

/// The length of the span that holds `size` bytes.
#[inline]
pub(crate) const fn bytes_for(size: usize) -> usize {
    (size + TAG).next_multiple_of(GRAIN)
}

/// The free spans of one owner.
pub(crate) struct SpanIndex {
    groups: Cell<u32>,
    lists: [Cell<u32>; GROUPS],
    heads: [[Cell<Option<Span>>; LISTS]; GROUPS],
    /// Bytes of free spans.
    pub(crate) free: Tally,
    /// Bytes of free spans whose payload is zero: untouched, or given back to the system.
    pub(crate) clean: Tally,
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
            free: Tally::new(),
            clean: Tally::new(),
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

    /// The first list all of whose spans are at least this long; it may lie past the last group.
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

    /// Makes the bytes from `start` one free span, with a sentinel behind it.
    ///
    /// # Safety
    ///
    /// 1. The `bytes` at `start`, a multiple of [`GRAIN`] of at least one grain more than the sentinel's tag, are
    ///    writable, zero, the caller's alone, and stay so until the span is whole again and [`SpanIndex::withdraw`]n.
    /// 2. `start` plus [`TAG`] is a multiple of [`GRAIN`].
    pub(crate) unsafe fn format(&self, start: NonNull<u8>, bytes: usize) {
        let span = Span(start.cast());
        span.write(0, FREE, true);
        let length = bytes - TAG;
        span.at(length).write(length, SENTINEL, false);
        span.set_bytes(length);
        self.insert(span, length, true);
    }

    /// Puts a span into the list of its length.
    ///
    /// What its tag says is passed along: the tag of a span that was split off lies on a page and a line that are seldom
    /// at hand, and a store there is not waited for, while a load is.
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
        self.free.add(bytes as u64);
        if is_clean {
            self.clean.add(bytes as u64);
        }
    }

    /// Takes a free span out of its list.
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
        self.free.subtract(span.bytes() as u64);
        if span.is_clean() {
            self.clean.subtract(span.bytes() as u64);
        }
    }

    /// The first span of the first list from this one on.
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

    /// Cuts the end of a used span off, past `bytes`, unless nothing is left over, and makes it a free one.
    #[inline]
    fn split(&self, span: Span, bytes: usize) {
        let rest = span.bytes() - bytes;
        if rest > 0 {
            self.cut(span, bytes, rest, span.is_clean());
        }
    }

    /// Makes the `rest` behind the first `bytes` of a used span a free one.
    #[inline]
    fn cut(&self, span: Span, bytes: usize, rest: usize, is_clean: bool) {
        let tail = span.at(bytes);
        tail.write(bytes, FREE, is_clean);
        tail.set_bytes(rest);
        span.tag().bytes.set(bytes as u32);
        self.insert(tail, rest, is_clean);
    }

    /// Takes a span of `bytes`, a multiple of [`GRAIN`], out; constant time.
    #[inline]
    pub(crate) fn take(&self, bytes: usize) -> Option<Span> {
        let (group, list) = Self::list_from(bytes);
        let span = self.first_from(group, list)?;
        self.remove(span);
        self.split(span, bytes);
        Some(span)
    }

    /// Takes a span of `bytes` whose payload is at a multiple of `align`, a power of two past [`GRAIN`]; constant time.
    pub(crate) fn take_aligned(&self, bytes: usize, align: usize) -> Option<Span> {
        let front_of = |span: Span| span.payload().addr().get().wrapping_neg() & (align - 1);
        // A span that has the length and lies well fits as it is: so does the place of each slab that was given back.
        let (group, list) = Self::list_of(bytes);
        let mut candidate = if group < GROUPS {
            self.heads[group][list].get()
        } else {
            None
        };
        let mut found = None;
        for _ in 0..TRIES {
            let Some(span) = candidate else { break };
            if front_of(span) + bytes <= span.bytes() {
                found = Some(span);
                break;
            }
            candidate = span.links().next.get();
        }
        let mut span = match found {
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
            self.insert(span, front, span.is_clean());
            span = aligned;
        }
        self.split(span, bytes);
        Some(span)
    }

    /// Gives a used span back, joined with its free neighbours, and returns what came of it; constant time.
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

    /// Makes a used span `bytes` long, a multiple of [`GRAIN`], if the span behind it gives what lacks; constant time.
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
            // The tail is clean only if it lies wholly behind the links of what was clean.
            self.cut(span, bytes, rest, clean && rest + GRAIN <= behind);
        }
        true
    }

    /// Takes a free span that fills its segment out for good: the segment is going away.
    pub(crate) fn withdraw(&self, span: Span) {
        debug_assert!(span.is_whole());
        self.remove(span);
    }

    /// Calls `discard` on the whole pages of each dirty free span of at least `least` bytes; where it answers that they
    /// are zero now, clears the rest of the span too. Returns how many bytes were given back.
    pub(crate) fn purge(
        &self,
        least: usize,
        mut discard: impl FnMut(Span) -> Option<usize>,
    ) -> usize {
        let mut purged = 0;
        let (first, _) = Self::list_of(least.max(GRAIN));
        for group in &self.heads[first..] {
            for head in group {
                let mut next = head.get();
                while let Some(span) = next {
                    next = span.links().next.get();
                    if span.is_clean() || span.bytes() < least {
                        continue;
                    }
                    if let Some(bytes) = discard(span) {
                        purged += bytes;
                        span.tag().clean.set(true);
                        self.clean.add(span.bytes() as u64);
                    }
                }
            }
        }
        purged
    }

    /// Checks the rules of this file for the segment whose first tag stands at `start`.
    #[cfg(test)]
    pub(crate) fn check(&self, start: NonNull<u8>) {
        let mut span = Span(start.cast());
        let mut before = 0;
        let mut was_free = false;
        loop {
            assert_eq!(span.tag().before.get() as usize, before);
            if span.tag().state.get() == SENTINEL {
                break;
            }
            assert_eq!(span.payload().addr().get() % GRAIN, 0);
            assert!(!(was_free && span.is_free()), "two free neighbours");
            if span.is_free() {
                let (group, list) = Self::list_of(span.bytes());
                let mut member = self.heads[group][list].get();
                while member.is_some_and(|member| member != span) {
                    member = member.and_then(|member| member.links().next.get());
                }
                assert_eq!(member, Some(span), "a free span in its list");
                if span.is_clean() {
                    let skip = size_of::<Links>();
                    // SAFETY: the payload is longer than its links.
                    let rest = unsafe { span.payload().add(skip) };
                    // SAFETY: the rest of the payload is nobody's, and initialised where it is clean.
                    let is_zero = unsafe { crate::arena::is_zero(rest, span.capacity() - skip) };
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
