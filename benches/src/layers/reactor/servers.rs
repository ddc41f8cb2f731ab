//! Servers that echo, ours and the rivals', each on the first processor.

use std::net::TcpListener;

use rast::executor::block_on;
use rast::reactor::io::{self, Backend};
use rast::reactor::{Builder, Policy, Reactors, background_task, parts, spawn_local};

use super::one_reactor;

/// A server. It serves until it is dropped, or the program ends.
pub(super) trait Server {
    /// Number of system calls that its ring has made, if it has a ring and counts them.
    fn calls(&self) -> Option<u64> {
        None
    }
}

/// Starts a server on the first processor.
pub(super) type Serve = fn(TcpListener) -> Box<dyn Server>;

/// What a server does between the runs of its contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// It waits, without work.
    Waits,
    /// It ends, because it would otherwise use the processor of the other contenders.
    Ends,
}

/// Ours.
struct Ours(Reactors);

impl Server for Ours {
    fn calls(&self) -> Option<u64> {
        let reactor = self.0.reactor(0).expect("there is one");
        let counts = reactor.spawn(|| async { parts::ring_counts() });
        let (_, calls) = block_on(counts).expect("no task of a bench panics")?;
        Some(calls)
    }
}

fn builder(backend: Backend) -> Builder {
    one_reactor().backend(backend)
}

/// Whether the kernel has io_uring.
pub(super) fn has_uring() -> bool {
    builder(Backend::Uring).build().is_ok()
}

fn serve(listener: TcpListener, builder: Builder) -> Ours {
    let reactors = builder.build().expect("the system serves the backend");
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
    Ours(reactors)
}

pub(super) fn uring(listener: TcpListener) -> Box<dyn Server> {
    Box::new(serve(listener, builder(Backend::Uring)))
}

pub(super) fn readiness(listener: TcpListener) -> Box<dyn Server> {
    Box::new(serve(listener, builder(Backend::Readiness)))
}

/// Never sleeps: [`Builder::spin`].
pub(super) fn uring_spins(listener: TcpListener) -> Box<dyn Server> {
    Box::new(serve(listener, builder(Backend::Uring).spin()))
}

/// As [`uring_spins`], by readiness.
pub(super) fn readiness_spins(listener: TcpListener) -> Box<dyn Server> {
    Box::new(serve(listener, builder(Backend::Readiness).spin()))
}

/// How long a background task runs.
const WORK: std::time::Duration = std::time::Duration::from_millis(10);

/// The best backend, while a background task of 10 ms is always running on a thread of the lowest
/// scheduling class.
pub(super) fn with_background(listener: TcpListener) -> Box<dyn Server> {
    let ours = serve(listener, builder(Backend::Auto));
    let lowest = ours.0.pool().run(Policy::Low, || {
        let none = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameter lives; 0 names the calling thread.
        let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) };
        assert_eq!(set, 0, "a thread may lower its class");
    });
    let lowest = lowest.unwrap_or_else(|_| panic!("the pool is empty"));
    block_on(lowest).expect("it runs");
    let works = ours.0.reactor(0).expect("there is one").spawn(|| async {
        loop {
            let work = background_task(Policy::Low, || {
                let begin = std::time::Instant::now();
                while begin.elapsed() < WORK {
                    std::hint::spin_loop();
                }
            });
            let work = work.unwrap_or_else(|_| panic!("one at a time"));
            if work.await.is_err() {
                return;
            }
        }
    });
    works.detach();
    Box::new(ours)
}

/// The same without the background tasks.
pub(super) fn best(listener: TcpListener) -> Box<dyn Server> {
    Box::new(serve(listener, builder(Backend::Auto)))
}

#[cfg(all(rast_rivals, feature = "rivals"))]
pub(super) mod rivals {
    use super::*;

    /// Bytes of a connection's buffer, as ours.
    const BUFFER: usize = 4096;

    /// A server whose calls are not counted.
    struct Rival(#[expect(dead_code, reason = "it is detached")] std::thread::JoinHandle<()>);

    impl Server for Rival {}

    /// Runs a server on a thread of its own, on the first processor, until the program ends.
    fn serving(serve: impl FnOnce() + Send + 'static) -> Box<dyn Server> {
        let thread = std::thread::spawn(|| {
            crate::processors::pin_in_turn(0);
            serve();
        });
        Box::new(Rival(thread))
    }

    pub(in super::super) fn tokio(listener: TcpListener) -> Box<dyn Server> {
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

    /// The loop of a connection of monoio. Its drivers differ only in their runtime.
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

    pub(in super::super) fn monoio(listener: TcpListener) -> Box<dyn Server> {
        monoio!(::monoio::IoUringDriver, listener)
    }

    pub(in super::super) fn monoio_epoll(listener: TcpListener) -> Box<dyn Server> {
        listener.set_nonblocking(true).expect("a socket option");
        monoio!(::monoio::LegacyDriver, listener)
    }

    pub(in super::super) fn compio(listener: TcpListener) -> Box<dyn Server> {
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
