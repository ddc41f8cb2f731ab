//! The seats and sockets of a group of listeners, shared by its reactors: see `group.rs`.
//!
//! | field | written by | meaning |
//! |---|---|---|
//! | `seats` | the reactor of the listener | one per listener: open, turned away, or empty after the listener was dropped |
//! | `sockets` | a reactor that makes a listener | in the order in which they began to listen; the program names a socket by its index here |
//! | `orphans` | a dropped listener, which adds its sockets; the next listener that accepts, which takes them | sockets that no listener has |
//! | `changes` | each change that a waiting reactor must see adds one | compared under the lock with the number that the waiter saw |
//! | `waiting` | futures that wait for a connection | their wakers, woken by the next change |

use core::task::{Context, Waker};
use std::io;
use std::net::{self, SocketAddr};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std_alloc::vec::Vec;

use socket2::{Domain, SockRef, Socket, Type};

#[cfg(target_os = "linux")]
use super::steer;
use crate::primitive::sync::{Arc, Mutex};
use crate::waker_list::{WakerList, wake_all};

/// The numbers of active requests above which a reactor is turned away, and below which it is
/// opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// A reactor with fewer active requests is opened again; at least 1 and at most `high`.
    pub low: usize,
    /// A reactor with more active requests is turned away.
    pub high: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seat {
    /// Its listener was dropped.
    Empty,
    Open,
    TurnedAway,
}

pub(super) struct State {
    pub(super) seats: Vec<Seat>,
    pub(super) sockets: Vec<Arc<net::TcpListener>>,
    pub(super) orphans: Vec<usize>,
    pub(super) changes: u64,
    pub(super) waiting: WakerList,
}

pub(super) struct Shared {
    pub(super) address: SocketAddr,
    pub(super) marks: Watermarks,
    pub(super) backlog: i32,
    /// A BPF program chooses the sockets, and a seat has the number of its socket. Otherwise there
    /// is one socket.
    pub(super) is_steered: bool,
    pub(super) state: Mutex<State>,
}

/// A socket that is bound to `address` and does not listen yet.
pub(super) fn bound(address: SocketAddr, shares_port: bool) -> io::Result<Socket> {
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
    pub(super) fn open(&self) -> impl Iterator<Item = usize> {
        let seats = self.seats.iter().enumerate();
        seats.filter_map(|(at, &seat)| (seat == Seat::Open).then_some(at))
    }

    /// Notes a change that those who wait must see; returns their wakers.
    pub(super) fn change(&mut self) -> Vec<Waker> {
        self.changes += 1;
        self.waiting.drain().collect()
    }
}

impl Shared {
    /// Takes a seat for a listener, and returns the socket that it accepts from.
    pub(super) fn sit(&self) -> io::Result<(usize, Arc<net::TcpListener>)> {
        let mut state = self.state.lock();
        if !self.is_steered {
            let free = state.seats.iter().position(|&seat| seat == Seat::Empty);
            let at = free.unwrap_or(state.seats.len());
            let first = Arc::clone(&state.sockets[0]);
            if state.seats.is_empty() {
                SockRef::from(&*first).listen(self.backlog)?;
            }
            // Taken from here on: another reactor may look for a seat before this one is opened.
            if free.is_some() {
                state.seats[at] = Seat::TurnedAway;
            } else {
                state.seats.push(Seat::TurnedAway);
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
        SockRef::from(&*socket).listen(self.backlog)?;
        state.seats.push(Seat::Empty);
        Ok((at, socket))
    }

    /// Changes a seat, steers, and wakes the futures that must see the change. `orphans` are
    /// sockets that the seat leaves behind.
    pub(super) fn set(&self, at: usize, seat: Seat, orphans: impl Iterator<Item = usize>) {
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
        wake_all(wakers);
    }

    /// Steers new connections to the open seats, or to all that have a listener if none is open.
    ///
    /// Called under the lock, so that the last program is that of the last state. If the kernel has
    /// no memory for the new program, the old one stays until the next change. Until then
    /// connections may come to a reactor that is turned away, or not come to one that is open.
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

/// A future that waits for a change of its group. Dropping it removes its waker, so that the group
/// keeps no abandoned task alive.
pub(super) struct Watching<'a> {
    shared: &'a Shared,
    /// In the list of the group.
    entry: Option<u64>,
}

impl<'a> Watching<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            entry: None,
        }
    }

    /// Returns `true` if the group has changed since.
    pub(super) fn has_changed(&self, seen: Seen) -> bool {
        self.shared.state.lock().changes != seen.changes
    }

    /// Has the task woken by the next change. Returns `false` if the group has changed since.
    pub(super) fn wait(&mut self, seen: Seen, cx: &Context<'_>) -> bool {
        // Cloned and dropped outside of the lock, since wakers are user code.
        let mut clone = None;
        loop {
            {
                let mut state = self.shared.state.lock();
                if state.changes != seen.changes {
                    return false;
                }
                let waiting = &mut state.waiting;
                if waiting.wait(&mut self.entry, cx.waker(), &mut clone) {
                    return true;
                }
            }
            clone = Some(cx.waker().clone());
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if self.entry.is_some() {
            let left = self.shared.state.lock().waiting.remove(&mut self.entry);
            drop(left);
        }
    }
}

/// What a listener saw of its group.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) changes: u64,
    pub(super) may_accept: bool,
}
