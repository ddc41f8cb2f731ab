//! Values as a stream, independent of a runtime.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::hash::RandomState;

use crate::consumer::Consumer;
use crate::item::OwnedItem;
use crate::mode::{Mode, Newest};
use crate::primitive::sync::Arc;
use crate::timers::Instant;

/// Yields the values of a consumer, and ends when the conflator is closed and no value is pending
/// that the consumer could take; made by [`Consumer::into_stream`]. Needs the feature `async`.
///
/// Each item keeps its key claimed until it is dropped, so one task at a time handles a key. The
/// stream has no timer: if a pace delays a key, poll again at
/// [`next_deadline`](Self::next_deadline). A stream that was woken must be polled or dropped;
/// otherwise its wake-up is lost to the other consumers.
#[must_use = "a stream does nothing until it is polled"]
pub struct Stream<K, V, M: Mode<V> = Newest, S = RandomState> {
    consumer: Consumer<K, V, M, S>,
}

impl<K, V, M: Mode<V>, S> Consumer<K, V, M, S> {
    /// Makes a stream of this consumer. Needs the feature `async`.
    ///
    /// ```
    /// use std::pin::Pin;
    /// use std::task::{Context, Poll, Waker};
    /// use futures_core::Stream;
    ///
    /// let levels = rast_conflate::Conflator::<u32, f64>::new();
    /// let mut stream = levels.consumer().unwrap().into_stream();
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert!(Pin::new(&mut stream).poll_next(&mut cx).is_pending());
    /// levels.producer().put_key(&7, 0.5).unwrap();
    /// let Poll::Ready(Some(item)) = Pin::new(&mut stream).poll_next(&mut cx) else { panic!() };
    /// assert_eq!((*item.key(), *item), (7, 0.5));
    /// levels.close();
    /// assert!(matches!(Pin::new(&mut stream).poll_next(&mut cx), Poll::Ready(None)));
    /// ```
    pub fn into_stream(self) -> Stream<K, V, M, S> {
        Stream { consumer: self }
    }
}

impl<K, V, M: Mode<V>, S> Stream<K, V, M, S> {
    /// Returns when to poll again because of keys that their pace delays; `None` if there is none.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.consumer.next_deadline()
    }
}

// No field is pinned structurally, so the stream is movable.
impl<K, V, M: Mode<V>, S> Unpin for Stream<K, V, M, S> {}

impl<K, V, M: Mode<V>, S> futures_core::Stream for Stream<K, V, M, S> {
    type Item = OwnedItem<K, V, M, S>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let consumer = &mut self.consumer;
        if let Some((spot, value)) = consumer.take_next() {
            let shared = Arc::clone(&consumer.shared);
            return Poll::Ready(Some(OwnedItem::new(shared, spot, value)));
        }
        if consumer.is_finished() {
            return Poll::Ready(None);
        }
        if !consumer.arm(cx.waker()) {
            // A value came since the check above.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<K, V, M: Mode<V>, S> fmt::Debug for Stream<K, V, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.consumer).finish()
    }
}
