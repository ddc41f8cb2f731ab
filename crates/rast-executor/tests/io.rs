//! Sockets: data arrives whole, waits end, and nothing hangs when the runtime is gone.
#![cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use rast_executor::io::{TcpListener, TcpStream, UdpSocket};
use rast_executor::{Elapsed, Runtime, block_on, spawn, timeout};

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
        while !theirs.load(std::sync::atomic::Ordering::Relaxed) {
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
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
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

#[cfg(feature = "futures-io")]
#[test]
fn the_traits_of_futures_read_and_write() {
    use futures_io::{AsyncRead, AsyncWrite};
    use std::future::poll_fn;
    use std::pin::Pin;

    runtime(1).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(serve(listener)).detach();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let sent = poll_fn(|cx| AsyncWrite::poll_write(Pin::new(&mut stream), cx, b"traits")).await;
        assert_eq!(sent.unwrap(), 6);
        let mut bytes = [0; 6];
        let mut filled = 0;
        while filled < 6 {
            let rest = &mut bytes[filled..];
            filled += poll_fn(|cx| AsyncRead::poll_read(Pin::new(&mut stream), cx, rest))
                .await
                .unwrap();
        }
        assert_eq!(&bytes, b"traits");
        poll_fn(|cx| AsyncWrite::poll_close(Pin::new(&mut stream), cx))
            .await
            .unwrap();
    });
}

#[cfg(feature = "tokio")]
#[test]
fn the_traits_of_tokio_read_and_write() {
    use std::future::poll_fn;
    use std::pin::Pin;
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    runtime(1).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(serve(listener)).detach();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let sent = poll_fn(|cx| AsyncWrite::poll_write(Pin::new(&mut stream), cx, b"traits")).await;
        assert_eq!(sent.unwrap(), 6);
        let mut bytes = [0; 6];
        let mut buffer = ReadBuf::new(&mut bytes);
        while buffer.remaining() > 0 {
            poll_fn(|cx| AsyncRead::poll_read(Pin::new(&mut stream), cx, &mut buffer))
                .await
                .unwrap();
        }
        assert_eq!(buffer.filled(), b"traits");
    });
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
