//! Load: clients as tasks of a reactor of their own, on another core than the server.

use std::cell::Cell;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rast::primitive::Random;
use rast::reactor::executor::timers::Nanos;
use rast::reactor::executor::{now, sleep, sleep_until};
use rast::reactor::io::{Backend, TcpStream, Watermarks};
use rast::reactor::{Gate, Pool, PoolThread, Reactors, spawn_local};

use crate::client::{Client, parse, request};
use crate::conn::within;
use crate::edge::now_ns;
use crate::server::{Server, Settings};
use crate::summary::say;

/// A client gives a connection up after this time.
const GIVE_UP: Duration = Duration::from_secs(5);
/// Campaigns that requests choose from.
const CAMPAIGNS: u64 = 8;

/// How requests ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ended {
    /// Answered as expected.
    pub(crate) answered: u64,
    /// Answered otherwise, or with an error that is no reset.
    pub(crate) wrong: u64,
    /// The connection was reset or refused.
    pub(crate) resets: u64,
    /// The client gave up.
    pub(crate) given_up: u64,
    /// The client had as many connections as it may have.
    pub(crate) not_begun: u64,
}

/// A server on the first core, and a reactor for clients on the second one.
pub(crate) fn start(
    marks: Watermarks,
    on_pool_thread: fn(PoolThread),
) -> Result<(Server, Reactors), Box<dyn Error>> {
    let settings = |cores: Vec<usize>| {
        Ok::<_, Box<dyn Error>>(Settings {
            addresses: ["127.0.0.1:0".parse()?; 2],
            backend: Backend::Auto,
            reactors: 2,
            cores,
            marks,
            threads: [1, 1, 3],
            capacity: 65_536,
            on_pool_thread,
        })
    };
    let clients = |core: Option<usize>| {
        Reactors::builder()
            .name("clients")
            .number(1)
            .cores(core)
            .slow_poll(Duration::MAX)
            .pool(Pool::builder().threads([0, 0, 1]))
            .build()
    };
    // Where the process may not run on these cores, the system chooses.
    let (server, clients) = match (Server::start(settings(vec![0, 0])?), clients(Some(1))) {
        (Ok(server), Ok(clients)) => (server, clients),
        _ => {
            say("no core each for server and clients: the figures mean little");
            (Server::start(settings(Vec::new())?)?, clients(None)?)
        }
    };
    let ads = "[{\"id\":1,\"slot\":\"top\",\"text\":\"buy\"}]";
    let one = |id| format!("{{\"id\":{id},\"bid\":{id},\"budget\":1,\"ads\":{ads}}}");
    let list: Vec<_> = (1..=CAMPAIGNS).map(one).collect();
    let body = format!("{{\"campaigns\":[{}]}}", list.join(","));
    let reply = Client::connect(server.api)?.call("POST", "/campaigns", &body)?;
    reply.require(201, "the campaigns")?;
    Ok((server, clients))
}

/// The document of an ad request with simulated work.
fn document(work_us: u64, more: &str) -> String {
    let candidates: Vec<u64> = (1..=CAMPAIGNS).collect();
    format!("{{\"slot\":\"top\",\"campaigns\":{candidates:?},\"work_us\":{work_us}{more}}}")
}

/// A request that asks the server to close the connection.
pub(crate) fn single(work_us: u64) -> Vec<u8> {
    let request = request("POST", "/ads", &document(work_us, ""));
    let (line, rest) = request.split_at("POST /ads HTTP/1.1\r\n".len());
    format!("{line}connection: close\r\n{rest}").into_bytes()
}

/// Connects, sends a request, and reads until the server closes.
async fn exchange(address: SocketAddr, request: Rc<[u8]>) -> io::Result<bool> {
    let stream = TcpStream::connect(address).await?;
    stream.write_all(request).await.0?;
    let mut is_right = None;
    while let Some(chunk) = stream.chunk().await? {
        is_right.get_or_insert(chunk.starts_with(b"HTTP/1.1 200"));
    }
    Ok(is_right == Some(true))
}

/// An exchange, counted.
async fn counted(address: SocketAddr, request: Rc<[u8]>, ended: &Cell<Ended>) {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset};
    let result = within(exchange(address, request), sleep(GIVE_UP)).await;
    let mut counts = ended.get();
    match result {
        Some(Ok(true)) => counts.answered += 1,
        Some(Err(error))
            if matches!(
                error.kind(),
                BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset
            ) =>
        {
            counts.resets += 1;
        }
        Some(_) => counts.wrong += 1,
        None => counts.given_up += 1,
    }
    ended.set(counts);
}

/// Clients that connect again as soon as they are answered.
pub(crate) async fn closed_loop(
    address: SocketAddr,
    request: Vec<u8>,
    clients: usize,
    span: Duration,
) -> Ended {
    let (ended, request) = (
        Rc::new(Cell::new(Ended::default())),
        Rc::<[u8]>::from(request),
    );
    let end = now().saturating_add(Nanos::checked_from(span).unwrap_or(Nanos::from_secs(1)));
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let (ended, request) = (Rc::clone(&ended), Rc::clone(&request));
            spawn_local(async move {
                while now() < end {
                    counted(address, Rc::clone(&request), &ended).await;
                }
            })
        })
        .collect();
    for client in clients {
        let _ = client.await;
    }
    ended.get()
}

/// Connections that come at a rate, by a Poisson process, whatever the server does; at most `most`
/// of them at once. Returns when the last one has ended.
pub(crate) async fn open_loop(
    address: SocketAddr,
    request: Vec<u8>,
    rate: f64,
    most: usize,
    span: Duration,
) -> Ended {
    let (ended, request) = (
        Rc::new(Cell::new(Ended::default())),
        Rc::<[u8]>::from(request),
    );
    let gate = Gate::new(most);
    let mut random = Random::new(1);
    let (begin, span) = (now(), span.as_nanos() as f64);
    let mut next = gap(&mut random, rate);
    loop {
        let passed = now().saturating_since(begin).as_nanos() as f64;
        if passed >= span {
            break;
        }
        while next <= passed {
            next += gap(&mut random, rate);
            if let Ok(pass) = gate.try_enter() {
                let (ended, request) = (Rc::clone(&ended), Rc::clone(&request));
                let client = async move {
                    counted(address, request, &ended).await;
                    drop(pass);
                };
                spawn_local(client).detach();
            } else {
                let mut counts = ended.get();
                counts.not_begun += 1;
                ended.set(counts);
            }
        }
        sleep_until(begin.saturating_add(Nanos::from_nanos(next.min(span) as u64))).await;
    }
    gate.close().await;
    ended.get()
}

/// Nanoseconds to the next arrival of a Poisson process.
fn gap(random: &mut Random, rate: f64) -> f64 {
    // In (0, 1], so that its logarithm is finite.
    let part = ((random.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -part.ln() * 1e9 / rate
}

/// Requests at a rate over some connections that stay; each states when it was sent. Returns how
/// many were answered.
pub(crate) async fn steady(
    address: SocketAddr,
    work_us: u64,
    connections: u64,
    rate: f64,
    span: Duration,
) -> io::Result<u64> {
    let one = |seed: u64| async move {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut random = Random::new(seed);
        let (begin, span) = (now(), span.as_nanos() as f64);
        let (mut next, mut answered, mut input) = (0.0, 0, Vec::new());
        loop {
            next += gap(&mut random, rate / connections as f64);
            if next >= span {
                return Ok::<u64, io::Error>(answered);
            }
            sleep_until(begin.saturating_add(Nanos::from_nanos(next as u64))).await;
            let body = document(work_us, &format!(",\"sent_ns\":{}", now_ns()));
            stream.write_all(request("POST", "/ads", &body)).await.0?;
            let reply = loop {
                if let Some(reply) = parse(&mut input)? {
                    break reply;
                }
                let Some(chunk) = stream.chunk().await? else {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                };
                input.extend_from_slice(&chunk);
            };
            reply.require(200, "an ad request")?;
            answered += 1;
        }
    };
    let clients: Vec<_> = (1..=connections)
        .map(|seed| spawn_local(one(seed)))
        .collect();
    let mut answered = 0;
    for client in clients {
        answered += client
            .await
            .map_err(|error| io::Error::other(error.to_string()))??;
    }
    Ok(answered)
}
