//! Where the segments of a clock are published: one writer at a time, readers
//! that never wait.
//!
//! ```text
//!           word                        ring of four records
//!  ┌──────────────┬──┬──┬──┐    ┌────────┬────────┬────────┬────────┐
//!  │ sequence  57 │R │L │E │    │  s     │  s + 1 │ s + 2  │ s − 1  │
//!  └──────────────┴──┴──┴──┘    └────────┴────────┴────────┴────────┘
//!                                 current   next    unread   previous
//! ```
//!
//! | bit | meaning | set by |
//! | --- | --- | --- |
//! | E, expired | a reader may have found the current record at its end, and have taken the time from the reference | any reader, or the writer with a dead record |
//! | L, left | the counter is not used any more | the writer |
//! | R, ready | the next record is in its slot and follows where the current one ends | the writer; gone when a reader turns to it |
//!
//! A seqlock whose writer prepares the next record while the current one is
//! read, so that a writer that is off its core in the middle of writing holds
//! up no thread. The word moves to a record in time only when a reader needs it,
//! so that until then all find the current one at once. Rules:
//!
//! 1. The writer of record s + 1 begins after s is in the word, and sets R, or
//!    puts s + 1 into the word, when all its fields are written. A dead record
//!    in place of one that is ready is s + 2.
//! 2. A reader reads records s and s − 1 alone, s being the sequence that it
//!    loaded, and keeps what it read only if the word is still the same.
//! 3. R and E exclude each other: with R a reader turns to the next record and
//!    does not ask the reference.
//!
//! The slot of s, or of s − 1, is written again for s + 4, or s + 3: after
//! s + 1 is in the word at least. A reader that saw such a write sees the word
//! moved (fences CK9, CK11).
//!
//! The writer replaces the word it has seen, so a reader's E that came between
//! is not lost: the writer then starts again and knows.

#![cfg_attr(
    not(any(rast_loom, rast_shuttle)),
    allow(
        unreachable_pub,
        reason = "the models reach it from outside, nobody else does"
    )
)]

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicU64, Ordering, fence};

/// Records in the ring.
const SLOTS: usize = 4;

/// Bits of the word below the sequence: three flags, and so many unused ones that
/// the sequence, cut to the ring, is the offset of a slot of 128 bytes.
const SHIFT: u32 = 7;

/// The value of the word at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    const EXPIRED: u64 = 1;
    const LEFT: u64 = 2;
    const READY: u64 = 4;

    /// Whether readers may have taken the time from the reference since this
    /// record was published.
    pub const fn is_expired(self) -> bool {
        self.0 & Self::EXPIRED != 0
    }

    /// Whether the counter has been left.
    pub const fn is_left(self) -> bool {
        self.0 & Self::LEFT != 0
    }

    /// Whether the next record waits for the end of the current one.
    pub const fn is_ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    /// The number of the current record.
    pub const fn sequence(self) -> u64 {
        self.0 >> SHIFT
    }

    pub(super) const fn expired(self) -> Self {
        Self(self.0 | Self::EXPIRED)
    }

    const fn slot(self, back: u64) -> usize {
        (self.sequence().wrapping_sub(back) % SLOTS as u64) as usize
    }
}

/// The word and the ring.
#[derive(Debug)]
pub struct Track<const FIELDS: usize> {
    word: CachePadded<AtomicU64>,
    slots: [CachePadded<[AtomicU64; FIELDS]>; SLOTS],
}

impl<const FIELDS: usize> Track<FIELDS> {
    /// Makes a track with a dead record of zeros, expired: no thread has read
    /// from it, and all may go to the reference.
    pub fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(Word::EXPIRED)),
            slots: core::array::from_fn(|_| {
                CachePadded::new(core::array::from_fn(|_| AtomicU64::new(0)))
            }),
        }
    }

    /// Returns the word; its record's fields may be read after.
    #[inline(always)]
    pub fn word(&self) -> Word {
        // Acquire: pairs with the Release of the publication; the fields of
        // the record and of the one before are seen. [CK7]
        Word(self.word.load(Ordering::Acquire))
    }

    /// Reads the first fields of the current record of `word`, or of the one
    /// so many `back`; they mean nothing until [`is_still`](Self::is_still).
    #[inline(always)]
    pub fn fields<const N: usize>(&self, word: Word, back: u64) -> [u64; N] {
        const { assert!(N <= FIELDS) };
        let slot = &self.slots[word.slot(back)];
        core::array::from_fn(|field| {
            // Relaxed: CK7 orders it behind the writing of this record, and
            // the fence CK9 before the look for a later one. [CK8]
            slot[field].load(Ordering::Relaxed)
        })
    }

    /// Tells whether the word is still `word`: then what was read in between
    /// is whole.
    #[inline(always)]
    pub fn is_still(&self, word: Word) -> bool {
        // Acquire: pairs with the Release fence of the writer; if a field read
        // above is of a later record, the load below sees the word moved. [CK9]
        fence(Ordering::Acquire);
        // Relaxed: the fence above orders it. [CK10]
        self.word.load(Ordering::Relaxed) == word.0
    }

    /// Notes that a reader found the record of `word` at its end; fails if the
    /// word is not `word` any more.
    pub fn expire(&self, word: Word) -> bool {
        // Relaxed: it tells the writer that it happened, nothing more; it
        // leaves the release sequence of the publication whole. [CK14]
        self.word
            .compare_exchange(
                word.0,
                word.expired().0,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Turns to the record that is ready; nothing if another reader did, or
    /// the writer has buried it.
    pub fn turn(&self, word: Word) {
        debug_assert!(word.is_ready(), "rule 3");
        // Relaxed: the record was published with R; this exchange is of the
        // release sequence of that publication, so CK7 finds it. [CK15]
        let _ = self.word.compare_exchange(
            word.0,
            (word.sequence() + 1) << SHIFT,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Publishes a record in place of the one of `seen`, from now on; fails if
    /// that has expired since. One writer at a time, with a lock of its own.
    pub fn publish(&self, seen: Word, fields: [u64; FIELDS]) -> bool {
        let sequence = seen.sequence() + 1;
        self.replace(seen, Word(sequence << SHIFT), sequence, fields)
    }

    /// Puts the record after that of `seen` ready for the first reader who
    /// needs it; fails if that has expired since. One writer at a time.
    pub fn prepare(&self, seen: Word, fields: [u64; FIELDS]) -> bool {
        let next = Word(seen.0 | Word::READY);
        self.replace(seen, next, seen.sequence() + 1, fields)
    }

    /// Changes one field of the record of `word` where readers may go by the
    /// old value or the new one. The writer alone, with the lock that it
    /// published the record after this one under, so that the slot is still
    /// the record's.
    pub fn amend(&self, word: Word, field: usize, value: u64) {
        // Relaxed: either value is right, so no reader has to see it. [CK16]
        self.slots[word.slot(0)][field].store(value, Ordering::Relaxed);
    }

    /// Changes one field of the record of `word` from `seen` to `value`, and
    /// returns what it is from then on: the first caller decides. It means
    /// nothing until [`is_still`](Self::is_still). `seen` is a value that no
    /// other record has there, so a slow caller changes none of those.
    pub fn settle(&self, word: Word, field: usize, seen: u64, value: u64) -> u64 {
        let field = &self.slots[word.slot(0)][field];
        // Relaxed: the value is all there is, and all callers get one. [CK17]
        match field.compare_exchange(seen, value, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => value,
            Err(other) => other,
        }
    }

    /// Publishes a dead record: expired, and left if `leaves` is. `after` makes
    /// it from the current one. One writer at a time.
    pub fn bury(&self, leaves: Leaves, after: impl Fn([u64; FIELDS]) -> [u64; FIELDS]) {
        loop {
            let seen = self.word();
            let flags = match leaves {
                Leaves::ForGood => Word::EXPIRED | Word::LEFT,
                Leaves::ToLearn => Word::EXPIRED,
            };
            // Not where one is ready: a reader may turn to that meanwhile.
            let sequence = seen.sequence() + 1 + u64::from(seen.is_ready());
            let next = Word(sequence << SHIFT | flags);
            // Only this thread writes records, so the current one is whole. A
            // second try meets the expired bit, which no thread takes away, or the
            // record that was ready.
            if self.replace(seen, next, sequence, after(self.fields(seen, 0))) {
                return;
            }
        }
    }

    fn replace(&self, seen: Word, next: Word, sequence: u64, fields: [u64; FIELDS]) -> bool {
        // Release: pairs with the Acquire fence of the readers; orders the word
        // of the records before this one before its fields. [CK11]
        fence(Ordering::Release);
        let slot = &self.slots[(sequence % SLOTS as u64) as usize];
        for (field, value) in slot.iter().zip(fields) {
            // Relaxed: no reader keeps it before the word below, and CK11
            // shows those that saw it too early that the word has moved. [CK12]
            field.store(value, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire of the readers' load of the word;
        // publishes the fields above. [CK13]
        self.word
            .compare_exchange(seen.0, next.0, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }
}

/// Why a dead record is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// The counter is unsound.
    ForGood,
    /// The pace has to be learned anew.
    ToLearn,
}

impl<const FIELDS: usize> Default for Track<FIELDS> {
    fn default() -> Self {
        Self::new()
    }
}
