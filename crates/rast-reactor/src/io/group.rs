//! Listeners of several reactors at one address. A reactor gets no new connections while it has too
//! many active requests.
//!
//! ```text
//!   new connection ──► program ──► socket 0 [queue] ──► reactor 0   open
//!                         ├──────► socket 1 [queue] ──► reactor 1   open
//!                         └──╳     socket 2 [queue] ──► reactor 2   closed to new ones: accepts
//!                                                                   only those in its queue
//! ```
//!
//! The program is a BPF program in the kernel, which chooses the socket of a new connection
//! (`steer.rs`).
//!
//! Each reactor counts its active requests. When the count exceeds `high`, new connections are
//! turned away from the reactor until the count is below `low`. Meanwhile the reactor still accepts
//! the connections in the queue of its own socket, as long as another reactor is open. If no
//! reactor is open, none accepts, and connections wait in the queues.
//!
//! The original RAST design closes the socket of a reactor that has too many requests, and the
//! kernel then resets the connections in its queue. Here a socket stays open as long as the group
//! exists. If its listener is dropped, another reactor accepts the connections of this socket too.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use std::io;
use std::net::{self, SocketAddr};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use rast_executor::yield_now;
#[cfg(target_os = "linux")]
use socket2::SockRef;

use super::backend::Io;
use super::seats::{Seat, Seen, Shared, State, Watching, Watermarks, bound};
#[cfg(target_os = "linux")]
use super::steer;
use super::tcp::{TcpListener, TcpStream};
#[cfg(target_os = "linux")]
use super::uring::{self, Ring};
use crate::primitive::sync::{Arc, Mutex};
use crate::waker_list::WakerList;

/// Maximum number of connections that wait in the queue of a socket, by default.
const BACKLOG: u32 = 4096;

/// Connections that a task accepts in a row before other tasks run.
const ROW: usize = 16;

/// Listeners of several reactors at one TCP address: each reactor makes one by
/// [`listener`](Self::listener). Clones are the same group.
///
/// On Linux each listener has a socket of its own, and the kernel gives each new connection to a
/// random one of the reactors that accept. On other systems, or if the kernel rejects BPF programs,
/// the listeners share one socket.
///
/// New connections are turned away from a reactor when it has more than `high` active requests,
/// until it has fewer than `low`: see [`Watermarks`] and [`Requests`]. In the meantime it accepts
/// only the connections that its own socket has already queued; where the listeners share one
/// socket, it accepts none. If new connections are turned away from all reactors, up to 4,096
/// connections ([`GroupBuilder::backlog`]) wait in the queue of each socket, or fewer if the
/// system's limit is lower.
///
/// When the last clone and the last listener have been dropped, the sockets are closed. This resets
/// the connections that were not accepted. Nothing else resets a queued connection: when a listener
/// is dropped, another reactor of the group accepts from its socket.
///
/// ```
/// use rast_reactor::io::{ListenerGroup, Watermarks};
/// use rast_reactor::{Reactors, spawn_local};
/// use std::io::Read;
///
/// let marks = Watermarks { low: 80, high: 100 };
/// let group = ListenerGroup::bind("127.0.0.1:0".parse().unwrap(), marks).unwrap();
/// let reactors = Reactors::builder().number(2).build().unwrap();
/// for index in 0..2 {
///     let group = group.clone();
///     let accepts = reactors.reactor(index).unwrap().spawn(move || async move {
///         let listener = group.listener().unwrap();
///         while let Ok(stream) = listener.accept().await {
///             let requests = listener.requests();
///             let connection = spawn_local(async move {
///                 // A request is active from here to the end of the block.
///                 let _active = requests.begin();
///                 stream.write_all("hello").await.0.unwrap();
///             });
///             connection.detach();
///         }
///     });
///     accepts.detach();
/// }
/// // A connection is refused until the first reactor listens.
/// let mut client = loop {
///     if let Ok(client) = std::net::TcpStream::connect(group.local_addr()) {
///         break client;
///     }
/// };
/// let mut answer = String::new();
/// client.read_to_string(&mut answer).unwrap();
/// assert_eq!(answer, "hello");
/// ```
#[derive(Clone)]
pub struct ListenerGroup(Arc<Shared>);

impl ListenerGroup {
    /// Binds to `address`. Connections are refused until there is a first listener.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `low` is 0 or above `high`; otherwise the system's error, such as
    /// `AddrInUse`.
    pub fn bind(address: SocketAddr, marks: Watermarks) -> io::Result<Self> {
        Self::builder(address, marks).bind()
    }

    /// As [`bind`](Self::bind) where the kernel takes no program: all listeners share one socket.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_shared(address: SocketAddr, marks: Watermarks) -> io::Result<Self> {
        Self::builder(address, marks).shared().bind()
    }

    /// Sets up a group.
    pub fn builder(address: SocketAddr, marks: Watermarks) -> GroupBuilder {
        GroupBuilder {
            address,
            marks,
            backlog: BACKLOG,
            is_shared: false,
        }
    }

    /// Returns the address that the group is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.0.address
    }

    /// Returns `true` if each listener has a socket of its own, and `false` if they share one.
    #[must_use]
    pub fn is_steered(&self) -> bool {
        self.0.is_steered
    }

    /// Returns how many listeners are open for new connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.state.lock().open().count()
    }

    /// Makes the listener of the calling reactor.
    ///
    /// It uses the socket of a dropped listener, or a new one. A reactor needs only one listener.
    /// If it makes several, each of them counts its own requests.
    ///
    /// # Errors
    ///
    /// The system's error; `QuotaExceeded` above 1,024 listeners.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    #[track_caller]
    pub fn listener(&self) -> io::Result<GroupListener> {
        let io = Io::current();
        let (at, socket) = self.0.sit()?;
        let own = Rc::new(Own {
            shared: Arc::clone(&self.0),
            at,
            active: Cell::new(0),
            seat: Cell::new(Seat::Open),
        });
        // From here on a drop of the listener empties the seat.
        let mut listener = GroupListener {
            own,
            sockets: RefCell::new(Vec::new()),
            in_row: Cell::new(0),
        };
        let socket = Accepting::new(&io, &socket)?;
        listener.sockets.get_mut().push((at, Rc::new(socket)));
        listener.own.set(Seat::Open);
        Ok(listener)
    }
}

/// Sets up a [`ListenerGroup`].
///
/// ```
/// use rast_reactor::io::{ListenerGroup, Watermarks};
///
/// let marks = Watermarks { low: 80, high: 100 };
/// let address = "127.0.0.1:0".parse().unwrap();
/// let group = ListenerGroup::builder(address, marks).backlog(128).bind().unwrap();
/// assert_ne!(group.local_addr().port(), 0);
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is bound before `bind`"]
pub struct GroupBuilder {
    address: SocketAddr,
    marks: Watermarks,
    backlog: u32,
    is_shared: bool,
}

impl GroupBuilder {
    /// How many connections wait in the queue of each socket, at most: 4,096 by default. The system
    /// may have a lower limit, on Linux `net.core.somaxconn`. Further connections are refused or
    /// wait in the client's system.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// All listeners share one socket, as where the kernel takes no program.
    pub fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Binds. Connections are refused until there is a first listener.
    ///
    /// # Errors
    ///
    /// As [`ListenerGroup::bind`]; `InvalidInput` also if the backlog is 0.
    pub fn bind(self) -> io::Result<ListenerGroup> {
        let Self { address, marks, .. } = self;
        let invalid = |why: &'static str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if marks.low == 0 || marks.low > marks.high {
            return invalid("the low watermark is not between 1 and the high one");
        }
        if self.backlog == 0 {
            return invalid("a queue has room for at least one connection");
        }
        #[cfg(target_os = "linux")]
        let is_steered = !self.is_shared && steer::is_served();
        #[cfg(not(target_os = "linux"))]
        let is_steered = false;
        // Bound without sharing, so that binding to a port of another group fails. Otherwise the
        // numbers of the sockets of both groups would mix.
        let first = bound(address, false)?;
        let local = first.local_addr()?.as_socket();
        let address = local.ok_or_else(|| io::Error::other("an address of another family"))?;
        let first = if is_steered {
            drop(first);
            bound(address, true)?
        } else {
            first
        };
        Ok(ListenerGroup(Arc::new(Shared {
            address,
            marks,
            backlog: i32::try_from(self.backlog).unwrap_or(i32::MAX),
            is_steered,
            state: Mutex::new(State {
                seats: Vec::new(),
                sockets: std_alloc::vec![Arc::new(first.into())],
                orphans: Vec::new(),
                changes: 0,
                waiting: WakerList::default(),
            }),
        })))
    }
}

/// The seat of a listener, on its reactor.
struct Own {
    shared: Arc<Shared>,
    at: usize,
    active: Cell<usize>,
    seat: Cell<Seat>,
}

impl Own {
    fn set(&self, seat: Seat) {
        self.seat.set(seat);
        self.shared.set(self.at, seat, core::iter::empty());
    }
}

/// A socket of the group, in the driver of a reactor.
enum Accepting {
    Ready(TcpListener),
    /// Accepts when the ring reports that the socket can be read. An accept operation of the ring
    /// could complete after its cancellation, and its connection would be lost.
    #[cfg(target_os = "linux")]
    Ring(Rc<Ring>, Rc<OwnedFd>),
}

impl Accepting {
    fn new(io: &Rc<Io>, socket: &net::TcpListener) -> io::Result<Self> {
        let socket = socket.try_clone()?;
        #[cfg(target_os = "linux")]
        if let Some(ring) = &io.ring {
            socket.set_nonblocking(true)?;
            return Ok(Self::Ring(Rc::clone(ring), Rc::new(socket.into())));
        }
        let _ = io;
        TcpListener::from_std(socket).map(Self::Ready)
    }

    /// Waits for a connection. Dropping the future loses none.
    async fn accept(&self) -> io::Result<TcpStream> {
        match self {
            Self::Ready(listener) => listener.accept().await,
            #[cfg(target_os = "linux")]
            Self::Ring(ring, fd) => loop {
                match SockRef::from(fd).accept() {
                    Ok((stream, _)) => return TcpStream::from_std(stream.into()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        uring::readable(ring, fd).await?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            },
        }
    }
}

/// The listener of a reactor in a [`ListenerGroup`]; stays on its reactor.
///
/// If it is dropped, its socket and the connections in the queue go to another listener of the
/// group, or to the next one that is made.
pub struct GroupListener {
    own: Rc<Own>,
    /// Its own socket, then those of dropped listeners.
    sockets: RefCell<Vec<(usize, Rc<Accepting>)>>,
    /// Connections accepted since a task last waited or yielded.
    in_row: Cell<usize>,
}

impl GroupListener {
    /// Waits for a connection.
    ///
    /// It also waits while new connections are turned away from all reactors of the group
    /// ([`Watermarks`]). If the listeners share a socket, it also waits while new connections are
    /// turned away from this reactor. Dropping the future loses no connection. The future yields to
    /// other tasks after 16 connections in a row, and after each connection while new ones are
    /// turned away from this reactor.
    ///
    /// Cost: a lock of the group for some instructions, and the system's `accept`.
    ///
    /// # Errors
    ///
    /// The system's error. After an error of one connection the listener can still accept others.
    pub async fn accept(&self) -> io::Result<TcpStream> {
        if self.in_row.get() >= ROW || (self.in_row.get() > 0 && !self.is_open()) {
            self.in_row.set(0);
            yield_now().await;
        }
        loop {
            let seen = self.look()?;
            let clone = |(_, socket): &(usize, Rc<_>)| Rc::clone(socket);
            let sockets: Vec<_> = self.sockets.borrow().iter().map(clone).collect();
            let Some((own, adopted)) = sockets.split_first() else {
                unreachable!("group: a listener has its own socket")
            };
            let mut watching = Watching::new(&self.own.shared);
            let mut own = pin!(own.accept());
            let mut adopted: Vec<_> = adopted.iter().map(|one| Box::pin(one.accept())).collect();
            let accepted = poll_fn(|cx| {
                if watching.has_changed(seen) {
                    return Poll::Ready(None);
                }
                if seen.may_accept {
                    // Sockets of dropped listeners first, because no new connections come to them.
                    let others = adopted.iter_mut().map(|one| one.as_mut().poll(cx));
                    let first = others.into_iter().find(Poll::is_ready);
                    if let Poll::Ready(accepted) = first.unwrap_or_else(|| own.as_mut().poll(cx)) {
                        return Poll::Ready(Some(accepted));
                    }
                }
                // Last, so that the accept of a queued connection adds no waker to the list.
                if watching.wait(seen, cx) {
                    self.in_row.set(0);
                    Poll::Pending
                } else {
                    Poll::Ready(None)
                }
            });
            if let Some(accepted) = accepted.await {
                self.in_row.set(self.in_row.get() + 1);
                return accepted;
            }
        }
    }

    /// Counts the requests of this reactor: a handle for its tasks.
    #[must_use]
    pub fn requests(&self) -> Requests {
        Requests(Rc::clone(&self.own))
    }

    /// Returns `true` if new connections may come here, and `false` if the reactor is turned away.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.own.seat.get() == Seat::Open
    }

    /// Adopts sockets that no listener has, and returns the state of the group.
    fn look(&self) -> io::Result<Seen> {
        let shared = &self.own.shared;
        let (seen, orphans) = {
            let mut state = shared.state.lock();
            let numbers = core::mem::take(&mut state.orphans);
            let orphan = |at: usize| (at, Arc::clone(&state.sockets[at]));
            let orphans: Vec<_> = numbers.into_iter().map(orphan).collect();
            let may_accept = if shared.is_steered {
                state.open().next().is_some()
            } else {
                self.is_open()
            };
            let seen = Seen {
                changes: state.changes,
                may_accept,
            };
            (seen, orphans)
        };
        let mut orphans = orphans.into_iter();
        while let Some((at, socket)) = orphans.next() {
            match Accepting::new(&Io::current(), &socket) {
                Ok(socket) => self.sockets.borrow_mut().push((at, Rc::new(socket))),
                Err(error) => {
                    // Another call tries again.
                    let mut state = shared.state.lock();
                    state.orphans.push(at);
                    state.orphans.extend(orphans.map(|(at, _)| at));
                    return Err(error);
                }
            }
        }
        Ok(seen)
    }
}

impl Drop for GroupListener {
    fn drop(&mut self) {
        self.own.seat.set(Seat::Empty);
        let sockets = core::mem::take(self.sockets.get_mut());
        let numbers = sockets.iter().map(|&(at, _)| at);
        // The seat has its own socket also where this listener could not be made.
        let own = numbers.clone().all(|at| at != self.own.at);
        let orphans = numbers.chain(own.then_some(self.own.at));
        self.own.shared.set(self.own.at, Seat::Empty, orphans);
    }
}

impl fmt::Debug for ListenerGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerGroup")
            .field("address", &self.0.address)
            .field("watermarks", &self.0.marks)
            .field("is_steered", &self.0.is_steered)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for GroupListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupListener")
            .field("address", &self.own.shared.address)
            .field("is_open", &self.is_open())
            .field("active", &self.own.active.get())
            .finish_non_exhaustive()
    }
}

/// Counts the active requests of a reactor: see [`GroupListener::requests`]. Clones are the same
/// count.
#[derive(Clone)]
pub struct Requests(Rc<Own>);

impl Requests {
    /// Counts a request until what is returned is dropped.
    ///
    /// Cost: a load and a store; at a watermark the lock of the group and a system call.
    pub fn begin(&self) -> Active {
        let own = &self.0;
        let active = own.active.get() + 1;
        own.active.set(active);
        if active > own.shared.marks.high && own.seat.get() == Seat::Open {
            own.set(Seat::TurnedAway);
        }
        Active(Rc::clone(own))
    }

    /// Returns how many requests are active.
    #[must_use]
    pub fn active(&self) -> usize {
        self.0.active.get()
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Requests").field(&self.active()).finish()
    }
}

/// A request that is active until this is dropped: see [`Requests::begin`].
#[must_use = "the request is over when it is dropped"]
pub struct Active(Rc<Own>);

impl Drop for Active {
    fn drop(&mut self) {
        let own = &self.0;
        let active = own.active.get() - 1;
        own.active.set(active);
        if active < own.shared.marks.low && own.seat.get() == Seat::TurnedAway {
            own.set(Seat::Open);
        }
    }
}

impl fmt::Debug for Active {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Active")
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    use core::mem::MaybeUninit;
    use std::os::fd::AsRawFd;

    /// The length of the queue of a listening socket, as the system has it.
    fn queue(socket: &net::TcpListener) -> u32 {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        let to = info.as_mut_ptr().cast();
        // SAFETY: the descriptor is open, and the call writes at most so many bytes.
        let got =
            unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, to, &raw mut bytes) };
        assert_eq!(got, 0, "{}", io::Error::last_os_error());
        // SAFETY: zeroes are a value of this plain data, and so is what the call wrote.
        let info = unsafe { info.assume_init() };
        // Of a listening socket, this field is the limit of its queue.
        info.tcpi_sacked
    }

    #[test]
    fn two_reactors_that_make_listeners_at_once_have_two_seats() {
        let marks = Watermarks { low: 1, high: 1 };
        let address = "127.0.0.1:0".parse().unwrap();
        let builder = ListenerGroup::builder(address, marks);
        for builder in [builder.clone(), builder.shared()] {
            let group = builder.bind().unwrap();
            // Both have looked for a seat before either opens its own.
            let (first, _) = group.0.sit().unwrap();
            let (second, _) = group.0.sit().unwrap();
            assert_ne!(first, second);
            for open in 1..=2 {
                let at = [first, second][open - 1];
                group.0.set(at, Seat::Open, core::iter::empty());
                assert_eq!(group.open(), open);
            }
            group.0.set(first, Seat::Empty, core::iter::once(first));
            assert_eq!(group.open(), 1);
            let (again, _) = group.0.sit().unwrap();
            assert_eq!(again, first, "the seat of a dropped listener");
        }
    }

    #[test]
    fn the_queue_of_each_socket_is_as_long_as_the_builder_says() {
        let marks = Watermarks { low: 1, high: 1 };
        let address = "127.0.0.1:0".parse().unwrap();
        let builder = ListenerGroup::builder(address, marks).backlog(7);
        for builder in [builder.clone(), builder.clone().shared()] {
            let group = builder.bind().unwrap();
            let (_, socket) = group.0.sit().unwrap();
            assert_eq!(queue(&socket), 7);
        }
        let refused = builder.backlog(0).bind().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
