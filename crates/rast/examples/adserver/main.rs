//! `adserver`: an ad server that uses most parts of `rast-reactor`.
//!
//! `cargo run --release --features io --example adserver -- --demo`
//!
//! `--help` lists the options.
//!
//! Reading order: `model` (the resources), `http`, `json`, `conn` (bytes to requests), `edge` (the
//! guards of a reactor), `ads`, `spending`, `batch`, `api`, `transfer`, `server`; then the demo:
//! `events`, `summary`, `client`, `oracle`, `trips`, `holds`, `demo`; then the loads: `load`,
//! `overload`, `background`.

mod ads;
mod api;
mod background;
mod batch;
mod client;
mod conn;
mod demo;
mod edge;
mod events;
mod holds;
mod http;
mod json;
mod load;
mod model;
mod oracle;
mod overload;
mod server;
mod spending;
mod summary;
mod transfer;
mod trips;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use rast::primitive::CountingAlloc;
use rast::reactor::io::{Backend, Watermarks};

use server::{Server, Settings};
use summary::say;

/// The demo prints its count per ad request.
#[global_allocator]
static ALLOCATOR: CountingAlloc = CountingAlloc;

const HELP: &str = "\
adserver [--demo [--readiness] | --overload | --background]
  (nothing)     serve on 127.0.0.1:8080 (API) and 127.0.0.1:8081 (ads) until a line is read
  --demo        check every reply against a model and trip every guard
  --readiness   the same by readiness in place of io_uring
  --overload    ten times the saturating load for ten seconds
  --background  latencies with and without background tasks of ten milliseconds";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ended = match arguments.as_slice() {
        [] => serve(),
        ["--demo"] => demo::run(Backend::Auto),
        ["--demo", "--readiness"] => demo::run(Backend::Readiness),
        ["--overload"] => overload::run(),
        ["--background"] => background::run(),
        ["--help"] => {
            say(HELP);
            Ok(())
        }
        _ => {
            say(HELP);
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "adserver: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let server = Server::start(Settings {
        addresses: ["127.0.0.1:8080".parse()?, "127.0.0.1:8081".parse()?],
        backend: Backend::Auto,
        reactors: cores.max(2),
        cores: Vec::new(),
        marks: Watermarks {
            low: 800,
            high: 1000,
        },
        threads: [4, 3, 3],
        capacity: 65_536,
        on_pool_thread: |_| (),
    })?;
    say(&format!(
        "API on {}, ads on {}; Enter ends",
        server.api,
        server.ads()
    ));
    std::io::stdin().read_line(&mut String::new())?;
    let stopped = server.stop();
    say(&format!("stopped: {stopped:?}"));
    Ok(())
}
