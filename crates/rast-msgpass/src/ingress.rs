//! Ingress: typed doors into the graph, for any thread.
//!
//! A door is the MPMC queue of rast-queue with a count of reserved places
//! beside it: the queue has no bound, the count is the bound.
//!
//! ```text
//!   sender (any thread)                         receiver (the processor's worker)
//!   S1 reserve: count < capacity, count += 1    R1 pop, handle, ...
//!   S2 push                                     R2 count -= popped
//!   S3 notify the shard                         R3 notify waiting senders
//! ```
//!
//! 1. The count never exceeds the capacity: it is raised by compare-exchange,
//!    not added to and taken back, so a refused sender never makes another one
//!    see a full door that has room.
//! 2. Closing closes the queue. A push after that gives the message back, and
//!    its sender undoes the reservation: what `try_send` took is in the queue.
//! 3. A closed door with a count of zero stays empty for ever.

use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::error::Error;
use std::time::Instant;

use crate::credit::replica_of;
use crate::ending::{EndedBy, Ending};
use crate::graph::{Edge, Graph, Ingress, Node, Replicated};
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::primitive::{CachePadded, EventCount};
use crate::queue::{self, Queue};
use crate::sharder::{self, ShardId};

/// The reason why a door did not take a message; the message is in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<M> {
    /// There is no room now.
    Full(M),
    /// The graph drains or has ended.
    Closed(Closed<M>),
}

/// The graph drains or has ended; the message is in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<M> {
    message: M,
    by: EndedBy,
}

impl<M> Closed<M> {
    /// Returns the message.
    pub fn into_inner(self) -> M {
        self.message
    }

    /// Returns what ended the graph.
    pub fn ended_by(&self) -> EndedBy {
        self.by
    }
}

impl<M> fmt::Debug for Closed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed")
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

impl<M> fmt::Display for Closed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the door of the graph is closed: {}", self.by)
    }
}

impl<M> Error for Closed<M> {}

impl<M> TrySendError<M> {
    /// Returns the message.
    pub fn into_inner(self) -> M {
        match self {
            Self::Full(message) => message,
            Self::Closed(closed) => closed.message,
        }
    }

    /// Returns whether there was no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Returns whether the door is closed for good.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl<M> fmt::Debug for TrySendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("Full(..)"),
            Self::Closed(closed) => fmt::Debug::fmt(closed, f),
        }
    }
}

impl<M> fmt::Display for TrySendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the door is full"),
            Self::Closed(closed) => fmt::Display::fmt(closed, f),
        }
    }
}

impl<M> Error for TrySendError<M> {}

/// A bounded queue from outside threads to one instance of a processor.
pub struct Door<M> {
    queue: Queue<M>,
    /// Reserved places: accepted and not yet taken out, and being sent.
    count: CachePadded<AtomicUsize>,
    capacity: usize,
    room: EventCount,
    ending: Arc<Ending>,
}

impl<M> Door<M> {
    /// Makes an open door with room for `capacity` messages.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self::of(capacity, Arc::new(Ending::new(&[], &[])))
    }

    /// Makes a door of the graph that ends by `ending`.
    pub(crate) fn of(capacity: usize, ending: Arc<Ending>) -> Self {
        Self {
            ending,
            queue: Queue::new(),
            count: CachePadded::new(AtomicUsize::new(0)),
            capacity,
            room: EventCount::new(),
        }
    }

    /// Puts a message in if there is room. Lock-free except for the queue.
    pub fn try_send(&self, message: M) -> Result<(), TrySendError<M>> {
        if self.queue.is_closed() {
            return Err(TrySendError::Closed(self.closed(message)));
        }
        if !self.reserve() {
            return Err(TrySendError::Full(message));
        }
        match self.queue.push(message) {
            Ok(()) => Ok(()),
            Err(queue::Closed(message)) => {
                self.release(1);
                Err(TrySendError::Closed(self.closed(message)))
            }
        }
    }

    #[cold]
    fn closed(&self, message: M) -> Closed<M> {
        Closed {
            message,
            by: self.ending.cause().unwrap_or(EndedBy::Fault),
        }
    }

    /// Waits for room until `deadline`, for ever without one.
    pub fn send_until(
        &self,
        mut message: M,
        deadline: Option<Instant>,
    ) -> Result<(), TrySendError<M>> {
        loop {
            match self.try_send(message) {
                Err(TrySendError::Full(back)) => message = back,
                other => return other,
            }
            let key = self.room.prepare();
            match self.try_send(message) {
                Err(TrySendError::Full(back)) => message = back,
                other => {
                    self.room.cancel(key);
                    return other;
                }
            }
            match deadline {
                None => self.room.wait(key),
                Some(deadline) => {
                    self.room.wait_deadline(key, deadline);
                    if Instant::now() >= deadline {
                        return self.try_send(message);
                    }
                }
            }
        }
    }

    fn reserve(&self) -> bool {
        // Relaxed: a first guess for the exchange below. [IN1]
        let mut count = self.count.load(Ordering::Relaxed);
        while count < self.capacity {
            // Relaxed: a place carries no data; the message is published by the queue. [IN2]
            let raised = self.count.compare_exchange_weak(
                count,
                count + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match raised {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// Takes one message out; its place stays reserved until
    /// [`release`](Self::release). For the receiver alone.
    pub fn pop(&self) -> Option<M> {
        self.queue.pop()
    }

    /// Frees `places`, and wakes as many senders that wait for room.
    pub fn release(&self, places: usize) {
        if places > 0 {
            // Release: pairs with the Acquire in is_spent; that these messages entered the graph is
            // counted above. [IN3]
            self.count.fetch_sub(places, Ordering::Release);
            self.room.notify_some(places);
        }
    }

    /// Refuses everything from now on, and wakes the senders that wait for room.
    pub fn close(&self) {
        self.queue.close();
        self.room.notify_all();
    }

    /// Returns whether nothing is in the queue now.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns how many messages are accepted and not taken out.
    pub fn len(&self) -> usize {
        // Relaxed: a snapshot for metrics. [IN4]
        self.count.load(Ordering::Relaxed)
    }

    /// Returns whether the door is closed and everything it accepted was taken.
    pub fn is_spent(&self) -> bool {
        // Acquire: pairs with the Release in release; the counts of what entered are read after
        // this. [IN5]
        self.queue.is_closed() && self.count.load(Ordering::Acquire) == 0
    }
}

impl<M> fmt::Debug for Door<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("len", &self.len())
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// A door whose message type is not known.
pub(crate) trait AnyDoor: Send + Sync {
    fn close(&self);
    fn is_spent(&self) -> bool;
    fn len(&self) -> usize;
    /// Another reference to the same door.
    fn boxed(&self) -> Box<dyn AnyDoor>;
}

impl<M: Send + 'static> AnyDoor for Arc<Door<M>> {
    fn close(&self) {
        Door::close(self);
    }

    fn is_spent(&self) -> bool {
        Door::is_spent(self)
    }

    fn len(&self) -> usize {
        Door::len(self)
    }

    fn boxed(&self) -> Box<dyn AnyDoor> {
        Box::new(Arc::clone(self))
    }
}

/// The doors of one edge, one per instance of its receiver.
pub(crate) struct Doors<M> {
    pub(crate) doors: Vec<Arc<Door<M>>>,
    /// The shard of the first instance.
    pub(crate) first: usize,
}

/// Sends messages of type `M` into graph `G`, to processor `P`, from any thread.
///
/// Got from [`Handle::ingress`](crate::Handle::ingress); cheap to clone.
/// The order of one thread's messages to one instance is kept.
/// What a call took is handled, or counted as undelivered when the graph is
/// stopped before.
///
/// ```
/// # use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
/// # struct Echo;
/// # graph! {
/// #     graph App {
/// #         processors { echo: Echo }
/// #         edges { ingress -> echo: u64 [cap = 4]; echo -> egress: u64 [cap = 8]; }
/// #     }
/// # }
/// # impl Process<App> for Echo {}
/// # impl Receive<App, Ingress, u64> for Echo {
/// #     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
/// #         cx.to::<Egress>().send(number);
/// #     }
/// # }
/// use rast_msgpass::TrySendError;
///
/// let app = App::builder(Echo).start()?;
/// let numbers = app.ingress::<Echo, u64>();
/// // No thread receives: the lane, then the door, then nothing more.
/// let mut accepted = 0;
/// while numbers.try_send(accepted) != Err(TrySendError::Full(accepted)) {
///     accepted += 1;
///     # assert!(accepted <= 12);
///     # std::thread::yield_now();
/// }
/// // Past its end the graph gives the message back.
/// let other = numbers.clone();
/// drop(app);
/// assert_eq!(other.send(7).unwrap_err().into_inner(), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IngressSender<G, P, M> {
    doors: Arc<Doors<M>>,
    handle: sharder::Handle,
    types: PhantomData<fn(G, P)>,
}

impl<G: Graph + Node<P>, P, M: Edge<G, Ingress, P>> IngressSender<G, P, M> {
    pub(crate) fn new(doors: Arc<Doors<M>>, handle: sharder::Handle) -> Self {
        Self {
            doors,
            handle,
            types: PhantomData,
        }
    }

    /// Returns the number of instances that receive.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.doors.doors.len()
    }

    fn port(&self, index: usize) -> IngressPort<'_, M> {
        IngressPort {
            door: &self.doors.doors[index],
            shard: ShardId::from_index(self.doors.first + index),
            handle: &self.handle,
        }
    }

    /// Chooses the replica for a key: equal keys get the same one, that of
    /// [`replica_of`](crate::replica_of).
    #[must_use]
    pub fn key(&self, key: u64) -> IngressPort<'_, M>
    where
        G: Replicated<P>,
    {
        self.port(replica_of(key, self.replicas()))
    }

    /// Chooses the replica with this index.
    ///
    /// # Panics
    ///
    /// When there is no such replica.
    #[must_use]
    pub fn at(&self, index: usize) -> IngressPort<'_, M>
    where
        G: Replicated<P>,
    {
        self.port(index)
    }

    /// Sends if there is room now. Never waits.
    ///
    /// # Errors
    ///
    /// `Full` or `Closed`, with the message.
    pub fn try_send(&self, message: M) -> Result<(), TrySendError<M>>
    where
        G: crate::graph::Single<P>,
    {
        self.port(0).try_send(message)
    }

    /// Sends, waiting for room. Blocking.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the message when the graph drains or has ended.
    pub fn send(&self, message: M) -> Result<(), Closed<M>>
    where
        G: crate::graph::Single<P>,
    {
        self.port(0).send(message)
    }

    /// Sends, waiting for room at most `timeout`. Blocking.
    ///
    /// # Errors
    ///
    /// `Full` when the time is over, or `Closed`, with the message.
    pub fn send_timeout(&self, message: M, timeout: Duration) -> Result<(), TrySendError<M>>
    where
        G: crate::graph::Single<P>,
    {
        self.port(0).send_timeout(message, timeout)
    }
}

impl<G, P, M> Clone for IngressSender<G, P, M> {
    fn clone(&self) -> Self {
        Self {
            doors: Arc::clone(&self.doors),
            handle: self.handle.clone(),
            types: PhantomData,
        }
    }
}

impl<G, P, M> fmt::Debug for IngressSender<G, P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.doors.doors).finish()
    }
}

/// The way to one instance of a processor, from outside.
pub struct IngressPort<'a, M> {
    door: &'a Door<M>,
    shard: ShardId,
    handle: &'a sharder::Handle,
}

impl<M> IngressPort<'_, M> {
    /// Sends if there is room now. Never waits.
    ///
    /// # Errors
    ///
    /// `Full` or `Closed`, with the message.
    pub fn try_send(&self, message: M) -> Result<(), TrySendError<M>> {
        self.door.try_send(message)?;
        self.handle.wake(self.shard);
        Ok(())
    }

    /// Sends, waiting for room. Blocking.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the message when the graph drains or has ended.
    pub fn send(&self, message: M) -> Result<(), Closed<M>> {
        match self.door.send_until(message, None) {
            Ok(()) => {
                self.handle.wake(self.shard);
                Ok(())
            }
            Err(TrySendError::Closed(closed)) => Err(closed),
            Err(TrySendError::Full(_)) => unreachable!("it waits for room without a deadline"),
        }
    }

    /// Sends, waiting for room at most `timeout`. Blocking.
    ///
    /// # Errors
    ///
    /// `Full` when the time is over, or `Closed`, with the message.
    pub fn send_timeout(&self, message: M, timeout: Duration) -> Result<(), TrySendError<M>> {
        self.door
            .send_until(message, Instant::now().checked_add(timeout))?;
        self.handle.wake(self.shard);
        Ok(())
    }

    /// Returns how many messages wait, or are being sent, there.
    #[must_use]
    pub fn len(&self) -> usize {
        self.door.len()
    }

    /// Returns whether no message waits there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.door.len() == 0
    }
}

impl<M> fmt::Debug for IngressPort<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IngressPort").field(self.door).finish()
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    //! What the public interface cannot bring about.

    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn room_for_one_wakes_one() {
        const WAITERS: usize = 8;
        let door = Door::new(1);
        door.try_send(0).expect("there is room for one");
        let tried = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in 1..=WAITERS {
                let (door, tried) = (&door, &tried);
                scope.spawn(move || {
                    // As `send_until` does, with a count of the wake-ups.
                    let mut message = number;
                    loop {
                        let key = door.room.prepare();
                        tried.fetch_add(1, Ordering::SeqCst);
                        message = match door.try_send(message) {
                            Err(TrySendError::Full(back)) => back,
                            other => {
                                door.room.cancel(key);
                                return other.expect("the door is open");
                            }
                        };
                        door.room.wait(key);
                    }
                });
            }
            while tried.load(Ordering::SeqCst) < WAITERS {
                std::thread::yield_now();
            }
            for _ in 0..=WAITERS {
                while door.pop().is_none() {
                    std::thread::yield_now();
                }
                door.release(1);
            }
        });
        // Each looked once before it slept, and once after its own wake-up.
        assert!(tried.load(Ordering::SeqCst) <= 2 * WAITERS);
    }

    #[test]
    fn a_send_ends_at_its_deadline_however_often_it_is_woken() {
        let door = Door::new(1);
        door.try_send(1).expect("there is room for one");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waker = scope.spawn(|| {
                let give_up = Instant::now() + Duration::from_secs(10);
                while !ended.load(Ordering::Relaxed) && Instant::now() < give_up {
                    door.room.notify_all();
                }
                ended.load(Ordering::Relaxed)
            });
            let deadline = Instant::now() + Duration::from_millis(20);
            let refused = door.send_until(2, Some(deadline));
            ended.store(true, Ordering::Relaxed);
            assert!(matches!(refused, Err(TrySendError::Full(2))));
            let in_time = waker.join().expect("the waker only wakes");
            assert!(in_time, "the send went on for as long as it was woken");
        });
    }
}
