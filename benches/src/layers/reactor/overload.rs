//! A service at ten times the highest load that it can serve, and at half of that highest load.
//!
//! Each client connects, sends a request, reads the answer and closes. A request takes 50 µs of the
//! service's processor. The service limits the number of active requests: connections that it does
//! not accept wait in the queue of its socket. A run is judged by the p99 of the time from accept
//! to answer.
//!
//! The load is an open loop of connections. A connection that becomes due while 2,000 connections
//! are under way is not made. The table has the number of connections that were made, and the
//! number of resets, which must be 0.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rast::executor::block_on;
use rast::reactor::io::{GroupListener, ListenerGroup, Watermarks};
use rast::reactor::{Reactors, spawn_local};

use super::echo::BYTES;
use super::{LAYER, on_processor, one_reactor};
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::Sample;

/// The processor time of the service for a request.
const WORK: Duration = Duration::from_micros(50);
/// Above `high` active requests the service accepts no connection; below `low` it accepts again.
const MARKS: Watermarks = Watermarks { low: 16, high: 32 };
/// Connections under way at most, in an open loop.
const MOST: usize = 2_000;
/// Connections under way while the saturating load is measured.
const CLOSED: usize = 64;

/// The service: one reactor.
struct Service {
    reactors: Reactors,
    address: SocketAddr,
}

thread_local! {
    /// From accept to answer, on the reactor.
    static TIMES: RefCell<Histogram> = RefCell::new(Histogram::new());
}

async fn serve(listener: GroupListener) {
    let requests = listener.requests();
    while let Ok(stream) = listener.accept().await {
        let (accepted, active) = (Instant::now(), requests.begin());
        let connection = spawn_local(async move {
            if let Ok(Some(request)) = stream.chunk().await {
                let begin = Instant::now();
                while begin.elapsed() < WORK {
                    std::hint::spin_loop();
                }
                if stream.write_all(request).await.0.is_ok() {
                    let time = accepted.elapsed().as_nanos() as u64;
                    TIMES.with(|times| times.borrow_mut().record(time));
                }
            }
            drop(active);
        });
        connection.detach();
    }
}

impl Service {
    fn start() -> Self {
        let group = ListenerGroup::bind(([127, 0, 0, 1], 0).into(), MARKS).expect("a free port");
        let address = group.local_addr();
        let reactors = one_reactor().build().expect("a thread");
        let begins = reactors
            .reactor(0)
            .expect("there is one")
            .spawn(|| async move {
                spawn_local(serve(group.listener().expect("a socket"))).detach();
            });
        block_on(begins).expect("no task of a bench panics");
        Self { reactors, address }
    }

    /// Takes the times of the answers since the last call.
    fn times(&self) -> Histogram {
        let reactor = self.reactors.reactor(0).expect("there is one");
        let take = || async { TIMES.with(|times| times.replace(Histogram::new())) };
        block_on(reactor.spawn(take)).expect("no task of a bench panics")
    }
}

/// A connection of a client.
struct Client {
    stream: TcpStream,
    has_sent: bool,
}

/// The results of a load.
#[derive(Default)]
struct Counts {
    made: u64,
    answered: u64,
    resets: u64,
}

struct Load {
    server: SocketAddr,
    epoll: OwnedFd,
    clients: HashMap<RawFd, Client>,
    counts: Counts,
}

impl Load {
    fn new(server: SocketAddr) -> Self {
        // SAFETY: the call takes no pointer.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0, "a descriptor");
        Self {
            server,
            // SAFETY: the descriptor was made above, and nothing else owns it.
            epoll: unsafe { OwnedFd::from_raw_fd(epoll) },
            clients: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// Begins a connection.
    fn connect(&mut self) {
        let SocketAddr::V4(server) = self.server else {
            unreachable!("the service has an address of version 4");
        };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointer.
        let socket = unsafe { libc::socket(libc::AF_INET, kind, 0) };
        assert!(socket >= 0, "a descriptor");
        // SAFETY: the descriptor was made above, and nothing else owns it.
        let stream = unsafe { TcpStream::from_raw_fd(socket) };
        // Closes without a wait, so that no port is kept. The answer was read before.
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        let len = size_of_val(&linger) as libc::socklen_t;
        let (value, option) = ((&raw const linger).cast(), libc::SO_LINGER);
        // SAFETY: the value lives and has that length.
        let set = unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, option, value, len) };
        assert_eq!(set, 0, "a socket option");
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: server.port().to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes(server.ip().octets()),
            },
            sin_zero: [0; 8],
        };
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address lives and has that length.
        let begun = unsafe { libc::connect(socket, (&raw const address).cast(), len) };
        let error = io::Error::last_os_error();
        assert!(
            begun == 0 || error.raw_os_error() == Some(libc::EINPROGRESS),
            "connect: {error}"
        );
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32,
            u64: socket as u64,
        };
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: the event lives, and both descriptors are open.
        let added = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &raw mut event) };
        assert_eq!(added, 0, "the epoll takes a socket");
        let client = Client {
            stream,
            has_sent: false,
        };
        self.clients.insert(socket, client);
        self.counts.made += 1;
    }

    /// Continues the connections that are ready, after a wait of at most the given milliseconds.
    fn turn(&mut self, limit: i32) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let (epoll, room) = (self.epoll.as_raw_fd(), events.len() as i32);
        // SAFETY: the pointer and the count are those of the list.
        let ready = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), room, limit) };
        for event in &events[..ready.max(0) as usize] {
            let socket = event.u64 as RawFd;
            let Some(client) = self.clients.get_mut(&socket) else {
                continue;
            };
            match client.advance() {
                Ok(false) => continue,
                Ok(true) => self.counts.answered += 1,
                Err(_) => self.counts.resets += 1,
            }
            self.clients.remove(&socket);
        }
    }

    /// Keeps `number` connections under way for the time; returns the answers per second.
    fn closed_loop(&mut self, number: usize, time: Duration) -> f64 {
        let (begin, before) = (Instant::now(), self.counts.answered);
        while begin.elapsed() < time {
            while self.clients.len() < number {
                self.connect();
            }
            self.turn(1);
        }
        (self.counts.answered - before) as f64 / begin.elapsed().as_secs_f64()
    }

    /// Makes a connection each `period` for the time, and then waits for all answers.
    fn open_loop(&mut self, period: Duration, time: Duration) {
        let begin = Instant::now();
        let mut due = Duration::ZERO;
        loop {
            let now = begin.elapsed();
            while due <= now && due < time {
                due += period;
                if self.clients.len() < MOST {
                    self.connect();
                }
            }
            if due >= time && self.clients.is_empty() {
                return;
            }
            self.turn(i32::from(due >= time));
        }
    }
}

impl Client {
    /// Sends the request and reads the answer; `true` when it is there.
    fn advance(&mut self) -> io::Result<bool> {
        let blocks = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::NotConnected => Ok(0),
            _ => Err(error),
        };
        if !self.has_sent {
            self.has_sent = self.stream.write(&[b'.'; BYTES]).or_else(blocks)? > 0;
            return Ok(false);
        }
        match self.stream.read(&mut [0; BYTES]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) => blocks(error).map(|_| false),
        }
    }
}

/// Runs `work` with a load on the client's processor.
fn on_client<T: Send>(server: SocketAddr, work: impl FnOnce(&mut Load) -> T + Send) -> T {
    on_processor(1, || work(&mut Load::new(server)))
}

/// A load of a multiple of the saturating load, for `ops` milliseconds.
fn load(saturates: &Rc<OnceCell<f64>>, times: f64) -> impl FnMut(u64) -> Sample + 'static {
    let saturates = Rc::clone(saturates);
    move |ops| {
        let service = Service::start();
        let server = service.address;
        let peak = *saturates.get_or_init(|| {
            let time = Duration::from_millis(ops.min(1_000));
            on_client(server, |load| {
                load.closed_loop(CLOSED, time / 2);
                load.closed_loop(CLOSED, time)
            })
        });
        let _ = service.times();
        let period = Duration::from_secs_f64(1.0 / (peak * times));
        let begin = Instant::now();
        let counts = on_client(server, |load| {
            load.open_loop(period, Duration::from_millis(ops));
            core::mem::take(&mut load.counts)
        });
        let elapsed = begin.elapsed();
        let from_accept = service.times();
        Sample::new(counts.answered, elapsed)
            .judged_by(from_accept.quantile(0.99))
            .with("p50 ns", from_accept.quantile(0.5))
            .with("p99 ns", from_accept.quantile(0.99))
            .with("connections", counts.made as f64)
            .with("resets", counts.resets as f64)
            .by(2)
    }
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    let saturates = Rc::new(OnceCell::new());
    let row = Scenario::new(LAYER, "overload: p99 from accept", 10_000, 100)
        .at_most(3)
        .ours("rast, half of the load", load(&saturates, 0.5))
        .ours("rast, ten times the load", load(&saturates, 10.0));
    vec![row]
}
