//! The graph: an I/O processor per worker, and 32 partitions.
//!
//! ```text
//!  sockets ◀──▶ io 0..7 ──Request──▶ partition 0..31
//!               (pinned)  ◀──Reply──
//! ```
//!
//! A partition is one replica of one processor, so the runtime measures each partition, and moves
//! it between workers while clients run. A partition alone owns its keys: no map is shared, and a
//! request takes no lock.
//!
//! A request for a partition of the same worker takes no atomic read-modify-write. In one pass
//! over its sockets, an I/O processor may read many requests for a partition. It wakes the
//! partition once for all of them. The answers come back together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rast::msgpass::sharder::WorkerId;
use rast::msgpass::{Cx, Handle, Metrics, Next, OnPanic, Process, Receive, graph, shard_of};
use rast::primitive::WaitStrategy;
use rast::primitive::sync::Mutex;
use rast::timers::Instant as Time;

use crate::conn::Door;
use crate::io::{Io, Mailbox, Turn};
use crate::message::{Reply, Request};
use crate::poller::Poller;
use crate::route::{IOS, PARTITIONS};
use crate::shared::{GraphView, Shared, Viewer, WorkerView};
use crate::store::Store;

/// With `--tui`, one message of so many is measured.
const SAMPLED: u32 = 256;

/// Expired keys that one ping removes.
const EXPIRED_PER_PING: usize = 64;

graph! {
    /// The store: partitions, and the processors that talk to clients.
    pub(crate) graph Kv {
        processors { io: [Front; 8] [source], partition: [Partition; 32] }
        edges {
            io -> partition: Request [cap = 64];
            partition -> io: Reply [reply = Request];
        }
    }
}

const _: () = assert!(
    Kv::PROCESSORS[0].replicas == IOS && Kv::PROCESSORS[1].replicas == PARTITIONS,
    "the graph has the numbers that the router knows"
);

/// An I/O processor; a spare one of a worker that there is not holds nothing.
pub(crate) struct Front(Option<Box<Io>>);

impl Process<Kv> for Front {
    fn ping(&mut self, cx: &mut Cx<'_, Kv, Self>) -> Next {
        let Some(io) = &mut self.0 else {
            return Next::Idle;
        };
        let span = match io.turn(&mut Partitions { cx }) {
            Turn::After(Duration::MAX) => return Next::Woken(Time::MAX),
            Turn::After(span) => span,
            turn => {
                if turn == Turn::Failed {
                    cx.stop();
                }
                // Replies for connections that were closed may still come.
                self.0 = None;
                return Next::Idle;
            }
        };
        Next::Woken(cx.now().saturating_add(span.into()))
    }
}

impl Receive<Kv, Partition, Reply> for Front {
    fn receive(&mut self, reply: Reply, _: &mut Cx<'_, Kv, Self>) {
        if let Some(io) = &mut self.0 {
            io.reply(reply);
        }
    }
}

/// The way into the partitions.
struct Partitions<'a, 'b> {
    cx: &'a mut Cx<'b, Kv, Front>,
}

impl Door for Partitions<'_, '_> {
    fn enter(&mut self, partition: usize, request: Request) -> Result<(), Request> {
        // The last place stays free. The processor is pinged only if each partition has room for
        // one request. Without this place, its other connections would wait for this connection.
        let has_room = self
            .cx
            .to::<Partition>()
            .at(partition)
            .has_room::<Request>(2);
        if !has_room {
            return Err(request);
        }
        let sent = self.cx.to::<Partition>().at(partition).try_send(request);
        sent.map_err(|full| full.0)
    }
}

/// One partition.
#[derive(Debug)]
pub(crate) struct Partition {
    store: Store,
    /// The time of the turn, once it was asked for.
    now: Option<Time>,
}

impl Partition {
    fn now(&mut self, cx: &Cx<'_, Kv, Self>) -> Time {
        *self.now.get_or_insert_with(|| cx.now())
    }
}

impl Process<Kv> for Partition {
    fn ping(&mut self, cx: &mut Cx<'_, Kv, Self>) -> Next {
        let now = self.now(cx);
        self.now = None;
        match self.store.next_deadline() {
            Some(deadline) if deadline <= now => {
                if self.store.expire_some(now, EXPIRED_PER_PING) == EXPIRED_PER_PING {
                    return Next::Woken(now);
                }
                Next::Woken(self.store.next_deadline().unwrap_or(Time::MAX))
            }
            Some(deadline) => Next::Woken(deadline),
            None => Next::Woken(Time::MAX),
        }
    }
}

impl Receive<Kv, Front, Request> for Partition {
    fn receive(&mut self, request: Request, cx: &mut Cx<'_, Kv, Self>) {
        let now = self.now(cx);
        let body = self.store.apply(request.op, now);
        let io = cx.sender();
        cx.to::<Front>().at(io).send(Reply {
            to: request.to,
            body,
        });
    }
}

/// The poll that a worker sleeps in.
pub(crate) fn poller(worker: usize) -> std::io::Result<Poller> {
    Poller::new((worker < IOS).then(|| shard_of::<Kv, Front>(worker)))
}

/// Starts the graph with empty partitions; the error says why not. There is a mailbox for
/// each worker.
pub(crate) fn start(
    shared: &Shared,
    ios: Vec<Io>,
    mailboxes: Vec<Arc<Mailbox>>,
) -> Result<Handle<Kv>, String> {
    let settings = &shared.settings;
    let partition = |_| Partition {
        store: Store::new(&shared.memory, &shared.buffers, settings.limits.frame),
        now: None,
    };
    let pinned = ios.len();
    let mut ios = ios.into_iter();
    let front = |_| Front(ios.next().map(Box::new));
    let fronts: Vec<Front> = (0..IOS).map(front).collect();
    let mut builder = Kv::builder(fronts, (0..PARTITIONS).map(partition))
        .workers(settings.workers)
        .period(settings.reshard)
        // A poll that finds nothing costs as much as one that waits.
        .wait(WaitStrategy::Park)
        // A partition is asked for what each I/O processor has room for.
        .batch(256)
        .park(move |worker: WorkerId| Arc::clone(&mailboxes[worker.index()].poller))
        // A partition that panicked may be half changed: it must answer no more.
        .on_panic(OnPanic::Stop);
    if settings.tui {
        builder = builder.sample(SAMPLED);
    }
    for number in 0..pinned {
        builder = builder.pin::<Front>(number, number);
    }
    builder.start().map_err(|error| error.to_string())
}

/// Reads the graph's figures.
pub(crate) fn viewer(handle: &Handle<Kv>) -> Viewer {
    let viewer = handle.viewer();
    let window = Mutex::new(Window::new());
    Box::new(move || window.lock().view(&viewer.metrics()))
}

/// Ends the graph: what it accepted is handled within `span`. Returns how many
/// messages were not; the error says what went wrong.
pub(crate) fn drain(handle: Handle<Kv>, span: Duration) -> Result<u64, String> {
    let report = match handle.drain(span) {
        Ok(report) => report,
        // Out of time: the connections were cut off, and no thread waits any more.
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
        let instances = &metrics.instances[IOS..];
        for instance in instances {
            if let Some(count) = partitions.get_mut(instance.worker) {
                *count += 1;
            }
        }
        let elapsed = self.from.elapsed();
        if elapsed >= WINDOW || self.loads.is_empty() {
            self.loads = vec![0.0; metrics.workers.len()];
            for (instance, before) in instances.iter().zip(&mut self.busy) {
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
            owners: instances.iter().map(|instance| instance.worker).collect(),
            workers: self.loads.iter().zip(&partitions).map(worker).collect(),
            messages: (
                metrics.edges.first().map_or(0, |edge| edge.received),
                metrics.edges.get(1).map_or(0, |edge| edge.received),
            ),
        }
    }
}
