//! The accepting side of the I/O processors.
//!
//! New sockets go to the processors in turn, while there are fewer connections than the limit. A
//! connection that its client has closed counts until its processor has seen the end of the stream.
//! A busy system may deliver this end after the next connect. So a new connection above the limit
//! waits for up to [`PATIENCE`] until a place becomes free, and is then refused.

use std::io::{self, ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, Socket, Type};

use crate::encode;
use crate::io::Mailbox;
use crate::shared::Shared;

/// Connections that the system keeps until they are accepted, as with Redis; the
/// standard library asks for a quarter of it.
const BACKLOG: i32 = 511;
/// Sockets accepted in one turn.
const ACCEPTS: usize = 64;
/// How soon a failed accept is tried again: the process is short of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How soon held connections are given places that became free.
const PLACE_RETRY: Duration = Duration::from_millis(1);
/// How long a connection waits for a place before it is refused.
const PATIENCE: Duration = Duration::from_millis(200);

/// Listens on 127.0.0.1.
pub(crate) fn bind(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    // On Windows this would let another process take the port too.
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// The accepting side, which processor 0 has.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    /// Those of all processors, this one first.
    mailboxes: Vec<Arc<Mailbox>>,
    next: usize,
    /// A connection may be waiting.
    ready: bool,
    retry_at: Option<Instant>,
    /// Accepted when all places were taken.
    held: Vec<TcpStream>,
    held_since: Instant,
}

impl Listener {
    /// Accepts for `mailboxes`, the first of which is the caller's.
    pub(crate) fn new(socket: TcpListener, mailboxes: Vec<Arc<Mailbox>>) -> Self {
        Self {
            socket,
            mailboxes,
            next: 0,
            ready: true,
            retry_at: None,
            held: Vec::new(),
            held_since: Instant::now(),
        }
    }

    /// Takes note that a connection may be waiting.
    pub(crate) fn wake(&mut self) {
        self.ready = true;
    }

    /// When it has something to do though nothing wakes it.
    pub(crate) fn next_turn(&self, now: Instant) -> Option<Duration> {
        let looking = (!self.held.is_empty()).then_some(PLACE_RETRY);
        let retry = self.retry_at.map(|at| at.saturating_duration_since(now));
        [looking, retry].into_iter().flatten().min()
    }

    /// Accepts what is waiting; returns whether there is more than one turn takes.
    pub(crate) fn accept(&mut self, shared: &Shared) -> bool {
        if !self.held.is_empty() && !self.place_held(shared) {
            return false;
        }
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry_at = None;
            self.ready = true;
        }
        for _ in 0..ACCEPTS {
            if !self.ready {
                break;
            }
            match self.socket.accept() {
                Ok((stream, _)) if self.held.is_empty() && has_place(shared) => {
                    self.hand_out(stream, shared);
                }
                Ok((stream, _)) => self.held.push(stream),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => self.ready = false,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    _ => {
                        self.ready = false;
                        self.retry_at = Some(Instant::now() + ACCEPT_RETRY);
                    }
                },
            }
        }
        if self.held.is_empty() {
            return self.ready;
        }
        self.held_since = Instant::now();
        false
    }

    /// Places what was held as far as there is room, and refuses the rest once it has
    /// waited long enough. Returns whether nothing is held any more.
    fn place_held(&mut self, shared: &Shared) -> bool {
        let is_over = self.held_since.elapsed() >= PATIENCE;
        for stream in std::mem::take(&mut self.held) {
            if has_place(shared) {
                self.hand_out(stream, shared);
            } else if is_over {
                refuse(&stream, shared);
            } else {
                self.held.push(stream);
            }
        }
        self.held.is_empty()
    }

    fn hand_out(&mut self, stream: TcpStream, shared: &Shared) {
        let counters = &shared.counters;
        counters.connected.add(1);
        counters.accepted.add(1);
        let mailbox = &self.mailboxes[self.next % self.mailboxes.len()];
        self.next = self.next.wrapping_add(1);
        // Only this processor raises this figure, so numbers are unique.
        let numbered = (counters.accepted.get(), stream);
        if mailbox.sockets.push(numbered).is_err() {
            counters.connected.sub(1);
        }
        mailbox.wake();
    }
}

/// Whether a connection may be added. Only one processor adds them, so the limit is
/// kept.
fn has_place(shared: &Shared) -> bool {
    shared.counters.connected.get() < shared.settings.limits.connections as u64
}

fn refuse(stream: &TcpStream, shared: &Shared) {
    shared.counters.rejected.add(1);
    let mut line = Vec::new();
    encode::error(&mut line, "ERR max number of clients reached");
    // A new socket accepts a line without blocking. If it does not, the line is dropped.
    let _ = (&mut &*stream).write(&line);
}
