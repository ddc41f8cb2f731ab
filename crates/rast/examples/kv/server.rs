//! A running server: the graph, its I/O threads, and their common end.
//!
//! Starting: bind, build the graph, one I/O thread per lane in use. Ending, in the
//! order in which work flows: the I/O threads stop accepting and reading, answer
//! what they have parsed, send it and close; then the graph, which has nothing left
//! to do, is drained.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::args::Settings;
use crate::graph::{self, Running};
use crate::io::{Control, IoThread, Mailbox};
use crate::listen;
use crate::shared::Shared;

/// Why a server did not start.
#[derive(Debug)]
pub(crate) enum StartError {
    /// The port is in use.
    PortTaken(u16),
    /// Listening failed for another reason.
    Listen(u16, io::Error),
    /// The operating system refused a poll or a thread.
    System(io::Error),
    /// The graph was not built.
    Graph(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortTaken(port) => write!(
                f,
                "port {port} on 127.0.0.1 is taken; choose another one with --port N \
                 (0 takes a free one)"
            ),
            Self::Listen(port, error) => {
                write!(
                    f,
                    "cannot listen on 127.0.0.1:{port} (set by --port): {error}"
                )
            }
            Self::System(error) => write!(f, "cannot start an I/O thread: {error}"),
            Self::Graph(error) => write!(f, "cannot start the graph: {error}"),
        }
    }
}

/// A running server.
pub(crate) struct Server {
    shared: Arc<Shared>,
    control: Arc<Control>,
    address: SocketAddr,
    running: Running,
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// How a server ended.
#[derive(Debug)]
pub(crate) struct Ending {
    /// How long it took.
    pub(crate) took: Duration,
    /// Connections closed with replies unsent since the time was up.
    pub(crate) cut_off: u64,
    /// Messages of those connections that were still in the graph.
    pub(crate) undelivered: u64,
    /// What went wrong on the way.
    pub(crate) faults: Vec<String>,
}

impl Server {
    /// Binds the port and starts all threads.
    pub(crate) fn start(settings: Settings) -> Result<Self, StartError> {
        let asked = SocketAddr::from((Ipv4Addr::LOCALHOST, settings.port));
        let listener = listen::bind(settings.port).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => StartError::PortTaken(settings.port),
            _ => StartError::Listen(settings.port, error),
        })?;
        let shared = Arc::new(Shared::new(settings));
        let control = Arc::new(Control::default());
        let running = graph::start(&shared).map_err(StartError::Graph)?;
        let mut io = (0_u16..)
            .take(settings.io_threads)
            .map(|lane| {
                let (entrance, exit) = running.doors(lane);
                IoThread::new(lane, entrance, exit, &shared, &control)
            })
            .collect::<io::Result<Vec<_>>>()
            .map_err(StartError::System)?;
        let mailboxes: Vec<_> = io.iter().map(IoThread::mailbox).collect();
        io.iter_mut().for_each(|thread| thread.meet(&mailboxes));
        let address = match io.first_mut() {
            Some(first) => first
                .listen(listener, mailboxes.clone())
                .map_err(StartError::System)?,
            None => asked,
        };
        let woken = mailboxes.clone();
        let wake = move |lane: u16| {
            if let Some(mailbox) = woken.get(usize::from(lane)) {
                mailbox.wake();
            }
        };
        // The cells are set here alone, once.
        let _ = shared.clients.wake.set(Box::new(wake));
        let _ = shared.port.set(address.port());
        let _ = shared.viewer.set(running.viewer());
        let threads = io
            .into_iter()
            .enumerate()
            .map(|(index, thread)| {
                let name = format!("kv-io-{index}");
                std::thread::Builder::new()
                    .name(name)
                    .spawn(move || thread.run())
            })
            .collect::<io::Result<Vec<_>>>()
            .map_err(StartError::System)?;
        Ok(Self {
            shared,
            control,
            address,
            running,
            mailboxes,
            threads,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What all threads see.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether a thread has ended without having been told to.
    pub(crate) fn has_failed(&self) -> bool {
        self.running.is_stopping() || self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Answers what was read, then ends everything, within the drain's time.
    pub(crate) fn drain(self) -> Ending {
        let start = Instant::now();
        let span = self.shared.settings.drain;
        // A tenth is kept for the graph, which has nothing left to do by then.
        self.control.drain(start + span * 9 / 10);
        self.mailboxes.iter().for_each(|mailbox| mailbox.wake());
        let mut faults = Vec::new();
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => faults.push(format!("an I/O thread failed: {error}")),
                Err(_) => faults.push("an I/O thread panicked".to_owned()),
            }
        }
        let left = span.saturating_sub(start.elapsed());
        let undelivered = self.running.drain(left).unwrap_or_else(|error| {
            faults.push(error);
            0
        });
        Ending {
            took: start.elapsed(),
            undelivered,
            cut_off: self.shared.counters.cut_off.get(),
            faults,
        }
    }
}
