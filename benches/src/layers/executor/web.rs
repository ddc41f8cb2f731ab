//! hyper's hello-world on each runtime, with clients that keep their connections.
//!
//! One thread drives all connections: it sends a request on each, waits for any answer, and sends
//! the next one there. So there are as many requests under way as connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::{Request, Response};
use rast::executor::io::TcpListener;
use rast::executor::spawn;

use super::rigs::{Ours, Rig};
use super::timed;
use crate::workers::Sample;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n";

/// A runtime that serves.
pub(super) trait Web: Rig {
    /// Serves on a free port from now on.
    fn serve(&self) -> SocketAddr;
}

/// The same answer on every runtime.
pub(super) async fn hello(
    _: Request<Incoming>,
) -> Result<Response<String>, std::convert::Infallible> {
    Ok(Response::new("Hello, world!".into()))
}

/// Serves one connection.
macro_rules! connection {
    ($stream:expr) => {{
        let http = hyper::server::conn::http1::Builder::new();
        let service = hyper::service::service_fn($crate::layers::executor::web::hello);
        // The client closes the connection at the end.
        let _ = http.serve_connection($stream, service).await;
    }};
}
#[cfg(all(rast_rivals, feature = "rivals"))]
pub(super) use connection;

impl Web for Ours {
    fn serve(&self) -> SocketAddr {
        let bind = async { TcpListener::bind("127.0.0.1:0").expect("a free port") };
        let listener = self.block_on(bind);
        let address = listener.local_addr().expect("an address");
        self.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("a socket option");
                spawn(async move { connection!(stream) }).detach();
            }
        });
        address
    }
}

/// A connection of the client.
struct Connection {
    stream: TcpStream,
    sent: Instant,
    /// Bytes of the answer that have come.
    have: usize,
}

impl Connection {
    fn ask(&mut self) {
        self.sent = Instant::now();
        self.have = 0;
        self.stream.write_all(REQUEST).expect("the server reads");
    }
}

/// The clients of one server.
pub(super) struct Clients {
    connections: Vec<Connection>,
    /// Bytes of an answer: the date in it has a fixed length.
    answer: usize,
}

impl Clients {
    /// Connects, and has each connection served once.
    pub(super) fn connect(server: SocketAddr, count: usize) -> Self {
        let mut answer = 0;
        let connect = |_| {
            let mut stream = TcpStream::connect(server).expect("the server accepts");
            stream.set_nodelay(true).expect("a socket option");
            stream.write_all(REQUEST).expect("the server reads");
            let mut bytes = [0; 1024];
            answer = 0;
            while !bytes[..answer].ends_with(b"Hello, world!") {
                answer += stream.read(&mut bytes[answer..]).expect("an answer");
            }
            Connection {
                stream,
                sent: Instant::now(),
                have: 0,
            }
        };
        let connections = (0..count).map(connect).collect();
        Self {
            connections,
            answer,
        }
    }

    /// Makes so many requests; returns the time of each, in nanoseconds.
    fn run(&mut self, requests: usize) -> Vec<u64> {
        let mut times = Vec::with_capacity(requests);
        let poll = |connection: &Connection| libc::pollfd {
            fd: connection.stream.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polled: Vec<libc::pollfd> = self.connections.iter().map(poll).collect();
        let mut left = requests;
        for connection in self.connections.iter_mut().take(requests) {
            connection.ask();
            left -= 1;
        }
        let mut bytes = [0; 1024];
        while times.len() < requests {
            let count = polled.len() as libc::nfds_t;
            // SAFETY: the pointer and the count are those of the list.
            let ready = unsafe { libc::poll(polled.as_mut_ptr(), count, -1) };
            assert!(ready > 0, "an answer comes");
            for (polled, connection) in polled.iter_mut().zip(&mut self.connections) {
                if polled.revents == 0 {
                    continue;
                }
                connection.have += connection.stream.read(&mut bytes).expect("an answer");
                if connection.have < self.answer {
                    continue;
                }
                times.push(connection.sent.elapsed().as_nanos() as u64);
                if left > 0 {
                    left -= 1;
                    connection.ask();
                }
            }
        }
        times
    }
}

/// A server with its clients; judged by the time per request, or by the p99 of the times.
pub(super) fn hello_world<W: Web>(
    connections: usize,
    is_judged_by_p99: bool,
) -> impl FnMut(u64) -> Sample + 'static {
    let mut pair: Option<(W, Clients)> = None;
    move |ops| {
        let (_, clients) = pair.get_or_insert_with(|| {
            let server = W::start();
            let clients = Clients::connect(server.serve(), connections);
            (server, clients)
        });
        let mut times = Vec::new();
        let sample = timed(|| {
            times = clients.run(ops as usize);
            ops
        });
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64;
        let sample = sample.with("p50 ns", at(0.5)).with("p99 ns", at(0.99));
        if is_judged_by_p99 {
            sample.judged_by(at(0.99))
        } else {
            sample
        }
    }
}
