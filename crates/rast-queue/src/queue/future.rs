//! Waiting for an item as a future or a stream, for any runtime. Tasks use the same wait list as
//! threads. `wait.rs` describes which check consumes a wake-up.

use core::fmt;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use super::Queue;
use super::wait::{HandOn, Turn};
use super::wait_list::{Left, Wake};
use crate::alloc::{Allocator, Global};

/// A future that returns the next item, or `None` if the queue is closed and empty; made by
/// [`Queue::pop_async`].
///
/// If the future is dropped before it is ready, it leaves the wait list and passes a wake-up that
/// it received to the next waiter. Any task may poll it at any time. A push wakes the task that
/// polled last. If a poll comes from another task than the poll before, the future enters the wait
/// list anew.
///
/// A pushing thread that is suspended before it calls the waker delays this future, as it delays a
/// thread in [`Queue::pop_wait`].
///
/// If the future is leaked with `mem::forget` while it waits, the wake-up of a later push is lost:
/// the item stays queued until the next pop or wake-up. Its entry in the wait list stays occupied
/// until the queue is dropped, and holds the waker until a push calls it. A future that is woken
/// and then neither polled nor dropped loses its wake-up in the same way.
#[must_use = "a future does nothing until it is polled"]
pub struct Pop<'a, T, A: Allocator = Global> {
    queue: &'a Queue<T, A>,
    /// The entry in the wait list, and the address of the waker in it.
    turn: Option<(Turn<'a, T, A>, Address)>,
    is_done: bool,
}

/// The addresses of a waker's data and table, compared and never dereferenced.
type Address = (usize, usize);

fn address(waker: &Waker) -> Address {
    let table = core::ptr::from_ref(waker.vtable());
    (waker.data().addr(), table.addr())
}

/// A stream of items that ends when the queue is closed and empty; made by [`Queue::stream`].
///
/// It pops an item only when it returns it, so dropping the stream loses no item. If it is leaked,
/// it loses a wake-up as a [`Pop`] does.
#[must_use = "a stream does nothing until it is polled"]
pub struct Stream<'a, T, A: Allocator = Global> {
    next: Pop<'a, T, A>,
}

impl<T, A: Allocator> Queue<T, A> {
    /// Returns a future that returns the next item, or `None` if the queue is closed and empty.
    ///
    /// For any runtime. Needs the feature `async`.
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

    /// Returns a stream of the items: it ends when the queue is closed and empty. Needs the feature
    /// `async`.
    pub fn stream(&self) -> Stream<'_, T, A> {
        Stream {
            next: self.pop_async(),
        }
    }
}

impl<T, A: Allocator> Pop<'_, T, A> {
    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        // A wake-up that was received is removed from the entry first: the check below consumes it.
        // A later wake-up is for another check.
        if let Some((turn, _)) = self.turn.take_if(|(turn, _)| !turn.is_waiting()) {
            let left = turn.leave();
            debug_assert_eq!(left, Left::Woken, "it was woken");
        }
        if let Some(end) = self.queue.pop_or_closed() {
            // A wake-up that was received meanwhile is passed to the next waiter.
            return Poll::Ready(self.queue.give_after(end, || self.turn = None).ok());
        }
        if let Some((turn, waker)) = &self.turn
            && *waker == address(cx.waker())
            && turn.is_settled()
        {
            // The waker in the entry was alive after this poll began, so an equal address is the
            // same waker. If there was a wake-up since the check, the waker was called or is about
            // to be called.
            return Poll::Pending;
        }
        // The check below consumes a wake-up that was received since the check above, unless a
        // waker panics before it.
        let mut hand_on = None;
        if let Some((turn, _)) = self.turn.take()
            && turn.leave() == Left::Woken
        {
            hand_on = Some(HandOn(self.queue));
        }
        // The address of the clone: the waker of a poll may be valid only during the poll, and then
        // a clone has another address.
        let waker = cx.waker().clone();
        let address = address(&waker);
        let turn = Turn::enter(self.queue, Wake::Task(waker));
        let is_settled = turn.is_settled();
        self.turn = Some((turn, address));
        mem::forget(hand_on);
        // The check after the flag is set.
        match self.queue.pop_or_closed() {
            Some(end) => Poll::Ready(self.queue.give_after(end, || self.turn = None).ok()),
            None => {
                if !is_settled {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }
}

// The queue is borrowed and the place is a number, so no field needs pinning.
impl<T, A: Allocator> Unpin for Pop<'_, T, A> {}

impl<T, A: Allocator> Future for Pop<'_, T, A> {
    type Output = Option<T>;

    /// # Panics
    ///
    /// If it was ready before. If this poll calls or drops a waker that panics; an item that it had
    /// popped is then pushed back to the queue, at the back.
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
