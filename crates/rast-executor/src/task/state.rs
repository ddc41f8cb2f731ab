//! The state word of a task: its flags, its wake-ups and its references, changed together.
//!
//! ```text
//!   63                             16 15      8 7   4  3   2   1   0
//!  ┌─────────────────────────────────┬─────────┬─────┬───┬───┬───┬───┐
//!  │ references                      │ wakes   │  -  │ W │ I │ A │ C │
//!  └─────────────────────────────────┴─────────┴─────┴───┴───┴───┴───┘
//! ```
//!
//! | bits | meaning | set by | cleared by |
//! | --- | --- | --- | --- |
//! | C complete | the future is dropped, the output is written | the runner, once | never |
//! | A abort | the next run drops the future | any thread | never |
//! | I interest | there is a `JoinHandle` | spawn | the handle |
//! | W waker | the join waker may be read by the runner at completion | the handle | the handle |
//! | wakes | wake-ups that no completed poll has handled, at most 255 | wakers | the runner |
//! | references | reference count: list of owned tasks, queue entry, handle, wakers | the maker of the reference | its owner |
//!
//! Rules:
//!
//! 1. `wakes > 0` means that exactly one thread or queue has the right to run the task; that right
//!    includes one reference. The wake-up that raises `wakes` from zero creates the right.
//! 2. The runner, the thread with the right to run, loads `wakes` before the poll and subtracts
//!    that number after it. If more wake-ups came meanwhile, the task is run again. So a poll costs
//!    one read-modify-write of this word. A poll in which the task yields costs none: `wakes` stays
//!    as it is, and the runner queues the task again.
//! 3. `wakes` saturates. A runner that finds it saturated first sets it to one, because otherwise
//!    it could not see a further wake-up.
//! 4. Only the runner accesses the future and writes the output. After C is set, the output belongs
//!    to the handle if I was set when C was set, else to the runner. If I is set and W is clear,
//!    one compare-exchange sets C and drops the two references of the runner: that of the right to
//!    run, and that of the list of owned tasks.
//! 5. The join waker (that of the task that awaits the handle) belongs to the handle while W and C
//!    are clear. If W is set when C is set, it belongs to the runner from then on. So the handle
//!    checks W and C again, by a compare-exchange, before it writes.
//!
//! The runtime of Q. Fu ("Build an Async Runtime for Rust from Scratch") has flags and reference
//! count in two words. If a task wakes itself, that runtime polls it again at once, which starves
//! the others. The count of wake-ups is taken from nexosim's task.

use crate::primitive::sync::atomic::{AtomicU64, Ordering};

const COMPLETE: u64 = 1;
const ABORT: u64 = 1 << 1;
const INTEREST: u64 = 1 << 2;
const JOIN_WAKER: u64 = 1 << 3;
const WAKE: u64 = 1 << 8;
const WAKES: u64 = 0xff << 8;
const REFERENCE: u64 = 1 << 16;

/// Maximum number of references; more than memory can hold, so only leaked clones reach it.
const REFERENCES_MAX: u64 = 1 << 46;

/// A value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    pub(crate) const fn is_complete(self) -> bool {
        self.0 & COMPLETE != 0
    }

    pub(crate) const fn is_aborted(self) -> bool {
        self.0 & ABORT != 0
    }

    pub(crate) const fn has_interest(self) -> bool {
        self.0 & INTEREST != 0
    }

    pub(crate) const fn has_join_waker(self) -> bool {
        self.0 & JOIN_WAKER != 0
    }

    const fn wakes(self) -> u64 {
        self.0 & WAKES
    }

    /// Adds one wake-up, saturating.
    const fn woken(self) -> u64 {
        if self.wakes() == WAKES {
            self.0
        } else {
            self.0 + WAKE
        }
    }
}

/// What a waker must do after it changed the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Nothing: the task is complete, or its runner will see the wake-up.
    Noted,
    /// Queue the task, with a reference for the queue entry.
    Schedule,
    /// Free the task: the caller's reference was the last one.
    Free,
}

/// What a dropped handle must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: the reference was dropped with the interest.
    Done,
    /// Drop the join waker, then the reference.
    Waker,
    /// Drop the output, then the reference.
    Output,
}

/// The word.
#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    /// Makes the state of a task with a handle, in the list of owned tasks, about to be queued.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(3 * REFERENCE + WAKE + INTEREST))
    }

    /// Loads the word; what preceded the write of its value is visible.
    pub(crate) fn load(&self) -> Seen {
        // Acquire: pairs with the Release halves of XS3, XS5, XS6, XS7 and XS13; the runner sees
        // what its wakers wrote and the last poll left, the handle sees the output. [XS1]
        Seen(self.0.load(Ordering::Acquire))
    }

    /// Begins a run: loads the word, and sets a saturated number of wake-ups to one.
    #[inline]
    pub(crate) fn begin(&self) -> Seen {
        let seen = self.load();
        debug_assert!(seen.wakes() != 0, "task rule 1: only a woken task is run");
        if seen.wakes() == WAKES {
            return self.begin_slow();
        }
        seen
    }

    #[cold]
    fn begin_slow(&self) -> Seen {
        // Acquire: as XS1, for wake-ups that came after that load; the word stays part of their
        // release sequences. [XS2]
        let seen = self.0.fetch_sub(WAKES - WAKE, Ordering::Acquire);
        Seen(seen - (WAKES - WAKE))
    }

    /// Ends a poll that returned `Pending`; returns `true` if the task must run again.
    ///
    /// If not, the right to run and its reference are given up: the caller must not access the
    /// task.
    #[inline]
    pub(crate) fn end(&self, begun: Seen) -> bool {
        let mut seen = begun;
        while seen.wakes() == begun.wakes() {
            // Release: pairs with XS1 of the next runner; it sees what this poll left in the
            // future, and the waker between them may write the queue link. [XS3]
            match self.0.compare_exchange_weak(
                seen.0,
                seen.0 - seen.wakes() - REFERENCE,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return false,
                Err(now) => seen = Seen(now),
            }
        }
        true
    }

    /// Records a wake-up by a waker that keeps its reference.
    #[inline]
    pub(crate) fn wake_by_ref(&self) -> Woken {
        self.change(|seen| {
            if seen.is_complete() {
                (None, Woken::Noted)
            } else if seen.wakes() == 0 {
                (Some(seen.0 + WAKE + REFERENCE), Woken::Schedule)
            } else {
                (Some(seen.woken()), Woken::Noted)
            }
        })
    }

    /// Records a wake-up by a waker that gives up its reference, to the queue entry if there is
    /// one.
    #[inline]
    pub(crate) fn wake_by_value(&self) -> Woken {
        self.change(|seen| {
            if seen.is_complete() {
                let last = seen.0 >> 16 == 1;
                let woken = if last { Woken::Free } else { Woken::Noted };
                (Some(seen.0 - REFERENCE), woken)
            } else if seen.wakes() == 0 {
                (Some(seen.0 + WAKE), Woken::Schedule)
            } else {
                (Some(seen.woken() - REFERENCE), Woken::Noted)
            }
        })
    }

    /// Requests the drop of the future; returns whether the caller must queue the task.
    pub(crate) fn abort(&self) -> Woken {
        self.change(|seen| {
            if seen.is_complete() || seen.is_aborted() {
                (None, Woken::Noted)
            } else if seen.wakes() == 0 {
                (Some((seen.0 | ABORT) + WAKE + REFERENCE), Woken::Schedule)
            } else {
                (Some(seen.woken() | ABORT), Woken::Noted)
            }
        })
    }

    /// Changes the word by `step` in a compare-exchange loop.
    #[inline(always)]
    fn change(&self, step: impl Fn(Seen) -> (Option<u64>, Woken)) -> Woken {
        // Relaxed: the compare-exchange below checks it. [XS4]
        let mut seen = Seen(self.0.load(Ordering::Relaxed));
        loop {
            let (Some(next), woken) = step(seen) else {
                return Woken::Noted;
            };
            // AcqRel: release, pairs with XS1: the run sees what the waker wrote, also where the
            // number stays as it is; acquire, pairs with XS3: the queue link is free to write, and
            // with XS7 where the last reference goes. [XS5]
            match self
                .0
                .compare_exchange_weak(seen.0, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return woken,
                Err(now) => seen = Seen(now),
            }
        }
    }

    /// Marks the task complete, whose output must be written; returns the word before.
    pub(crate) fn complete(&self) -> Seen {
        // AcqRel: release, pairs with XS1: the handle sees the output; acquire, pairs with XS9: the
        // join waker is visible. [XS6]
        let seen = Seen(self.0.fetch_or(COMPLETE, Ordering::AcqRel));
        debug_assert!(!seen.is_complete(), "task rule 4: a task completes once");
        seen
    }

    /// If there is a handle that has left no waker: does the same as [`complete`](Self::complete),
    /// drops two references, and returns `true`. Otherwise returns `false`.
    ///
    /// After `true` the caller must not access the task.
    pub(crate) fn complete_for_handle(&self) -> bool {
        // Relaxed: the compare-exchange below checks it. [XS12]
        let mut seen = Seen(self.0.load(Ordering::Relaxed));
        while seen.has_interest() && !seen.has_join_waker() {
            debug_assert!(!seen.is_complete(), "task rule 4: a task completes once");
            let next = seen.0 + COMPLETE - 2 * REFERENCE;
            // Release: pairs with XS1: the handle sees the output, and the thread that frees the
            // memory sees that this one is done with it. The handle's reference is not dropped
            // here, so this thread frees nothing. [XS13]
            match self
                .0
                .compare_exchange_weak(seen.0, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => seen = Seen(now),
            }
        }
        false
    }

    /// Drops `count` references; returns `true` if they were the last ones.
    #[must_use = "the last reference frees the task"]
    pub(crate) fn release(&self, count: u64) -> bool {
        // No read-modify-write if all references are the caller's: then no other thread can add
        // one. The Acquire of the load, XS1, pairs with the releases of the other references.
        if self.load().0 >> 16 == count {
            return true;
        }
        // AcqRel: release, pairs with its own acquire of the last one, which frees the memory; the
        // other threads are then done with it. [XS7]
        let seen = self.0.fetch_sub(count * REFERENCE, Ordering::AcqRel);
        debug_assert!(seen >> 16 >= count, "a reference is dropped once");
        seen >> 16 == count
    }

    /// Completes a task that has no handle and drops two references, in one operation; returns
    /// `true` if they were the last ones.
    #[must_use = "the last reference frees the task"]
    pub(crate) fn complete_and_release(&self) -> bool {
        // AcqRel: as XS7; no thread reads the output. [XS8]
        let seen = self.0.fetch_sub(2 * REFERENCE - COMPLETE, Ordering::AcqRel);
        seen >> 16 == 2
    }

    /// Lets the runner use the join waker, or revokes that; `false` if the task is complete.
    pub(crate) fn lend_join_waker(&self, lend: bool) -> bool {
        let mut seen = self.load();
        while !seen.is_complete() {
            let next = if lend {
                seen.0 | JOIN_WAKER
            } else {
                seen.0 & !JOIN_WAKER
            };
            // AcqRel: release, pairs with XS6: the runner sees the waker; acquire, pairs with XS6
            // on failure: the handle sees the output. [XS9]
            match self
                .0
                .compare_exchange_weak(seen.0, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return true,
                Err(now) => seen = Seen(now),
            }
        }
        false
    }

    /// Gives up the interest of the handle.
    pub(crate) fn leave(&self) -> Left {
        let mut seen = self.load();
        loop {
            // The output, or the waker, must still be dropped, so the caller keeps the reference:
            // otherwise another thread might free the task meanwhile.
            let (next, left) = if seen.is_complete() {
                return Left::Output;
            } else if seen.has_join_waker() {
                (seen.0 & !(INTEREST | JOIN_WAKER), Left::Waker)
            } else {
                (seen.0 - INTEREST - REFERENCE, Left::Done)
            };
            // Release: as the release half of XS7, for the reference that goes; on failure Acquire,
            // pairs with XS6: the output is visible. [XS10]
            match self
                .0
                .compare_exchange_weak(seen.0, next, Ordering::Release, Ordering::Acquire)
            {
                Ok(_) => return left,
                Err(now) => seen = Seen(now),
            }
        }
    }

    /// Adds a reference.
    pub(crate) fn acquire(&self) {
        // Relaxed: the caller has a reference, which orders what it does with the other. [XS11]
        let seen = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        if seen >> 16 >= REFERENCES_MAX {
            overflow();
        }
    }
}

/// Aborts the process, as `Arc` does: the count would wrap, and memory in use would be freed.
#[cold]
fn overflow() -> ! {
    /// Panics in its drop during a panic, which ends the process.
    struct Twice;
    impl Drop for Twice {
        fn drop(&mut self) {
            panic!("too many references to a task");
        }
    }
    let _twice = Twice;
    panic!("too many references to a task");
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_saturated_number_still_shows_a_wake_up_during_the_poll() {
        let state = State::new();
        for _ in 0..1_000 {
            assert_eq!(state.wake_by_ref(), Woken::Noted);
        }
        let begun = state.begin();
        assert_eq!(begun.wakes(), WAKE, "set back");
        assert_eq!(state.wake_by_ref(), Woken::Noted);
        assert!(state.end(begun), "the wake-up is seen");
        let begun = state.begin();
        assert!(!state.end(begun), "and answered");
        assert_eq!(state.wake_by_ref(), Woken::Schedule);
    }

    #[test]
    fn saturation_during_a_poll_is_seen() {
        let state = State::new();
        let begun = state.begin();
        for _ in 0..1_000 {
            assert_eq!(state.wake_by_ref(), Woken::Noted);
        }
        assert!(state.end(begun));
    }

    #[test]
    fn a_task_completes_for_a_waiting_handle_in_one_step() {
        let state = State::new();
        assert!(state.complete_for_handle());
        assert!(state.load().is_complete());
        assert_eq!(state.leave(), Left::Output);
        assert!(state.release(1), "the handle has the last reference");
    }

    #[test]
    fn a_handle_with_a_waker_or_without_interest_takes_the_longer_way() {
        let state = State::new();
        assert!(state.lend_join_waker(true));
        assert!(!state.complete_for_handle());
        assert!(!state.load().is_complete(), "nothing has changed");
        assert_eq!(state.leave(), Left::Waker);
        assert!(!state.complete_for_handle());
        assert!(!state.release(1));
        assert!(state.complete_and_release());
    }

    #[test]
    fn references_are_counted() {
        let state = State::new();
        state.acquire();
        assert_eq!(state.leave(), Left::Done);
        let begun = state.begin();
        assert!(!begun.has_interest() || !state.end(begun));
        let seen = state.load();
        assert!(!seen.has_interest());
        assert!(!state.complete_and_release());
        assert_eq!(state.wake_by_value(), Woken::Free);
    }
}
