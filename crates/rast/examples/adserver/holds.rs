//! Guards that are tripped while something is held: locks, the pool, active requests.
//!
//! A reactor or a thread of the pool waits in a channel until the expected event has happened, and
//! a request waits for its body. So no result depends on a delay.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rast::reactor::{Call, Policy};

use crate::ads::NO_AD;
use crate::client::{Client, request};
use crate::events::Event;
use crate::json::LARGE;
use crate::server::Server;
use crate::summary::{Summary, ensure};

/// How long an event is waited for.
const LIMIT: Duration = Duration::from_secs(5);
/// A poll that takes longer is reported.
const SLOW: Duration = Duration::from_millis(1);

/// Trips them one after the other.
pub(crate) fn run(server: &Server, summary: &mut Summary) {
    summary.add("locks", deadlock(server));
    summary.add("pool", pool(server));
    summary.add("admission", admission(server));
}

/// Waits for a hold to begin.
fn wait_for(begins: &Receiver<()>) -> io::Result<()> {
    let begun = begins.recv_timeout(LIMIT);
    begun.map_err(|_| io::Error::other("a thread was not held"))
}

/// Two transfers in opposite directions, each with one lock.
fn deadlock(server: &Server) -> io::Result<String> {
    let mut clients = [Client::connect(server.api)?, Client::connect(server.api)?];
    for id in [1, 2] {
        let body = format!("{{\"id\":{id},\"bid\":1,\"budget\":1000}}");
        let reply = clients[0].call("POST", "/campaigns", &body)?;
        reply.require(201, "a campaign")?;
    }
    let slow = server.events.count(Event::SlowPoll);
    let transfer = |(from, to): (u32, u32), amount: u32| {
        let body = format!("{{\"from\":{from},\"to\":{to},\"amount\":{amount}}}");
        request("POST", "/transfers", &body)
    };
    // Each transfer asks all ads reactors while it has its first lock: reactor 1 does not answer.
    let ((begun, begins), (go, goes)) = (channel(), channel::<()>());
    let held = server.reactors.reactor(1).map(|reactor| {
        reactor.spawn_named("held", move || async move {
            let begin = Instant::now();
            let _ = begun.send(());
            let _ = goes.recv();
            while begin.elapsed() < 2 * SLOW {
                std::hint::spin_loop();
            }
        })
    });
    wait_for(&begins)?;
    clients[0].send(transfer((1, 2), 100))?;
    clients[1].send(transfer((2, 1), 30))?;
    let both = server.events.wait_for(Event::TransferHolds, 2, LIMIT);
    drop(go);
    ensure(both, || "the transfers do not hold a lock each".into())?;
    for client in &mut clients {
        client.receive()?.require(200, "a transfer")?;
    }
    let refused = server.events.count(Event::Deadlock);
    ensure(refused == 1, || format!("{refused} deadlocks, not 1"))?;
    // Both were carried out: 1000 - 100 + 30 are left.
    for (amount, status) in [(931, 409), (930, 200)] {
        clients[0].send(transfer((1, 2), amount))?;
        let reply = clients[0].receive()?;
        reply.require(status, &format!("a transfer of {amount}"))?;
    }
    drop(held);
    let is_slow = server.events.wait_for(Event::SlowPoll, slow + 1, LIMIT);
    ensure(is_slow, || "the poll that was held is not reported".into())?;
    Ok("1 deadlock refused and retried, both transfers done; the held poll is reported".into())
}

/// A pool whose threads are held and whose queue is full.
fn pool(server: &Server) -> io::Result<String> {
    let background = server.reactors.pool();
    let mut api = Client::connect(server.api)?;
    let body = format!("{{\"latency_ms\":0{}}}", " ".repeat(LARGE));
    let (go, goes) = channel::<()>();
    let goes = Arc::new(Mutex::new(goes));
    let (begun, begins) = channel();
    let mut calls: Vec<Call<()>> = Vec::new();
    // Two threads run tasks of this policy.
    for _ in 0..2 {
        let (begun, goes) = (begun.clone(), Arc::clone(&goes));
        let held = move || {
            let _ = begun.send(());
            // Ends with the sender, so for both threads at once.
            let goes = goes.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = goes.recv();
        };
        let call = background.run(Policy::Medium, held);
        calls.push(call.map_err(|_| io::Error::other("the pool is full too early"))?);
    }
    for _ in 0..2 {
        wait_for(&begins)?;
    }
    let mut queued = 0;
    while let Ok(call) = background.run(Policy::Medium, || ()) {
        calls.push(call);
        queued += 1;
    }
    let before = server.events.count(Event::PoolFull);
    let reply = api.call("PUT", "/bidder", &body)?;
    reply.require(503, "a full pool")?;
    let full = server.events.count(Event::PoolFull) - before;
    ensure(full == 1, || format!("it was full {full} times"))?;
    drop(go);
    for call in calls {
        let ended = rast::reactor::executor::block_on(call);
        ended.map_err(|error| io::Error::other(error.to_string()))?;
    }
    let reply = api.call("PUT", "/bidder", &body)?;
    reply.require(200, "after that")?;
    Ok(format!(
        "full with {queued} tasks queued: 503, then served again"
    ))
}

/// Connections whose request lacks its body.
#[derive(Default)]
struct Held(Vec<Client>);

const BODY: &str = "{\"slot\":\"top\",\"campaigns\":[]}";

impl Held {
    /// Begins a request.
    fn add(&mut self, mut client: Client) -> io::Result<()> {
        let request = request("POST", "/ads", BODY);
        client.send(&request[..request.len() - BODY.len()])?;
        self.0.push(client);
        Ok(())
    }

    /// Completes the requests.
    fn release(self) -> io::Result<usize> {
        let count = self.0.len();
        for mut client in self.0 {
            client.send(BODY)?;
            let reply = client.receive()?;
            ensure(reply.body == NO_AD, || format!("a held request: {reply:?}"))?;
        }
        Ok(count)
    }
}

/// A new connection, and the reactor that has it.
fn connect(server: &Server) -> io::Result<(Client, usize)> {
    let mut client = Client::connect(server.ads())?;
    let reply = client.call("GET", "/stats", "")?;
    Ok((client, reply.reactor))
}

/// Asks on `client` until so many listeners are open.
fn until_open(server: &Server, open: usize, client: &mut Client) -> io::Result<()> {
    let begin = Instant::now();
    while server.group.open() != open {
        let still = server.group.open();
        ensure(begin.elapsed() < LIMIT, || {
            format!("{still} listeners are open, not {open}")
        })?;
        client.call("GET", "/stats", "")?;
    }
    Ok(())
}

/// Reactors with more active requests than the high watermark get no new connections.
fn admission(server: &Server) -> io::Result<String> {
    /// More than the high watermark.
    const MANY: usize = 25;
    const LATER: usize = 20;
    let mut spare = Vec::new();
    let mut one = Held::default();
    let begin = Instant::now();
    while one.0.len() < MANY {
        ensure(begin.elapsed() < LIMIT, || {
            "too few connections come to reactor 1".into()
        })?;
        match connect(server)? {
            (client, 1) => one.add(client)?,
            (client, _) => spare.push(client),
        }
    }
    let Some(mut other) = spare.pop() else {
        return Err(io::Error::other("all connections came to reactor 1"));
    };
    until_open(server, 1, &mut other)?;
    let mut two = Held::default();
    for _ in 0..LATER {
        let (client, reactor) = connect(server)?;
        ensure(reactor == 2, || {
            format!("a new connection came to reactor {reactor}")
        })?;
        two.add(client)?;
    }
    for client in spare.drain(..spare.len().min(MANY)) {
        two.add(client)?;
    }
    while two.0.len() < MANY {
        let (client, _) = connect(server)?;
        two.add(client)?;
    }
    until_open(server, 0, &mut other)?;
    // Both are above: these wait in the backlog.
    let waiting = (0..LATER).map(|_| {
        let mut client = Client::connect(server.ads())?;
        client.send(request("GET", "/stats", ""))?;
        Ok(client)
    });
    let waiting = waiting.collect::<io::Result<Vec<_>>>()?;
    let held = one.release()? + two.release()?;
    for mut client in waiting {
        client.receive()?.require(200, "a connection that waited")?;
    }
    until_open(server, 2, &mut other)?;
    let how = if server.group.is_steered() {
        "by the kernel's program"
    } else {
        "by one shared listener"
    };
    Ok(format!(
        "{held} requests held; {LATER} connections steered to reactor 2 {how}; {LATER} waited for \
         both reactors, none lost"
    ))
}
