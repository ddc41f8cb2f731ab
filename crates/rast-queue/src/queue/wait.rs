//! Waiting for an item: a wait list beside the queue, and a flag in `tail` that says that it is in
//! use.
//!
//! A waiter enters the list, sets WAITING in `tail` by a read-modify-write, and looks at the queue
//! again before it sleeps. Every push changes `tail`, and all changes of one word have one order:
//!
//! - the claim came first: the waiter's look, after its own change of `tail`, finds the ticket and
//!   the waiter does not sleep;
//! - the flag came first: the claim saw it and, since the read-modify-write publishes the waiter's
//!   place, the push finds a waiter to wake once its item is queued.
//!
//! So no thread sleeps while an item is queued that no waiter was woken for, and a push to a queue
//! that no thread waits on pays nothing for it, not even a load.
//!
//! # Clearing the flag
//!
//! The flag stays set when the last waiter leaves. A push that sees it and finds no waiter clears
//! it: it moves `live` of the wait list from 0 to CLEARING, clears the flag, and takes CLEARING
//! back. A waiter counts itself in `live` before it sets the flag, so:
//!
//! - it counted first: the move from 0 fails while it waits, and no thread clears the flag;
//! - CLEARING came and went first: the flag is cleared before the waiter sets it;
//! - CLEARING is set as it counts: the flag may be cleared after the waiter sets it. The waiter
//!   waits a bounded moment for CLEARING to go, before it sets the flag. If the clearing thread is
//!   stopped there, the waiter does not rely on the flag: a thread sleeps for [`NAP`] at most and
//!   enters again, and a task wakes itself.
//!
//! # What becomes of a wake-up
//!
//! A wake-up is for a look at the queue. It is used by a look that begins after the wake-up was
//! taken out of the waiter's place, whether that look finds an item, the end, or nothing: then
//! another thread had the item. A wake-up that is found when a waiter leaves after its look may be
//! for a later item, and is handed on to the next waiter. So a task that is polled without having
//! been woken takes no wake-up from others, and a wake-up that arrives while it takes an item goes
//! on.
//!
//! # Stopped threads
//!
//! No step waits for another thread. A thread that is stopped in here delays the wake-up that it
//! carries. A waiter that finds the queue closed wakes those that the closer has not woken yet.

use core::any::Any;
use core::error::Error;
use core::fmt;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::{catch_unwind, resume_unwind};
use std::time::Instant;
use std_alloc::boxed::Box;

use super::Queue;
use super::wait_list::{Entered, Left, Place, Wake};
use super::word::{self, WAITING};
use crate::alloc::Allocator;
use crate::primitive::sync::atomic::Ordering;
use crate::primitive::thread::panicking;
use crate::primitive::{Backoff, LocalParker, WaitStrategy};

/// The longest sleep of a thread beside one that was stopped as it cleared the flag.
const NAP: Duration = Duration::from_millis(1);

/// Why a bounded wait gave no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopError {
    /// The time ran out.
    Elapsed,
    /// The queue is closed and empty: no item will come.
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
    fn wake(self) -> Result<(), Panic> {
        match self {
            Self::Thread(unparker) => {
                unparker.unpark();
                Ok(())
            }
            // Nothing of the queue is half changed here, and the panic goes on in the end.
            Self::Task(waker) => catch_unwind(AssertUnwindSafe(|| waker.wake())),
        }
    }
}

impl<T, A: Allocator> Queue<T, A> {
    /// Pops an item, waiting until there is one; `None` when the queue is closed and empty.
    ///
    /// Blocking. It waits as `strategy` says. A push wakes the thread that sleeps longest, or one
    /// that entered at most one round of the wait list later. If another thread takes the item
    /// first, the woken thread waits again.
    ///
    /// A push that is stopped after it took a waiter out of the list and before it woke it delays
    /// that waiter until the push goes on. If no other thread waits or pops, items that are pushed
    /// meanwhile stay queued as long. [`pop_timeout`](Self::pop_timeout) bounds this.
    ///
    /// Entering, leaving and waking are lock-free and cost a few read-modify-writes each, whatever
    /// the number of waiters up to 64, and one load for each further 64 at worst. The wait list
    /// allocates when more wait at once than ever before, and keeps the memory until the queue is
    /// dropped.
    ///
    /// It sleeps by `std::thread::park`, so it may take or leave that thread's token.
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

    /// As [`pop_wait`](Self::pop_wait), for at most `timeout`. Blocking, bounded by `timeout`: it
    /// waits for no other thread, wherever that was stopped.
    ///
    /// # Errors
    ///
    /// [`PopError::Elapsed`] when no item came in time, [`PopError::Closed`] when none will.
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
        // A time that the clock cannot say never comes.
        self.pop_until(strategy, Instant::now().checked_add(timeout))
    }

    /// As [`pop_wait`](Self::pop_wait), until `deadline` at the latest. Blocking, bounded by
    /// `deadline`, as [`pop_timeout`](Self::pop_timeout) is.
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
            // The look after the flag; only what it does not find lets the thread sleep.
            if let Some(end) = self.pop_or_closed() {
                return self.give_after(end, || drop(turn));
            }
            turn.sleep(parker, deadline);
            step!("wait: slept");
            // The look at the beginning of the loop uses the wake-up, if one came.
            let _ = turn.leave();
        }
    }

    /// The item, or the end; `None`: the queue is empty and open.
    pub(super) fn pop_or_closed(&self) -> Option<Result<T, PopError>> {
        // Asked first: once it is closed, an empty look is the end.
        let is_closed = self.is_closed();
        match self.pop() {
            Some(item) => Some(Ok(item)),
            None if is_closed => {
                // The closer may have been stopped before it woke them.
                if !self.waiters.is_idle() {
                    self.wake_all();
                }
                Some(Err(PopError::Closed))
            }
            None => None,
        }
    }

    /// Gives `end` out after `last`, in which wakers are called or dropped: if one of them panics,
    /// an item goes back.
    pub(super) fn give_after(
        &self,
        end: Result<T, PopError>,
        last: impl FnOnce(),
    ) -> Result<T, PopError> {
        let mut in_hand = InHand { queue: self, end };
        last();
        mem::replace(&mut in_hand.end, Err(PopError::Closed))
    }

    /// Wakes up to `count` waiters. Lock-free, as everything in here, except for what their wakers
    /// do.
    #[cold]
    #[inline(never)]
    pub(super) fn wake(&self, count: usize) {
        self.wake_holding(count).go_up();
    }

    /// As [`wake`](Self::wake), but what their wakers panic with is for the caller to let go up.
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
            held = held.or(Held(wake.wake().err()));
        }
        held
    }

    /// Wakes all waiters.
    #[cold]
    pub(super) fn wake_all(&self) {
        self.wake_holding(usize::MAX).go_up();
    }

    /// Sets the flag, by a read-modify-write also if it is set.
    fn set_waiting(&self) {
        let mut seen = word::guess(&self.tail);
        loop {
            step!("enter: tail read");
            // AcqRel: the place in the list is visible to the push that sees the flag; the claims
            // that came before are visible to the look that follows. [QW23]
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

    /// Clears the flag, unless some thread waits or another thread clears it.
    fn clear_waiting(&self) {
        if !self.waiters.begin_clearing() {
            return;
        }
        step!("clear: begun");
        let mut seen = word::guess(&self.tail);
        while seen.count() & WAITING != 0 {
            step!("clear: tail read");
            // AcqRel: passes on what closers and those who moved `tail` published. [QW24]
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
    // A model has no clock: there, a bounded wait ends at its first sleep.
    cfg!(any(rast_loom, rast_shuttle)) || Instant::now() >= deadline
}

/// What a waker panicked with.
type Panic = Box<dyn Any + Send>;

/// The first panic of a waker, until all are woken and nothing is half done.
#[derive(Default)]
#[must_use = "a panic goes up in the end"]
pub(super) struct Held(Option<Panic>);

impl Held {
    /// This one, or the later one; of two the later one ends here. The panic hook was told of both.
    pub(super) fn or(mut self, mut later: Self) -> Self {
        // If both hold one, `later` ends its own as it is dropped.
        let first = self.0.take();
        Self(first.or_else(|| later.0.take()))
    }

    /// Lets the panic go up, unless another does already, which ends what this one would end.
    pub(super) fn go_up(mut self) {
        if !panicking()
            && let Some(panic) = self.0.take()
        {
            resume_unwind(panic);
        }
    }
}

impl Drop for Held {
    /// Also as another panic goes past it, an allocator's in a batch for instance.
    fn drop(&mut self) {
        if let Some(panic) = self.0.take() {
            end(panic);
        }
    }
}

/// Ends a panic that does not go up. If the drop of what was thrown panics, that ends here as well,
/// and is leaked, since its drop may do the same.
fn end(panic: Panic) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(another);
    }
}

/// What was popped, until it is safe to give it out. If a panic comes first, an item goes back to
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

/// Wakes one as a panic goes up.
#[cfg(feature = "async")]
pub(super) struct HandOn<'a, T, A: Allocator>(pub(super) &'a Queue<T, A>);

#[cfg(feature = "async")]
impl<T, A: Allocator> Drop for HandOn<'_, T, A> {
    fn drop(&mut self) {
        self.0.wake(1);
    }
}

/// A place in the wait list. Dropping it hands on a wake-up that has come.
pub(super) struct Turn<'a, T, A: Allocator> {
    queue: &'a Queue<T, A>,
    place: Place,
    /// Whether the caller can rely on the flag.
    is_settled: bool,
}

impl<'a, T, A: Allocator> Turn<'a, T, A> {
    /// Enters the list and sets the flag; the caller looks at the queue after this and before it
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

    /// Leaves the list. A wake-up that had come is the caller's, to use by a look after this or to
    /// hand on. The drop of the caller's waker may panic in here.
    pub(super) fn leave(self) -> Left {
        let (queue, place) = (self.queue, self.place);
        mem::forget(self);
        queue.waiters.leave(place)
    }

    /// Whether no wake-up has come yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.queue.waiters.is_waiting(self.place)
    }

    /// Whether it is woken by every push that comes; if not, it must enter again soon.
    #[cfg(feature = "async")]
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Sleeps until the wake-up, or the deadline, or, if the turn is not settled, for a nap.
    fn sleep(&self, parker: &LocalParker, deadline: Option<Instant>) {
        let nap = (!self.is_settled).then(|| Instant::now() + NAP);
        let end = [deadline, nap].into_iter().flatten().min();
        // The token may be of another wait: without the wake-up it sleeps again.
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
        // The drop of the waker may panic; then no wake-up had come.
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
        let given = catch_unwind(AssertUnwindSafe(|| queue.give_after(end, || drop(turn))));
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
        let closed = catch_unwind(AssertUnwindSafe(|| queue.close()));
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
