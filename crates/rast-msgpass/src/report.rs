//! Live metrics of a graph, and the report at its end.

use core::fmt;
use core::ops::Range;

use crate::ending::EndedBy;
use crate::graph::{Edge, EdgeInfo, Node};
use crate::sharder::WorkerStats;
use crate::states::States;
use crate::timers::Nanos;
use crate::timings::Timings;

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
    /// [`Process::on_start`](crate::Process::on_start).
    Start,
    /// [`Process::on_stop`](crate::Process::on_stop).
    Stop,
    /// [`Process::on_retired`](crate::Process::on_retired).
    Retired,
    /// The factory of [`Builder::restart`](crate::Builder::restart).
    Factory,
}

/// Equal panics of the handlers of one processor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicRecord {
    /// The name of the processor in `graph!`.
    pub processor: &'static str,
    /// The replica that panicked first.
    pub replica: usize,
    /// The handler that panicked.
    pub handler: Handler,
    /// The edge of the message that was handled; `None` if there was none.
    pub edge: Option<&'static EdgeInfo>,
    /// The text of the panic.
    pub message: String,
    /// The number of these panics, over all replicas.
    pub count: u64,
}

impl PanicRecord {
    /// Returns `true` if the other one differs in its replica and count at most.
    pub(crate) fn is_equal(&self, other: &Self) -> bool {
        (self.processor, self.handler, self.edge) == (other.processor, other.handler, other.edge)
            && self.message == other.message
    }
}

impl fmt::Display for PanicRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] ", self.processor, self.replica)?;
        match (self.edge, self.handler) {
            (Some(edge), _) => write!(f, "handling {edge}")?,
            (None, Handler::Ping) => f.write_str("in its ping")?,
            (None, Handler::Flush) => f.write_str("in its flush")?,
            (None, Handler::Start) => f.write_str("in its on_start")?,
            (None, Handler::Stop) => f.write_str("in its on_stop")?,
            (None, Handler::Retired) => f.write_str("in its on_retired")?,
            (None, Handler::Factory) => f.write_str("in its factory")?,
            (None, Handler::Timer | Handler::Message) => f.write_str("in a timer's handler")?,
        }
        write!(f, ": {}", self.message)?;
        match self.count {
            1 => Ok(()),
            count => write!(f, " ({count} times)"),
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
    /// The index of the replica.
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
    /// Turns that ended because an outgoing edge lacked room.
    pub gated: u64,
    /// Panics of its handlers.
    pub panics: u64,
    /// How often it was restarted.
    pub restarts: u64,
    /// Whether it is retired.
    pub is_retired: bool,
    /// The measured time of its turns. Turns are not measured while the balancer reads the figures.
    /// Published about once per millisecond in which it runs. In a graph of more than 64 instances
    /// the time is longer in proportion, up to 16 ms.
    pub busy: Nanos,
}

/// The counts of one edge, over all its rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EdgeMetrics {
    /// The edge.
    pub edge: &'static EdgeInfo,
    /// Messages sent; on an edge from ingress, those taken from a door.
    pub sent: u64,
    /// Messages handled or given up; on an edge to egress, those taken by receivers.
    pub received: u64,
    /// Messages that were dropped because there was no room, on an edge with `drop_newest`,
    /// `drop_oldest` or `latest`. They do not count as sent.
    pub dropped: u64,
    /// Queued messages.
    pub depth: u64,
    /// Requests that were sent and neither answered nor waived; zero on other edges.
    pub unanswered: u64,
    /// Age of the oldest request of `unanswered`; zero if there is none.
    ///
    /// The age of a request that is kept as a [`ReplyTo`](crate::ReplyTo) counts from its receipt.
    /// The age of another request counts from its sending, and is too high by at most the time that
    /// the answers before it took. If answers come by inboxes, a client has one count for all
    /// servers, which hides a slow server among fast ones.
    pub oldest: Nanos,
}

/// The counts of a running graph, read one by one, so they may be from different moments.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Per instance, in the order of the declaration.
    pub instances: Vec<InstanceMetrics>,
    /// Per edge, in the order of the declaration.
    pub edges: Vec<EdgeMetrics>,
    /// Per worker.
    pub workers: Vec<WorkerStats>,
    /// The number of assignments after the first.
    pub epochs: u64,
    /// The number of moves of an instance to another worker.
    pub moves: u64,
}

impl Metrics {
    /// Returns the counts of the edge from `From` to `To` with the message `M`.
    ///
    /// # Panics
    ///
    /// If `self` has the counts of a graph other than `G`.
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
    /// let metrics = app.drain(std::time::Duration::from_secs(10))?.metrics;
    /// assert_eq!(metrics.edge::<App, Ingress, Sum, u64>().received, 1);
    /// assert_eq!(metrics.instances_of::<App, Sum>()[0].received, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn edge<G, From, To, M>(&self) -> &EdgeMetrics
    where
        G: Node<From> + Node<To>,
        M: Edge<G, From, To>,
    {
        let edge = self.edges.get(<M as Edge<G, From, To>>::ID);
        let edge = edge.filter(|edge| edge.edge == <M as Edge<G, From, To>>::INFO);
        edge.unwrap_or_else(|| panic!("these are not the counts of graph `{}`", G::NAME))
    }

    /// Returns the counts of the instances of `P`, by replica. Empty for
    /// [`Ingress`](crate::Ingress) and [`Egress`](crate::Egress).
    #[must_use]
    pub fn instances_of<G: Node<P>, P>(&self) -> &[InstanceMetrics] {
        &self.instances[self.range_of::<G, P>()]
    }

    /// Returns where the instances of `P` are.
    fn range_of<G: Node<P>, P>(&self) -> Range<usize> {
        let Some(node) = <G as Node<P>>::END.processor() else {
            return 0..0;
        };
        let first = (self.instances).partition_point(|one| one.processor < node);
        let end = (self.instances).partition_point(|one| one.processor <= node);
        first..end
    }
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
    /// The first 256 different panics of handlers, with their numbers.
    pub panics: Vec<PanicRecord>,
    /// The unbounded edges that reached their ceilings. This stopped the graph, unless something
    /// else had before.
    pub ceilings: Vec<&'static EdgeInfo>,
    /// The edges on which messages were lost. These were queued at a stop, in the hand of a handler
    /// that panicked, sent to a retired processor, or sent to a receiver that was dropped or never
    /// requested.
    pub undelivered: Vec<Undelivered>,
    /// Why decisions of the balancer were refused.
    pub rejections: Vec<String>,
    /// Faults of the runtime itself or of user code outside of handlers:
    /// a thread that could not be started, a destructor that panicked.
    pub faults: Vec<String>,
    /// Timers of [`Cx::after`](crate::Cx::after) and [`Cx::every`](crate::Cx::every) that were
    /// cancelled by a drain or a stop, or with a retired processor.
    pub timers_cancelled: u64,
    /// How long messages waited and were handled; `None` without
    /// [`Builder::sample`](crate::Builder::sample).
    pub timings: Option<Timings>,
    /// What ended the graph or is about to end it; `None` while it runs.
    pub ended_by: Option<EndedBy>,
    pub(crate) states: States,
}

impl Report {
    /// Takes the processors of type `P`, by replica, as their last handlers left them. A processor
    /// that panicked may be half updated, and one that waited for a restart is missing. The result
    /// is empty while the graph runs, or if the processors were taken before, even from a clone of
    /// the report.
    ///
    /// The last clone of the report drops the processors that were not taken. If destructors panic
    /// then, all others still run, and the first panic continues.
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
        self.states.take(self.metrics.range_of::<G, P>())
    }

    /// Returns how many messages were accepted and never handled.
    #[must_use]
    pub fn undelivered_total(&self) -> u64 {
        self.undelivered.iter().map(|lost| lost.messages).sum()
    }

    /// Writes a line for each processor and for each edge.
    fn fmt_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (metrics, mut rows) = (&self.metrics, Vec::new());
        for first in metrics.instances.iter().filter(|one| one.replica == 0) {
            let instances = metrics.instances.iter();
            let instances: Vec<_> = instances
                .filter(|one| one.processor == first.processor)
                .collect();
            let sum = |count: fn(&InstanceMetrics) -> u64| -> u64 {
                instances.iter().map(|one| count(one)).sum()
            };
            let name = match instances.len() {
                1 => first.name.to_owned(),
                count => format!("{} x {count}", first.name),
            };
            let sums = [
                sum(|one| one.received),
                sum(|one| one.sent),
                sum(|one| one.panics),
                sum(|one| one.restarts),
                sum(|one| u64::from(one.is_retired)),
            ];
            rows.push((name, sums));
        }
        table(
            f,
            "processor",
            ["received", "sent", "panics", "restarts", "retired"],
            &rows,
        )?;
        let lost = |edge: &EdgeInfo| {
            let lost = self.undelivered.iter().find(|lost| lost.edge == edge);
            lost.map_or(0, |lost| lost.messages)
        };
        let edge = |edge: &EdgeMetrics| {
            let counts = [
                edge.sent,
                edge.received,
                edge.depth,
                edge.dropped,
                lost(edge.edge),
            ];
            (edge.edge.to_string(), counts)
        };
        let rows: Vec<_> = metrics.edges.iter().map(edge).collect();
        table(
            f,
            "edge",
            ["sent", "received", "depth", "dropped", "undelivered"],
            &rows,
        )
    }

    /// Returns how many messages were handled, or given up, by processors.
    #[must_use]
    pub fn received_total(&self) -> u64 {
        self.metrics.instances.iter().map(|one| one.received).sum()
    }
}

/// Writes a table of numbers, each line after a line break.
fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    heads: [&str; N],
    rows: &[(String, [u64; N])],
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let lengths = rows.iter().map(|(name, _)| name.len());
    let width = lengths.max().unwrap_or(0).max(what.len());
    let columns = heads.iter().enumerate().map(|(column, head)| {
        let lengths = rows
            .iter()
            .map(|(_, counts)| counts[column].to_string().len());
        lengths.max().unwrap_or(0).max(head.len())
    });
    let columns: Vec<usize> = columns.collect();
    write!(f, "\n{what:width$}")?;
    for (head, column) in heads.iter().zip(&columns) {
        write!(f, "  {head:>column$}")?;
    }
    for (name, counts) in rows {
        write!(f, "\n{name:width$}")?;
        for (count, column) in counts.iter().zip(&columns) {
            write!(f, "  {count:>column$}")?;
        }
    }
    Ok(())
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
        self.fmt_tables(f)?;
        if let Some(timings) = &self.timings {
            write!(f, "\n{timings}")?;
        }
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
