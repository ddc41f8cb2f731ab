//! The readiness poll and the tasks that wait for it.

use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std_alloc::vec::Vec;

use mio::{Events, Registry, Token};

use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::primitive::sync::{Arc, Mutex};
use crate::wakers::wake;

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
pub(super) struct Side {
    pub(super) is_ready: bool,
    /// Number of edges.
    pub(super) tick: u64,
    /// Set when an end or an error was reported, which the poll does not report again.
    is_over: bool,
    pub(super) waiting: Vec<Waker>,
}

#[derive(Debug)]
pub(super) struct Sides {
    reading: Side,
    writing: Side,
    /// Set when the runtime has ended: no thread polls any more.
    pub(super) is_gone: bool,
}

/// The state of one socket.
#[derive(Debug)]
pub(super) struct Readiness(pub(super) Mutex<Sides>);

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
    pub(super) fn block(&self, direction: Direction, tick: u64) {
        let mut sides = self.0.lock();
        let side = sides.side(direction);
        if side.tick == tick {
            side.is_ready = false;
        }
    }

    /// As [`block`](Self::block), before an operation has failed. A reported end stays ready,
    /// because an operation must still find it.
    pub(super) fn block_until_edge(&self, direction: Direction, tick: u64) {
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
    pub(super) fn side(&mut self, direction: Direction) -> &mut Side {
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
    pub(super) registry: Registry,
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

    /// Returns `true` if there is a socket.
    pub(super) fn has_sockets(&self) -> bool {
        // Relaxed: the thread of the poll asks, and it adds the first socket itself: other threads
        // add sockets only beside one that is there. [XO4]
        self.sockets.load(Ordering::Relaxed) != 0
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
        wakers.into_iter().for_each(wake);
    }

    pub(super) fn enter(&self) -> (Token, Arc<Readiness>) {
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

    pub(super) fn leave(&self, token: Token) {
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

/// The sockets of a [`PollDriver`](super::PollDriver), for a driver that wraps it: see
/// [`Driver::sockets`](crate::Driver::sockets).
#[derive(Clone, Debug)]
pub struct Sockets(pub(crate) Arc<Reactor>);

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
