//! A way into the graph as a sink of futures-sink, for tasks of any runtime.
//!
//! `poll_ready` reserves a place of the door, and `start_send` puts the message there. So a sink
//! that is ready never refuses a message for lack of room, and it keeps no message beside the door.
//! `door.rs` describes the places that are held in this way, and the list of tasks.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use futures_sink::Sink;

use crate::door::{Closed, Door, Task};
use crate::graph::{Edge, Ingress, Node, Single};
use crate::ingress::{IngressPort, IngressSender};
use crate::primitive::sync::Arc;
use crate::sharder::{self, ShardId};

/// Sends messages of type `M` to one instance of a processor, as a `Sink` of futures-sink: from
/// [`IngressSender::sink`] or [`IngressPort::sink`].
///
/// It works with any runtime. The sink is ready when it has reserved a place in the queue into the
/// graph (the door), so a full door slows the task that sends. The reservation ends when the sink
/// is closed or dropped, and other senders that wait are woken. A flush does nothing, because what
/// `start_send` accepted is in the door. A clone has a reservation of its own.
///
/// No other sender can use the place of a sink that is ready and sends nothing. So if a door has n
/// places, n idle sinks stop all other senders.
///
/// A drain does not wait for reservations. It closes the sink, whose next `poll_ready` returns
/// [`Closed`].
///
/// The error is [`Closed`]. It contains the message that was passed to `start_send`, if there was
/// one.
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
/// use futures::{SinkExt, executor::block_on, stream};
///
/// let app = App::builder(Echo).start()?;
/// let mut numbers = app.ingress::<Echo, u64>().sink();
/// let mut echoes = app.egress::<Echo, u64>(0);
/// let reader = std::thread::spawn(move || -> u64 {
///     (0..100).map(|_| echoes.recv().unwrap()).sum()
/// });
/// block_on(numbers.send_all(&mut stream::iter((0..100).map(Ok))))?;
/// assert_eq!(reader.join().unwrap(), 4_950);
///
/// app.drain(std::time::Duration::from_secs(10))?;
/// let refused = block_on(numbers.send(7)).unwrap_err();
/// assert_eq!(refused.into_inner(), None, "it was not ready, so it was given no message");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IngressSink<M> {
    door: Arc<Door<M>>,
    shard: ShardId,
    handle: sharder::Handle,
    /// It holds a place.
    is_ready: bool,
    /// Its place among the tasks that wait.
    task: Task,
}

impl<G: Node<Ingress> + Node<P>, P, M: Edge<G, Ingress, P>> IngressSender<G, P, M> {
    /// Makes a `Sink` of this sender. Needs the feature `async`.
    #[must_use]
    pub fn sink(&self) -> IngressSink<M>
    where
        G: Single<P>,
    {
        self.port(0).sink()
    }
}

impl<M> IngressPort<'_, M> {
    /// Makes a `Sink` of the sender to this instance. Needs the feature `async`.
    #[must_use]
    pub fn sink(&self) -> IngressSink<M> {
        IngressSink {
            door: Arc::clone(self.door),
            shard: self.shard,
            handle: self.handle.clone(),
            is_ready: false,
            task: Task::default(),
        }
    }
}

impl<M> IngressSink<M> {
    /// Returns the reservation, and leaves the list of tasks.
    fn let_go(&mut self) {
        if core::mem::take(&mut self.is_ready) {
            self.door.free_held();
        }
        self.door.cancel(&mut self.task);
    }
}

impl<M> Sink<M> for IngressSink<M> {
    type Error = Closed<Option<M>>;

    /// # Errors
    ///
    /// [`Closed`], without a message, when the graph drains or has ended.
    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let sink = &mut *self;
        if sink.is_ready {
            return match sink.door.closing() {
                None => Poll::Ready(Ok(())),
                Some(closed) => {
                    sink.let_go();
                    Poll::Ready(Err(closed.map(|()| None)))
                }
            };
        }
        let held = sink.door.poll_hold(&mut sink.task, cx);
        held.map(|held| {
            sink.is_ready = held.is_ok();
            held.map_err(|closed| closed.map(|()| None))
        })
    }

    /// # Errors
    ///
    /// [`Closed`], with the message, when the graph has begun to drain or has ended since the sink
    /// was ready.
    ///
    /// # Panics
    ///
    /// If `poll_ready` did not return `Ready(Ok(()))` since the last message.
    fn start_send(mut self: Pin<&mut Self>, message: M) -> Result<(), Self::Error> {
        assert!(
            core::mem::take(&mut self.is_ready),
            "a sink is given a message after `poll_ready` has returned `Ready(Ok(()))`"
        );
        match self.door.send_held(message) {
            Ok(()) => {
                self.handle.wake(self.shard);
                Ok(())
            }
            Err(closed) => Err(closed.map(Some)),
        }
    }

    /// Is ready at once: what was accepted is in the door.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    /// Returns the reservation. Is ready at once. The door stays open for other senders.
    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.let_go();
        Poll::Ready(Ok(()))
    }
}

impl<M> Clone for IngressSink<M> {
    fn clone(&self) -> Self {
        Self {
            door: Arc::clone(&self.door),
            shard: self.shard,
            handle: self.handle.clone(),
            is_ready: false,
            task: Task::default(),
        }
    }
}

impl<M> Drop for IngressSink<M> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl<M> fmt::Debug for IngressSink<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IngressSink")
            .field("door", &self.door)
            .field("is_ready", &self.is_ready)
            .finish_non_exhaustive()
    }
}
