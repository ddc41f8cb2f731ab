//! I/O processors: sockets on one side, partitions on the other.
//!
//! ```text
//!  sockets ──▶ read, parse ──Request──▶ partitions of this worker and of others
//!     ▲                                        │
//!     └── write ◀── order replies ◀────Reply───┘
//! ```
//!
//! Each of the first `IOS` workers has an I/O processor pinned to it, and sleeps in a poll of that
//! processor's sockets (see `poller`). A request touches no memory that I/O processors share. The
//! runtime *pings* a processor (calls `Processor::ping`) in these cases: when the poll saw an
//! event, after the replies of a turn, and at a time that the processor has set. A turn has these
//! steps:
//!
//! 1. Before the ping, take the replies of partitions. A reply goes to its connection's bounded
//!    backlog, or is dropped if the connection is closed. So a client that does not read delays no
//!    partition.
//! 2. Take over the sockets that the accepting processor has handed to this one.
//! 3. Serve once each socket that has something to do.
//! 4. If the buffers of all connections exceed their limit, close the connections of this processor
//!    that have the largest buffers.
//!
//! Each request reserves room for its answer, so the cycle of requests and answers cannot block.
//!
//! A request for a partition without room waits in its connection, which is not read meanwhile. No
//! connection is read while the buffers exceed their limit. Connections that wait are served again
//! after replies, and once per [`RETRY`].
//!
//! Processor 0 also accepts connections, and hands them to all processors in turn (see `listen`).
//!
//! A connection counts against the limit of connections only until its last reply was sent. Its
//! socket stays open until the client closes it, or until [`LINGER`] is over.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use rast::queue::Queue;

use crate::clients::{Client, Place};
use crate::conn::{Connection, Door, Fault};
use crate::listen::Listener;
use crate::memory::{Account, STEP};
use crate::message::{ConnectionId, Reply};
use crate::peer::{LINGER, Outcome, Peer, Table};
use crate::poller::Poller;
use crate::shared::Shared;

const LISTEN: Token = Token(usize::MAX - 1);

/// How soon a full partition is tried again.
const RETRY: Duration = Duration::from_millis(1);
/// How often the other processors are woken while the buffers are past their limit.
const TELL: Duration = Duration::from_millis(10);
/// Bytes read at once.
const SCRATCH: usize = 64 * 1024;

/// What CLIENT LIST shows for a socket whose other side has gone already.
const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// The way to an I/O processor, for other threads.
pub(crate) struct Mailbox {
    /// Accepted sockets, each with its number among all.
    pub(crate) sockets: Queue<(u64, TcpStream)>,
    pub(crate) poller: Arc<Poller>,
}

impl Mailbox {
    /// A mailbox that nothing is in.
    pub(crate) fn new(poller: Poller) -> Arc<Self> {
        Arc::new(Self {
            sockets: Queue::new(),
            poller: Arc::new(poller),
        })
    }

    /// Has the processor look at its mailbox, and at what the server tells.
    pub(crate) fn wake(&self) {
        self.poller.call();
    }
}

/// How an I/O processor has ended.
pub(crate) type Ended = io::Result<()>;

/// What becomes of an I/O processor after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It wants another one after so long, though nothing comes.
    After(Duration),
    /// It has ended, since the server drains.
    Over,
    /// It cannot go on.
    Failed,
}

/// One I/O processor.
pub(crate) struct Io {
    number: u16,
    registry: Registry,
    mailbox: Arc<Mailbox>,
    /// The other I/O processors.
    others: Vec<Arc<Mailbox>>,
    /// When they were last woken since the buffers were past their limit.
    told: Option<Instant>,
    listener: Option<Listener>,
    shared: Arc<Shared>,
    /// Told once, when the drain is over or polling failed.
    ended: Option<Sender<Ended>>,
    table: Table,
    /// Closed connections whose requests are still in the partitions: how many requests, and what
    /// is charged for them. So a client that closes at once does not evade the limits.
    left: HashMap<ConnectionId, (usize, Account)>,
    /// Slots to be served in the next ping.
    due: Vec<u32>,
    /// Empty; takes the place of `due` while that is served.
    spare: Vec<u32>,
    /// Slots whose requests wait for room, in the order in which they are served.
    parked: Vec<u32>,
    /// Those of them that had room for some in this turn.
    advanced: Vec<u32>,
    /// Slots that linger, with the time when that ends; the earliest first.
    lingering: VecDeque<(Instant, ConnectionId)>,
    scratch: Box<[u8]>,
    drain_until: Option<Instant>,
    /// The listener has more than one ping takes.
    more: bool,
}

impl Io {
    /// Prepares processor `number` among those of `mailboxes`.
    pub(crate) fn new(
        number: usize,
        mailboxes: &[Arc<Mailbox>],
        shared: &Arc<Shared>,
        ended: Sender<Ended>,
    ) -> io::Result<Self> {
        let mailbox = Arc::clone(&mailboxes[number]);
        let others = mailboxes
            .iter()
            .filter(|other| !Arc::ptr_eq(other, &mailbox));
        Ok(Self {
            // There are at most `IOS`.
            number: number as u16,
            registry: mailbox.poller.registry()?,
            others: others.cloned().collect(),
            mailbox,
            told: None,
            listener: None,
            shared: Arc::clone(shared),
            ended: Some(ended),
            table: Table::default(),
            left: HashMap::new(),
            due: Vec::new(),
            spare: Vec::new(),
            parked: Vec::new(),
            advanced: Vec::new(),
            lingering: VecDeque::new(),
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            drain_until: None,
            more: false,
        })
    }

    /// Makes this the processor that accepts for `mailboxes`.
    pub(crate) fn listen(
        &mut self,
        mut socket: TcpListener,
        mailboxes: &[Arc<Mailbox>],
    ) -> io::Result<()> {
        self.registry
            .register(&mut socket, LISTEN, Interest::READABLE)?;
        self.listener = Some(Listener::new(socket, mailboxes.to_vec()));
        Ok(())
    }

    /// Works on what came.
    pub(crate) fn turn(&mut self, door: &mut dyn Door) -> Turn {
        self.more = false;
        let poller = Arc::clone(&self.mailbox.poller);
        match poller.take(|event| self.note(event)) {
            Ok(true) => {
                self.take_over();
                self.close_doomed();
                if self.drain_until.is_none() {
                    self.drain_until = self.shared.drain_until.get().copied();
                    if self.drain_until.is_some() {
                        self.begin_drain(door);
                    }
                }
            }
            Ok(false) => {}
            Err(error) => {
                self.end(Err(error));
                return Turn::Failed;
            }
        }
        self.accept();
        self.serve_due(door);
        self.shared.weigh_memory();
        self.bound_buffers();
        self.end_lingering();
        if self.is_over() {
            self.end(Ok(()));
            return Turn::Over;
        }
        Turn::After(self.timeout())
    }

    fn end(&mut self, how: Ended) {
        if let Some(ended) = self.ended.take() {
            // The server may have gone.
            let _ = ended.send(how);
        }
    }

    fn timeout(&self) -> Duration {
        if self.more || !self.due.is_empty() {
            return Duration::ZERO;
        }
        let retry = (!self.parked.is_empty()).then_some(RETRY);
        if self.lingering.is_empty() && self.listener.is_none() && self.drain_until.is_none() {
            return retry.unwrap_or(Duration::MAX);
        }
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        let linger = self.lingering.front().map(|&(at, _)| until(at));
        let accept = self
            .listener
            .as_ref()
            .and_then(|listener| listener.next_turn(now));
        let drain = self.drain_until.map(until);
        let times = [retry, linger, accept, drain].into_iter().flatten();
        times.min().unwrap_or(Duration::MAX)
    }

    /// Takes in the reply of a partition.
    #[inline]
    pub(crate) fn reply(&mut self, reply: Reply) {
        let id = reply.to.connection;
        if let Some(peer) = self.table.get(id) {
            peer.connection.reply(reply.to, reply.body, &self.shared);
            enqueue(&mut self.due, id.slot, peer);
        } else if let Some((missing, _)) = self.left.get_mut(&id) {
            // The connection was closed meanwhile: the reply has no reader.
            *missing -= 1;
            if *missing == 0 {
                self.left.remove(&id);
            }
        }
    }

    fn note(&mut self, event: &mio::event::Event) {
        match event.token() {
            LISTEN => {
                if let Some(listener) = &mut self.listener {
                    listener.wake();
                }
            }
            Token(slot) => {
                // Slots are numbered by u32, so the token fits.
                let slot = slot as u32;
                if let Some(peer) = self.table.at(slot) {
                    peer.note(event);
                    enqueue(&mut self.due, slot, peer);
                }
            }
        }
    }

    fn accept(&mut self) {
        if let Some(listener) = &mut self.listener {
            self.more |= listener.accept(&self.shared);
        }
    }

    fn take_over(&mut self) {
        while let Some((number, mut stream)) = self.mailbox.sockets.pop() {
            let id = self.table.next_id();
            let token = Token(id.slot as usize);
            let interest = Interest::READABLE | Interest::WRITABLE;
            // Without it small replies wait for acknowledgements of earlier ones.
            let _ = stream.set_nodelay(true);
            if self.drain_until.is_some()
                || self
                    .registry
                    .register(&mut stream, token, interest)
                    .is_err()
            {
                self.shared.counters.connected.sub(1);
                continue;
            }
            let client = Arc::new(Client::new(Place {
                number,
                io: self.number,
                id,
                address: stream.peer_addr().unwrap_or(NOWHERE),
                local: stream.local_addr().unwrap_or(NOWHERE),
                descriptor: descriptor(&stream),
            }));
            self.shared.clients.join(&client);
            let connection = Connection::new(client, &self.shared);
            self.table.insert(Peer::new(stream, connection));
            if let Some(peer) = self.table.at(id.slot) {
                enqueue(&mut self.due, id.slot, peer);
            }
        }
    }

    /// Serves those that wait for room, then the others. A connection that got no room keeps its
    /// place before those that got room. So a connection that always has more requests delays no
    /// other.
    fn serve_due(&mut self, door: &mut dyn Door) {
        let parked = std::mem::take(&mut self.parked);
        let mut due = std::mem::replace(&mut self.due, std::mem::take(&mut self.spare));
        for slot in parked {
            let peer = self.table.at(slot);
            if peer.is_some_and(|peer| std::mem::take(&mut peer.parked)) {
                self.serve(slot, door);
            }
        }
        for slot in due.drain(..) {
            if self.table.at(slot).is_some_and(|peer| peer.queued) {
                self.serve(slot, door);
            }
        }
        self.parked.append(&mut self.advanced);
        // Its memory is used again.
        self.spare = due;
    }

    fn serve(&mut self, slot: u32, door: &mut dyn Door) {
        let Some(peer) = self.table.at(slot) else {
            return;
        };
        peer.queued = false;
        let before = peer.connection.requests();
        match peer.serve(&mut self.scratch, door, &self.shared) {
            Outcome::Wait => {}
            Outcome::Again => enqueue(&mut self.due, slot, peer),
            Outcome::Parked => {
                peer.parked = true;
                match peer.connection.requests() == before {
                    true => self.parked.push(slot),
                    false => self.advanced.push(slot),
                }
            }
            Outcome::Linger => {
                let id = peer.connection.id();
                free_place(peer, &self.shared);
                self.lingering.push_back((Instant::now() + LINGER, id));
            }
            Outcome::Close(fault) => self.close(slot, fault),
        }
    }

    fn close(&mut self, slot: u32, fault: Option<Fault>) {
        let Some(mut peer) = self.table.remove(slot) else {
            return;
        };
        if matches!(fault, Some(Fault::Backlog | Fault::Buffers)) {
            self.shared.counters.overflowed.add(1);
        }
        free_place(&mut peer, &self.shared);
        // The socket is closed next, which takes it off the poll in any case.
        let _ = self.registry.deregister(&mut peer.stream);
        let id = peer.connection.id();
        if let Some(left) = peer.connection.leave() {
            self.left.insert(id, left);
        }
    }

    /// Closes the connections that CLIENT KILL has named.
    fn close_doomed(&mut self) {
        for id in self.shared.clients.take_doomed(self.number) {
            if self.table.get(id).is_some() {
                self.close(id.slot, None);
            }
        }
    }

    /// Closes the connections with the largest buffers while all connections together exceed the
    /// limit. So the largest connections are closed, not the one that needs memory next. A
    /// connection that holds no more than its share is not closed: the larger ones may belong to
    /// other processors.
    fn bound_buffers(&mut self) {
        if !self.shared.buffers.is_exceeded() {
            return;
        }
        let share = self.shared.buffers.limit() / self.shared.counters.connected.get().max(1);
        let mut sizes: Vec<(u64, u32)> = Vec::new();
        for slot in self.table.occupied() {
            if let Some(peer) = self.table.at(slot) {
                let held = peer.connection.buffered();
                // The figure of all lags behind by a step per connection.
                if held + STEP.unsigned_abs() >= share {
                    sizes.push((held, slot));
                }
            }
        }
        sizes.sort_unstable();
        while self.shared.buffers.is_exceeded() {
            let Some((_, slot)) = sizes.pop() else {
                // Not each time, or processors with nothing to close keep each other awake.
                let now = Instant::now();
                if self.told.is_none_or(|told| now - told >= TELL) {
                    self.told = Some(now);
                    self.others.iter().for_each(|other| other.wake());
                }
                return;
            };
            self.close(slot, Some(Fault::Buffers));
        }
    }

    fn end_lingering(&mut self) {
        if self.lingering.is_empty() {
            return;
        }
        let now = Instant::now();
        // They have no place, so their number has a bound of its own.
        let most = self.shared.settings.limits.connections;
        while let Some(&(at, id)) = self.lingering.front() {
            if at > now && self.lingering.len() <= most {
                return;
            }
            self.lingering.pop_front();
            if self.table.get(id).is_some() {
                self.close(id.slot, None);
            }
        }
    }

    /// Stops accepting and reading; what was read is parsed and answered.
    fn begin_drain(&mut self, door: &mut dyn Door) {
        if let Some(mut listener) = self.listener.take() {
            // The listener is closed next, which takes it off the poll in any case.
            let _ = self.registry.deregister(&mut listener.socket);
        }
        for slot in self.table.occupied() {
            if let Some(peer) = self.table.at(slot) {
                peer.connection.end_input(door, &self.shared);
                enqueue(&mut self.due, slot, peer);
            }
        }
    }

    /// Whether the drain is over; closes what is left when its time is up.
    fn is_over(&mut self) -> bool {
        let Some(deadline) = self.drain_until else {
            return false;
        };
        if !self.table.is_empty() && Instant::now() >= deadline {
            for slot in self.table.occupied() {
                if self.table.at(slot).is_some_and(|peer| !peer.lingering) {
                    self.shared.counters.cut_off.add(1);
                }
                self.close(slot, None);
            }
        }
        self.table.is_empty()
    }
}

/// Frees the place of a connection among those that are counted, once.
fn free_place(peer: &mut Peer, shared: &Shared) {
    if std::mem::replace(&mut peer.placed, false) {
        shared.counters.connected.sub(1);
        shared.clients.leave(peer.connection.client());
    }
}

/// The number of a socket's file descriptor.
#[cfg(unix)]
fn descriptor(stream: &TcpStream) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(stream)
}

#[cfg(not(unix))]
fn descriptor(_: &TcpStream) -> i32 {
    -1
}

/// Puts a socket on the list of those to be served, once.
fn enqueue(due: &mut Vec<u32>, slot: u32, peer: &mut Peer) {
    if !peer.queued {
        peer.queued = true;
        due.push(slot);
    }
}
