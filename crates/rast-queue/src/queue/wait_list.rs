//! The wait list: a table of places, one for each waiter, that is changed without a lock.
//!
//! A place has a bit TAKEN, which its waiter holds from `enter` to `leave`, and a bit WAITING,
//! which is set until some thread wakes the waiter or the waiter leaves. The read-modify-write that
//! clears WAITING decides which of the two it is. So a time-out leaves with one such step, nothing
//! stays behind in the list, and a thread that is stopped at any step holds one place and, if it is
//! waking, one wake-up.
//!
//! ```text
//!   chunks      groups                     entries
//!   ┌───┐      ┌────────┬─────────┐       ┌──────┬──────┐
//!   │ 0 │ ───► │ TAKEN  │ WAITING │  one  │ wake │ done │  64 for each group
//!   │ 1 │ ─┐   └────────┴─────────┘       └──────┴──────┘
//!   │ … │  └─► two groups, then four, …
//!   └───┘
//! ```
//!
//! A chunk is made when a search has found each place taken, and freed with the queue. So the memory
//! follows the greatest number of waiters at one time, not how often they come and go: without a
//! race it is at most for twice as many. Places change hands while a search goes on, so it may pass
//! one that is freed behind it, and make a chunk that is needed only later; a thread that lost the
//! race to make one searches again.
//!
//! Places are taken and woken in the order of their numbers, round and round: a waiter takes the
//! first free place behind the one that was taken last, and a wake-up goes to the first waiter
//! behind the one that was woken last. A waiter is overtaken at most by one round of others.
//!
//! Both searches look at whole groups, 64 places with one load. A search is a step or two unless
//! the places are nearly all taken or nearly all free; at 10 000 waiters it is at most 255 loads.
//!
//! `live` counts the waiters whose bit WAITING is set or about to be, and says whether a thread is
//! clearing the flag in `tail`:
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | `live` | who enters, wakes, cancels, or clears the flag | the same |
//! | `enter_at`, `wake_at` | who enters; who wakes: hints | the same |
//! | `chunks` | who enters, once each | all |
//! | TAKEN | who enters or leaves; who wakes, after the waiter left | who enters |
//! | WAITING | who enters, wakes, cancels | who wakes, the waiter |
//! | `wake` | the waiter before it sets WAITING, then who clears WAITING | - |
//! | `done` | the waker and the waiter after a wake-up: the later one frees the place | the same |

use core::ptr;
use core::task::Waker;
use std_alloc::boxed::Box;

use super::pause::IS_MODEL;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use crate::primitive::{Backoff, LocalUnparker};

/// Places with one word for each bit.
const GROUP: usize = if IS_MODEL { 2 } else { usize::BITS as usize };
const ALL: usize = usize::MAX >> (usize::BITS as usize - GROUP);

/// Chunk `k` has `2^k` groups: together more places than any process has threads or tasks.
const CHUNKS: usize = if IS_MODEL { 3 } else { 24 };

/// A thread is clearing the flag in `tail`.
const CLEARING: usize = 1;
/// One waiter.
const LIVE: usize = 2;

/// The waker has taken `wake` out.
const FETCHED: u8 = 1;
/// The waiter has left.
const LEFT: u8 = 2;

/// How to wake a waiter.
pub(super) enum Wake {
    Thread(LocalUnparker),
    #[cfg_attr(
        not(any(feature = "async", rast_loom, rast_shuttle)),
        expect(dead_code, reason = "made by futures and models")
    )]
    Task(Waker),
}

/// The number of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

/// A place that was entered.
pub(super) struct Entered {
    pub(super) place: Place,
    /// False: a thread is clearing the flag in `tail` and may clear it after the caller sets it.
    pub(super) is_settled: bool,
}

/// What became of the wake-up of a waiter that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Left {
    /// It had not been woken and will not be.
    Cancelled,
    /// It had been woken.
    Woken,
}

pub(super) struct WaitList {
    live: AtomicUsize,
    enter_at: AtomicUsize,
    wake_at: AtomicUsize,
    chunks: [AtomicPtr<Chunk>; CHUNKS],
}

struct Chunk {
    groups: Box<[Group]>,
    entries: Box<[Entry]>,
}

/// One bit for each place.
struct Group {
    taken: AtomicUsize,
    waiting: AtomicUsize,
}

struct Entry {
    wake: UnsafeCell<Option<Wake>>,
    done: AtomicU8,
}

/// A place as the parts that hold it.
#[derive(Clone, Copy)]
struct Parts<'a> {
    group: &'a Group,
    bit: usize,
    entry: &'a Entry,
}

impl WaitList {
    #[cfg(not(rast_loom))]
    pub(super) const fn new() -> Self {
        Self {
            live: AtomicUsize::new(0),
            enter_at: AtomicUsize::new(0),
            wake_at: AtomicUsize::new(0),
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
        }
    }

    #[cfg(rast_loom)]
    pub(super) fn new() -> Self {
        Self {
            live: AtomicUsize::new(0),
            enter_at: AtomicUsize::new(0),
            wake_at: AtomicUsize::new(0),
            chunks: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Enters a waiter. The caller then sets the flag in `tail`, by a read-modify-write, and looks
    /// at the queue before it sleeps.
    ///
    /// Lock-free. Allocates if more wait than ever before.
    pub(super) fn enter(&self, wake: Wake) -> Entered {
        let (place, parts) = self.take_place();
        step!("enter: place taken");
        // SAFETY: the place is the caller's and is not WAITING, and its last user is through with
        // it, which the Acquire of the take ordered before this: no other thread touches the cell.
        parts
            .entry
            .wake
            .with_mut(|cell| unsafe { *cell = Some(wake) });
        // Relaxed: the Release of WAITING publishes it. [QW1]
        parts.entry.done.store(0, Ordering::Relaxed);
        // AcqRel: pairs with the AcqRel in `end_clearing`: if a thread was clearing the flag
        // before, it has done so before the caller sets it. Counted before WAITING is set, so that
        // who clears WAITING can count down. [QW2]
        let live = self.live.fetch_add(LIVE, Ordering::AcqRel);
        step!("enter: counted");
        // Release: pairs with the AcqRel in `take_waiter`; publishes the cell. [QW3]
        parts.group.waiting.fetch_or(parts.bit, Ordering::Release);
        step!("enter: waiting");
        Entered {
            place,
            is_settled: live & CLEARING == 0 || self.settles_slow(),
        }
    }

    /// Waits a bounded moment for the thread that is clearing the flag; none follows it while the
    /// caller is counted in `live`.
    #[cold]
    fn settles_slow(&self) -> bool {
        let backoff = Backoff::new();
        // Acquire: as in `enter`. [QW4]
        while self.live.load(Ordering::Acquire) & CLEARING != 0 {
            if backoff.is_completed() {
                return false;
            }
            backoff.snooze();
        }
        true
    }

    /// Whether the waiter at `place`, the caller, has not been woken.
    pub(super) fn is_waiting(&self, place: Place) -> bool {
        let Parts { group, bit, .. } = self.parts(place.0);
        // Relaxed: if it reads an old value, the wake-up is still to be called. [QW5]
        group.waiting.load(Ordering::Relaxed) & bit != 0
    }

    /// Ends the caller's use of `place`. Lock-free; runs no code of the user but the drop of its
    /// waker.
    pub(super) fn leave(&self, place: Place) -> Left {
        let parts = self.parts(place.0);
        step!("leave: begun");
        // Acquire: pairs with the AcqRel in `take_waiter`: a look after this finds what the waker
        // pushed. [QW6]
        let waiting = parts.group.waiting.fetch_and(!parts.bit, Ordering::Acquire);
        if waiting & parts.bit == 0 {
            step!("leave: was woken");
            // Acquire: pairs with the Release in `fetch`: the waker is through with the cell. [QW7]
            if parts.entry.done.fetch_or(LEFT, Ordering::Acquire) & FETCHED != 0 {
                step!("leave: last");
                parts.free();
            }
            return Left::Woken;
        }
        step!("leave: cancelled");
        let wake = parts.take_wake();
        self.count_down();
        step!("leave: counted");
        parts.free();
        // Last, since it may run code of the user.
        drop(wake);
        Left::Cancelled
    }

    /// Takes a waiter out that the caller wakes. Lock-free.
    pub(super) fn take_waiter(&self) -> Option<Wake> {
        let from = hint(&self.wake_at);
        let (number, parts) = self.find(self.chunks(), from, |group, mask| {
            loop {
                let waiting = guess(&group.waiting) & mask;
                if waiting == 0 {
                    return None;
                }
                let bit = lowest(waiting);
                step!("wake: found");
                // AcqRel: pairs with the Release in `enter`, for the cell; and with the Acquire in
                // `leave`: what the caller pushed is visible to the woken. [QW9]
                if group.waiting.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                    return Some(bit);
                }
            }
        })?;
        step!("wake: taken");
        let wake = parts.take_wake();
        // Release: pairs with the Acquire in `leave`: the caller is through with the cell. [QW10]
        if parts.entry.done.fetch_or(FETCHED, Ordering::Release) & LEFT != 0 {
            step!("wake: last");
            parts.free();
        }
        step!("wake: fetched");
        self.count_down();
        step!("wake: counted");
        go_on(&self.wake_at, from, number + 1);
        debug_assert!(wake.is_some(), "a waiter has a waker");
        wake
    }

    /// Whether no thread waits, so that the flag in `tail` may be cleared, which the caller then
    /// does before it calls [`end_clearing`](Self::end_clearing). False if another clears it.
    pub(super) fn begin_clearing(&self) -> bool {
        // Acquire: the caller clears the flag after this. [QW12]
        self.live
            .compare_exchange(0, CLEARING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    pub(super) fn end_clearing(&self) {
        // AcqRel: pairs with the AcqRel in `enter` and the Acquire in `settles_slow`; the flag was
        // cleared before. [QW13]
        self.live.fetch_sub(CLEARING, Ordering::AcqRel);
    }

    /// Whether no thread waits: a guess, true if it happened before.
    pub(super) fn is_idle(&self) -> bool {
        // Relaxed: a waiter whose flag the caller has seen is visible by that. [QW14]
        self.live.load(Ordering::Relaxed) < LIVE
    }

    fn count_down(&self) {
        // Relaxed: who then clears the flag needs nothing of the waiter; as a read-modify-write it
        // passes on what the entries before it published. [QW15]
        let before = self.live.fetch_sub(LIVE, Ordering::Relaxed);
        debug_assert!(before >= LIVE, "each waiter is counted down once");
    }

    /// Takes the first free place behind the one taken last.
    fn take_place(&self) -> (Place, Parts<'_>) {
        let from = hint(&self.enter_at);
        loop {
            let chunks = self.chunks();
            let found = self.find(chunks, from, |group, mask| {
                loop {
                    let free = !guess(&group.taken) & ALL & mask;
                    if free == 0 {
                        return None;
                    }
                    let bit = lowest(free);
                    step!("enter: place found");
                    // Acquire: pairs with the Release in `free`: the last user is through with the
                    // place. [QW16]
                    if group.taken.fetch_or(bit, Ordering::Acquire) & bit == 0 {
                        return Some(bit);
                    }
                }
            });
            if let Some((number, parts)) = found {
                go_on(&self.enter_at, from, number + 1);
                return (Place(number), parts);
            }
            self.grow_slow(chunks);
        }
    }

    /// Makes the chunk of number `at`, unless another thread does.
    #[cold]
    fn grow_slow(&self, at: usize) {
        assert!(at < CHUNKS, "queue: more waiters than places in memory");
        let chunk = Box::into_raw(Box::new(Chunk::new(1 << at)));
        step!("enter: chunk made");
        // Release: pairs with the Acquire in `chunk`; publishes the chunk. [QW17]
        let put = self.chunks[at].compare_exchange(
            ptr::null_mut(),
            chunk,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if put.is_err() {
            step!("enter: chunk not needed");
            // SAFETY: it came from a box above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(chunk) });
        }
    }

    /// How many chunks there are.
    fn chunks(&self) -> usize {
        let is_made = |at: &usize| self.chunk(*at).is_some();
        (0..CHUNKS).take_while(is_made).count()
    }

    fn chunk(&self, at: usize) -> Option<&Chunk> {
        // Acquire: pairs with the Release in `grow_slow`. [QW18]
        let chunk = self.chunks[at].load(Ordering::Acquire);
        // SAFETY: a chunk lives from its publication until the list is dropped, and is only shared.
        unsafe { chunk.as_ref() }
    }

    /// The group of this number, which exists, with its entries.
    fn group(&self, number: usize) -> (&Group, &[Entry]) {
        let at = (number + 1).ilog2() as usize;
        let within = number + 1 - (1 << at);
        let chunk = self.chunk(at).expect("a group that was found exists");
        let first = within * GROUP;
        (&chunk.groups[within], &chunk.entries[first..first + GROUP])
    }

    fn parts(&self, number: usize) -> Parts<'_> {
        let (group, entries) = self.group(number / GROUP);
        let within = number % GROUP;
        Parts {
            group,
            bit: 1 << within,
            entry: &entries[within],
        }
    }

    /// Asks each group of the first `chunks`, from the place `from` on and round to it again, for a place among those of
    /// a mask.
    fn find(
        &self,
        chunks: usize,
        from: usize,
        mut ask: impl FnMut(&Group, usize) -> Option<usize>,
    ) -> Option<(usize, Parts<'_>)> {
        let groups = (1 << chunks) - 1;
        let from = if from < groups * GROUP { from } else { 0 };
        let behind = ALL << (from % GROUP) & ALL;
        // The first group is asked twice, for the places from `from` on and for those before.
        for turn in 0..=groups {
            let mask = match turn {
                0 => behind,
                turn if turn == groups => !behind & ALL,
                _ => ALL,
            };
            if mask == 0 || groups == 0 {
                continue;
            }
            let number = (from / GROUP + turn) % groups;
            let (group, entries) = self.group(number);
            if let Some(bit) = ask(group, mask) {
                let within = bit.trailing_zeros() as usize;
                let entry = &entries[within];
                return Some((number * GROUP + within, Parts { group, bit, entry }));
            }
        }
        None
    }

    /// Whether no place is taken, no waiter is counted, and nothing is being changed. For tests.
    #[cfg(all(test, feature = "async", not(any(rast_loom, rast_shuttle))))]
    pub(super) fn is_at_rest(&self) -> bool {
        // Relaxed: the test is the only thread.
        let is_zero = |word: &AtomicUsize| word.load(Ordering::Relaxed) == 0;
        let is_free = |group: &Group| is_zero(&group.taken) && is_zero(&group.waiting);
        is_zero(&self.live)
            && (0..CHUNKS)
                .filter_map(|at| self.chunk(at))
                .all(|chunk| chunk.groups.iter().all(is_free))
    }

    /// How many places there is memory for. For tests and models.
    #[cfg(any(all(test, feature = "async"), rast_loom, rast_shuttle))]
    pub(super) fn places(&self) -> usize {
        ((1 << self.chunks()) - 1) * GROUP
    }
}

impl Drop for WaitList {
    fn drop(&mut self) {
        // All of them first: if the drop of a forgotten waker panics, the array frees the others.
        drop(self.chunks.each_ref().map(|chunk| {
            // Relaxed: the borrow is exclusive. [QW19]
            let chunk = chunk.load(Ordering::Relaxed);
            // SAFETY: it came from a box, and nothing else has the list.
            (!chunk.is_null()).then(|| unsafe { Box::from_raw(chunk) })
        }));
    }
}

impl Chunk {
    fn new(groups: usize) -> Self {
        let group = || Group {
            taken: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        };
        let entry = || Entry {
            wake: UnsafeCell::new(None),
            done: AtomicU8::new(0),
        };
        Self {
            groups: (0..groups).map(|_| group()).collect(),
            entries: (0..groups * GROUP).map(|_| entry()).collect(),
        }
    }
}

impl Parts<'_> {
    /// Takes the waker out. The caller has cleared WAITING, and this is its one call.
    fn take_wake(self) -> Option<Wake> {
        // SAFETY: who clears WAITING has the cell until it frees the place or says that it is
        // through with it, and by the order of that clearing after the Release in `enter` it is
        // written.
        self.entry.wake.with_mut(|cell| unsafe { (*cell).take() })
    }

    /// Frees the place. The caller is the last to use it.
    fn free(self) {
        // Release: pairs with the Acquire in `take_place`. [QW20]
        let before = self.group.taken.fetch_and(!self.bit, Ordering::Release);
        debug_assert!(before & self.bit != 0, "a place is freed once");
    }
}

fn lowest(bits: usize) -> usize {
    bits & bits.wrapping_neg()
}

/// Where a search begins.
fn hint(at: &AtomicUsize) -> usize {
    // Under loom always at the first place, so that places are used again at once.
    if cfg!(rast_loom) {
        0
    } else {
        // Relaxed: a hint. [QW8]
        at.load(Ordering::Relaxed)
    }
}

/// Moves the hint on, unless another thread did.
fn go_on(at: &AtomicUsize, from: usize, to: usize) {
    if !cfg!(rast_loom) {
        // Relaxed: a hint. [QW11]
        let _ = at.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// What `word` may hold: to be confirmed by a read-modify-write.
fn guess(word: &AtomicUsize) -> usize {
    // See `word::guess`.
    if cfg!(rast_loom) {
        // Relaxed: see above. [QW21]
        word.fetch_or(0, Ordering::Relaxed)
    } else {
        // Relaxed: a guess; what happened before is seen. [QW22]
        word.load(Ordering::Relaxed)
    }
}
