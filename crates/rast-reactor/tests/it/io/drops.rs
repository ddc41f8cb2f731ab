//! Operations that are given up, and reactors that end while they are in flight.

use rast_reactor::primitive::Random;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::Read;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use rast_reactor::executor::{block_on, yield_now};
use rast_reactor::io::{Backend, Faults, TcpListener};
use rast_reactor::{Policy, background_task, spawn_local};

use super::{build, builder, data, echoes, on_both, poll_once, tcp_pair};
use crate::support::io::counted;

#[test]
fn a_read_that_is_dropped_loses_no_bytes() {
    on_both(builder, || async {
        let (a, b) = tcp_pair().await;
        let (sent, received) = (data(100_000, 1), RefCell::new(Vec::new()));
        let writer = spawn_local({
            let sent = sent.clone();
            async move {
                for part in sent.chunks(97) {
                    b.write_all(part.to_vec()).await.0.unwrap();
                    yield_now().await;
                }
                drop(b);
            }
        });
        // Each read is given up after so many polls.
        let mut polls = 0;
        loop {
            polls = (polls + 1) % 4;
            let read = async {
                let (count, bytes) = a.read(Vec::with_capacity(64)).await;
                if count.unwrap() == 0 {
                    return true;
                }
                received.borrow_mut().extend(bytes);
                false
            };
            let mut read = pin!(read);
            let mut is_over = false;
            for _ in 0..=polls {
                if let Some(end) = poll_once(read.as_mut()).await {
                    is_over = end;
                    break;
                }
                yield_now().await;
            }
            if is_over {
                break;
            }
        }
        assert!(received.into_inner() == sent);
        writer.await.unwrap();
    });
}

#[test]
fn reads_and_chunks_of_one_stream_keep_their_order() {
    on_both(
        || builder().chunks(4, 100),
        || async {
            let (a, b) = tcp_pair().await;
            let sent = data(20_000, 2);
            let copy = sent.clone();
            let writer = spawn_local(async move { b.write_all(copy).await.0.unwrap() });
            let mut received = Vec::new();
            for turn in 0_usize.. {
                let count = match turn % 4 {
                    0 => {
                        if let Some(Ok(Some(chunk))) = poll_once(a.chunk()).await {
                            received.extend_from_slice(&chunk);
                        }
                        continue;
                    }
                    1 => {
                        let _ =
                            poll_once(a.read(Vec::with_capacity(33)))
                                .await
                                .map(|(_, bytes)| {
                                    received.extend(bytes);
                                });
                        continue;
                    }
                    2 => {
                        let (count, bytes) = a.read(Vec::with_capacity(33)).await;
                        received.extend(bytes);
                        count.unwrap()
                    }
                    _ => match a.chunk().await.unwrap() {
                        Some(chunk) => {
                            received.extend_from_slice(&chunk);
                            chunk.len()
                        }
                        None => 0,
                    },
                };
                if count == 0 || received.len() == sent.len() {
                    break;
                }
            }
            assert!(received == sent, "{} of {}", received.len(), sent.len());
            writer.await.unwrap();
        },
    );
}

#[test]
fn a_dropped_read_keeps_its_buffer_and_then_drops_it() {
    on_both(builder, || async {
        let drops = Arc::new(AtomicUsize::new(0));
        let (a, b) = tcp_pair().await;
        for n in 0..100_usize {
            let counted = counted(4096, &drops, false);
            assert!(poll_once(a.read(counted)).await.is_none());
            if n % 3 == 0 {
                yield_now().await;
            }
        }
        drop((a, b));
        while drops.load(Ordering::Relaxed) < 100 {
            yield_now().await;
        }
        assert_eq!(drops.load(Ordering::Relaxed), 100);
    });
}

#[test]
fn a_reactor_that_stops_ends_operations_in_flight() {
    for backend in [Backend::Uring, Backend::Readiness] {
        let Some(reactors) = build(builder(), backend) else {
            continue;
        };
        let drops = Arc::new(AtomicUsize::new(0));
        let (theirs, started) = (Arc::clone(&drops), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&started);
        let task = reactors.reactor(0).unwrap().spawn(move || async move {
            let (a, b) = tcp_pair().await;
            let (a, b) = (Rc::new(a), Rc::new(b));
            for n in 0..50 {
                let stream = Rc::clone(if n % 2 == 0 { &a } else { &b });
                let counted = counted(1 << 16, &theirs, false);
                let count = Arc::clone(&count);
                spawn_local(async move {
                    count.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.read(counted).await;
                })
                .detach();
            }
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let _ = poll_once(listener.incoming().next()).await;
            let (c, _d) = tcp_pair().await;
            let _ = poll_once(c.chunk()).await;
            let _ = listener.accept().await;
        });
        while started.load(Ordering::Relaxed) < 50 {
            std::thread::yield_now();
        }
        let _ = reactors.stop(Duration::ZERO);
        // A reactor whose thread is preempted counts as blocked, and ends later.
        while drops.load(Ordering::Relaxed) < 50 {
            std::thread::yield_now();
        }
        assert_eq!(drops.load(Ordering::Relaxed), 50, "{backend:?}");
        assert!(block_on(task).is_err());
    }
}

#[test]
fn a_number_that_is_closed_serves_no_older_operation() {
    on_both(builder, || async {
        for _ in 0..200 {
            let (a, b) = tcp_pair().await;
            // Begun, not submitted; then the number is free for the next pair.
            assert!(poll_once(a.read(Vec::with_capacity(64))).await.is_none());
            drop((a, b));
            let (c, d) = tcp_pair().await;
            d.write_all("for c").await.0.unwrap();
            let (read, bytes) = c.read_exact(vec![0; 5]).await;
            read.unwrap();
            assert_eq!(bytes, b"for c");
        }
    });
}

#[test]
fn a_dropped_accept_leaks_no_connection() {
    on_both(builder, || async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(poll_once(listener.accept()).await.is_none());
        {
            let mut incoming = listener.incoming();
            assert!(poll_once(incoming.next()).await.is_none());
        }
        let connect = || std::net::TcpStream::connect(address).unwrap();
        let mut peers: Vec<_> = (0..8).map(|_| connect()).collect();
        // The accept that was given up may have taken one; what the other one took is there.
        let mut served = Vec::new();
        for _ in 0..7 {
            served.push(listener.accept().await.unwrap());
        }
        drop((served, listener));
        let ends = background_task(Policy::Low, move || {
            for peer in &mut peers {
                // An end or a reset: neither waits.
                let _ = peer.read(&mut [0]);
            }
        });
        ends.unwrap_or_else(|_| panic!("it is full")).await.unwrap();
    });
}

#[test]
fn wakers_and_buffers_that_panic_do_no_harm() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }
    on_both(builder, || async {
        let (a, b) = tcp_pair().await;
        let waker = Waker::from(Arc::new(Panics));
        let mut read = Box::pin(a.read(Vec::with_capacity(8)));
        assert!(
            read.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        b.write_all("one").await.0.unwrap();
        let (count, bytes) = read.await;
        assert_eq!((count.unwrap(), bytes), (3, b"one".to_vec()));
        let drops = Arc::new(AtomicUsize::new(0));
        let counted = counted(8, &drops, true);
        let mut read = Box::pin(a.read(counted));
        assert!(poll_once(read.as_mut()).await.is_none());
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(read)));
        drop((a, dropped));
        while drops.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
        echoes(2, 1000, true).await;
    });
}

#[test]
fn random_operations_keep_every_byte() {
    // RAST_IO_SEEDS=N runs so many in place of six.
    let seeds = std::env::var("RAST_IO_SEEDS").map_or(6, |seeds| seeds.parse().unwrap());
    for seed in 1..=seeds {
        println!("seed {seed}");
        let faults = move || {
            let faults = Faults::seeded(seed)
                .short(300)
                .interrupted(150)
                .no_buffers(150);
            builder()
                .chunks(4, 128)
                .faults(faults.cancelled(150).entries(8))
        };
        on_both(faults, move || storm(seed));
    }
}

/// Pairs of streams with a writer and a reader each. Readers read, take chunks, and give up; what
/// arrives is what was sent, in order.
async fn storm(seed: u64) {
    let totals = Rc::new(RefCell::new(BTreeMap::new()));
    let mut tasks = Vec::new();
    for pair in 0..6_u64 {
        let (a, b) = tcp_pair().await;
        let sent = data(6000, pair as usize);
        let copy = sent.clone();
        let mut random = Random::new(seed * 1000 + pair);
        let mut of_writer = Random::new(random.draw());
        tasks.push(spawn_local(async move {
            let mut rest = &copy[..];
            while !rest.is_empty() {
                let (part, others) = rest.split_at((1 + of_writer.below(200)).min(rest.len()));
                b.write_all(part.to_vec()).await.0.unwrap();
                rest = others;
                if of_writer.below(16) == 0 {
                    yield_now().await;
                }
            }
        }));
        let totals = Rc::clone(&totals);
        tasks.push(spawn_local(async move {
            let mut received = Vec::new();
            loop {
                let (what, polls) = (random.below(2), random.below(5));
                let operation = async {
                    if what == 0 {
                        let (count, bytes) = a.read(Vec::with_capacity(100)).await;
                        count.unwrap();
                        bytes
                    } else {
                        a.chunk()
                            .await
                            .unwrap()
                            .map_or(Vec::new(), |chunk| chunk.to_vec())
                    }
                };
                let mut operation = pin!(operation);
                let mut done = None;
                for _ in 0..=polls {
                    done = poll_once(operation.as_mut()).await;
                    if done.is_some() {
                        break;
                    }
                    yield_now().await;
                }
                match done {
                    Some(bytes) if bytes.is_empty() => break,
                    Some(bytes) => received.extend(bytes),
                    None => {}
                }
            }
            assert!(received == sent, "{} of {}", received.len(), sent.len());
            totals.borrow_mut().insert(pair, received.len());
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(totals.borrow().len(), 6);
}
