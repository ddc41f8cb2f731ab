//! The text of INFO.
//!
//! Section and field names are those of Redis, and a field is shown if this server has a true value
//! for it. A field about a feature that this server lacks has the value that Redis shows while the
//! feature is off. The section `rast` is ours.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use rast::alloc::RastAlloc;

use crate::message::PartitionStats;
use crate::route::PARTITIONS;
use crate::shared::{COMPATIBLE_VERSION, Shared};

/// The sections in their order, by their names in lower case and as they are shown.
const SECTIONS: [(&str, &str); 11] = [
    ("server", "Server"),
    ("clients", "Clients"),
    ("memory", "Memory"),
    ("persistence", "Persistence"),
    ("stats", "Stats"),
    ("replication", "Replication"),
    ("cpu", "CPU"),
    ("modules", "Modules"),
    ("rast", "Rast"),
    ("cluster", "Cluster"),
    ("keyspace", "Keyspace"),
];

impl Shared {
    /// The text of the sections, in lower case; none means the default ones.
    pub(crate) fn info(&self, sections: &[String], stats: &PartitionStats) -> String {
        let all = sections.is_empty()
            || sections
                .iter()
                .any(|name| matches!(name.as_str(), "all" | "everything" | "default"));
        let mut text = String::new();
        for (section, title) in SECTIONS {
            if all || sections.iter().any(|name| name == section) {
                if !text.is_empty() {
                    text.push_str("\r\n");
                }
                let _ = write!(text, "# {title}\r\n");
                let mut rows = Rows(&mut text);
                match section {
                    "server" => self.server(&mut rows),
                    "clients" => self.clients(&mut rows),
                    "memory" => self.memory(stats, &mut rows),
                    "persistence" => persistence(&mut rows),
                    "stats" => self.stats(stats, &mut rows),
                    "replication" => self.replication(&mut rows),
                    "cpu" => cpu(&mut rows),
                    "rast" => self.rast(&mut rows),
                    "cluster" => rows.add("cluster_enabled", 0),
                    "keyspace" if stats.keys > 0 => {
                        let (keys, expires) = (stats.keys, stats.expiring);
                        rows.add("db0", format!("keys={keys},expires={expires},avg_ttl=0"));
                    }
                    _ => {}
                }
            }
        }
        text
    }
}

/// Where the rows of a section are written.
struct Rows<'a>(&'a mut String);

impl Rows<'_> {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    /// A number of bytes, and the same for people.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        let mut shown = bytes as f64;
        let mut units = ["B", "K", "M", "G", "T"].iter();
        let mut unit = units.next();
        while shown >= 1024.0 && units.len() > 0 {
            shown /= 1024.0;
            unit = units.next();
        }
        let unit = unit.unwrap_or(&"");
        match *unit {
            "B" => self.add(&format!("{name}_human"), format_args!("{bytes}B")),
            unit => self.add(&format!("{name}_human"), format_args!("{shown:.2}{unit}")),
        }
    }
}

impl Shared {
    fn server(&self, rows: &mut Rows<'_>) {
        let uptime = self.started.elapsed().as_secs();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let executable = std::env::current_exe().unwrap_or_default();
        rows.add("redis_version", COMPATIBLE_VERSION);
        rows.add("redis_git_sha1", "00000000");
        rows.add("redis_git_dirty", 0);
        rows.add("redis_build_id", 0);
        rows.add("redis_mode", "standalone");
        rows.add("server_name", "rast-kv");
        rows.add("os", os());
        rows.add("arch_bits", usize::BITS);
        rows.add("process_id", std::process::id());
        rows.add("process_supervised", "no");
        rows.add("run_id", &self.run_id);
        rows.add("tcp_port", self.bound_port());
        rows.add("server_time_usec", now.unwrap_or_default().as_micros());
        rows.add("uptime_in_seconds", uptime);
        rows.add("uptime_in_days", uptime / 86_400);
        rows.add("executable", executable.display());
        rows.add("config_file", "");
        rows.add("io_threads_active", self.settings.ios());
    }

    fn clients(&self, rows: &mut Rows<'_>) {
        rows.add("connected_clients", self.counters.connected.get());
        rows.add("cluster_connections", 0);
        rows.add("maxclients", self.settings.limits.connections);
        rows.add("blocked_clients", 0);
        rows.add("tracking_clients", 0);
        rows.add("clients_in_timeout_table", 0);
    }

    fn memory(&self, stats: &PartitionStats, rows: &mut Rows<'_>) {
        let allocator = RastAlloc::stats();
        let resident = resident().unwrap_or(allocator.bytes_committed as u64);
        rows.bytes("used_memory", stats.bytes);
        rows.bytes("used_memory_rss", resident);
        rows.bytes("used_memory_peak", self.memory.peak().max(stats.bytes));
        rows.add("used_memory_dataset", stats.bytes);
        rows.add("allocator_allocated", allocator.bytes_current);
        rows.add("allocator_active", allocator.bytes_committed);
        rows.add("allocator_resident", allocator.bytes_committed);
        if let Some(total) = total_memory() {
            rows.bytes("total_system_memory", total);
        }
        rows.bytes("maxmemory", self.memory.limit());
        rows.add("maxmemory_policy", "noeviction");
        let ratio = resident as f64 / stats.bytes.max(1) as f64;
        rows.add("mem_fragmentation_ratio", format_args!("{ratio:.2}"));
        rows.add("mem_clients_slaves", 0);
        rows.add("mem_clients_normal", self.buffers.used());
        rows.add("mem_allocator", "rast-alloc");
        rows.add("lazyfree_pending_objects", 0);
    }

    fn stats(&self, stats: &PartitionStats, rows: &mut Rows<'_>) {
        let counters = &self.counters;
        rows.add("total_connections_received", counters.accepted.get());
        rows.add("total_commands_processed", counters.commands.get());
        rows.add("total_net_input_bytes", counters.received.get());
        rows.add("total_net_output_bytes", counters.sent.get());
        rows.add("rejected_connections", counters.rejected.get());
        rows.add("protocol_errors", counters.protocol_errors.get());
        rows.add(
            "client_output_buffer_limit_disconnections",
            counters.overflowed.get(),
        );
        rows.add("expired_keys", stats.expired);
        rows.add("evicted_keys", 0);
        rows.add("evicted_clients", 0);
        rows.add("keyspace_hits", stats.hits);
        rows.add("keyspace_misses", stats.misses);
        rows.add("pubsub_channels", 0);
        rows.add("pubsub_patterns", 0);
        rows.add("tracking_total_keys", 0);
    }

    fn replication(&self, rows: &mut Rows<'_>) {
        rows.add("role", "master");
        rows.add("connected_slaves", 0);
        rows.add("master_failover_state", "no-failover");
        rows.add("master_replid", &self.run_id);
        rows.add("master_replid2", "0".repeat(40));
        rows.add("master_repl_offset", 0);
        rows.add("second_repl_offset", -1);
        rows.add("repl_backlog_active", 0);
        rows.add("repl_backlog_size", 0);
        rows.add("repl_backlog_first_byte_offset", 0);
        rows.add("repl_backlog_histlen", 0);
    }

    fn rast(&self, rows: &mut Rows<'_>) {
        let view = self.view();
        rows.add("partitions", PARTITIONS);
        rows.add("workers", view.workers.len());
        rows.add("epoch", view.epoch);
        rows.add("partitions_moved", view.moved);
        rows.add("requests", view.messages.0);
        rows.add("replies", view.messages.1);
        for (index, worker) in view.workers.iter().enumerate() {
            rows.add(
                &format!("worker{index}"),
                format_args!("load={:.3},partitions={}", worker.load, worker.partitions),
            );
        }
    }
}

/// Client libraries wait while `loading` is not zero.
fn persistence(rows: &mut Rows<'_>) {
    for name in [
        "loading",
        "async_loading",
        "rdb_bgsave_in_progress",
        "aof_enabled",
        "aof_rewrite_in_progress",
    ] {
        rows.add(name, 0);
    }
}

/// The processor's time, where the system says it in its files.
fn cpu(rows: &mut Rows<'_>) {
    // In hundredths of a second, which Linux promises to programs.
    let Some(text) = read_system("/proc/self/stat") else {
        return;
    };
    // The program's name, in parentheses, may hold spaces.
    let fields: Vec<&str> = match text.rsplit_once(") ") {
        Some((_, rest)) => rest.split(' ').collect(),
        None => return,
    };
    // Fields 14 to 17 of proc(5), of which two come before the parenthesis' end.
    for (name, at) in [
        ("used_cpu_sys", 12),
        ("used_cpu_user", 11),
        ("used_cpu_sys_children", 14),
        ("used_cpu_user_children", 13),
    ] {
        if let Some(ticks) = fields.get(at).and_then(|field| field.parse::<u64>().ok()) {
            rows.add(name, format_args!("{}.{:02}0000", ticks / 100, ticks % 100));
        }
    }
}

fn os() -> String {
    let release = read_system("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (name, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    match name {
        "linux" => format!("Linux {} {arch}", release.trim()),
        _ => format!("{name} {arch}"),
    }
}

/// Bytes of this process that are in memory, where the system says so.
fn resident() -> Option<u64> {
    kilobytes(&read_system("/proc/self/status")?, "VmRSS:")
}

fn total_memory() -> Option<u64> {
    kilobytes(&read_system("/proc/meminfo")?, "MemTotal:")
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number = line.trim().strip_suffix(" kB")?;
    Some(number.parse::<u64>().ok()? * 1024)
}

/// A file that Linux makes up.
fn read_system(path: &str) -> Option<String> {
    if cfg!(target_os = "linux") {
        std::fs::read_to_string(path).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Settings;

    fn info(sections: &[&str]) -> String {
        let sections: Vec<String> = sections.iter().map(|name| (*name).to_owned()).collect();
        let stats = PartitionStats {
            keys: 3,
            bytes: 1536,
            ..PartitionStats::default()
        };
        Shared::new(Settings::default()).info(&sections, &stats)
    }

    #[test]
    fn sections_are_those_that_were_asked_for() {
        let text = info(&["cluster", "keyspace"]);
        assert_eq!(
            text,
            "# Cluster\r\ncluster_enabled:0\r\n\r\n# Keyspace\r\ndb0:keys=3,expires=0,avg_ttl=0\r\n"
        );
        assert_eq!(info(&["nothing"]), "");
        let all = info(&[]);
        assert!(
            SECTIONS
                .iter()
                .all(|(_, title)| all.contains(&format!("# {title}\r\n")))
        );
    }

    #[test]
    fn clients_find_the_fields_that_they_read() {
        let text = info(&["everything"]);
        for field in [
            "redis_version:7.0.15",
            "redis_mode:standalone",
            "arch_bits:64",
            "loading:0",
            "role:master",
            "used_memory:1536",
            "used_memory_human:1.50K",
            "cluster_enabled:0",
        ] {
            assert!(text.lines().any(|line| line == field), "{field}:\n{text}");
        }
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert!(lines.clone().count() > 60);
        assert!(lines.clone().all(|line| line.contains(':')), "{text}");
    }

    #[test]
    fn figures_are_read_from_the_text_of_the_system() {
        assert_eq!(
            kilobytes("VmHWM: 1 kB\nVmRSS:\t   12 kB\n", "VmRSS:"),
            Some(12_288)
        );
        assert_eq!(kilobytes("VmHWM: 1 kB\n", "VmRSS:"), None);
    }
}
