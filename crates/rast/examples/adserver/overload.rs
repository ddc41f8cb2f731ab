//! Ten times the load that saturates the server, for ten seconds.
//!
//! Each connection has one request, for which the server works 300 us. The high watermark is low,
//! so connections wait in the backlog, and an accepted connection waits for only a few others. So
//! the time from the accept to the reply rises little.

use std::error::Error;
use std::time::Duration;

use rast::primitive::Histogram;
use rast::reactor::executor::block_on;
use rast::reactor::io::Watermarks;
use rast::reactor::{Reactors, Spawned};

use crate::load::{Ended, closed_loop, open_loop, single, start};
use crate::server::Server;
use crate::summary::say;

/// How long the server works for a request.
const WORK_US: u64 = 300;
/// Clients that saturate it.
const CLIENTS: usize = 32;
/// How long the first two loads last.
const SHORT: Duration = Duration::from_secs(3);
/// How long the overload lasts.
const LONG: Duration = Duration::from_secs(10);
/// The most connections of the clients at once: more than the backlog of the listener.
const MOST: usize = 6000;
/// The floor: how many times the p99 of half the load.
const RATIO_MAX: f64 = 3.0;

/// Runs a load; returns how it ended, and the latencies from accept meanwhile.
fn measured<F>(
    server: &Server,
    clients: &Reactors,
    load: impl FnOnce() -> F + Send + 'static,
) -> Result<(Ended, Histogram<5>), Box<dyn Error>>
where
    F: Future<Output = Ended> + 'static,
{
    server.take_latencies()?;
    let reactor = clients.reactor(0).ok_or("no reactor for clients")?;
    let task: Spawned<Ended> = reactor.spawn(load);
    let ended = block_on(task)?;
    Ok((ended, server.take_latencies()?.from_accept))
}

/// How many descriptors the clients may have beside those of the server.
fn most() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok());
    soft.map_or(MOST, |soft| soft.saturating_sub(300).min(MOST))
}

/// Measures and prints; an error if a floor is not met.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let (server, clients) = start(Watermarks { low: 2, high: 3 }, |_| ())?;
    let (address, request, most) = (server.ads(), single(WORK_US), most());
    let (ended, _) = measured(&server, &clients, {
        let request = request.clone();
        move || closed_loop(address, request, CLIENTS, SHORT)
    })?;
    let rate = ended.answered as f64 / SHORT.as_secs_f64();
    say(&format!(
        "saturated by {rate:.0} connections/s, of one request each: {ended:?}"
    ));
    let (ended, half) = measured(&server, &clients, {
        let request = request.clone();
        move || open_loop(address, request, rate / 2.0, most, SHORT)
    })?;
    let half_p99 = Duration::from_nanos(half.quantile(0.99));
    say(&format!(
        "half of it: p99 from accept {half_p99:?}: {ended:?}"
    ));
    let mut resets = ended.resets;
    let (ended, over) = measured(&server, &clients, move || {
        open_loop(address, request, rate * 10.0, most, LONG)
    })?;
    resets += ended.resets;
    let over_p99 = Duration::from_nanos(over.quantile(0.99));
    let ratio = over_p99.as_secs_f64() / half_p99.as_secs_f64().max(1e-9);
    say(&format!(
        "ten times it for {} s, {most} connections at once at most: p99 from accept {over_p99:?}: \
         {ended:?}",
        LONG.as_secs()
    ));
    say(&format!(
        "ratio {ratio:.2} (floor {RATIO_MAX}), resets {resets} (floor 0), wrong {}",
        ended.wrong
    ));
    let _ = clients.stop(Duration::from_secs(1));
    let _ = server.stop();
    if resets > 0 || ended.wrong > 0 {
        return Err("connections were reset, or answered wrongly".into());
    }
    if ratio > RATIO_MAX {
        return Err(format!("p99 from accept is {ratio:.2} times that at half the load").into());
    }
    Ok(())
}
