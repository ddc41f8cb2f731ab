//! The readiness poll and the tasks that wait for it.

use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std_alloc::vec::Vec;

use mio::{Events, Registry, Token};

use super::readiness::{Edge, Readiness};
use crate::ids::Ids;
use crate::places::Places;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::primitive::sync::{Arc, Mutex};
use crate::wakers::wake;

/// Maximum number of events that are taken from the system at once.
const EVENTS: usize = 256;

/// The token of the interruption.
const INTERRUPT: Token = Token(usize::MAX);

/// A socket that is registered.
#[derive(Debug)]
struct Registered {
    token: Token,
    /// The part of the token that is its generation.
    generation: u32,
    readiness: Arc<Readiness>,
}

/// The sockets by token. Its memory follows the number of sockets.
#[derive(Debug, Default)]
struct Table {
    sockets: Places<Option<Registered>>,
    ids: Ids,
    is_closed: bool,
}

/// The token of an id. With 32-bit addresses an event of a closed socket may be taken for one of a
/// later socket at the same index, which costs a failed operation.
fn token_of(index: u32, generation: u32) -> Token {
    Token((u64::from(generation) << 32 | u64::from(index)) as usize)
}

/// The index in a token.
fn index_of(token: Token) -> u32 {
    token.0 as u32
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
            table: Mutex::default(),
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
            if let Some(Some(socket)) = table.sockets.get(index_of(event.token()))
                && socket.token == event.token()
            {
                let is_broken = event.is_error();
                // A read ends before an urgent byte although more bytes are queued behind it, so
                // from now on no read may be taken for one that has emptied the system's buffer.
                let is_read_over = event.is_read_closed() || event.is_priority();
                socket.readiness.note(
                    Edge::of(event.is_readable(), is_read_over || is_broken),
                    Edge::of(event.is_writable(), event.is_write_closed() || is_broken),
                    wakers,
                );
            }
        }
        is_interrupted
    }

    /// Returns `true` if there is a socket.
    pub(super) fn has_sockets(&self) -> bool {
        // Relaxed: only the thread of the poll calls this. It adds the first socket itself; other
        // threads add sockets only while there is one. [XO4]
        self.sockets.load(Ordering::Relaxed) != 0
    }

    /// Ends the wait in [`poll`](Self::poll) or, if no thread waits there now, the next one.
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
            for socket in table.sockets.values().flatten() {
                socket.readiness.end(&mut wakers);
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
        let (index, generation) = table.ids.give();
        let token = token_of(index, generation);
        let socket = Registered {
            token,
            generation,
            readiness: Arc::clone(&readiness),
        };
        table.sockets.put(index, Some(socket));
        // Relaxed: as XO1. [XO2]
        self.sockets.fetch_add(1, Ordering::Relaxed);
        (token, readiness)
    }

    /// Cost: constant, and after many sockets were closed a scan of the table.
    pub(super) fn leave(&self, token: Token) {
        let socket = {
            let mut table = self.table.lock();
            let index = index_of(token);
            let socket = table.sockets.take(index);
            if let Some(socket) = &socket {
                table.ids.take_back(index, socket.generation);
            }
            table.sockets.fit();
            socket
        };
        // Relaxed: as XO1. [XO3]
        self.sockets.fetch_sub(1, Ordering::Relaxed);
        // Outside the lock, because it contains wakers.
        drop(socket);
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

    #[test]
    fn a_table_that_had_many_sockets_is_small_again() {
        const MANY: usize = 10_000;
        let reactor = Reactor::new().unwrap();
        let mut tokens: Vec<_> = (0..MANY).map(|_| reactor.enter().0).collect();
        // The last one stays, at the highest index.
        let last = tokens.pop().unwrap();
        // In an order in which no two neighbours follow each other.
        for n in 0..tokens.len() {
            reactor.leave(tokens[n * 7_919 % tokens.len()]);
        }
        let table = reactor.table.lock();
        assert_eq!(table.sockets.len(), 1);
        let places = table.sockets.near().len();
        assert!(places <= 512, "{places} places for one socket");
        drop(table);
        // An event of a socket that was closed names no other one.
        let again: Vec<_> = (0..MANY).map(|_| reactor.enter().0).collect();
        #[cfg(target_pointer_width = "64")]
        assert!(again.iter().all(|token| !tokens.contains(token)));
        assert!(!again.contains(&last));
        again.into_iter().for_each(|token| reactor.leave(token));
        reactor.leave(last);
        assert!(!reactor.has_sockets());
    }
}
