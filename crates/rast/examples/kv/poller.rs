//! What a worker sleeps in: its poll, which a socket or another thread ends.
//!
//! ```text
//!  socket ───────▶ poll ──▶ events ──▶ the worker's I/O processor is made ready
//!  mailbox ──▶ called + waker ─▲
//!  other worker ──▶ waker ─────▲       (the worker looks at its wake-ups itself)
//! ```
//!
//! A worker without work blocks in the poll. A worker with work polls without blocking, once in
//! several turns, so that its sockets do not wait for its partitions. The worker polls again only
//! after the I/O processor has taken the events.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::event::Event;
use mio::{Events, Poll, Registry, Token, Waker};
use rast::msgpass::sharder::{Park, ShardId};
use rast::primitive::sync::Mutex;

/// Events taken at once.
const EVENTS: usize = 1024;

const WAKE: Token = Token(usize::MAX);

/// The poll of one worker.
pub(crate) struct Poller {
    /// Locked by its worker alone.
    polled: Mutex<Polled>,
    waker: Waker,
    /// Another thread wants the I/O processor to look at its mailbox.
    is_called: AtomicBool,
    /// The worker's I/O processor, if it has one.
    io: Option<ShardId>,
}

struct Polled {
    poll: Poll,
    events: Events,
    /// What the I/O processor has not taken yet: events, a call, an error.
    has_events: bool,
    is_called: bool,
    error: Option<io::Error>,
}

impl Poller {
    /// The poll of a worker with this I/O processor.
    pub(crate) fn new(io: Option<ShardId>) -> io::Result<Self> {
        let poll = Poll::new()?;
        Ok(Self {
            waker: Waker::new(poll.registry(), WAKE)?,
            polled: Mutex::new(Polled {
                poll,
                events: Events::with_capacity(EVENTS),
                has_events: false,
                is_called: false,
                error: None,
            }),
            is_called: AtomicBool::new(false),
            io,
        })
    }

    /// A handle by which sockets are registered.
    pub(crate) fn registry(&self) -> io::Result<Registry> {
        self.polled.lock().poll.registry().try_clone()
    }

    /// Has the I/O processor look at its mailbox. From any thread.
    pub(crate) fn call(&self) {
        // Release: pairs with the Acquire in `look`; what is in the mailbox is there.
        self.is_called.store(true, Ordering::Release);
        self.unpark();
    }

    /// Takes what came; returns whether another thread called.
    pub(crate) fn take(&self, mut event: impl FnMut(&Event)) -> io::Result<bool> {
        let mut polled = self.polled.lock();
        if std::mem::take(&mut polled.has_events) {
            let events = polled.events.iter();
            events
                .filter(|one| one.token() != WAKE)
                .for_each(&mut event);
        }
        match polled.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut polled.is_called)),
        }
    }

    fn look(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId)) {
        let mut polled = self.polled.lock();
        let polled = &mut *polled;
        if !polled.has_events && polled.error.is_none() {
            match polled.poll.poll(&mut polled.events, timeout) {
                Ok(()) => {
                    let mut events = polled.events.iter();
                    polled.has_events = events.any(|event| event.token() != WAKE);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => polled.error = Some(error),
            }
        }
        // Relaxed: most looks find nothing. Acquire: pairs with the Release in `call`.
        polled.is_called |=
            self.is_called.load(Ordering::Relaxed) && self.is_called.swap(false, Ordering::Acquire);
        if polled.has_events || polled.is_called || polled.error.is_some() {
            self.io.map(ready);
        }
    }
}

impl Park for Poller {
    fn park(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId)) {
        self.look(timeout, ready);
    }

    fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        self.look(Some(Duration::ZERO), ready);
    }

    fn unpark(&self) {
        // An error here means that the worker is awake already.
        let _ = self.waker.wake();
    }
}
