//! `kv`: a sharded in-memory store that speaks RESP2 and RESP3, on RAST.
//!
//! ```text
//! cargo run --release --example kv -- --demo      watch partitions move under load
//! cargo run --release --example kv                serve on 127.0.0.1:6380
//! cargo run --release --example kv -- --tui       the same, and watch the graph in the terminal
//! ```
//!
//! Reading order: `graph` (what runs where), `message`, `key`, `value`, `store`, `route`; then the
//! files through which a request passes: `io`, `poller`, `listen`, `peer`, `conn`, `resp`,
//! `command`, `admin`, `gather`, `local`, `ring`, `encode`; then `server`, `shared`, `clients`,
//! `info`, `args`; last `demo`, `load`, and `tui`, `screen`.

mod admin;
mod args;
mod clients;
mod command;
mod conn;
mod demo;
mod encode;
mod gather;
mod glob;
mod graph;
mod help;
mod info;
mod inline;
mod io;
mod key;
mod listen;
mod load;
mod local;
mod memory;
mod message;
mod peer;
mod poller;
mod refusal;
mod resp;
mod ring;
mod route;
mod screen;
mod server;
mod shared;
mod signals;
mod store;
mod tui;
mod value;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use args::Asked;
use rast::alloc::RastAlloc;
use server::Server;
use signals::Signals;

/// How often the main thread looks for a signal or a graph that has failed.
const LOOK: Duration = Duration::from_millis(50);

/// One worker allocates the memory of a request and another frees it, and with values it is the
/// other way round. The allocator is made for this.
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

fn main() -> ExitCode {
    let settings = match args::read(std::env::args().skip(1)) {
        Ok(Asked::Run(settings)) => settings,
        Ok(Asked::Help(text)) => {
            say(text.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&error, 2),
    };
    let signals = match Signals::watch() {
        Ok(signals) => signals,
        Err(error) => return fail(&format!("cannot watch for signals: {error}"), 1),
    };
    let server = match Server::start(settings) {
        Ok(server) => server,
        Err(error) => return fail(&error, 1),
    };
    if let Some(demo) = settings.demo {
        return match demo::run(server, demo, &signals) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, 1),
        };
    }
    serve(server, &signals)
}

fn serve(server: Server, signals: &Signals) -> ExitCode {
    let settings = server.shared().settings;
    if settings.tui {
        let has_ended = || signals.received() || server.has_failed();
        let title = format!("kv on {}", server.address());
        if let Err(error) = tui::show(title, &server.viewer(), has_ended) {
            let _ = server.drain();
            return fail(&format!("--tui needs a terminal: {error}"), 1);
        }
        return end(server, signals);
    }
    say(&format!(
        "kv listens on {} with {} partitions on {} workers",
        server.address(),
        route::PARTITIONS,
        settings.workers,
    ));
    while !signals.received() && !server.has_failed() {
        std::thread::sleep(LOOK);
    }
    end(server, signals)
}

/// Ends the server, and says how it has ended.
fn end(server: Server, signals: &Signals) -> ExitCode {
    if signals.received() {
        say("draining: no new connections; what was read is answered");
    }
    let failed = server.has_failed();
    let shared = server.shared().clone();
    let view = shared.view();
    let ending = server.drain();
    let counters = &shared.counters;
    say(&format!(
        "ended after {} ms: {} commands from {} connections, {} cut off with replies unread \
         ({} of them in the graph); {} epochs, {} partitions moved",
        ending.took.as_millis(),
        counters.commands.get(),
        counters.accepted.get(),
        ending.cut_off,
        ending.undelivered,
        view.epoch,
        view.moved,
    ));
    match ending.faults.as_slice() {
        [] if !failed => ExitCode::SUCCESS,
        [] => fail("the graph ended by itself", 1),
        faults => fail(&faults.join("; "), 1),
    }
}

/// Prints a line. The thread that reads the output may have gone; that ends nothing.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn fail(error: &str, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "kv: {error}");
    ExitCode::from(code)
}
