//! What a graph tells about itself: live metrics, and the report at its end.

use core::fmt;

use crate::graph::EdgeInfo;
use crate::sharder::WorkerStats;
use crate::timers::Nanos;

/// A handler that panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicRecord {
    /// The name of the processor in `graph!`.
    pub processor: &'static str,
    /// Which of its replicas.
    pub replica: usize,
    /// The edge of the message in hand; `None` for a ping.
    pub edge: Option<&'static EdgeInfo>,
    /// The text of the panic.
    pub message: String,
}

impl fmt::Display for PanicRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] ", self.processor, self.replica)?;
        match self.edge {
            Some(edge) => write!(f, "handling {edge}: {}", self.message),
            None => write!(f, "in its ping: {}", self.message),
        }
    }
}

/// The counts of one instance of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceMetrics {
    /// The index of the processor in `PROCESSORS`.
    pub processor: usize,
    /// The name of the processor in `graph!`.
    pub name: &'static str,
    /// Which of its replicas.
    pub replica: usize,
    /// The worker that the assignment in force gives it to.
    pub worker: usize,
    /// Pings.
    pub pings: u64,
    /// Messages handled, or given up.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Turns that found something to do.
    pub turns: u64,
    /// Turns that ended for want of room in an edge that leaves.
    pub gated: u64,
    /// Panics of its handlers.
    pub panics: u64,
    /// The time of its turns, as far as they were measured: not while the
    /// balancer reads the figures.
    pub busy: Nanos,
}

/// The counts of one edge, over all its rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EdgeMetrics {
    /// The edge.
    pub edge: &'static EdgeInfo,
    /// Messages sent; from ingress, those that entered a turn.
    pub sent: u64,
    /// Messages handled or given up; by egress, those taken by receivers.
    pub received: u64,
    /// Messages that wait.
    pub depth: u64,
    /// Requests that were sent and neither answered nor waived; zero on other edges.
    pub unanswered: u64,
    /// How long a server has kept the oldest [`ReplyTo`](crate::ReplyTo) of this edge; zero
    /// if none is kept.
    pub oldest: Nanos,
}

/// What a running graph does, as far as one thread can see at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Per instance, in the order of the declaration.
    pub instances: Vec<InstanceMetrics>,
    /// Per edge, in the order of the declaration.
    pub edges: Vec<EdgeMetrics>,
    /// Per worker.
    pub workers: Vec<WorkerStats>,
    /// How many assignments there were after the first.
    pub epochs: u64,
    /// How many times an instance was moved to another worker.
    pub moves: u64,
}

/// Messages of one edge that were accepted and never handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undelivered {
    /// The edge.
    pub edge: &'static EdgeInfo,
    /// How many.
    pub messages: u64,
}

/// What happened in a graph.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The counts.
    pub metrics: Metrics,
    /// The first 256 panics of handlers.
    pub panics: Vec<PanicRecord>,
    /// The edges on which messages were lost: still waiting at a stop, in the
    /// hand of a handler that panicked, sent to a retired processor, or to a
    /// receiver that is gone or was never taken.
    pub undelivered: Vec<Undelivered>,
    /// Why decisions of the balancer were refused.
    pub rejections: Vec<String>,
    /// Faults of the runtime itself or of what it calls outside of handlers:
    /// a thread that could not be started, a destructor that panicked.
    pub faults: Vec<String>,
}

impl Report {
    /// Returns how many messages were accepted and never handled.
    #[must_use]
    pub fn undelivered_total(&self) -> u64 {
        self.undelivered.iter().map(|lost| lost.messages).sum()
    }

    /// Returns how many messages were handled, or given up, by processors.
    #[must_use]
    pub fn received_total(&self) -> u64 {
        self.metrics.instances.iter().map(|one| one.received).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics = &self.metrics;
        write!(
            f,
            "{} messages handled by {} instances on {} workers; {} epochs, {} moves",
            self.received_total(),
            metrics.instances.len(),
            metrics.workers.len(),
            metrics.epochs,
            metrics.moves,
        )?;
        for panic in &self.panics {
            write!(f, "\npanic: {panic}")?;
        }
        for edge in metrics.edges.iter().filter(|edge| edge.unanswered > 0) {
            write!(f, "\nunanswered: {} of {}", edge.unanswered, edge.edge)?;
            if edge.oldest > Nanos::ZERO {
                write!(f, ", the oldest kept for {}", edge.oldest)?;
            }
        }
        for lost in &self.undelivered {
            write!(f, "\nundelivered: {} of {}", lost.messages, lost.edge)?;
        }
        for text in self.rejections.iter().chain(&self.faults) {
            write!(f, "\n{text}")?;
        }
        Ok(())
    }
}

/// The graph was stopped before it came to rest: by the deadline, or by somebody else.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DrainError {
    /// What happened, with what was lost.
    pub report: Box<Report>,
}

impl fmt::Display for DrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the graph ended before it came to rest; {} messages were not delivered",
            self.report.undelivered_total()
        )
    }
}

impl core::error::Error for DrainError {}
