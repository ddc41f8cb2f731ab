//! Wait lists: tasks of one thread that wait in order for a credit, a gate, or a lock.
//!
//! A waiter that is served or leaves is only marked. So leaving takes constant time. The list
//! removes marked waiters when they become the first, or when half of the list has left.

use core::cell::{Cell, RefCell};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std_alloc::collections::VecDeque;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use crate::primitive::panics::quietly;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// It has got what it waited for.
    Served,
    /// It will not get it.
    Refused,
    Left,
}

/// A waiter, and what it waits for.
pub(crate) struct Waiter<T> {
    pub(crate) wants: T,
    state: Cell<State>,
    waker: RefCell<Option<Waker>>,
}

impl<T> Waiter<T> {
    /// Returns whether it was served or refused.
    fn has_ended(&self) -> bool {
        matches!(self.state.get(), State::Served | State::Refused)
    }
}

/// The wait list.
pub(crate) struct Line<T> {
    waiters: VecDeque<Rc<Waiter<T>>>,
    left: usize,
}

/// Waiters that were served or refused, to be woken once nothing is borrowed.
#[must_use = "they are woken by `wake`"]
pub(crate) struct Ended<T> {
    /// Nearly always there is one at most, which needs no allocation.
    first: Option<Rc<Waiter<T>>>,
    others: Vec<Rc<Waiter<T>>>,
}

impl<T> Ended<T> {
    pub(crate) const fn new() -> Self {
        Self {
            first: None,
            others: Vec::new(),
        }
    }

    fn push(&mut self, waiter: Rc<Waiter<T>>) {
        match self.first {
            None => self.first = Some(waiter),
            Some(_) => self.others.push(waiter),
        }
    }

    /// Wakes all of them, even if a waker panics.
    pub(crate) fn wake(self) {
        for waiter in self.first.into_iter().chain(self.others) {
            let waker = waiter.waker.borrow_mut().take();
            quietly(|| waker.into_iter().for_each(Waker::wake));
        }
    }
}

impl<T> Line<T> {
    pub(crate) const fn new() -> Self {
        Self {
            waiters: VecDeque::new(),
            left: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.len() == self.left
    }

    pub(crate) fn len(&self) -> usize {
        self.waiters.len() - self.left
    }

    pub(crate) fn enter(&mut self, wants: T) -> Rc<Waiter<T>> {
        let waiter = Rc::new(Waiter {
            wants,
            state: Cell::new(State::Waiting),
            waker: RefCell::new(None),
        });
        self.waiters.push_back(Rc::clone(&waiter));
        waiter
    }

    /// Returns the first waiter.
    pub(crate) fn first(&mut self) -> Option<&Rc<Waiter<T>>> {
        while self.waiters.front()?.state.get() == State::Left {
            self.waiters.pop_front();
            self.left -= 1;
        }
        self.waiters.front()
    }

    /// Serves the first waiter.
    pub(crate) fn serve(&mut self, ended: &mut Ended<T>) {
        self.end_first(State::Served, ended);
    }

    /// Refuses all waiters.
    pub(crate) fn refuse_all(&mut self, ended: &mut Ended<T>) {
        while self.first().is_some() {
            self.end_first(State::Refused, ended);
        }
    }

    fn end_first(&mut self, state: State, ended: &mut Ended<T>) {
        if self.first().is_some()
            && let Some(waiter) = self.waiters.pop_front()
        {
            waiter.state.set(state);
            ended.push(waiter);
        }
    }

    /// Removes a waiter that was neither served nor refused.
    fn leave(&mut self, waiter: &Waiter<T>) {
        debug_assert_eq!(waiter.state.get(), State::Waiting, "it is in the line");
        waiter.state.set(State::Left);
        self.left += 1;
        if self.left > self.waiters.len() / 2 {
            self.waiters
                .retain(|waiter| waiter.state.get() != State::Left);
            self.left = 0;
        }
    }
}

/// A structure with a wait list.
pub(crate) trait Place {
    /// What its waiters wait for.
    type Wants;

    /// Calls `f` with the wait list.
    fn line<R>(&self, f: impl FnOnce(&mut Line<Self::Wants>) -> R) -> R;

    /// A served waiter was dropped before it used its lock, place or credit, which passes to the
    /// next waiter.
    fn give_back(&self, wants: &Self::Wants);

    /// A waiter has left the list. Serves the waiters behind it if they may proceed without it;
    /// this is impossible if all waiters need the same.
    fn left(&self) {}
}

/// An entry of a wait list: ready with `true` when it is served, with `false` when it is refused.
///
/// If it is dropped earlier it leaves the list, or returns what it was served.
pub(crate) struct Wait<P: Place> {
    place: Rc<P>,
    waiter: Option<Rc<Waiter<P::Wants>>>,
}

impl<P: Place> Wait<P> {
    pub(crate) fn new(place: &Rc<P>, wants: P::Wants) -> Self {
        Self {
            waiter: Some(place.line(|line| line.enter(wants))),
            place: Rc::clone(place),
        }
    }
}

// Nothing in it is pinned.
impl<P: Place> Unpin for Wait<P> {}

impl<P: Place> Future for Wait<P> {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(waiter) = &self.waiter else {
            panic!("a wait is polled after it was ready");
        };
        if !waiter.has_ended() {
            // Cloned and dropped outside of the borrow, since wakers are user code.
            let waker = cx.waker().clone();
            let old = waiter.waker.replace(Some(waker));
            drop(old);
            // The clone or the drop may have ended the wait, before it had this waker.
            if !waiter.has_ended() {
                return Poll::Pending;
            }
            // If this drop panics, the wait still has its waiter, and returns what it was given.
            let waker = waiter.waker.take();
            drop(waker);
        }
        let is_served = waiter.state.get() == State::Served;
        self.waiter = None;
        Poll::Ready(is_served)
    }
}

impl<P: Place> Drop for Wait<P> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else {
            return;
        };
        match waiter.state.get() {
            State::Served => self.place.give_back(&waiter.wants),
            State::Waiting => {
                // Taken out before the list may drop the waiter, and dropped outside of the borrow.
                let waker = waiter.waker.take();
                self.place.line(|line| line.leave(&waiter));
                self.place.left();
                drop(waker);
            }
            State::Refused | State::Left => {}
        }
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn those_that_leave_are_forgotten() {
        let mut line = Line::new();
        let stays = line.enter(0);
        for n in 1..1000 {
            let waiter = line.enter(n);
            line.leave(&waiter);
            assert_eq!(line.len(), 1);
            assert!(line.waiters.len() <= 3, "{}", line.waiters.len());
        }
        let last = line.enter(1000);
        line.leave(&stays);
        assert_eq!(line.first().map(|waiter| waiter.wants), Some(1000));
        let mut ended = Ended::new();
        line.serve(&mut ended);
        assert_eq!(last.state.get(), State::Served);
        assert!(line.is_empty() && line.first().is_none());
        line.serve(&mut ended);
        assert!(ended.first.is_some() && ended.others.is_empty());
        ended.wake();
    }
}
