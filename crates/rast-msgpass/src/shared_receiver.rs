//! One lane of egress for many receivers.
//!
//! ```text
//!                     Mutex
//!   lane ═rings═►  [ EgressReceiver ]  ◄── SharedReceiver, one per thread or task
//!     │
//!     └─ waker ──►  Line: the receivers that wait  ──► wakes the first of them
//! ```
//!
//! A *look* is a check of the lane under the lock. After the lane has called its waker, it does not
//! call it again until a look finds the lane empty (`egress.rs`). The waker wakes one receiver, so
//! the receivers wake each other:
//!
//! 1. A receiver that takes a message while others wait looks for one more message, under the same
//!    lock. If there is one, it wakes the next receiver. If not, that look found the lane empty,
//!    and the lane calls its waker for the next message.
//! 2. A receiver that finds the lane closed wakes all waiting receivers.
//! 3. A receiver that waits enters the wait list, and looks once more before it sleeps.
//! 4. A look that begins after a wake-up consumes the wake-up. A receiver that leaves with a
//!    message passes a wake-up that came after its last look to the next receiver. A dropped future
//!    does the same.
//!
//! No wake-up is lost. Let receiver W wait. It has entered the list (E), and then looked under the
//! lock (L), and L found the lane empty. So the lane calls the waker for the next message. Each
//! look of another receiver comes before or after L, because of the lock. If it comes before L, it
//! left no message in the lane, because L found the lane empty. If it comes after L, the other
//! receiver sees `is_waited`, which E had set, and follows rule 1. By rule 4 each wake-up leads to
//! a look or to the wake-up of the next receiver. The list is finite, so the chain ends with a
//! look.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc as StdArc;
use std::time::Instant;

use crate::egress::sealed::Lane as _;
use crate::egress::{EgressReceiver, RecvError, RecvTimeoutError, TryRecvError, Wake};
use crate::primitive::sync::atomic::{AtomicBool, Ordering};
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::{Parker, Unparker};
use crate::sharder;
use crate::tasks::{Tasks, Waiter};

/// The receivers that wait.
struct Line {
    tasks: Tasks,
    /// The list may hold one.
    is_waited: AtomicBool,
}

impl Line {
    fn enter(&self, task: &mut Option<u64>, waiter: Waiter, cx: &Context<'_>) {
        self.tasks.enter(task, cx.waker(), waiter, || {
            // Relaxed: the look that follows publishes it, by the lock of the receiver.
            self.is_waited.store(true, Ordering::Relaxed);
        });
    }

    fn wake(&self, most: usize) {
        if most == 0 {
            return;
        }
        self.tasks.wake(most, || {
            // Relaxed: under the lock of the list, as the store above.
            self.is_waited.store(false, Ordering::Relaxed);
        });
    }
}

/// What all receivers of a lane share.
struct End<M, W: Wake> {
    receiver: Mutex<EgressReceiver<M, W>>,
    line: Arc<Line>,
}

impl<M, W: Wake> End<M, W> {
    /// Looks once. Also returns how many receivers are to be woken now.
    fn look(&self) -> (Result<M, TryRecvError>, usize) {
        let mut receiver = self.receiver.lock();
        let received = receiver.try_recv();
        // Relaxed: a receiver that waits has looked before, under this lock.
        let is_waited = self.line.is_waited.load(Ordering::Relaxed);
        let woken = match &received {
            _ if !is_waited => 0,
            Ok(_) => usize::from(receiver.is_ready()),
            Err(TryRecvError::Empty) => 0,
            Err(TryRecvError::Closed(_)) => usize::MAX,
        };
        (received, woken)
    }

    /// Receives, or has the task woken when it should look again. `task`: its number in the line.
    fn poll(
        &self,
        task: &mut Option<u64>,
        waiter: Waiter,
        cx: &Context<'_>,
    ) -> Poll<Result<M, RecvError>> {
        if !self.line.tasks.holds(*task) {
            // It was woken, and looks now.
            *task = None;
        }
        for has_entered in [false, true] {
            let (received, woken) = self.look();
            let received = match received {
                Ok(message) => Some(Ok(message)),
                Err(TryRecvError::Closed(by)) => Some(Err(RecvError(by))),
                Err(TryRecvError::Empty) => None,
            };
            if let Some(received) = received {
                // A wake-up after the look is for another receiver.
                let passes_on = self.line.tasks.leave(task);
                self.line.wake(woken.max(usize::from(passes_on)));
                return Poll::Ready(received);
            }
            if !has_entered {
                self.line.enter(task, waiter, cx);
            }
        }
        Poll::Pending
    }

    /// Gives up waiting: a wake-up that was received is for the next receiver.
    fn cancel(&self, task: &mut Option<u64>) {
        if self.line.tasks.leave(task) {
            self.line.wake(1);
        }
    }
}

/// Receives messages of type `M` that leave the graph on one lane, together with other receivers
/// of the lane. Made by [`EgressReceiver::share`].
///
/// Each message goes to one receiver. Clone the receiver for each thread or task; several threads
/// or tasks may also use one clone. The messages of each sending instance are taken in order. The
/// lane ends for all receivers when the graph has ended and everything was taken. If the last
/// receiver is dropped earlier, later messages count as undelivered, and no sender waits for room.
///
/// A message costs as much as with a single receiver, plus a lock that all receivers share;
/// [`recv_many`](Self::recv_many) takes the lock once for many messages. If one thread is fast
/// enough, an [`EgressReceiver`] costs less. If handlers can choose the receiver of each message,
/// an edge with several `lanes` needs no shared lock.
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
/// let app = App::builder(Echo).start()?;
/// let echoes = app.egress::<Echo, u64>(0).share();
/// let workers: Vec<_> = (0..3)
///     .map(|_| {
///         let echoes = echoes.clone();
///         std::thread::spawn(move || echoes.into_iter().sum::<u64>())
///     })
///     .collect();
/// let numbers = app.ingress::<Echo, u64>();
/// (1..=100).for_each(|number| numbers.send(number).unwrap());
/// app.drain(std::time::Duration::from_secs(10))?;
/// let sums = workers.into_iter().map(|worker| worker.join().unwrap());
/// assert_eq!(sums.sum::<u64>(), 5_050);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SharedReceiver<M, W: Wake = sharder::Handle> {
    end: Arc<End<M, W>>,
    /// Its number in the line, as a stream.
    task: Option<u64>,
}

impl<M, W: Wake> EgressReceiver<M, W> {
    /// Makes a receiver that can be cloned; each message of the lane goes to one of the clones.
    ///
    /// The new receiver replaces the [waker](Self::set_waker). Threads that wait
    /// [park](crate::primitive::WaitStrategy::Park), whatever [`set_wait`](Self::set_wait) said.
    #[must_use]
    pub fn share(mut self) -> SharedReceiver<M, W> {
        let line = Arc::new(Line {
            tasks: Tasks::new(),
            is_waited: AtomicBool::new(false),
        });
        let woken = Arc::clone(&line);
        self.set_waker(move || woken.wake(1));
        SharedReceiver {
            end: Arc::new(End {
                receiver: Mutex::new(self),
                line,
            }),
            task: None,
        }
    }
}

impl<M, W: Wake> SharedReceiver<M, W> {
    /// Receives if something is there. Waits for nothing but the lock.
    ///
    /// # Errors
    ///
    /// `Empty`, or `Closed` when the graph has ended and everything was taken.
    pub fn try_recv(&self) -> Result<M, TryRecvError> {
        let (received, woken) = self.end.look();
        self.end.line.wake(woken);
        received
    }

    /// Receives, waiting until something is there. Blocking.
    ///
    /// # Errors
    ///
    /// If the graph has ended and everything was taken.
    pub fn recv(&self) -> Result<M, RecvError> {
        loop {
            match self.recv_until(None) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Closed(by)) => return Err(RecvError(by)),
                Err(RecvTimeoutError::Elapsed) => {}
            }
        }
    }

    /// Receives, waiting at most `timeout`. Blocking.
    ///
    /// # Errors
    ///
    /// `Elapsed`, or `Closed` when the graph has ended and everything was taken.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<M, RecvTimeoutError> {
        self.recv_until(Instant::now().checked_add(timeout))
    }

    fn recv_until(&self, deadline: Option<Instant>) -> Result<M, RecvTimeoutError> {
        match self.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Closed(by)) => return Err(RecvTimeoutError::Closed(by)),
            Err(TryRecvError::Empty) => {}
        }
        let parker = Parker::new();
        let waker = Waker::from(StdArc::new(Thread(parker.unparker())));
        let mut cx = Context::from_waker(&waker);
        let mut receiving = self.recv_async();
        loop {
            if let Poll::Ready(received) = Pin::new(&mut receiving).poll(&mut cx) {
                return received.map_err(|RecvError(by)| RecvTimeoutError::Closed(by));
            }
            match deadline {
                None => parker.park(),
                Some(deadline) => {
                    if !parker.park_deadline(deadline) && Instant::now() >= deadline {
                        drop(receiving);
                        return self.try_recv().map_err(|error| match error {
                            TryRecvError::Empty => RecvTimeoutError::Elapsed,
                            TryRecvError::Closed(by) => RecvTimeoutError::Closed(by),
                        });
                    }
                }
            }
        }
    }

    /// Adds up to `most` messages to `out`, from all senders in turn, and returns how many. Waits
    /// for nothing but the lock, which it takes once.
    ///
    /// If it returns fewer than `most`, the lane was empty.
    pub fn recv_many(&self, out: &mut Vec<M>, most: usize) -> usize {
        let mut receiver = self.end.receiver.lock();
        let taken = receiver.drain(most, |message| out.push(message));
        // Relaxed: as in `look`.
        let is_waited = self.end.line.is_waited.load(Ordering::Relaxed);
        let wakes = is_waited && receiver.is_ready();
        drop(receiver);
        self.end.line.wake(usize::from(wakes));
        taken
    }

    /// Receives, as a task of any runtime. The future may be dropped at any time: it loses no
    /// message, and passes a wake-up that it received to another receiver.
    ///
    /// Its output is an error when the graph has ended and everything was taken.
    pub fn recv_async(&self) -> Receiving<'_, M, W> {
        Receiving {
            end: &self.end,
            task: None,
        }
    }

    /// Returns whether the graph has ended and everything was taken.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.end.receiver.lock().is_closed()
    }
}

/// Unparks the thread that waits.
struct Thread(Unparker);

impl std::task::Wake for Thread {
    fn wake(self: StdArc<Self>) {
        self.0.unpark();
    }
}

impl<M, W: Wake> Clone for SharedReceiver<M, W> {
    fn clone(&self) -> Self {
        Self {
            end: Arc::clone(&self.end),
            task: None,
        }
    }
}

impl<M, W: Wake> Drop for SharedReceiver<M, W> {
    fn drop(&mut self) {
        self.end.cancel(&mut self.task);
    }
}

/// The messages that this receiver takes, until the graph has ended and everything was taken.
///
/// A clone that waits as a stream may be kept without being polled: the others are woken as well.
#[cfg(feature = "async")]
impl<M, W: Wake> futures_core::Stream for SharedReceiver<M, W> {
    type Item = M;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<M>> {
        let Self { end, task } = &mut *self;
        end.poll(task, Waiter::Stays, cx).map(Result::ok)
    }
}

impl<M, W: Wake> fmt::Debug for SharedReceiver<M, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReceiver").finish_non_exhaustive()
    }
}

/// A receive that waits for a message, as a future: from [`SharedReceiver::recv_async`].
///
/// A future that is woken and then neither polled nor dropped keeps the wake-up from other
/// receivers.
#[must_use = "a future does nothing until it is polled"]
pub struct Receiving<'a, M, W: Wake = sharder::Handle> {
    end: &'a End<M, W>,
    /// Its number in the line.
    task: Option<u64>,
}

impl<M, W: Wake> Future for Receiving<'_, M, W> {
    type Output = Result<M, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { end, task } = &mut *self;
        end.poll(task, Waiter::Future, cx)
    }
}

impl<M, W: Wake> Drop for Receiving<'_, M, W> {
    fn drop(&mut self) {
        self.end.cancel(&mut self.task);
    }
}

impl<M, W: Wake> fmt::Debug for Receiving<'_, M, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving")
            .field("is_waiting", &self.task.is_some())
            .finish_non_exhaustive()
    }
}
