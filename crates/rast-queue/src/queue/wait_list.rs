//! The wait list: a lock-free table with an entry, here called a place, for each waiter.
//!
//! A place has two bits. The waiter sets TAKEN. The last thread that uses the place, either the
//! waiter or the thread that wakes it, clears TAKEN. WAITING is set until another thread wakes the
//! waiter or the waiter leaves. The first thread that clears WAITING, by a read-modify-write,
//! decides which of the two happened. A thread that is suspended at any step delays only the reuse
//! of its place and, if it is waking a waiter, that wake-up.
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
//! If a waiter finds every place taken, it allocates a chunk, which is freed with the queue. So the
//! memory grows with the greatest number n of waiters at one time, not with how often they come and
//! go. Each chunk is twice as large as the one before. So there are fewer than 64 + 2 n places.
//! There can be more only if a search misses a place that is freed after the search has passed it.
//! If two threads allocate the chunk with the same index, one of them frees its chunk and searches
//! again.
//!
//! Places are taken and woken round-robin. A waiter takes the first free place behind the place
//! that was taken last. A wake-up goes to the first waiter behind the waiter that was woken last.
//! So before a given waiter is woken, the wake-ups pass over the other places at most once.
//!
//! A search checks a group of 64 places with one load, and mostly takes one or two loads. The
//! search for a free place needs more loads if nearly all places are taken. The search for a waiter
//! needs more loads if nearly all places are free. With 10,000 waiters a search checks at most 255
//! groups.
//!
//! `live` counts the waiters whose bit WAITING is set or about to be set. Its lowest bit, CLEARING,
//! is set while a thread clears the flag in `tail`.
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | `live` | threads that enter, wake, cancel, or clear the flag | the same |
//! | `enter_at`, `wake_at`: where the next search begins (hints) | entering threads; waking threads | the same |
//! | `chunks` | entering threads, each entry once | all |
//! | TAKEN | the waiter; the waking thread, if the waiter has left before the wake-up ends | entering threads |
//! | WAITING | the waiter; the waking thread | the same |
//! | `wake`: how to wake the waiter | the waiter, before it sets WAITING | the thread that clears WAITING, which moves it out |
//! | `done` | the waking thread, and the waiter after a wake-up; the later of them frees the place | the same threads |

use core::ptr;
use core::task::Waker;
use std_alloc::boxed::Box;

use super::pause::IS_MODEL;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use crate::primitive::{Backoff, LocalUnparker, constructor};

/// Number of places in a group: one word holds their TAKEN bits, another their WAITING bits.
const GROUP: usize = if IS_MODEL { 2 } else { usize::BITS as usize };
const ALL: usize = usize::MAX >> (usize::BITS as usize - GROUP);

/// Maximum number of chunks. Chunk `k` has `2^k` groups, so together they have more places than any
/// process has threads or tasks.
const CHUNKS: usize = if IS_MODEL { 3 } else { 24 };

/// Set in `live` while a thread clears the flag in `tail`.
const CLEARING: usize = 1;
/// One waiter.
const LIVE: usize = 2;

/// Set in `done` when the waking thread has moved `wake` out.
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

pub(super) struct Entered {
    pub(super) place: Place,
    /// `false` if a thread is clearing the flag in `tail`, and may clear it after the caller sets
    /// it.
    pub(super) is_settled: bool,
}

/// Whether a waiter that has left was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Left {
    /// It was not woken and will not be.
    Cancelled,
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

/// The bits of the places of a group.
struct Group {
    taken: AtomicUsize,
    waiting: AtomicUsize,
}

struct Entry {
    wake: UnsafeCell<Option<Wake>>,
    done: AtomicU8,
}

/// References to the parts of one place.
#[derive(Clone, Copy)]
struct Parts<'a> {
    group: &'a Group,
    bit: usize,
    entry: &'a Entry,
}

impl WaitList {
    constructor! {
        pub(super) fn new() -> Self {
            #[cfg(not(rast_loom))]
            let chunks = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
            #[cfg(rast_loom)]
            let chunks = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
            Self {
                live: AtomicUsize::new(0),
                enter_at: AtomicUsize::new(0),
                wake_at: AtomicUsize::new(0),
                chunks,
            }
        }
    }

    /// Adds a waiter. The caller must then set the flag in `tail` by a read-modify-write, and check
    /// the queue before it sleeps.
    ///
    /// Lock-free. Allocates if there are more waiters than ever before.
    pub(super) fn enter(&self, wake: Wake) -> Entered {
        let (place, parts) = self.take_place();
        step!("enter: place taken");
        // SAFETY: the caller has taken the place, whose WAITING is clear. The Acquire in
        // `take_place` orders all accesses of its last user before this. So no other thread
        // accesses the cell.
        parts
            .entry
            .wake
            .with_mut(|cell| unsafe { *cell = Some(wake) });
        // Relaxed: the Release of WAITING publishes it. [QW1]
        parts.entry.done.store(0, Ordering::Relaxed);
        // AcqRel: pairs with the AcqRel in `end_clearing`: if a thread has cleared the flag before,
        // the caller's set comes after that. Counted before WAITING is set, so that the thread that
        // clears WAITING can subtract. [QW2]
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

    /// Waits a bounded time for the thread that is clearing the flag, and returns whether that
    /// thread has ended. No other thread begins while `live` counts the caller.
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

    /// Returns whether the caller, the waiter at `place`, has not been woken.
    pub(super) fn is_waiting(&self, place: Place) -> bool {
        let Parts { group, bit, .. } = self.parts(place.0);
        // Relaxed: if it reads an old value, the waker is still to be called. If the memory of the
        // waker was reused before the caller's poll began, the bit was cleared before that, so the
        // load does not find it set. [QW5]
        group.waiting.load(Ordering::Relaxed) & bit != 0
    }

    /// Ends the caller's use of `place`. Lock-free; the only user code that it runs is the drop of
    /// its waker.
    pub(super) fn leave(&self, place: Place) -> Left {
        let parts = self.parts(place.0);
        step!("leave: begun");
        // Acquire: pairs with the AcqRel in `take_waiter`: a check after this finds the item of the
        // push that woke it. [QW6]
        let waiting = parts.group.waiting.fetch_and(!parts.bit, Ordering::Acquire);
        if waiting & parts.bit == 0 {
            step!("leave: was woken");
            // Acquire: pairs with the Release in `take_waiter`: the waking thread no longer
            // accesses the cell. [QW7]
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
        // Last, since it may run user code.
        drop(wake);
        Left::Cancelled
    }

    /// Removes a waiter, which the caller must wake. Lock-free.
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
                // AcqRel: pairs with the Release in `enter`, which publishes the cell, and with the
                // Acquire in `leave`. The item that the caller pushed is visible to the woken
                // waiter. [QW9]
                if group.waiting.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                    return Some(bit);
                }
            }
        })?;
        step!("wake: taken");
        let wake = parts.take_wake();
        // Release: pairs with the Acquire in `leave`: the caller no longer accesses the cell.
        // [QW10]
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

    /// Returns whether the caller may clear the flag in `tail`; it must then call
    /// [`end_clearing`](Self::end_clearing). `false` if there is a waiter or another thread is
    /// clearing the flag.
    pub(super) fn begin_clearing(&self) -> bool {
        // Acquire: orders the clearing of the flag after this. [QW12]
        self.live
            .compare_exchange(0, CLEARING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    pub(super) fn end_clearing(&self) {
        // AcqRel: pairs with the AcqRel in `enter` and the Acquire in `settles_slow`; the flag was
        // cleared before. [QW13]
        self.live.fetch_sub(CLEARING, Ordering::AcqRel);
    }

    /// Returns whether there is no waiter. A hint, but it sees each waiter whose entry happens
    /// before this.
    pub(super) fn is_idle(&self) -> bool {
        // Relaxed: if the caller has loaded a waiter's flag, the waiter's count happens before
        // this. [QW14]
        self.live.load(Ordering::Relaxed) < LIVE
    }

    fn count_down(&self) {
        // Relaxed: a thread that then clears the flag needs nothing of this waiter. As a
        // read-modify-write, the subtraction continues the release sequences of the entries before
        // it. [QW15]
        let before = self.live.fetch_sub(LIVE, Ordering::Relaxed);
        debug_assert!(before >= LIVE, "each waiter is counted down once");
    }

    /// Takes the first free place behind the place that was taken last.
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
                    // Acquire: pairs with the Release in `free`: the last user no longer accesses
                    // the place. [QW16]
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

    /// Allocates the chunk of number `at`, unless another thread does.
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
            // SAFETY: it is from a box above, and no other thread can reach it.
            drop(unsafe { Box::from_raw(chunk) });
        }
    }

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

    /// Returns the group of this number, which exists, with its entries.
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

    /// Calls `ask` for each group of the first `chunks`, once around from the place `from`, until
    /// `ask` returns a place. The mask has the bits of the places to search.
    fn find(
        &self,
        chunks: usize,
        from: usize,
        mut ask: impl FnMut(&Group, usize) -> Option<usize>,
    ) -> Option<(usize, Parts<'_>)> {
        let groups = (1 << chunks) - 1;
        let from = if from < groups * GROUP { from } else { 0 };
        let behind = ALL << (from % GROUP) & ALL;
        // `ask` is called twice for the first group: for the places from `from` on, and for those
        // before.
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

    /// Returns whether no place is taken and `live` is zero. For tests.
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

    /// Returns the number of allocated places. For tests and models.
    #[cfg(any(all(test, feature = "async"), rast_loom, rast_shuttle))]
    pub(super) fn places(&self) -> usize {
        ((1 << self.chunks()) - 1) * GROUP
    }
}

impl Drop for WaitList {
    fn drop(&mut self) {
        // All boxes are made first: if the drop of a leaked waiter's waker panics, the array frees
        // the others.
        drop(self.chunks.each_ref().map(|chunk| {
            // Relaxed: the borrow is exclusive. [QW19]
            let chunk = chunk.load(Ordering::Relaxed);
            // SAFETY: it is from a box, and the borrow is exclusive.
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
    /// Moves the waker out. The caller has cleared WAITING, and this is its one call.
    fn take_wake(self) -> Option<Wake> {
        // SAFETY: the thread that clears WAITING has the cell until it frees the place or sets its
        // bit in `done`. The waiter wrote the cell before the Release in `enter`, with which that
        // clearing synchronizes.
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

/// Returns where a search begins.
fn hint(at: &AtomicUsize) -> usize {
    // Under loom a search begins at the first place, so that places are reused at once.
    if cfg!(rast_loom) {
        0
    } else {
        // Relaxed: a hint. [QW8]
        at.load(Ordering::Relaxed)
    }
}

/// Advances the hint, unless another thread did.
fn go_on(at: &AtomicUsize, from: usize, to: usize) {
    if !cfg!(rast_loom) {
        // Relaxed: a hint. [QW11]
        let _ = at.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Loads `word`; the caller confirms the value by a read-modify-write.
fn guess(word: &AtomicUsize) -> usize {
    // See `word::guess`.
    if cfg!(rast_loom) {
        // Relaxed: see above. [QW21]
        word.fetch_or(0, Ordering::Relaxed)
    } else {
        // Relaxed: a hint; it returns every write that happens before this. [QW22]
        word.load(Ordering::Relaxed)
    }
}
