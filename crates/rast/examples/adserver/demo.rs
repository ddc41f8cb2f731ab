//! The demo: traffic that is checked against a model, then every guard tripped, in some seconds.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rast::reactor::io::{Backend, Watermarks};

use crate::client::Client;
use crate::oracle::Oracle;
use crate::server::{Server, Settings};
use crate::summary::{Summary, ensure, say};
use crate::{holds, trips};

/// How long the clients run.
const SPAN: Duration = Duration::from_millis(2500);
/// Client threads with a model each.
const CLIENTS: u64 = 3;
/// A campaign that one thread changes while another requests it.
const SHARED: u64 = 800_000;
/// Where the campaigns of the clients begin.
const BASE: u64 = 1_000_000;

/// Runs the demo; the error says what was not shown.
pub(crate) fn run(backend: Backend) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let server = Server::start(Settings {
        addresses: ["127.0.0.1:0".parse()?; 2],
        backend,
        reactors: 3,
        cores: Vec::new(),
        marks: Watermarks { low: 12, high: 24 },
        threads: [1, 1, 1],
        capacity: 8,
        on_pool_thread: |_| (),
    })?;
    let mut summary = Summary::default();
    let backend = server.reactors.backend(1).map(ToString::to_string);
    summary.line(
        "server",
        &format!("3 reactors, {}", backend.unwrap_or_default()),
    );
    summary.add("replies", traffic(&server));
    trips::run(&server, &mut summary);
    holds::run(&server, &mut summary);
    summary.add("allocations", allocations(&server));
    let stopped = server.stop();
    let clean = ensure(stopped.is_clean(), || format!("{stopped:?}"));
    summary.add(
        "stop",
        clean.map(|()| "all tasks and threads have ended".into()),
    );
    say(&summary.lines.join("\n"));
    say(&format!(
        "  {:<12} {:.1} s",
        "time",
        begin.elapsed().as_secs_f64()
    ));
    if summary.faults.is_empty() {
        say("every reply was right, and every guard was tripped");
        Ok(())
    } else {
        Err(summary.faults.join("; ").into())
    }
}

/// What the threads of the traffic share.
struct Traffic {
    is_over: AtomicBool,
    /// The latest update of the shared campaign that was acknowledged, and that was begun.
    acknowledged: AtomicU64,
    begun: AtomicU64,
}

/// Ends the other threads if one fails.
struct Stop<'a>(&'a Traffic);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        // Relaxed: a flag; the threads are joined.
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Clients with their models, and two threads that watch one campaign change.
fn traffic(server: &Server) -> io::Result<String> {
    let (api, ads) = (server.api, server.ads());
    let traffic = &Traffic {
        is_over: AtomicBool::new(false),
        acknowledged: AtomicU64::new(1),
        begun: AtomicU64::new(1),
    };
    let clients = (0..CLIENTS).map(|n| Oracle::connect(api, ads, BASE + 1000 * n));
    let mut clients = clients.collect::<io::Result<Vec<_>>>()?;
    let mut writer = Client::connect(api)?;
    writer.call("POST", "/campaigns", &shared_document(Some(SHARED), 1))?;
    let (writes, reads) = thread::scope(|scope| {
        let writes = scope.spawn(move || {
            let _stop = Stop(traffic);
            write_shared(&mut writer, traffic)
        });
        let reads = scope.spawn(move || {
            let _stop = Stop(traffic);
            read_shared(&mut Client::connect(ads)?, traffic)
        });
        let steps: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(move || {
                    let _stop = Stop(traffic);
                    let begin = Instant::now();
                    while begin.elapsed() < SPAN && !traffic.is_over.load(Ordering::Relaxed) {
                        client.step()?;
                    }
                    Ok::<_, io::Error>(())
                })
            })
            .collect();
        for step in steps {
            joined(step)?;
        }
        Ok::<_, io::Error>((joined(writes)?, joined(reads)?))
    })?;
    // The batch runs once all updates are acknowledged, so the models know what it sees.
    let reply = Client::connect(api)?.call("POST", "/pacing", "")?;
    reply.require(200, "the batch")?;
    let mut checked = reads;
    for client in &mut clients {
        client.pace();
        client.check_all()?;
        checked += client.checked;
    }
    Ok(format!(
        "{checked} as the model says; {writes} commits seen whole and in order by {reads} reads; \
         batch: {}",
        reply.body
    ))
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    let panicked = |_| Err(io::Error::other("a client panicked"));
    thread.join().unwrap_or_else(panicked)
}

/// The shared campaign: its bid, its version and the text of its ad are the same number.
fn shared_document(id: Option<u64>, number: u64) -> String {
    let id = id.map_or(String::new(), |id| format!("\"id\":{id},\"budget\":1,"));
    let ad = format!("{{\"id\":1,\"slot\":\"top\",\"text\":\"{number}\"}}");
    format!("{{{id}\"bid\":{number},\"ads\":[{ad}]}}")
}

fn write_shared(api: &mut Client, traffic: &Traffic) -> io::Result<u64> {
    let path = format!("/campaigns/{SHARED}");
    let mut number = 1;
    while !traffic.is_over.load(Ordering::Relaxed) {
        number += 1;
        // SeqCst: a reader that sees the update loads the number that was stored before it.
        traffic.begun.store(number, Ordering::SeqCst);
        let reply = api.call("PUT", &path, &shared_document(None, number))?;
        let expected = format!("{{\"version\":{number}}}");
        ensure(reply.body == expected, || {
            format!("{reply:?}, not {expected}")
        })?;
        traffic.acknowledged.store(number, Ordering::SeqCst);
    }
    Ok(number - 1)
}

fn read_shared(ads: &mut Client, traffic: &Traffic) -> io::Result<u64> {
    let body = format!("{{\"slot\":\"top\",\"campaigns\":[{SHARED}]}}");
    let mut reads = 0;
    while !traffic.is_over.load(Ordering::Relaxed) {
        let least = traffic.acknowledged.load(Ordering::SeqCst);
        let reply = ads.call("POST", "/ads", &body)?;
        let most = traffic.begun.load(Ordering::SeqCst);
        let is_right = (least..=most).any(|number| {
            let mut expected = Vec::new();
            let text = number.to_string();
            crate::ads::write_ad(&mut expected, (SHARED, number, number), (1, &text));
            reply.body.as_bytes() == expected
        });
        ensure(is_right, || format!("{reply:?}, not {least} to {most}"))?;
        reads += 1;
    }
    Ok(reads)
}

/// Counts how often the allocator is called for an ad request on a connection that is warm.
fn allocations(server: &Server) -> io::Result<String> {
    const REQUESTS: u64 = 1000;
    let mut client = Client::connect(server.ads())?;
    let candidates: Vec<u64> = (BASE..BASE + 8).collect();
    let body = format!("{{\"slot\":\"top\",\"campaigns\":{candidates:?}}}");
    let mut calls = || -> io::Result<u64> {
        for _ in 0..REQUESTS {
            client.call("POST", "/ads", &body)?;
        }
        let reply = client.call("GET", "/stats", "")?;
        let digits = reply.body.trim_matches(|c: char| !c.is_ascii_digit());
        digits.parse().map_err(|_| io::Error::other(reply.body))
    };
    calls()?;
    let before = calls()?;
    let each = (calls()? - before) as f64 / (REQUESTS + 1) as f64;
    Ok(format!(
        "{each:.3} calls of the allocator per ad request, on a warm connection"
    ))
}
