//! Ingress: typed senders into the graph, with a [`Door`] per instance.

use core::fmt;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::time::Instant;

use crate::credit::replica_of;
use crate::door::{Closed, Door, Doors, Task, TrySendError};
use crate::graph::{Edge, Ingress, Node, Replicated};
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::sharder::{self, ShardId};

/// Sends messages of type `M` into graph `G`, to processor `P`, from any thread.
///
/// Returned by [`Handle::ingress`](crate::Handle::ingress); cheap to clone. The messages of one
/// thread to one instance stay in order. An accepted message is handled or, if the graph is stopped
/// first, counted as undelivered.
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
/// // After its end the graph returns the message.
/// let other = numbers.clone();
/// drop(app);
/// assert_eq!(other.send(7).unwrap_err().into_inner(), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IngressSender<G, P, M> {
    doors: Arc<Doors<M>>,
    handle: sharder::Handle,
    /// The replica at which the next search of [`any`](Self::any) begins, before the remainder.
    turn: AtomicUsize,
    types: PhantomData<fn(G, P)>,
}

impl<G: Node<Ingress> + Node<P>, P, M: Edge<G, Ingress, P>> IngressSender<G, P, M> {
    pub(crate) fn new(doors: Arc<Doors<M>>, handle: sharder::Handle) -> Self {
        Self {
            doors,
            handle,
            turn: AtomicUsize::new(0),
            types: PhantomData,
        }
    }

    /// Returns the number of instances that receive.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.doors.doors.len()
    }

    /// Returns `true` if the graph drains or has ended, so that every send returns its message.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // A drain and an end close all doors.
        self.doors.doors.iter().any(|door| door.closing().is_some())
    }

    pub(crate) fn port(&self, index: usize) -> IngressPort<'_, M> {
        IngressPort {
            door: &self.doors.doors[index],
            shard: ShardId::from_index(self.doors.first + index),
            handle: &self.handle,
        }
    }

    /// Chooses the replica for a key: equal keys get the same one, that of
    /// [`replica_of`](crate::replica_of). For keys that are not numbers, see
    /// [`hashed`](Self::hashed).
    #[must_use]
    pub fn key(&self, key: u64) -> IngressPort<'_, M>
    where
        G: Replicated<P>,
    {
        self.port(replica_of(key, self.replicas()))
    }

    /// Chooses the next replica in turn that has room. If none has room, it chooses the next one,
    /// and `send` waits there. It chooses a [retired](crate::OnPanic::Retire) replica only if all
    /// are retired. Each clone of the sender has its own position in the sequence of replicas. If
    /// the replica retires while `send` waits there, the message is sent all the same, and counts
    /// as undelivered.
    ///
    /// Costs an atomic addition, and two loads for each replica that it looks at.
    ///
    /// ```
    /// # use rast_msgpass::{Cx, Ingress, Process, Receive, graph};
    /// # struct Worker(u64);
    /// # impl Process<App> for Worker {}
    /// # impl Receive<App, Ingress, u64> for Worker {
    /// #     fn receive(&mut self, number: u64, _: &mut Cx<'_, App, Self>) {
    /// #         self.0 += number;
    /// #     }
    /// # }
    /// graph! {
    ///     graph App {
    ///         processors { worker: [Worker; 2] }
    ///         edges { ingress -> worker: u64; }
    ///     }
    /// }
    /// let app = App::builder([Worker(0), Worker(0)]).start()?;
    /// let jobs = app.ingress::<Worker, u64>();
    /// for job in 0..4 {
    ///     jobs.any().send(job)?;
    /// }
    /// let report = app.drain(std::time::Duration::from_secs(10))?;
    /// let workers = report.take_states::<App, Worker>();
    /// assert_eq!([workers[0].0, workers[1].0], [2, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn any(&self) -> IngressPort<'_, M>
    where
        G: Replicated<P>,
    {
        let replicas = self.replicas();
        // Relaxed: a number alone.
        let start = self.turn.fetch_add(1, Ordering::Relaxed) % replicas;
        self.port(self.doors.any(start))
    }

    /// Chooses the replica with this index.
    ///
    /// # Panics
    ///
    /// If there is no such replica.
    #[must_use]
    pub fn at(&self, index: usize) -> IngressPort<'_, M>
    where
        G: Replicated<P>,
    {
        let replicas = self.replicas();
        assert!(
            index < replicas,
            "graph `{}`, edge {}: there is no replica {index}, only {replicas}",
            G::NAME,
            M::INFO,
        );
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

    /// Returns a future that sends, waiting for room, for any runtime. If the future is dropped
    /// before it is ready, its message is dropped too.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the message when the graph drains or has ended.
    pub fn send_async(&self, message: M) -> Sending<'_, M>
    where
        G: crate::graph::Single<P>,
    {
        self.port(0).send_async(message)
    }
}

impl<G, P, M> Clone for IngressSender<G, P, M> {
    fn clone(&self) -> Self {
        Self {
            doors: Arc::clone(&self.doors),
            handle: self.handle.clone(),
            // Relaxed: a number alone. Clones that are made before any send begin at one replica.
            turn: AtomicUsize::new(self.turn.load(Ordering::Relaxed)),
            types: PhantomData,
        }
    }
}

impl<G, P, M> fmt::Debug for IngressSender<G, P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.doors.doors).finish()
    }
}

/// A sender to one instance of a processor, from outside: chosen by
/// [`key`](IngressSender::key), [`hashed`](IngressSender::hashed), [`any`](IngressSender::any) or
/// [`at`](IngressSender::at) of an [`IngressSender`].
pub struct IngressPort<'a, M> {
    pub(crate) door: &'a Arc<Door<M>>,
    pub(crate) shard: ShardId,
    pub(crate) handle: &'a sharder::Handle,
}

impl<'a, M> IngressPort<'a, M> {
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
        self.send_until(message, Instant::now().checked_add(timeout))
    }

    pub(crate) fn send_until(
        &self,
        message: M,
        deadline: Option<Instant>,
    ) -> Result<(), TrySendError<M>> {
        self.door.send_until(message, deadline)?;
        self.handle.wake(self.shard);
        Ok(())
    }

    /// Returns a future that sends, waiting for room, for any runtime. If the future is dropped
    /// before it is ready, its message is dropped too.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the message when the graph drains or has ended.
    pub fn send_async(&self, message: M) -> Sending<'a, M> {
        Sending {
            port: *self,
            message: Some(message),
            task: Task::default(),
        }
    }

    /// Returns how many messages are queued at the instance or being sent to it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.door.len()
    }

    /// Returns `true` if no message is queued at the instance or being sent to it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.door.len() == 0
    }

    /// Returns how many messages the instance has room for in total: the `cap` of the edge, or the
    /// `ceiling` of an `unbounded` one.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.door.capacity()
    }

    /// Returns `true` if the graph drains or has ended, so that every send returns its message.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.door.closing().is_some()
    }
}

impl<M> Clone for IngressPort<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for IngressPort<'_, M> {}

impl<M> fmt::Debug for IngressPort<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IngressPort").field(self.door).finish()
    }
}

/// A send that waits for room, as a future: from [`IngressSender::send_async`].
///
/// It takes a lock for the time of a push, and only if the door is full. Tasks get room in the
/// order in which they found none, and compete for it with threads and sinks. A task that finds
/// none after its wake-up waits behind the others. A task that is woken and then neither polled nor
/// dropped keeps that wake-up from the others.
#[must_use = "a future does nothing until it is polled"]
pub struct Sending<'a, M> {
    port: IngressPort<'a, M>,
    message: Option<M>,
    /// Its place among the tasks that wait.
    task: Task,
}

// Nothing points into the message.
impl<M> Unpin for Sending<'_, M> {}

impl<M> Future for Sending<'_, M> {
    type Output = Result<(), Closed<M>>;

    /// # Panics
    ///
    /// If it was ready before.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            port,
            message,
            task,
        } = &mut *self;
        let sent = port.door.poll_send(message, task, cx);
        if let Poll::Ready(Ok(())) = sent {
            port.handle.wake(port.shard);
        }
        sent
    }
}

impl<M> Drop for Sending<'_, M> {
    fn drop(&mut self) {
        self.port.door.cancel(&mut self.task);
    }
}

impl<M> fmt::Debug for Sending<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sending").field(self.port.door).finish()
    }
}
