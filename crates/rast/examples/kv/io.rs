//! I/O threads: sockets on one side, the graph's doors on the other.
//!
//! ```text
//!  sockets ──▶ read, parse ──▶ ingress ══▶ partitions
//!     ▲                                        ║
//!     └── write ◀── order replies ◀── egress lane of this thread
//! ```
//!
//! Each thread owns its sockets and one egress lane, and shares nothing with the
//! others on the way of a request. One loop:
//!
//! 1. wait for readiness, a message in the lane (it wakes the poll), or a time;
//! 2. take over sockets that the accepting thread handed out;
//! 3. drain the egress lane, whatever the sockets do: a reply goes to its
//!    connection's bounded backlog, or is dropped if the connection has gone. So a
//!    client that does not read can delay no partition;
//! 4. serve every socket with something to do, once;
//! 5. when the buffers of all connections are past their limit, close those of its
//!    own that hold most.
//!
//! A request that finds its partition's door full stays on its connection, which
//! is not read meanwhile, and none is read while the buffers are past their limit;
//! such connections are tried again each [`RETRY`].
//!
//! Thread 0 accepts too, and hands sockets out in turn (see `listen`).
//!
//! A connection frees its place as soon as its last reply was sent, though its
//! socket lingers until the client has closed it.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use rast::primitive::sync::Mutex;
use rast::queue::Queue;

use crate::clients::{Client, Place};
use crate::conn::{Connection, Fault};
use crate::graph::{Entrance, Exit};
use crate::listen::Listener;
use crate::memory::{Account, STEP};
use crate::message::ConnectionId;
use crate::peer::{LINGER, Outcome, Peer, Table};
use crate::shared::Shared;

const WAKE: Token = Token(usize::MAX);
const LISTEN: Token = Token(usize::MAX - 1);

/// How soon a full partition is tried again.
const RETRY: Duration = Duration::from_millis(1);
/// How often other threads are woken while the buffers are past their limit.
const TELL: Duration = Duration::from_millis(10);
/// Events taken in one turn.
const EVENTS: usize = 1024;
/// Replies taken from the lane in one turn.
const REPLIES: usize = 4096;
/// Bytes read at once.
const SCRATCH: usize = 64 * 1024;

/// What CLIENT LIST shows for a socket whose other side has gone already.
const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// What the server tells its I/O threads.
#[derive(Debug, Default)]
pub(crate) struct Control {
    phase: AtomicU8,
    deadline: Mutex<Option<Instant>>,
}

const DRAINING: u8 = 1;

impl Control {
    /// Tells the threads to answer what was read and to end by `deadline`; they
    /// have to be woken.
    pub(crate) fn drain(&self, deadline: Instant) {
        *self.deadline.lock() = Some(deadline);
        // Release: pairs with the Acquire in `draining`; the deadline is there.
        self.phase.store(DRAINING, Ordering::Release);
    }

    fn draining(&self) -> Option<Instant> {
        // Acquire: pairs with the Release in `drain`.
        if self.phase.load(Ordering::Acquire) != DRAINING {
            return None;
        }
        *self.deadline.lock()
    }
}

/// The way to an I/O thread, for other threads.
pub(crate) struct Mailbox {
    /// Accepted sockets, each with its number among all.
    pub(crate) sockets: Queue<(u64, TcpStream)>,
    waker: Waker,
}

impl Mailbox {
    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        // An error here means that the thread has gone, or is awake already.
        let _ = self.waker.wake();
    }
}

/// One I/O thread's state.
pub(crate) struct IoThread {
    lane: u16,
    poll: Poll,
    mailbox: Arc<Mailbox>,
    /// The other I/O threads.
    others: Vec<Arc<Mailbox>>,
    /// When they were last woken since the buffers were past their limit.
    told: Option<Instant>,
    listener: Option<Listener>,
    entrance: Entrance,
    exit: Exit,
    shared: Arc<Shared>,
    control: Arc<Control>,
    table: Table,
    /// Closed connections whose requests are still in the partitions: how many, and
    /// what is charged for them. Or else who closes at once pays for nothing.
    left: HashMap<ConnectionId, (usize, Account)>,
    /// Slots to be served in this turn.
    due: Vec<u32>,
    /// Slots whose requests wait for room.
    parked: Vec<u32>,
    /// Slots that linger, with the time when that ends; the earliest first.
    lingering: std::collections::VecDeque<(Instant, ConnectionId)>,
    scratch: Box<[u8]>,
    drain_until: Option<Instant>,
    /// The lane or the listener has more than one turn takes.
    more: bool,
}

impl IoThread {
    /// Prepares the thread of egress lane `lane`.
    pub(crate) fn new(
        lane: u16,
        entrance: Entrance,
        exit: Exit,
        shared: &Arc<Shared>,
        control: &Arc<Control>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let mailbox = Arc::new(Mailbox {
            sockets: Queue::new(),
            waker,
        });
        let woken = Arc::clone(&mailbox);
        exit.set_waker(move || woken.wake());
        Ok(Self {
            lane,
            poll,
            mailbox,
            others: Vec::new(),
            told: None,
            listener: None,
            entrance,
            exit,
            shared: Arc::clone(shared),
            control: Arc::clone(control),
            table: Table::default(),
            left: HashMap::new(),
            due: Vec::new(),
            parked: Vec::new(),
            lingering: std::collections::VecDeque::new(),
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            drain_until: None,
            more: false,
        })
    }

    /// The way to this thread.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    /// Tells which I/O threads there are, this one among them.
    pub(crate) fn meet(&mut self, threads: &[Arc<Mailbox>]) {
        let others = threads
            .iter()
            .filter(|other| !Arc::ptr_eq(other, &self.mailbox));
        self.others = others.cloned().collect();
    }

    /// Makes this the thread that accepts for `threads`.
    pub(crate) fn listen(
        &mut self,
        mut socket: TcpListener,
        threads: Vec<Arc<Mailbox>>,
    ) -> io::Result<SocketAddr> {
        let address = socket.local_addr()?;
        self.poll
            .registry()
            .register(&mut socket, LISTEN, Interest::READABLE)?;
        self.listener = Some(Listener::new(socket, threads));
        Ok(address)
    }

    /// Runs until the drain is over. Blocking; the thread's whole life.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            match self.poll.poll(&mut events, self.timeout()) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.more = false;
            for event in &events {
                self.note(event);
            }
            self.accept();
            self.take_over();
            self.close_doomed();
            self.take_replies();
            self.retry_parked();
            self.serve_due();
            self.shared.weigh_memory();
            self.bound_buffers();
            self.end_lingering();
            if self.drain_until.is_none() {
                self.drain_until = self.control.draining();
                if self.drain_until.is_some() {
                    self.begin_drain();
                }
            }
            if self.is_over() {
                return Ok(());
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if self.more || !self.due.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let retry = (!self.parked.is_empty()).then_some(RETRY);
        let until = |at: Instant| at.saturating_duration_since(now);
        let linger = self.lingering.front().map(|&(at, _)| until(at));
        let accept = self
            .listener
            .as_ref()
            .and_then(|listener| listener.next_turn(now));
        let drain = self.drain_until.map(until);
        [retry, linger, accept, drain].into_iter().flatten().min()
    }

    fn note(&mut self, event: &mio::event::Event) {
        match event.token() {
            WAKE => {}
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
                    .poll
                    .registry()
                    .register(&mut stream, token, interest)
                    .is_err()
            {
                self.shared.counters.connected.sub(1);
                continue;
            }
            let client = Arc::new(Client::new(Place {
                number,
                lane: self.lane,
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

    fn take_replies(&mut self) {
        let Self {
            exit,
            table,
            left,
            due,
            shared,
            ..
        } = self;
        let taken = exit.drain(REPLIES, |reply| {
            let id = reply.to.connection;
            if let Some(peer) = table.get(id) {
                peer.connection.reply(reply.to, reply.body, shared);
                enqueue(due, id.slot, peer);
            } else if let Some((missing, _)) = left.get_mut(&id) {
                // The connection was closed meanwhile: the reply has no reader.
                *missing -= 1;
                if *missing == 0 {
                    left.remove(&id);
                }
            }
        });
        self.more |= taken == REPLIES;
    }

    fn retry_parked(&mut self) {
        for slot in self.parked.drain(..) {
            if let Some(peer) = self.table.at(slot) {
                enqueue(&mut self.due, slot, peer);
            }
        }
    }

    fn serve_due(&mut self) {
        for slot in std::mem::take(&mut self.due) {
            let Some(peer) = self.table.at(slot) else {
                continue;
            };
            peer.queued = false;
            match peer.serve(&mut self.scratch, &mut self.entrance, &self.shared) {
                Outcome::Wait => {}
                Outcome::Again => enqueue(&mut self.due, slot, peer),
                Outcome::Parked => self.parked.push(slot),
                Outcome::Linger => {
                    let id = peer.connection.id();
                    free_place(peer, &self.shared);
                    self.lingering.push_back((Instant::now() + LINGER, id));
                }
                Outcome::Close(fault) => self.close(slot, fault),
            }
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
        let _ = self.poll.registry().deregister(&mut peer.stream);
        let id = peer.connection.id();
        if let Some(left) = peer.connection.leave() {
            self.left.insert(id, left);
        }
    }

    /// Closes the connections that CLIENT KILL has named.
    fn close_doomed(&mut self) {
        for id in self.shared.clients.take_doomed(self.lane) {
            if self.table.get(id).is_some() {
                self.close(id.slot, None);
            }
        }
    }

    /// Closes the connections with the largest buffers while all connections
    /// together hold more than they may: the one that asks for much pays, not the
    /// one that asks next. One that holds no more than its share pays for none;
    /// who holds more may be another thread's.
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
                // Not each time, or threads with nothing to close keep each other awake.
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
    fn begin_drain(&mut self) {
        if let Some(mut listener) = self.listener.take() {
            // The listener is closed next, which takes it off the poll in any case.
            let _ = self.poll.registry().deregister(&mut listener.socket);
        }
        self.take_over();
        for slot in self.table.occupied() {
            if let Some(peer) = self.table.at(slot) {
                peer.connection.end_input(&mut self.entrance, &self.shared);
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
