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

    /// Calls `operation` until it does not block; while it would, the task waits for the direction:
    /// by its ticket, or without one as the last caller of a poll method.
    fn poll<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        ticket: Option<&mut Ticket>,
        operation: impl FnMut(&S) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_until(direction, cx, ticket, operation, |_| false)
    }

    /// As [`poll`](Self::poll). If `is_last` returns `true` for the result, the next operation
    /// would block, and waits without being tried.
    pub(super) fn poll_until<T>(
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
        loop {
            let tick = {
                let mut sides = self.readiness.0.lock();
                if sides.is_gone {
                    let gone = "the runtime of the socket is shut down";
                    return Poll::Ready(Err(io::Error::other(gone)));
                }
                let side = sides.side(direction);
                if !side.is_ready {
                    let replaced = side.wait(ticket.as_deref_mut(), cx.waker());
                    drop(sides);
                    drop(replaced);
                    return Poll::Pending;
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

    /// As [`poll`](Self::poll), awaited.
    pub(crate) async fn run<T>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        self.wait(direction, |cx, ticket| {
            self.poll(direction, cx, Some(ticket), &mut operation)
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
        // Ready or dropped, the drop of `waits` passes the wake-up on.
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
