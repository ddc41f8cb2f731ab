//! Waiting for an item: a line of sleepers beside the queue, and a flag in `tail` that says that somebody is in it.
//!
//! A waiter enters the line, sets WAITING in `tail`, and looks at the queue again before it sleeps. A push changes
//! `tail` anyway, and the exchange that claims its ticket sees the flag or not. All changes of one word have one order:
//!
//! - the claim came first: the waiter's look, after its own change of `tail`, finds the ticket and does not sleep;
//! - the flag came first: the claim saw it, and the push wakes a waiter once its item stands.
//!
//! So nobody sleeps while an item stands, and a push that nobody waits for pays nothing, not even a load.
//!
//! The line is under a lock of one word. Who enters takes the lock; who wakes only adds to the word and goes on if the
//! lock is held: its holder does the waking before it lets go. So a waiter that is stopped inside delays no push, only
//! the wake-ups of other waiters.
//!
//! ```text
//!   word:  │ wake-ups asked for … │ ALL │ LOCKED │
//! ```
//!
//! Rule: while the lock is free, WAITING is set in `tail` if and only if somebody is in the line.

use core::any::Any;
use core::error::Error;
use core::fmt;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::task::Waker;
use core::time::Duration;
use std::panic::{catch_unwind, resume_unwind};
use std::time::Instant;
use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;

use super::Queue;
use super::word::{self, WAITING};
use crate::alloc::Allocator;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::primitive::thread::panicking;
use crate::primitive::{Backoff, Parker, Unparker, WaitStrategy};

/// Somebody changes the line.
const LOCKED: usize = 1;
/// Everybody is to be woken.
const ALL: usize = 2;
/// One wake-up.
const ONE: usize = 4;
/// From here on wake-ups are not counted any more, everybody is woken instead.
const MANY: usize = usize::MAX / 2 + 1;

/// Wake-ups carried from under the lock at once.
const CARRIED: usize = 8;

/// Why a bounded wait gave no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopError {
    /// The time ran out.
    Elapsed,
    /// The queue is closed and nothing stands: nothing will come.
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

/// How to wake a waiter.
pub(super) enum Wake {
    Thread(Unparker),
    #[cfg_attr(not(feature = "async"), expect(dead_code, reason = "made by futures"))]
    Task(Waker),
}

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

/// The place of a waiter in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u64);

struct Line {
    /// In the order of their places.
    waiters: VecDeque<(Place, Wake)>,
    next: u64,
}

/// The line, its lock, and the wake-ups asked for.
pub(super) struct Waiters {
    word: AtomicUsize,
    line: UnsafeCell<Line>,
}

impl Waiters {
    #[cfg(not(rast_loom))]
    pub(super) const fn new() -> Self {
        Self {
            word: AtomicUsize::new(0),
            line: UnsafeCell::new(Line {
                waiters: VecDeque::new(),
                next: 0,
            }),
        }
    }

    #[cfg(rast_loom)]
    pub(super) fn new() -> Self {
        Self {
            word: AtomicUsize::new(0),
            line: UnsafeCell::new(Line {
                waiters: VecDeque::new(),
                next: 0,
            }),
        }
    }
}

impl<T, A: Allocator> Queue<T, A> {
    /// Pops an item, waiting until there is one; `None` when the queue is closed and empty.
    ///
    /// Blocking. It waits as `strategy` says; a thread that sleeps is woken by a push, first come first woken, and may
    /// then lose the item to another, in which case it waits again.
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

    /// As [`pop_wait`](Self::pop_wait), for at most `timeout`. Blocking, bounded by `timeout`.
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

    /// As [`pop_wait`](Self::pop_wait), until `deadline` at the latest. Blocking, bounded by `deadline`.
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
            let parker: &Parker = parker.get_or_insert_with(Parker::new);
            let mut turn = Turn::enter(self, Wake::Thread(parker.unparker()));
            step!("wait: entered");
            // The look after the flag; only what it does not find lets the thread sleep.
            if let Some(end) = self.pop_or_closed() {
                return self.give_after(end, || drop(turn));
            }
            match deadline {
                None => parker.park(),
                Some(deadline) => {
                    parker.park_deadline(deadline);
                }
            }
            step!("wait: slept");
            // If it was woken, the wake-up is for this thread to look; if that look finds nothing, another had the item.
            turn.leave_looking();
        }
    }

    /// The item, or the end; `None`: the queue is empty and open.
    pub(super) fn pop_or_closed(&self) -> Option<Result<T, PopError>> {
        // Asked first: once it is closed, an empty look is the end.
        let is_closed = self.is_closed();
        match self.pop() {
            Some(item) => Some(Ok(item)),
            None => is_closed.then_some(Err(PopError::Closed)),
        }
    }

    /// Gives `end` out after `last`, in which wakers are called or dropped: if one of them panics, an item goes back.
    pub(super) fn give_after(
        &self,
        end: Result<T, PopError>,
        last: impl FnOnce(),
    ) -> Result<T, PopError> {
        let mut in_hand = InHand { queue: self, end };
        last();
        mem::replace(&mut in_hand.end, Err(PopError::Closed))
    }

    /// Enters the line, and sets the flag; the caller looks at the queue after this and before it sleeps.
    fn enter(&self, wake: Wake) -> Turn<'_, T, A> {
        self.lock();
        step!("locked: to enter");
        let place = self.waiters.line.with_mut(|line| {
            // SAFETY: the line is touched under the lock only, which this thread holds.
            let line = unsafe { &mut *line };
            let place = Place(line.next);
            line.next += 1;
            line.waiters.push_back((place, wake));
            place
        });
        step!("locked: in line");
        self.set_waiting(Waiting::Set);
        step!("locked: flag set");
        // If the waker of another panics below, this leaves the line as the panic goes up.
        let turn = Turn {
            queue: self,
            place: Some(place),
        };
        self.let_go().go_up();
        turn
    }

    /// Leaves the line. If it had been woken already, that wake-up was either used, or is handed on.
    fn leave(&self, place: Place, unused: Unused) {
        self.lock();
        let (waker, is_empty) = self.waiters.line.with_mut(|line| {
            // SAFETY: as in enter.
            let line = unsafe { &mut *line };
            let found = line.waiters.binary_search_by_key(&place, |waiter| waiter.0);
            let waker = found.ok().and_then(|at| line.waiters.remove(at));
            (waker, line.waiters.is_empty())
        });
        step!("locked: out of line");
        if is_empty {
            self.set_waiting(Waiting::Clear);
        } else if waker.is_none() && unused == Unused::HandedOn {
            // Under the lock this only counts: it is done as the lock is let go.
            self.ask(ONE).go_up();
        }
        self.let_go().go_up();
        // Where user code may run.
        drop(waker);
    }

    /// Whether a place is still in the line.
    #[cfg(feature = "async")]
    fn is_in_line(&self, place: Place) -> bool {
        self.lock();
        let is_in_line = self.waiters.line.with(|line| {
            // SAFETY: as in enter.
            let line = unsafe { &*line };
            let found = line.waiters.binary_search_by_key(&place, |waiter| waiter.0);
            found.is_ok()
        });
        self.let_go().go_up();
        is_in_line
    }

    /// Wakes up to `count` waiters.
    #[cold]
    #[inline(never)]
    pub(super) fn wake(&self, count: usize) {
        self.wake_holding(count).go_up();
    }

    /// As [`wake`](Self::wake), but what their wakers panic with is for the caller to let go up.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_holding(&self, count: usize) -> Held {
        self.ask(count.min(usize::MAX >> 8) * ONE)
    }

    /// Wakes all waiters.
    #[cold]
    pub(super) fn wake_all(&self) {
        self.ask_for_all().go_up();
    }

    fn ask_for_all(&self) -> Held {
        // AcqRel: as in ask. [QW1]
        let before = self.waiters.word.fetch_or(ALL, Ordering::AcqRel);
        step!("wake all: asked");
        self.serve_unless_locked(before)
    }

    fn ask(&self, wakes: usize) -> Held {
        // AcqRel: what the caller pushed is visible to who wakes, and so to the woken; what waiters entered is visible
        // to the caller if it serves. [QW2]
        let before = self.waiters.word.fetch_add(wakes, Ordering::AcqRel);
        step!("wake: asked");
        if before >= MANY {
            // Whoever has the lock was stopped for long. The count may run over; the bit stays until nobody sleeps.
            self.ask_for_all()
        } else {
            self.serve_unless_locked(before)
        }
    }

    /// Does what is asked for, unless somebody holds the lock, who then does it.
    fn serve_unless_locked(&self, word: usize) -> Held {
        if word & LOCKED == 0 {
            self.serve_after(Carried::default())
        } else {
            Held::default()
        }
    }

    /// Lets the lock go, and wakes whom that was asked for.
    fn let_go(&self) -> Held {
        let carried = self.unlock();
        self.serve_after(carried)
    }

    /// Wakes those, then does what else is asked for, whoever of them panics.
    fn serve_after(&self, carried: Carried) -> Held {
        let mut held = carried.wake();
        // Relaxed: a guess. [QW3]
        let mut seen = self.waiters.word.load(Ordering::Relaxed);
        while seen != 0 && seen & LOCKED == 0 {
            // Acquire: pairs with the Release in unlock. [QW4]
            match self.waiters.word.compare_exchange(
                seen,
                seen | LOCKED,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    step!("locked: to serve");
                    held = held.or(self.unlock().wake());
                    // Relaxed: a guess; more may have been asked for, or left. [QW10]
                    seen = self.waiters.word.load(Ordering::Relaxed);
                }
                Err(now) => seen = now,
            }
        }
        held
    }

    fn lock(&self) {
        let backoff = Backoff::new();
        // Acquire: pairs with the Release in unlock. [QW5]
        while self.waiters.word.fetch_or(LOCKED, Ordering::Acquire) & LOCKED != 0 {
            backoff.snooze();
        }
    }

    /// Lets the lock go, and takes along whom to wake, in so far as that was asked for; the caller wakes them, and
    /// serves what is left.
    fn unlock(&self) -> Carried {
        let mut carried = Carried::default();
        // Release: pairs with the Acquires of the lock. [QW6]
        let Err(asked) =
            self.waiters
                .word
                .compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed)
        else {
            return carried;
        };
        let wakes = match asked & ALL {
            0 => asked / ONE,
            _ => usize::MAX,
        };
        let is_empty = self.waiters.line.with_mut(|line| {
            // SAFETY: the line is touched under the lock only, which this thread holds.
            let line = unsafe { &mut *line };
            for slot in carried.0.iter_mut().take(wakes) {
                *slot = line.waiters.pop_front().map(|waiter| waiter.1);
            }
            line.waiters.is_empty()
        });
        let done = if is_empty {
            self.set_waiting(Waiting::Clear);
            asked - LOCKED
        } else if asked & ALL == 0 {
            wakes.min(CARRIED) * ONE
        } else {
            0
        };
        step!("locked: carried");
        // AcqRel: pairs with the Acquires of the lock, and with the AcqRel of ask: what was pushed is visible to those
        // who are woken. [QW7]
        self.waiters.word.fetch_sub(done + LOCKED, Ordering::AcqRel);
        step!("wake: let go");
        carried
    }

    fn set_waiting(&self, to: Waiting) {
        let mut seen = word::guess(&self.tail);
        loop {
            let count = match to {
                Waiting::Set => seen.count() | WAITING,
                Waiting::Clear => seen.count() & !WAITING,
            };
            if count == seen.count() {
                return;
            }
            step!("locked: tail read");
            // AcqRel: the place in the line is visible to the push that sees the flag; the claims that came before are
            // visible to the look that follows. [QW9]
            match self.tail.compare_exchange(
                seen,
                seen.with_count(count),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

/// Which way the flag goes.
#[derive(Clone, Copy)]
enum Waiting {
    Set,
    Clear,
}

fn is_past(deadline: Instant) -> bool {
    // A model has no clock: there, a bounded wait ends at its first sleep.
    cfg!(any(rast_loom, rast_shuttle)) || Instant::now() >= deadline
}

/// Wakers on their way out.
#[derive(Default)]
#[must_use]
struct Carried([Option<Wake>; CARRIED]);

impl Carried {
    /// Wakes all, whoever of them panics.
    fn wake(self) -> Held {
        let wakes = self.0.into_iter().flatten();
        wakes.fold(Held::default(), |held, wake| {
            held.or(Held(wake.wake().err()))
        })
    }
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

/// Ends a panic that does not go up. If the drop of what was thrown panics, that ends here as well, and is leaked, since its
/// drop may do the same.
fn end(panic: Panic) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(another);
    }
}

/// What was popped, until it is safe to give it out. If a panic comes first, an item goes back to the queue.
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

/// What becomes of a wake-up that came before its waiter left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unused {
    /// The waiter looks at the queue after it: the wake-up is used.
    Looking,
    /// Another gets it.
    HandedOn,
}

/// Wakes one as a panic goes up.
pub(super) struct HandOn<'a, T, A: Allocator>(pub(super) &'a Queue<T, A>);

impl<T, A: Allocator> Drop for HandOn<'_, T, A> {
    fn drop(&mut self) {
        self.0.wake(1);
    }
}

/// A place in the line; leaving it hands on a wake-up that was not used.
pub(super) struct Turn<'a, T, A: Allocator> {
    queue: &'a Queue<T, A>,
    place: Option<Place>,
}

impl<'a, T, A: Allocator> Turn<'a, T, A> {
    /// Enters the line; the caller looks at the queue after this and before it sleeps.
    pub(super) fn enter(queue: &'a Queue<T, A>, wake: Wake) -> Self {
        queue.enter(wake)
    }

    /// Leaves the line in order to look at the queue: the wake-up, if it came, is used by that look.
    pub(super) fn leave_looking(&mut self) {
        if let Some(place) = self.place.take() {
            // If the waker of another panics in there, the look does not come.
            let hand_on = HandOn(self.queue);
            self.queue.leave(place, Unused::Looking);
            mem::forget(hand_on);
        }
    }

    /// Whether no wake-up has come yet.
    #[cfg(feature = "async")]
    pub(super) fn is_in_line(&self) -> bool {
        self.place.is_some_and(|place| self.queue.is_in_line(place))
    }
}

impl<T, A: Allocator> Drop for Turn<'_, T, A> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.queue.leave(place, Unused::HandedOn);
        }
    }
}

#[cfg(all(test, feature = "async", not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use core::ptr;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize as Count;
    use std::task::{Context, Poll, RawWakerVTable};

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

    fn enter<'a>(queue: &'a Queue<u8>, waker: &Arc<Counted>) -> Turn<'a, u8, crate::alloc::Global> {
        Turn::enter(queue, Wake::Task(Waker::from(Arc::clone(waker))))
    }

    fn is_at_rest(queue: &Queue<u8>) -> bool {
        queue.waiters.word.load(Ordering::Relaxed) == 0
            && queue.tail.load(Ordering::Relaxed).count() & WAITING == 0
            && queue
                .waiters
                .line
                // SAFETY: this thread alone uses the queue.
                .with(|line| unsafe { (*line).waiters.is_empty() })
    }

    #[test]
    fn a_wake_up_is_handed_on_although_another_waker_panics() {
        let queue = Queue::new();
        let woken = Counted::new(false);
        let mut turn = enter(&queue, &woken);
        queue.wake(1);
        assert_eq!(woken.wakes(), 1);
        let panicking = enter(&queue, &Counted::new(true));
        let last = Counted::new(false);
        let sleeping = enter(&queue, &last);
        queue.waiters.word.fetch_add(ONE, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| turn.leave_looking())).is_err());
        assert_eq!(last.wakes(), 1, "the look did not come about");
        drop((panicking, sleeping, turn));
        assert!(is_at_rest(&queue));
    }

    #[test]
    fn a_wake_up_is_handed_on_although_a_clone_of_a_waker_panics() {
        static PANICS: RawWakerVTable =
            RawWakerVTable::new(|_| panic!("a clone that panics"), |_| (), |_| (), |_| ());
        let queue = Queue::new();
        let woken = Waker::from(Counted::new(false));
        let mut pop = queue.pop_async();
        let polled = Pin::new(&mut pop).poll(&mut Context::from_waker(&woken));
        assert_eq!(polled, Poll::Pending);
        let last = Counted::new(false);
        let sleeping = enter(&queue, &last);
        // As if another thread pushed as soon as the poll below has looked.
        queue.wake(1);
        // SAFETY: none of the functions uses the null.
        let panicking = unsafe { Waker::new(ptr::null(), &PANICS) };
        let mut cx = Context::from_waker(&panicking);
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut pop).poll(&mut cx)));
        assert!(polled.is_err());
        drop(pop);
        assert_eq!(last.wakes(), 1, "the second look did not come about");
        drop(sleeping);
        assert!(is_at_rest(&queue));
    }

    #[test]
    fn an_item_in_hand_goes_back_although_another_waker_panics() {
        let queue = Queue::new();
        let woken = Waker::from(Counted::new(false));
        let mut cx = Context::from_waker(&woken);
        let mut pop = queue.pop_async();
        assert_eq!(Pin::new(&mut pop).poll(&mut cx), Poll::Pending);
        let panicking = enter(&queue, &Counted::new(true));
        queue.push(1).unwrap();
        // Another thread wakes while this one has the lock in order to leave.
        queue.waiters.word.fetch_add(ONE, Ordering::Relaxed);
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut pop).poll(&mut cx)));
        assert!(polled.is_err());
        assert_eq!(queue.len(), 1, "the item in hand");
        assert_eq!(Pin::new(&mut pop).poll(&mut cx), Poll::Ready(Some(1)));
        drop(panicking);
        assert!(is_at_rest(&queue));
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
        assert!(is_at_rest(&queue));
    }

    #[test]
    fn any_number_of_wake_ups_asked_for_under_the_lock_is_kept() {
        let queue = Queue::new();
        let waker = Counted::new(false);
        let turn = enter(&queue, &waker);
        queue.lock();
        // Just as many as the word has room for, so that a count alone would come to nothing.
        for _ in 0..64 {
            queue.wake(usize::MAX);
        }
        queue.wake(64);
        queue.let_go().go_up();
        assert_eq!(waker.wakes(), 1);
        drop(turn);
        assert!(is_at_rest(&queue));
    }
}
