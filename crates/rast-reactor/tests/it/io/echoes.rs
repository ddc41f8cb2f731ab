//! Bytes arrive whole: many connections, few buffers, faults on purpose.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::Duration;

use rast_reactor::executor::{block_on, timeout, yield_now};
use rast_reactor::io::{Backend, Chunk, Faults, TcpListener, TcpStream};
use rast_reactor::{BuildError, spawn_local};

use super::{
    build, builder, data, echo, echo_chunks, echoes, on_both, poll_once, run_on, tcp_pair,
};

#[test]
fn auto_takes_a_backend_and_says_why() {
    let reactors = builder().backend(Backend::Auto).build().unwrap();
    let chosen = reactors.backend(0).unwrap();
    assert!(matches!(
        chosen.backend,
        Backend::Uring | Backend::Readiness
    ));
    assert!(!chosen.why.is_empty(), "{chosen}");
    assert!(reactors.backend(1).is_none());
    println!("{chosen}");
    let forced = builder().backend(Backend::Readiness).build().unwrap();
    assert_eq!(forced.backend(0).unwrap().backend, Backend::Readiness);
}

#[test]
fn buffers_of_receives_are_a_power_of_two() {
    for (number, bytes) in [(0, 4096), (3, 4096), (4, 0), (4, (1 << 28) + 1)] {
        let built = builder().chunks(number, bytes).build();
        assert!(
            matches!(built, Err(BuildError::Chunks)),
            "{number} of {bytes}"
        );
    }
}

#[test]
fn connections_echo_more_than_a_socket_holds() {
    on_both(builder, || echoes(16, 300_000, false));
}

#[test]
fn connections_echo_by_chunks() {
    on_both(builder, || echoes(16, 300_000, true));
}

#[test]
fn more_connections_than_buffers_echo_by_chunks() {
    on_both(|| builder().chunks(2, 512), || echoes(16, 50_000, true));
}

#[test]
fn echoes_survive_short_operations_and_interruptions() {
    for seed in 1..4 {
        let faults = move || {
            let faults = Faults::seeded(seed).short(400).interrupted(200);
            builder()
                .chunks(4, 512)
                .faults(faults.no_buffers(200).cancelled(200))
        };
        on_both(faults, || echoes(4, 40_000, false));
        on_both(faults, || echoes(4, 40_000, true));
    }
}

#[test]
fn echoes_survive_completions_that_overflow() {
    let few = || {
        builder()
            .chunks(64, 512)
            .faults(Faults::seeded(1).entries(2))
    };
    on_both(few, || async {
        echoes(64, 5_000, true).await;
        echoes(64, 5_000, false).await;
        #[cfg(target_os = "linux")]
        if let Some((overflows, _)) = rast_reactor::parts::ring_counts() {
            assert!(overflows > 0, "a queue of four completions overflows");
        }
    });
}

#[test]
fn a_reset_is_an_error_that_returns_the_buffer() {
    on_both(
        || builder().faults(Faults::seeded(3).reset(1000)),
        || async {
            let (a, _b) = tcp_pair().await;
            let (read, buffer) = a.read(Vec::with_capacity(7)).await;
            assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
            assert_eq!(buffer.capacity(), 7);
            let (written, buffer) = a.write_all(vec![1, 2]).await;
            assert_eq!(written.unwrap_err().kind(), ErrorKind::ConnectionReset);
            assert_eq!(buffer, [1, 2]);
        },
    );
}

#[test]
fn a_reset_of_the_other_end_is_an_error() {
    on_both(builder, || async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().await.unwrap();
        stream.write_all("unread").await.0.unwrap();
        // A close with bytes that were not read resets the connection.
        drop(peer);
        let error = loop {
            match stream.read(Vec::with_capacity(8)).await.0 {
                Ok(0) => yield_now().await,
                Ok(_) => panic!("nothing was sent"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_refused_connection_is_an_error() {
    on_both(builder, || async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let refused = TcpStream::connect(address).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_task_that_keeps_all_chunks_delays_no_other() {
    on_both(
        || builder().chunks(4, 64),
        || async {
            let (a, b) = tcp_pair().await;
            let mut kept: Vec<Chunk> = Vec::new();
            let sent = data(64 * 64, 3);
            let copy = sent.clone();
            let writer = spawn_local(async move { b.write_all(copy).await.0.unwrap() });
            let mut len = 0;
            while len < sent.len() {
                kept.extend(a.chunk().await.unwrap());
                len = kept.iter().map(|chunk| chunk.len()).sum();
            }
            assert!(kept.iter().flat_map(|chunk| chunk.to_vec()).eq(sent));
            writer.await.unwrap();
            echoes(4, 1000, true).await;
            drop(kept);
            echoes(4, 1000, true).await;
        },
    );
}

#[test]
fn a_chunk_outlives_its_stream_and_its_reactor() {
    for backend in [Backend::Uring, Backend::Readiness] {
        let Some(reactors) = build(builder(), backend) else {
            continue;
        };
        run_on(&reactors, || async {
            thread_local!(static KEPT: RefCell<Option<Chunk>> = const { RefCell::new(None) });
            let (a, b) = tcp_pair().await;
            b.write_all("kept").await.0.unwrap();
            let chunk = a.chunk().await.unwrap();
            drop((a, b));
            assert_eq!(chunk.as_deref(), Some(&b"kept"[..]));
            KEPT.with(|kept| *kept.borrow_mut() = chunk);
        });
        assert!(reactors.stop(Duration::from_secs(60)).is_clean());
    }
}

#[test]
fn a_busy_reactor_serves_its_sockets() {
    on_both(builder, || async {
        let is_over = Rc::new(Cell::new(false));
        let burner = spawn_local({
            let is_over = Rc::clone(&is_over);
            async move {
                while !is_over.get() {
                    yield_now().await;
                }
            }
        });
        echoes(4, 20_000, false).await;
        echoes(4, 20_000, true).await;
        is_over.set(true);
        burner.await.unwrap();
    });
}

#[test]
fn wake_ups_from_other_threads_reach_a_reactor_that_waits_for_sockets() {
    for backend in [Backend::Uring, Backend::Readiness] {
        let Some(reactors) = build(builder(), backend) else {
            continue;
        };
        let reactor = reactors.reactor(0).unwrap();
        let waits = reactor.spawn(|| async {
            let (a, _b) = tcp_pair().await;
            let _ = a.read(Vec::with_capacity(8)).await;
        });
        for n in 0..2000 {
            assert_eq!(
                block_on(reactor.spawn(move || async move { n })).unwrap(),
                n
            );
        }
        waits.abort();
        assert!(block_on(waits).is_err());
        assert!(reactors.stop(Duration::from_secs(60)).is_clean());
    }
}

#[test]
fn a_timer_ends_a_wait_for_a_socket() {
    on_both(builder, || async {
        let (a, b) = tcp_pair().await;
        let waited = timeout(Duration::from_millis(5), a.read(Vec::with_capacity(8))).await;
        assert!(waited.is_err());
        b.write_all("late").await.0.unwrap();
        let (_, bytes) = a.read(Vec::with_capacity(8)).await;
        assert_eq!(bytes, b"late");
    });
}

#[test]
fn a_flood_of_small_chunks_is_taken_in_order() {
    on_both(
        || builder().chunks(512, 16),
        || async {
            let (a, b) = tcp_pair().await;
            b.set_nodelay(true).unwrap();
            assert!(poll_once(a.chunk()).await.is_none());
            let mut sent = Vec::new();
            for n in 0..700_usize {
                let part = data(n % 16 + 1, n);
                sent.extend_from_slice(&part);
                b.write_all(part).await.0.unwrap();
            }
            drop(b);
            let mut received = Vec::new();
            while let Some(chunk) = a.chunk().await.unwrap() {
                received.extend_from_slice(&chunk);
            }
            assert!(received == sent, "{} of {}", received.len(), sent.len());
        },
    );
}

#[test]
fn two_thousand_connections_are_served_at_once() {
    on_both(builder, || async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = spawn_local(async move {
            let mut incoming = listener.incoming();
            for n in 0..2000 {
                let stream = incoming.next().await.unwrap();
                if n % 2 == 0 {
                    spawn_local(echo_chunks(stream)).detach();
                } else {
                    spawn_local(echo(stream)).detach();
                }
            }
        });
        let mut streams = Vec::new();
        for _ in 0..2000 {
            streams.push(TcpStream::connect(address).await.unwrap());
        }
        server.await.unwrap();
        for round in 0..2_usize {
            for (n, stream) in streams.iter().enumerate() {
                stream.write_all(data(40, n + round)).await.0.unwrap();
            }
            for (n, stream) in streams.iter().enumerate() {
                let (read, bytes) = stream.read_exact(vec![0; 40]).await;
                read.unwrap();
                assert_eq!(bytes, data(40, n + round));
            }
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_request_of_one_connection_takes_two_calls_of_the_system() {
    use std::io::{Read, Write};
    const REQUESTS: u64 = 500;
    let Some(reactors) = build(builder(), Backend::Uring) else {
        return;
    };
    for by_chunks in [false, true] {
        let (sent, address) = std::sync::mpsc::channel();
        let server = reactors.reactor(0).unwrap().spawn(move || async move {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            sent.send(listener.local_addr().unwrap()).unwrap();
            let stream = listener.accept().await.unwrap();
            let calls = || rast_reactor::parts::ring_counts().unwrap().1;
            let before = calls();
            if by_chunks {
                echo_chunks(stream).await;
            } else {
                echo(stream).await;
            }
            calls() - before
        });
        let mut peer = std::net::TcpStream::connect(address.recv().unwrap()).unwrap();
        for _ in 0..REQUESTS {
            peer.write_all(&[7; 64]).unwrap();
            peer.read_exact(&mut [0; 64]).unwrap();
        }
        drop(peer);
        let calls = block_on(server).unwrap();
        println!("by chunks {by_chunks}: {calls} calls for {REQUESTS} requests");
        assert!(
            calls * 10 <= REQUESTS * 21,
            "{calls} calls for {REQUESTS} requests"
        );
    }
}
