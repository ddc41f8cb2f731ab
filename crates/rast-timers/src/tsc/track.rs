//! Publishes the segments of a clock, which are linear functions of the counter: one writer at a
//! time, wait-free readers.
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
//! | E, expired | a reader may have found that the current record has ended, and have read the time from the reference clock | a reader; the writer of a dead record; set at the start |
//! | L, left | the counter is not used any more | the writer of a dead record |
//! | R, ready | the next record is in its slot and begins where the current one ends | the writer; cleared when a reader moves the word to that record |
//!
//! The structure is a seqlock whose writer prepares the next record while readers use the current
//! one. So a writer that is preempted in the middle of writing delays no thread. A *dead* record
//! ends the use of the counter (`leave.rs`). A reader moves the word to the next record only when
//! it needs that record. Rules:
//!
//! 1. The writer of record s + 1 begins after s is in the word. When all fields are written, it
//!    sets R, or stores s + 1 in the word. If record s + 1 is ready and a dead record replaces it,
//!    the dead record is s + 2.
//! 2. A reader reads only records s and s − 1, where s is the sequence that it loaded. It uses the
//!    values only if the word is unchanged afterwards.
//! 3. R and E exclude each other: if R is set, a reader moves to the next record and does not read
//!    the reference.
//!
//! The slot of s is written again for s + 4, and the slot of s − 1 for s + 3. Both happen only
//! after s + 1 is in the word. A reader that saw such a write sees that the word has changed
//! (fences CK9, CK11).
//!
//! The writer replaces the word by compare-exchange. If a reader set E in between, the
//! compare-exchange fails, and the writer retries with the new word.

#![cfg_attr(
    not(any(rast_loom, rast_shuttle)),
    allow(
        unreachable_pub,
        reason = "the models reach it from outside, nothing else does"
    )
)]

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicU64, Ordering, fence};

/// Number of records in the ring.
const SLOTS: usize = 4;

/// Number of bits of the word below the sequence: three flags, and unused bits so that the
/// sequence, modulo the ring, is the offset of a slot of 128 bytes.
const SHIFT: u32 = 7;

/// A value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    const EXPIRED: u64 = 1;
    const LEFT: u64 = 2;
    const READY: u64 = 4;

    /// Returns whether readers may have read the time from the reference since this record was
    /// published.
    pub const fn is_expired(self) -> bool {
        self.0 & Self::EXPIRED != 0
    }

    /// Returns whether the counter has been left.
    pub const fn is_left(self) -> bool {
        self.0 & Self::LEFT != 0
    }

    /// Returns whether the next record is prepared.
    pub const fn is_ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    /// Returns the sequence number of the current record.
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
    /// Makes a track with an expired dead record of zeros, with which all readers use the
    /// reference.
    pub fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(Word::EXPIRED)),
            slots: core::array::from_fn(|_| {
                CachePadded::new(core::array::from_fn(|_| AtomicU64::new(0)))
            }),
        }
    }

    /// Loads the word; its record's fields may be read after that.
    #[inline(always)]
    pub fn word(&self) -> Word {
        // Acquire: pairs with the Release of the publication, so the fields of the record and of
        // the one before are visible. [CK7]
        Word(self.word.load(Ordering::Acquire))
    }

    /// Reads the first fields of the current record of `word`, or of the record `back` before it.
    /// The values are valid only if [`is_still`](Self::is_still) returns `true` afterwards.
    #[inline(always)]
    pub fn fields<const N: usize>(&self, word: Word, back: u64) -> [u64; N] {
        const { assert!(N <= FIELDS) };
        let slot = &self.slots[word.slot(back)];
        core::array::from_fn(|field| {
            // Relaxed: CK7 orders it after the writing of this record, and the fence CK9 before the
            // check for a later one. [CK8]
            slot[field].load(Ordering::Relaxed)
        })
    }

    /// Returns whether the word is still `word`: if so, the fields read in between are consistent.
    #[inline(always)]
    pub fn is_still(&self, word: Word) -> bool {
        // Acquire: pairs with the Release fence of the writer; if a field read above is of a later
        // record, the load below sees the changed word. [CK9]
        fence(Ordering::Acquire);
        // Relaxed: the fence above orders it. [CK10]
        self.word.load(Ordering::Relaxed) == word.0
    }

    /// Records that a reader found the record of `word` at its end; fails if the word has changed.
    pub fn expire(&self, word: Word) -> bool {
        // Relaxed: it only sets a flag for the writer, and, as a read-modify-write, continues the
        // release sequence of the publication. [CK14]
        self.word
            .compare_exchange(
                word.0,
                word.expired().0,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Moves to the record that is ready; does nothing if another reader did, or if the writer has
    /// published a dead record.
    pub fn turn(&self, word: Word) {
        debug_assert!(word.is_ready(), "rule 3");
        // Relaxed: the record was published with R. This compare-exchange is in the release
        // sequence of that publication, so CK7 synchronizes with it. [CK15]
        let _ = self.word.compare_exchange(
            word.0,
            (word.sequence() + 1) << SHIFT,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Publishes a record in place of that of `seen`, effective at once; fails if the record of
    /// `seen` has expired since. One writer at a time, serialised by the caller's lock.
    pub fn publish(&self, seen: Word, fields: [u64; FIELDS]) -> bool {
        let sequence = seen.sequence() + 1;
        self.replace(seen, Word(sequence << SHIFT), sequence, fields)
    }

    /// Prepares the next record for the first reader that needs it; fails if the record of `seen`
    /// has expired since. One writer at a time.
    pub fn prepare(&self, seen: Word, fields: [u64; FIELDS]) -> bool {
        let next = Word(seen.0 | Word::READY);
        self.replace(seen, next, seen.sequence() + 1, fields)
    }

    /// Changes one field of the record of `word`; readers may use the old or the new value. Only
    /// the writer may call it, while it holds the lock under which it published the following
    /// record, so that the slot still belongs to this record.
    pub fn amend(&self, word: Word, field: usize, value: u64) {
        // Relaxed: either value is correct, so no reader has to see it. [CK16]
        self.slots[word.slot(0)][field].store(value, Ordering::Relaxed);
    }

    /// Changes one field of the record of `word` from `seen` to `value`, and returns its final
    /// value: the first caller decides. The result is valid only if [`is_still`](Self::is_still)
    /// returns `true` afterwards. No other record may have `seen` in that field, so that a slow
    /// caller changes none of those.
    pub fn settle(&self, word: Word, field: usize, seen: u64, value: u64) -> u64 {
        let field = &self.slots[word.slot(0)][field];
        // Relaxed: the value publishes no other memory, and all callers get the same one. [CK17]
        match field.compare_exchange(seen, value, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => value,
            Err(other) => other,
        }
    }

    /// Publishes a dead record, made by `after` from the current one: expired, and left with
    /// `Leaves::ForGood`. One writer at a time.
    pub fn bury(&self, leaves: Leaves, after: impl Fn([u64; FIELDS]) -> [u64; FIELDS]) {
        loop {
            let seen = self.word();
            let flags = match leaves {
                Leaves::ForGood => Word::EXPIRED | Word::LEFT,
                Leaves::ToLearn => Word::EXPIRED,
            };
            // Not the slot of a ready record: a reader may move to that meanwhile.
            let sequence = seen.sequence() + 1 + u64::from(seen.is_ready());
            let next = Word(sequence << SHIFT | flags);
            // Only this thread writes records, so the current one is consistent. A second attempt
            // finds the expired bit, which no thread clears, or the record that was ready.
            if self.replace(seen, next, sequence, after(self.fields(seen, 0))) {
                return;
            }
        }
    }

    fn replace(&self, seen: Word, next: Word, sequence: u64, fields: [u64; FIELDS]) -> bool {
        // Release: pairs with the Acquire fence of the readers; orders the words of earlier records
        // before the fields of this one. [CK11]
        fence(Ordering::Release);
        let slot = &self.slots[(sequence % SLOTS as u64) as usize];
        for (field, value) in slot.iter().zip(fields) {
            // Relaxed: no reader uses it before the word below is stored, and CK11 shows a reader
            // that saw it too early that the word has changed. [CK12]
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
    /// The counter is unsound; it may be used again later.
    ForGood,
    /// The rate must be measured anew.
    ToLearn,
}

impl<const FIELDS: usize> Default for Track<FIELDS> {
    fn default() -> Self {
        Self::new()
    }
}
