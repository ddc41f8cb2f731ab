//! Drivers, tasks from other threads, and jobs: order, refusal, drops, panics.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::thread::{self, ThreadId};
use std::time::Duration;

use rast_executor::timers::MonotonicClock;
use rast_executor::{
    Driver, Job, JoinHandle, LocalExecutor, ParkerDriver, RemoteBatch, RemoteSpawner, block_on,
    spawn_local, yield_now,
};

/// Notes on which thread it is dropped.
struct Dropped(std::sync::mpsc::Sender<ThreadId>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(thread::current().id());
    }
}

fn shows<T: Send + Sync>() {}
fn sends<T: Send>() {}

#[test]
fn what_is_sent_may_be_sent() {
    shows::<RemoteSpawner>();
    sends::<RemoteBatch>();
    sends::<Job>();
}

#[test]
fn a_remote_task_is_made_and_run_on_the_thread_of_its_executor() {
    let executor = LocalExecutor::new();
    let remote = executor.remote();
    let here = thread::current().id();
    let (send, handle) = std::sync::mpsc::channel();
    let other = thread::spawn(move || {
        send.send(remote.spawn(|| {
            let made = Rc::new(thread::current().id());
            async move {
                yield_now().await;
                (*made, thread::current().id())
            }
        }))
    });
    let handle: JoinHandle<_> = handle.recv().unwrap();
    assert_eq!(executor.run(handle).unwrap(), (here, here));
    other.join().unwrap().unwrap();
}

#[test]
fn a_remote_task_wakes_an_executor_that_sleeps() {
    let (send, remote) = std::sync::mpsc::channel();
    let (done, finished) = std::sync::mpsc::channel();
    let other = thread::spawn(move || {
        let executor = LocalExecutor::new();
        send.send(executor.remote()).unwrap();
        let waits = Rc::new(RefCell::new(None::<Waker>));
        executor.run(std::future::poll_fn(|cx| {
            *waits.borrow_mut() = Some(cx.waker().clone());
            match finished.try_recv() {
                Ok(()) => std::task::Poll::Ready(()),
                Err(_) => {
                    // Polled again by the wake-up of the remote task's end.
                    let waker = cx.waker().clone();
                    WAKES.with(|wakes| wakes.borrow_mut().push(waker));
                    std::task::Poll::Pending
                }
            }
        }));
    });
    thread_local! {
        static WAKES: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
    }
    let remote: RemoteSpawner = remote.recv().unwrap();
    for n in 0..100 {
        let answer = block_on(remote.spawn(move || async move { n + 1 }));
        assert_eq!(answer.unwrap(), n + 1);
    }
    done.send(()).unwrap();
    let woken = remote.spawn(|| async {
        WAKES.with(|wakes| wakes.borrow_mut().drain(..).for_each(Waker::wake));
    });
    block_on(woken).unwrap();
    other.join().unwrap();
}

#[test]
fn a_closure_for_an_executor_that_is_gone_is_dropped_by_the_caller() {
    let executor = LocalExecutor::new();
    let remote = executor.remote();
    let mut batch = remote.batch();
    let (send, dropped) = std::sync::mpsc::channel();
    let note = Dropped(send.clone());
    let staged = batch.spawn(move || async move { drop(note) });
    // It does not wait for the batch.
    drop(executor);
    let note = Dropped(send);
    let direct = remote.spawn(move || async move { drop(note) });
    assert!(block_on(direct).unwrap_err().is_cancelled());
    assert!(!staged.is_finished());
    batch.send();
    assert!(batch.is_empty());
    assert!(block_on(staged).unwrap_err().is_cancelled());
    let here = thread::current().id();
    assert_eq!(dropped.iter().collect::<Vec<_>>(), [here, here]);
}

#[test]
fn a_batch_that_is_dropped_cancels_what_was_not_sent() {
    let executor = LocalExecutor::new();
    let mut batch = executor.remote().batch();
    let handle = batch.spawn(|| async { 1 });
    drop(batch);
    assert!(block_on(handle).unwrap_err().is_cancelled());
    assert_eq!(executor.tasks(), 0);
}

#[test]
fn a_task_that_is_aborted_before_it_is_sent_is_dropped_by_its_executor() {
    let (send, dropped) = std::sync::mpsc::channel();
    let note = Dropped(send);
    let executor = LocalExecutor::new();
    let remote = executor.remote();
    let other = thread::spawn(move || {
        let mut batch = remote.batch();
        let handle = batch.spawn(move || {
            drop(note);
            async { unreachable!("it was aborted") }
        });
        handle.abort();
        batch.send();
        handle
    });
    let handle = other.join().unwrap();
    assert!(dropped.try_recv().is_err(), "not yet");
    assert!(executor.run(handle).unwrap_err().is_cancelled());
    assert_eq!(dropped.recv(), Ok(thread::current().id()));
}

#[test]
fn tasks_of_batches_run_in_the_order_they_were_added() {
    let executor = LocalExecutor::new();
    let remote = executor.remote();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut batch = remote.batch();
    let mut handles = Vec::new();
    for n in 0..10 {
        let order = Arc::clone(&order);
        handles.push(batch.spawn(move || async move { order.lock().unwrap().push(n) }));
        if n % 3 == 2 {
            batch.send();
        }
    }
    batch.send();
    executor.run(async {
        for handle in handles {
            handle.await.unwrap();
        }
    });
    assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_long_future_and_a_panic_pass_too() {
    let executor = LocalExecutor::new();
    let remote = executor.remote();
    let long = remote.spawn(|| {
        let bytes = [7_u8; 8192];
        async move {
            yield_now().await;
            bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>()
        }
    });
    let begins = remote.spawn(|| -> std::future::Ready<()> { panic!("in the closure") });
    let runs = remote.spawn(|| async { panic!("in the future") });
    executor.run(async {
        assert_eq!(long.await.unwrap(), 7 * 8192);
        assert!(begins.await.unwrap_err().is_panic());
        assert!(runs.await.unwrap_err().is_panic());
    });
}

#[test]
fn threads_that_spawn_while_the_executor_is_dropped_lose_nothing() {
    for _ in 0..50 {
        let dropped = Arc::new(AtomicUsize::new(0));
        struct Count(Arc<AtomicUsize>);
        impl Drop for Count {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let executor = LocalExecutor::new();
        let spawners: Vec<_> = (0..2)
            .map(|_| {
                let (remote, dropped) = (executor.remote(), Arc::clone(&dropped));
                thread::spawn(move || {
                    let mut batch = remote.batch();
                    for n in 0..20 {
                        let count = Count(Arc::clone(&dropped));
                        let task = move || async move {
                            let _count = count;
                            pending::<()>().await;
                        };
                        if n % 2 == 0 {
                            remote.spawn(task).detach();
                        } else {
                            batch.spawn(task).detach();
                            batch.send();
                        }
                    }
                })
            })
            .collect();
        executor.run(yield_now());
        drop(executor);
        for spawner in spawners {
            spawner.join().unwrap();
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 40);
    }
}

/// Notes what the executor asks of it.
struct Notes {
    parker: ParkerDriver,
    calls: Rc<RefCell<Vec<&'static str>>>,
    wakes: Rc<Cell<Option<Waker>>>,
}

impl Driver for Notes {
    fn submit(&mut self) {
        self.calls.borrow_mut().push("submit");
        if let Some(waker) = self.wakes.take() {
            waker.wake();
        }
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.calls.borrow_mut().push("park");
        self.parker.park(timeout);
    }

    fn unparker(&self) -> Waker {
        self.parker.unparker()
    }
}

#[test]
fn a_driver_is_submitted_to_before_it_sleeps_and_at_the_end() {
    let calls = Rc::new(RefCell::new(Vec::new()));
    let wakes = Rc::new(Cell::new(None));
    let driver = Notes {
        parker: ParkerDriver::new(),
        calls: Rc::clone(&calls),
        wakes: Rc::clone(&wakes),
    };
    let executor = LocalExecutor::with_driver(MonotonicClock::new(), driver);
    // The wake-up from within `submit` is answered without a sleep.
    let mut polls = 0;
    executor.run(std::future::poll_fn(|cx| {
        polls += 1;
        if polls == 2 {
            return std::task::Poll::Ready(());
        }
        wakes.set(Some(cx.waker().clone()));
        std::task::Poll::Pending
    }));
    assert_eq!(*calls.borrow(), ["submit", "submit"]);
    calls.borrow_mut().clear();
    // A sleep parks after a submit.
    executor.run(async { rast_executor::sleep(Duration::from_millis(1)).await });
    assert_eq!(calls.borrow()[..2], ["submit", "park"]);
    assert_eq!(calls.borrow().last(), Some(&"submit"));
    calls.borrow_mut().clear();
    // A busy executor submits every 64 polls.
    executor.run(async {
        let busy = spawn_local(async {
            for _ in 0..640 {
                yield_now().await;
            }
        });
        busy.await.unwrap();
    });
    assert!(calls.borrow().len() >= 10, "{:?}", calls.borrow());
    assert!(!calls.borrow().contains(&"park"));
}

#[test]
fn a_job_runs_once_and_gives_its_result() {
    let (job, handle) = Job::new(|| 6 * 7);
    thread::spawn(|| job.run()).join().unwrap();
    assert_eq!(block_on(handle).unwrap(), 42);

    let (job, handle) = Job::new(|| -> u32 { panic!("no") });
    job.run();
    assert!(block_on(handle).unwrap_err().is_panic());
}

#[test]
fn a_job_that_is_aborted_or_dropped_is_not_called() {
    let (send, dropped) = std::sync::mpsc::channel();
    let note = Dropped(send.clone());
    let (job, handle) = Job::new(move || {
        drop(note);
        unreachable!("it was aborted")
    });
    handle.abort();
    let ran = thread::spawn(|| {
        job.run();
        thread::current().id()
    });
    assert_eq!(ran.join().unwrap(), dropped.recv().unwrap());
    assert!(
        block_on::<JoinHandle<()>>(handle)
            .unwrap_err()
            .is_cancelled()
    );

    let note = Dropped(send);
    let (job, handle) = Job::new(move || drop(note));
    drop(job);
    assert_eq!(dropped.recv(), Ok(thread::current().id()));
    assert!(block_on(handle).unwrap_err().is_cancelled());
}
