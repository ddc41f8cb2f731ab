//! `kv` under clients that send garbage, half frames, or never read, and under signals: other
//! clients are still served, memory stays under the stated limits, and what was read is answered.
#![cfg(unix)]

use rast::primitive::Random;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::encode;
use crate::kv_support::{Kv, Raw, until};
use crate::load::{self, Board, Choice};
use crate::route::Router;

const MIB: u64 = 1 << 20;

/// What the README states for a server without clients and without keys.
const BASE: u64 = 32 * MIB;

/// Runs a client that checks every reply until `hostile` has returned.
fn with_a_checking_client(kv: &Kv, hostile: impl FnOnce()) {
    let board = Arc::new(Board::default());
    std::thread::scope(|scope| {
        let checking = {
            let board = Arc::clone(&board);
            let address = kv.address;
            scope.spawn(move || load::client(0, address, &Choice::zipf(1.0), &board, Router::new()))
        };
        hostile();
        board.stop.store(true, Ordering::Relaxed);
        let replies = checking.join().expect("the client ends");
        let replies = replies.expect("every reply of the other client is right");
        assert!(replies > 0);
    });
}

/// Writes until the other side closes or takes no more for a while.
fn push(stream: &mut TcpStream, bytes: &[u8]) {
    let patience = std::time::Duration::from_millis(300);
    stream
        .set_write_timeout(Some(patience))
        .expect("a socket option");
    // The server is expected to close, or to stop reading, in the middle of it.
    let _ = stream.write_all(bytes);
}

#[cfg(target_os = "linux")]
fn peak(kv: &Kv) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", kv.id()));
    let status = status.expect("the process stands");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("the peak of memory in kB") * 1024
}

#[cfg(not(target_os = "linux"))]
fn peak(_: &Kv) -> u64 {
    0
}

const LIMITS: [&str; 8] = [
    "--maxmemory",
    "32mb",
    "--max-buffers",
    "32mb",
    "--max-frame",
    "1mb",
    "--max-backlog",
    "2mb",
];

/// The limits above, with the base and a tenth for the allocator's own needs.
const CEILING: u64 = (32 * MIB + 32 * MIB) * 11 / 10 + BASE;

#[test]
fn an_idle_server_keeps_to_its_stated_base() {
    let kv = Kv::start(&LIMITS);
    kv.connect().send(b"PING\r\n");
    let peak = peak(&kv);
    assert!(peak < BASE, "{} MiB", peak / MIB);
}

#[test]
fn clients_that_never_read_are_closed_at_their_backlog() {
    let kv = Kv::start(&LIMITS);
    with_a_checking_client(&kv, || {
        let mut raw = kv.connect();
        raw.send(format!("SET big {}\r\n", "v".repeat(50_000)).as_bytes());
        raw.expect("+OK\r\n");
        let mut never: Vec<Raw> = (0..20).map(|_| kv.connect()).collect();
        let asks = "GET big\r\n".repeat(400);
        for raw in &mut never {
            push(&mut raw.stream, asks.as_bytes());
        }
        until("all of them are closed", || {
            kv.figure("client_output_buffer_limit_disconnections") == 20
        });
    });
    let peak = peak(&kv);
    assert!(peak < CEILING, "{} MiB", peak / MIB);
}

#[test]
fn half_frames_hold_no_more_than_the_buffers_limit() {
    let kv = Kv::start(&LIMITS);
    with_a_checking_client(&kv, || {
        let mut halves: Vec<Raw> = Vec::new();
        for _ in 0..100 {
            let mut raw = kv.connect();
            push(
                &mut raw.stream,
                b"*1000000\r\n$3\r\nSET\r\n$1\r\nk\r\n$900000\r\n",
            );
            push(&mut raw.stream, &vec![b'x'; 800_000]);
            halves.push(raw);
        }
        // 100 times 0.8 MB is past 32 MiB: some must have gone.
        until("the largest are closed", || {
            kv.figure("client_output_buffer_limit_disconnections") > 10
        });
        assert!(kv.figure("mem_clients_normal") <= 34 * MIB);
    });
    let peak = peak(&kv);
    assert!(peak < CEILING, "{} MiB", peak / MIB);
}

#[test]
fn small_connections_of_one_thread_do_not_pay_for_large_ones_of_another() {
    let kv = Kv::start(&[&LIMITS[..], &["--workers", "2"]].concat());
    // Connections go to the two threads in turn.
    let mut small: Vec<Raw> = Vec::new();
    let mut large: Vec<Raw> = Vec::new();
    for _ in 0..60 {
        small.push(kv.connect());
        let mut raw = kv.connect();
        push(&mut raw.stream, b"*2\r\n$4\r\nECHO\r\n$900000\r\n");
        push(&mut raw.stream, &vec![b'x'; 800_000]);
        large.push(raw);
        for raw in &mut small {
            raw.send(b"PING\r\n");
            raw.expect("+PONG\r\n");
        }
    }
    until("the largest are closed", || {
        kv.figure("client_output_buffer_limit_disconnections") > 10
    });
    assert!(kv.figure("mem_clients_normal") <= 34 * MIB);
}

#[test]
fn a_full_store_refuses_writes_and_serves_reads() {
    let kv = Kv::start(&LIMITS);
    let mut raw = kv.connect();
    let value = "v".repeat(10_000);
    let mut refused = 0;
    for number in 0..5000 {
        raw.send(format!("SET key:{number} {value}\r\n").as_bytes());
        match raw.line().as_str() {
            "+OK" => {}
            "-OOM command not allowed when used memory > 'maxmemory'." => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!((1000..4000).contains(&refused), "{refused}");
    raw.send(b"STRLEN key:0\r\nDEL key:0 key:1\r\nSET key:0 1\r\n");
    raw.expect(":10000\r\n:2\r\n+OK\r\n");
    assert!(kv.figure("used_memory") <= 32 * MIB);
    let peak = peak(&kv);
    assert!(peak < CEILING, "{} MiB", peak / MIB);
}

/// Values of changing sizes leave gaps between the allocator's blocks.
#[test]
fn values_of_random_sizes_keep_the_process_below_its_ceiling() {
    let kv = Kv::start(&["--maxmemory", "64mb", "--max-buffers", "8mb"]);
    let value = vec![b'v'; 64 << 10];
    let mut random = Random::new(0);
    let mut raw = kv.connect();
    let mut refused = 0;
    for _ in 0..10 {
        for batch in 0..120 {
            let mut sent = Vec::new();
            for number in 0..50 {
                let len = 16 + random.below(value.len() - 15);
                let key = format!("key:{}", batch * 50 + number);
                sent.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
                encode::bulk(&mut sent, key.as_bytes());
                encode::bulk(&mut sent, &value[..len]);
            }
            raw.send(&sent);
            for _ in 0..50 {
                refused += u64::from(raw.line().starts_with("-OOM"));
            }
        }
    }
    assert!(refused > 0, "the limit was never met");
    let peak = peak(&kv);
    assert!(peak < (64 + 8) * MIB * 11 / 10 + BASE, "{} MiB", peak / MIB);
    // What was given back makes room again.
    raw.send(b"FLUSHALL\r\n");
    raw.expect("+OK\r\n");
    until("writes are taken again", || {
        raw.send(b"SET key 123456789012345678901234567890\r\n");
        raw.line() == "+OK"
    });
}

#[test]
fn garbage_harms_nobody_else() {
    let kv = Kv::start(&LIMITS);
    with_a_checking_client(&kv, || {
        let mut random = Random::new(0);
        for _ in 0..200 {
            let mut bytes = Vec::new();
            for _ in 0..4000 {
                bytes.push(match random.below(6) {
                    0 => b"*$\r\n0123456789-"[random.below(15)],
                    _ => random.draw() as u8,
                });
            }
            let mut raw = kv.connect();
            push(&mut raw.stream, &bytes);
            // Leave at once, without reading: the server's writes may fail.
        }
        until("all of them are gone", || {
            kv.figure("connected_clients") <= 2
        });
    });
    let peak = peak(&kv);
    assert!(peak < CEILING, "{} MiB", peak / MIB);
}

/// Sends without end and reads until the server closes; returns the number of
/// replies, after checking that each is the right one and that none is cut.
fn stream_of_requests(raw: Raw, client: usize, progress: &AtomicU64) -> u64 {
    let mut reader = raw.stream;
    let mut writer = reader.try_clone().expect("a second handle");
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    let sender = std::thread::spawn(move || {
        let mut number = 0_u64;
        while !told.load(Ordering::Relaxed) {
            let mut batch = String::new();
            for _ in 0..50 {
                number += 1;
                batch.push_str(&format!("INCR n{client}\r\nECHO {number}\r\n"));
                batch.push_str(&format!("EXISTS n{client} a{client} b{client}\r\n"));
            }
            // The server stops reading, then closes: an error ends the load.
            if writer.write_all(batch.as_bytes()).is_err() {
                return;
            }
        }
    });
    let mut replies = 0;
    let mut waiting: Vec<u8> = Vec::new();
    let mut expected: Vec<u8> = Vec::new();
    let mut starts: Vec<usize> = Vec::new();
    let mut buffer = vec![0; 65536];
    let mut next = 0_u64;
    loop {
        let count = reader.read(&mut buffer).expect("the stream ends in order");
        waiting.extend_from_slice(&buffer[..count]);
        while expected.len() < waiting.len() {
            next += 1;
            starts.push(expected.len());
            encode::int(&mut expected, next as i64);
            starts.push(expected.len());
            encode::bulk(&mut expected, next.to_string().as_bytes());
            starts.push(expected.len());
            encode::int(&mut expected, 1);
        }
        assert!(
            expected.starts_with(&waiting),
            "client {client} got a wrong reply"
        );
        if count == 0 {
            let whole = starts.partition_point(|&start| start < waiting.len());
            let cut = starts.get(whole).copied().unwrap_or(expected.len()) != waiting.len();
            assert!(!cut, "client {client} got a part of a reply");
            replies += whole as u64;
            break;
        }
        // Forget what is checked, up to the last whole reply.
        let whole = starts.partition_point(|&start| start <= waiting.len()) - 1;
        let keep = starts[whole];
        replies += whole as u64;
        waiting.drain(..keep);
        expected.drain(..keep);
        starts.drain(..whole);
        starts.iter_mut().for_each(|start| *start -= keep);
        progress.fetch_max(replies, Ordering::Relaxed);
    }
    over.store(true, Ordering::Relaxed);
    drop(reader);
    sender.join().expect("the sender ends");
    replies
}

#[test]
fn sigterm_under_load_answers_every_parsed_frame() {
    for signal in ["TERM", "INT"] {
        let mut kv = Kv::start(&["--workers", "2", "--drain-ms", "60000"]);
        let progress: Vec<AtomicU64> = (0..6).map(|_| AtomicU64::new(0)).collect();
        let replies: u64 = std::thread::scope(|scope| {
            let clients: Vec<_> = progress
                .iter()
                .enumerate()
                .map(|(number, progress)| {
                    let raw = kv.connect();
                    scope.spawn(move || stream_of_requests(raw, number, progress))
                })
                .collect();
            until("the load runs", || {
                progress
                    .iter()
                    .all(|count| count.load(Ordering::Relaxed) > 1000)
            });
            kv.signal(signal);
            clients
                .into_iter()
                .map(|client| client.join().expect("a client ends"))
                .sum()
        });
        let (status, printed) = kv.wait();
        assert_eq!(status.code(), Some(0), "{printed}");
        let parsed: u64 = number_before(&printed, " commands from");
        assert_eq!(replies, parsed, "{printed}");
        assert_eq!(number_before(&printed, " cut off"), 0, "{printed}");
        assert!(number_before(&printed, " ms: ") < 60_000, "{printed}");
    }
}

/// The number in front of some words.
fn number_before(text: &str, words: &str) -> u64 {
    let before = text.split(words).next().unwrap_or_default();
    let number = before.rsplit(|c: char| !c.is_ascii_digit()).next();
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{words}: {text}"))
}

/// A client with more replies under way than the sockets' buffers hold.
fn stuck(kv: &Kv) -> Raw {
    let mut raw = kv.connect();
    let value = "v".repeat(1_000_000);
    raw.send(format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$1000000\r\n{value}\r\n").as_bytes());
    raw.expect("+OK\r\n");
    raw.send("GET big\r\n".repeat(14).as_bytes());
    until("the replies are under way", || {
        kv.figure("keyspace_hits") >= 14
    });
    raw
}

#[test]
fn a_client_that_never_reads_delays_the_end_to_its_deadline_at_most() {
    let mut kv = Kv::start(&["--drain-ms", "1000"]);
    let _stuck = stuck(&kv);
    kv.signal("TERM");
    let (status, printed) = kv.wait();
    assert_eq!(status.code(), Some(0), "{printed}");
    assert_eq!(number_before(&printed, " cut off"), 1, "{printed}");
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut kv = Kv::start(&["--drain-ms", "600000"]);
    let _stuck = stuck(&kv);
    kv.signal("TERM");
    until("the drain begins", || {
        TcpStream::connect(kv.address).is_err()
    });
    kv.signal("TERM");
    let (status, _) = kv.wait();
    assert_eq!(status.code(), Some(143));
}
