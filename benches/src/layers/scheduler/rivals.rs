//! tokio's multi-threaded runtime and async-executor, with the same steps as futures that yield
//! between them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use rast::scheduler::yield_now;

use super::contenders::{Ends, Load, time_aside};
use crate::processors::pin_in_turn;
use crate::workers::Sample;

async fn body(load: Load, executions: u64, ends: Ends) {
    for execution in 0..executions {
        if execution > 0 {
            yield_now().await;
        }
        load.run();
    }
    ends.add();
}

pub(super) fn tokio(load: Load, executions: u64, workers: usize, steps: u64) -> Sample {
    let started = Arc::new(AtomicUsize::new(0));
    let runtime = ::tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .on_thread_start(move || pin_in_turn(started.fetch_add(1, Ordering::Relaxed)))
        .build()
        .expect("a runtime");
    let ends = Ends::new();
    let count = (steps / executions).max(1);
    let elapsed = time_aside(workers, || {
        for _ in 0..count {
            drop(runtime.spawn(body(load, executions, ends)));
        }
        ends.reach(count);
    });
    Sample::new(count * executions, elapsed)
}

pub(super) fn async_executor(load: Load, executions: u64, workers: usize, steps: u64) -> Sample {
    let executor = Arc::new(::async_executor::Executor::new());
    let ends = Ends::new();
    let count = (steps / executions).max(1);
    let (stops, threads): (Vec<_>, Vec<_>) = (0..workers)
        .map(|worker| {
            let executor = Arc::clone(&executor);
            let (stop, stopped) = ::async_channel::bounded::<()>(1);
            let (ready, is_ready) = mpsc::channel();
            let thread = thread::spawn(move || {
                pin_in_turn(worker);
                ready.send(()).expect("it is awaited");
                // The channel is closed to stop.
                let _ = ::futures_lite::future::block_on(executor.run(stopped.recv()));
            });
            is_ready.recv().expect("the thread comes up");
            (stop, thread)
        })
        .unzip();
    let elapsed = time_aside(workers, || {
        for _ in 0..count {
            executor.spawn(body(load, executions, ends)).detach();
        }
        ends.reach(count);
    });
    drop(stops);
    for thread in threads {
        thread.join().expect("a worker does not panic");
    }
    Sample::new(count * executions, elapsed)
}
