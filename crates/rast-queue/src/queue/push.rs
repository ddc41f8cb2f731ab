//! Push: claim a ticket on `tail` and fill its slot, or link the next segment if no slot is left.

use core::mem::ManuallyDrop;
use core::ptr;

use super::Queue;
use super::held::Held;
use super::pause::{CLAIM_TRIES, ClaimPauses, PREFETCH};
use super::segment::{SOURCE, Segment, Slot, terminal};
use super::word::{self, CLOSED, WAITING, Word, advanced, index};
use crate::alloc::Allocator;
use crate::primitive::hint::prefetch_write;
use crate::primitive::sync::atomic::Ordering;
use crate::{Closed, TryPushError};

/// Why a push failed. The item still belongs to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Closed,
    NoMemory,
}

/// Whether a push fails on a closed queue: `Always` is for an item that was popped before and is
/// put back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    IfOpen,
    Always,
}

/// Whether a thread waited when the item was pushed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Pushed {
    Quietly,
    ForWaiters,
}

impl Pushed {
    fn seen_in<T>(word: Word<T>) -> Self {
        if word.count() & WAITING == 0 {
            Self::Quietly
        } else {
            Self::ForWaiters
        }
    }
}

impl<T, A: Allocator> Queue<T, A> {
    /// Pushes one item at the back.
    ///
    /// Lock-free, with the exception that the docs of the type describe. Two read-modify-writes
    /// without contention. Once per segment it links the next segment, either the spare one or a
    /// new one. If threads or tasks wait, it wakes one.
    ///
    /// # Panics
    ///
    /// - If the address of a segment does not fit beside a count (see
    ///   [`TaggedPtr`](crate::primitive::TaggedPtr)). The item is leaked.
    /// - If a segment would be larger than `isize::MAX` bytes. The item is dropped.
    /// - If the waker of a task that it wakes panics. The item is in the queue, or leaked if the
    ///   queue is closed. All tasks and threads that it had to wake are woken.
    /// - If the allocator panics. The item is in the queue or leaked.
    ///
    /// On lack of memory it calls `handle_alloc_error`.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the item if the queue is closed.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), Closed<T>> {
        match self.try_push(item) {
            Ok(()) => Ok(()),
            Err(TryPushError::Closed(item)) => Err(Closed(item)),
            Err(TryPushError::NoMemory(item)) => {
                drop(item);
                self.no_memory_slow()
            }
        }
    }

    /// Pushes one item at the back. Returns the item if the queue is closed or memory is lacking.
    ///
    /// Lock-free, as [`push`](Self::push).
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push), except that a segment which is too large is an error.
    ///
    /// # Errors
    ///
    /// Both errors contain the item. [`TryPushError::Closed`] if the queue is closed.
    /// [`TryPushError::NoMemory`] if the queue needs another segment and the allocator fails, or
    /// the segment would be larger than `isize::MAX` bytes.
    ///
    /// ```
    /// use rast_queue::{Queue, TryPushError};
    ///
    /// let queue = Queue::new();
    /// queue.try_push('a').unwrap();
    /// queue.close();
    /// assert_eq!(queue.try_push('b'), Err(TryPushError::Closed('b')));
    /// ```
    #[inline]
    pub fn try_push(&self, item: T) -> Result<(), TryPushError<T>> {
        // From here on a copy of the item may be in a slot, so this one is used only if the push
        // fails.
        let item = ManuallyDrop::new(item);
        // SAFETY: the item is valid for reads, and not used again after `Ok`.
        match unsafe { self.push_from(&raw const *item, Admission::IfOpen) } {
            Ok(Pushed::Quietly) => Ok(()),
            Ok(Pushed::ForWaiters) => {
                self.wake(1);
                Ok(())
            }
            Err(Refusal::Closed) => Err(TryPushError::Closed(ManuallyDrop::into_inner(item))),
            Err(Refusal::NoMemory) => Err(TryPushError::NoMemory(ManuallyDrop::into_inner(item))),
        }
    }

    #[cold]
    pub(super) fn no_memory_slow(&self) -> ! {
        match Segment::<T>::layout(self.slots) {
            Some(layout) => std_alloc::alloc::handle_alloc_error(layout),
            None => panic!("queue: a segment is larger than isize::MAX bytes"),
        }
    }

    /// Copies the item at `item` into the queue.
    ///
    /// # Safety
    ///
    /// 1. `item` is valid for reads of `T`.
    /// 2. The caller does not use the item again if this returns `Ok`.
    #[inline]
    pub(super) unsafe fn push_from(
        &self,
        item: *const T,
        admission: Admission,
    ) -> Result<Pushed, Refusal> {
        loop {
            let word = word::guess(&self.tail);
            step!("push: tail read");
            let claimed = if word.count() < self.slots as u64 {
                // Acquire: pairs with the Release of move_tail; the segment that the claim names is
                // initialised. [QU14]
                match self.tail.compare_exchange(
                    word,
                    advanced(word, 1),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(word) => Some(word),
                    Err(now) => self.contend_tail_slow(now),
                }
            } else {
                None
            };
            let Some(word) = claimed else {
                // SAFETY: the caller's obligations.
                match unsafe { self.push_slow(item, admission) } {
                    Some(outcome) => return outcome,
                    None => continue,
                }
            };
            step!("push: claimed");
            // SAFETY: the caller claimed the ticket, which is below the number of slots, and this
            // is its one fill. The item is valid, and not used again after `true`, by the caller's
            // obligations.
            if unsafe { self.fill(word, index(word), item) } {
                return Ok(Pushed::seen_in(word));
            }
        }
    }

    /// Copies the item at `item` into the slot of a claimed ticket. Returns `false` if a consumer
    /// has given the ticket up; the item then still belongs to the caller.
    ///
    /// # Safety
    ///
    /// 1. The caller claimed `ticket` on `tail` in the segment of `claimed`. The ticket is below
    ///    the number of slots, and this is the only call for it.
    /// 2. `item` is valid for reads of `T`; the caller does not use the item again if this returns
    ///    `true`.
    #[inline]
    unsafe fn fill(&self, claimed: Word<T>, ticket: usize, item: *const T) -> bool {
        // SAFETY: by (1) the caller has the ticket, so the segment is live, and the ticket is below
        // the number of slots.
        let slot = unsafe { Segment::slot(claimed.ptr(), ticket) };
        prefetch_write(slot.wrapping_add(PREFETCH));
        // SAFETY: by (1) and (2).
        unsafe { Slot::fill(slot, item) }
    }

    /// Retries a claim that lost to another producer: pauses, and then retries with the value that
    /// the failed compare-exchange returned. If another thread has claimed during the pause, the
    /// value is stale and the retry fails. So a thread that does not pause claims several tickets
    /// in a row. Consumers retry in the same way. In measurements with a new load before each
    /// retry, two consumers took turns on each cache line, and the throughput was half.
    ///
    /// Lock-free: each failed claim means that another thread claimed, pauses are bounded, and
    /// after some failures there are no pauses.
    #[cold]
    #[inline(never)]
    fn contend_tail_slow(&self, mut seen: Word<T>) -> Option<Word<T>> {
        let mut pauses = ClaimPauses::new();
        let mut tries = 0;
        while seen.count() < self.slots as u64 {
            if tries < CLAIM_TRIES {
                pauses.wait();
                tries += 1;
            }
            step!("push: claim lost");
            // Acquire: as for the first try. [QU15]
            match self.tail.compare_exchange(
                seen,
                advanced(seen, 1),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(word) => return Some(word),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Pushes one item if `tail` has flags or no slot left. Returns `None` if the caller must load
    /// `tail` again.
    ///
    /// # Safety
    ///
    /// As [`push_from`](Self::push_from).
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn push_slow(
        &self,
        item: *const T,
        admission: Admission,
    ) -> Option<Result<Pushed, Refusal>> {
        let word = word::guess(&self.tail);
        step!("push slow: tail read");
        if word.count() & CLOSED != 0 && admission == Admission::IfOpen {
            // The close happens before the error is returned.
            let is_closed = self.is_closed();
            debug_assert!(is_closed, "for ever");
            return Some(Err(Refusal::Closed));
        }
        if index(word) < self.slots {
            // SAFETY: the caller's obligations.
            return unsafe { self.push_flagged(word, item) };
        }
        let pin = self.pin_tail(word)?;
        step!("push slow: pinned");
        // SAFETY: the segment is pinned, or null.
        let next = unsafe { self.next_of(pin.segment) };
        // Acquire: pairs with the Release of the link; the next segment is initialised. [QU17]
        let mut following = next.load(Ordering::Acquire);
        step!("push slow: next read");
        let is_open = |following: *mut Segment<T>| {
            following.is_null() || ptr::eq(following, terminal()) && admission == Admission::Always
        };
        let mut linked = false;
        while is_open(following) {
            if !following.is_null() {
                // The thread that stored the mark may not have set CLOSED yet, and the mark is
                // about to be replaced.
                self.set_closed(pin.segment);
                step!("push slow: mark to be replaced");
            }
            let Ok(fresh) = self.fresh_segment() else {
                return Some(Err(Refusal::NoMemory));
            };
            step!("push slow: segment in hand");
            // SAFETY: only the caller can reach the segment, and it has a slot.
            let slot = unsafe { Segment::slot(fresh, 0) };
            // SAFETY: as above.
            let slot = unsafe { &*slot };
            // SAFETY: no other thread can reach the segment; the item is valid by the caller's
            // obligations.
            unsafe { slot.prefill(item) };
            step!("push slow: segment filled");
            // AcqRel: publishes the segment with its first slot; a thread that finds another
            // segment linked reads that one. [QU18]
            match next.compare_exchange(following, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    step!("push slow: linked");
                    following = fresh;
                    linked = true;
                }
                Err(other) => {
                    step!("push slow: link lost");
                    following = other;
                    slot.clear();
                    // SAFETY: it was never linked, and its slots are clear.
                    unsafe { self.keep_or_free(fresh) };
                }
            }
        }
        if ptr::eq(following, terminal()) {
            self.set_closed(pin.segment);
            return Some(Err(Refusal::Closed));
        }
        self.move_tail(&pin, following);
        step!("push slow: tail has moved");
        if !linked {
            return None;
        }
        drop(pin);
        step!("push slow: pin given back");
        // Acquire: if a waiter set its flag before `tail` moved, the flag is found here, and the
        // waiter's entry in the list is visible. [QU19]
        Some(Ok(Pushed::seen_in(self.tail.load(Ordering::Acquire))))
    }

    /// Pushes one item by a claim that keeps the flags of `tail`.
    ///
    /// # Safety
    ///
    /// As [`push_from`](Self::push_from), and the index of `word` is below the number of slots.
    unsafe fn push_flagged(
        &self,
        word: Word<T>,
        item: *const T,
    ) -> Option<Result<Pushed, Refusal>> {
        step!("push flagged: tail read");
        // Acquire: as for the plain claim; and the entry that a waiter wrote before it set its flag
        // is visible. [QU20]
        let word = self
            .tail
            .compare_exchange(
                word,
                advanced(word, 1),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .ok()?;
        step!("push flagged: claimed");
        // SAFETY: the caller claimed the ticket, which is below the number of slots, and this is
        // its one fill; the item is valid, and not used again after `true`.
        unsafe { self.fill(word, index(word), item) }.then(|| Ok(Pushed::seen_in(word)))
    }

    /// Copies the items at `items` from index `taken` to `count` into the queue, in order.
    /// Increments `taken` with each item, so that it is also correct after a panic. Returns the
    /// reason if not all items were pushed.
    ///
    /// # Safety
    ///
    /// 1. `items` is valid for reads of `count` items.
    /// 2. The caller does not use the items below `taken` again.
    pub(super) unsafe fn push_many(
        &self,
        items: *const T,
        count: usize,
        taken: &mut usize,
    ) -> Option<Refusal> {
        let mut held = Held::default();
        let mut refusal = None;
        let mut pauses = ClaimPauses::new();
        while *taken < count {
            let word = word::guess(&self.tail);
            if word.count() >= self.slots as u64 {
                // SAFETY: `taken` is below `count`.
                let item = unsafe { items.add(*taken) };
                // SAFETY: the item is not pushed yet, and not used again after `Ok`.
                match unsafe { self.push_slow(item, Admission::IfOpen) } {
                    Some(Ok(pushed)) => {
                        *taken += 1;
                        // At once, so that the waiter need not wait for the rest of the batch. When
                        // no thread waits any more, the rest is pushed by claims of many tickets.
                        if pushed == Pushed::ForWaiters {
                            held = held.or(self.wake_holding(1));
                        }
                    }
                    Some(Err(why)) => {
                        refusal = Some(why);
                        break;
                    }
                    None => {}
                }
                continue;
            }
            let tickets = (count - *taken).min(self.slots - index(word));
            step!("push many: tail read");
            // Acquire: as for a single claim. [QU22]
            if self
                .tail
                .compare_exchange(
                    word,
                    advanced(word, tickets),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_err()
            {
                pauses.wait();
                continue;
            }
            step!("push many: claimed");
            for ticket in index(word)..index(word) + tickets {
                // SAFETY: there are at most as many tickets as items left, and each ticket takes at
                // most one: the item is in range.
                let item = unsafe { items.add(*taken) };
                // SAFETY: the caller claimed the ticket, which is below the number of slots, and
                // this is its one fill. If the ticket was given up, its item goes to the next
                // ticket, so that the items stay in order.
                *taken += usize::from(unsafe { self.fill(word, ticket, item) });
            }
        }
        // Even if a waker panicked, the items are pushed and the other waiters are woken.
        held.go_up();
        refusal
    }

    /// Moves `tail` to `following`, unless another thread has moved it already.
    pub(super) fn move_tail(&self, pin: &TailPin<'_, T, A>, following: *mut Segment<T>) {
        let first = Word::new(following, 1);
        let mut seen = word::guess(&self.tail);
        while ptr::eq(seen.ptr(), pin.segment) {
            let flags = seen.count() & (CLOSED | WAITING);
            step!("move tail: read");
            // AcqRel: publishes the segment to threads that claim from it, and the move to threads
            // that compare both words; also publishes what a waiter or closer published with its
            // flag. [QU24]
            match self.tail.compare_exchange(
                seen,
                first.with_count(1 | flags),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    step!("move tail: moved");
                    // Relaxed: a statistic. [QU25]
                    self.cold.tail_moves.fetch_add(1, Ordering::Relaxed);
                    step!("move tail: counted");
                    // SAFETY: the segment is pinned; `tail` has left it after that many pins.
                    unsafe {
                        self.release(pin.segment, (index(seen) - self.slots).wrapping_sub(SOURCE))
                    };
                    return;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Pins the segment of `word`, which has no slot left, so that the caller may access it.
    /// Returns `None` if the caller must load `tail` again.
    pub(super) fn pin_tail(&self, word: Word<T>) -> Option<TailPin<'_, T, A>> {
        debug_assert!(index(word) >= self.slots, "a pin is no ticket");
        if !word.is_null() {
            if word::waits_for_pins(index(word), self.slots) {
                return None;
            }
            // Acquire: pairs with the Release of move_tail, as a claim does. [QU26]
            self.tail
                .compare_exchange(
                    word,
                    advanced(word, 1),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .ok()?;
        }
        Some(TailPin {
            queue: self,
            segment: word.ptr(),
        })
    }

    /// Sets CLOSED, unless `tail` has left `segment`, whose `next` is or was the terminal mark.
    pub(super) fn set_closed(&self, segment: *mut Segment<T>) {
        let mut seen = word::guess(&self.tail);
        while ptr::eq(seen.ptr(), segment) && seen.count() & CLOSED == 0 {
            step!("set closed: tail read");
            let closed = seen.with_count(seen.count() | CLOSED);
            // AcqRel: what happened before the close is visible to a thread that loads the flag;
            // the entries of waiters are visible here. [QU28]
            match self
                .tail
                .compare_exchange(seen, closed, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => {
                    step!("set closed: set");
                    if seen.count() & WAITING != 0 {
                        self.wake_all();
                    }
                    return;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Closes the queue, so that no later push succeeds. Returns whether this call closed it.
    ///
    /// Lock-free. Queued items can still be popped. Once a thread finds the queue closed and then
    /// empty, there are no more items. All waiters are woken.
    pub fn close(&self) -> bool {
        loop {
            let word = word::guess(&self.tail);
            step!("close: tail read");
            if word.count() & CLOSED != 0 {
                // The first close happens before the second one returns.
                return !self.is_closed();
            }
            if index(word) < self.slots {
                let closed = word.with_count(word.count() | CLOSED);
                // AcqRel: as in set_closed. [QU30]
                if self
                    .tail
                    .compare_exchange(word, closed, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    step!("close: set");
                    if word.count() & WAITING != 0 {
                        self.wake_all();
                    }
                    return true;
                }
                continue;
            }
            let Some(pin) = self.pin_tail(word) else {
                continue;
            };
            // SAFETY: the segment is pinned, or null.
            let next = unsafe { self.next_of(pin.segment) };
            step!("close: pinned");
            // AcqRel: what happened before the close is visible to a thread that finds the mark and
            // helps to set the flag; a segment found here is initialised. [QU31]
            match next.compare_exchange(
                ptr::null_mut(),
                terminal(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    step!("close: marked");
                    self.set_closed(pin.segment);
                    return true;
                }
                Err(found) if ptr::eq(found, terminal()) => {
                    step!("close: mark found");
                    self.set_closed(pin.segment);
                    return false;
                }
                // The push that linked it came first.
                Err(following) => {
                    step!("close: link found");
                    self.move_tail(&pin, following);
                }
            }
        }
    }
}

/// A pin on a segment to which `tail` leads or led. The null address, with which a queue starts,
/// needs no pin.
pub(super) struct TailPin<'a, T, A: Allocator> {
    queue: &'a Queue<T, A>,
    pub(super) segment: *mut Segment<T>,
}

impl<T, A: Allocator> Drop for TailPin<'_, T, A> {
    fn drop(&mut self) {
        if self.segment.is_null() {
            return;
        }
        // If `tail` was not moved, because memory is lacking or the queue is closed, the pin is
        // subtracted from the index of `tail`. If it were released to `control` instead, every
        // failed push would leave the index one higher.
        let mut seen = word::guess(&self.queue.tail);
        while ptr::eq(seen.ptr(), self.segment) {
            debug_assert!(index(seen) > self.queue.slots, "this pin is counted");
            step!("pin tail: to be given back");
            // Release: pairs with the AcqRel of move_tail; the accesses under the pin happen before
            // the segment is retired. [QU74]
            match self.queue.tail.compare_exchange(
                seen,
                seen.with_count(seen.count() - 1),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        // SAFETY: the move of `tail` added the pin to `control`; it is released once, and not used
        // afterwards.
        unsafe { self.queue.release(self.segment, usize::MAX) };
    }
}
