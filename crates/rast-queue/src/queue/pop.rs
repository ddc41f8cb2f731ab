//! The consumer's side: find out that a ticket is there, claim it on `head`, take what its slot holds.

use core::mem::ManuallyDrop;
use core::ops::Range;

use super::Queue;
use super::given_up::{Id, Verdict};
use super::pause::{
    BUSY_PAUSES, CLAIM_PAUSE_FIRST, CLAIM_PAUSE_MOST, CLAIM_TRIES, DISTANCE, IS_MODEL,
    MOST_BY_HINT, NEAR, PACE_CREDIT, PACE_GAIN, PACE_PAUSES, PACE_PROBE_FIRST, PACE_PROBE_MOST,
    PACE_STEPS, PATIENCE, pause,
};
use super::push::Admission;
use super::segment::{SOURCE, Segment, Slot};
use super::word::{self, Word, advanced, index, same_segment};
use crate::alloc::Allocator;
use crate::primitive::hint::spin_loop;
use crate::primitive::sync::atomic::Ordering;

/// What a look at both words says.
enum Look<T> {
    /// Nothing stood at the moment at which `tail` was read.
    Empty,
    /// Tickets below this index are there to be claimed.
    Below(usize),
    /// No ticket of this segment is left, and `tail` has gone on.
    Used,
    /// The words changed under the look.
    Changed,
    /// Producers have been at work on what is there: `tail` is another word.
    Busy(Word<T>),
}

/// How many of the tickets that are there a look gives out.
enum Share<T> {
    /// If there are few for a claim of this many, it may wait a moment for more, so that the next look is not needed
    /// soon; if there are many, it keeps away from those that producers are at work on.
    MostFor(usize),
    /// All of them, if no producer has claimed since this word; none otherwise. For a batch that has items already.
    AllSince(Word<T>),
}

impl<T, A: Allocator> Queue<T, A> {
    /// Pops the item at the front, or gives `None` if the queue is empty.
    ///
    /// After [`close`](Self::close) it gives what stands, then `None` for ever.
    ///
    /// Lock-free, with the limit that the type names; wait-free if the queue is empty and nobody pops. One
    /// read-modify-write when nobody contends; a system call where a producer was stopped inside of its push. It never
    /// allocates, never panics and runs no code of `T`; once per segment it may give memory back to the allocator.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        loop {
            let word = word::guess(&self.head);
            // Relaxed: a hint; a ticket that nobody has claimed on the other side is ended by its consumer. [QU33]
            let bound = self.bound.word.load(Ordering::Relaxed);
            step!("pop: head read");
            if !(same_segment(word, bound) && word.count() < bound.count()) {
                match self.look(word, &Share::MostFor(1)) {
                    Look::Empty => return None,
                    Look::Changed | Look::Busy(_) => continue,
                    Look::Below(index) => self.set_bound(word, index),
                    Look::Used => {}
                }
            }
            step!("pop: to be claimed");
            // AcqRel: pairs with the Release of move_head; the segment that the claim names is initialised. And what
            // this thread knows of tail is known to who finds head so far on: it will not read an older tail and think
            // the queue empty. [QU34]
            let claimed = match self.head.compare_exchange(
                word,
                advanced(word, 1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(word) => word,
                Err(now) => match self.contend_head_slow(now) {
                    Some(word) => word,
                    None => continue,
                },
            };
            step!("pop: claimed");
            let ticket = index(claimed);
            if ticket < self.slots {
                // SAFETY: the claim made the ticket the caller's, as its consumer; this is its one take.
                if let Some(item) = unsafe { self.take(claimed, ticket) } {
                    return Some(item);
                }
            } else if self.move_head_slow(claimed) {
                return None;
            }
        }
    }

    /// Moves the item of a claimed ticket out, or gives the ticket up.
    ///
    /// # Safety
    ///
    /// The caller claimed `ticket` on `head` at `claimed`'s segment, and this is its one call for it.
    #[inline]
    unsafe fn take(&self, claimed: Word<T>, ticket: usize) -> Option<T> {
        // SAFETY: a segment is live while one of its tickets is not DONE, and this one is not.
        let slot = unsafe { Segment::slot(claimed.ptr(), ticket) };
        // SAFETY: the ticket is the caller's, and has not been taken.
        if unsafe { Slot::is_written(slot) } {
            // SAFETY: the ticket is the caller's; the value stands.
            return Some(unsafe { Slot::take(slot) });
        }
        // SAFETY: the caller's obligation.
        unsafe { self.take_slow(claimed, ticket) }
    }

    /// Ends a ticket that no producer has; waits a bounded moment for the producer of another one, then gives it up.
    ///
    /// # Safety
    ///
    /// As [`take`](Self::take).
    #[cold]
    #[inline(never)]
    unsafe fn take_slow(&self, claimed: Word<T>, ticket: usize) -> Option<T> {
        // SAFETY: as in take.
        let slot = unsafe { Segment::slot(claimed.ptr(), ticket) };
        // The bound may be of an earlier use of this segment's memory.
        self.set_bound(Word::null(), 0);
        // SAFETY: the ticket is the caller's and not DONE, so the segment is live.
        let number = unsafe { Segment::number(claimed.ptr()) };
        loop {
            // More than once: the consumers of the tickets before it may end theirs meanwhile.
            for &looks in PATIENCE {
                // SAFETY: the ticket is the caller's, which leaves if this ends it.
                if unsafe { self.end_unclaimed(claimed, ticket..ticket + 1) } == ticket {
                    return None;
                }
                for _ in 0..looks {
                    spin_loop();
                    // SAFETY: the ticket is the caller's, and has not been taken.
                    if unsafe { Slot::is_written(slot) } {
                        // SAFETY: the ticket is the caller's; the value stands, and nobody gave the ticket up.
                        return Some(unsafe { Slot::take(slot) });
                    }
                }
            }
            step!("take: to be given up");
            // SAFETY: while it is not decided, the slot is not DONE.
            let is_written = || unsafe { Slot::is_written(slot) };
            match self.given_up.give_up(Id::new(number, ticket), is_written) {
                // SAFETY: the ticket is the caller's; the value stands, and the verdict is that it does not go back.
                Verdict::Taken => return Some(unsafe { Slot::take(slot) }),
                Verdict::Left => return None,
                Verdict::Back => {
                    // SAFETY: the producer has its value back and is done here, which happens before this by the exchange
                    // that found it.
                    unsafe { Slot::end(slot) };
                    return None;
                }
                Verdict::Impossible => spin_loop(),
            }
        }
    }

    /// Ends those of a consumer's own tickets that no producer has, which are the last ones, by a claim on `tail`; returns
    /// the end of the others.
    ///
    /// A stale bound, or a claim after a lost one, which looks at no bound, gives out tickets that nobody has pushed to.
    /// Were they given up like those of a late producer, they would stand in the table until somebody pushes again. If
    /// `tail` has not come to the first of them, other consumers have tickets before it, which they are about to end.
    ///
    /// # Safety
    ///
    /// The caller claimed `tickets` on `head` at `claimed`'s segment, and takes none of those that this ends.
    unsafe fn end_unclaimed(&self, claimed: Word<T>, tickets: Range<usize>) -> usize {
        let mut seen = word::guess(&self.tail);
        // The segment is in one use while one of the caller's tickets is not DONE, so the same address is the same use.
        while same_segment(seen, claimed) && tickets.contains(&index(seen)) {
            step!("end unclaimed: tail read");
            // Relaxed: nothing is published or read by it; as a read-modify-write it passes on what the claims before it
            // published. [QU75]
            match self.tail.compare_exchange(
                seen,
                advanced(seen, tickets.end - index(seen)),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    step!("end unclaimed: claimed");
                    for ticket in index(seen)..tickets.end {
                        // SAFETY: the ticket is not DONE yet, so the segment is live.
                        let slot = unsafe { Segment::slot(claimed.ptr(), ticket) };
                        // SAFETY: the ticket is the caller's on both sides now, so nobody else looks at the slot.
                        unsafe { Slot::end(slot) };
                    }
                    return index(seen);
                }
                Err(now) => seen = now,
            }
        }
        tickets.end
    }

    /// Looks at both words. `head` has been read as `word`.
    #[inline]
    fn look(&self, word: Word<T>, share: &Share<T>) -> Look<T> {
        // Acquire: pairs with the Release of free_segment. If this count includes the end of the use of a segment that
        // `word` names, the load below finds another word. [QU35]
        let retired = self.cold.retired.load(Ordering::Acquire);
        step!("look: retired read");
        // Acquire: pairs with the Release in the claims; the tail that is read next is as new as the one that those who
        // brought head here had seen. [QU36]
        if self.head.load(Ordering::Acquire) != word {
            return Look::Changed;
        }
        step!("look: head read");
        // Relaxed: a hint that there is something to do. [QU37]
        if !self.cold.limbo.load(Ordering::Relaxed).is_null() {
            self.reap_slow();
        }
        // Acquire: pairs with the Release of move_tail; if the word names a later use of the segment, the end of the
        // earlier one is in the count that is loaded next. [QU38]
        let tail = self.tail.load(Ordering::Acquire);
        step!("look: tail read");
        if !same_segment(tail, word) {
            return if index(word) < self.slots {
                Look::Below(self.slots)
            } else {
                Look::Used
            };
        }
        let standing = index(tail).min(self.slots).saturating_sub(index(word));
        if standing == 0 {
            // Relaxed: ordered by the Acquire above. The same count: both words were read in one use of the segment,
            // so no unclaimed ticket stood when tail was read. [QU39]
            return if self.cold.retired.load(Ordering::Relaxed) == retired {
                Look::Empty
            } else {
                Look::Changed
            };
        }
        match share {
            Share::AllSince(earlier) if *earlier != tail => Look::Busy(tail),
            Share::AllSince(_) => Look::Below(index(word) + standing),
            Share::MostFor(claim) if standing < near(*claim) && !IS_MODEL => {
                self.pace(word, tail, near(*claim))
            }
            Share::MostFor(_) => Look::Below(kept_away(index(word), standing)),
        }
    }

    #[inline]
    pub(super) fn set_bound(&self, word: Word<T>, index: usize) {
        // Relaxed: a hint. [QU40]
        self.bound
            .word
            .store(word.with_count(index as u64), Ordering::Relaxed);
    }

    /// Few items stand. If producers are at work on another core, each look takes `tail` from them, and each take a
    /// line that they are still writing; a moment later many items are had for one look.
    ///
    /// Whether that is so is known by trying: `pace` in the bound's line holds a credit that each moment in which
    /// `tail` moved fills, and each other one drains; without credit it is tried again rarely, and more rarely each
    /// time. A thread that pushes and pops by turns never waits but for these trials.
    #[inline]
    fn pace(&self, word: Word<T>, tail: Word<T>, near: usize) -> Look<T> {
        // Relaxed: a hint of its own. [QU41]
        let pace = self.bound.pace.load(Ordering::Relaxed);
        if pace & PACED == 0 && pace & PACE_COUNT != 0 {
            // Relaxed: a hint; a lost update counts one look less. [QU42]
            self.bound.pace.store(pace - 1, Ordering::Relaxed);
            return Look::Below(index(tail).min(self.slots));
        }
        self.pace_slow(word, tail, near, pace)
    }

    #[cold]
    #[inline(never)]
    fn pace_slow(&self, word: Word<T>, tail: Word<T>, near: usize, pace: u32) -> Look<T> {
        let mut seen = tail;
        let mut has_paid = false;
        for _ in 0..PACE_STEPS {
            pause(PACE_PAUSES);
            step!("pace: waited");
            // Relaxed: what is claimed after this is acquired by the claim. [QU43]
            let now = self.tail.load(Ordering::Relaxed);
            let has_left = !same_segment(now, word);
            let is_enough = has_left || index(now) >= index(word) + near;
            let gained = has_left || index(now).wrapping_sub(index(seen)) >= PACE_GAIN;
            seen = now;
            has_paid |= gained;
            if is_enough || !gained {
                break;
            }
        }
        let next = if has_paid {
            PACED | PACE_CREDIT
        } else if pace & PACED != 0 && pace & PACE_COUNT > 1 {
            pace - 1
        } else {
            let power = match pace & PACED {
                0 => ((pace >> PACE_POWER_AT) + 1).clamp(PACE_PROBE_FIRST, PACE_PROBE_MOST),
                _ => PACE_PROBE_FIRST,
            };
            power << PACE_POWER_AT | 1 << power
        };
        // Relaxed: as in pace. [QU44]
        self.bound.pace.store(next, Ordering::Relaxed);
        if !same_segment(seen, word) {
            return Look::Below(self.slots);
        }
        // The memory may have come again as a later segment meanwhile, with a smaller index.
        match index(seen).min(self.slots).saturating_sub(index(word)) {
            0 => Look::Changed,
            standing => Look::Below(kept_away(index(word), standing)),
        }
    }

    /// Claims against other consumers, as producers do. After some losses it claims by addition, which cannot lose:
    /// the ticket may be one that nobody has pushed to, which it then claims on `tail` as well.
    #[cold]
    #[inline(never)]
    fn contend_head_slow(&self, mut seen: Word<T>) -> Option<Word<T>> {
        let mut pauses = CLAIM_PAUSE_FIRST;
        for _ in 0..CLAIM_TRIES {
            if seen.count() >= self.slots as u64 {
                return None;
            }
            pause(pauses);
            pauses = (pauses * 2).min(CLAIM_PAUSE_MOST);
            step!("pop: claim lost");
            // AcqRel: as for the first try. [QU45]
            match self.head.compare_exchange(
                seen,
                advanced(seen, 1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(word) => return Some(word),
                Err(now) => seen = now,
            }
        }
        step!("pop: to be claimed by addition");
        // AcqRel: as for the first try. [QU46]
        Some(self.head.fetch_add_count(1, Ordering::AcqRel))
    }

    /// Makes `head` lead on from a segment without tickets left, which the claim has pinned. True: there is none to
    /// lead on to, and the queue was empty at the moment at which this looked.
    #[cold]
    #[inline(never)]
    fn move_head_slow(&self, claimed: Word<T>) -> bool {
        let segment = claimed.ptr();
        word::check_pins(index(claimed), self.slots);
        step!("move head: pinned");
        // Acquire: pairs with the Release of move_tail; a pinned segment has no other use, so if tail leads here, it
        // does in this use, all of whose tickets are claimed. [QU47]
        let is_last = core::ptr::eq(self.tail.load(Ordering::Acquire).ptr(), segment);
        if !is_last {
            // SAFETY: the claim pinned the segment; null is the queue's own beginning.
            let next = unsafe { self.next_of(segment) };
            // Relaxed: tail has gone on, which was acquired above, so the link is there, with what it publishes. [QU48]
            let first = Word::new(next.load(Ordering::Relaxed), 0);
            step!("move head: next read");
            let mut seen = word::guess(&self.head);
            while core::ptr::eq(seen.ptr(), segment) {
                step!("move head: read");
                // Release: publishes the segment to those who claim from it. [QU50]
                match self
                    .head
                    .compare_exchange(seen, first, Ordering::Release, Ordering::Relaxed)
                {
                    Ok(_) => {
                        step!("move head: moved");
                        // Relaxed: a statistic. [QU51]
                        self.cold.head_moves.fetch_add(1, Ordering::Relaxed);
                        step!("move head: counted");
                        let change = (index(seen) - self.slots).wrapping_sub(SOURCE);
                        // SAFETY: the segment is pinned; the word has left it, after that many pins.
                        unsafe { self.release(segment, change) };
                        break;
                    }
                    Err(now) => seen = now,
                }
            }
        }
        step!("move head: pin to be given back");
        // SAFETY: the pin of the claim is given back once; nobody looks through it afterwards.
        unsafe { self.release(segment, usize::MAX) };
        is_last
    }

    /// Pushes an item that was popped, as a panic goes up; a closed queue takes it, too.
    #[cold]
    pub(super) fn put_back(&self, item: T) {
        step!("come back: item in hand");
        let item = ManuallyDrop::new(item);
        // SAFETY: the item is valid for reads, and given up if it is taken; it was taken unless memory lacks.
        match unsafe { self.push_from(&raw const *item, Admission::Always) } {
            Ok(_) => self.wake(1),
            Err(_) => self.no_memory_slow(),
        }
    }

    /// Claims up to `most` tickets that are there.
    fn claim_many(&self, most: usize, share: &Share<T>) -> Result<Claimed<'_, T, A>, Look<T>> {
        let mut pauses = CLAIM_PAUSE_FIRST;
        loop {
            let word = word::guess(&self.head);
            // Relaxed: a hint, as in pop. [QU53]
            let bound = self.bound.word.load(Ordering::Relaxed);
            let below = if same_segment(word, bound) && word.count() < bound.count() {
                // The bound may be stale, and then there is nobody who pushes to these tickets.
                index(bound).min(index(word) + MOST_BY_HINT)
            } else {
                match self.look(word, share) {
                    Look::Changed => continue,
                    Look::Below(index) => {
                        self.set_bound(word, index);
                        index
                    }
                    Look::Used => index(word) + 1,
                    none => return Err(none),
                }
            };
            let count = most.min(below - index(word));
            step!("pop many: to be claimed");
            // AcqRel: as for a single claim. [QU54]
            if self
                .head
                .compare_exchange(
                    word,
                    advanced(word, count),
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                )
                .is_err()
            {
                pause(pauses);
                pauses = (pauses * 2).min(CLAIM_PAUSE_MOST);
                continue;
            }
            step!("pop many: claimed");
            if index(word) >= self.slots {
                if self.move_head_slow(word) {
                    return Err(Look::Empty);
                }
                continue;
            }
            let mut claimed = Claimed {
                queue: self,
                word,
                tickets: index(word)..index(word) + count,
            };
            claimed.keep_produced();
            return Ok(claimed);
        }
    }

    /// Pops up to `max` items and passes each to `each`, in order; returns how many it passed.
    ///
    /// It ends at `max` items, when it finds the queue empty, or when it has some and comes upon those that producers
    /// are pushing just then; nothing popped means empty. Items are claimed in batches, so that between two of them
    /// others may not see them: a slow `each` keeps up to a segment of items from other consumers.
    ///
    /// Lock-free; one read-modify-write per batch.
    ///
    /// # Panics
    ///
    /// If `each` panics. It owns the item that it was given; those of its batch that it was not given yet go back to
    /// the queue, at the back and in order, even if the queue is closed (that push aborts on lack of memory).
    ///
    /// ```
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
    /// let mut sum = 0;
    /// assert_eq!(queue.pop_batch(4, |n| sum += n), 4);
    /// assert_eq!((sum, queue.len()), (10, 1));
    /// ```
    pub fn pop_batch(&self, max: usize, mut each: impl FnMut(T)) -> usize {
        let mut passed = 0;
        let mut share = Share::MostFor(max);
        let mut was_busy = false;
        while passed < max {
            match self.claim_many(max - passed, &share) {
                Ok(mut claimed) => {
                    while let Some(item) = claimed.next() {
                        passed += 1;
                        each(item);
                    }
                    if passed > 0 && !was_busy {
                        share = Share::AllSince(Word::null());
                    }
                }
                // If `tail` is the same at the next look, nobody is at work, and all is taken.
                Err(Look::Busy(tail)) if !was_busy => {
                    share = Share::AllSince(tail);
                    was_busy = true;
                    pause(BUSY_PAUSES);
                }
                Err(_) => break,
            }
        }
        passed
    }

    /// Pops up to `max` items into `out`, in order; returns how many.
    ///
    /// As [`pop_batch`](Self::pop_batch); `out` grows as it needs.
    ///
    /// ```
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
    /// let mut items = Vec::new();
    /// assert_eq!(queue.pop_into(&mut items, 3), 3);
    /// assert_eq!(items, [1, 2, 3]);
    /// ```
    pub fn pop_into<E: Extend<T>>(&self, out: &mut E, max: usize) -> usize {
        self.pop_batch(max, |item| out.extend(Some(item)))
    }

    /// Pops as many items as are queued and fit to the front of `out`, in order; returns how many.
    ///
    /// As [`pop_batch`](Self::pop_batch).
    ///
    /// ```
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
    /// let mut out = [0; 3];
    /// assert_eq!(queue.pop_slice(&mut out), 3);
    /// assert_eq!(out, [1, 2, 3]);
    /// ```
    pub fn pop_slice(&self, out: &mut [T]) -> usize
    where
        T: Copy,
    {
        let mut places = out.iter_mut();
        self.pop_batch(places.len(), |item| {
            if let Some(place) = places.next() {
                *place = item;
            }
        })
    }
}

/// Fewer tickets than this are few for a claim of so many.
#[inline]
fn near(claim: usize) -> usize {
    if claim == 1 {
        NEAR
    } else {
        claim.clamp(NEAR - DISTANCE, 2 * NEAR) + DISTANCE
    }
}

/// The index below which a consumer claims, `standing` tickets being there from `index` on.
#[inline]
fn kept_away(index: usize, standing: usize) -> usize {
    if standing > 2 * DISTANCE {
        index + standing - DISTANCE
    } else {
        index + standing
    }
}

/// In `pace`: waits are paying; the count is the credit. Otherwise the count is of looks until the next trial.
const PACED: u32 = 1 << 31;
const PACE_POWER_AT: u32 = 24;
const PACE_COUNT: u32 = (1 << PACE_POWER_AT) - 1;

/// Tickets claimed as a batch and not taken yet.
struct Claimed<'a, T, A: Allocator> {
    queue: &'a Queue<T, A>,
    word: Word<T>,
    tickets: Range<usize>,
}

impl<T, A: Allocator> Claimed<'_, T, A> {
    #[inline]
    fn next(&mut self) -> Option<T> {
        loop {
            let ticket = self.tickets.next()?;
            // SAFETY: the ticket is of the claim, and leaves the range with this call.
            if let Some(item) = unsafe { self.queue.take(self.word, ticket) } {
                return Some(item);
            }
            // If it had no producer, the others have none.
            self.end_unclaimed();
        }
    }

    /// Ends at once what a stale bound gave out, or what the closure pushes while it has the first items would come to this
    /// batch, where nobody else finds it.
    #[inline]
    fn keep_produced(&mut self) {
        if self.tickets.len() == 1 {
            return;
        }
        // SAFETY: the last ticket is of the claim, and not DONE, so the segment is live.
        let slot = unsafe { Segment::slot(self.word.ptr(), self.tickets.end - 1) };
        // SAFETY: the ticket is of the claim, and has not been taken.
        if !unsafe { Slot::is_written(slot) } {
            self.end_unclaimed();
        }
    }

    /// Ends the tickets that no producer has, so that later items go to others.
    #[cold]
    fn end_unclaimed(&mut self) {
        let left = self.tickets.clone();
        // SAFETY: the tickets are of the claim, and those that are ended leave the range.
        self.tickets.end = unsafe { self.queue.end_unclaimed(self.word, left) };
    }
}

impl<T, A: Allocator> Drop for Claimed<'_, T, A> {
    fn drop(&mut self) {
        // Only a panic of the closure leaves tickets.
        while let Some(item) = self.next() {
            // Or the item might come to one of them, behind those that follow it here.
            self.end_unclaimed();
            self.queue.put_back(item);
        }
    }
}
