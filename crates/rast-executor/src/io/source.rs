//! A socket of a reactor, and the tasks that wait for it.

use core::task::{Context, Poll};
use std::io;

use mio::{Interest, Token};

use super::reactor::Reactor;
use super::readiness::{Direction, Readiness, Ticket};
use crate::budget;
use crate::context::{self, OUTSIDE, Place};
use crate::primitive::sync::Arc;

/// The reactor of the executor that runs the caller.
///
/// # Panics
///
/// Outside of an executor, and in one whose driver has no poll.
#[track_caller]
fn current() -> Arc<Reactor> {
    context::with(|context| {
        let shared = match &context.expect(OUTSIDE).place {
            Place::Worker(worker) => &worker.shared,
            Place::Outside(lane) => &lane.shared,
            Place::Local(local) => match &local.sockets {
                Some(sockets) => return Arc::clone(&sockets.0),
                None => panic!("sockets need a Runtime, or a LocalExecutor with a PollDriver"),
            },
        };
        let reactor = shared.driver.reactor();
        Arc::clone(reactor.expect("io: a runtime has a reactor"))
    })
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
        Self::with(socket, current())
    }

    /// Registers another socket with the same reactor.
    pub(crate) fn beside<T: mio::event::Source>(&self, socket: T) -> io::Result<Source<T>> {
        Source::with(socket, Arc::clone(&self.reactor))
    }

    fn with(mut socket: S, reactor: Arc<Reactor>) -> io::Result<Self> {
        let (token, readiness) = reactor.enter();
        let interest = Interest::READABLE | Interest::WRITABLE;
        // For TCP's urgent bytes: see `Reactor::poll_locked`.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let interest = interest | Interest::PRIORITY;
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

    /// Calls `operation` until it does not block. In between the task waits for the direction, by
    /// its ticket, or without one as the last caller of a poll method. If `is_last` returns `true`
    /// for the result, the next operation would block, and waits without being tried.
    pub(super) fn poll<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        mut ticket: Option<&mut Ticket>,
        mut operation: impl FnMut(&S) -> io::Result<T>,
        is_last: impl Fn(&T) -> bool,
    ) -> Poll<io::Result<T>> {
        if budget::spend(cx).is_pending() {
            return Poll::Pending;
        }
        // A waker is user code, so it is cloned before the lock, and the replaced one is dropped
        // after it. The clone may have used the socket, so the state is loaded again.
        let mut clone = None;
        loop {
            let tick = {
                let mut sides = self.readiness.0.lock();
                if sides.is_gone {
                    let gone = "the runtime of the socket is shut down";
                    return Poll::Ready(Err(io::Error::other(gone)));
                }
                let side = sides.side(direction);
                if !side.is_ready {
                    if side.wait(ticket.as_deref_mut(), cx.waker(), &mut clone) {
                        return Poll::Pending;
                    }
                    drop(sides);
                    clone = Some(cx.waker().clone());
                    continue;
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

    /// As [`poll`](Self::poll), awaited; each result leaves the direction ready.
    pub(crate) async fn run<T>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        self.wait(direction, |cx, ticket| {
            self.poll(direction, cx, Some(ticket), &mut operation, |_| false)
        })
        .await
    }

    /// Awaits a function that polls this socket in this direction by the ticket.
    pub(super) async fn wait<T>(
        &self,
        direction: Direction,
        mut poll: impl FnMut(&mut Context<'_>, &mut Ticket) -> Poll<T>,
    ) -> T {
        let mut waits = Waits {
            readiness: &self.readiness,
            direction,
            ticket: Ticket::default(),
        };
        // The drop of `waits` passes the wake-up on, whether this future is ready or dropped.
        core::future::poll_fn(|cx| poll(cx, &mut waits.ticket)).await
    }
}

/// A future that waits. Dropping it ends its wait: see `readiness.rs`, rule 3.
struct Waits<'a> {
    readiness: &'a Readiness,
    direction: Direction,
    ticket: Ticket,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.readiness.leave(self.direction, &mut self.ticket);
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

    use core::cell::RefCell;
    use core::task::{RawWaker, RawWakerVTable, Waker};
    use std_alloc::rc::Rc;
    use std_alloc::vec::Vec;

    use crate::LocalExecutor;
    use crate::io::PollDriver;
    use rast_timers::MonotonicClock;

    /// A waker that notes when it is cloned and dropped whether the lock of a socket is free.
    struct Notes {
        readiness: Arc<Readiness>,
        is_free: RefCell<Vec<bool>>,
    }

    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            note(data);
            // SAFETY: as in `note`.
            unsafe { Rc::increment_strong_count(data.cast::<Notes>()) };
            RawWaker::new(data, &TABLE)
        },
        |_| unreachable!("it is woken by reference alone"),
        |_| {},
        |data| {
            note(data);
            // SAFETY: as in `note`; the waker has this count.
            unsafe { Rc::decrement_strong_count(data.cast::<Notes>()) };
        },
    );

    fn note(data: *const ()) {
        // SAFETY: `waker` makes the pointer by `Rc::into_raw`, and each waker has a count.
        let notes = unsafe { &*data.cast::<Notes>() };
        let is_free = notes.readiness.0.try_lock().is_some();
        notes.is_free.borrow_mut().push(is_free);
    }

    /// The waker stays on its thread.
    fn waker(notes: &Rc<Notes>) -> Waker {
        let data = Rc::into_raw(Rc::clone(notes)).cast();
        // SAFETY: the functions of the table count references of the pointer.
        unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }
    }

    #[test]
    fn no_waker_is_cloned_or_dropped_under_the_lock() {
        let driver = PollDriver::new().unwrap();
        let executor = LocalExecutor::with_driver(MonotonicClock::new(), driver);
        executor.run(async {
            let address = "127.0.0.1:0".parse().unwrap();
            let source = Source::new(mio::net::UdpSocket::bind(address).unwrap()).unwrap();
            let notes = || {
                Rc::new(Notes {
                    readiness: Arc::clone(&source.readiness),
                    is_free: RefCell::default(),
                })
            };
            let all = [notes(), notes()];
            let mut ticket = Ticket::default();
            for is_future in [true, false] {
                for notes in &all {
                    let waker = waker(notes);
                    let cx = &mut Context::from_waker(&waker);
                    let ticket = is_future.then_some(&mut ticket);
                    let receive = |socket: &mio::net::UdpSocket| socket.recv(&mut [0; 8]);
                    let polled = source.poll(Direction::Reading, cx, ticket, receive, |_| false);
                    assert!(polled.is_pending());
                }
            }
            source.readiness.leave(Direction::Reading, &mut ticket);
            // The last waker refers to the socket, which has it.
            let mut wakers = Vec::new();
            source.readiness.end(&mut wakers);
            drop(wakers);
            for notes in &all {
                let is_free = notes.is_free.borrow();
                assert!(!is_free.is_empty() && is_free.iter().all(|&free| free));
            }
        });
    }
}
