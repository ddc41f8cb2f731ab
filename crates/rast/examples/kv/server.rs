//! A running server: the graph, its I/O processors, and their common end.
//!
//! At the start the server binds its address, makes the polls and the I/O processors, and starts
//! the graph. At the end the I/O processors stop accepting and reading. They answer the commands
//! that they have parsed, send the replies and close. Then the graph has no messages left, and is
//! drained.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rast::msgpass::{Handle, Viewer};

use crate::args::Settings;
use crate::graph::{self, Kv};
use crate::io::{Ended, Io, Mailbox};
use crate::listen;
use crate::shared::Shared;

/// A running server.
pub(crate) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    graph: Handle<Kv>,
    mailboxes: Vec<Arc<Mailbox>>,
    /// Each I/O processor tells how it has ended.
    ended: Receiver<Ended>,
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
    /// Binds the port and starts the graph; the error says why it did not start.
    pub(crate) fn start(settings: Settings) -> Result<Self, String> {
        let port = settings.port;
        let listening = |error: io::Error| match error.kind() {
            ErrorKind::AddrInUse => format!(
                "port {port} on 127.0.0.1 is taken; choose another one with --port N \
                 (0 takes a free one)"
            ),
            _ => format!("cannot listen on 127.0.0.1:{port} (set by --port): {error}"),
        };
        let polling = |error| format!("cannot poll sockets: {error}");
        let listener = listen::bind(port).map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        let shared = Arc::new(Shared::new(settings));
        let polls: Vec<Arc<Mailbox>> = (0..settings.workers)
            .map(|worker| graph::poller(worker).map(Mailbox::new))
            .collect::<io::Result<_>>()
            .map_err(polling)?;
        let mailboxes = polls[..settings.ios()].to_vec();
        let (telling, ended) = channel();
        let mut ios = (0..mailboxes.len())
            .map(|number| Io::new(number, &mailboxes, &shared, telling.clone()))
            .collect::<io::Result<Vec<_>>>()
            .map_err(polling)?;
        ios[0].listen(listener, &mailboxes).map_err(polling)?;
        let woken = mailboxes.clone();
        let wake = move |io: u16| woken[usize::from(io)].wake();
        // The cells are set here alone, once.
        let _ = shared.clients.wake.set(Box::new(wake));
        let _ = shared.port.set(address.port());
        let graph = graph::start(&shared, ios, polls)
            .map_err(|error| format!("cannot start the graph: {error}"))?;
        let _ = shared.viewer.set(graph::viewer(&graph));
        Ok(Self {
            shared,
            address,
            graph,
            mailboxes,
            ended,
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

    /// What reads the graph.
    pub(crate) fn viewer(&self) -> Viewer {
        self.graph.viewer()
    }

    /// Whether the graph has ended without having been told to.
    pub(crate) fn has_failed(&self) -> bool {
        self.graph.is_stopping()
    }

    /// Answers what was read, then ends everything, within the drain's time.
    pub(crate) fn drain(self) -> Ending {
        let start = Instant::now();
        let span = self.shared.settings.drain;
        // A tenth is kept for the graph, which has nothing left to do by then.
        let _ = self.shared.drain_until.set(start + span * 9 / 10);
        self.mailboxes.iter().for_each(|mailbox| mailbox.wake());
        let mut faults = Vec::new();
        let mut left = self.mailboxes.len();
        while left > 0 && !self.has_failed() {
            match self.ended.recv_timeout(crate::LOOK) {
                Ok(how) => {
                    left -= 1;
                    if let Err(error) = how {
                        faults.push(format!("polling the sockets failed: {error}"));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let left = span.saturating_sub(start.elapsed());
        let undelivered = graph::drain(self.graph, left).unwrap_or_else(|error| {
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
