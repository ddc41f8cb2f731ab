//! A driver by which the thread of a `LocalExecutor` sleeps in the readiness poll.

use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std_alloc::boxed::Box;
use std_alloc::sync::Arc as StdArc;
use std_alloc::vec::Vec;

use super::reactor::{Reactor, Sockets};
use crate::bell::Bell;
use crate::driver::Driver;
use crate::primitive::Parker;
use crate::primitive::sync::Arc;
use crate::wakers::wake;

/// A driver that polls sockets: with it, a [`LocalExecutor`](crate::LocalExecutor) runs tasks that
/// use [`io`](crate::io).
///
/// The thread sleeps in a poll of the system if there is a socket, and in a [`Parker`] otherwise. A
/// busy executor checks the sockets once in 64 polls of tasks. The timeout of the system's poll is
/// in milliseconds, so timers may be a millisecond late while there is a socket.
///
/// ```
/// use rast_executor::io::{PollDriver, UnixStream};
/// use rast_executor::timers::MonotonicClock;
/// use rast_executor::{LocalExecutor, spawn_local};
///
/// let driver = PollDriver::new().unwrap();
/// let executor = LocalExecutor::with_driver(MonotonicClock::new(), driver);
/// executor.run(async {
///     let (a, b) = UnixStream::pair().unwrap();
///     let writer = spawn_local(async move { a.write_all(b"hello").await });
///     let mut bytes = [0; 5];
///     b.read_exact(&mut bytes).await.unwrap();
///     assert_eq!(&bytes, b"hello");
///     writer.await.unwrap().unwrap();
/// });
/// ```
pub struct PollDriver {
    reactor: Arc<Reactor>,
    parker: Parker,
    bell: StdArc<Bell<Interrupt>>,
    wakers: Vec<Waker>,
    /// The last sleep has checked the poll, and `submit` was not called since then.
    has_looked: bool,
}

type Interrupt = Box<dyn Fn() + Send + Sync>;

impl PollDriver {
    /// Makes a driver.
    ///
    /// # Errors
    ///
    /// The system's error, for example if it has no room for a poll.
    pub fn new() -> io::Result<Self> {
        let reactor = Arc::new(Reactor::new()?);
        let parker = Parker::new();
        let theirs = Arc::clone(&reactor);
        let interrupt: Interrupt = Box::new(move || theirs.interrupt());
        Ok(Self {
            bell: Bell::new(parker.unparker(), interrupt),
            reactor,
            parker,
            wakers: Vec::new(),
            has_looked: false,
        })
    }
}

impl Driver for PollDriver {
    fn submit(&mut self) {
        // If the executor sleeps after each turn, the sleep checks the poll.
        if !core::mem::take(&mut self.has_looked) && self.reactor.has_sockets() {
            self.reactor.poll(Some(Duration::ZERO), &mut self.wakers);
            self.wakers.drain(..).for_each(wake);
        }
    }

    fn park(&mut self, timeout: Option<Duration>) {
        if !self.reactor.has_sockets() {
            self.bell.park(|| {
                self.parker.park_for(timeout);
            });
            return;
        }
        let wakers = &mut self.wakers;
        if !self.bell.poll(|| self.reactor.poll(timeout, wakers)) {
            self.reactor.poll(Some(Duration::ZERO), wakers);
        }
        wakers.drain(..).for_each(wake);
        self.has_looked = true;
    }

    fn unparker(&self) -> Waker {
        self.bell.waker()
    }

    fn sockets(&self) -> Option<Sockets> {
        Some(Sockets(Arc::clone(&self.reactor)))
    }
}

impl Drop for PollDriver {
    fn drop(&mut self) {
        self.reactor.close();
    }
}

impl fmt::Debug for PollDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollDriver").finish_non_exhaustive()
    }
}
