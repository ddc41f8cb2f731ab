//! What all threads of the server see: settings, counters, the graph's figures.
//!
//! No data of the store is here; that stays inside the partitions.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rast::alloc::RastAlloc;

use crate::args::Settings;
use crate::clients::Clients;
use crate::memory::Memory;
use crate::route::Router;

/// The Redis version whose replies are given; client libraries look at it.
pub(crate) const COMPATIBLE_VERSION: &str = "7.0.15";

/// Bytes that are read between two looks at what the allocator leaves unused.
const WEIGHED_EACH: u64 = 256 * 1024;
/// Milliseconds between two purges while that is too much.
const PURGED_EACH: u64 = 100;

/// A figure that any thread may raise.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to the figure.
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: a figure that nothing else hangs on.
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Takes from the figure.
    pub(crate) fn sub(&self, by: u64) {
        // Relaxed: as in `add`.
        self.0.fetch_sub(by, Ordering::Relaxed);
    }

    /// The figure.
    pub(crate) fn get(&self) -> u64 {
        // Relaxed: as in `add`.
        self.0.load(Ordering::Relaxed)
    }
}

/// What the I/O processors count.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections that stand.
    pub(crate) connected: Counter,
    /// Connections taken since the start.
    pub(crate) accepted: Counter,
    /// Connections refused since the start.
    pub(crate) rejected: Counter,
    /// Bytes read from sockets.
    pub(crate) received: Counter,
    /// Bytes written to sockets.
    pub(crate) sent: Counter,
    /// Commands read.
    pub(crate) commands: Counter,
    /// Connections closed for a malformed frame or a line of HTTP.
    pub(crate) protocol_errors: Counter,
    /// Connections closed for reading too slowly.
    pub(crate) overflowed: Counter,
    /// Connections closed with replies unsent when the drain's time was up.
    pub(crate) cut_off: Counter,
}

/// The names that CONFIG knows.
pub(crate) const SETTINGS: [&str; 12] = [
    "appendonly",
    "bind",
    "databases",
    "io-threads",
    "maxclients",
    "maxmemory",
    "maxmemory-clients",
    "maxmemory-policy",
    "port",
    "proto-max-bulk-len",
    "save",
    "timeout",
];

/// The graph's figures at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphView {
    /// The number of the assignment in force.
    pub(crate) epoch: u64,
    /// Partitions moved between workers since the start.
    pub(crate) moved: u64,
    /// Per partition, the worker that owns it.
    pub(crate) owners: Vec<usize>,
    /// Per worker.
    pub(crate) workers: Vec<WorkerView>,
    /// Requests and replies since the start.
    pub(crate) messages: (u64, u64),
}

/// One worker's figures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerView {
    /// The share of the last while that it spent in partitions; one is all.
    pub(crate) load: f64,
    /// Partitions that it owns now.
    pub(crate) partitions: usize,
}

/// Reads the graph's figures.
pub(crate) type Viewer = Box<dyn Fn() -> GraphView + Send + Sync>;

/// What all threads see.
pub(crate) struct Shared {
    /// The settings.
    pub(crate) settings: Settings,
    /// Which partition owns a key.
    pub(crate) router: Router,
    /// Memory of keys and values.
    pub(crate) memory: Arc<Memory>,
    /// Memory of the connections' buffers.
    pub(crate) buffers: Arc<Memory>,
    /// The counters.
    pub(crate) counters: Counters,
    /// The clients.
    pub(crate) clients: Clients,
    /// The port that was bound.
    pub(crate) port: OnceLock<u16>,
    /// The graph's figures, once it runs.
    pub(crate) viewer: OnceLock<Viewer>,
    /// The time by which each I/O processor has to answer what it has read, and end. It is set when
    /// the server begins to drain, and then the processors are woken.
    pub(crate) drain_until: OnceLock<Instant>,
    /// What had been read when the allocator was last looked at.
    weighed: AtomicU64,
    /// Milliseconds from the start to the last purge.
    purged: AtomicU64,
    /// When this state was made.
    pub(crate) started: Instant,
    /// Forty hexadecimal digits that no other run has.
    pub(crate) run_id: String,
}

impl Shared {
    /// The state of a server that is about to start.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            router: Router::new(),
            memory: Memory::new(settings.limits.memory as u64),
            buffers: Memory::new(settings.limits.buffers as u64),
            counters: Counters::default(),
            clients: Clients::default(),
            port: OnceLock::new(),
            viewer: OnceLock::new(),
            drain_until: OnceLock::new(),
            weighed: AtomicU64::new(0),
            purged: AtomicU64::new(0),
            started: Instant::now(),
            run_id: run_id(),
        }
    }

    /// Checks the allocator's unused memory, if enough bytes were read from sockets since the last
    /// check. Less input cannot change the result much, because the store grows only by what was
    /// read.
    pub(crate) fn weigh_memory(&self) {
        let received = self.counters.received.get();
        // Relaxed: who looks does not matter, and two may.
        let last = self.weighed.load(Ordering::Relaxed);
        if received.wrapping_sub(last) < WEIGHED_EACH && !self.memory.is_strained() {
            return;
        }
        self.weighed.store(received, Ordering::Relaxed);
        let unused = || {
            let stats = RastAlloc::stats();
            stats.bytes_committed.saturating_sub(stats.bytes_current)
        };
        if !self.memory.is_over(unused()) {
            self.memory.strain(false);
        } else if self.may_purge() {
            // Buffers of closed connections are unused memory, too. So writes are refused only for
            // memory that a purge does not return.
            RastAlloc::purge_all();
            self.memory.strain(self.memory.is_over(unused()));
        }
    }

    /// Whether the last purge was long enough ago; says so to one thread only.
    fn may_purge(&self) -> bool {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        // Relaxed: as above, except for the exchange, which one thread wins.
        let last = self.purged.load(Ordering::Relaxed);
        now.saturating_sub(last) >= PURGED_EACH
            && self
                .purged
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// The graph's figures; zeros before it runs.
    pub(crate) fn view(&self) -> GraphView {
        self.viewer.get().map(|viewer| viewer()).unwrap_or_default()
    }

    /// The settings under the names that Redis gives them.
    pub(crate) fn config(&self) -> Vec<(&'static str, String)> {
        let limits = &self.settings.limits;
        let value = |name: &str| match name {
            "appendonly" => "no".to_owned(),
            "bind" => "127.0.0.1".to_owned(),
            "databases" => "1".to_owned(),
            "io-threads" => self.settings.ios().to_string(),
            "maxclients" => limits.connections.to_string(),
            "maxmemory" => limits.memory.to_string(),
            "maxmemory-clients" => limits.buffers.to_string(),
            "maxmemory-policy" => "noeviction".to_owned(),
            "port" => self.bound_port().to_string(),
            "proto-max-bulk-len" => limits.frame.to_string(),
            "timeout" => "0".to_owned(),
            // `save`: nothing is ever saved.
            _ => String::new(),
        };
        SETTINGS.iter().map(|&name| (name, value(name))).collect()
    }

    /// The port that was bound.
    pub(crate) fn bound_port(&self) -> u16 {
        self.port.get().copied().unwrap_or(self.settings.port)
    }
}

fn run_id() -> String {
    let words = [0, 1, 2].map(|word| RandomState::new().hash_one(word));
    let [first, second, third] = words;
    format!("{first:016x}{second:016x}{:08x}", third as u32)
}
