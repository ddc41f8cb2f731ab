//! The wait list without a queue, only for the models.

use core::task::Waker;

use super::wait_list::{Left, Place, WaitList, Wake};

/// A wait list in which no thread sleeps.
pub struct Waiters(WaitList);

/// A waiter that has entered.
pub struct Waiter(Place);

impl Waiters {
    /// Makes an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self(WaitList::new())
    }

    /// Enters a waiter. The second part is `false` if a thread clears the flag just then.
    pub fn enter(&self) -> (Waiter, bool) {
        let entered = self.0.enter(Wake::Task(Waker::noop().clone()));
        (Waiter(entered.place), entered.is_settled)
    }

    /// Removes the caller's waiter; returns whether it had been woken.
    pub fn leave(&self, waiter: Waiter) -> bool {
        self.0.leave(waiter.0) == Left::Woken
    }

    /// Removes a waiter, as a push does that wakes it; returns whether there was one.
    pub fn take(&self) -> bool {
        self.0.take_waiter().is_some()
    }

    /// Returns the number of allocated entries.
    pub fn places(&self) -> usize {
        self.0.places()
    }

    /// Calls `clear`, which stands for clearing the flag, unless there is a waiter or another
    /// thread clears it.
    pub fn clear(&self, clear: impl FnOnce()) {
        if self.0.begin_clearing() {
            clear();
            self.0.end_clearing();
        }
    }
}

impl Default for Waiters {
    fn default() -> Self {
        Self::new()
    }
}
