//! One socket with its connection, and the table of an I/O processor's sockets.
//!
//! Readiness is edge-triggered: an event says that a socket *became* readable or writable. So a
//! peer remembers its readiness until a call returns `WouldBlock`.
//!
//! A connection that is done is not closed at once. A close with unread bytes in the socket resets
//! the connection, and a reset destroys replies that the client has not read yet. So the sending
//! side is shut first. Bytes that still arrive are read and dropped until the client closes its
//! side, or [`LINGER`] is over.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use mio::net::TcpStream;

use crate::conn::{Connection, Door, Fault};
use crate::message::ConnectionId;
use crate::shared::Shared;

/// How long a client may take to close its side after the last reply.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

/// Reads of one socket in one turn, so that one sender delays the others by a
/// bounded time.
const READS: usize = 4;

/// A socket and its connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    pub(crate) connection: Connection,
    readable: bool,
    writable: bool,
    /// It is not read while the buffers of all are past their limit.
    paused: bool,
    /// The client has shut its sending side, or more.
    read_closed: bool,
    /// A batch of replies is being sent.
    is_sending: bool,
    /// The last reply was sent.
    pub(crate) lingering: bool,
    /// It is counted among the connections.
    pub(crate) placed: bool,
    /// The socket is in the list of those to be served.
    pub(crate) queued: bool,
    /// It is in the list of those that wait for room.
    pub(crate) parked: bool,
}

/// What becomes of a socket after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It waits for an event or a reply.
    Wait,
    /// It has more to do now.
    Again,
    /// Its requests wait for room in a partition, or it waits for memory.
    Parked,
    /// Its last reply was sent: it lingers from now on.
    Linger,
    /// It is to be closed.
    Close(Option<Fault>),
}

impl Peer {
    /// A socket that may be read and written at once.
    pub(crate) fn new(stream: TcpStream, connection: Connection) -> Self {
        Self {
            stream,
            connection,
            readable: true,
            writable: true,
            paused: false,
            read_closed: false,
            is_sending: false,
            lingering: false,
            placed: true,
            queued: false,
            parked: false,
        }
    }

    /// Takes note of an event.
    pub(crate) fn note(&mut self, event: &mio::event::Event) {
        let failed = event.is_error();
        self.read_closed |= event.is_read_closed() || failed;
        self.readable |= event.is_readable() || self.read_closed;
        self.writable |= event.is_writable() || event.is_write_closed() || failed;
    }

    /// Does what can be done now without waiting.
    pub(crate) fn serve(
        &mut self,
        scratch: &mut [u8],
        door: &mut dyn Door,
        shared: &Shared,
    ) -> Outcome {
        let outcome = self.go_on(scratch, door, shared);
        self.connection.show();
        outcome
    }

    fn go_on(&mut self, scratch: &mut [u8], door: &mut dyn Door, shared: &Shared) -> Outcome {
        if self.lingering {
            return self.discard(scratch);
        }
        self.connection.resume(door, shared);
        let again = match self.read(scratch, door, shared) {
            Ok(again) => again,
            Err(_) => return Outcome::Close(None),
        };
        if self.connection.fault() == Some(Fault::Foreign) {
            // Not even what came before is answered.
            return Outcome::Close(Some(Fault::Foreign));
        }
        if self.write(shared).is_err() {
            return Outcome::Close(None);
        }
        if let Some(fault) = self.connection.fault() {
            return Outcome::Close(Some(fault));
        }
        if self.connection.is_finished() {
            if self.stream.shutdown(Shutdown::Write).is_err() {
                return Outcome::Close(None);
            }
            self.lingering = true;
            return match self.discard(scratch) {
                Outcome::Wait => Outcome::Linger,
                other => other,
            };
        }
        match (again, self.paused || self.connection.is_parked()) {
            (true, _) => Outcome::Again,
            (false, true) => Outcome::Parked,
            (false, false) => Outcome::Wait,
        }
    }

    /// Reads while commands are wanted; returns whether more is there.
    fn read(
        &mut self,
        scratch: &mut [u8],
        door: &mut dyn Door,
        shared: &Shared,
    ) -> io::Result<bool> {
        self.paused = false;
        for _ in 0..READS {
            if !self.readable || !self.connection.wants_input(shared) {
                return Ok(false);
            }
            if shared.buffers.is_exceeded() {
                // Until the largest connections are closed, or the partitions have answered the
                // requests of closed connections.
                self.paused = true;
                return Ok(false);
            }
            match self.stream.read(scratch) {
                Ok(0) => {
                    self.readable = false;
                    self.connection.end_input(door, shared);
                }
                Ok(count) => {
                    // A short read has emptied the socket; the next bytes raise the next event.
                    // Only the end of the stream raises no event of its own.
                    let emptied = cfg!(unix) && count < scratch.len();
                    self.readable = !emptied || self.read_closed;
                    shared.counters.received.add(count as u64);
                    self.connection.client().heard();
                    self.connection.receive(&scratch[..count], door, shared);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.readable && self.connection.wants_input(shared))
    }

    fn write(&mut self, shared: &Shared) -> io::Result<()> {
        self.is_sending |= self.connection.has_batch();
        while self.writable && self.is_sending {
            match self.stream.write(self.connection.output()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    shared.counters.sent.add(count as u64);
                    self.connection.sent(count);
                    self.is_sending = !self.connection.output().is_empty();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn discard(&mut self, scratch: &mut [u8]) -> Outcome {
        for _ in 0..READS {
            match self.stream.read(scratch) {
                Ok(0) => return Outcome::Close(None),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Outcome::Wait,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Outcome::Close(None),
            }
        }
        Outcome::Again
    }
}

/// The sockets of one I/O processor, by slot. A slot that is filled again has the
/// next generation.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<(u32, Option<Box<Peer>>)>,
    free: Vec<u32>,
}

impl Table {
    /// The name that the next socket gets.
    pub(crate) fn next_id(&self) -> ConnectionId {
        match self.free.last() {
            Some(&slot) => ConnectionId {
                slot,
                generation: self.slots[slot as usize].0,
            },
            None => {
                let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
                ConnectionId {
                    slot,
                    generation: 0,
                }
            }
        }
    }

    /// Puts a socket at the place of [`next_id`](Self::next_id).
    pub(crate) fn insert(&mut self, peer: Peer) {
        let id = self.next_id();
        debug_assert_eq!(peer.connection.id(), id, "a socket takes the next place");
        if self.free.pop().is_none() {
            self.slots.push((0, None));
        }
        self.slots[id.slot as usize].1 = Some(Box::new(peer));
    }

    /// The socket in a slot.
    pub(crate) fn at(&mut self, slot: u32) -> Option<&mut Peer> {
        self.slots.get_mut(slot as usize)?.1.as_deref_mut()
    }

    /// The socket of this name, unless it was closed.
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Peer> {
        let (generation, peer) = self.slots.get_mut(id.slot as usize)?;
        if *generation == id.generation {
            peer.as_deref_mut()
        } else {
            None
        }
    }

    /// Takes a socket out; its name never comes again.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Box<Peer>> {
        let (generation, peer) = self.slots.get_mut(slot as usize)?;
        let peer = peer.take()?;
        // After 2^32 sockets in one slot a name comes again. A late reply goes to a wrong socket
        // only if all of these sockets came and went before it arrived.
        *generation = generation.wrapping_add(1);
        self.free.push(slot);
        Some(peer)
    }

    /// The slots that hold a socket.
    pub(crate) fn occupied(&self) -> Vec<u32> {
        let filled = self
            .slots
            .iter()
            .zip(0_u32..)
            .filter(|((_, peer), _)| peer.is_some());
        filled.map(|(_, slot)| slot).collect()
    }

    /// Whether no socket is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}
