//! Models of the protocols: the task's word, join and abort, the queues, the sleep.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};

use rast_executor::parts::{
    Deadlines, Idle, Injector, Notified, RunQueue, Schedule, Task, run, spawn, steal,
};
use rast_executor::primitive::cell::UnsafeCell;
use rast_executor::primitive::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rast_executor::primitive::sync::{Arc, Mutex};
use rast_executor::primitive::{Parker, Unparker, hint, model, thread};
use rast_executor::{Bell, LocalExecutor};

/// A scheduler of one queue under a lock. The tasks in it are the test's to run.
struct Plain {
    tasks: Mutex<Vec<Task>>,
}

impl Plain {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            tasks: Mutex::new(Vec::new()),
        })
    }

    fn pop(&self) -> Option<Task> {
        self.tasks.lock().pop()
    }

    /// Runs what is queued, until `is_done`.
    fn run_until(&self, is_done: impl Fn() -> bool) {
        while !is_done() {
            match self.pop() {
                Some(task) => self.run(task),
                None => hint::spin_loop(),
            }
        }
    }

    fn run(&self, task: Task) {
        let mut again = run(task);
        while let Some(task) = again {
            again = run(task);
        }
    }
}

// SAFETY: there is no list, `is_inside` is false, and the futures are `Send`.
unsafe impl Schedule for Plain {
    fn schedule(&self, task: Task) {
        self.tasks.lock().push(task);
    }

    fn is_inside(&self) -> bool {
        false
    }

    fn forget(&self, _: &Task) {}
}

/// A value that the future alone touches; loom fails if two accesses are not ordered.
struct Own(UnsafeCell<usize>);

// SAFETY: the protocol under test orders the accesses; loom checks it.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

impl Own {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn add(&self) -> usize {
        self.0.with_mut(|value| {
            // SAFETY: the protocol under test makes this the one access.
            let value = unsafe { &mut *value };
            *value += 1;
            *value
        })
    }
}

/// A waker that counts nothing.
struct Nothing;

impl Wake for Nothing {
    fn wake(self: StdArc<Self>) {}
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let waker = Waker::from(StdArc::new(Nothing));
    future.poll(&mut Context::from_waker(&waker))
}

/// A waker that another thread picks up.
#[derive(Clone)]
struct Place(Arc<Mutex<Option<Waker>>>);

impl Place {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    fn put(&self, waker: &Waker) {
        *self.0.lock() = Some(waker.clone());
    }

    fn take(&self) -> Option<Waker> {
        self.0.lock().take()
    }
}

#[test]
fn wake_up_during_a_poll_is_answered() {
    // The flag is set and the task woken while it is polled or before it rests.
    model::model(|| {
        let scheduler = Plain::new();
        let flag = Arc::new(AtomicBool::new(false));
        let place = Place::new();
        let (theirs, put) = (Arc::clone(&flag), place.clone());
        let own = Own::new();
        let (task, mut handle) = spawn(
            poll_fn(move |cx| {
                own.add();
                put.put(cx.waker());
                // Relaxed on purpose: the wake-up publishes it.
                if theirs.load(Ordering::Relaxed) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }),
            &scheduler,
        );
        let waking = thread::spawn(move || {
            let waker = loop {
                match place.take() {
                    Some(waker) => break waker,
                    None => hint::spin_loop(),
                }
            };
            flag.store(true, Ordering::Relaxed);
            waker.wake();
        });
        scheduler.run(task);
        scheduler.run_until(|| handle.is_finished());
        assert!(poll_once(Pin::new(&mut handle)).is_ready());
        waking.join().unwrap();
    });
}

#[test]
fn wake_ups_of_two_threads_run_a_task_once_at_a_time() {
    model::model(|| {
        let scheduler = Plain::new();
        let place = Place::new();
        let put = place.clone();
        let own = Arc::new(Own::new());
        let theirs = Arc::clone(&own);
        let (task, handle) = spawn(
            poll_fn(move |cx| {
                put.put(cx.waker());
                if theirs.add() == 3 {
                    Poll::Ready(())
                } else {
                    Poll::<()>::Pending
                }
            }),
            &scheduler,
        );
        scheduler.run(task);
        let waker = place.take().expect("polled");
        let other = Arc::clone(&scheduler);
        // Two workers: each wakes, and runs what it finds.
        let theirs = waker.clone();
        let worker = thread::spawn(move || {
            theirs.wake_by_ref();
            if let Some(task) = other.pop() {
                other.run(task);
            }
            drop(theirs);
        });
        waker.wake_by_ref();
        if let Some(task) = scheduler.pop() {
            scheduler.run(task);
        }
        worker.join().unwrap();
        drop((waker, place.take()));
        handle.abort();
        scheduler.run_until(|| handle.is_finished());
        drop(handle);
    });
}

#[test]
fn a_handle_gets_the_output_or_its_wake_up() {
    struct Thread(Unparker);
    impl Wake for Thread {
        fn wake(self: StdArc<Self>) {
            self.0.unpark();
        }
    }
    model::model(|| {
        let scheduler = Plain::new();
        let (task, mut handle) = spawn(async { Box::new(7) }, &scheduler);
        let worker = thread::spawn(move || drop(run(task)));
        let parker = Parker::new();
        let waker = Waker::from(StdArc::new(Thread(parker.unparker())));
        let mut cx = Context::from_waker(&waker);
        let output = loop {
            match Pin::new(&mut handle).poll(&mut cx) {
                Poll::Ready(output) => break output,
                Poll::Pending => parker.park(),
            }
        };
        assert_eq!(*output.unwrap(), 7);
        drop(handle);
        worker.join().unwrap();
    });
}

#[test]
fn a_finished_task_shows_its_output() {
    model::model(|| {
        let scheduler = Plain::new();
        let (task, mut handle) = spawn(async { Box::new(7) }, &scheduler);
        let worker = thread::spawn(move || drop(run(task)));
        if handle.is_finished() {
            match poll_once(Pin::new(&mut handle)) {
                Poll::Ready(output) => assert_eq!(*output.unwrap(), 7),
                Poll::Pending => unreachable!("it is finished"),
            }
        }
        drop(handle);
        worker.join().unwrap();
    });
}

#[test]
fn a_handle_that_changes_its_waker_or_is_dropped_leaves_nothing() {
    /// Freed once: loom sees a leak and a double drop.
    struct Output(#[expect(dead_code, reason = "loom counts it")] Arc<()>);

    model::model(|| {
        let scheduler = Plain::new();
        let token = Arc::new(());
        let theirs = Arc::clone(&token);
        let (task, mut handle) = spawn(async move { Output(theirs) }, &scheduler);
        let worker = thread::spawn(move || drop(run(task)));
        // Two wakers, one after the other.
        let _ = poll_once(Pin::new(&mut handle)).map(drop);
        if !handle.is_finished() {
            let ready = poll_once(Pin::new(&mut handle));
            if ready.is_ready() {
                drop(ready);
            }
        }
        drop(handle);
        worker.join().unwrap();
        drop(token);
    });
}

#[test]
fn a_detached_output_is_dropped_once() {
    struct Counts(Arc<Own>);
    impl Drop for Counts {
        fn drop(&mut self) {
            assert_eq!(self.0.add(), 1, "dropped once");
        }
    }
    model::model(|| {
        let scheduler = Plain::new();
        let own = Arc::new(Own::new());
        let theirs = Counts(Arc::clone(&own));
        let (task, handle) = spawn(async move { theirs }, &scheduler);
        let worker = thread::spawn(move || drop(run(task)));
        drop(handle);
        worker.join().unwrap();
        assert_eq!(own.add(), 2);
    });
}

#[test]
fn an_abort_meets_a_poll_and_a_wake_up() {
    model::model(|| {
        let scheduler = Plain::new();
        let place = Place::new();
        let put = place.clone();
        let own = Own::new();
        let (task, handle) = spawn(
            poll_fn(move |cx| {
                own.add();
                put.put(cx.waker());
                Poll::<()>::Pending
            }),
            &scheduler,
        );
        let abort = handle.abort_handle();
        let aborting = thread::spawn(move || abort.abort());
        scheduler.run(task);
        if let Some(waker) = place.take() {
            waker.wake();
        }
        scheduler.run_until(|| handle.is_finished());
        let mut handle = pin!(handle);
        match poll_once(handle.as_mut()) {
            Poll::Ready(result) => assert!(result.unwrap_err().is_cancelled()),
            Poll::Pending => unreachable!(),
        }
        aborting.join().unwrap();
    });
}

#[test]
fn the_last_reference_frees_whoever_has_it() {
    model::model(|| {
        let scheduler = Plain::new();
        let place = Place::new();
        let put = place.clone();
        let (task, handle) = spawn(
            poll_fn(move |cx| {
                put.put(cx.waker());
                Poll::Ready(())
            }),
            &scheduler,
        );
        let worker = thread::spawn(move || drop(run(task)));
        let other = thread::spawn(move || {
            if let Some(waker) = place.take() {
                waker.wake();
            }
        });
        drop(handle);
        worker.join().unwrap();
        other.join().unwrap();
        assert!(scheduler.pop().is_none());
    });
}

/// Notes its drop.
struct Noted(Arc<AtomicUsize>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task that is never polled, whose future's drop is noted.
fn idle_task(scheduler: &Arc<Plain>, dropped: &Arc<AtomicUsize>) -> Task {
    let noted = Noted(Arc::clone(dropped));
    let (task, handle) = spawn(
        async move {
            let _noted = noted;
            std::future::pending::<()>().await;
        },
        scheduler,
    );
    handle.detach();
    task
}

#[test]
fn the_injector_gives_each_task_once() {
    model::model(|| {
        let scheduler = Plain::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let injector = Arc::new(Injector::default());
        let tasks: Vec<_> = (0..2).map(|_| idle_task(&scheduler, &dropped)).collect();
        let theirs = Arc::clone(&injector);
        let pusher = thread::spawn(move || {
            for task in tasks {
                theirs.push(task);
            }
        });
        let other = Arc::clone(&injector);
        let taker = thread::spawn(move || other.drain(drop));
        injector.drain(drop);
        pusher.join().unwrap();
        taker.join().unwrap();
        injector.drain(drop);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    });
}

/// A task that was polled and woke itself: the thread that takes it must see what the poll left.
fn woken_task(scheduler: &Arc<Plain>, dropped: &Arc<AtomicUsize>) -> Task {
    let (own, noted) = (Own::new(), Noted(Arc::clone(dropped)));
    let future = poll_fn(move |cx| {
        let _noted = &noted;
        own.add();
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let (task, handle) = spawn(future, scheduler);
    handle.detach();
    run(task).expect("it woke itself")
}

#[test]
fn a_task_of_the_lists_is_popped_or_stolen_once() {
    model::model(|| {
        let scheduler = Plain::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let queue = Arc::new(RunQueue::default());
        queue.push(woken_task(&scheduler, &dropped));
        queue.push(woken_task(&scheduler, &dropped));
        let theirs = Arc::clone(&queue);
        let thief = thread::spawn(move || {
            for task in steal(&theirs) {
                // To another worker, which runs it and queues it again.
                if let Some(task) = run(task) {
                    theirs.push(task);
                }
            }
        });
        let again = queue.pop(None).and_then(run);
        drop(queue.pop(again));
        thief.join().unwrap();
        while let Some(task) = queue.pop(None) {
            drop(task);
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn the_newest_task_is_taken_once() {
    model::model(move || {
        let scheduler = Plain::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let queue = Arc::new(RunQueue::default());
        let theirs = Arc::clone(&queue);
        let thief = thread::spawn(move || {
            let again = theirs.take_newest().and_then(run);
            // Back to its worker.
            again.and_then(|task| theirs.replace_newest(task))
        });
        for _ in 0..2 {
            let task = woken_task(&scheduler, &dropped);
            let older = queue.replace_newest(task);
            drop(older.and_then(run));
        }
        drop(queue.take_newest());
        drop(thief.join().unwrap());
        drop(queue.take_newest());
    });
}

/// Two workers, a queue that is a number, and the sleep.
struct World {
    idle: Idle,
    queued: AtomicUsize,
    done: AtomicUsize,
    unparkers: Vec<Unparker>,
}

impl World {
    fn new(parkers: &[Parker]) -> Arc<Self> {
        Arc::new(Self {
            idle: Idle::new(parkers.len()),
            queued: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            unparkers: parkers.iter().map(Parker::unparker).collect(),
        })
    }

    fn push(&self) {
        // Relaxed on purpose: the fences of the sleep are what is tested.
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.notify();
    }

    fn notify(&self) {
        if let Notified::Wake(worker) = self.idle.notify() {
            self.unparkers[worker].unpark();
        }
    }

    fn has_work(&self) -> bool {
        self.queued.load(Ordering::Relaxed) > 0
    }

    /// Takes one; a look that finds none is a load, as the workers' is.
    fn take(&self) -> bool {
        let mut queued = self.queued.load(Ordering::Relaxed);
        while queued > 0 {
            match self.queued.compare_exchange(
                queued,
                queued - 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => queued = now,
            }
        }
        false
    }

    /// As `Worker::search` and `park`, until `count` tasks were done by this worker.
    fn work(&self, worker: usize, parker: &Parker, count: usize) {
        self.work_from(false, worker, parker, count);
    }

    /// As [`work`](Self::work), by a worker that searches already.
    fn work_searching(&self, worker: usize, parker: &Parker, count: usize) {
        self.work_from(true, worker, parker, count);
    }

    fn work_from(&self, mut is_searching: bool, worker: usize, parker: &Parker, count: usize) {
        for _ in 0..count {
            loop {
                if self.take() {
                    if is_searching {
                        is_searching = false;
                        if self.idle.found() && self.has_work() {
                            self.notify();
                        }
                    }
                    self.done.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                if !is_searching {
                    is_searching = true;
                    self.idle.search();
                }
                let epoch = self.idle.prepare();
                if self.has_work() {
                    self.idle.resume();
                    continue;
                }
                if self.idle.enlist(worker, epoch) {
                    parker.park();
                    self.idle.delist(worker);
                }
            }
        }
    }
}

#[test]
fn a_task_for_a_worker_that_falls_asleep_wakes_it() {
    model::model(|| {
        let parker = Parker::new();
        let world = World::new(std::slice::from_ref(&parker));
        let theirs = Arc::clone(&world);
        let worker = thread::spawn(move || theirs.work(0, &parker, 1));
        world.push();
        worker.join().unwrap();
        assert_eq!(world.done.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn two_tasks_and_two_workers_that_take_one_each() {
    // The second task relies on a search that the first one may have ended.
    model::model(|| {
        let parkers = [Parker::new(), Parker::new()];
        let world = World::new(&parkers);
        let workers: Vec<_> = parkers
            .into_iter()
            .enumerate()
            .map(|(index, parker)| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.work(index, &parker, 1))
            })
            .collect();
        world.push();
        world.push();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(world.done.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn what_a_searcher_took_beside_is_seen_by_a_later_one() {
    // One worker takes two tasks, queues the second one as its own, ends its search and blocks in
    // the first one. The other one ends its search after that, and must not fall asleep.
    model::model(|| {
        let parkers = [Parker::new(), Parker::new()];
        let world = World::new(&parkers);
        let [_, parker] = parkers;
        world.idle.search();
        world.idle.search();
        let theirs = Arc::clone(&world);
        let other = thread::spawn(move || theirs.work_searching(1, &parker, 1));
        world.queued.store(1, Ordering::Relaxed);
        if world.idle.found() && world.has_work() {
            world.notify();
        }
        other.join().unwrap();
        assert_eq!(world.done.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn after_the_end_a_push_is_cancelled_by_one_of_both() {
    model::model(|| {
        let parker = Parker::new();
        let world = World::new(std::slice::from_ref(&parker));
        let theirs = Arc::clone(&world);
        let pusher = thread::spawn(move || {
            theirs.queued.fetch_add(1, Ordering::Relaxed);
            if theirs.idle.notify() == Notified::Ended && theirs.take() {
                theirs.done.fetch_add(1, Ordering::Relaxed);
            }
        });
        world.idle.end();
        if world.take() {
            world.done.fetch_add(1, Ordering::Relaxed);
        }
        pusher.join().unwrap();
        assert_eq!(world.done.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_move_of_the_clock_reaches_the_one_that_falls_asleep() {
    model::model(|| {
        let parker = Parker::new();
        let deadlines = Arc::new(Deadlines::new(&parker));
        deadlines.arm(1);
        let theirs = Arc::clone(&deadlines);
        let sleeper = thread::spawn(move || theirs.sleep(&parker));
        deadlines.move_clock();
        sleeper.join().unwrap();
        assert!(deadlines.fire(), "what is due is fired");
    });
}

#[test]
fn a_deadline_reaches_the_one_that_falls_asleep() {
    model::model(|| {
        let parker = Parker::new();
        let deadlines = Arc::new(Deadlines::new(&parker));
        let theirs = Arc::clone(&deadlines);
        let sleeper = thread::spawn(move || theirs.sleep(&parker));
        deadlines.arm(0);
        sleeper.join().unwrap();
        assert!(deadlines.fire(), "what is due is fired");
    });
}

#[test]
fn a_remote_task_meets_the_end_of_its_executor() {
    // One task is sent while the executor is dropped: its future is dropped once, and its handle
    // is complete when both are done.
    model::model(|| {
        let executor = LocalExecutor::new();
        let remote = executor.remote();
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = Count(Arc::clone(&dropped));
        let spawning = thread::spawn(move || {
            let mut batch = remote.batch();
            let handle = batch.spawn(move || async move { drop(count) });
            batch.send();
            handle
        });
        drop(executor);
        let handle = spawning.join().unwrap();
        assert!(handle.is_finished());
        // Relaxed: the join orders it.
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    });
}

/// Counts its drops.
struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        // Relaxed: the test reads it after a join.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_bell_ends_the_sleep_in_the_parker() {
    model::model(|| a_bell_ends_the_sleep(false));
}

#[test]
fn a_bell_ends_the_sleep_in_the_poll() {
    model::model(|| a_bell_ends_the_sleep(true));
}

/// Two threads ring. The sleeper ends its sleeps, and sees what both wrote: a poll is another
/// parker here.
fn a_bell_ends_the_sleep(in_poll: bool) {
    let (parker, poll) = (Parker::new(), Parker::new());
    let interrupt = poll.unparker();
    let bell = Bell::new(parker.unparker(), move || interrupt.unpark());
    let written = StdArc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let ringing = [0, 1].map(|at| {
        let (bell, written) = (StdArc::clone(&bell), StdArc::clone(&written));
        thread::spawn(move || {
            // Relaxed: the bell publishes it.
            written[at].store(true, Ordering::Relaxed);
            bell.ring();
        })
    });
    // Relaxed: as above.
    while !written.iter().all(|flag| flag.load(Ordering::Relaxed)) {
        if in_poll {
            bell.poll(|| poll.park());
        } else {
            bell.park(|| parker.park());
        }
    }
    for thread in ringing {
        thread.join().unwrap();
    }
}
