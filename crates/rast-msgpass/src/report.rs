//! What a graph tells about itself: live metrics, and the report at its end.

use core::fmt;

use crate::ending::EndedBy;
use crate::graph::{EdgeInfo, Node, ProcessorInfo};
use crate::sharder::WorkerStats;
use crate::states::States;
use crate::timers::Nanos;

/// Which handler of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handler {
    /// [`Receive::receive`](crate::Receive::receive), of a message on an edge.
    Message,
    /// [`Receive::receive`](crate::Receive::receive), of a timer's message.
    Timer,
    /// [`Process::ping`](crate::Process::ping).
    Ping,
    /// [`Process::flush`](crate::Process::flush).
    Flush,
}

/// A handler that panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicRecord {
    /// The name of the processor in `graph!`.
    pub processor: &'static str,
    /// Which of its replicas.
    pub replica: usize,
    /// Which of its handlers.
    pub handler: Handler,
    /// The edge of the message in hand; `None` where it came on none.
    pub edge: Option<&'static EdgeInfo>,
    /// The text of the panic.
    pub message: String,
}

impl fmt::Display for PanicRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] ", self.processor, self.replica)?;
        match (self.edge, self.handler) {
            (Some(edge), _) => write!(f, "handling {edge}")?,
            (None, Handler::Ping) => f.write_str("in its ping")?,
            (None, Handler::Flush) => f.write_str("in its flush")?,
            (None, Handler::Timer | Handler::Message) => f.write_str("in a timer's handler")?,
        }
        write!(f, ": {}", self.message)
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
    /// Messages that wait: the length of the edge.
    pub depth: u64,
    /// Requests that were sent and neither answered nor waived; zero on other edges.
    pub unanswered: u64,
    /// How long the oldest of these has had no answer; zero if all have one.
    ///
    /// Of requests that are kept as a [`ReplyTo`](crate::ReplyTo), since they were received. Of
    /// others, since they were sent, or longer by at most the time that the answers before took.
    /// Where answers come by inboxes a client has one count for all servers, which hides a slow
    /// one among fast ones.
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
    /// The unbounded edges that reached their ceilings, which stopped the graph if nothing had
    /// before.
    pub ceilings: Vec<&'static EdgeInfo>,
    /// The edges on which messages were lost: still waiting at a stop, in the
    /// hand of a handler that panicked, sent to a retired processor, or to a
    /// receiver that is gone or was never taken.
    pub undelivered: Vec<Undelivered>,
    /// Why decisions of the balancer were refused.
    pub rejections: Vec<String>,
    /// Faults of the runtime itself or of what it calls outside of handlers:
    /// a thread that could not be started, a destructor that panicked.
    pub faults: Vec<String>,
    /// Timers of [`Cx::after`](crate::Cx::after) and [`Cx::every`](crate::Cx::every) that were
    /// cancelled by a drain or a stop, or with a retired processor.
    pub timers_cancelled: u64,
    /// What ended the graph, or is to; `None` while it runs.
    pub ended_by: Option<EndedBy>,
    pub(crate) states: States,
}

impl Report {
    /// Takes the processors of type `P`, by replica, as their last handlers left them: one that
    /// panicked may be half updated. Empty while the graph runs, and when they were taken
    /// before, also from a clone of the report.
    ///
    /// ```
    /// # use rast_msgpass::{Cx, Ingress, Process, Receive, graph};
    /// # struct Sum(u64);
    /// # graph! {
    /// #     graph App {
    /// #         processors { sum: Sum }
    /// #         edges { ingress -> sum: u64; }
    /// #     }
    /// # }
    /// # impl Process<App> for Sum {}
    /// # impl Receive<App, Ingress, u64> for Sum {
    /// #     fn receive(&mut self, number: u64, _: &mut Cx<'_, App, Self>) {
    /// #         self.0 += number;
    /// #     }
    /// # }
    /// let app = App::builder(Sum(0)).start()?;
    /// app.ingress::<Sum, u64>().send(7)?;
    /// let report = app.drain(std::time::Duration::from_secs(10))?;
    /// assert_eq!(report.take_states::<App, Sum>()[0].0, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn take_states<G: Node<P>, P: 'static>(&self) -> Vec<P> {
        let Some(node) = <G as Node<P>>::END.processor() else {
            return Vec::new();
        };
        let shards = |info: &ProcessorInfo| info.replicas;
        let first = G::PROCESSORS[..node].iter().map(shards).sum::<usize>();
        self.states
            .take(first..first + shards(&G::PROCESSORS[node]))
    }

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
        for &edge in &self.ceilings {
            write!(f, "\nceiling: {}", EndedBy::Ceiling { edge })?;
        }
        for edge in metrics.edges.iter().filter(|edge| edge.unanswered > 0) {
            write!(f, "\nunanswered: {} of {}", edge.unanswered, edge.edge)?;
            if edge.oldest > Nanos::ZERO {
                write!(f, ", the oldest for {}", edge.oldest)?;
            }
        }
        for lost in &self.undelivered {
            write!(f, "\nundelivered: {} of {}", lost.messages, lost.edge)?;
        }
        if self.timers_cancelled > 0 {
            write!(f, "\n{} timers cancelled", self.timers_cancelled)?;
        }
        for text in self.rejections.iter().chain(&self.faults) {
            write!(f, "\n{text}")?;
        }
        Ok(())
    }
}
