//! Latencies of ad requests with and without slow tasks in the background pool.
//!
//! The tasks have the lowest policy, and their threads the lowest scheduling class of the system.
//! So they use only the processor time that reactor and clients leave. The latency is from the send
//! of a request to the write of its reply, for which the server reads the clock.

use std::cell::Cell;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rast::reactor::executor::block_on;
use rast::reactor::io::Watermarks;
use rast::reactor::{Policy, PoolThread, Reactors, background_task, spawn_local};

use crate::load::{start, steady};
use crate::server::Server;
use crate::summary::say;

/// How long the server works for a request.
const WORK_US: u64 = 40;
const RATE: f64 = 5000.0;
const CONNECTIONS: u64 = 16;
/// How long each round lasts.
const SPAN: Duration = Duration::from_secs(2);
/// Pairs of rounds, without and with tasks; the median of their differences counts.
const PAIRS: usize = 3;
/// How long a background task computes.
const TASK: Duration = Duration::from_millis(10);
/// Tasks at once: as many as threads run them.
const TASKS: usize = 3;
/// The floor: how much p99.9 may rise.
const RISE_MAX: Duration = Duration::from_micros(200);

/// Puts the calling thread into the scheduling class that runs only on idle cores.
#[cfg(target_os = "linux")]
fn lowest_class() -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the parameters, which live until it returns; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn lowest_class() -> bool {
    false
}

std::thread_local! {
    /// This thread is in that class.
    static IS_LOWEST: Cell<bool> = const { Cell::new(false) };
}

/// What a thread of the pool does first: those that run the tasks go to the lowest class.
fn begin_thread(thread: PoolThread) {
    if thread.class == Policy::Low as usize {
        IS_LOWEST.set(lowest_class());
    }
}

/// A task that computes.
fn task() -> bool {
    let begin = Instant::now();
    while begin.elapsed() < TASK {
        std::hint::spin_loop();
    }
    IS_LOWEST.get()
}

/// How long the reactor that serves ads has run, where the system tells it.
fn busy() -> Option<Duration> {
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?.path();
        let name = std::fs::read_to_string(thread.join("comm")).ok()?;
        if name.trim() == "adserver-1" {
            let figures = std::fs::read_to_string(thread.join("schedstat")).ok()?;
            let nanos = figures.split_whitespace().next()?.parse().ok()?;
            return Some(Duration::from_nanos(nanos));
        }
    }
    None
}

/// A round: prints its latencies, the replies, and how much of its core the reactor used. Returns
/// its p99.9.
fn round(server: &Server, clients: &Reactors) -> Result<Duration, Box<dyn Error>> {
    server.take_latencies()?;
    let before = busy();
    let address = server.ads();
    let reactor = clients.reactor(0).ok_or("no reactor for clients")?;
    let load = reactor.spawn(move || steady(address, WORK_US, CONNECTIONS, RATE, SPAN));
    let answered = block_on(load)??;
    let latencies = server.take_latencies()?.from_send;
    let used = busy().zip(before).map(|(now, before)| now - before);
    let share = used.map_or(f64::NAN, |used| {
        100.0 * used.as_secs_f64() / SPAN.as_secs_f64()
    });
    let [p50, p99, p999] =
        [0.5, 0.99, 0.999].map(|share| Duration::from_nanos(latencies.quantile(share)));
    say(&format!(
        "{answered} replies at {RATE:.0}/s, reactor {share:.0} % busy: p50 {p50:?}, p99 {p99:?}, \
         p99.9 {p999:?}"
    ));
    Ok(p999)
}

/// Keeps the pool busy until `is_over`; returns how many tasks ran, and whether they ran in the
/// lowest class.
async fn keep_busy(is_over: Arc<AtomicBool>) -> io::Result<(u64, bool)> {
    let one = |is_over: Arc<AtomicBool>| async move {
        let (mut tasks, mut is_lowest) = (0, true);
        // Relaxed: a flag alone.
        while !is_over.load(Ordering::Relaxed) {
            let call = background_task(Policy::Low, task);
            let call = call.map_err(|_| io::Error::other("the pool is full"))?;
            is_lowest &= call
                .await
                .map_err(|error| io::Error::other(error.to_string()))?;
            tasks += 1;
        }
        Ok::<_, io::Error>((tasks, is_lowest))
    };
    let running: Vec<_> = (0..TASKS)
        .map(|_| spawn_local(one(Arc::clone(&is_over))))
        .collect();
    let (mut tasks, mut is_lowest) = (0, true);
    for running in running {
        let ended = running
            .await
            .map_err(|error| io::Error::other(error.to_string()))??;
        tasks += ended.0;
        is_lowest &= ended.1;
    }
    Ok((tasks, is_lowest))
}

/// A round beside background tasks; returns its p99.9.
fn beside_tasks(server: &Server, clients: &Reactors) -> Result<Duration, Box<dyn Error>> {
    let is_over = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&is_over);
    let reactor = server.reactors.reactor(1).ok_or("no reactor for ads")?;
    let tasks = reactor.spawn(move || keep_busy(theirs));
    let p999 = round(server, clients);
    is_over.store(true, Ordering::Relaxed);
    let (tasks, is_lowest) = block_on(tasks)??;
    let class = if is_lowest { "lowest" } else { "usual" };
    say(&format!(
        "  beside {tasks} tasks of {TASK:?}, {TASKS} at once, in the {class} scheduling class"
    ));
    p999
}

/// Measures and prints; an error if the floor is not met.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let marks = Watermarks {
        low: 800,
        high: 1000,
    };
    let (server, clients) = start(marks, begin_thread)?;
    let mut rises = Vec::new();
    for _ in 0..PAIRS {
        let without = round(&server, &clients)?;
        rises.push(beside_tasks(&server, &clients)?.saturating_sub(without));
    }
    rises.sort_unstable();
    let rise = rises[PAIRS / 2];
    say(&format!(
        "p99.9 rises by {rise:?}, the median of {rises:?} (floor {RISE_MAX:?})"
    ));
    let _ = clients.stop(Duration::from_secs(1));
    let _ = server.stop();
    if rise > RISE_MAX {
        return Err(format!("p99.9 rises by {rise:?}").into());
    }
    Ok(())
}
