//! The combinators, streams, channels and locks of `futures` on each executor: they wrap wakers,
//! poll many futures by one waker, wake from destructors, and poll in orders of their own.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::future::{Future, pending, poll_fn, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::channel::{mpsc, oneshot};
use futures::future::{
    self, AbortHandle, Abortable, Aborted, Either, FutureExt, Shared, join_all, select, select_all,
    select_ok, try_join_all,
};
use futures::lock::Mutex;
use futures::sink::SinkExt;
use futures::stream::{self, FuturesOrdered, FuturesUnordered, StreamExt, TryStreamExt};
use futures::task::AtomicWaker;
use rast_executor::{
    Deterministic, LocalExecutor, Runtime, interval, now, sleep, spawn, timeout, yield_now,
};

/// Runs what `make` makes as a task of a runtime, on the thread beside it, on one thread, and in
/// orders that seeds choose.
fn everywhere<F: Future<Output = ()> + Send + 'static>(make: impl Fn() -> F) {
    for workers in [1, 3] {
        let builder = Runtime::builder().workers(workers).watch(None);
        let runtime = builder.build().expect("the system gives threads");
        for _ in 0..10 {
            runtime.block_on(runtime.spawn(make())).unwrap();
            runtime.block_on(make());
        }
    }
    LocalExecutor::new().run(make());
    for seed in 0..100 {
        println!("seed {seed}");
        Deterministic::new(seed).run(make());
    }
}

/// Is ready after so many turns.
async fn after(turns: usize) -> usize {
    for _ in 0..turns {
        yield_now().await;
    }
    turns
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn joins_keep_the_order_of_their_futures() {
    everywhere(|| async {
        // More than thirty make a `FuturesOrdered` inside.
        for count in [0, 1, 5, 100] {
            let all = join_all((0..count).map(|n| after(n % 7).map(move |_| n))).await;
            assert!(all.into_iter().eq(0..count));
            let tasks = join_all((0..count).map(|n| spawn(after(n % 7)))).await;
            let turns = tasks.into_iter().map(Result::unwrap);
            assert!(turns.eq((0..count).map(|n| n % 7)));
        }
        let (a, b, c) = futures::join!(after(3), spawn(after(1)), async { 7 });
        assert_eq!((a, b.unwrap(), c), (3, 1, 7));
    });
}

#[test]
fn a_failed_join_drops_the_others() {
    everywhere(|| async {
        let dropped = Arc::new(AtomicUsize::new(0));
        // More than thirty would be awaited in their order.
        let waits = (0..25).map(|n| {
            let counted = Counted(Arc::clone(&dropped));
            async move {
                let _counted = counted;
                if n == 20 {
                    yield_now().await;
                    return Err(n);
                }
                pending::<Result<(), i32>>().await
            }
        });
        assert_eq!(try_join_all(waits).await, Err(20));
        assert_eq!(dropped.load(Ordering::SeqCst), 25);
    });
}

#[test]
fn selects_return_the_first_and_keep_the_others() {
    everywhere(|| async {
        let (tell, told) = oneshot::channel();
        let slow = told.map(|told| told.expect("it is told")).boxed();
        let quick = sleep(Duration::from_millis(1)).map(|()| "quick").boxed();
        let Either::Right((first, slow)) = select(slow, quick).await else {
            panic!("the one that is not told yet was first");
        };
        tell.send("slow").expect("it waits");
        assert_eq!((first, slow.await), ("quick", "slow"));
        let mut left: Vec<_> = (0..20).map(|n| spawn(after(n))).collect();
        let mut seen = Vec::new();
        while !left.is_empty() {
            let (turns, _, rest) = select_all(left).await;
            seen.push(turns.unwrap());
            left = rest;
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..20));
        let tries = [ready(Err(1)).boxed(), after(3).map(Ok).boxed()];
        assert_eq!(select_ok(tries).await.unwrap().0, 3);
    });
}

#[test]
fn unordered_futures_come_as_they_end_and_are_dropped_unfinished() {
    everywhere(|| async {
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut set = FuturesUnordered::new();
        for n in 0..60_usize {
            let counted = Counted(Arc::clone(&dropped));
            set.push(async move {
                let _counted = counted;
                if n % 3 == 0 {
                    return pending().await;
                }
                spawn(after(n % 5)).await.unwrap()
            });
        }
        for _ in 0..40 {
            assert!(set.next().await.is_some());
        }
        assert_eq!((set.len(), dropped.load(Ordering::SeqCst)), (20, 40));
        drop(set);
        assert_eq!(dropped.load(Ordering::SeqCst), 60);
        let ordered: FuturesOrdered<_> = (0..30).map(|n| spawn(after(29 - n))).collect();
        let turns: Vec<usize> = ordered.map(Result::unwrap).collect().await;
        assert!(turns.into_iter().eq((0..30).rev()));
    });
}

#[test]
fn a_buffered_stream_keeps_its_bound() {
    everywhere(|| async {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = |n: usize| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                spawn(after(n % 4)).await.unwrap();
                running.fetch_sub(1, Ordering::SeqCst);
                n
            }
        };
        let mut all: Vec<usize> = stream::iter(0..100)
            .map(work)
            .buffer_unordered(7)
            .collect()
            .await;
        all.sort_unstable();
        assert!(all.into_iter().eq(0..100));
        assert!((1..=7).contains(&most.load(Ordering::SeqCst)));
        let sum = stream::iter((0..50).map(Ok::<usize, ()>))
            .try_for_each_concurrent(3, |n| work(n).map(|_| Ok(())))
            .await;
        assert_eq!(sum, Ok(()));
    });
}

#[test]
fn a_shared_future_is_polled_to_its_end_once_for_all() {
    everywhere(|| async {
        let runs = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&runs);
        let shared: Shared<_> = async move {
            theirs.fetch_add(1, Ordering::SeqCst);
            after(5).await
        }
        .boxed()
        .shared();
        let tasks: Vec<_> = (0..20).map(|_| spawn(shared.clone())).collect();
        // The one that polls it may be the one that is given up.
        let _ = timeout(Duration::ZERO, shared.clone()).await;
        tasks[0].abort();
        for (n, task) in tasks.into_iter().enumerate() {
            match task.await {
                Ok(turns) => assert_eq!(turns, 5),
                Err(error) => assert!(n == 0 && error.is_cancelled()),
            }
        }
        assert_eq!((shared.await, runs.load(Ordering::SeqCst)), (5, 1));
    });
}

#[test]
fn what_is_aborted_from_another_task_ends() {
    everywhere(|| async {
        let (handle, registration) = AbortHandle::new_pair();
        let task = spawn(Abortable::new(pending::<()>(), registration));
        spawn(async move { handle.abort() }).await.unwrap();
        assert_eq!(task.await.unwrap(), Err(Aborted));
        let (remote, handle) = after(3).remote_handle();
        spawn(remote).detach();
        assert_eq!(handle.await, 3);
        let panics = async { panic!("as the test asked for") };
        assert!(
            std::panic::AssertUnwindSafe(panics)
                .catch_unwind()
                .await
                .is_err()
        );
    });
}

#[test]
fn channels_carry_all_values_and_notice_the_other_end() {
    everywhere(|| async {
        let (sender, receiver) = mpsc::channel::<usize>(2);
        let tasks: Vec<_> = (0..5)
            .map(|from| {
                let mut sender = sender.clone();
                spawn(async move {
                    for n in 0..20 {
                        sender.send(from * 20 + n).await.unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        let mut all: Vec<usize> = receiver.collect().await;
        all.sort_unstable();
        assert!(all.into_iter().eq(0..100));
        for task in tasks {
            task.await.unwrap();
        }
        let (sender, receiver) = oneshot::channel::<()>();
        let task = spawn(receiver);
        drop(sender);
        assert!(task.await.unwrap().is_err());
        let (mut sender, receiver) = oneshot::channel::<()>();
        let task = spawn(async move {
            sender.cancellation().await;
        });
        drop(receiver);
        task.await.unwrap();
    });
}

#[test]
fn a_lock_is_handed_on_when_a_waiter_is_given_up() {
    everywhere(|| async {
        let lock = Arc::new(Mutex::new(0));
        let held = lock.lock().await;
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let lock = Arc::clone(&lock);
                spawn(async move {
                    for _ in 0..10 {
                        let mut value = lock.lock().await;
                        let seen = *value;
                        yield_now().await;
                        *value = seen + 1;
                    }
                })
            })
            .collect();
        yield_now().await;
        tasks[3].abort();
        drop(held);
        let mut ended = 0;
        for task in tasks {
            ended += usize::from(task.await.is_ok());
        }
        assert!((9..=10).contains(&ended));
        assert!((90..=100).contains(&*lock.lock().await));
    });
}

#[test]
fn a_waker_is_moved_between_tasks() {
    everywhere(|| async {
        let place = Arc::new((AtomicWaker::new(), AtomicUsize::new(0)));
        let theirs = Arc::clone(&place);
        let waits = spawn(poll_fn(move |cx| {
            theirs.0.register(cx.waker());
            match theirs.1.load(Ordering::SeqCst) {
                100 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        for _ in 0..10 {
            let place = Arc::clone(&place);
            spawn(async move {
                for _ in 0..10 {
                    place.1.fetch_add(1, Ordering::SeqCst);
                    place.0.wake();
                    yield_now().await;
                }
            })
            .detach();
        }
        waits.await.unwrap();
    });
}

#[test]
fn timers_under_select_are_armed_and_dropped() {
    everywhere(|| async {
        let start = now();
        let mut ticks = interval(Duration::from_millis(1));
        let mut ticked = 0;
        let mut end = sleep(Duration::from_millis(5)).fuse();
        loop {
            futures::select_biased! {
                _ = ticks.tick().fuse() => ticked += 1,
                () = end => break,
            }
        }
        assert!(ticked > 0 && now().saturating_since(start).as_nanos() >= 5_000_000);
        let sleeps = (0..50).map(|n| sleep(Duration::from_micros(n * 100)));
        let mut sleeps: FuturesUnordered<_> = sleeps.collect();
        let none = future::poll_immediate(sleep(Duration::from_secs(9))).await;
        assert!(none.is_none());
        for _ in 0..25 {
            sleeps.next().await.unwrap();
        }
    });
}
