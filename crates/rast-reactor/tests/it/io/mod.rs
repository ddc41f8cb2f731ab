//! The conformance of both drivers: each test runs with io_uring and with readiness.
//!
//! Where the kernel refuses io_uring, its half of a test prints `not run` and why.
#![cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]

mod buffers;
mod drops;
mod echoes;
mod hostile;
mod large;
mod others;

use std::future::Future;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use rast_reactor::executor::block_on;
use rast_reactor::io::{Backend, TcpListener, TcpStream};
use rast_reactor::{Builder, Pool, Reactors, spawn_local};

use crate::support::io::{build, echo_chunks, poll_once};

fn builder() -> Builder {
    let pool = Pool::builder().threads([1, 0, 1]);
    Reactors::builder()
        .number(1)
        .pool(pool)
        .slow_poll(Duration::MAX)
}

/// Runs a test on reactor 0 with each backend.
fn on_both<F: Future<Output = ()> + 'static>(
    set_up: impl Fn() -> Builder,
    test: impl Fn() -> F + Send + Clone + 'static,
) {
    for backend in [Backend::Uring, Backend::Readiness] {
        let Some(reactors) = build(set_up(), backend) else {
            continue;
        };
        println!("{backend:?}");
        run_on(&reactors, test.clone());
        let stopped = reactors.stop(Duration::from_secs(60));
        assert!(stopped.is_clean(), "{backend:?}: {stopped:?}");
    }
}

fn run_on<F: Future<Output = ()> + 'static>(
    reactors: &Reactors,
    test: impl Fn() -> F + Send + 'static,
) {
    let task = reactors.reactor(0).unwrap().spawn(test);
    match block_on(task) {
        Ok(()) => {}
        Err(rast_reactor::CallError::Panicked(payload)) => std::panic::resume_unwind(payload),
        Err(error) => panic!("{error}"),
    }
}

async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    (client, listener.accept().await.unwrap())
}

/// Echoes by a buffer until the other end closes.
async fn echo(stream: TcpStream) {
    let mut buffer = Vec::with_capacity(8192);
    loop {
        let (read, bytes) = stream.read(buffer).await;
        if read.unwrap() == 0 {
            return;
        }
        let (written, bytes) = stream.write_all(bytes).await;
        written.unwrap();
        buffer = bytes;
    }
}

fn data(len: usize, key: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (n.wrapping_mul(31) % 251) as u8 ^ key as u8)
        .collect()
}

/// Clients that send data while they read it back.
async fn clients(address: std::net::SocketAddr, number: usize, len: usize) {
    let clients = (0..number).map(|key| {
        spawn_local(async move {
            let stream = Rc::new(TcpStream::connect(address).await.unwrap());
            let writer = Rc::clone(&stream);
            let writing = spawn_local(async move {
                writer.write_all(data(len, key)).await.0.unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let (read, back) = stream.read_exact(vec![0; len]).await;
            read.unwrap();
            assert!(back == data(len, key), "client {key}");
            let (end, _) = stream.read(Vec::with_capacity(8)).await;
            assert_eq!(end.unwrap(), 0);
            writing.await.unwrap();
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

/// A server that echoes `number` connections, and clients that check it.
async fn echoes(number: usize, len: usize, by_chunks: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = spawn_local(async move {
        let mut incoming = listener.incoming();
        let mut tasks = Vec::new();
        for _ in 0..number {
            let stream = incoming.next().await.unwrap();
            tasks.push(if by_chunks {
                spawn_local(echo_chunks(stream))
            } else {
                spawn_local(echo(stream))
            });
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    clients(address, number, len).await;
    server.await.unwrap();
}
