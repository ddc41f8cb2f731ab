//! Waiting for an item: a wait list beside the queue, and a flag WAITING in `tail`, which is set if
//! the list may have waiters.
//!
//! A waiter enters the list, sets WAITING in `tail` by a read-modify-write, and checks the queue
//! again before it sleeps. Every push also changes `tail` by a read-modify-write. All changes of
//! `tail` have one order, so there are two cases:
//!
//! - If the push claims its ticket first, the waiter's second check finds the ticket, and the
//!   waiter does not sleep.
//! - If the waiter sets the flag first, the claim loads the flag. The waiter entered the list
//!   before it set the flag, so the push finds a waiter to wake once its item is queued.
//!
//! So no thread sleeps while there is a queued item for which no waiter was woken. While WAITING is
//! not set, the fast path of a push accesses no memory for the wait list.
//!
//! # Clearing the flag
//!
//! The flag stays set when the last waiter leaves. The next push that finds the flag but no waiter
//! clears the flag, in three steps. It changes `live`, the count of waiters, from 0 to CLEARING,
//! clears the flag, and subtracts CLEARING again. A waiter adds itself to `live` before it sets the
//! flag, so there are three cases:
//!
//! - The waiter is added first. Then `live` is not 0, so no thread clears the flag while the waiter
//!   waits.
//! - CLEARING is set and subtracted first. Then the flag is cleared before the waiter sets it.
//! - The waiter is added while CLEARING is set. Then the flag may be cleared after the waiter sets
//!   it, so the waiter first waits a bounded time until CLEARING is subtracted. If CLEARING is
//!   still set then, because the clearing thread is suspended, the waiter does not rely on the
//!   flag. A waiting thread sleeps for at most [`NAP`] and enters the list again; a waiting task
//!   wakes itself.
//!
//! # Which check consumes a wake-up
//!
//! A wake-up asks a waiter to check the queue. The waiter first removes the wake-up from its entry.
//! The next check that it begins consumes the wake-up, even if the check finds nothing, because
//! then another thread has popped the item. A wake-up that arrives after the check began may be for
//! a later item. A waiter that finds such a wake-up when it leaves passes it to the next waiter.
//!
//! # Suspended threads
//!
//! No operation of the wait list waits for another thread. A thread that is suspended in such an
//! operation delays only the wake-up that it was about to give. A waiter that finds the queue
//! closed wakes the waiters that the closing thread has not woken yet.

use core::error::Error;
use core::fmt;
use core::mem;
use core::time::Duration;
use std::time::Instant;

use super::Queue;
use super::held::Held;
use super::wait_list::{Entered, Left, Place, Wake};
use super::word::{self, WAITING};
use crate::alloc::Allocator;
use crate::primitive::panics::{self, Payload};
use crate::primitive::sync::atomic::Ordering;
use crate::primitive::{Backoff, LocalParker, WaitStrategy};

/// Maximum sleep of a thread that does not rely on the flag, because another thread may be about to
/// clear it.
const NAP: Duration = Duration::from_millis(1);

/// Why a bounded wait returned no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopError {
    /// The time ran out.
    Elapsed,
    /// The queue is closed and empty.
    Closed,
}

impl fmt::Display for PopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elapsed => "no item came in time",
            Self::Closed => "the queue is closed and empty",
        })
    }
}

impl Error for PopError {}

impl Wake {
    fn wake(self) -> Result<(), Payload> {
        match self {
            Self::Thread(unparker) => {
                unparker.unpark();
                Ok(())
            }
            // The queue is consistent here, and the panic is resumed later.
            Self::Task(waker) => panics::contain(|| waker.wake()),
        }
    }
}

impl<T, A: Allocator> Queue<T, A> {
    /// Pops an item, waiting until there is one; `None` when the queue is closed and empty.
    ///
    /// Blocking; `strategy` says how it waits. Pushes wake waiters round-robin by their places in
    /// the wait list, so roughly in the order in which they began to wait. If another thread pops
    /// the item first, the woken thread waits again.
    ///
    /// A push removes a waiter from the list and then wakes it. If the pushing thread is suspended
    /// in between, that waiter sleeps until the pushing thread resumes. If no other thread waits or
    /// pops, items that are pushed meanwhile stay queued until then.
    /// [`pop_timeout`](Self::pop_timeout) bounds this delay.
    ///
    /// Entering the list, leaving it and waking a waiter are lock-free, and cost a few
    /// read-modify-writes each. Entering and waking also cost at worst one load for every 64 places
    /// of the list. The list has fewer places than 64 plus twice the greatest number of waiters at
    /// one time. It can have more only if a search for a place misses one that is freed during the
    /// search. The list allocates when there are more waiters than ever before, and keeps the
    /// memory until the queue is dropped.
    ///
    /// The call sleeps by `std::thread::park`, so it may consume the thread's park token, or leave
    /// a token set.
    ///
    /// ```
    /// use rast_queue::Queue;
    /// use rast_queue::primitive::WaitStrategy;
    ///
    /// let queue = Queue::new();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         queue.push(1).unwrap();
    ///         queue.close();
    ///     });
    ///     assert_eq!(queue.pop_wait(WaitStrategy::Adaptive), Some(1));
    ///     assert_eq!(queue.pop_wait(WaitStrategy::Adaptive), None);
    /// });
    /// ```
    pub fn pop_wait(&self, strategy: WaitStrategy) -> Option<T> {
        self.pop_until(strategy, None).ok()
    }

    /// As [`pop_wait`](Self::pop_wait), for at most `timeout`. Blocking, bounded by `timeout` even
    /// if another thread is suspended.
    ///
    /// # Errors
    ///
    /// [`PopError::Elapsed`] if no item was pushed in time, [`PopError::Closed`] if the queue is
    /// closed and empty.
    ///
    /// ```
    /// use rast_queue::{PopError, Queue};
    /// use rast_queue::primitive::WaitStrategy;
    /// use std::time::Duration;
    ///
    /// let queue = Queue::<u8>::new();
    /// let result = queue.pop_timeout(WaitStrategy::Park, Duration::from_millis(1));
    /// assert_eq!(result, Err(PopError::Elapsed));
    /// ```
    pub fn pop_timeout(&self, strategy: WaitStrategy, timeout: Duration) -> Result<T, PopError> {
        // A deadline that overflows the clock is none.
        self.pop_until(strategy, Instant::now().checked_add(timeout))
    }

    /// As [`pop_wait`](Self::pop_wait), until `deadline` at the latest, also if another thread is
    /// suspended.
    ///
    /// # Errors
    ///
    /// As [`pop_timeout`](Self::pop_timeout).
    pub fn pop_deadline(&self, strategy: WaitStrategy, deadline: Instant) -> Result<T, PopError> {
        self.pop_until(strategy, Some(deadline))
    }

    fn pop_until(&self, strategy: WaitStrategy, deadline: Option<Instant>) -> Result<T, PopError> {
        if let Some(item) = self.pop() {
            return Ok(item);
        }
        let backoff = Backoff::new();
        let mut parker = None;
        loop {
            if let Some(end) = self.pop_or_closed() {
                return end;
            }
            if deadline.is_some_and(is_past) {
                return Err(PopError::Elapsed);
            }
            if strategy.is_awake(&backoff) {
                backoff.snooze();
                continue;
            }
            let parker: &LocalParker = parker.get_or_insert_with(LocalParker::new);
            let turn = Turn::enter(self, Wake::Thread(parker.unparker()));
            step!("wait: entered");
            // The check after the flag is set: the thread sleeps only if this finds nothing.
            if let Some(end) = self.pop_or_closed() {
                return self.give_after(end, || drop(turn));
            }
            turn.sleep(parker, deadline);
            step!("wait: slept");
            // If there was a wake-up, the check at the start of the loop consumes it.
            let _ = turn.leave();
        }
    }

    /// Pops an item, or returns `Closed`; `None` if the queue is empty and open.
    pub(super) fn pop_or_closed(&self) -> Option<Result<T, PopError>> {
        // Loaded first: once the queue is closed, an empty queue stays empty.
        let is_closed = self.is_closed();
        match self.pop() {
            Some(item) => Some(Ok(item)),
            None if is_closed => {
                // The closing thread may be suspended before it wakes them.
                if !self.waiters.is_idle() {
                    self.wake_all();
                }
                Some(Err(PopError::Closed))
            }
            None => None,
        }
    }

    /// Calls `last`, which calls or drops wakers, and returns `end`. If a waker panics, the item in
    /// `end` is pushed back to the queue.
    pub(super) fn give_after(
        &self,
        end: Result<T, PopError>,
        last: impl FnOnce(),
    ) -> Result<T, PopError> {
        let mut in_hand = InHand { queue: self, end };
        last();
        mem::replace(&mut in_hand.end, Err(PopError::Closed))
    }

    /// Wakes up to `count` waiters. Lock-free, except for what their wakers do.
    #[cold]
    #[inline(never)]
    pub(super) fn wake(&self, count: usize) {
        self.wake_holding(count).go_up();
    }

    /// As [`wake`](Self::wake), but returns the first panic of a waker, which the caller must
    /// resume.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_holding(&self, count: usize) -> Held {
        let mut held = Held::default();
        for _ in 0..count {
            step!("wake: begun");
            if self.waiters.is_idle() {
                self.clear_waiting();
                break;
            }
            let Some(wake) = self.waiters.take_waiter() else {
                break;
            };
            step!("wake: to be called");
            held = held.or(Held::new(wake.wake().err()));
        }
        held
    }

    #[cold]
    pub(super) fn wake_all(&self) {
        self.wake_holding(usize::MAX).go_up();
    }

    /// Sets the flag, by a read-modify-write even if it is set.
    fn set_waiting(&self) {
        let mut seen = word::guess(&self.tail);
        loop {
            step!("enter: tail read");
            // AcqRel: the entry in the list is visible to the push that loads the flag; the claims
            // that came before are visible to the check that follows. [QW23]
            match self.tail.compare_exchange(
                seen,
                seen.with_count(seen.count() | WAITING),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Clears the flag, unless there is a waiter or another thread clears it.
    fn clear_waiting(&self) {
        if !self.waiters.begin_clearing() {
            return;
        }
        step!("clear: begun");
        let mut seen = word::guess(&self.tail);
        while seen.count() & WAITING != 0 {
            step!("clear: tail read");
            // AcqRel: also publishes what closing threads and threads that moved `tail` published.
            // [QW24]
            match self.tail.compare_exchange(
                seen,
                seen.with_count(seen.count() & !WAITING),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        step!("clear: cleared");
        self.waiters.end_clearing();
    }
}

fn is_past(deadline: Instant) -> bool {
    // A model has no clock: there a bounded wait ends at its first sleep.
    cfg!(any(rast_loom, rast_shuttle)) || Instant::now() >= deadline
}

/// A popped item, until it can be returned. If a panic unwinds before, the item is pushed back to
/// the queue.
struct InHand<'a, T, A: Allocator> {
    queue: &'a Queue<T, A>,
    end: Result<T, PopError>,
}

impl<T, A: Allocator> Drop for InHand<'_, T, A> {
    fn drop(&mut self) {
        if let Ok(item) = mem::replace(&mut self.end, Err(PopError::Closed)) {
            self.queue.put_back(item);
        }
    }
}

/// Passes a wake-up to the next waiter if a panic unwinds.
#[cfg(feature = "async")]
pub(super) struct HandOn<'a, T, A: Allocator>(pub(super) &'a Queue<T, A>);

#[cfg(feature = "async")]
impl<T, A: Allocator> Drop for HandOn<'_, T, A> {
    fn drop(&mut self) {
        self.0.wake(1);
    }
}

/// An entry in the wait list. Its drop passes a wake-up that it received to the next waiter.
pub(super) struct Turn<'a, T, A: Allocator> {
    queue: &'a Queue<T, A>,
    place: Place,
    /// Whether the caller can rely on the flag in `tail`.
    is_settled: bool,
}

impl<'a, T, A: Allocator> Turn<'a, T, A> {
    /// Enters the list and sets the flag. The caller must check the queue after this and before it
    /// sleeps.
    pub(super) fn enter(queue: &'a Queue<T, A>, wake: Wake) -> Self {
        let Entered { place, is_settled } = queue.waiters.enter(wake);
        queue.set_waiting();
        Self {
            queue,
            place,
            is_settled,
        }
    }

    /// Leaves the list. If it returns `Woken`, the caller must check the queue after this, or pass
    /// the wake-up on. The drop of the caller's waker may panic.
    pub(super) fn leave(self) -> Left {
        let (queue, place) = (self.queue, self.place);
        mem::forget(self);
        queue.waiters.leave(place)
    }

    /// Returns whether there was no wake-up yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.queue.waiters.is_waiting(self.place)
    }

    /// Returns whether the caller can rely on the flag in `tail`; if not, it must enter again soon.
    #[cfg(feature = "async")]
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Sleeps until the wake-up or the deadline, and for at most [`NAP`] if the turn is not
    /// settled.
    fn sleep(&self, parker: &LocalParker, deadline: Option<Instant>) {
        let nap = (!self.is_settled).then(|| Instant::now() + NAP);
        let end = [deadline, nap].into_iter().flatten().min();
        // The park token may be from another wait: without a wake-up it sleeps again.
        while self.is_waiting() {
            match end {
                None => parker.park(),
                Some(end) => {
                    parker.park_deadline(end);
                    if is_past(end) {
                        break;
                    }
                }
            }
        }
    }
}

impl<T, A: Allocator> Drop for Turn<'_, T, A> {
    fn drop(&mut self) {
        // The drop of the waker may panic; in that case there was no wake-up.
        if self.queue.waiters.leave(self.place) == Left::Woken {
            self.queue.wake(1);
        }
    }
}

#[cfg(all(test, feature = "async", not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize as Count;
    use std::task::{Context, Poll, Waker};
    use std::thread;
    use std::vec::Vec;

    struct Counted {
        wakes: Count,
        panics: bool,
    }

    impl std::task::Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
            assert!(!self.panics, "a waker that panics");
        }
    }

    impl Counted {
        fn new(panics: bool) -> Arc<Self> {
            let wakes = Count::new(0);
            Arc::new(Self { wakes, panics })
        }

        fn wakes(&self) -> usize {
            self.wakes.load(Ordering::Relaxed)
        }
    }

    type QueueTurn<'a> = Turn<'a, u8, crate::alloc::Global>;

    fn enter<'a>(queue: &'a Queue<u8>, waker: &Arc<Counted>) -> QueueTurn<'a> {
        Turn::enter(queue, Wake::Task(Waker::from(Arc::clone(waker))))
    }

    fn has_flag(queue: &Queue<u8>) -> bool {
        queue.tail.load(Ordering::Relaxed).count() & WAITING != 0
    }

    /// No waiter, and none counted; the flag goes at the next push.
    fn assert_at_rest(queue: &Queue<u8>) {
        assert!(queue.waiters.is_at_rest());
        if queue.push(0).is_ok() {
            queue.pop();
            assert!(!has_flag(queue), "the push cleared it");
        }
    }

    #[test]
    fn an_item_in_hand_goes_back_although_another_waker_panics() {
        let queue = Queue::new();
        let turn = enter(&queue, &Counted::new(false));
        let panicking = enter(&queue, &Counted::new(true));
        queue.push(1).unwrap();
        let end = queue.pop_or_closed().unwrap();
        // The wake-up of `turn` is handed on to the one that panics.
        let given = panics::contain(|| queue.give_after(end, || drop(turn)));
        assert!(given.is_err());
        assert_eq!(queue.pop(), Some(1), "the item in hand");
        drop(panicking);
        assert_at_rest(&queue);
    }

    /// What a waker panics with may panic in its own drop.
    #[test]
    fn all_are_woken_although_what_wakers_panic_with_panics() {
        struct Hostile;

        impl Drop for Hostile {
            fn drop(&mut self) {
                std::panic::panic_any(Self);
            }
        }

        impl std::task::Wake for Hostile {
            fn wake(self: Arc<Self>) {
                // The waker itself is not to be dropped.
                mem::forget(self);
                std::panic::panic_any(Self);
            }
        }

        let hostile = || Wake::Task(Waker::from(Arc::new(Hostile)));
        let queue = Queue::<u8>::new();
        let turns = [(); 3].map(|()| Turn::enter(&queue, hostile()));
        let last = Counted::new(false);
        let sleeping = enter(&queue, &last);
        let closed = panics::contain(|| queue.close());
        let panic = closed.expect_err("the first panic goes up");
        assert!(panic.is::<Hostile>());
        mem::forget(panic);
        assert_eq!(last.wakes(), 1, "the later panics end in the queue");
        drop((turns, sleeping));
        assert_at_rest(&queue);
    }

    #[test]
    fn a_wake_up_goes_to_the_next_place_round_and_round() {
        let queue = Queue::new();
        let waiters: Vec<_> = (0..5).map(|_| Counted::new(false)).collect();
        let mut turns: Vec<_> = waiters.iter().map(|waker| enter(&queue, waker)).collect();
        for round in 1..100 {
            for n in 0..5 {
                queue.wake(1);
                assert_eq!(waiters[n].wakes(), round, "{n}");
                let again = enter(&queue, &waiters[n]);
                assert_eq!(mem::replace(&mut turns[n], again).leave(), Left::Woken);
            }
        }
        drop(turns);
        assert_at_rest(&queue);
    }

    /// Whatever the number of waiters that come and go, before one that stays or behind it.
    #[test]
    fn cancelled_waiters_leave_nothing_behind() {
        for cancelled in [10, 10_000, 1_000_000] {
            let cancelled = if cfg!(miri) {
                cancelled.min(300)
            } else {
                cancelled
            };
            let queue = Queue::new();
            let (stays, goes) = (Counted::new(false), Counted::new(false));
            let staying = enter(&queue, &stays);
            for _ in 0..cancelled {
                assert_eq!(enter(&queue, &goes).leave(), Left::Cancelled);
            }
            assert_eq!(queue.waiters.places(), usize::BITS as usize);
            assert_eq!(Arc::strong_count(&goes), 1, "the wakers are dropped");
            queue.push(1).unwrap();
            assert_eq!((stays.wakes(), goes.wakes()), (1, 0));
            assert_eq!(staying.leave(), Left::Woken);
        }
    }

    #[test]
    fn thousands_of_waiters_come_and_go_behind_one_that_stays() {
        let count = if cfg!(miri) { 200 } else { 5_000 };
        let queue = Queue::new();
        let (stays, goes) = (Counted::new(false), Counted::new(false));
        let staying = enter(&queue, &stays);
        for _ in 0..4 {
            let turns: Vec<_> = (0..count).map(|_| enter(&queue, &goes)).collect();
            assert!(queue.waiters.places() < 2 * (count + 1 + usize::BITS as usize));
            drop(turns);
        }
        queue.wake(1);
        assert_eq!(stays.wakes(), 1);
        assert_eq!(staying.leave(), Left::Woken);
        assert_at_rest(&queue);
    }

    /// The thread that clears the flag is stopped: a thread wakes up by itself, and a task wakes
    /// itself.
    #[test]
    fn a_waiter_does_not_rely_on_a_flag_that_is_being_cleared() {
        let queue = Queue::new();
        drop(enter(&queue, &Counted::new(false)));
        assert!(queue.waiters.begin_clearing());
        let clear = || {
            let seen = word::guess(&queue.tail);
            let cleared = seen.with_count(seen.count() & !WAITING);
            queue
                .tail
                .compare_exchange(seen, cleared, Ordering::AcqRel, Ordering::Relaxed)
        };
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| queue.pop_wait(WaitStrategy::Park));
            while queue.waiters.is_idle() || !has_flag(&queue) || clear().is_err() {
                thread::yield_now();
            }
            queue.push(1).unwrap();
            assert_eq!(sleeper.join().unwrap(), Some(1));
        });
        let mut pop = queue.pop_async();
        let bell = Counted::new(false);
        let waker = Waker::from(Arc::clone(&bell));
        let mut poll = || Pin::new(&mut pop).poll(&mut Context::from_waker(&waker));
        assert_eq!((poll(), bell.wakes()), (Poll::Pending, 1));
        assert_eq!((poll(), bell.wakes()), (Poll::Pending, 2));
        clear().unwrap();
        queue.waiters.end_clearing();
        assert_eq!((poll(), bell.wakes()), (Poll::Pending, 2));
        queue.push(2).unwrap();
        assert_eq!((poll(), bell.wakes()), (Poll::Ready(Some(2)), 3));
        assert_at_rest(&queue);
    }

    /// The waiter that finds the end wakes the others, in place of a closer that was stopped.
    #[test]
    fn the_end_wakes_those_that_the_closer_did_not() {
        let queue = Queue::<u8>::new();
        let bells = [(); 3].map(|()| Counted::new(false));
        let turns = bells.each_ref().map(|bell| enter(&queue, bell));
        let seen = word::guess(&queue.tail);
        // As a close does, whose thread is then stopped.
        let closed = seen.with_count(seen.count() | word::CLOSED);
        queue
            .tail
            .compare_exchange(seen, closed, Ordering::AcqRel, Ordering::Relaxed)
            .unwrap();
        let end = queue.pop_timeout(WaitStrategy::Park, Duration::ZERO);
        assert_eq!(end, Err(PopError::Closed));
        assert_eq!(bells.map(|bell| bell.wakes()), [1, 1, 1]);
        drop(turns);
    }
}
