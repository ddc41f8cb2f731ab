//! The wake-ups in transit to one worker. A *mark* is one wake-up: a shard, and a *note*, 32 bits
//! that the waker passes to the shard.
//!
//! ```text
//!   ring of a sending worker, made at its first mark        bits without notes, for other threads
//!                                                            and for marks past what may be kept
//!   slot   63   62            32 31             0           words   ┌─────────────────┐
//!          ┌───┬────────────────┬────────────────┐                  │ a bit per shard │
//!          │lap│ shard          │ note           │                  └─────────────────┘
//!          └───┴────────────────┴────────────────┘          flags   ┌────┐
//!   head   number of marks taken, own line                          │0, 1│ one per group:
//!                                                                   └────┘ 64 words
//! ```
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | slot | the sending worker, when `head` shows that it is free | the receiving worker |
//! | head | the receiving worker | the sending worker, when the ring seems full |
//! | words | any thread, to set a bit; the receiving worker, to clear all bits | the receiving worker |
//! | flag | any thread, after it has set a bit; the receiving worker, which clears the flag before it clears the words; before it sleeps it checks the words, and sets the flag if it finds a bit | the receiving worker |
//!
//! A round of the worker's loop checks the flags of all groups, so the flags are adjacent: 32 are
//! in two cache lines. The worker reads the words of a group only if the flag of the group is set,
//! or if the worker is about to sleep.
//!
//! The lap bit of a slot changes with each write. So the receiver finds out by one load whether the
//! slot has a new mark, and sending a mark is one store.

use std::boxed::Box;
use std::collections::VecDeque;

use crate::ids::{ShardId, WorkerId};
use crate::primitive::CachePadded;
use crate::primitive::sync::OnceLock;
use crate::primitive::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Number of slots of a ring, a power of two.
const SLOTS: usize = if cfg!(rast_loom) { 2 } else { 64 };

/// Number of bits of a slot that name the shard.
const SHARD_BITS: u32 = 31;

/// Maximum number of shards: their numbers fit a slot.
pub(crate) const MAX_SHARDS: usize = 1 << SHARD_BITS;

/// Number of bits of a word.
const WORD: usize = u64::BITS as usize;

/// Number of words of a group.
const GROUP_WORDS: usize = 64;

/// Number of shards of a group.
const GROUP: usize = GROUP_WORDS * WORD;

/// Number of flags that are padded together.
const FLAGS: usize = if cfg!(rast_loom) { 1 } else { 32 };

/// Maximum number of marks that are kept for full rings; past it they become bits. A dedicated
/// worker keeps none.
const KEPT: usize = if cfg!(rast_loom) { 2 } else { 256 };

const _: () = assert!(SLOTS.is_power_of_two(), "positions wrap");

/// A wake-up: the shard, and the waker's note.
pub(super) type Mark = (ShardId, u32);

/// The marks that one worker sends to another.
#[derive(Debug)]
pub(super) struct Ring {
    head: CachePadded<AtomicU32>,
    slots: [AtomicU64; SLOTS],
}

impl Ring {
    fn new() -> Self {
        Self {
            head: CachePadded::new(AtomicU32::new(0)),
            slots: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn slot(&self, position: u32) -> &AtomicU64 {
        &self.slots[position as usize % SLOTS]
    }

    /// Returns the mark at `head`, if there is one.
    #[inline]
    fn get(&self, head: u32) -> Option<Mark> {
        // Acquire: pairs with the Release in Outbox::put, for what the waker wrote before. [WK1]
        let slot = self.slot(head).load(Ordering::Acquire);
        if slot >> 63 != lap(head) {
            return None;
        }
        let shard = (slot >> 32) as u32 & (MAX_SHARDS as u32 - 1);
        Some((ShardId(shard), slot as u32))
    }

    fn is_empty(&self, head: u32) -> bool {
        // Relaxed: a hint, since Ring::get loads again; in the check before a sleep the fence in
        // park orders it. [WK2]
        self.slot(head).load(Ordering::Relaxed) >> 63 != lap(head)
    }
}

/// Returns the lap bit of a position: 1 in the first lap, because slots start as 0.
const fn lap(position: u32) -> u64 {
    !(position as u64 / SLOTS as u64) & 1
}

/// The sending worker's half of a ring, and the marks that did not fit the ring.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    tail: u32,
    /// Cached value of `Ring::head`.
    head: u32,
    pub(super) kept: VecDeque<Mark>,
    /// Whether the target may sleep despite a mark that was put since the last flush.
    pub(super) is_marked: bool,
}

impl Outbox {
    /// Makes an empty outbox with room for the marks that it keeps, so that a wake-up allocates
    /// nothing.
    pub(super) fn new() -> Self {
        Self {
            kept: VecDeque::with_capacity(KEPT + 1),
            ..Self::default()
        }
    }

    /// Puts a mark into the ring; returns `false` if the ring is full.
    #[inline]
    pub(super) fn put(&mut self, ring: &Ring, (shard, note): Mark) -> bool {
        if self.tail.wrapping_sub(self.head) == SLOTS as u32 {
            // Relaxed: the receiver stores it after its Acquire load of the slot, so that load
            // cannot see what is stored here next. [WK3]
            self.head = ring.head.load(Ordering::Relaxed);
            if self.tail.wrapping_sub(self.head) == SLOTS as u32 {
                return false;
            }
        }
        let mark = lap(self.tail) << 63 | u64::from(shard.0) << 32 | u64::from(note);
        // Release: pairs with the Acquire in Ring::get; publishes what the waker wrote. [WK4]
        ring.slot(self.tail).store(mark, Ordering::Release);
        self.tail = self.tail.wrapping_add(1);
        true
    }

    /// Keeps a mark that did not fit the ring; returns `true` if kept marks must become bits.
    pub(super) fn keep(&mut self, mark: Mark) -> bool {
        self.kept.push_back(mark);
        self.kept.len() > KEPT
    }

    /// Puts kept marks into the ring; returns `true` if none is left.
    pub(super) fn put_kept(&mut self, ring: &Ring) -> bool {
        while let Some(&mark) = self.kept.front() {
            if !self.put(ring, mark) {
                return false;
            }
            self.kept.pop_front();
        }
        true
    }
}

/// By group: set if a bit may be set.
type Flags = CachePadded<[AtomicU32; FLAGS]>;

/// The bits of up to [`GROUP`] shards.
#[derive(Clone, Copy, Debug)]
struct Group<'a> {
    flag: &'a AtomicU32,
    words: &'a [AtomicU64],
}

/// All wake-ups on their way to one worker.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Rings by sending worker. The cell publishes the memory of a ring; the slots publish marks.
    rings: Box<[OnceLock<Box<Ring>>]>,
    flags: Box<[Flags]>,
    /// A bit per shard.
    words: Box<[AtomicU64]>,
    /// Number of groups, and so of flags that are used.
    groups: usize,
}

impl Inbox {
    pub(super) fn new(workers: usize, shards: usize) -> Self {
        let groups = shards.div_ceil(GROUP);
        let flags = |_| CachePadded::new(core::array::from_fn(|_| AtomicU32::new(0)));
        let words = 0..shards.div_ceil(WORD);
        let ring = |_| match cfg!(rast_loom) {
            // loom does not see what a `OnceLock` publishes.
            true => OnceLock::from(Box::new(Ring::new())),
            false => OnceLock::new(),
        };
        Self {
            rings: (0..workers).map(ring).collect(),
            flags: (0..groups.div_ceil(FLAGS)).map(flags).collect(),
            words: words.map(|_| AtomicU64::new(0)).collect(),
            groups,
        }
    }

    /// Returns the flag of a group.
    #[inline]
    fn flag(&self, group: usize) -> &AtomicU32 {
        &self.flags[group / FLAGS][group % FLAGS]
    }

    /// Calls `each` with each group whose flag is set, and its number.
    #[inline]
    fn each_flagged(&self, mut each: impl FnMut(usize)) {
        let mut first = 0;
        for flags in &self.flags {
            let count = (self.groups - first).min(FLAGS);
            for (at, flag) in flags[..count].iter().enumerate() {
                // Relaxed: the fence in take_slow orders it. [WK9]
                if flag.load(Ordering::Relaxed) != 0 {
                    each(first + at);
                }
            }
            first += FLAGS;
        }
    }

    /// Returns a group.
    fn group(&self, group: usize) -> Group<'_> {
        let first = group * GROUP_WORDS;
        let end = self.words.len().min(first + GROUP_WORDS);
        Group {
            flag: self.flag(group),
            words: &self.words[first..end],
        }
    }

    /// Returns the ring of a sending worker.
    #[inline]
    pub(super) fn ring(&self, from: WorkerId) -> &Ring {
        self.rings[from.index()].get_or_init(|| Box::new(Ring::new()))
    }

    /// Returns `true` if there is a mark of a sending worker at `head`. A hint.
    #[inline]
    pub(super) fn has_mark(&self, from: usize, head: u32) -> bool {
        self.rings[from]
            .get()
            .is_some_and(|ring| !ring.is_empty(head))
    }

    /// Takes the marks of a sending worker, from `head` on.
    pub(super) fn take_marks(&self, from: usize, head: &mut u32, mut each: impl FnMut(Mark)) {
        let Some(ring) = self.rings[from].get() else {
            return;
        };
        let first = *head;
        while let Some(mark) = ring.get(*head) {
            *head = head.wrapping_add(1);
            each(mark);
        }
        if *head != first {
            // Relaxed: see Outbox::put. [WK5]
            ring.head.store(*head, Ordering::Relaxed);
        }
    }

    /// Sets the bit of a shard. A SeqCst fence is between the bit and the caller's next load.
    pub(super) fn set_bit(&self, shard: ShardId) {
        let (word, bit) = (shard.index() / WORD, shard.index() % WORD);
        // Release: pairs with the Acquire in take_bits; publishes what the waker wrote. A
        // read-modify-write, so that setting another bit continues the release sequence. [WK6]
        self.words[word].fetch_or(1 << bit, Ordering::Release);
        // SeqCst: pairs with the fences in take_bits and in park. If the one in take_bits is first,
        // the flag below is set after it was cleared; otherwise the bit is seen. [WK7]
        fence(Ordering::SeqCst);
        // Relaxed: see above. [WK8]
        self.flag(word / GROUP_WORDS).store(1, Ordering::Relaxed);
    }

    /// Takes all bits.
    #[inline]
    pub(super) fn take_bits(&self, mut each: impl FnMut(ShardId)) {
        self.each_flagged(|group| self.group(group).take_slow(group * GROUP, &mut each));
    }

    /// Returns `true` if there is a mark, or the flag of a bit. A hint.
    #[inline]
    pub(super) fn may_have_any(&self, heads: &[u32]) -> bool {
        let mut heads = heads.iter().enumerate();
        heads.any(|(from, &head)| self.has_mark(from, head)) || {
            let mut is_flagged = false;
            self.each_flagged(|_| is_flagged = true);
            is_flagged
        }
    }

    /// Returns `true` if there is no mark and no bit. The caller has a SeqCst fence between storing
    /// that it sleeps and this call.
    pub(super) fn is_empty(&self, heads: &[u32]) -> bool {
        let mut heads = heads.iter().enumerate();
        let no_mark = !heads.any(|(from, &head)| self.has_mark(from, head));
        // All groups are checked, so that each one with a bit is flagged.
        let groups = (0..self.groups).map(|group| self.group(group));
        groups.filter(Group::has_bit).count() == 0 && no_mark
    }
}

impl Group<'_> {
    /// Checks for a bit regardless of the flag, which a waker sets after its fence, and then flags
    /// the group.
    fn has_bit(&self) -> bool {
        let has_bit = self.words.iter().any(|word| {
            // Relaxed: ordered by the fence in park. [WK10]
            word.load(Ordering::Relaxed) != 0
        });
        if has_bit {
            // Relaxed: for this worker's own next check. [WK15]
            self.flag.store(1, Ordering::Relaxed);
        }
        has_bit
    }

    #[cold]
    fn take_slow(&self, first: usize, each: &mut impl FnMut(ShardId)) {
        // Relaxed: the fence below orders it. [WK11]
        self.flag.store(0, Ordering::Relaxed);
        // SeqCst: pairs with the fence in set_bit. [WK12]
        fence(Ordering::SeqCst);
        for (at, word) in self.words.iter().enumerate() {
            // Relaxed: a check, so that a word without bits costs no read-modify-write. [WK13]
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Acquire: pairs with the Release in set_bit, for what the wakers wrote. [WK14]
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                each(ShardId::from_index(
                    first + at * WORD + bits.trailing_zeros() as usize,
                ));
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_ring_keeps_order_over_its_laps_and_refuses_when_full() {
        let ring = Ring::new();
        let near_wrap = u32::MAX - 100;
        // As after many laps: every slot has the lap bit of the lap before.
        let mut outbox = Outbox {
            tail: near_wrap - near_wrap % SLOTS as u32,
            ..Outbox::default()
        };
        outbox.head = outbox.tail;
        let mut head = outbox.head;
        for slot in &ring.slots {
            slot.store((lap(head) ^ 1) << 63, Ordering::Relaxed);
        }
        ring.head.store(head, Ordering::Relaxed);
        let (mut next, mut seen) = (0, 0);
        for _ in 0..10 {
            while outbox.put(&ring, (ShardId(MAX_SHARDS as u32 - 1), next)) {
                next += 1;
            }
            assert_eq!(next - seen, SLOTS as u32);
            while let Some((shard, note)) = ring.get(head) {
                assert_eq!((shard, note), (ShardId(MAX_SHARDS as u32 - 1), seen));
                seen += 1;
                head = head.wrapping_add(1);
            }
            ring.head.store(head, Ordering::Relaxed);
        }
        assert_eq!(seen, 10 * SLOTS as u32);
    }

    #[test]
    fn bits_are_taken_once_from_all_groups() {
        let inbox = Inbox::new(1, 2 * GROUP + 1);
        let set = [0, 63, 64, GROUP - 1, GROUP, 2 * GROUP].map(ShardId::from_index);
        for shard in set.iter().rev() {
            inbox.set_bit(*shard);
            inbox.set_bit(*shard);
        }
        assert!(!inbox.is_empty(&[0]));
        let mut taken = Vec::new();
        inbox.take_bits(|shard| taken.push(shard));
        assert_eq!(taken, set);
        assert!(inbox.is_empty(&[0]));
        inbox.take_bits(|_| panic!("they were taken"));
    }
}
