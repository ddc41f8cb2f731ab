//! Ends and destructors at bad moments: shutdown of long chains, unwinding threads, threads of the
//! pool that end as a call comes.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rast_executor::{LocalExecutor, Runtime, spawn, yield_now};

const LONG: Duration = Duration::from_secs(60);

/// A task that awaits a task that awaits a task, and so on; the last one never ends.
fn nest(depth: usize, reached: Arc<AtomicUsize>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        reached.fetch_add(1, Ordering::Relaxed);
        if depth == 0 {
            pending::<()>().await;
        }
        let _ = spawn(nest(depth - 1, reached)).await;
    })
}

#[test]
fn a_long_chain_of_tasks_is_cancelled_without_recursion() {
    const DEPTH: usize = 50_000;
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let reached = Arc::new(AtomicUsize::new(0));
    let task = runtime.spawn(nest(DEPTH, Arc::clone(&reached)));
    while reached.load(Ordering::Relaxed) <= DEPTH {
        std::thread::yield_now();
    }
    drop(runtime);
    assert!(rast_executor::block_on(task).unwrap_err().is_cancelled());
}

#[test]
fn a_shutdown_without_end_of_its_grace_does_not_overflow() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    assert!(runtime.shutdown(Duration::MAX).is_clean());
}

#[test]
fn a_local_executor_runs_in_a_destructor_of_a_thread_that_panics() {
    struct Runs(mpsc::Sender<i32>);
    impl Drop for Runs {
        fn drop(&mut self) {
            let seven = LocalExecutor::new().run(async {
                yield_now().await;
                7
            });
            let _ = self.0.send(seven);
        }
    }
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _runs = Runs(sender);
        panic!("on purpose");
    });
    assert!(thread.join().is_err());
    assert_eq!(receiver.recv(), Ok(7));
}

#[test]
fn a_call_that_comes_as_threads_of_the_pool_end_is_run() {
    let runtime = Runtime::builder()
        .workers(1)
        .blocking_threads(4)
        .keep_alive(Duration::from_micros(20))
        .build()
        .unwrap();
    for round in 0..5_000 {
        // Two calls that need each other, on a pool that has a thread for each.
        let (to_first, from_second) = mpsc::channel();
        let (to_second, from_first) = mpsc::channel();
        let first = runtime.spawn_blocking(move || {
            let _ = to_second.send(());
            from_second.recv_timeout(LONG).is_ok()
        });
        let second = runtime.spawn_blocking(move || {
            let _ = to_first.send(());
            from_first.recv_timeout(LONG).is_ok()
        });
        let both = runtime.block_on(async { (first.await, second.await) });
        assert!(both.0.unwrap() && both.1.unwrap(), "round {round}");
    }
}
