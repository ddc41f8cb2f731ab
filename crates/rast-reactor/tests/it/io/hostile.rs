//! Futures that move between tasks, readers that share a stream, destructors that panic beside
//! operations in flight.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use rast_reactor::executor::yield_now;
use rast_reactor::io::{Backend, TcpListener};

use super::{build, builder, on_both, poll_once, run_on, tcp_pair};
use crate::support::io::counted;

/// A waker that does nothing; its references show what has it.
struct Idle;

impl Wake for Idle {
    fn wake(self: Arc<Self>) {}
}

/// Polls a future that is not ready, with a waker of its own; returns the waker.
fn polled_by_another(future: impl Future) -> Arc<Idle> {
    let idle = Arc::new(Idle);
    let waker = Waker::from(Arc::clone(&idle));
    assert!(
        pin!(future)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    idle
}

#[test]
fn a_future_that_is_gone_leaves_no_waker_behind() {
    on_both(builder, || async {
        let (a, b) = tcp_pair().await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut incoming = listener.incoming();
        for _ in 0..100 {
            assert_eq!(Arc::strong_count(&polled_by_another(a.chunk())), 1);
            assert_eq!(Arc::strong_count(&polled_by_another(incoming.next())), 1);
            assert_eq!(Arc::strong_count(&polled_by_another(listener.accept())), 1);
        }
        b.write_all("still").await.0.unwrap();
        assert_eq!(a.chunk().await.unwrap().as_deref(), Some(&b"still"[..]));
    });
}

#[test]
fn a_future_that_moves_to_another_task_leaves_no_waker_behind() {
    on_both(builder, || async {
        let (a, b) = tcp_pair().await;
        let mut read = Box::pin(a.read(Vec::with_capacity(8)));
        for _ in 0..100 {
            let idle = polled_by_another(read.as_mut());
            assert!(poll_once(read.as_mut()).await.is_none());
            assert_eq!(Arc::strong_count(&idle), 1);
        }
        b.write_all("moved").await.0.unwrap();
        let (count, bytes) = read.await;
        assert_eq!((count.unwrap(), bytes), (5, b"moved".to_vec()));
    });
}

#[test]
fn a_future_that_is_dropped_leaves_the_others_of_its_task_awake() {
    on_both(builder, || async {
        let (a, b) = tcp_pair().await;
        let mut chunk = Box::pin(a.chunk());
        assert!(poll_once(chunk.as_mut()).await.is_none());
        assert!(poll_once(a.chunk()).await.is_none());
        rast_reactor::spawn_local(async move { b.write_all("one").await.0.unwrap() }).detach();
        assert_eq!(chunk.await.unwrap().as_deref(), Some(&b"one"[..]));
    });
}

#[test]
fn readers_of_one_stream_lose_no_bytes() {
    on_both(
        || builder().chunks(16, 4),
        || async {
            let (a, b) = tcp_pair().await;
            // From now on the stream receives chunks.
            assert!(poll_once(a.chunk()).await.is_none());
            let mut one = pin!(a.read(Vec::with_capacity(2)));
            let mut two = pin!(a.read(Vec::with_capacity(2)));
            assert!(poll_once(one.as_mut()).await.is_none());
            assert!(poll_once(two.as_mut()).await.is_none());
            b.write_all("12345678").await.0.unwrap();
            let (_, mut bytes) = one.await;
            bytes.extend(two.await.1);
            while bytes.len() < 8 {
                bytes.extend(a.read(Vec::with_capacity(8)).await.1);
            }
            assert_eq!(bytes, b"12345678");
        },
    );
}

#[test]
fn a_destructor_that_panics_frees_no_other_memory_in_flight() {
    let Some(reactors) = build(builder(), Backend::Uring) else {
        return;
    };
    run_on(&reactors, || async {
        let drops: [Arc<AtomicUsize>; 2] = Default::default();
        let counted = |at: usize| counted(64, &drops[at], at == 0);
        let (a, b) = tcp_pair().await;
        let mut ended = Box::pin(a.read(counted(0)));
        let mut other = Box::pin(a.read(counted(1)));
        assert!(poll_once(ended.as_mut()).await.is_none());
        assert!(poll_once(other.as_mut()).await.is_none());
        drop(ended);
        // The kernel ends the one that was given up.
        for _ in 0..1000 {
            yield_now().await;
        }
        drop(other);
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(a)));
        assert!(dropped.is_ok(), "the panic is contained");
        assert_eq!(drops[0].load(Ordering::Relaxed), 1, "it was not in flight");
        assert_eq!(drops[1].load(Ordering::Relaxed), 0, "the kernel has it");
        drop(b);
        while drops[1].load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
    });
    assert!(reactors.stop(Duration::from_secs(60)).is_clean());
}
