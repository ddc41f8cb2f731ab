//! What all threads of the server see: settings, counters, the graph's figures.
//!
//! No data of the store is here; that stays inside the partitions.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::args::Settings;
use crate::gather::Describe;
use crate::memory::Memory;
use crate::message::PartitionStats;
use crate::route::{PARTITIONS, Router};

/// The Redis version whose replies are given; client libraries look at it.
pub(crate) const COMPATIBLE_VERSION: &str = "7.0.15";

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

/// What the I/O threads count.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections that stand.
    pub(crate) connected: Counter,
    /// Connections taken since the start.
    pub(crate) accepted: Counter,
    /// Connections refused since the start.
    pub(crate) rejected: Counter,
    /// Commands read.
    pub(crate) commands: Counter,
    /// Connections closed for a malformed frame.
    pub(crate) protocol_errors: Counter,
    /// Connections closed for reading too slowly.
    pub(crate) overflowed: Counter,
    /// Connections closed with replies unsent when the drain's time was up.
    pub(crate) cut_off: Counter,
}

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
    /// The port that was bound.
    pub(crate) port: OnceLock<u16>,
    /// The graph's figures, once it runs.
    pub(crate) viewer: OnceLock<Viewer>,
    started: Instant,
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
            port: OnceLock::new(),
            viewer: OnceLock::new(),
            started: Instant::now(),
        }
    }

    /// The graph's figures; zeros before it runs.
    pub(crate) fn view(&self) -> GraphView {
        self.viewer.get().map(|viewer| viewer()).unwrap_or_default()
    }

    /// The settings under the names that Redis gives them.
    pub(crate) fn config(&self) -> Vec<(&'static str, String)> {
        let limits = &self.settings.limits;
        vec![
            ("appendonly", "no".to_owned()),
            ("bind", "127.0.0.1".to_owned()),
            ("databases", "1".to_owned()),
            ("io-threads", self.settings.io_threads.to_string()),
            ("maxclients", limits.connections.to_string()),
            ("maxmemory", limits.memory.to_string()),
            ("maxmemory-clients", limits.buffers.to_string()),
            ("maxmemory-policy", "noeviction".to_owned()),
            ("port", self.bound_port().to_string()),
            ("proto-max-bulk-len", limits.frame.to_string()),
            ("save", String::new()),
            ("timeout", "0".to_owned()),
        ]
    }

    fn bound_port(&self) -> u16 {
        self.port.get().copied().unwrap_or(self.settings.port)
    }
}

/// The sections of INFO in their order.
const SECTIONS: [&str; 8] = [
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "rast",
    "keyspace",
];

impl Describe for Shared {
    fn info(&self, sections: &[String], stats: &PartitionStats) -> String {
        let all = sections.is_empty()
            || sections
                .iter()
                .any(|name| matches!(name.as_str(), "all" | "everything" | "default"));
        let mut text = String::new();
        for section in SECTIONS {
            if all || sections.iter().any(|name| name == section) {
                if !text.is_empty() {
                    text.push_str("\r\n");
                }
                for (name, value) in self.section(section, stats) {
                    // Writing to a String cannot fail.
                    let _ = match name.as_str() {
                        "#" => write!(text, "# {value}\r\n"),
                        _ => write!(text, "{name}:{value}\r\n"),
                    };
                }
            }
        }
        text
    }
}

impl Shared {
    fn section(&self, section: &str, stats: &PartitionStats) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
        let counters = &self.counters;
        match section {
            "server" => {
                row("#", "Server".to_owned());
                row("redis_version", COMPATIBLE_VERSION.to_owned());
                row("redis_mode", "standalone".to_owned());
                row("server_name", "rast-kv".to_owned());
                row("os", std::env::consts::OS.to_owned());
                row("arch_bits", usize::BITS.to_string());
                row("process_id", std::process::id().to_string());
                row("tcp_port", self.bound_port().to_string());
                row(
                    "uptime_in_seconds",
                    self.started.elapsed().as_secs().to_string(),
                );
                row("io_threads_active", self.settings.io_threads.to_string());
            }
            "clients" => {
                row("#", "Clients".to_owned());
                row("connected_clients", counters.connected.get().to_string());
                row("maxclients", self.settings.limits.connections.to_string());
                row("blocked_clients", "0".to_owned());
            }
            "memory" => {
                row("#", "Memory".to_owned());
                row("used_memory", stats.bytes.to_string());
                row("maxmemory", self.memory.limit().to_string());
                row("maxmemory_policy", "noeviction".to_owned());
                row("mem_clients_normal", self.buffers.used().to_string());
            }
            // Client libraries wait for the first and choose by the second.
            "persistence" => {
                row("#", "Persistence".to_owned());
                row("loading", "0".to_owned());
            }
            "replication" => {
                row("#", "Replication".to_owned());
                row("role", "master".to_owned());
                row("connected_slaves", "0".to_owned());
            }
            "stats" => {
                row("#", "Stats".to_owned());
                row(
                    "total_connections_received",
                    counters.accepted.get().to_string(),
                );
                row(
                    "total_commands_processed",
                    counters.commands.get().to_string(),
                );
                row("rejected_connections", counters.rejected.get().to_string());
                row(
                    "protocol_errors",
                    counters.protocol_errors.get().to_string(),
                );
                row(
                    "client_output_buffer_limit_disconnections",
                    counters.overflowed.get().to_string(),
                );
                row("expired_keys", stats.expired.to_string());
                row("evicted_keys", "0".to_owned());
                row("keyspace_hits", stats.hits.to_string());
                row("keyspace_misses", stats.misses.to_string());
            }
            "rast" => {
                let view = self.view();
                row("#", "Rast".to_owned());
                row("partitions", PARTITIONS.to_string());
                row("workers", view.workers.len().to_string());
                row("epoch", view.epoch.to_string());
                row("partitions_moved", view.moved.to_string());
                row("requests", view.messages.0.to_string());
                row("replies", view.messages.1.to_string());
                for (index, worker) in view.workers.iter().enumerate() {
                    row(
                        &format!("worker{index}"),
                        format!("load={:.3},partitions={}", worker.load, worker.partitions),
                    );
                }
            }
            _ => {
                row("#", "Keyspace".to_owned());
                if stats.keys > 0 {
                    let (keys, expires) = (stats.keys, stats.expiring);
                    row("db0", format!("keys={keys},expires={expires},avg_ttl=0"));
                }
            }
        }
        rows
    }
}
