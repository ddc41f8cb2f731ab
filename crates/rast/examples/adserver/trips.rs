//! Guards that requests alone trip: gate, limiter, breaker, limits of HTTP, large documents.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

use crate::client::{Client, request};
use crate::edge::{BIDS_MAX, BIDS_WAITING_MAX, CLICKS_BURST};
use crate::events::Event;
use crate::http::{BODY_MAX, HEAD_MAX};
use crate::json::LARGE;
use crate::server::Server;
use crate::summary::{Summary, ensure};

/// How long an event is waited for.
const LIMIT: Duration = Duration::from_secs(5);

/// Trips them one after the other.
pub(crate) fn run(server: &Server, summary: &mut Summary) {
    summary.add("http", limits(server));
    summary.add("large", large(server));
    summary.add("gate", gate(server));
    summary.add("limiter", limiter(server));
    summary.add("breaker", breaker(server));
}

/// Sets the latency of the simulated bidder.
fn bidder(server: &Server, latency_ms: u64) -> io::Result<()> {
    let body = format!("{{\"latency_ms\":{latency_ms}}}");
    let reply = Client::connect(server.api)?.call("PUT", "/bidder", &body)?;
    reply.require(200, "the bidder")
}

/// Requests that are refused for their form.
fn limits(server: &Server) -> io::Result<String> {
    let head = "POST /ads HTTP/1.1\r\nhost: a\r\n";
    let part = "a".repeat(64 << 10);
    let mut chunks = format!("{head}transfer-encoding: chunked\r\n\r\n");
    for _ in 0..=BODY_MAX / part.len() {
        let _ = write!(chunks, "{:x}\r\n{part}\r\n", part.len());
    }
    for (bytes, status) in [
        (format!("{head}x: {}\r\n\r\n", &part[..HEAD_MAX]), 431),
        (
            format!("{head}content-length: {}\r\n\r\n", BODY_MAX + 1),
            413,
        ),
        (chunks, 413),
        (format!("{head}transfer-encoding: gzip\r\n\r\n"), 501),
        (format!("{head}content-length: x\r\n\r\n"), 400),
        ("no request\r\n\r\n".to_owned(), 400),
    ] {
        for address in [server.api, server.ads()] {
            let mut client = Client::connect(address)?;
            client.send(&bytes)?;
            let reply = client.receive()?;
            let begin = &bytes[..bytes.len().min(80)];
            reply.require(status, begin)?;
            ensure(client.is_closed()?, || {
                format!("{begin}: the connection stays")
            })?;
        }
    }
    // A document that is malformed leaves the connection open, for a request in two parts.
    let mut client = Client::connect(server.ads())?;
    for body in [
        "",
        "{",
        "{\"slot\":\"top\"}",
        "{\"slot\":\"x\",\"campaigns\":[]}",
    ] {
        let reply = client.call("POST", "/ads", body)?;
        reply.require(400, body)?;
    }
    let body = "{\"slot\":\"top\",\"campaigns\":[]}";
    let expect = format!(
        "{head}expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.send(expect)?;
    client.send(body)?;
    client.receive()?.require(200, "in two parts")?;
    Ok("431, 413 by length and by chunks, 400 and 501, on both listeners".into())
}

/// Documents over 64 KiB, which the pool parses.
fn large(server: &Server) -> io::Result<String> {
    const COUNT: u64 = 2000;
    const FIRST: u64 = 100_000;
    let before = server.events.count(Event::Background);
    let one = |id: u64| {
        let ad = format!("{{\"id\":1,\"slot\":\"side\",\"text\":\"{id}\"}}");
        format!("{{\"id\":{id},\"bid\":{id},\"budget\":1,\"ads\":[{ad}]}}")
    };
    let list: Vec<_> = (FIRST..FIRST + COUNT).map(one).collect();
    let body = format!("{{\"campaigns\":[{}]}}", list.join(","));
    ensure(body.len() > LARGE, || "the document is small".into())?;
    let mut api = Client::connect(server.api)?;
    let reply = api.call("POST", "/campaigns", &body)?;
    let expected = format!("{{\"added\":{COUNT}}}");
    ensure(reply.body == expected, || {
        format!("{reply:?}, not {expected}")
    })?;
    // Again: all of them are there, so none is added.
    let reply = api.call("POST", "/campaigns", &body)?;
    reply.require(409, "again")?;
    let cut = api.call("POST", "/campaigns", &body[..body.len() - 1])?;
    cut.require(400, "a document that is cut")?;
    // The best of them is the last one.
    let candidates: Vec<_> = (FIRST..FIRST + 5 * COUNT).collect();
    let body = format!("{{\"slot\":\"side\",\"campaigns\":{candidates:?}}}");
    ensure(body.len() > LARGE, || "the request is small".into())?;
    let reply = Client::connect(server.ads())?.call("POST", "/ads", &body)?;
    let best = FIRST + COUNT - 1;
    let mut expected = Vec::new();
    crate::ads::write_ad(&mut expected, (best, best, 1), (1, &best.to_string()));
    ensure(reply.body.as_bytes() == expected, || {
        format!("{reply:?}, not campaign {best}")
    })?;
    let parsed = server.events.count(Event::Background) - before;
    ensure(parsed == 4, || {
        format!("{parsed} documents in the background, not 4")
    })?;
    Ok(format!(
        "{parsed} documents over {LARGE} bytes parsed in the background"
    ))
}

/// More bids at once than the gate has room for.
fn gate(server: &Server) -> io::Result<String> {
    bidder(server, 30)?;
    // One of the two ads reactors gets half of them, which is more than run and wait.
    let connections = 2 * (BIDS_MAX + BIDS_WAITING_MAX + 4);
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        let before = server.events.count(Event::GateFull);
        let clients = (0..connections).map(|_| Client::connect(server.ads()));
        let mut clients = clients.collect::<io::Result<Vec<_>>>()?;
        for client in &mut clients {
            client.send(request("POST", "/bids", ""))?;
        }
        let (mut answered, mut refused) = (0, 0);
        for client in &mut clients {
            let reply = client.receive()?;
            match reply.status {
                200 => answered += 1,
                503 if reply.body.contains("the gate is full") => refused += 1,
                _ => return Err(io::Error::other(format!("a bid: {reply:?}"))),
            }
        }
        let full = server.events.count(Event::GateFull) - before;
        if refused > 0 && full > refused {
            return Ok(format!(
                "{connections} bids at once: {answered} answered, {} of them waited, {refused} \
                 refused",
                full - refused
            ));
        }
    }
    Err(io::Error::other("the gate was never full"))
}

/// More clicks than the burst, and than the rate.
fn limiter(server: &Server) -> io::Result<String> {
    let mut client = Client::connect(server.ads())?;
    let mut clicks = |count: u32| client.call("POST", "/clicks", &format!("{{\"count\":{count}}}"));
    clicks(CLICKS_BURST + 1)?.require(422, "above the burst")?;
    clicks(CLICKS_BURST)?.require(200, "the burst")?;
    let begin = Instant::now();
    let mut refused = 0;
    while begin.elapsed() < LIMIT {
        let reply = clicks(CLICKS_BURST)?;
        match reply.status {
            429 => refused += 1,
            // Before that, the client was slower than the rate.
            200 if refused == 0 => {}
            200 => {
                let counts = [Event::TooLarge, Event::Limited].map(|e| server.events.count(e));
                ensure(counts == [1, refused], || format!("events: {counts:?}"))?;
                return Ok(format!(
                    "above the burst 1, above the rate {refused}, then let through"
                ));
            }
            _ => return Err(io::Error::other(format!("clicks: {reply:?}"))),
        }
    }
    Err(io::Error::other("the limiter lets nothing through"))
}

/// A bidder that is slow opens the breaker; one that is fast closes it.
fn breaker(server: &Server) -> io::Result<String> {
    bidder(server, 10_000)?;
    let mut client = Client::connect(server.ads())?;
    let mut bid = || client.call("POST", "/bids", "");
    for _ in 0..5 {
        bid()?.require(504, "a slow bid")?;
    }
    let opened = server.events.wait_for(Event::BreakerOpened, 1, LIMIT);
    ensure(opened, || "the breaker stayed closed".into())?;
    let begin = Instant::now();
    // A client that was delayed until the breaker probes gets the result of the probe.
    while !bid()?.body.contains("the breaker is open") {
        ensure(begin.elapsed() < LIMIT, || {
            "the breaker refuses no bid".into()
        })?;
    }
    bidder(server, 0)?;
    let begin = Instant::now();
    while bid()?.status != 200 {
        ensure(begin.elapsed() < LIMIT, || "the breaker stayed open".into())?;
    }
    let closed = server.events.count(Event::BreakerClosed);
    ensure(closed == 1, || format!("it closed {closed} times"))?;
    bid()?.require(200, "after the probe")?;
    let refused = server.events.count(Event::BreakerRefused);
    Ok(format!(
        "opened after 5 failures, refused {refused}, closed by a probe"
    ))
}
