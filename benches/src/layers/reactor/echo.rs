//! An echo of 64 bytes over loopback connections: the server on one processor, its clients on the
//! other one.
//!
//! Each connection has one request under way. The clients are one thread: it blocks on a single
//! connection, and waits on an epoll for several. The server's processor time is that of the whole
//! process without the thread of the clients, so it includes threads that a runtime starts.

use std::any::Any;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

use rast::reactor::io::{self, Backend};
use rast::reactor::{Pool, Reactors, spawn_local};

use super::{LAYER, pin_to, two_processors};
use crate::harness::Scenario;
use crate::usage::{processor_time, thread_time};
use crate::workers::Sample;

/// Bytes of a request, and of its answer.
const BYTES: usize = 64;
/// Connections of the rows with many.
const MANY: usize = 50;

/// Starts a server on the first processor. It serves until what is returned is dropped, or the
/// program ends.
type Serve = fn(TcpListener) -> Box<dyn Any>;

fn reactors(backend: Backend) -> Option<Reactors> {
    let cores = two_processors().map(|two| two[0]);
    let pool = Pool::builder().threads([0, 0, 1]);
    let builder = Reactors::builder().number(1).cores(cores).pool(pool);
    builder.backend(backend).build().ok()
}

fn ours(listener: TcpListener, backend: Backend) -> Box<dyn Any> {
    let reactors = reactors(backend).expect("the system serves the backend");
    let reactor = reactors.reactor(0).expect("there is one");
    let accepts = reactor.spawn(|| async {
        let listener = io::TcpListener::from_std(listener).expect("a listener");
        let mut incoming = listener.incoming();
        while let Ok(stream) = incoming.next().await {
            stream.set_nodelay(true).expect("a socket option");
            let connection = spawn_local(async move {
                while let Ok(Some(chunk)) = stream.chunk().await {
                    if stream.write_all(chunk).await.0.is_err() {
                        break;
                    }
                }
            });
            connection.detach();
        }
    });
    accepts.detach();
    Box::new(reactors)
}

/// The client's ends of the connections, and what they wait in.
struct Clients {
    streams: Vec<TcpStream>,
    epoll: OwnedFd,
}

impl Clients {
    fn connect(server: std::net::SocketAddr, count: usize) -> Self {
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

    /// Makes so many requests.
    fn run(&mut self, requests: u64) {
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
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MANY];
        while answered < requests {
            let (epoll, room) = (self.epoll.as_raw_fd(), events.len() as i32);
            // SAFETY: the pointer and the count are those of the list.
            let ready = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), room, -1) };
            assert!(ready > 0, "an answer comes");
            for event in &events[..ready as usize] {
                let index = event.u64 as usize;
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

/// A server with its clients.
fn echo(connections: usize, serve: Serve) -> impl FnMut(u64) -> Sample + 'static {
    let mut pair: Option<(Box<dyn Any>, Clients)> = None;
    move |ops| {
        let (_, clients) = pair.get_or_insert_with(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("an address");
            (serve(listener), Clients::connect(address, connections))
        });
        std::thread::scope(|scope| {
            let run = move || {
                pin_to(1);
                let server_time = || processor_time().saturating_sub(thread_time());
                let before = server_time();
                let start = Instant::now();
                clients.run(ops);
                let elapsed = start.elapsed();
                let server = server_time().saturating_sub(before).as_nanos() as f64;
                Sample::new(ops, elapsed)
                    .with("server CPU ns/op", server / ops as f64)
                    .by(2)
            };
            let client = scope.spawn(run);
            client.join().expect("no thread of a bench panics")
        })
    }
}

fn uring(listener: TcpListener) -> Box<dyn Any> {
    ours(listener, Backend::Uring)
}

fn readiness(listener: TcpListener) -> Box<dyn Any> {
    ours(listener, Backend::Readiness)
}

/// One row for each backend: io_uring over the rivals by either, readiness over those by epoll.
fn rows(names: [&'static str; 2], connections: usize, ops: u64) -> Vec<Scenario> {
    let mut rows = Vec::new();
    // A kernel without io_uring has no such row.
    if reactors(Backend::Uring).is_some() {
        let row = Scenario::new(LAYER, names[0], ops, 200)
            .ours("rast, io_uring", echo(connections, uring));
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let row = row
            .rival("tokio", echo(connections, rivals::tokio))
            .rival("monoio, io_uring", echo(connections, rivals::monoio))
            .rival("compio, io_uring", echo(connections, rivals::compio));
        rows.push(row);
    }
    let row = Scenario::new(LAYER, names[1], ops, 200)
        .ours("rast, readiness", echo(connections, readiness));
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let row = row
        .rival("tokio", echo(connections, rivals::tokio))
        .rival("monoio, epoll", echo(connections, rivals::monoio_epoll));
    rows.push(row);
    rows
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
    let mut all = rows(one, 1, 4_000);
    all.extend(rows(many, MANY, 20_000));
    all
}

#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals {
    use super::*;

    /// Bytes of a connection's buffer, as ours.
    const BUFFER: usize = 4096;

    /// Runs a server on a thread of its own, on the first processor, until the program ends.
    fn serving(serve: impl FnOnce() + Send + 'static) -> Box<dyn Any> {
        let thread = std::thread::spawn(|| {
            pin_to(0);
            serve();
        });
        Box::new(thread)
    }

    pub(super) fn tokio(listener: TcpListener) -> Box<dyn Any> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        serving(move || {
            let builder = &mut tokio::runtime::Builder::new_current_thread();
            let builder = builder.enable_io().max_io_events_per_tick(1024);
            let runtime = builder.build().expect("a runtime");
            runtime.block_on(async {
                listener.set_nonblocking(true).expect("a socket option");
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                while let Ok((mut stream, _)) = listener.accept().await {
                    stream.set_nodelay(true).expect("a socket option");
                    tokio::spawn(async move {
                        let mut buffer = [0; BUFFER];
                        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                            if stream.write_all(&buffer[..count]).await.is_err() {
                                break;
                            }
                        }
                    });
                }
            });
        })
    }

    /// The loop of a connection of monoio, whose drivers differ in their runtime alone.
    macro_rules! monoio {
        ($driver:ty, $listener:expr) => {
            serving(move || {
                use ::monoio::io::{AsyncReadRent as _, AsyncWriteRentExt as _};

                let listener = $listener;
                let runtime = ::monoio::RuntimeBuilder::<$driver>::new().with_entries(1024);
                runtime.build().expect("a runtime").block_on(async {
                    let listener = ::monoio::net::TcpListener::from_std(listener);
                    let listener = listener.expect("a listener");
                    while let Ok((mut stream, _)) = listener.accept().await {
                        stream.set_nodelay(true).expect("a socket option");
                        ::monoio::spawn(async move {
                            let mut buffer = Vec::with_capacity(BUFFER);
                            while let (Ok(1..), read) = stream.read(buffer).await {
                                let (Ok(_), written) = stream.write_all(read).await else {
                                    break;
                                };
                                buffer = written;
                                buffer.clear();
                            }
                        });
                    }
                });
            })
        };
    }

    pub(super) fn monoio(listener: TcpListener) -> Box<dyn Any> {
        monoio!(::monoio::IoUringDriver, listener)
    }

    pub(super) fn monoio_epoll(listener: TcpListener) -> Box<dyn Any> {
        listener.set_nonblocking(true).expect("a socket option");
        monoio!(::monoio::LegacyDriver, listener)
    }

    pub(super) fn compio(listener: TcpListener) -> Box<dyn Any> {
        use ::compio::BufResult;
        use ::compio::io::{AsyncRead as _, AsyncWriteExt as _};

        serving(move || {
            let runtime = ::compio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let listener = ::compio::net::TcpListener::from_std(listener);
                let listener = listener.expect("a listener");
                while let Ok((mut stream, _)) = listener.accept().await {
                    stream.set_nodelay(true).expect("a socket option");
                    let connection = async move {
                        let mut buffer = Vec::with_capacity(BUFFER);
                        while let BufResult(Ok(1..), read) = stream.read(buffer).await {
                            let BufResult(Ok(()), written) = stream.write_all(read).await else {
                                break;
                            };
                            buffer = written;
                            buffer.clear();
                        }
                    };
                    ::compio::runtime::spawn(connection).detach();
                }
            });
        })
    }
}
