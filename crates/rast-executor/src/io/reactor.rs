//! The readiness poll and the tasks that wait for it.

use core::fmt;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std_alloc::vec::Vec;

use mio::{Events, Interest, Registry, Token};

use crate::budget;
use crate::context::{self, OUTSIDE, Place};
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::primitive::sync::{Arc, Mutex};

/// Maximum number of events that are taken from the system at once.
const EVENTS: usize = 256;

/// The token of the interruption.
const INTERRUPT: Token = Token(usize::MAX);

/// A direction of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Reading,
    Writing,
}

/// The waiters of one direction.
#[derive(Debug)]
struct Side {
    is_ready: bool,
    /// Number of edges.
    tick: u64,
    /// Set when an end or an error was reported, which the poll does not report again.
    is_over: bool,
    waiting: Vec<Waker>,
}

#[derive(Debug)]
struct Sides {
    reading: Side,
    writing: Side,
    /// Set when the runtime has ended: no thread polls any more.
    is_gone: bool,
}

/// The state of one socket.
#[derive(Debug)]
struct Readiness(Mutex<Sides>);

impl Readiness {
    fn new() -> Self {
        let side = || Side {
            is_ready: true,
            tick: 0,
            is_over: false,
            waiting: Vec::new(),
        };
        Self(Mutex::new(Sides {
            reading: side(),
            writing: side(),
            is_gone: false,
        }))
    }

    /// Records an edge; adds the wakers of its waiters.
    fn note(&self, reading: Edge, writing: Edge, wakers: &mut Vec<Waker>) {
        let mut sides = self.0.lock();
        let sides = &mut *sides;
        for (edge, side) in [(reading, &mut sides.reading), (writing, &mut sides.writing)] {
            if edge != Edge::None {
                side.is_ready = true;
                side.is_over |= edge == Edge::Last;
                side.tick += 1;
                wakers.append(&mut side.waiting);
            }
        }
    }

    /// Records that an operation would block: the next one waits, unless an edge came since `tick`.
    fn block(&self, direction: Direction, tick: u64) {
        let mut sides = self.0.lock();
        let side = sides.side(direction);
        if side.tick == tick {
            side.is_ready = false;
        }
    }

    /// As [`block`](Self::block), before an operation has failed. A reported end stays ready,
    /// because an operation must still find it.
    fn block_until_edge(&self, direction: Direction, tick: u64) {
        let mut sides = self.0.lock();
        let side = sides.side(direction);
        if side.tick == tick && !side.is_over {
            side.is_ready = false;
        }
    }

    fn end(&self, wakers: &mut Vec<Waker>) {
        self.0.lock().is_gone = true;
        self.note(Edge::Last, Edge::Last, wakers);
    }
}

/// State that an event reports for one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    None,
    /// An operation may succeed.
    Ready,
    /// An operation may succeed, or find the end or an error.
    Last,
}

impl Edge {
    fn of(is_ready: bool, is_over: bool) -> Self {
        match (is_ready, is_over) {
            (_, true) => Self::Last,
            (true, false) => Self::Ready,
            (false, false) => Self::None,
        }
    }
}

impl Sides {
    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Reading => &mut self.reading,
            Direction::Writing => &mut self.writing,
        }
    }
}

/// The sockets by token.
#[derive(Debug, Default)]
struct Table {
    places: Vec<Option<Arc<Readiness>>>,
    free: Vec<usize>,
    is_closed: bool,
}

/// The poll of a runtime.
pub(crate) struct Reactor {
    poll: Mutex<(mio::Poll, Events)>,
    registry: Registry,
    waker: mio::Waker,
    table: Mutex<Table>,
    /// Number of sockets: a busy worker without any does not poll.
    sockets: AtomicUsize,
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").finish_non_exhaustive()
    }
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        Ok(Self {
            registry: poll.registry().try_clone()?,
            waker: mio::Waker::new(poll.registry(), INTERRUPT)?,
            poll: Mutex::new((poll, Events::with_capacity(EVENTS))),
            table: Mutex::new(Table::default()),
            sockets: AtomicUsize::new(0),
        })
    }

    /// Returns the reactor of the runtime that runs the caller.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    fn current() -> Arc<Self> {
        context::with(|context| {
            let shared = match &context.expect(OUTSIDE).place {
                Place::Worker(worker) => &worker.shared,
                Place::Outside(lane) => &lane.shared,
                Place::Local(_) => panic!("sockets need a Runtime: a LocalExecutor has no poll"),
            };
            let reactor = shared.driver.reactor();
            Arc::clone(reactor.expect("io: a runtime has a reactor"))
        })
    }

    /// Waits for events, at most for `timeout`, and adds the wakers of ready tasks.
    pub(crate) fn poll(&self, timeout: Option<Duration>, wakers: &mut Vec<Waker>) {
        let mut state = self.poll.lock();
        self.poll_locked(&mut state, timeout, wakers);
    }

    /// As [`poll`](Self::poll) without waiting; does nothing while another thread polls.
    pub(crate) fn look(&self, wakers: &mut Vec<Waker>) {
        // Relaxed: a hint; a later check or a sleep sees a new socket. [XO1]
        if self.sockets.load(Ordering::Relaxed) != 0
            && let Some(mut state) = self.poll.try_lock()
            && self.poll_locked(&mut state, Some(Duration::ZERO), wakers)
        {
            // The interruption is for the worker that is about to sleep in the poll, and comes only
            // once.
            self.interrupt();
        }
    }

    /// Returns whether there was an interruption.
    fn poll_locked(
        &self,
        (poll, events): &mut (mio::Poll, Events),
        timeout: Option<Duration>,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        // The only possible error is an interrupted call, which is a spurious wake-up.
        if poll.poll(events, timeout).is_err() || events.is_empty() {
            return false;
        }
        let mut is_interrupted = false;
        let table = self.table.lock();
        for event in &*events {
            is_interrupted |= event.token() == INTERRUPT;
            if let Some(Some(readiness)) = table.places.get(event.token().0) {
                let is_broken = event.is_error();
                readiness.note(
                    Edge::of(event.is_readable(), event.is_read_closed() || is_broken),
                    Edge::of(event.is_writable(), event.is_write_closed() || is_broken),
                    wakers,
                );
            }
        }
        is_interrupted
    }

    /// Ends a wait in [`poll`](Self::poll), this one or the next.
    pub(crate) fn interrupt(&self) {
        // It fails only if the event's counter is full, and then the event is set.
        let _ = self.waker.wake();
    }

    /// Fails all operations from now on, because nothing polls any more.
    pub(crate) fn close(&self) {
        let mut wakers = Vec::new();
        {
            let mut table = self.table.lock();
            table.is_closed = true;
            for readiness in table.places.iter().flatten() {
                readiness.end(&mut wakers);
            }
        }
        wakers.into_iter().for_each(crate::deadlines::wake);
    }

    fn enter(&self) -> (Token, Arc<Readiness>) {
        let readiness = Arc::new(Readiness::new());
        let mut table = self.table.lock();
        if table.is_closed {
            readiness.0.lock().is_gone = true;
        }
        let place = table.free.pop().unwrap_or_else(|| {
            table.places.push(None);
            table.places.len() - 1
        });
        table.places[place] = Some(Arc::clone(&readiness));
        // Relaxed: as XO1. [XO2]
        self.sockets.fetch_add(1, Ordering::Relaxed);
        (Token(place), readiness)
    }

    fn leave(&self, token: Token) {
        let readiness = {
            let mut table = self.table.lock();
            table.free.push(token.0);
            table.places[token.0].take()
        };
        // Relaxed: as XO1. [XO3]
        self.sockets.fetch_sub(1, Ordering::Relaxed);
        // Outside the lock, because it contains wakers.
        drop(readiness);
    }
}

/// A socket that is registered with a reactor.
#[derive(Debug)]
pub(crate) struct Source<S: mio::event::Source> {
    socket: S,
    token: Token,
    readiness: Arc<Readiness>,
    reactor: Arc<Reactor>,
}

impl<S: mio::event::Source> Source<S> {
    /// Registers with the reactor of the runtime that runs the caller.
    #[track_caller]
    pub(crate) fn new(socket: S) -> io::Result<Self> {
        Self::with(socket, Reactor::current())
    }

    /// Registers another socket with the same reactor.
    pub(crate) fn beside<T: mio::event::Source>(&self, socket: T) -> io::Result<Source<T>> {
        Source::with(socket, Arc::clone(&self.reactor))
    }

    fn with(mut socket: S, reactor: Arc<Reactor>) -> io::Result<Self> {
        let (token, readiness) = reactor.enter();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = reactor.registry.register(&mut socket, token, interest) {
            reactor.leave(token);
            return Err(error);
        }
        Ok(Self {
            socket,
            token,
            readiness,
            reactor,
        })
    }

    pub(crate) fn socket(&self) -> &S {
        &self.socket
    }

    /// Calls `operation` until it does not block; while it would, the task waits for the direction.
    pub(crate) fn poll<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        operation: impl FnMut(&S) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_until(direction, cx, operation, |_| false)
    }

    /// As [`poll`](Self::poll). If `is_last` returns `true` for the result, the next operation
    /// would block, and waits without being tried.
    pub(super) fn poll_until<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&S) -> io::Result<T>,
        is_last: impl Fn(&T) -> bool,
    ) -> Poll<io::Result<T>> {
        if budget::spend(cx).is_pending() {
            return Poll::Pending;
        }
        loop {
            let tick = {
                let mut sides = self.readiness.0.lock();
                if sides.is_gone {
                    let gone = "the runtime of the socket is shut down";
                    return Poll::Ready(Err(io::Error::other(gone)));
                }
                let side = sides.side(direction);
                if !side.is_ready {
                    if !side.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                        side.waiting.push(cx.waker().clone());
                    }
                    return Poll::Pending;
                }
                side.tick
            };
            match operation(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readiness.block(direction, tick);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    if result.as_ref().is_ok_and(&is_last) {
                        self.readiness.block_until_edge(direction, tick);
                    }
                    return Poll::Ready(result);
                }
            }
        }
    }

    /// As [`poll`](Self::poll), awaited.
    pub(crate) async fn run<T>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        self.wait(direction, |cx| self.poll(direction, cx, &mut operation))
            .await
    }

    /// Awaits a function that polls this socket in this direction.
    pub(super) async fn wait<T>(
        &self,
        direction: Direction,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> T {
        let mut waits = Waits {
            readiness: &self.readiness,
            direction,
            waker: None,
        };
        core::future::poll_fn(|cx| {
            let polled = poll(cx);
            if polled.is_ready() {
                waits.waker = None;
            } else if !matches!(&waits.waker, Some(waker) if waker.will_wake(cx.waker())) {
                waits.leave();
                waits.waker = Some(cx.waker().clone());
            }
            polled
        })
        .await
    }
}

/// A future that waits. Dropping it removes its waker, so that a socket without events does not
/// keep tasks alive that once waited for it.
struct Waits<'a> {
    readiness: &'a Readiness,
    direction: Direction,
    waker: Option<Waker>,
}

impl Waits<'_> {
    fn leave(&mut self) {
        let Some(waker) = self.waker.take() else {
            return;
        };
        let taken = {
            let mut sides = self.readiness.0.lock();
            let waiting = &mut sides.side(self.direction).waiting;
            let at = waiting.iter().position(|other| other.will_wake(&waker));
            at.map(|at| waiting.swap_remove(at))
        };
        // Another future of the same task may use this waker: make the task poll that one again.
        if let Some(taken) = taken {
            crate::deadlines::wake(taken);
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<S: mio::event::Source> Drop for Source<S> {
    fn drop(&mut self) {
        // The socket is closed next, which deregisters it in any case.
        let _ = self.reactor.registry.deregister(&mut self.socket);
        self.reactor.leave(self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_of_another_worker_leaves_the_interruption_to_the_one_that_polls() {
        let reactor = Reactor::new().unwrap();
        let mut wakers = Vec::new();
        let (token, _readiness) = reactor.enter();
        reactor.interrupt();
        reactor.look(&mut wakers);
        let mut state = reactor.poll.lock();
        let (poll, events) = &mut *state;
        poll.poll(events, Some(Duration::ZERO)).unwrap();
        assert!(events.iter().any(|event| event.token() == INTERRUPT));
        drop(state);
        reactor.leave(token);
    }
}
