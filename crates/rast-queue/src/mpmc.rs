//! A [`Queue`] with counted producers and consumers, which is closed when the last one of either
//! side is dropped.
//!
//! A shared `Queue` stays open until a thread closes it. If that thread panics first, the consumers
//! wait for ever. The producers and consumers in this module can be cloned, and the queue counts
//! both. When the last [`Producer`] is dropped, even by a panic, the queue is closed: consumers pop
//! the queued items and then find it finished. When the last [`Consumer`] is dropped, the queue is
//! closed as well: pushes fail, and the queued items are dropped. If the drop of an item panics,
//! the other items are dropped while the panic unwinds.
//!
//! ```
//! use rast_queue::Queue;
//! use rast_queue::primitive::WaitStrategy;
//!
//! let (producer, consumer) = Queue::new().split();
//! let workers: Vec<_> = (0..2)
//!     .map(|id| {
//!         let producer = producer.clone();
//!         std::thread::spawn(move || (0..10).for_each(|n| producer.push(id * 10 + n).unwrap()))
//!     })
//!     .collect();
//! drop(producer);
//! let mut sum = 0;
//! while let Some(n) = consumer.pop_wait(WaitStrategy::Adaptive) {
//!     sum += n;
//! }
//! assert_eq!(sum, (0..20).sum());
//! # workers.into_iter().for_each(|worker| worker.join().unwrap());
//! ```
//!
//! Each operation costs the same as on the queue. Cloning or dropping a producer or a consumer
//! costs one or two read-modify-writes.
//!
//! Every `Producer` that is not dropped keeps the queue open. To close a queue that still has
//! producers, call [`Producer::close`] or [`Consumer::close`].

use core::fmt;
#[cfg(feature = "std")]
use core::time::Duration;
#[cfg(feature = "std")]
use std::time::Instant;

use crate::alloc::{Allocator, Global};
use crate::primitive::panics::drop_each;
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::{Closed, Drain, Queue, Rest, TryPushError};

#[cfg(feature = "std")]
use crate::PopError;
#[cfg(feature = "std")]
use crate::primitive::WaitStrategy;
#[cfg(feature = "async")]
use crate::{Pop, Stream};

/// A queue and its ends.
struct Shared<T, A: Allocator> {
    queue: Queue<T, A>,
    producers: AtomicUsize,
    consumers: AtomicUsize,
}

/// Pushes into a queue that is closed when the last producer, or the last consumer, is dropped.
/// Made by [`Queue::split`]; any thread may use it, and a clone is another producer.
pub struct Producer<T, A: Allocator = Global> {
    shared: Arc<Shared<T, A>>,
}

/// Pops from a queue that is closed when the last producer, or the last consumer, is dropped. Made
/// by [`Queue::split`]; any thread may use it, and a clone is another consumer.
pub struct Consumer<T, A: Allocator = Global> {
    shared: Arc<Shared<T, A>>,
}

impl<T, A: Allocator> Queue<T, A> {
    /// Wraps the queue in a [`Producer`] and a [`Consumer`]. Both can be cloned and are counted.
    ///
    /// Allocates once, from the global allocator.
    ///
    /// ```
    /// let (producer, consumer) = rast_queue::Queue::new().split();
    /// producer.push(1).unwrap();
    /// drop(producer);
    /// assert_eq!((consumer.pop(), consumer.is_finished()), (Some(1), true));
    /// ```
    pub fn split(self) -> (Producer<T, A>, Consumer<T, A>) {
        let shared = Arc::new(Shared {
            queue: self,
            producers: AtomicUsize::new(1),
            consumers: AtomicUsize::new(1),
        });
        let producer = Producer {
            shared: Arc::clone(&shared),
        };
        (producer, Consumer { shared })
    }
}

/// Counts a new end. The count of the `Arc` is at least as great, so it aborts before this count
/// overflows.
fn attach(ends: &AtomicUsize) {
    // Relaxed: it publishes nothing. The count may be zero if the caller is an end of the other
    // side; then the queue is closed, or is about to be. [MH1]
    ends.fetch_add(1, Ordering::Relaxed);
}

/// Subtracts an end; returns whether it was the last one.
fn detach(ends: &AtomicUsize) -> bool {
    // AcqRel: what happened before the drop of each end happens before the close by the last one.
    // [MH2]
    ends.fetch_sub(1, Ordering::AcqRel) == 1
}

impl<T, A: Allocator> Producer<T, A> {
    /// Pushes one item at the back; as [`Queue::push`].
    ///
    /// # Panics
    ///
    /// As [`Queue::push`].
    ///
    /// # Errors
    ///
    /// [`Closed`] with the item if a thread closed the queue, or if all producers or all consumers
    /// were dropped.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), Closed<T>> {
        self.shared.queue.push(item)
    }

    /// Pushes one item at the back, or returns it if the queue is closed or memory is lacking; as
    /// [`Queue::try_push`].
    ///
    /// # Panics
    ///
    /// As [`Queue::try_push`].
    ///
    /// # Errors
    ///
    /// As [`Queue::try_push`].
    #[inline]
    pub fn try_push(&self, item: T) -> Result<(), TryPushError<T>> {
        self.shared.queue.try_push(item)
    }

    /// Pushes items in order; as [`Queue::push_batch`].
    ///
    /// # Panics
    ///
    /// As [`Queue::push_batch`].
    ///
    /// # Errors
    ///
    /// [`Closed`] with the items that were not pushed, if the queue is closed.
    pub fn push_batch<I>(&self, items: I) -> Result<usize, Closed<Rest<I::IntoIter>>>
    where
        I: IntoIterator<Item = T>,
    {
        self.shared.queue.push_batch(items)
    }

    /// Pushes copies of `items` in order; as [`Queue::push_slice`].
    ///
    /// # Panics
    ///
    /// As [`Queue::push_slice`].
    ///
    /// # Errors
    ///
    /// [`Closed`] with the rest of the slice, if the queue is closed.
    pub fn push_slice<'a>(&self, items: &'a [T]) -> Result<(), Closed<&'a [T]>>
    where
        T: Copy,
    {
        self.shared.queue.push_slice(items)
    }

    /// Makes another consumer. If all consumers were dropped, the queue stays closed. Wait-free.
    pub fn consumer(&self) -> Consumer<T, A> {
        attach(&self.shared.consumers);
        Consumer {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T, A: Allocator> Consumer<T, A> {
    /// Pops the item at the front, or returns `None` if the queue is empty; as [`Queue::pop`].
    #[inline]
    pub fn pop(&self) -> Option<T> {
        self.shared.queue.pop()
    }

    /// Pops up to `max` items and passes each to `each`, in order; returns how many. As
    /// [`Queue::pop_batch`].
    ///
    /// # Panics
    ///
    /// As [`Queue::pop_batch`].
    pub fn pop_batch(&self, max: usize, each: impl FnMut(T)) -> usize {
        self.shared.queue.pop_batch(max, each)
    }

    /// Pops up to `max` items into `out`, in order; returns how many. As [`Queue::pop_into`].
    pub fn pop_into<E: Extend<T>>(&self, out: &mut E, max: usize) -> usize {
        self.shared.queue.pop_into(out, max)
    }

    /// Pops up to `out.len()` items into the front of `out`, in order; returns how many. As
    /// [`Queue::pop_slice`].
    pub fn pop_slice(&self, out: &mut [T]) -> usize
    where
        T: Copy,
    {
        self.shared.queue.pop_slice(out)
    }

    /// Returns an iterator that pops until it first finds the queue empty; as [`Queue::drain`].
    pub fn drain(&self) -> Drain<'_, T, A> {
        self.shared.queue.drain()
    }

    /// Waits until there is an item and pops it, or returns `None` if the queue is closed and
    /// empty. As [`Queue::pop_wait`].
    #[cfg(feature = "std")]
    pub fn pop_wait(&self, strategy: WaitStrategy) -> Option<T> {
        self.shared.queue.pop_wait(strategy)
    }

    /// As [`pop_wait`](Self::pop_wait), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// As [`Queue::pop_timeout`].
    #[cfg(feature = "std")]
    pub fn pop_timeout(&self, strategy: WaitStrategy, timeout: Duration) -> Result<T, PopError> {
        self.shared.queue.pop_timeout(strategy, timeout)
    }

    /// As [`pop_wait`](Self::pop_wait), until `deadline` at the latest.
    ///
    /// # Errors
    ///
    /// As [`Queue::pop_deadline`].
    #[cfg(feature = "std")]
    pub fn pop_deadline(&self, strategy: WaitStrategy, deadline: Instant) -> Result<T, PopError> {
        self.shared.queue.pop_deadline(strategy, deadline)
    }

    /// Returns a future of the next item; as [`Queue::pop_async`].
    #[cfg(feature = "async")]
    pub fn pop_async(&self) -> Pop<'_, T, A> {
        self.shared.queue.pop_async()
    }

    /// Returns a stream of the items; as [`Queue::stream`].
    #[cfg(feature = "async")]
    pub fn stream(&self) -> Stream<'_, T, A> {
        self.shared.queue.stream()
    }

    /// Returns whether the queue is closed and empty; as [`Queue::is_finished`]. Lock-free, some
    /// loads.
    pub fn is_finished(&self) -> bool {
        self.shared.queue.is_finished()
    }

    /// Makes another producer. If all producers were dropped, the queue stays closed and every push
    /// fails. Wait-free.
    pub fn producer(&self) -> Producer<T, A> {
        attach(&self.shared.producers);
        Producer {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// What both ends have.
macro_rules! end {
    ($End:ident, $ends:ident, $close:expr) => {
        impl<T, A: Allocator> $End<T, A> {
            /// Closes the queue for pushes; returns whether this call did it. As [`Queue::close`].
            pub fn close(&self) -> bool {
                self.shared.queue.close()
            }

            /// Returns whether the queue is closed. Wait-free, one load.
            pub fn is_closed(&self) -> bool {
                self.shared.queue.is_closed()
            }

            /// Returns how many items are queued; as [`Queue::len`].
            pub fn len(&self) -> usize {
                self.shared.queue.len()
            }

            /// Returns whether no item is queued; as [`Queue::is_empty`].
            pub fn is_empty(&self) -> bool {
                self.shared.queue.is_empty()
            }

            /// Returns the allocator.
            pub fn allocator(&self) -> &A {
                self.shared.queue.allocator()
            }
        }

        impl<T, A: Allocator> Clone for $End<T, A> {
            /// Makes another producer or consumer of the queue. Wait-free.
            fn clone(&self) -> Self {
                attach(&self.shared.$ends);
                Self {
                    shared: Arc::clone(&self.shared),
                }
            }
        }

        impl<T, A: Allocator> Drop for $End<T, A> {
            /// The last end of its side closes the queue.
            fn drop(&mut self) {
                if detach(&self.shared.$ends) {
                    let close: fn(&Queue<T, A>) = $close;
                    close(&self.shared.queue);
                }
            }
        }

        impl<T, A: Allocator> fmt::Debug for $End<T, A> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($End))
                    .field("len", &self.len())
                    .field("is_closed", &self.is_closed())
                    .finish_non_exhaustive()
            }
        }
    };
}

end!(Producer, producers, |queue| {
    queue.close();
});
end!(Consumer, consumers, |queue| {
    let _rest = DropRest(queue);
    queue.close();
});

/// Drops the queued items, also while the panic of a waker unwinds.
struct DropRest<'a, T, A: Allocator>(&'a Queue<T, A>);

impl<T, A: Allocator> Drop for DropRest<'_, T, A> {
    fn drop(&mut self) {
        let mut items = self.0.drain();
        drop_each(|| items.next());
    }
}
