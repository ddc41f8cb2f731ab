//! The producer's side: claim a ticket on `tail`, fill its slot, and at a segment's end link the
//! next.

use core::mem::ManuallyDrop;
use core::ptr;

use super::pause::{CLAIM_PAUSE_FIRST, CLAIM_PAUSE_MOST, CLAIM_TRIES, PREFETCH, pause};
use super::segment::{SOURCE, Segment, Slot, terminal};
use super::word::{self, CLOSED, WAITING, Word, advanced, index};
use super::{Held, Queue};
use crate::alloc::Allocator;
use crate::primitive::hint::prefetch_write;
use crate::primitive::sync::atomic::Ordering;
use crate::{Closed, TryPushError};

/// Why an item was not taken; the item is still the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Closed,
    NoMemory,
}

/// Whether a closed queue refuses: an item that was in the queue before may come back to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    IfOpen,
    Always,
}

/// Whether some thread waits for what was pushed.
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
    /// Lock-free, with the limit that the type names. Two read-modify-writes without contention;
    /// once per segment it links the next, which takes the spare one or allocates. With sleeping
    /// waiters it wakes one.
    ///
    /// # Panics
    ///
    /// If a segment's address does not fit beside a count (see
    /// [`TaggedPtr`](crate::primitive::TaggedPtr)); the item is then leaked. If a segment were
    /// larger than `isize::MAX` bytes; the item is then dropped. If the waker of a task that it
    /// wakes panics; the item is then in the queue, or leaked if the queue is closed, and the other
    /// wake-ups are done. If the allocator panics; the item is then in the queue or leaked. On lack
    /// of memory it calls `handle_alloc_error`, as std's collections do.
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

    /// Pushes one item at the back, and hands it back on lack of memory too.
    ///
    /// Lock-free, as [`push`](Self::push).
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push), but not for the size of a segment.
    ///
    /// # Errors
    ///
    /// [`TryPushError::Closed`] if the queue is closed, [`TryPushError::NoMemory`] if it needs
    /// another segment and the allocator refuses, or the segment were larger than `isize::MAX`
    /// bytes; both with the item.
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
        // From here on the item may be queued in a slot, too: it is dropped here only if it is
        // handed back.
        let item = ManuallyDrop::new(item);
        // SAFETY: the item is valid for reads, and given up if it is taken.
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
    /// 2. The caller gives the item up if this returns `Ok`.
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
            // SAFETY: the claim made the ticket the caller's, and was below the slots; its one
            // fill. The item is valid and given up if it is taken, by the caller.
            if unsafe { self.fill(word, index(word), item) } {
                return Ok(Pushed::seen_in(word));
            }
        }
    }

    /// Copies the item at `item` into the slot of a claimed ticket. Returns `false` if its consumer
    /// gave the ticket up; the item is then still the caller's.
    ///
    /// # Safety
    ///
    /// 1. The caller claimed `ticket` on `tail`, at `claimed`'s segment and below its slots; this
    ///    is its one call for it.
    /// 2. `item` is valid for reads of `T`; the caller gives the item up if this returns `true`.
    #[inline]
    unsafe fn fill(&self, claimed: Word<T>, ticket: usize, item: *const T) -> bool {
        // SAFETY: by (1) the ticket is the caller's, so the segment is live, and the ticket is
        // below the slots.
        let slot = unsafe { Segment::slot(claimed.ptr(), ticket) };
        prefetch_write(slot.wrapping_add(PREFETCH));
        // SAFETY: by (1) and (2).
        unsafe { Slot::fill(slot, item) }
    }

    /// Claims against other producers: the loser of an exchange tries again with what that exchange
    /// found, after a pause. The value is stale by then, so it loses to the thread that is quick,
    /// and the quick one gets a stretch of the queue to itself; measured, that beats every fresher
    /// retry (docs/performance.md). Lock-free: each loss is another's claim, and pauses are
    /// bounded; after some losses there is no pause any more.
    #[cold]
    #[inline(never)]
    fn contend_tail_slow(&self, mut seen: Word<T>) -> Option<Word<T>> {
        let mut pauses = CLAIM_PAUSE_FIRST;
        let mut tries = 0;
        while seen.count() < self.slots as u64 {
            if tries < CLAIM_TRIES {
                pause(pauses);
                pauses = (pauses * 2).min(CLAIM_PAUSE_MOST);
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

    /// The push of one item where `tail` has flags or no slot left; `None`: look at `tail` again.
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
            // What the closer did before is visible to the refused.
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
        // SAFETY: the segment is pinned, or the queue's own beginning.
        let next = unsafe { self.next_of(pin.segment) };
        // Acquire: pairs with the Release of the link; the segment that follows is initialised.
        // [QU17]
        let mut following = next.load(Ordering::Acquire);
        step!("push slow: next read");
        let is_open = |following: *mut Segment<T>| {
            following.is_null() || ptr::eq(following, terminal()) && admission == Admission::Always
        };
        let mut linked = false;
        while is_open(following) {
            if !following.is_null() {
                // The thread that left the mark may not have set the flag yet, and the mark is
                // about to go.
                self.set_closed(pin.segment);
                step!("push slow: mark to be replaced");
            }
            let Ok(fresh) = self.fresh_segment() else {
                return Some(Err(Refusal::NoMemory));
            };
            step!("push slow: segment in hand");
            // SAFETY: the segment is the caller's alone, and has a slot.
            let slot = unsafe { Segment::slot(fresh, 0) };
            // SAFETY: as above.
            let slot = unsafe { &*slot };
            // SAFETY: nothing else knows the segment; the item is valid by the caller's
            // obligations.
            unsafe { slot.prefill(item) };
            step!("push slow: segment filled");
            // AcqRel: publishes the segment with its first slot; who finds another there reads it.
            // [QU18]
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
        // Acquire: a waiter that came before tail moved has left its flag; what it entered is
        // visible. [QU19]
        Some(Ok(Pushed::seen_in(self.tail.load(Ordering::Acquire))))
    }

    /// The push of one item by a claim that keeps the flags.
    ///
    /// # Safety
    ///
    /// As [`push_from`](Self::push_from), and `word` has an index below the slots.
    unsafe fn push_flagged(
        &self,
        word: Word<T>,
        item: *const T,
    ) -> Option<Result<Pushed, Refusal>> {
        step!("push flagged: tail read");
        // Acquire: as for the plain claim; and what a waiter entered before it set its flag is
        // visible. [QU20]
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
        // SAFETY: the claim made the ticket the caller's, and is below the slots; its one fill; the
        // item is valid and given up if it is taken.
        unsafe { self.fill(word, index(word), item) }.then(|| Ok(Pushed::seen_in(word)))
    }

    /// Copies the items at `items` from index `taken` to `count` into the queue, in order, and
    /// moves `taken` on with each, so that it is right also after a panic; returns why not all were
    /// taken.
    ///
    /// # Safety
    ///
    /// 1. `items` is valid for reads of `count` items.
    /// 2. The caller gives up those that `taken` went past.
    pub(super) unsafe fn push_many(
        &self,
        items: *const T,
        count: usize,
        taken: &mut usize,
    ) -> Option<Refusal> {
        let mut held = Held::default();
        let mut refusal = None;
        let mut pauses = CLAIM_PAUSE_FIRST;
        while *taken < count {
            let word = word::guess(&self.tail);
            if word.count() >= self.slots as u64 {
                // SAFETY: fewer than `count` are taken.
                let item = unsafe { items.add(*taken) };
                // SAFETY: the item is one of those not taken yet, and given up if it is taken.
                match unsafe { self.push_slow(item, Admission::IfOpen) } {
                    Some(Ok(pushed)) => {
                        *taken += 1;
                        // At once: the waiter that slept longest needs the rest of the batch the
                        // least. And when no thread waits any more, the rest goes by claims of many
                        // again.
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
                pause(pauses);
                pauses = (pauses * 2).min(CLAIM_PAUSE_MOST);
                continue;
            }
            step!("push many: claimed");
            for ticket in index(word)..index(word) + tickets {
                // SAFETY: there are as many tickets as items, and each takes one at most: the item
                // is in range.
                let item = unsafe { items.add(*taken) };
                // SAFETY: the claim made the ticket the caller's, and all are below the slots; its
                // one fill. A ticket that was given up takes nothing; its item goes to the next
                // one, so that the order holds.
                *taken += usize::from(unsafe { self.fill(word, ticket, item) });
            }
        }
        // If a waker panicked, all the same the items are pushed, and the others woken.
        held.go_up();
        refusal
    }

    /// Makes `tail` lead to `following`; what it returns to is done, by this thread or another.
    pub(super) fn move_tail(&self, pin: &TailPin<'_, T, A>, following: *mut Segment<T>) {
        let first = Word::new(following, 1);
        let mut seen = word::guess(&self.tail);
        while ptr::eq(seen.ptr(), pin.segment) {
            let flags = seen.count() & (CLOSED | WAITING);
            step!("move tail: read");
            // AcqRel: publishes the segment to those who claim from it, and the move to those who
            // compare the words; passes on what a waiter or closer published with its flag. [QU24]
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
                    // SAFETY: the segment is pinned; the word has left it, after that many pins.
                    unsafe {
                        self.release(pin.segment, (index(seen) - self.slots).wrapping_sub(SOURCE))
                    };
                    return;
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Pins the segment that `word` names with no slot left, so that it may be looked at. `None`:
    /// look at `tail` again.
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

    /// Sets CLOSED while `tail` leads to `segment`, whose `next` says that none follows.
    pub(super) fn set_closed(&self, segment: *mut Segment<T>) {
        let mut seen = word::guess(&self.tail);
        while ptr::eq(seen.ptr(), segment) && seen.count() & CLOSED == 0 {
            step!("set closed: tail read");
            let closed = seen.with_count(seen.count() | CLOSED);
            // AcqRel: what came before the close is visible to who sees the flag; what waiters
            // entered is visible here. [QU28]
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

    /// Closes the queue for pushes, for ever; returns whether this call did it.
    ///
    /// Lock-free. Queued items can still be popped: once a thread sees the queue closed, then
    /// empty, it has seen the end. Waiters wake.
    pub fn close(&self) -> bool {
        loop {
            let word = word::guess(&self.tail);
            step!("close: tail read");
            if word.count() & CLOSED != 0 {
                // What the first closer did before is visible to the second.
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
            // SAFETY: the segment is pinned, or the queue's own beginning.
            let next = unsafe { self.next_of(pin.segment) };
            step!("close: pinned");
            // AcqRel: the closer's earlier acts are visible to who finds the mark and then helps to
            // set the flag; a segment that is found is initialised. [QU31]
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

/// The right to look at a segment to which `tail` leads, or led; null is the queue's beginning,
/// which never ends.
pub(super) struct TailPin<'a, T, A: Allocator> {
    queue: &'a Queue<T, A>,
    pub(super) segment: *mut Segment<T>,
}

impl<T, A: Allocator> Drop for TailPin<'_, T, A> {
    fn drop(&mut self) {
        if self.segment.is_null() {
            return;
        }
        // Where `tail` was not moved, for want of memory or because the queue is closed, the pin
        // goes back into the word that it came from: were it counted in `control`, every vain push
        // would leave an index behind.
        let mut seen = word::guess(&self.queue.tail);
        while ptr::eq(seen.ptr(), self.segment) {
            debug_assert!(index(seen) > self.queue.slots, "this pin is counted");
            step!("pin tail: to be given back");
            // Release: pairs with the AcqRel of move_tail; what was done through the pin comes
            // before the segment is retired. [QU74]
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
        // SAFETY: the word took the pin along when it moved; it is given back once, and no thread
        // looks through it after.
        unsafe { self.queue.release(self.segment, usize::MAX) };
    }
}
