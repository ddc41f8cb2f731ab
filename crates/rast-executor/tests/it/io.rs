//! Sockets: data arrives whole, waits end, and nothing hangs when the runtime is gone.
#![cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]

use std::io::ErrorKind;
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::io::Write as _;
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    target_pointer_width = "64"
))]
use std::os::fd::AsRawFd as _;
#[cfg(any(feature = "futures-io", feature = "tokio", feature = "hyper"))]
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(feature = "futures-io")]
use std::task::Poll;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

#[cfg(unix)]
use rast_executor::io::UnixDatagram;
use rast_executor::io::{PollDriver, TcpListener, TcpStream, UdpSocket};
use rast_executor::primitive::panics;
use rast_executor::timers::MonotonicClock;
use rast_executor::{Elapsed, LocalExecutor, Runtime, block_on, spawn, spawn_local, timeout};

fn runtime(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).watch(None);
    builder.build().expect("the system gives threads")
}

/// Echoes until the other end closes.
async fn echo(stream: TcpStream) {
    let mut bytes = vec![0; 16 << 10];
    loop {
        match stream.read(&mut bytes).await.unwrap() {
            0 => return,
            count => stream.write_all(&bytes[..count]).await.unwrap(),
        }
    }
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        spawn(echo(stream)).detach();
    }
}

#[test]
fn many_connections_echo_more_than_a_socket_holds() {
    for workers in [1, 2, 3] {
        let runtime = runtime(workers);
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = spawn(serve(listener));
            let clients: Vec<_> = (0..16_u8)
                .map(|n| {
                    spawn(async move {
                        let stream = Arc::new(TcpStream::connect(address).await.unwrap());
                        let writer = Arc::clone(&stream);
                        let data: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8 ^ n).collect();
                        let sent = data.clone();
                        let writing = spawn(async move {
                            writer.write_all(&sent).await.unwrap();
                            writer.shutdown(std::net::Shutdown::Write).unwrap();
                        });
                        let mut back = vec![0; data.len()];
                        stream.read_exact(&mut back).await.unwrap();
                        assert!(back == data);
                        assert_eq!(stream.read(&mut back).await.unwrap(), 0);
                        writing.await.unwrap();
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
            server.abort();
            assert!(server.await.unwrap_err().is_cancelled());
        });
    }
}

#[test]
fn one_byte_at_a_time_between_workers_that_sleep() {
    // Each turn puts a worker to sleep in the poll and wakes it through it.
    let runtime = runtime(2);
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(serve(listener)).detach();
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut byte = [0];
        for n in 0..3_000_u32 {
            stream.write_all(&[n as u8]).await.unwrap();
            stream.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte[0], n as u8);
        }
    });
}

#[test]
fn spawns_from_outside_reach_a_worker_that_sleeps_in_the_poll() {
    let runtime = runtime(1);
    for n in 0..5_000 {
        assert_eq!(
            runtime.block_on(runtime.spawn(async move { n })).unwrap(),
            n
        );
    }
}

#[test]
fn sockets_are_served_while_all_workers_are_busy() {
    let runtime = runtime(1);
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    let busy = runtime.spawn(async move {
        while !theirs.load(Ordering::Relaxed) {
            rast_executor::yield_now().await;
        }
    });
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(serve(listener)).detach();
        let stream = TcpStream::connect(address).await.unwrap();
        let mut bytes = [0; 4];
        stream.write_all(b"busy").await.unwrap();
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"busy");
    });
    stop.store(true, Ordering::Relaxed);
    runtime.block_on(busy).unwrap();
}

#[test]
fn errors_are_values_and_waits_may_be_given_up() {
    let runtime = runtime(2);
    runtime.block_on(async {
        // A port that nothing listens on.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut bytes = [0; 8];
        let waited = timeout(Duration::from_millis(1), socket.recv(&mut bytes)).await;
        assert!(matches!(waited, Err(Elapsed)));
        // The socket is as good as before.
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        other.connect(socket.local_addr().unwrap()).unwrap();
        other.send(b"late").await.unwrap();
        assert_eq!(socket.recv(&mut bytes).await.unwrap(), 4);
    });
    let outside = std::panic::catch_unwind(|| TcpListener::bind("127.0.0.1:0").is_ok());
    assert!(outside.is_err());
}

#[test]
fn a_wait_ends_when_the_runtime_does() {
    let runtime = runtime(1);
    let listener = runtime.block_on(async { TcpListener::bind("127.0.0.1:0").unwrap() });
    let waiting = std::thread::spawn(move || block_on(listener.accept()).map(drop));
    drop(runtime);
    let error = waiting.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("shut down"), "{error}");
}

/// Runs `client` with a connection to a server that echoes.
#[cfg(any(feature = "futures-io", feature = "tokio", feature = "hyper"))]
fn with_echo<F: Future<Output = ()>>(client: impl FnOnce(TcpStream) -> F) {
    runtime(1).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(serve(listener)).detach();
        client(TcpStream::connect(address).await.unwrap()).await;
    });
}

/// Writes by a trait from one and from two places, reads back, and closes.
#[cfg(any(feature = "futures-io", feature = "tokio", feature = "hyper"))]
macro_rules! by_traits {
    ($name:ident, $write:path, $close:ident, $read:expr) => {
        #[test]
        fn $name() {
            use std::future::poll_fn;
            use std::io::IoSlice;
            use $write as Write;

            with_echo(|mut stream| async move {
                let sent = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"tra")).await;
                assert_eq!(sent.unwrap(), 3);
                let two = [IoSlice::new(b"i"), IoSlice::new(b"ts")];
                let sent =
                    poll_fn(|cx| Write::poll_write_vectored(Pin::new(&mut stream), cx, &two));
                assert_eq!(sent.await.unwrap(), 3);
                poll_fn(|cx| Write::poll_flush(Pin::new(&mut stream), cx))
                    .await
                    .unwrap();
                let mut bytes = [0; 6];
                let mut filled = 0;
                while filled < 6 {
                    let rest = &mut bytes[filled..];
                    filled += poll_fn(|cx| $read(Pin::new(&mut stream), cx, &mut *rest))
                        .await
                        .unwrap();
                }
                assert_eq!(&bytes, b"traits");
                poll_fn(|cx| Write::$close(Pin::new(&mut stream), cx))
                    .await
                    .unwrap();
                assert_eq!(stream.read(&mut bytes).await.unwrap(), 0);
            });
        }
    };
}

#[cfg(feature = "futures-io")]
by_traits!(
    the_traits_of_futures_read_and_write,
    futures_io::AsyncWrite,
    poll_close,
    futures_io::AsyncRead::poll_read
);

#[cfg(feature = "tokio")]
by_traits!(
    the_traits_of_tokio_read_and_write,
    tokio::io::AsyncWrite,
    poll_shutdown,
    |stream: Pin<&mut TcpStream>, cx: &mut Context<'_>, bytes: &mut [u8]| {
        let mut buffer = tokio::io::ReadBuf::new(bytes);
        tokio::io::AsyncRead::poll_read(stream, cx, &mut buffer).map_ok(|()| buffer.filled().len())
    }
);

#[cfg(feature = "hyper")]
by_traits!(
    the_traits_of_hyper_read_and_write,
    hyper::rt::Write,
    poll_shutdown,
    |stream: Pin<&mut TcpStream>, cx: &mut Context<'_>, bytes: &mut [u8]| {
        let mut buffer = hyper::rt::ReadBuf::new(bytes);
        hyper::rt::Read::poll_read(stream, cx, buffer.unfilled()).map_ok(|()| buffer.filled().len())
    }
);

#[test]
fn an_end_that_was_reported_with_the_last_bytes_is_found() {
    // One edge may tell of both. The read that takes the bytes takes fewer than it could, after
    // which the next read waits for an edge, unless the end was reported.
    let runtime = runtime(1);
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for _ in 0..200 {
            let mut peer = std::net::TcpStream::connect(address).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let waiting = spawn(async move {
                let mut bytes = [0; 64];
                let mut counts = Vec::new();
                loop {
                    let count = stream.read(&mut bytes).await.unwrap();
                    counts.push(count);
                    if count == 0 {
                        return counts;
                    }
                }
            });
            std::io::Write::write_all(&mut peer, b"last").unwrap();
            drop(peer);
            assert_eq!(waiting.await.unwrap().iter().sum::<usize>(), 4);
        }
    });
}

/// Reads `first` and then `second`, which the peer has sent but which one read does not return
/// together.
#[cfg(any(target_os = "linux", target_os = "android"))]
macro_rules! reads_both {
    ($stream:expr, $first:expr, $second:expr) => {{
        // In so many turns the driver reports all edges. Only then do the reads begin.
        for _ in 0..1_000 {
            rast_executor::yield_now().await;
        }
        for expected in [$first, $second] {
            let mut bytes = [0; 64];
            let read = timeout(Duration::from_secs(10), $stream.read(&mut bytes));
            let count = read.await.expect("bytes are queued").unwrap();
            assert_eq!(&bytes[..count], expected);
        }
    }};
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn bytes_behind_an_urgent_byte_are_read() {
    let executor = LocalExecutor::with_driver(MonotonicClock::new(), PollDriver::new().unwrap());
    executor.run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = TcpStream::from_std(listener.accept().unwrap().0).unwrap();
        peer.write_all(b"before").unwrap();
        socket2::SockRef::from(&peer)
            .send_out_of_band(b"!")
            .unwrap();
        peer.write_all(b"behind").unwrap();
        reads_both!(stream, b"before", b"behind");
    });
}

#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    target_pointer_width = "64"
))]
#[test]
fn bytes_behind_a_message_with_a_descriptor_are_read() {
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    let executor = LocalExecutor::with_driver(MonotonicClock::new(), PollDriver::new().unwrap());
    executor.run(async {
        let (mut peer, stream) = std::os::unix::net::UnixStream::pair().unwrap();
        let stream = rast_executor::io::UnixStream::from_std(stream).unwrap();
        // A header with its length, and a descriptor, padded to a word.
        let mut control = Vec::from(20_u64.to_ne_bytes());
        let words = [SOL_SOCKET, SCM_RIGHTS, peer.as_raw_fd(), 0];
        control.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        let bytes = [std::io::IoSlice::new(b"before")];
        let message = socket2::MsgHdr::new().with_buffers(&bytes);
        let message = message.with_control(&control);
        let sent = socket2::SockRef::from(&peer).sendmsg(&message, 0);
        assert_eq!(sent.unwrap(), 6);
        peer.write_all(b"behind").unwrap();
        reads_both!(stream, b"before", b"behind");
    });
}

/// A system call takes at most 1024 slices, so it may write less than there is space for.
#[cfg(feature = "futures-io")]
#[test]
fn slices_that_one_call_does_not_take_are_written_by_the_next() {
    use futures_io::AsyncWrite;
    use std::io::IoSlice;

    let executor = LocalExecutor::with_driver(MonotonicClock::new(), PollDriver::new().unwrap());
    executor.run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut stream = TcpStream::from_std(listener.accept().unwrap().0).unwrap();
        // In so many turns the driver reports that there is space, and does not report it again.
        for _ in 0..1_000 {
            rast_executor::yield_now().await;
        }
        let mut slices = &[IoSlice::new(b"."); 5_000][..];
        while !slices.is_empty() {
            let mut cx = Context::from_waker(Waker::noop());
            let written = Pin::new(&mut stream).poll_write_vectored(&mut cx, slices);
            let Poll::Ready(count) = written else {
                panic!("{} slices wait, although there is space", slices.len());
            };
            slices = &slices[count.unwrap()..];
        }
        drop(peer);
    });
}

#[cfg(unix)]
#[test]
fn datagrams_of_the_unix_domain_keep_their_bounds() {
    let path = std::env::temp_dir().join(format!("rast-executor-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    runtime(1).block_on(async {
        let server = UnixDatagram::bind(&path).unwrap();
        let client = UnixDatagram::unbound().unwrap();
        client.send_to(b"one", &path).await.unwrap();
        client.connect(&path).unwrap();
        client.send(b"two").await.unwrap();
        let mut bytes = [0; 16];
        let (count, from) = server.recv_from(&mut bytes).await.unwrap();
        assert!(&bytes[..count] == b"one" && from.is_unnamed());
        assert_eq!(server.recv(&mut bytes[..2]).await.unwrap(), 2);
        assert_eq!(&bytes[..2], b"tw");
        let waited = timeout(Duration::from_millis(1), server.recv(&mut bytes)).await;
        assert!(matches!(waited, Err(Elapsed)));
    });
    std::fs::remove_file(&path).unwrap();
    let refused = runtime(1).block_on(async {
        let client = UnixDatagram::unbound().unwrap();
        client.send_to(b"none", &path).await.unwrap_err()
    });
    assert_eq!(refused.kind(), ErrorKind::NotFound);
}

#[test]
fn a_socket_keeps_no_waker_of_a_future_that_was_given_up() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let socket = runtime.block_on(async { Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()) });
    for _ in 0..100 {
        let socket = Arc::clone(&socket);
        let task = runtime.spawn(async move {
            let received = timeout(Duration::ZERO, socket.recv(&mut [0; 8])).await;
            assert!(received.is_err());
        });
        runtime.block_on(task).unwrap();
    }
    let held = format!("{socket:?}").matches("Waker {").count();
    assert!(held < 2, "{held} wakers of tasks that have ended");
}

#[test]
fn a_local_executor_polls_sockets_and_is_woken_from_outside() {
    let executor = LocalExecutor::with_driver(MonotonicClock::new(), PollDriver::new().unwrap());
    let remote = executor.remote();
    let calls = std::thread::spawn(move || {
        for n in 0..1000_u32 {
            let answer = block_on(remote.spawn(move || async move { n + 1 }));
            assert_eq!(answer.unwrap(), n + 1);
        }
    });
    executor.run(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = spawn_local(async move { echo(listener.accept().await.unwrap().0).await });
        let stream = TcpStream::connect(address).await.unwrap();
        let mut n = 0_u64;
        while !calls.is_finished() || n < 1000 {
            n += 1;
            stream.write_all(&n.to_le_bytes()).await.unwrap();
            let mut bytes = [0; 8];
            stream.read_exact(&mut bytes).await.unwrap();
            assert_eq!(u64::from_le_bytes(bytes), n);
        }
        drop(stream);
        server.await.unwrap();
    });
    calls.join().unwrap();
}

#[test]
fn a_socket_that_outlives_its_local_executor_fails() {
    let executor = LocalExecutor::with_driver(MonotonicClock::new(), PollDriver::new().unwrap());
    let socket = executor.run(async { UdpSocket::bind("127.0.0.1:0").unwrap() });
    drop(executor);
    assert_eq!(
        block_on(socket.recv(&mut [0; 8])).unwrap_err().kind(),
        ErrorKind::Other
    );
}

#[test]
fn a_local_executor_without_a_poll_refuses_sockets() {
    let refused = std::panic::catch_unwind(|| {
        LocalExecutor::new().run(async { UdpSocket::bind("127.0.0.1:0").is_ok() })
    });
    let payload = refused.unwrap_err();
    assert!(
        payload
            .downcast_ref::<&str>()
            .unwrap()
            .contains("PollDriver")
    );
}

#[test]
fn read_with_reads_by_a_call_of_the_user() {
    runtime(1).block_on(async {
        let (a, b) = rast_executor::io::UnixStream::pair().unwrap();
        let task = spawn(async move {
            let mut bytes = [0; 16];
            let mut calls = 0;
            let read = b.read_with(16, || {
                calls += 1;
                if calls == 1 {
                    return Err(ErrorKind::Interrupted.into());
                }
                let fd = std::os::fd::AsFd::as_fd(&b).try_clone_to_owned()?;
                std::io::Read::read(&mut std::fs::File::from(fd), &mut bytes)
            });
            let count = read.await.unwrap();
            bytes[..count].to_vec()
        });
        a.write_all(b"hello").await.unwrap();
        assert_eq!(task.await.unwrap(), b"hello");
    });
}

/// A waker that panics when it is dropped.
struct Loud(Arc<AtomicUsize>);

impl Wake for Loud {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Loud {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("this waker is dropped loudly");
    }
}

/// A future that is forgotten leaves its waker in the list of its socket.
#[test]
fn wakers_that_are_left_at_a_socket_may_all_panic_when_they_are_dropped() {
    const FUTURES: usize = 3;
    let drops = Arc::new(AtomicUsize::new(0));
    runtime(1).block_on(async {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..FUTURES {
            let waker = Waker::from(Arc::new(Loud(Arc::clone(&drops))));
            let mut bytes = [0; 1];
            let mut receive = Box::pin(socket.recv_from(&mut bytes));
            let polled = receive.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            std::mem::forget(receive);
        }
        let dropped = panics::contain(|| drop(socket));
        assert!(dropped.is_err());
    });
    assert_eq!(drops.load(Ordering::Relaxed), FUTURES);
}
