//! Counts allocations: after a warm-up, an echo makes none per request.
#![cfg(all(feature = "io", not(any(rast_loom, rast_shuttle, rast_global_alloc))))]

#[path = "support/io.rs"]
mod support;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;

use rast_reactor::executor::block_on;
use rast_reactor::io::{Backend, TcpListener, TcpStream};
use rast_reactor::primitive::CountingAlloc;
use rast_reactor::{Pool, Reactors, spawn_local};

use support::{build, echo_chunks};

#[global_allocator]
static ALLOCATOR: CountingAlloc = CountingAlloc;

/// Echoes. A request that begins with 255 is answered with the thread's count of allocations.
async fn echo(stream: TcpStream) {
    let mut buffer = Vec::with_capacity(64);
    loop {
        let (read, mut bytes) = stream.read(buffer).await;
        if read.unwrap() == 0 {
            return;
        }
        if bytes[0] == 255 {
            bytes.clear();
            bytes.extend_from_slice(&CountingAlloc::calls_of_thread().to_le_bytes());
        }
        let (written, bytes) = stream.write_all(bytes).await;
        written.unwrap();
        buffer = bytes;
    }
}

/// A request on each connection.
fn send(streams: &mut [std::net::TcpStream], n: usize) {
    for stream in streams {
        stream.write_all(&[n as u8 % 255; 64]).unwrap();
    }
}

/// The answer on each connection.
fn receive(streams: &mut [std::net::TcpStream], n: usize) {
    let mut bytes = [0; 64];
    for stream in streams {
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [n as u8 % 255; 64]);
    }
}

/// Rounds of a request on each connection, all sent before the first is read.
fn rounds(streams: &mut [std::net::TcpStream], number: usize) {
    for n in 0..number {
        send(streams, n);
        receive(streams, n);
    }
}

fn allocations(control: &mut std::net::TcpStream) -> u64 {
    control.write_all(&[255; 8]).unwrap();
    let mut bytes = [0; 8];
    control.read_exact(&mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn an_echo_allocates_nothing_per_request() {
    for (backend, by_chunks) in [
        (Backend::Uring, false),
        (Backend::Uring, true),
        (Backend::Readiness, false),
        (Backend::Readiness, true),
    ] {
        let builder = Reactors::builder().number(1).slow_poll(Duration::MAX);
        let builder = builder.pool(Pool::builder().threads([0, 0, 1]));
        let Some(reactors) = build(builder, backend) else {
            continue;
        };
        let address: SocketAddr =
            block_on(reactors.reactor(0).unwrap().spawn(move || async move {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap();
                spawn_local(async move {
                    for n in 0..9 {
                        let stream = listener.accept().await.unwrap();
                        if by_chunks && n != 0 {
                            spawn_local(echo_chunks(stream)).detach();
                        } else {
                            spawn_local(echo(stream)).detach();
                        }
                    }
                })
                .detach();
                address
            }))
            .unwrap();
        let connect = || std::net::TcpStream::connect(address).unwrap();
        let mut control = connect();
        allocations(&mut control);
        let mut streams: Vec<_> = (0..8).map(|_| connect()).collect();
        // Each look of the control is a request too.
        rounds(&mut streams, 200);
        // The most that can come at once: all requests, while the reactor is held.
        for _ in 0..10 {
            let ((begun, begins), (go, goes)) = (channel(), channel::<()>());
            let held = move || async move {
                begun.send(()).unwrap();
                goes.recv().unwrap();
            };
            reactors.reactor(0).unwrap().spawn(held).detach();
            begins.recv().unwrap();
            send(&mut streams, 0);
            go.send(()).unwrap();
            receive(&mut streams, 0);
        }
        allocations(&mut control);
        let before = allocations(&mut control);
        rounds(&mut streams, 500);
        let after = allocations(&mut control);
        println!("{backend:?}, by chunks {by_chunks}: {before} before, {after} after");
        assert_eq!(after, before, "{backend:?}, by chunks {by_chunks}");
        drop((control, streams));
        assert!(reactors.stop(Duration::from_secs(60)).is_clean());
    }
}
