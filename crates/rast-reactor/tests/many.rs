//! 10,000 connections that are held open, and an echo over each of them. When they are closed, what
//! the server has allocated for them is freed.
//!
//! The clients are another process, because a process seldom may have 20,000 descriptors. Where the
//! limit is below 10,000 and some, as many connections are held as it allows, and the test prints
//! how many.
#![cfg(all(
    feature = "io",
    target_os = "linux",
    not(any(rast_loom, rast_shuttle, rast_global_alloc))
))]

#[path = "support/bytes.rs"]
mod bytes;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use bytes::Bytes;
use rast_reactor::io::{Backend, ListenerGroup, Watermarks};
use rast_reactor::{BuildError, Reactors, spawn_local};
use support::{LONG, builder, on, turn};

#[global_allocator]
static ALLOCATOR: Bytes = Bytes;

/// Names the server's address and the number of connections to the process of the clients.
const CLIENTS: &str = "RAST_MANY_CLIENTS";
const CONNECTIONS: usize = 10_000;
/// Descriptors for other things.
const SPARE: usize = 200;
/// Connections that come first, so that what is made once is there.
const FIRST: usize = 16;
/// Bytes that may be left: tables of some hundreds of places, and of the executor's poll 16 for
/// each socket that it ever had at once.
const LEFT: usize = 512 << 10;

/// Raises the limit of descriptors as far as the system allows; returns the limit.
fn raise_limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the value is writable and of the right type.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(got, 0);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the value is of the right type.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0);
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

fn message(number: usize) -> [u8; 64] {
    let number = (number as u64).to_le_bytes();
    std::array::from_fn(|at| number[at % 8])
}

/// Holds all connections open, and has each echo twice, in opposite orders.
fn hold(address: SocketAddr, number: usize) {
    raise_limit();
    let connect = |_| {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    };
    let mut clients: Vec<_> = (0..number).map(connect).collect();
    let mut echo = |client: usize, number: usize| {
        let client = &mut clients[client];
        client.write_all(&message(number)).unwrap();
        let mut back = [0; 64];
        client.read_exact(&mut back).unwrap();
        assert_eq!(back, message(number));
    };
    for client in 0..number {
        echo(client, client);
    }
    for client in (0..number).rev() {
        echo(client, number + client);
    }
}

/// Waits until each reactor has only the task that accepts, and has ended its turn.
fn close(reactors: &Reactors) {
    for reactor in 0..2 {
        while reactors.tasks(reactor).unwrap() > 1 {
            on(reactors, reactor, turn);
        }
        on(reactors, reactor, turn);
    }
}

#[test]
fn connections_are_held_and_echo() {
    if let Ok(asked) = std::env::var(CLIENTS) {
        let (address, number) = asked.split_once(' ').unwrap();
        return hold(address.parse().unwrap(), number.parse().unwrap());
    }
    let limit = raise_limit();
    let number = CONNECTIONS.min(limit.saturating_sub(SPARE));
    println!("{number} connections; the limit is {limit} descriptors");
    for backend in [Backend::Uring, Backend::Readiness] {
        let reactors = match builder(2).backend(backend).build() {
            Ok(reactors) => reactors,
            Err(BuildError::Io(error)) if backend == Backend::Uring => {
                println!("not run: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let marks = Watermarks {
            low: 9 * CONNECTIONS,
            high: 10 * CONNECTIONS,
        };
        let group = ListenerGroup::bind("127.0.0.1:0".parse().unwrap(), marks).unwrap();
        let servers: Vec<_> = (0..2)
            .filter_map(|index| {
                let group = group.clone();
                // Made before a client connects.
                on(&reactors, index, move || async move {
                    let listener = group.listener().unwrap();
                    Some(spawn_local(async move {
                        let requests = listener.requests();
                        loop {
                            let stream = listener.accept().await.unwrap();
                            let active = requests.begin();
                            let connection = spawn_local(async move {
                                while let Some(chunk) = stream.chunk().await.unwrap() {
                                    stream.write_all(chunk).await.0.unwrap();
                                }
                                drop(active);
                            });
                            connection.detach();
                        }
                    }))
                })
            })
            .collect();
        let clients = |number: usize| {
            let asked = format!("{} {number}", group.local_addr());
            let clients = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "connections_are_held_and_echo"])
                .env(CLIENTS, asked)
                .status();
            assert!(clients.unwrap().success(), "{backend:?}");
            close(&reactors);
        };
        clients(FIRST);
        let before = Bytes::live();
        clients(number);
        let after = Bytes::live();
        assert!(after <= before + LEFT, "{backend:?}: {before}, {after}");
        // The tasks of the connections end at their ends, those that accept do not.
        for server in servers {
            server.abort();
        }
        assert!(reactors.stop(LONG).is_clean(), "{backend:?}");
    }
}
