//! The counts and histograms of a graph, for whatever recorder the crate `metrics` was given.
//!
//! When an [`Exporter`] is called, it passes on the counts, and the samples of histograms since its
//! last call.

use core::fmt;

use ::metrics::{Counter, Gauge, Unit};

use crate::report::{EdgeMetrics, InstanceMetrics};
use crate::times::Histogram;
use crate::timings::Timings;
use crate::view::Viewer;

/// The handles of one edge.
struct Edge {
    sent: Counter,
    received: Counter,
    dropped: Counter,
    queued: Gauge,
    unanswered: Gauge,
    waiting: ::metrics::Histogram,
}

/// The handles of one instance.
struct Instance {
    received: Counter,
    sent: Counter,
    panics: Counter,
    restarts: Counter,
    busy: Gauge,
    worker: Gauge,
    retired: Gauge,
}

/// Passes the counts and histograms of a graph on to the recorder of the crate
/// [`metrics`](https://docs.rs/metrics).
///
/// | name | kind | labels |
/// | --- | --- | --- |
/// | `rast_edge_sent_total`, `rast_edge_received_total`, `rast_edge_dropped_total` | counter | `graph`, `edge` |
/// | `rast_edge_queued`, `rast_edge_unanswered` | gauge | `graph`, `edge` |
/// | `rast_edge_waiting_seconds` | histogram | `graph`, `edge` |
/// | `rast_processor_received_total`, `rast_processor_sent_total`, `rast_processor_panics_total`, `rast_processor_restarts_total` | counter | `graph`, `processor`, `replica` |
/// | `rast_processor_busy_seconds`, `rast_processor_worker`, `rast_processor_retired` | gauge | `graph`, `processor`, `replica` |
/// | `rast_processor_handling_seconds` | histogram | `graph`, `processor` |
/// | `rast_moves_total`, `rast_epochs_total` | counter | `graph` |
///
/// The histograms contain only [measured](crate::Builder::sample) messages. Each value is reported
/// as the largest value of its bucket, at most an eighth too high. An edge is named by its sender,
/// its receiver and its message.
///
/// A call of [`export`](Self::export) reads the same counts as [`Viewer::metrics`] and
/// [`Viewer::timings`], and costs no worker anything. Call it from any thread, as often as the
/// recorder needs new values.
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
/// use rast_msgpass::Exporter;
///
/// let app = App::builder(Sum(0)).sample(1_024).start()?;
/// // After the recorder was set.
/// let mut exporter = Exporter::new(app.viewer());
/// app.ingress::<Sum, u64>().send(7)?;
/// exporter.export();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub struct Exporter {
    viewer: Viewer,
    edges: Vec<Edge>,
    instances: Vec<Instance>,
    /// Per processor.
    handling: Vec<::metrics::Histogram>,
    moves: Counter,
    epochs: Counter,
    /// What histograms had at the last call.
    before: Option<Timings>,
}

impl Exporter {
    /// Registers what is exported with the recorder that is set now.
    #[must_use]
    pub fn new(viewer: Viewer) -> Self {
        describe();
        let (metrics, graph) = (viewer.metrics(), viewer.graph());
        let mut handling = Vec::new();
        for instance in metrics.instances.iter().filter(|one| one.replica == 0) {
            handling.push(::metrics::histogram!(
                "rast_processor_handling_seconds", "graph" => graph, "processor" => instance.name
            ));
        }
        Self {
            edges: metrics
                .edges
                .iter()
                .map(|edge| Edge::new(graph, edge))
                .collect(),
            instances: (metrics.instances.iter())
                .map(|instance| Instance::new(graph, instance))
                .collect(),
            handling,
            moves: ::metrics::counter!("rast_moves_total", "graph" => graph),
            epochs: ::metrics::counter!("rast_epochs_total", "graph" => graph),
            before: None,
            viewer,
        }
    }

    /// Reads the graph, and passes on what it reads.
    pub fn export(&mut self) {
        let (metrics, timings) = (self.viewer.metrics(), self.viewer.timings());
        self.moves.absolute(metrics.moves);
        self.epochs.absolute(metrics.epochs);
        for (handles, edge) in self.edges.iter().zip(&metrics.edges) {
            handles.sent.absolute(edge.sent);
            handles.received.absolute(edge.received);
            handles.dropped.absolute(edge.dropped);
            handles.queued.set(edge.depth as f64);
            handles.unanswered.set(edge.unanswered as f64);
        }
        for (handles, instance) in self.instances.iter().zip(&metrics.instances) {
            handles.received.absolute(instance.received);
            handles.sent.absolute(instance.sent);
            handles.panics.absolute(instance.panics);
            handles.restarts.absolute(instance.restarts);
            handles.busy.set(seconds(instance.busy.as_nanos()));
            handles.worker.set(instance.worker as f64);
            handles
                .retired
                .set(f64::from(u8::from(instance.is_retired)));
        }
        if let Some(timings) = timings {
            let none = Histogram::new();
            let before = self.before.as_ref();
            for (index, edge) in timings.edges.iter().enumerate() {
                let before = before.map_or(&none, |before| &before.edges[index].waiting);
                pass_on(&self.edges[index].waiting, &edge.waiting, before);
            }
            for (index, processor) in timings.processors.iter().enumerate() {
                let before = before.map_or(&none, |before| &before.processors[index].handling);
                pass_on(&self.handling[index], &processor.handling, before);
            }
            self.before = Some(timings);
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Exporter");
        all.field("viewer", &self.viewer).finish_non_exhaustive()
    }
}

impl Edge {
    fn new(graph: &'static str, edge: &EdgeMetrics) -> Self {
        let name = edge.edge.to_string();
        let counter = |what| ::metrics::counter!(what, "graph" => graph, "edge" => name.clone());
        let gauge = |what| ::metrics::gauge!(what, "graph" => graph, "edge" => name.clone());
        Self {
            sent: counter("rast_edge_sent_total"),
            received: counter("rast_edge_received_total"),
            dropped: counter("rast_edge_dropped_total"),
            queued: gauge("rast_edge_queued"),
            unanswered: gauge("rast_edge_unanswered"),
            waiting: ::metrics::histogram!(
                "rast_edge_waiting_seconds", "graph" => graph, "edge" => name.clone()
            ),
        }
    }
}

impl Instance {
    fn new(graph: &'static str, instance: &InstanceMetrics) -> Self {
        let (processor, replica) = (instance.name, instance.replica.to_string());
        let counter = |what| {
            let replica = replica.clone();
            ::metrics::counter!(
                what, "graph" => graph, "processor" => processor, "replica" => replica
            )
        };
        let gauge = |what| {
            let replica = replica.clone();
            ::metrics::gauge!(
                what, "graph" => graph, "processor" => processor, "replica" => replica
            )
        };
        Self {
            received: counter("rast_processor_received_total"),
            sent: counter("rast_processor_sent_total"),
            panics: counter("rast_processor_panics_total"),
            restarts: counter("rast_processor_restarts_total"),
            busy: gauge("rast_processor_busy_seconds"),
            worker: gauge("rast_processor_worker"),
            retired: gauge("rast_processor_retired"),
        }
    }
}

/// Describes to the recorder the names that do not explain themselves.
fn describe() {
    ::metrics::describe_histogram!(
        "rast_edge_waiting_seconds",
        Unit::Seconds,
        "From the send of a message to its handler, of a sample"
    );
    ::metrics::describe_histogram!(
        "rast_processor_handling_seconds",
        Unit::Seconds,
        "The time in the handler of a message, of a sample"
    );
    ::metrics::describe_gauge!("rast_edge_queued", Unit::Count, "Messages that wait");
    ::metrics::describe_gauge!(
        "rast_edge_unanswered",
        Unit::Count,
        "Requests without an answer"
    );
    ::metrics::describe_gauge!(
        "rast_processor_busy_seconds",
        Unit::Seconds,
        "The time of all turns"
    );
    ::metrics::describe_counter!(
        "rast_moves_total",
        Unit::Count,
        "Instances that went to another worker"
    );
}

/// Passes on what a histogram has got since it was read before.
fn pass_on(handle: &::metrics::Histogram, now: &Histogram, before: &Histogram) {
    for (nanos, count) in now.iter_since(before) {
        handle.record_many(seconds(nanos), count as usize);
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
