//! `kv` as a process: how many connections it takes, and when one of them makes room
//! for another.
#![cfg(unix)]

use std::net::TcpStream;
use std::time::Duration;

use crate::kv_support::{GUARD, Kv, Raw};
use socket2::SockRef;

fn served(raw: &mut Raw) {
    raw.send(b"PING\r\n");
    raw.expect("+PONG\r\n");
}

/// Closes a connection by a reset, as the end of a process with unread bytes does.
fn reset(raw: Raw) {
    let socket = SockRef::from(&raw.stream);
    socket
        .set_linger(Some(Duration::ZERO))
        .expect("a socket option");
}

#[test]
fn a_closed_connection_makes_room_at_once() {
    for threads in ["1", "2"] {
        let kv = Kv::start(&["--max-connections", "40", "--workers", threads]);
        for round in 0..30 {
            let mut all: Vec<Raw> = (0..40).map(|_| kv.connect()).collect();
            all.iter_mut().for_each(served);
            for raw in all {
                if round % 2 == 0 {
                    reset(raw);
                }
            }
        }
        let mut last: Vec<Raw> = (0..40).map(|_| kv.connect()).collect();
        last.iter_mut().for_each(served);
        let refused = kv.connect().rest();
        assert_eq!(refused, "-ERR max number of clients reached\r\n");
        last.pop();
        assert_eq!(kv.figure("rejected_connections"), 1);
    }
}

#[test]
fn a_connection_that_was_told_goodbye_makes_room_before_its_client_closes() {
    let kv = Kv::start(&["--max-connections", "4"]);
    let mut gone: Vec<Raw> = Vec::new();
    for _ in 0..20 {
        let mut four: Vec<Raw> = (0..4).map(|_| kv.connect()).collect();
        for raw in &mut four {
            raw.send(b"QUIT\r\n");
            assert_eq!(raw.rest(), "+OK\r\n");
        }
        gone.append(&mut four);
    }
    served(&mut kv.connect());
}

#[test]
fn many_idle_connections_are_kept_and_served() {
    let kv = Kv::start(&["--max-connections", "3000"]);
    let mut idle: Vec<Raw> = (0..400).map(|_| kv.connect()).collect();
    idle.iter_mut().for_each(served);
    assert_eq!(kv.figure("connected_clients"), 401);
}

/// A process that is stopped accepts nothing, so what connects waits in the queue.
#[cfg(target_os = "linux")]
#[test]
fn five_hundred_connections_wait_to_be_accepted() {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
    let most: usize = most
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(128);
    let kv = Kv::start(&[]);
    kv.signal("STOP");
    let mut waiting = Vec::new();
    for _ in 0..most.min(500) {
        // One that finds no room in the queue is not answered before its time is up.
        let stream = TcpStream::connect_timeout(&kv.address, GUARD / 6).expect("a place");
        stream
            .set_read_timeout(Some(GUARD))
            .expect("a socket option");
        waiting.push(Raw { stream });
    }
    kv.signal("CONT");
    waiting.iter_mut().for_each(served);
}
