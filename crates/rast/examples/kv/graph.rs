//! The graph: 64 partitions between a door in and a door out.
//!
//! ```text
//!  I/O threads ══ingress══▶ partition 0..63 ══egress, a lane per I/O thread══▶ I/O threads
//! ```
//!
//! A partition is one replica of one processor, so the runtime measures each of
//! them and moves it between workers while clients run. It owns its keys alone:
//! no map is shared, and no lock is taken on the way of a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rast::msgpass::{
    Cx, Egress, EgressReceiver, Handle, Ingress, IngressSender, Metrics, Next, OnPanic, Process,
    Receive, TrySendError, graph,
};
use rast::primitive::sync::Mutex;

use crate::conn::{Door, Refused};
use crate::message::{Reply, Request};
use crate::route::PARTITIONS;
use crate::shared::{GraphView, Shared, Viewer, WorkerView};
use crate::store::Store;

/// Expired keys that one ping removes.
const EXPIRED_PER_PING: usize = 64;

/// How often a partition without a near deadline is looked at all the same: a key
/// may have got a deadline since its last ping.
const IDLE_PING: Duration = Duration::from_millis(100);

graph! {
    /// The store: partitions between the I/O threads' doors.
    pub(crate) graph Kv {
        processors { partition: [Partition; 64] }
        edges {
            ingress -> partition: Request [cap = 1024];
            partition -> egress: Reply [cap = 64, lanes = 16];
        }
    }
}

/// The way into the partitions.
pub(crate) type Entrance = IngressSender<Kv, Partition, Request>;
/// The way out of them: one lane.
pub(crate) type Exit = EgressReceiver<Reply>;

/// One partition.
#[derive(Debug)]
pub(crate) struct Partition {
    store: Store,
}

impl Process<Kv> for Partition {
    fn ping(&mut self, cx: &mut Cx<'_, Kv, Self>) -> Next {
        let now = cx.now();
        let latest = now.saturating_add(IDLE_PING.into());
        let Some(deadline) = self.store.next_deadline() else {
            return Next::At(latest);
        };
        if deadline <= now && self.store.expire_some(now, EXPIRED_PER_PING) == EXPIRED_PER_PING {
            return Next::Again;
        }
        let next = self.store.next_deadline();
        Next::At(next.map_or(latest, |next| next.min(latest)))
    }
}

impl Receive<Kv, Ingress, Request> for Partition {
    fn receive(&mut self, request: Request, cx: &mut Cx<'_, Kv, Self>) {
        let body = self.store.apply(request.op, cx.now());
        let lane = usize::from(request.to.lane);
        cx.to::<Egress>().lane(lane).send(Reply {
            to: request.to,
            body,
        });
    }
}

impl Door for Entrance {
    fn enter(&mut self, partition: usize, request: Request) -> Result<(), Refused> {
        match self.at(partition).try_send(request) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(request)) => Err(Refused::Full(request)),
            Err(TrySendError::Closed(_)) => Err(Refused::Closed),
        }
    }
}

/// The running graph.
#[derive(Debug)]
pub(crate) struct Running {
    handle: Arc<Handle<Kv>>,
}

/// Starts the graph with empty partitions; the error says why not.
pub(crate) fn start(shared: &Shared) -> Result<Running, String> {
    let settings = &shared.settings;
    let partition = |_| Partition {
        store: Store::new(&shared.memory, &shared.buffers, settings.limits.frame),
    };
    let handle = Kv::builder((0..PARTITIONS).map(partition))
        .workers(settings.workers)
        .period(settings.reshard)
        // A partition that panicked may be half changed: it must answer no more.
        .on_panic(OnPanic::Stop)
        .start()
        .map_err(|error| error.to_string())?;
    Ok(Running {
        handle: Arc::new(handle),
    })
}

impl Running {
    /// The doors of an I/O thread. Each lane may be asked for once.
    pub(crate) fn doors(&self, lane: u16) -> (Entrance, Exit) {
        let exit = self.handle.egress::<Partition, Reply>(usize::from(lane));
        (self.handle.ingress::<Partition, Request>(), exit)
    }

    /// Reads the graph's figures, for as long as it runs.
    pub(crate) fn viewer(&self) -> Viewer {
        let handle = Arc::downgrade(&self.handle);
        let window = Mutex::new(Window::new());
        Box::new(move || {
            let Some(handle) = handle.upgrade() else {
                return GraphView::default();
            };
            window.lock().view(&handle.metrics())
        })
    }

    /// Whether the graph has stopped by itself.
    pub(crate) fn is_stopping(&self) -> bool {
        self.handle.is_stopping()
    }

    /// Ends the graph: what it accepted is handled within `span`. Returns how many
    /// messages were not; the error says what went wrong.
    pub(crate) fn drain(self, span: Duration) -> Result<u64, String> {
        let Some(handle) = Arc::into_inner(self.handle) else {
            return Err(
                "the graph's figures are being read; it is stopped without a report".into(),
            );
        };
        let report = match handle.drain(span) {
            Ok(report) => report,
            // Out of time: the connections were cut off, and nobody waits any more.
            Err(error) => *error.report,
        };
        let panics = report.panics.iter().map(ToString::to_string);
        let faults: Vec<String> = panics.chain(report.faults.iter().cloned()).collect();
        if faults.is_empty() {
            Ok(report.undelivered_total())
        } else {
            Err(faults.join("; "))
        }
    }
}

/// Loads of the workers over the last while.
#[derive(Debug)]
struct Window {
    from: Instant,
    /// Nanoseconds that each partition was busy until then.
    busy: Vec<u64>,
    loads: Vec<f64>,
}

/// The shortest while that loads are averaged over.
const WINDOW: Duration = Duration::from_millis(150);

impl Window {
    fn new() -> Self {
        Self {
            from: Instant::now(),
            busy: vec![0; PARTITIONS],
            loads: Vec::new(),
        }
    }

    fn view(&mut self, metrics: &Metrics) -> GraphView {
        let mut partitions = vec![0; metrics.workers.len()];
        for instance in &metrics.instances {
            if let Some(count) = partitions.get_mut(instance.worker) {
                *count += 1;
            }
        }
        let elapsed = self.from.elapsed();
        if elapsed >= WINDOW || self.loads.is_empty() {
            self.loads = vec![0.0; metrics.workers.len()];
            for (instance, before) in metrics.instances.iter().zip(&mut self.busy) {
                let busy = instance.busy.as_nanos();
                // What a partition did before a move counts for its worker of now.
                if let Some(load) = self.loads.get_mut(instance.worker) {
                    *load += (busy - *before) as f64 / elapsed.as_nanos() as f64;
                }
                *before = busy;
            }
            self.from = Instant::now();
        }
        let worker = |(&load, &partitions): (&f64, &usize)| WorkerView { load, partitions };
        GraphView {
            epoch: metrics.epochs,
            moved: metrics.moves,
            owners: metrics
                .instances
                .iter()
                .map(|instance| instance.worker)
                .collect(),
            workers: self.loads.iter().zip(&partitions).map(worker).collect(),
            messages: (
                metrics.edges.first().map_or(0, |edge| edge.received),
                metrics.edges.get(1).map_or(0, |edge| edge.received),
            ),
        }
    }
}
