//! Drops and ends at the worst moment: waits of a cycle, callers without credits, calls to a
//! reactor that stops, operations in flight.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rast_reactor::executor::block_on;
use rast_reactor::queue::Full;
use rast_reactor::{
    CallError, Deadlock, Lock, LockScope, reactor_task, spawn_local, try_reactor_task,
};

use crate::support::{block, builder, on, turn};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A chain of scopes, each of which holds a lock and waits for the next one. The middle of it is
/// dropped in its wait, with its guard: what would have closed the cycle is then no deadlock.
#[test]
fn a_scope_that_is_dropped_in_its_wait_breaks_the_chain() {
    const CHAIN: usize = 5;
    for dropped in 1..CHAIN {
        let locks: Rc<Vec<_>> = Rc::new((0..=CHAIN).map(|_| Lock::new(())).collect());
        let mut waits: Vec<_> = (0..CHAIN)
            .map(|n| {
                let locks = Rc::clone(&locks);
                Some(Box::pin(async move {
                    let mut scope = LockScope::new();
                    let _held = locks[n].exclusive(&mut scope).await?;
                    yield_once().await;
                    let _next = locks[n + 1].exclusive(&mut scope).await?;
                    Ok::<_, Deadlock>(())
                }))
            })
            .collect();
        // The last lock is held by a scope that will want the first one.
        let mut last = LockScope::new();
        let held = locks[CHAIN].try_exclusive(&mut last).unwrap();
        for _ in 0..2 {
            for wait in waits.iter_mut().flatten() {
                assert!(poll(wait.as_mut()).is_pending());
            }
        }
        let closes = Box::pin(locks[0].exclusive(&mut last));
        assert_eq!(block_on(closes).err(), Some(Deadlock));
        assert!(last.is_deadlocked());
        waits[dropped] = None;
        // The ones before the gap end; the last one waits for the first lock without a cycle.
        let mut waits_too = Box::pin(locks[0].exclusive(&mut last));
        assert!(matches!(poll(waits_too.as_mut()), Poll::Pending));
        for wait in waits[..dropped].iter_mut().rev().flatten() {
            assert_eq!(poll(wait.as_mut()), Poll::Ready(Ok(())));
        }
        let first = poll(waits_too.as_mut());
        assert!(matches!(first, Poll::Ready(Ok(_))), "dropped {dropped}");
        drop((first, waits_too, held));
        for wait in waits[dropped..].iter_mut().rev().flatten() {
            assert_eq!(poll(wait.as_mut()), Poll::Ready(Ok(())));
        }
        for lock in &*locks {
            assert!(lock.try_exclusive(&mut LockScope::new()).is_some());
        }
    }
}

/// Ready at its second poll.
fn yield_once() -> impl Future<Output = ()> {
    let is_second = Cell::new(false);
    std::future::poll_fn(move |_| {
        if is_second.replace(true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
}

/// More callers than credits wait for a reactor that is held; half of those that wait and half of
/// those that have called are dropped. The others are all answered, and every credit is back.
#[test]
fn callers_that_are_dropped_without_a_credit_take_none_with_them() {
    const CALLERS: usize = 3 * 1024;
    let reactors = builder(2).build().unwrap();
    let release = block(&reactors, 1);
    on(&reactors, 0, move || async move {
        let ran = Arc::new(AtomicUsize::new(0));
        let calls: Vec<_> = (0..CALLERS)
            .map(|_| {
                let ran = Arc::clone(&ran);
                spawn_local(reactor_task(1, move || async move {
                    ran.fetch_add(1, Ordering::Relaxed);
                }))
            })
            .collect();
        turn().await;
        assert!(matches!(try_reactor_task(1, || async {}), Err(Full(_))));
        let mut kept = Vec::new();
        for (n, call) in calls.into_iter().enumerate() {
            if n % 2 == 0 {
                call.abort();
            } else {
                kept.push(call);
            }
        }
        turn().await;
        drop(release);
        let expected = kept.len();
        for call in kept {
            call.await.unwrap().unwrap();
        }
        assert_eq!(ran.load(Ordering::Relaxed), expected);
        // Every credit is back: so many calls start without a wait.
        reactor_task(1, || async {}).await.unwrap();
        let calls: Vec<_> = (0..1024)
            .map(|_| {
                try_reactor_task(1, || async {}).unwrap_or_else(|_| panic!("a credit is lost"))
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
    });
}

/// Callers wait for credits of a reactor that stops in a poll: they are told so, or dropped with
/// their reactor, and the closures are each dropped once.
#[test]
fn callers_without_credits_end_with_a_reactor_that_stops() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    const CALLERS: usize = 2 * 1024 + 7;
    let reactors = builder(2).build().unwrap();
    let release = block(&reactors, 1);
    let dropped = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&dropped);
    on(&reactors, 0, move || async move {
        for _ in 0..CALLERS {
            let counts = Counts(Arc::clone(&theirs));
            let call = reactor_task(1, move || async move {
                let _counts = counts;
                std::future::pending::<()>().await;
            });
            spawn_local(async move {
                assert!(matches!(call.await, Err(CallError::Stopped)));
            })
            .detach();
        }
        turn().await;
    });
    let stops = std::thread::spawn(move || reactors.stop(Duration::ZERO));
    drop(release);
    let _ = stops.join().unwrap();
    // The stop may return before a reactor that was in a poll has dropped its tasks.
    while dropped.load(Ordering::Relaxed) < CALLERS {
        std::thread::yield_now();
    }
    assert_eq!(dropped.load(Ordering::Relaxed), CALLERS);
}

/// Reads in flight are dropped with the stream, the peer, or alone, in every order, while bytes
/// arrive; the buffers are dropped once, and the reactor serves others all the time.
#[cfg(feature = "io")]
#[test]
fn reads_that_are_dropped_in_flight_return_their_buffers() {
    use rast_reactor::executor::yield_now;
    use rast_reactor::io::{TcpListener, TcpStream};

    const ROUNDS: usize = 200;
    let reactors = builder(1).build().unwrap();
    on(&reactors, 0, || async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for round in 0..ROUNDS {
            let connects = TcpStream::connect(address);
            let peer = connects.await.unwrap();
            let stream = listener.accept().await.unwrap();
            let mut read = Box::pin(stream.read(vec![0; 4096]));
            assert!(poll(read.as_mut()).is_pending());
            let mut chunk = Box::pin(peer.chunk());
            assert!(poll(chunk.as_mut()).is_pending());
            if round % 2 == 0 {
                yield_now().await;
            }
            if round % 3 != 0 {
                let other = spawn_local({
                    let peer = std::net::TcpStream::connect(address).unwrap();
                    async move { drop(peer) }
                });
                drop(listener.accept().await.unwrap());
                other.await.unwrap();
            }
            drop(read);
            drop(chunk);
            if round % 5 == 0 {
                drop(stream);
                drop(peer);
            } else {
                drop(peer);
                // The end of the stream is found by the read after the dropped one.
                let (read, _) = stream.read(vec![0; 16]).await;
                assert_eq!(read.unwrap(), 0);
            }
        }
    });
    assert!(reactors.stop(crate::support::LONG).is_clean());
}
