//! Views of a running graph: its counts, its report so far, and its assignment.

use core::fmt;

use crate::counter::Counter;
use crate::credit::oldest;
use crate::door::AnyDoor;
use crate::drawing::Drawing;
use crate::egress::Lane;
use crate::ending::EndedBy;
use crate::graph::{EdgeKind, End};
use crate::primitive::sync::{Arc, Mutex};
use crate::report::{EdgeMetrics, InstanceMetrics, Metrics, Report, Undelivered};
use crate::sends::answers_to;
use crate::sharder::{self, Published, ShardId};
use crate::shared::Shared;
use crate::states::States;
use crate::timers::{Clock, Nanos};
use crate::times::Histogram;
use crate::timings::{EdgeTimings, ProcessorTimings, Timings};

/// What the threads of a graph noted beside the shared counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    pub(crate) rejections: Vec<String>,
    pub(crate) faults: Vec<String>,
}

/// What any thread reads of a graph.
pub(crate) struct View {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sharder: sharder::Handle,
    /// Per edge: its doors.
    pub(crate) closers: Vec<Vec<Box<dyn AnyDoor>>>,
    /// Per edge: its lanes.
    pub(crate) lanes: Vec<Vec<Arc<Lane>>>,
    /// Set at the end.
    pub(crate) notes: Mutex<Notes>,
}

impl View {
    /// Reads the counts.
    pub(crate) fn metrics(&self) -> Metrics {
        let shared = &self.shared;
        let stats = self.sharder.stats();
        let published = self.sharder.assignment();
        let lost = shared.undelivered();
        let mut edges: Vec<EdgeMetrics> = shared
            .edges
            .iter()
            .map(|edge| EdgeMetrics {
                edge,
                sent: 0,
                received: 0,
                depth: 0,
                dropped: 0,
                unanswered: 0,
                oldest: Nanos::ZERO,
            })
            .collect();
        let now = shared.clock.now();
        let see = |edge: &mut EdgeMetrics, since: &Counter| {
            let age = oldest(since).map_or(Nanos::ZERO, |since| now.saturating_since(since));
            edge.oldest = edge.oldest.max(age);
        };
        // Per edge of requests: those that were answered or waived.
        let mut ended = vec![0; shared.edges.len()];
        let mut instances = Vec::with_capacity(shared.stats.len());
        for (shard, counts) in shared.stats.iter().enumerate() {
            let (node, replica) = shared.instance(shard);
            let end = End::Processor(node);
            let mut total_received = 0;
            let incoming = (0..shared.edges.len()).filter(|&edge| shared.edges[edge].to == end);
            for (index, edge) in incoming.enumerate() {
                let received = counts.received[index].get();
                total_received += received;
                edges[edge].received += received;
                edges[edge].sent += counts.entered[index].get();
            }
            let mut total_sent = 0;
            let outgoing = (0..shared.edges.len()).filter(|&edge| shared.edges[edge].from == end);
            for (index, edge) in outgoing.enumerate() {
                let sent = counts.sent[index].get();
                total_sent += sent;
                edges[edge].sent += sent;
                edges[edge].dropped += counts.dropped[index].get();
                if let EdgeKind::Reply { request } = shared.edges[edge].kind {
                    ended[request] += sent + counts.waived[index].get();
                    see(&mut edges[request], &counts.since[index]);
                }
                for since in counts.asked[index].iter() {
                    see(&mut edges[edge], since);
                }
            }
            instances.push(InstanceMetrics {
                processor: node,
                name: shared.processors[node].name,
                replica,
                worker: published
                    .assignment
                    .owner(ShardId::from_index(shard))
                    .index(),
                pings: counts.pings.get(),
                received: total_received,
                sent: total_sent,
                turns: counts.turns.get(),
                gated: counts.gated.get(),
                panics: counts.panics.get(),
                restarts: counts.restarts.get(),
                is_retired: shared.deaths.has(shard),
                busy: Nanos::from_nanos(counts.busy_ns.get()),
            });
        }
        for (edge, counts) in edges.iter_mut().enumerate() {
            counts.received += self.lanes[edge]
                .iter()
                .map(|lane| lane.taken())
                .sum::<u64>();
            let doors: u64 = self.closers[edge]
                .iter()
                .map(|door| door.len() as u64)
                .sum();
            // On the way out, what was lost is not among the received.
            let lost = match counts.edge.to {
                End::Egress => lost[edge],
                End::Ingress | End::Processor(_) => shared.abandoned(edge),
            };
            let gone = counts.received + lost;
            counts.depth = counts.sent.saturating_sub(gone) + doors;
            if answers_to(shared.edges, edge).is_some() {
                counts.unanswered = counts.sent.saturating_sub(ended[edge]);
            }
            if counts.unanswered == 0 {
                counts.oldest = Nanos::ZERO;
            }
        }
        Metrics {
            instances,
            edges,
            workers: stats.workers,
            epochs: stats.epochs,
            moves: stats.moves,
        }
    }

    /// Reads the histograms, if messages are measured.
    pub(crate) fn timings(&self) -> Option<Timings> {
        let shared = &self.shared;
        if shared.one_in == 0 {
            return None;
        }
        let edge = |(edge, lanes): (_, &Vec<Arc<Lane>>)| {
            let mut waiting = Histogram::new();
            let lanes = lanes.iter().filter_map(|lane| lane.waiting());
            lanes.for_each(|lane| lane.add_to(&mut waiting));
            EdgeTimings { edge, waiting }
        };
        let edges = shared.edges.iter().zip(&self.lanes).map(edge);
        let mut edges: Vec<EdgeTimings> = edges.collect();
        let mut processors = Vec::with_capacity(shared.processors.len());
        for (processor, info) in shared.processors.iter().enumerate() {
            let mut handling = Histogram::new();
            let end = End::Processor(processor);
            for shard in shared.shards_of(processor) {
                let Some(times) = &shared.stats[shard].times else {
                    continue;
                };
                times.handling.add_to(&mut handling);
                let entering = edges.iter_mut().filter(|edge| edge.edge.to == end);
                for (edge, waiting) in entering.zip(&times.waiting) {
                    waiting.add_to(&mut edge.waiting);
                }
            }
            processors.push(ProcessorTimings {
                processor,
                name: info.name,
                handling,
            });
        }
        Some(Timings {
            one_in: shared.one_in,
            edges,
            processors,
        })
    }

    /// Reads what a picture shows.
    fn drawing(&self) -> Drawing {
        let shared = &self.shared;
        Drawing {
            graph: shared.graph,
            processors: shared.processors,
            metrics: self.metrics(),
            timings: self.timings(),
            elapsed: shared.clock.now().saturating_since(shared.since),
        }
    }

    /// Returns the report so far, with these states.
    pub(crate) fn report(&self, states: States) -> Report {
        let notes = self.notes.lock().clone();
        let lost = self.shared.undelivered();
        let (metrics, timings) = (self.metrics(), self.timings());
        // After all that reads the clock.
        let shared_faults = self.shared.faults();
        let undelivered = self.shared.edges.iter().zip(lost);
        Report {
            metrics,
            panics: self.shared.panics(),
            ceilings: self.shared.ceilings(),
            undelivered: undelivered
                .filter(|&(_, messages)| messages > 0)
                .map(|(edge, messages)| Undelivered { edge, messages })
                .collect(),
            rejections: notes.rejections,
            faults: [shared_faults, notes.faults].concat(),
            timers_cancelled: self.shared.timers_cancelled(),
            timings,
            ended_by: self.shared.ending.cause(),
            states,
        }
    }
}

/// Reads the metrics, the report and the assignment of a graph, from any thread.
///
/// Made by [`Handle::viewer`](crate::Handle::viewer). Clones read the same graph. A viewer neither
/// keeps the graph running nor stops it; after the end it shows the last counts.
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
/// let viewer = app.viewer();
/// let watcher = std::thread::spawn({
///     let viewer = viewer.clone();
///     move || while viewer.ended_by().is_none() && viewer.metrics().edges[0].received < 2 {
///         std::thread::yield_now();
///     }
/// });
/// let numbers = app.ingress::<Sum, u64>();
/// numbers.send(1)?;
/// numbers.send(2)?;
/// watcher.join().unwrap();
/// app.drain(std::time::Duration::from_secs(10))?;
/// assert_eq!(viewer.report().received_total(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Viewer {
    view: Arc<View>,
}

impl Viewer {
    pub(crate) fn new(view: Arc<View>) -> Self {
        Self { view }
    }

    /// Returns the name of the graph.
    #[must_use]
    pub fn graph(&self) -> &'static str {
        self.view.shared.graph
    }

    /// Reads the counts, as [`Handle::metrics`](crate::Handle::metrics). Costs one load per count
    /// and some allocations; no worker waits for it.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.view.metrics()
    }

    /// Reads how long messages waited and were handled so far; `None` without
    /// [`Builder::sample`](crate::Builder::sample). Costs a copy of 2.4 KiB per edge and processor
    /// and a pass over the histogram of each instance; no worker waits for it.
    #[must_use]
    pub fn timings(&self) -> Option<Timings> {
        self.view.timings()
    }

    /// Draws the running graph for Graphviz. Each instance is a box in the colour of its worker.
    /// The longer the instance was busy since the start, the stronger the colour. The label of an
    /// edge shows how many messages were sent and are queued, and the 99th percentile of the
    /// waiting time if that is [measured](crate::Builder::sample).
    ///
    /// Costs what [`metrics`](Self::metrics) and [`timings`](Self::timings) cost, plus a `String`.
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
    /// let app = App::builder(Sum(0)).sample(1).start()?;
    /// let viewer = app.viewer();
    /// app.ingress::<Sum, u64>().send(7)?;
    /// app.drain(std::time::Duration::from_secs(10))?;
    /// assert!(viewer.dot().contains("1 sent, 0 queued"));
    /// assert!(viewer.mermaid().contains("p99"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dot(&self) -> String {
        self.view.drawing().dot()
    }

    /// Draws the graph as it runs, for Mermaid, as [`dot`](Self::dot) does for Graphviz.
    #[must_use]
    pub fn mermaid(&self) -> String {
        self.view.drawing().mermaid()
    }

    /// Returns the report so far, as [`Handle::report`](crate::Handle::report), without the states
    /// of processors. It takes locks that a worker takes when it records a panic.
    #[must_use]
    pub fn report(&self) -> Report {
        self.view.report(States::default())
    }

    /// Returns which worker has which shard, and the epoch of this assignment. A replica has the
    /// shard of [`Handle::shard_of`](crate::Handle::shard_of). Lock-free; it copies the table.
    #[must_use]
    pub fn assignment(&self) -> Published {
        self.view.sharder.assignment().clone()
    }

    /// Returns what ended the graph or is about to end it; `None` while it runs.
    #[must_use]
    pub fn ended_by(&self) -> Option<EndedBy> {
        self.view.shared.ending.cause()
    }
}

impl fmt::Debug for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewer")
            .field("graph", &self.view.shared.graph)
            .field("ended_by", &self.ended_by())
            .finish_non_exhaustive()
    }
}
