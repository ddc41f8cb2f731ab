//! Listeners of several reactors at one address, with admission by active requests.
//!
//! ```text
//!   new connection ──► program ──► socket 0 [queue] ──► reactor 0   open
//!                         ├──────► socket 1 [queue] ──► reactor 1   open
//!                         └──╳     socket 2 [queue] ──► reactor 2   turned away: accepts what
//!                                                                   its queue still has
//! ```
//!
//! The program is a BPF program, which chooses the socket of a new connection (`steer.rs`).
//!
//! Each reactor counts its active requests. A count above `high` closes the reactor to new
//! connections (it is turned away), and a count below `low` opens it again. A reactor that is
//! turned away still accepts what its queue has, while another one is open. If all are turned away,
//! none of them accepts, and connections wait in the queues.
//!
//! The original RAST design closes the socket of a reactor that has too many requests. The kernel
//! resets the connections in the queue of a closed socket. Here a socket stays open as long as the
//! group: if its listener is dropped, another reactor accepts from this socket too.
//!
//! Where the kernel has no such program, all reactors accept from one socket, and a reactor that is
//! turned away does not accept.
//!
//! | field | written by | meaning |
//! |---|---|---|
//! | `seats` | the reactor of the listener | one per listener: open, turned away, or empty after the listener was dropped |
//! | `sockets` | a reactor that makes a listener | in the order in which they began to listen; the program names a socket by its index here |
//! | `orphans` | a dropped listener adds, the next one that accepts takes | sockets that no listener has |
//! | `changes` | each change that a waiting reactor must see | compared under the lock with what the waiter saw |
//! | `wakers` | tasks that wait for a connection | woken by the next change |

use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::poll_fn;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::io;
use std::net::{self, SocketAddr};
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, OwnedFd};
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use rast_executor::yield_now;
use socket2::{Domain, SockRef, Socket, Type};

use super::backend::Io;
#[cfg(target_os = "linux")]
use super::steer;
use super::tcp::{TcpListener, TcpStream};
#[cfg(target_os = "linux")]
use super::uring::{self, Ring};
use crate::primitive::panics::quietly;
use crate::primitive::sync::{Arc, Mutex};

/// Connections that wait in the queue of a socket, at most; the system may have a lower bound.
const BACKLOG: i32 = 4096;

/// Connections that a task accepts in a row before other tasks run.
const ROW: usize = 16;

/// How many active requests a reactor has before it is turned away, and after which it is opened
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// A reactor with fewer active requests is opened again; at least 1 and at most `high`.
    pub low: usize,
    /// A reactor with more active requests is turned away.
    pub high: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seat {
    /// Its listener was dropped.
    Empty,
    Open,
    TurnedAway,
}

struct State {
    seats: Vec<Seat>,
    sockets: Vec<Arc<net::TcpListener>>,
    orphans: Vec<usize>,
    changes: u64,
    wakers: Vec<Waker>,
}

struct Shared {
    address: SocketAddr,
    marks: Watermarks,
    /// A program steers: seats have sockets of the same numbers. Otherwise there is one socket.
    is_steered: bool,
    state: Mutex<State>,
}

/// Listeners of several reactors at one TCP address: each reactor makes one by
/// [`listener`](Self::listener). Clones are the same group.
///
/// On Linux each listener has a socket of its own, and the kernel gives a new connection to one of
/// the reactors that are open, at random. Elsewhere, or where the kernel takes no BPF program, the
/// listeners share one socket.
///
/// New connections are turned away from a reactor when it has more than `high` active requests,
/// until it has fewer than `low`: see [`Watermarks`] and [`Requests`]. In the meantime it accepts
/// only the connections that its own socket has already queued; where the listeners share one
/// socket, it accepts none. If all reactors are turned away, none accepts. Then up to 4,096
/// connections wait in the queue of each socket, or fewer if the system says so.
///
/// The sockets are closed with the last clone and the last listener, which resets the connections
/// that were not accepted. Nothing else resets a queued connection: when a listener is dropped,
/// another reactor of the group accepts from its socket.
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
        #[cfg(target_os = "linux")]
        let is_steered = steer::is_served();
        #[cfg(not(target_os = "linux"))]
        let is_steered = false;
        Self::new(address, marks, is_steered)
    }

    /// As [`bind`](Self::bind) where the kernel takes no program: all listeners share one socket.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_shared(address: SocketAddr, marks: Watermarks) -> io::Result<Self> {
        Self::new(address, marks, false)
    }

    fn new(address: SocketAddr, marks: Watermarks, is_steered: bool) -> io::Result<Self> {
        if marks.low == 0 || marks.low > marks.high {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the low watermark is not between 1 and the high one",
            ));
        }
        // Bound without sharing: a port of another group is an error, and would mix the numbers of
        // the sockets.
        let first = bound(address, false)?;
        let local = first.local_addr()?.as_socket();
        let address = local.ok_or_else(|| io::Error::other("an address of another family"))?;
        let first = if is_steered {
            drop(first);
            bound(address, true)?
        } else {
            first
        };
        Ok(Self(Arc::new(Shared {
            address,
            marks,
            is_steered,
            state: Mutex::new(State {
                seats: Vec::new(),
                sockets: std_alloc::vec![Arc::new(first.into())],
                orphans: Vec::new(),
                changes: 0,
                wakers: Vec::new(),
            }),
        })))
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
    /// It listens on a socket that a dropped listener has left, or on a new one. A reactor needs
    /// one listener; several of them count their requests separately.
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

/// A socket that is bound to `address` and does not listen yet.
fn bound(address: SocketAddr, shares_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // As std: elsewhere the option means that another program may take the address over.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    #[cfg(target_os = "linux")]
    if shares_port {
        steer::share_port(socket.as_fd())?;
    }
    #[cfg(not(target_os = "linux"))]
    debug_assert!(!shares_port, "group: steered on Linux alone");
    socket.bind(&address.into())?;
    Ok(socket)
}

impl State {
    /// The numbers of the seats that are open.
    fn open(&self) -> impl Iterator<Item = usize> {
        let seats = self.seats.iter().enumerate();
        seats.filter_map(|(at, &seat)| (seat == Seat::Open).then_some(at))
    }

    /// Notes a change that those who wait must see; returns their wakers.
    fn change(&mut self) -> Vec<Waker> {
        self.changes += 1;
        core::mem::take(&mut self.wakers)
    }
}

/// Wakes tasks, outside of the lock.
fn wake(wakers: Vec<Waker>) {
    for waker in wakers {
        quietly(|| waker.wake());
    }
}

impl Shared {
    /// Finds a seat for a listener, and the socket that it accepts from.
    fn sit(&self) -> io::Result<(usize, Arc<net::TcpListener>)> {
        let mut state = self.state.lock();
        if !self.is_steered {
            let free = state.seats.iter().position(|&seat| seat == Seat::Empty);
            let at = free.unwrap_or(state.seats.len());
            let first = Arc::clone(&state.sockets[0]);
            if state.seats.is_empty() {
                SockRef::from(&*first).listen(BACKLOG)?;
            }
            if free.is_none() {
                state.seats.push(Seat::Empty);
            }
            return Ok((at, first));
        }
        if let Some(at) = state.orphans.pop() {
            return Ok((at, Arc::clone(&state.sockets[at])));
        }
        let at = state.seats.len();
        #[cfg(target_os = "linux")]
        if at == steer::SOCKETS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if at == state.sockets.len() {
            let socket = bound(self.address, true)?;
            state.sockets.push(Arc::new(socket.into()));
        }
        let socket = Arc::clone(&state.sockets[at]);
        SockRef::from(&*socket).listen(BACKLOG)?;
        state.seats.push(Seat::Empty);
        Ok((at, socket))
    }

    /// Changes a seat, steers, and wakes those who must see it. `orphans` are sockets that the seat
    /// leaves behind.
    fn set(&self, at: usize, seat: Seat, orphans: impl Iterator<Item = usize>) {
        let wakers = {
            let mut state = self.state.lock();
            let was_open = state.open().next().is_some();
            let before = state.orphans.len();
            state.seats[at] = seat;
            if self.is_steered {
                state.orphans.extend(orphans);
            }
            self.steer(&state);
            let is_open = state.open().next().is_some();
            if !self.is_steered || was_open != is_open || state.orphans.len() > before {
                state.change()
            } else {
                Vec::new()
            }
        };
        wake(wakers);
    }

    /// Steers new connections to the open seats, or to all that have a listener if none is open.
    ///
    /// Called under the lock, so that the last program is that of the last state. The kernel took
    /// a program before. If it has no memory for another one, the last one stays until the next
    /// change: connections then come to a reactor that is turned away, or not to one that is open.
    #[cfg(target_os = "linux")]
    fn steer(&self, state: &State) {
        if !self.is_steered {
            return;
        }
        let mut to: Vec<usize> = state.open().collect();
        if to.is_empty() {
            let seats = state.seats.iter().enumerate();
            to.extend(seats.filter_map(|(at, &seat)| (seat != Seat::Empty).then_some(at)));
        }
        if !to.is_empty() {
            let _ = steer::steer(state.sockets[0].as_fd(), &to);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn steer(&self, _: &State) {}
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
    /// Accepts when the ring says that the socket can be read: an accept by the ring that is given
    /// up may have a connection, which would be lost.
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
/// Dropped, it leaves its socket, with the connections in the queue, to the other listeners of the
/// group, or to the next one that is made.
pub struct GroupListener {
    own: Rc<Own>,
    /// Its own, then those of listeners that were dropped.
    sockets: RefCell<Vec<(usize, Rc<Accepting>)>>,
    /// Connections accepted since a task last waited or yielded.
    in_row: Cell<usize>,
}

impl GroupListener {
    /// Waits for a connection.
    ///
    /// Waits also while every listener of the group is turned away. Dropping the future loses no
    /// connection. After 16 connections in a row, and after each one while the reactor is turned
    /// away, other tasks run first.
    ///
    /// Cost: a lock of the group for some instructions, and the accept.
    ///
    /// # Errors
    ///
    /// The system's error; an error of one connection leaves the listener as it was.
    pub async fn accept(&self) -> io::Result<TcpStream> {
        if self.in_row.get() >= ROW || (self.in_row.get() > 0 && !self.is_open()) {
            self.in_row.set(0);
            yield_now().await;
        }
        loop {
            let seen = self.look()?;
            let sockets: Vec<_> = {
                let sockets = self.sockets.borrow();
                sockets
                    .iter()
                    .map(|(_, socket)| Rc::clone(socket))
                    .collect()
            };
            let Some((own, adopted)) = sockets.split_first() else {
                unreachable!("group: a listener has its own socket")
            };
            let mut own = pin!(own.accept());
            let mut adopted: Vec<_> = adopted.iter().map(|one| Box::pin(one.accept())).collect();
            let accepted = poll_fn(|cx| {
                if self.has_changed(seen, cx) {
                    return Poll::Ready(None);
                }
                if !seen.may_accept {
                    return Poll::Pending;
                }
                // Those of others first: no new connections come to them.
                for one in &mut adopted {
                    if let Poll::Ready(accepted) = one.as_mut().poll(cx) {
                        return Poll::Ready(Some(accepted));
                    }
                }
                own.as_mut().poll(cx).map(Some)
            });
            let mut accepted = pin!(accepted);
            let accepted = poll_fn(|cx| {
                let polled = accepted.as_mut().poll(cx);
                if polled.is_pending() {
                    self.in_row.set(0);
                }
                polled
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
        let mut adopt = || {
            for (at, socket) in orphans.by_ref() {
                match Accepting::new(&Io::current(), &socket) {
                    Ok(socket) => self.sockets.borrow_mut().push((at, Rc::new(socket))),
                    Err(error) => return Err((at, error)),
                }
            }
            Ok(())
        };
        adopt().map_err(|(at, error)| {
            // Another call tries again.
            let mut state = shared.state.lock();
            state.orphans.push(at);
            state.orphans.extend(orphans.map(|(at, _)| at));
            error
        })?;
        Ok(seen)
    }

    /// Returns `true` if the group has changed since; otherwise the task is woken by the change.
    fn has_changed(&self, seen: Seen, cx: &Context<'_>) -> bool {
        let mut state = self.own.shared.state.lock();
        let has_changed = state.changes != seen.changes;
        if !has_changed && !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.wakers.push(cx.waker().clone());
        }
        has_changed
    }
}

/// What a listener saw of its group.
#[derive(Clone, Copy)]
struct Seen {
    changes: u64,
    may_accept: bool,
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
