//! Pop: find a ticket that a producer has claimed, claim it on `head`, and move the value out of
//! its slot.

use core::mem::ManuallyDrop;
use core::ops::Range;

use super::Queue;
use super::pace::PAUSES;
use super::pause::{
    BUSY_PAUSES, CLAIM_TRIES, ClaimPauses, DISTANCE, MOST_BY_HINT, PATIENCE, pause,
};
use super::push::Admission;
use super::segment::{SOURCE, Segment, Slot};
use super::word::{self, Word, advanced, index, same_segment};
use crate::alloc::Allocator;
use crate::primitive::hint::spin_loop;
use crate::primitive::sync::atomic::Ordering;

/// The result of a check for tickets.
enum Look<T> {
    /// No item was queued when `tail` was read.
    Empty,
    /// The caller may claim tickets below this index.
    Below(usize),
    /// No ticket of this segment is left, and `tail` has moved to another one.
    Used,
    /// The words changed during the check.
    Changed,
    /// There are tickets, but producers have claimed since the last check: `tail` is now this word.
    Busy(Word<T>),
}

/// Which of the available tickets a check lets the caller claim.
enum Share<T> {
    /// All, or if there are many, all except the last ones, which producers may still be filling.
    KeptAway,
    /// All if `tail` still is this word, none otherwise. For a batch that already has items.
    AllSince(Word<T>),
}

impl<T, A: Allocator> Queue<T, A> {
    /// Pops the item at the front, or returns `None` if the queue is empty.
    ///
    /// After [`close`](Self::close) it returns the queued items, then always `None`.
    ///
    /// Lock-free, with the limit in the docs of the type; wait-free if the queue is empty and no
    /// other thread pops. One read-modify-write without contention. It never allocates, never
    /// panics and runs no code of `T`. Once per segment it may free memory.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        loop {
            let word = word::guess(&self.head);
            // Relaxed: a hint; a ticket that no producer has claimed is given up. [QU33]
            let bound = self.bound.word.load(Ordering::Relaxed);
            step!("pop: head read");
            if !(same_segment(word, bound) && word.count() < bound.count()) {
                match self.find(word, &Share::KeptAway) {
                    Look::Empty => return None,
                    Look::Changed | Look::Busy(_) => continue,
                    Look::Below(index) => self.set_bound(word, index),
                    Look::Used => {}
                }
            }
            step!("pop: to be claimed");
            // AcqRel: pairs with the Release of move_head_slow; the segment that the claim names is
            // initialised. And a thread that acquires this value of `head` will not load an older
            // `tail` than this thread did, and so not wrongly find the queue empty. [QU34]
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
                // SAFETY: this thread claimed the ticket as its consumer, and this is the one take.
                if let Some(item) = unsafe { self.take(claimed, ticket) } {
                    return Some(item);
                }
            } else if self.move_head_slow(claimed) {
                return None;
            }
        }
    }

    /// Moves the item of a claimed ticket out of its slot, or gives the ticket up and returns
    /// `None`.
    ///
    /// # Safety
    ///
    /// The caller claimed `ticket` on `head` in the segment of `claimed`, and this is the one call
    /// for it.
    #[inline]
    unsafe fn take(&self, claimed: Word<T>, ticket: usize) -> Option<T> {
        // SAFETY: a segment is live while one of its tickets is not DONE, and this ticket is not.
        let slot = unsafe { Segment::slot(claimed.ptr(), ticket) };
        // SAFETY: the caller has the ticket, and has not taken its value.
        if unsafe { Slot::is_written(slot) } {
            // SAFETY: the caller has the ticket; the value is written.
            return Some(unsafe { Slot::take(slot) });
        }
        // SAFETY: the caller's obligation.
        unsafe { self.take_slow(claimed, ticket) }
    }

    /// Waits a bounded time for the producer of the ticket, if it has one, then gives the ticket
    /// up.
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
        if self.unclaimed_from(claimed) > ticket {
            for _ in 0..PATIENCE {
                spin_loop();
                // SAFETY: the caller has the ticket, and has not taken its value.
                if unsafe { Slot::is_written(slot) } {
                    // SAFETY: the caller has the ticket; its slot holds the value.
                    return Some(unsafe { Slot::take(slot) });
                }
            }
        }
        step!("take: to be given up");
        // SAFETY: the caller has the ticket, and does not use it again if this returns `true`.
        if unsafe { Slot::give_up(slot) } {
            return None;
        }
        // SAFETY: the caller has the ticket; its slot holds the value.
        Some(unsafe { Slot::take(slot) })
    }

    /// Returns the first ticket of a segment that no producer has claimed. A lower bound while
    /// producers claim.
    ///
    /// The caller has a ticket of the segment, so the segment is not reused, and the same address
    /// is the same use.
    fn unclaimed_from(&self, claimed: Word<T>) -> usize {
        let tail = word::guess(&self.tail);
        if same_segment(tail, claimed) {
            index(tail)
        } else {
            self.slots
        }
    }

    /// Checks for tickets that producers have claimed. `word` is the value read from `head`.
    #[inline]
    fn find(&self, word: Word<T>, share: &Share<T>) -> Look<T> {
        if self.bound.pace.is_due() {
            self.pause_slow();
        }
        // Under loom this load would hide what the load in look_slow orders, so look_slow alone
        // decides there.
        if !cfg!(rast_loom) {
            // Relaxed: a hint, as `bound` is: at worst the caller claims a ticket that no producer
            // has claimed. [QU79]
            let tail = self.tail.load(Ordering::Relaxed);
            let queued = index(tail).min(self.slots).saturating_sub(index(word));
            if same_segment(tail, word) && queued > 0 {
                return self.share(word, tail, queued, share);
            }
        }
        self.look_slow(word, share)
    }

    /// Returns which of `queued` tickets from `word` on the caller may claim.
    #[inline]
    fn share(&self, word: Word<T>, tail: Word<T>, queued: usize, share: &Share<T>) -> Look<T> {
        match share {
            Share::AllSince(earlier) if *earlier != tail => Look::Busy(tail),
            Share::AllSince(_) => Look::Below(index(word) + queued),
            Share::KeptAway => {
                self.bound.pace.found(queued);
                Look::Below(kept_away(index(word), queued))
            }
        }
    }

    /// Checks both words, and so can find out that the queue is empty.
    #[cold]
    #[inline(never)]
    fn look_slow(&self, word: Word<T>, share: &Share<T>) -> Look<T> {
        // Acquire: pairs with the Release in retire_slow. If this count includes the end of the use
        // that `word` names, the load below returns another word. [QU35]
        let retired = self.cold.retired.load(Ordering::Acquire);
        step!("look: retired read");
        // Acquire: pairs with the Release in the claims; the load of `tail` below returns at least
        // the value that the threads that advanced `head` had loaded. [QU36]
        if self.head.load(Ordering::Acquire) != word {
            return Look::Changed;
        }
        step!("look: head read");
        // A hint that there is something to do.
        if !self.cold.limbo.is_empty() {
            self.reap_slow();
        }
        // Acquire: pairs with the Release of move_tail; if the word names a later use of the
        // segment, the next load of the count includes the end of the earlier use. [QU38]
        let tail = self.tail.load(Ordering::Acquire);
        step!("look: tail read");
        if !same_segment(tail, word) {
            return if index(word) < self.slots {
                Look::Below(self.slots)
            } else if word::waits_for_pins(index(word), self.slots) {
                Look::Changed
            } else {
                Look::Used
            };
        }
        let queued = index(tail).min(self.slots).saturating_sub(index(word));
        if queued > 0 {
            return self.share(word, tail, queued, share);
        }
        // Relaxed: ordered by the Acquire above. With the same count both words were read in one
        // use of the segment, so there was no unclaimed ticket when `tail` was read. [QU39]
        if self.cold.retired.load(Ordering::Relaxed) == retired {
            Look::Empty
        } else {
            Look::Changed
        }
    }

    /// Pauses, so that producers get ahead: see `pace.rs`.
    #[cold]
    #[inline(never)]
    fn pause_slow(&self) {
        // Relaxed: a hint. [QU46]
        let before = self.tail.load(Ordering::Relaxed);
        pause(PAUSES);
        step!("look: paused");
        // Relaxed: a hint. [QU76]
        let now = self.tail.load(Ordering::Relaxed);
        let gained = if same_segment(before, now) {
            index(now).saturating_sub(index(before))
        } else {
            self.slots
        };
        self.bound.pace.paused(gained);
    }

    #[inline]
    pub(super) fn set_bound(&self, word: Word<T>, index: usize) {
        // Relaxed: a hint. [QU40]
        self.bound
            .word
            .store(word.with_count(index as u64), Ordering::Relaxed);
    }

    /// Retries a claim that lost to another consumer, as `contend_tail_slow` does. It does not
    /// check again whether a producer has claimed the new ticket, so the ticket may have no
    /// producer.
    #[cold]
    #[inline(never)]
    fn contend_head_slow(&self, mut seen: Word<T>) -> Option<Word<T>> {
        let mut pauses = ClaimPauses::new();
        let mut tries = 0;
        while seen.count() < self.slots as u64 {
            if tries < CLAIM_TRIES {
                pauses.wait();
                tries += 1;
            }
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
        None
    }

    /// Moves `head` past a segment without tickets left, which the claim has pinned. Returns `true`
    /// if no segment follows: the queue was empty when this loaded `tail`.
    #[cold]
    #[inline(never)]
    fn move_head_slow(&self, claimed: Word<T>) -> bool {
        let segment = claimed.ptr();
        step!("move head: pinned");
        // Acquire: pairs with the Release of move_tail; a pinned segment is not reused, so if
        // `tail` leads to it, it is still in the pinned use, all of whose tickets are claimed.
        // [QU47]
        let is_last = core::ptr::eq(self.tail.load(Ordering::Acquire).ptr(), segment);
        if !is_last {
            // SAFETY: the claim pinned the segment, or it is null.
            let next = unsafe { self.next_of(segment) };
            // Relaxed: the load above acquired the move of `tail`, so the link and the segment
            // behind it are visible. [QU48]
            let first = Word::new(next.load(Ordering::Relaxed), 0);
            step!("move head: next read");
            let mut seen = word::guess(&self.head);
            while core::ptr::eq(seen.ptr(), segment) {
                step!("move head: read");
                // Release: publishes the segment to threads that claim from it. [QU50]
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
                        // SAFETY: the segment is pinned; `head` has left it after that many pins.
                        unsafe { self.release(segment, change) };
                        break;
                    }
                    Err(now) => seen = now,
                }
            }
        }
        step!("move head: pin to be given back");
        // SAFETY: the pin of the claim is released once, and not used afterwards.
        unsafe { self.release(segment, usize::MAX) };
        is_last
    }

    /// Pushes an item that was popped, while a panic unwinds, even if the queue is closed.
    #[cold]
    pub(super) fn put_back(&self, item: T) {
        step!("come back: item in hand");
        let item = ManuallyDrop::new(item);
        // SAFETY: the item is valid for reads, and not used again. The push fails only on lack of
        // memory.
        match unsafe { self.push_from(&raw const *item, Admission::Always) } {
            Ok(_) => self.wake(1),
            Err(_) => self.no_memory_slow(),
        }
    }

    /// Claims up to `most` available tickets.
    fn claim_many(&self, most: usize, share: &Share<T>) -> Result<Claimed<'_, T, A>, Look<T>> {
        let mut pauses = ClaimPauses::new();
        loop {
            let word = word::guess(&self.head);
            // Relaxed: a hint, as in pop. [QU53]
            let bound = self.bound.word.load(Ordering::Relaxed);
            let below = if same_segment(word, bound) && word.count() < bound.count() {
                // The bound may be stale, and then no producer has claimed these tickets.
                index(bound).min(index(word) + MOST_BY_HINT)
            } else {
                match self.find(word, share) {
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
                pauses.wait();
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
            claimed.keep_claimed();
            return Ok(claimed);
        }
    }

    /// Pops up to `max` items and passes each to `each`, in order; returns how many it passed.
    ///
    /// It ends after `max` items, or when it finds the queue empty, or when it has popped some
    /// items and finds that producers are still pushing. If it returns 0 for a `max` above 0, the
    /// queue was empty. Items are claimed in batches of up to a segment. While `each` runs, other
    /// consumers cannot pop the rest of the batch.
    ///
    /// Lock-free; one read-modify-write per batch.
    ///
    /// # Panics
    ///
    /// If `each` panics. The items of the batch that were not yet passed to `each` are pushed to
    /// the back of the queue, in order, even if the queue is closed. (That push aborts on lack of
    /// memory.)
    ///
    /// ```
    /// let queue: rast_queue::Queue<_> = (1..=5).collect();
    /// let mut sum = 0;
    /// assert_eq!(queue.pop_batch(4, |n| sum += n), 4);
    /// assert_eq!((sum, queue.len()), (10, 1));
    /// ```
    pub fn pop_batch(&self, max: usize, mut each: impl FnMut(T)) -> usize {
        let mut passed = 0;
        let mut share = Share::KeptAway;
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
                // If `tail` is the same at the next check, no producer is claiming, and all items
                // are claimed.
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
    /// As [`pop_batch`](Self::pop_batch); `out` grows as needed.
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

    /// Pops up to `out.len()` items into the front of `out`, in order; returns how many.
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

/// Returns the index below which a consumer may claim, if `standing` tickets from `index` on are
/// available.
#[inline]
fn kept_away(index: usize, standing: usize) -> usize {
    if standing > 2 * DISTANCE {
        index + standing - DISTANCE
    } else {
        index + standing
    }
}

/// Tickets of a claimed batch whose items are not popped yet.
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
            // SAFETY: the ticket is from the claim, and has just been removed from the range.
            if let Some(item) = unsafe { self.queue.take(self.word, ticket) } {
                return Some(item);
            }
        }
    }

    /// Gives up the last tickets of the batch: those that no producer has claimed. If the batch
    /// kept them, they would get the items that the closure pushes, and no other consumer could pop
    /// these items.
    ///
    /// The batch claimed such tickets because of a stale bound, or because its thread was suspended
    /// between its check and its claim. In the second case the claim succeeded because `head` had
    /// the same address and index again, in a later use of the segment. Then up to a whole segment
    /// of tickets has no producer.
    ///
    /// Afterwards each ticket of the batch has a producer, except the ticket of a batch of one,
    /// which [`Queue::take`] may give up.
    #[inline]
    fn keep_claimed(&mut self) {
        if self.tickets.len() == 1 {
            return;
        }
        // SAFETY: the last ticket is from the claim, and not DONE, so the segment is live.
        let slot = unsafe { Segment::slot(self.word.ptr(), self.tickets.end - 1) };
        // SAFETY: the ticket is from the claim, and has not been taken.
        if !unsafe { Slot::is_written(slot) } {
            self.give_up_unclaimed();
        }
    }

    #[cold]
    fn give_up_unclaimed(&mut self) {
        // The bound may be of an earlier use of this segment's memory.
        self.queue.set_bound(Word::null(), 0);
        let unclaimed = self.queue.unclaimed_from(self.word);
        while self.tickets.end > self.tickets.start.max(unclaimed) {
            let last = self.tickets.end - 1;
            // SAFETY: the ticket is from the claim, and not DONE, so the segment is live.
            let slot = unsafe { Segment::slot(self.word.ptr(), last) };
            // SAFETY: the ticket is from the claim, has not been taken, and is removed from the
            // range if it is given up.
            if !unsafe { Slot::give_up(slot) } {
                // A producer has claimed and filled it meanwhile, so all tickets before it are
                // claimed.
                break;
            }
            self.tickets.end = last;
        }
    }
}

impl<T, A: Allocator> Drop for Claimed<'_, T, A> {
    fn drop(&mut self) {
        // Only a panic of the closure leaves tickets. Each has a producer, so no item that is
        // pushed here gets one of them.
        while let Some(item) = self.next() {
            self.queue.put_back(item);
        }
    }
}
