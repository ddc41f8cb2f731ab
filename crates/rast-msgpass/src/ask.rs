//! Requests to a graph from outside: a message with a slot for its answer.
//!
//! ```text
//!   asking thread or task                    processor
//!   Answer ◄──── Slot: Mutex<State> ◄─────── Reply, which came in the message Ask
//!                Waiting ──► Ready(answer)      by Reply::send
//!                        ──► Dropped            by the drop of Reply
//!                        ──► Gone               by the drop of Answer
//! ```
//!
//! 1. The state leaves `Waiting` once, under the lock, so either the `Reply` or the `Answer` takes
//!    the registered waker. The `Reply` calls the waker after it has released the lock. The
//!    `Answer` drops it.
//! 2. An asking thread blocks on the slot's `signal`, which is sent once, after the state has
//!    become `Ready` or `Dropped`.
//! 3. The lock is not held while a waker is cloned, or while a waker or an answer is dropped. These
//!    operations run user code.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::error::Error;
use std::time::Instant;

use crate::door::{Closed, TrySendError};
use crate::graph::{Edge, Ingress, Node, Single};
use crate::ingress::{IngressPort, IngressSender};
use crate::primitive::Signal;
use crate::primitive::panics::quietly;
use crate::primitive::sync::{Arc, Mutex};

/// The state of one request.
enum State<A> {
    /// There is no answer yet; the waker is that of the task that polled last.
    Waiting(Option<Waker>),
    Ready(A),
    /// The `Reply` was dropped.
    Dropped,
    /// The `Answer` was dropped, or has returned the answer.
    Gone,
}

struct Slot<A> {
    state: Mutex<State<A>>,
    signal: Signal,
}

impl<A> Slot<A> {
    fn is_waiting(&self) -> bool {
        matches!(*self.state.lock(), State::Waiting(_))
    }

    /// Replaces `Waiting` by `with`; returns `with` if the asking side is gone.
    fn end(&self, with: State<A>) -> Option<State<A>> {
        let mut state = self.state.lock();
        if !matches!(*state, State::Waiting(_)) {
            return Some(with);
        }
        let before = core::mem::replace(&mut *state, with);
        drop(state);
        self.signal.send();
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
        None
    }

    /// Takes the answer, or the error that none will come.
    fn take(&self) -> Result<A, AnswerError> {
        let mut state = self.state.lock();
        match &*state {
            State::Waiting(_) => Err(AnswerError::Pending),
            State::Dropped | State::Gone => Err(AnswerError::Dropped),
            State::Ready(_) => match core::mem::replace(&mut *state, State::Gone) {
                State::Ready(answer) => Ok(answer),
                _ => unreachable!("it was matched under the same lock"),
            },
        }
    }
}

/// A request `M` from outside the graph, which is answered by an `A`. It is the message of an edge
/// from ingress.
///
/// [`IngressSender::ask`] sends it and waits for the answer. The handler takes the `Ask` apart and
/// answers by the [`Reply`]: at once, or later, from any processor or thread. If the `Reply` is
/// dropped, the handler panics, or the graph ends before the request is handled, the asking thread
/// gets an error. If a `Reply` is in the state of a processor when the graph ends, the
/// [`Report`](crate::Report) keeps that state with the `Reply`. The asking thread then waits until
/// the state is dropped, or until its time limit.
///
/// An ask costs an allocation, a send at ingress, and the wake-up of the asking thread.
///
/// ```
/// use std::time::Duration;
/// use rast_msgpass::{Ask, AskError, Cx, Ingress, Process, Receive, graph};
///
/// struct Squares;
/// graph! {
///     graph App {
///         processors { squares: Squares }
///         edges { ingress -> squares: Ask<u64, u64>; }
///     }
/// }
/// impl Process<App> for Squares {}
/// impl Receive<App, Ingress, Ask<u64, u64>> for Squares {
///     fn receive(&mut self, ask: Ask<u64, u64>, _: &mut Cx<'_, App, Self>) {
///         let (number, reply) = ask.into_parts();
///         if let Some(square) = number.checked_mul(number) {
///             // Fails if the asking thread does not wait any more.
///             let _ = reply.send(square);
///         }
///     }
/// }
///
/// let app = App::builder(Squares).start()?;
/// let squares = app.ingress::<Squares, Ask<u64, u64>>();
/// let second = Duration::from_secs(10);
/// assert_eq!(squares.ask(12, second), Ok(144));
/// // The handler has dropped the reply.
/// assert_eq!(squares.ask(u64::MAX, second), Err(AskError::Dropped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ask<M, A> {
    request: M,
    reply: Reply<A>,
}

impl<M, A> Ask<M, A> {
    /// Makes a request and its answer, to be sent by the caller. A test with a single thread, which
    /// must not block, uses this.
    pub fn new(request: M) -> (Self, Answer<A>) {
        let slot = Arc::new(Slot {
            state: Mutex::new(State::Waiting(None)),
            signal: Signal::new(),
        });
        let reply = Reply {
            slot: Some(Arc::clone(&slot)),
        };
        (Self { request, reply }, Answer { slot })
    }

    /// Returns the request.
    pub fn request(&self) -> &M {
        &self.request
    }

    /// Answers, as [`Reply::send`].
    ///
    /// # Errors
    ///
    /// The answer, if the asking side does not wait any more.
    ///
    /// # Panics
    ///
    /// As [`Reply::send`].
    pub fn answer(self, answer: A) -> Result<(), A> {
        self.reply.send(answer)
    }

    /// Returns the request, and the right to answer it.
    pub fn into_parts(self) -> (M, Reply<A>) {
        (self.request, self.reply)
    }
}

impl<M, A> fmt::Debug for Ask<M, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").finish_non_exhaustive()
    }
}

/// The right to answer one [`Ask`]. Dropping it gives the asking side an error; a panic of that
/// side's waker is then caught.
#[must_use = "a reply that is dropped leaves its request without an answer"]
pub struct Reply<A> {
    /// `None` once it was answered.
    slot: Option<Arc<Slot<A>>>,
}

impl<A> Reply<A> {
    /// Answers, and wakes the asking thread or task. Takes a lock while it moves the answer.
    ///
    /// # Errors
    ///
    /// The answer, if the asking side does not wait any more.
    ///
    /// # Panics
    ///
    /// If the waker of an asking task panics. The answer is delivered nevertheless.
    pub fn send(mut self, answer: A) -> Result<(), A> {
        let slot = self.slot.take().expect("`send` takes the reply");
        match slot.end(State::Ready(answer)) {
            Some(State::Ready(answer)) => Err(answer),
            _ => Ok(()),
        }
    }

    /// Returns `true` if the asking side still waits; otherwise the work is not needed.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        let slot = self.slot.as_ref();
        slot.is_some_and(|slot| slot.is_waiting())
    }
}

impl<A> Drop for Reply<A> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            // If a handler that unwinds drops its replies and a waker panicked too, the process
            // would abort.
            quietly(|| drop(slot.end(State::Dropped)));
        }
    }
}

impl<A> fmt::Debug for Reply<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

/// The reason why an [`Answer`] has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// None has arrived yet.
    Pending,
    /// None will arrive: the [`Reply`] was dropped, or the answer was taken before.
    Dropped,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "there is no answer yet",
            Self::Dropped => "there will be no answer",
        })
    }
}

impl Error for AnswerError {}

/// The answer to one [`Ask`]: a thread gets it by [`wait`](Self::wait), a task awaits it.
///
/// As a future it needs no particular runtime, and returns [`AnswerError::Dropped`] if no answer
/// will come. If it is dropped, a later [`Reply::send`] returns its answer.
#[must_use = "the answer comes here"]
pub struct Answer<A> {
    slot: Arc<Slot<A>>,
}

impl<A> Answer<A> {
    /// Returns the answer if it has arrived. Takes a lock while it moves the answer.
    ///
    /// # Errors
    ///
    /// `Pending`, or `Dropped` if none will come.
    pub fn try_take(&mut self) -> Result<A, AnswerError> {
        self.slot.take()
    }

    /// Waits for the answer, at most `timeout`. Blocking; must not be called by a handler, because
    /// its worker would wait too.
    ///
    /// # Errors
    ///
    /// `Pending` if the time is over, or `Dropped` if none will come.
    pub fn wait(self, timeout: Duration) -> Result<A, AnswerError> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn wait_until(mut self, deadline: Option<Instant>) -> Result<A, AnswerError> {
        if self.slot.is_waiting() {
            match deadline {
                None => self.slot.signal.receive_blocking(),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    self.slot.signal.receive_timeout(left);
                }
            }
        }
        self.try_take()
    }
}

impl<A> Future for Answer<A> {
    type Output = Result<A, AnswerError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone();
        let mut state = self.slot.state.lock();
        let before = match &mut *state {
            State::Waiting(before) => before.replace(waker),
            _ => {
                drop(state);
                return Poll::Ready(self.slot.take());
            }
        };
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl<A> Drop for Answer<A> {
    fn drop(&mut self) {
        let before = core::mem::replace(&mut *self.slot.state.lock(), State::Gone);
        drop(before);
    }
}

impl<A> fmt::Debug for Answer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

/// The reason why an ask has no answer. Contains the request if it was not accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AskError<M> {
    /// The door had no room in time: the request was not accepted.
    Full(M),
    /// The graph drains or has ended: the request was not accepted.
    Closed(Closed<M>),
    /// The request was accepted, and no answer came in time. It may still be handled.
    Elapsed,
    /// The request was accepted, and there will be no answer: the handler dropped its [`Reply`]
    /// or panicked, or the graph has ended.
    Dropped,
}

impl<M> AskError<M> {
    /// Returns the request if it was not accepted.
    pub fn into_inner(self) -> Option<M> {
        match self {
            Self::Full(request) => Some(request),
            Self::Closed(closed) => Some(closed.into_inner()),
            Self::Elapsed | Self::Dropped => None,
        }
    }

    fn refused<A>(error: TrySendError<Ask<M, A>>) -> Self {
        match error {
            TrySendError::Full(ask) => Self::Full(ask.request),
            TrySendError::Closed(closed) => Self::Closed(closed.map(|ask| ask.request)),
        }
    }

    fn unanswered(error: AnswerError) -> Self {
        match error {
            AnswerError::Pending => Self::Elapsed,
            AnswerError::Dropped => Self::Dropped,
        }
    }
}

impl<M> fmt::Debug for AskError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("Full(..)"),
            Self::Closed(closed) => closed.fmt(f),
            Self::Elapsed => f.write_str("Elapsed"),
            Self::Dropped => f.write_str("Dropped"),
        }
    }
}

impl<M> fmt::Display for AskError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the door was full"),
            Self::Closed(closed) => fmt::Display::fmt(closed, f),
            Self::Elapsed => f.write_str("there was no answer in time"),
            Self::Dropped => AnswerError::Dropped.fmt(f),
        }
    }
}

impl<M> Error for AskError<M> {}

impl<M, A> IngressPort<'_, Ask<M, A>> {
    /// Sends a request and waits for its answer, in all at most `timeout`. Blocking; must not be
    /// called by a handler, because its worker would wait too.
    ///
    /// # Errors
    ///
    /// [`AskError`]: whether the request was accepted, and why there is no answer.
    pub fn ask(&self, request: M, timeout: Duration) -> Result<A, AskError<M>> {
        let deadline = Instant::now().checked_add(timeout);
        let (ask, answer) = Ask::new(request);
        self.send_until(ask, deadline).map_err(AskError::refused)?;
        answer.wait_until(deadline).map_err(AskError::unanswered)
    }

    /// Sends a request and waits for its answer, as a task of any runtime, without a time limit.
    /// The runtime's own timeout may drop the future. An accepted request is handled in any case.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask), except for `Full` and `Elapsed`.
    pub async fn ask_async(&self, request: M) -> Result<A, AskError<M>> {
        let (ask, answer) = Ask::new(request);
        let sent = self.send_async(ask).await;
        sent.map_err(|closed| AskError::refused(TrySendError::Closed(closed)))?;
        answer.await.map_err(AskError::unanswered)
    }
}

// The bound `Single` is at the methods: there the compiler says what to write if it is missing.
impl<G, P, M, A> IngressSender<G, P, Ask<M, A>>
where
    G: Node<Ingress> + Node<P>,
    Ask<M, A>: Edge<G, Ingress, P>,
{
    /// As [`IngressPort::ask`], for a processor without replicas.
    ///
    /// # Errors
    ///
    /// As [`IngressPort::ask`].
    pub fn ask(&self, request: M, timeout: Duration) -> Result<A, AskError<M>>
    where
        G: Single<P>,
    {
        self.port(0).ask(request, timeout)
    }

    /// As [`IngressPort::ask_async`], for a processor without replicas.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask), except for `Full` and `Elapsed`.
    pub async fn ask_async(&self, request: M) -> Result<A, AskError<M>>
    where
        G: Single<P>,
    {
        self.port(0).ask_async(request).await
    }
}
