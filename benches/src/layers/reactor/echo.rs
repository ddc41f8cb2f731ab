//! An echo of 64 bytes over loopback connections: the server on one processor, its clients on the
//! other one.
//!
//! Each connection has one request under way. The clients are one thread: it blocks on a single
//! connection, and waits on an epoll for several. The server's processor time is that of the whole
//! process without the thread of the clients, so it includes threads that a runtime starts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

#[cfg(all(rast_rivals, feature = "rivals"))]
use super::servers::rivals;
use super::servers::{self, Between, Serve, Server};
use super::{LAYER, on_processor};
use crate::harness::Scenario;
use crate::usage::{processor_time, thread_time};
use crate::workers::Sample;

/// Bytes of a request, and of its answer.
pub(super) const BYTES: usize = 64;
/// Connections of the rows with many.
pub(super) const MANY: usize = 50;

/// The client's ends of the connections, and the epoll on which it waits for them.
pub(super) struct Clients {
    pub(super) streams: Vec<TcpStream>,
    epoll: OwnedFd,
}

impl Clients {
    pub(super) fn connect(server: SocketAddr, count: usize) -> Self {
        let connect = |_| {
            let stream = TcpStream::connect(server).expect("the server accepts");
            stream.set_nodelay(true).expect("a socket option");
            stream
        };
        let streams: Vec<_> = (0..count).map(connect).collect();
        // SAFETY: the call takes no pointer.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0, "a descriptor");
        // SAFETY: the descriptor was made above, and nothing else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        for (index, stream) in streams.iter().enumerate() {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: index as u64,
            };
            let (epoll, stream) = (epoll.as_raw_fd(), stream.as_raw_fd());
            // SAFETY: the event lives, and both descriptors are open.
            let added =
                unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, stream, &raw mut event) };
            assert_eq!(added, 0, "the epoll takes a socket");
        }
        Self { streams, epoll }
    }

    fn send(&mut self, index: usize) {
        let sent = self.streams[index].write(&[b'.'; BYTES]);
        assert_eq!(sent.expect("the server reads"), BYTES);
    }

    fn receive(&mut self, index: usize) {
        let answer = self.streams[index].read_exact(&mut [0; BYTES]);
        answer.expect("the server answers");
    }

    /// Waits for answers, for at most the given milliseconds, or without a limit for -1. Returns
    /// the connections that have answers.
    pub(super) fn wait(&self, limit: i32) -> impl Iterator<Item = usize> + use<> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MANY];
        let (epoll, room) = (self.epoll.as_raw_fd(), events.len() as i32);
        // SAFETY: the pointer and the count are those of the list.
        let ready = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), room, limit) };
        let ready = events.into_iter().take(ready.max(0) as usize);
        ready.map(|event| event.u64 as usize)
    }

    /// Makes so many requests.
    pub(super) fn run(&mut self, requests: u64) {
        if self.streams.len() == 1 {
            for _ in 0..requests {
                self.send(0);
                self.receive(0);
            }
            return;
        }
        let mut left = requests;
        for index in 0..self.streams.len().min(requests as usize) {
            self.send(index);
            left -= 1;
        }
        let mut answered = 0;
        while answered < requests {
            for index in self.wait(-1) {
                self.receive(index);
                answered += 1;
                if left > 0 {
                    left -= 1;
                    self.send(index);
                }
            }
        }
    }
}

/// Starts a server, and connects to it.
pub(super) fn start(serve: Serve, connections: usize) -> (Box<dyn Server>, Clients) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    (serve(listener), Clients::connect(address, connections))
}

/// What a run of an echo is judged by.
#[derive(Clone, Copy)]
enum By {
    /// The time per request.
    Time,
    /// The server's processor time per request.
    Cpu,
}

/// A server with its clients.
fn echo(connections: usize, serve: Serve, by: By) -> impl FnMut(u64) -> Sample + 'static {
    echo_that(Between::Waits, connections, serve, by)
}

fn echo_that(
    between: Between,
    connections: usize,
    serve: Serve,
    by: By,
) -> impl FnMut(u64) -> Sample + 'static {
    let mut pair = None;
    move |ops| {
        let (server, clients) = pair.get_or_insert_with(|| start(serve, connections));
        let calls = server.calls();
        let sample = on_processor(1, move || {
            let server_time = || processor_time().saturating_sub(thread_time());
            let before = server_time();
            let start = Instant::now();
            clients.run(ops);
            let elapsed = start.elapsed();
            let server = server_time().saturating_sub(before).as_nanos() as f64;
            let server = server / ops as f64;
            let sample = Sample::new(ops, elapsed)
                .with("server CPU ns/op", server)
                .by(2);
            match by {
                By::Time => sample,
                By::Cpu => sample.judged_by(server),
            }
        });
        let sample = match (calls, server.calls()) {
            (Some(before), Some(after)) => {
                sample.with("calls of the ring/op", (after - before) as f64 / ops as f64)
            }
            _ => sample,
        };
        if between == Between::Ends {
            pair = None;
        }
        sample
    }
}

/// Adds the rivals of io_uring.
fn with_rivals(row: Scenario, connections: usize, by: By) -> Scenario {
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let row = row
        .rival("tokio", echo(connections, rivals::tokio, by))
        .rival("monoio, io_uring", echo(connections, rivals::monoio, by))
        .rival("compio, io_uring", echo(connections, rivals::compio, by));
    let _ = (connections, by);
    row
}

/// Adds the rivals of readiness.
fn with_epoll_rivals(row: Scenario, connections: usize, by: By) -> Scenario {
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let row = row
        .rival("tokio", echo(connections, rivals::tokio, by))
        .rival("monoio, epoll", echo(connections, rivals::monoio_epoll, by));
    let _ = (connections, by);
    row
}

/// One row for each backend: ours by io_uring against all rivals, ours by readiness against the
/// rivals by epoll.
fn rows(names: [&'static str; 2], connections: usize, ops: u64, by: By) -> Vec<Scenario> {
    let mut rows = Vec::new();
    // A kernel without io_uring has no such row.
    if servers::has_uring() {
        let row = Scenario::new(LAYER, names[0], ops, 200);
        let row = row.ours("rast, io_uring", echo(connections, servers::uring, by));
        rows.push(with_rivals(row, connections, by));
    }
    let row = Scenario::new(LAYER, names[1], ops, 200);
    let row = row.ours("rast, readiness", echo(connections, servers::readiness, by));
    rows.push(with_epoll_rivals(row, connections, by));
    rows
}

/// A server that spins, over rivals that sleep. Its processor time is in the table.
fn spinning() -> Scenario {
    let row = Scenario::new(
        LAYER,
        "echo by a server that spins, 1 connection",
        4_000,
        200,
    );
    let spins = |serve| echo_that(Between::Ends, 1, serve, By::Time);
    let row = if servers::has_uring() {
        row.ours("rast, io_uring", spins(servers::uring_spins))
    } else {
        row
    };
    let row = row.ours("rast, readiness", spins(servers::readiness_spins));
    with_rivals(row, 1, By::Time)
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    let one = [
        "echo by io_uring, 1 connection",
        "echo by readiness, 1 connection",
    ];
    let many = [
        "echo by io_uring, 50 connections",
        "echo by readiness, 50 connections",
    ];
    let cpu = [
        "echo by io_uring, 50 connections, server CPU",
        "echo by readiness, 50 connections, server CPU",
    ];
    let mut all = rows(one, 1, 4_000, By::Time);
    all.extend(rows(many, MANY, 20_000, By::Time));
    all.extend(rows(cpu, MANY, 20_000, By::Cpu));
    all.push(spinning());
    all
}
