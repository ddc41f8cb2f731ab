//! The status of a task: flags and the reference count in one word.
//!
//! | bits | meaning | set by | cleared by |
//! | --- | --- | --- | --- |
//! | WAITING | the task waits, and no thread owns it | the worker that has the role | the one thread that claims the task |
//! | WOKEN | a wake-up that no step has seen | `wake` | the start of a step |
//! | SIGNALED | a signal that was not received | `signal` | `take_signal` |
//! | ABORTED | the task ends before its next step | `abort` | never |
//! | FINISHED | the body is dropped | the end of the task | never |
//! | the others | reference count: one for the task itself, one for each handle | | |
//!
//! The right to run and move a task is a value, [`Owned`](crate::owned::Owned). The right to use
//! the wait store is called the role; one worker at a time has it ([`crate::plan`]).
//!
//! 1. While WAITING is clear, one `Owned` exists, or the task is finished. While it is set, no
//!    `Owned` exists.
//! 2. Only the thread that clears WAITING creates the `Owned`.
//! 3. FINISHED is never cleared, and while it is set WAITING stays clear.
//!
//! A wake-up or signal writes the word even if its flag is already set. So the step that clears the
//! flag sees what every waking or signalling thread did before.

use rast_timers::primitive::sync::atomic::{AtomicUsize, Ordering, fence};

/// The right to move the task is in this word.
pub const WAITING: usize = 1;
/// A wake-up that no step has seen.
pub const WOKEN: usize = 1 << 1;
/// A signal that was not received.
pub const SIGNALED: usize = 1 << 2;
/// The task ends before its next step.
pub const ABORTED: usize = 1 << 3;
/// The body is dropped.
pub const FINISHED: usize = 1 << 4;
const REFERENCE: usize = 1 << 8;

/// Maximum number of references. More are a leak of handles in a loop, and would overflow the
/// count.
const REFERENCES_MAX: usize = isize::MAX as usize;

/// Result of a call through a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The task is finished.
    Finished,
    /// The flag is set; another thread owns the task, or it is not posted.
    Set,
    /// The flag is set, and the caller has the right to move the task.
    Taken,
}

/// The word.
#[derive(Debug)]
pub struct Status(AtomicUsize);

impl Status {
    /// Makes the status of a task that its owner has not posted, with one reference.
    pub fn new() -> Self {
        Self(AtomicUsize::new(REFERENCE))
    }

    /// Sets `flag` (WOKEN, SIGNALED or ABORTED), and claims the right to move the task if it waits.
    #[inline]
    pub fn raise(&self, flag: usize) -> Found {
        // Relaxed: a hint, which the compare-exchange checks. [ST1]
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & FINISHED != 0 {
                return Found::Finished;
            }
            // AcqRel: the release half pairs with ST4 and ST6: the step sees what the caller did.
            // The acquire half pairs with ST7: the thread that claims the right sees the task as it
            // was before the wait. [ST2]
            match self.0.compare_exchange_weak(
                seen,
                (seen | flag) & !WAITING,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) if seen & WAITING != 0 => return Found::Taken,
                Ok(_) => return Found::Set,
                Err(now) => seen = now,
            }
        }
    }

    /// Returns whether any of `flags` is set.
    #[inline]
    pub fn has(&self, flags: usize) -> bool {
        // Relaxed: the read-modify-write that clears a flag acquires what the flag announces. [ST3]
        self.0.load(Ordering::Relaxed) & flags != 0
    }

    /// Begins a step: clears WOKEN. Returns `false` if the task must end instead.
    ///
    /// Only the thread that has the `Owned` may call it.
    #[inline]
    pub fn begin(&self) -> bool {
        if !self.has(WOKEN | ABORTED) {
            return true;
        }
        // Acquire: pairs with ST2 of each wake-up that this clears; what preceded them
        // happens-before the step. [ST4]
        self.0.fetch_and(!WOKEN, Ordering::Acquire) & ABORTED == 0
    }

    /// Returns whether the task is finished; if so, its effects are visible.
    #[inline]
    pub fn is_finished(&self) -> bool {
        // Acquire: pairs with ST10 and ST11. [ST5]
        self.0.load(Ordering::Acquire) & FINISHED != 0
    }

    /// Clears SIGNALED; returns whether it was set.
    #[inline]
    pub fn take_signal(&self) -> bool {
        // Acquire: pairs with ST2 of each signal that this receives. [ST6]
        self.has(SIGNALED) && self.0.fetch_and(!SIGNALED, Ordering::Acquire) & SIGNALED != 0
    }

    /// Sets WAITING, unless WOKEN, SIGNALED or ABORTED is set; returns whether it did.
    ///
    /// Only the worker that has the role and the `Owned` may call it. After `true` it does not have
    /// the `Owned` any more.
    #[inline]
    pub fn wait(&self) -> bool {
        // Relaxed: as ST1. [ST12]
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen & (WOKEN | SIGNALED | ABORTED) == 0 {
            // Release: pairs with ST2 and ST8, whose thread then has the task. [ST7]
            match self.0.compare_exchange_weak(
                seen,
                seen | WAITING,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Claims the right to move the task; `false` if another thread did.
    #[inline]
    pub fn claim(&self) -> bool {
        // Acquire: pairs with ST7 of another holder of the role, or of this one. [ST8]
        self.has(WAITING) && self.0.fetch_and(!WAITING, Ordering::Acquire) & WAITING != 0
    }

    /// Adds a reference.
    #[inline]
    pub fn share(&self) {
        // Relaxed: the caller has a reference, which keeps the task. [ST9]
        let seen = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        assert!(seen < REFERENCES_MAX, "too many handles of one task");
    }

    /// Sets FINISHED and keeps the references.
    pub fn finish(&self) {
        // Release: pairs with ST5; a thread that sees FINISHED sees the effects of the task. [ST10]
        self.0.fetch_or(FINISHED, Ordering::Release);
    }

    /// Drops a reference, and sets FINISHED too if `finish`; returns `true` if it was the last one.
    #[inline]
    pub fn release(&self, finish: bool) -> bool {
        let change = if finish {
            FINISHED.wrapping_sub(REFERENCE)
        } else {
            0_usize.wrapping_sub(REFERENCE)
        };
        // Release: pairs with ST5, and with ST13 of the thread that frees the task. [ST11]
        let seen = self.0.fetch_add(change, Ordering::Release);
        if seen / REFERENCE != 1 {
            return false;
        }
        // Acquire: pairs with ST11 of all others; their use of the task is over. [ST13]
        fence(Ordering::Acquire);
        true
    }

    /// Returns whether the caller's reference is the only one.
    #[inline]
    pub fn is_sole(&self) -> bool {
        // Acquire: pairs with ST11 of the others, as ST13. [ST14]
        self.0.load(Ordering::Acquire) / REFERENCE == 1
    }
}

impl Default for Status {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_set_once_and_one_thread_takes_the_right() {
        let status = Status::new();
        assert_eq!(status.raise(WOKEN), Found::Set);
        assert!(!status.wait(), "a wake-up before the wait prevents it");
        assert!(status.begin());
        assert!(status.wait());
        assert_eq!(status.raise(WOKEN), Found::Taken);
        assert_eq!(status.raise(SIGNALED), Found::Set);
        assert!(!status.claim());
        assert!(status.begin() && !status.wait());
        assert!(status.take_signal() && !status.take_signal());
        assert!(status.wait() && status.claim());
    }

    #[test]
    fn the_last_reference_is_told() {
        let status = Status::new();
        status.share();
        assert!(!status.is_sole());
        assert!(!status.release(true));
        assert!(status.is_finished() && status.is_sole());
        assert_eq!(status.raise(WOKEN), Found::Finished);
        assert!(status.release(false));
    }

    #[test]
    fn an_aborted_task_begins_no_step() {
        let status = Status::new();
        assert!(status.wait());
        assert_eq!(status.raise(ABORTED), Found::Taken);
        assert!(!status.begin() && !status.wait());
    }
}
