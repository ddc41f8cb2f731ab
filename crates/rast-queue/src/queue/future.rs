//! Waiting for an item as a future or a stream, bound to no runtime: the same line as for threads, with wakers in it.

use core::fmt;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use super::Queue;
use super::wait::{HandOn, Turn, Wake};
use crate::alloc::{Allocator, Global};

/// Gives the next item, or `None` when the queue is closed and empty; made by [`Queue::pop_async`].
///
/// Dropped before it is done, it leaves the line and hands a wake-up that it had on to the next waiter.
#[must_use = "a future does nothing until it is polled"]
pub struct Pop<'a, T, A: Allocator = Global> {
    queue: &'a Queue<T, A>,
    turn: Option<(Turn<'a, T, A>, Waker)>,
    is_done: bool,
}

/// Gives items until the queue is closed and empty; made by [`Queue::stream`].
///
/// It takes nothing from the queue before it gives it, so dropping it loses nothing.
#[must_use = "a stream does nothing until it is polled"]
pub struct Stream<'a, T, A: Allocator = Global> {
    next: Pop<'a, T, A>,
}

impl<T, A: Allocator> Queue<T, A> {
    /// Returns a future of the next item: `None` when the queue is closed and empty.
    ///
    /// Bound to no runtime. Needs the feature `async`.
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let queue = rast_queue::Queue::new();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut item = std::pin::pin!(queue.pop_async());
    /// assert_eq!(item.as_mut().poll(&mut cx), Poll::Pending);
    /// queue.push(1).unwrap();
    /// assert_eq!(item.as_mut().poll(&mut cx), Poll::Ready(Some(1)));
    /// # use std::future::Future;
    /// ```
    pub fn pop_async(&self) -> Pop<'_, T, A> {
        Pop {
            queue: self,
            turn: None,
            is_done: false,
        }
    }

    /// Returns a stream of the items: it ends when the queue is closed and empty. Needs the feature `async`.
    pub fn stream(&self) -> Stream<'_, T, A> {
        Stream {
            next: self.pop_async(),
        }
    }
}

impl<T, A: Allocator> Pop<'_, T, A> {
    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // Whoever is polled looks: if the wake-up had come, this look uses it.
        if let Some(end) = self.queue.pop_or_closed() {
            return Poll::Ready(self.queue.give_after(end, || self.leave()).ok());
        }
        if let Some((turn, waker)) = &self.turn
            && waker.will_wake(cx.waker())
            && turn.is_in_line()
        {
            return Poll::Pending;
        }
        // A wake-up that came since the look above is used by the look below, unless a waker panics before it.
        let hand_on = HandOn(self.queue);
        self.leave();
        let turn = Turn::enter(self.queue, Wake::Task(cx.waker().clone()));
        self.turn = Some((turn, cx.waker().clone()));
        mem::forget(hand_on);
        // The look after the flag.
        match self.queue.pop_or_closed() {
            Some(end) => {
                // A wake-up that came between was for another item: it is handed on.
                Poll::Ready(self.queue.give_after(end, || self.turn = None).ok())
            }
            None => Poll::Pending,
        }
    }

    /// Leaves the line after a look.
    fn leave(&mut self) {
        if let Some((mut turn, _)) = self.turn.take() {
            turn.leave_looking();
        }
    }
}

// The queue is borrowed and the place is a number: nothing in here is pinned.
impl<T, A: Allocator> Unpin for Pop<'_, T, A> {}

impl<T, A: Allocator> Future for Pop<'_, T, A> {
    type Output = Option<T>;

    /// # Panics
    ///
    /// If it was done. If a waker panics that this poll calls for another thread, or drops: an item that it had in hand
    /// then goes back to the queue, at the back.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        assert!(!self.is_done, "queue: `Pop` polled after it was done");
        let poll = self.poll_item(cx);
        self.is_done = poll.is_ready();
        poll
    }
}

impl<T, A: Allocator> futures_core::Stream for Stream<'_, T, A> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.next.poll_item(cx)
    }
}

impl<T, A: Allocator> futures_core::future::FusedFuture for Pop<'_, T, A> {
    fn is_terminated(&self) -> bool {
        self.is_done
    }
}

impl<T, A: Allocator> fmt::Debug for Pop<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pop")
            .field("is_waiting", &self.turn.is_some())
            .field("is_done", &self.is_done)
            .finish_non_exhaustive()
    }
}

impl<T, A: Allocator> fmt::Debug for Stream<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
