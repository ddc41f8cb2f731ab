//! Models of the lock-free steps, in every interleaving: the status word, the idle words, the join.
#![cfg(any(rast_loom, rast_shuttle))]

use rast_scheduler::primitive::cell::UnsafeCell;
use rast_scheduler::primitive::model::model;
use rast_scheduler::primitive::sync::Arc;
use rast_scheduler::primitive::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rast_scheduler::primitive::thread::{self, JoinHandle};
use rast_scheduler::protocol::{Found, Idle, Joined, SIGNALED, Status, WAITING, WOKEN};
use std::task::{Poll, Wake, Waker};

/// A cell that only the order of events keeps from racing; loom watches it.
struct Watched(UnsafeCell<u32>);

// SAFETY: the models order every access to the cell; loom fails one that does not.
unsafe impl Sync for Watched {}
// SAFETY: a number may be sent.
unsafe impl Send for Watched {}

impl Watched {
    fn write(&self, value: u32) {
        self.0.with_mut(|cell| {
            // SAFETY: ordered by the model, checked by loom.
            unsafe { *cell = value }
        });
    }

    fn read(&self) -> u32 {
        self.0.with(|cell| {
            // SAFETY: ordered by the model, checked by loom.
            unsafe { *cell }
        })
    }
}

/// A task without a body: its status, and a word that its holder writes.
struct Task {
    status: Status,
    data: Watched,
}

fn task() -> Arc<Task> {
    Arc::new(Task {
        status: Status::new(),
        data: Watched(UnsafeCell::new(0)),
    })
}

/// A thread that writes the task's word, then does `then`.
fn writes<T: Send + 'static>(
    task: &Arc<Task>,
    then: impl FnOnce(&Status) -> T + Send + 'static,
) -> JoinHandle<T> {
    let task = Arc::clone(task);
    thread::spawn(move || {
        task.data.write(1);
        then(&task.status)
    })
}

/// The step after a wake-up sees what the waker did.
#[test]
fn a_wake_up_publishes() {
    model(|| {
        let task = task();
        let waker = writes(&task, |status| status.raise(WOKEN));
        while !task.status.has(WOKEN) {
            thread::yield_now();
        }
        assert!(task.status.begin());
        assert_eq!(task.data.read(), 1);
        assert_eq!(waker.join().unwrap(), Found::Set);
    });
}

/// A wake-up publishes also where one was not seen yet.
#[test]
fn a_second_wake_up_publishes() {
    model(|| {
        let task = task();
        task.status.raise(WOKEN);
        let is_raised = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&is_raised);
        let waker = writes(&task, move |status| {
            status.raise(WOKEN);
            tells.store(true, Ordering::Relaxed);
        });
        if is_raised.load(Ordering::Relaxed) {
            assert!(task.status.begin());
            assert_eq!(task.data.read(), 1);
        }
        waker.join().unwrap();
    });
}

/// The thread that receives a signal sees what its sender did.
#[test]
fn a_signal_publishes() {
    model(|| {
        let task = task();
        let sender = writes(&task, |status| {
            status.raise(SIGNALED);
        });
        while !task.status.take_signal() {
            thread::yield_now();
        }
        assert_eq!(task.data.read(), 1);
        sender.join().unwrap();
    });
}

/// A task that waits is moved by one thread, which sees it as it was put to wait; a wake-up is not
/// lost.
#[test]
fn a_waiting_task_is_taken_once() {
    model(|| {
        let task = task();
        let theirs = Arc::clone(&task);
        let waker = thread::spawn(move || {
            let found = theirs.status.raise(WOKEN);
            if found == Found::Taken {
                assert_eq!(theirs.data.read(), 1);
            }
            found
        });
        task.data.write(1);
        let waits = task.status.wait();
        let claimed = waits && task.status.claim();
        let taken = waker.join().unwrap() == Found::Taken;
        assert_eq!(
            usize::from(claimed) + usize::from(taken),
            usize::from(waits)
        );
        assert!(task.status.has(WOKEN) && !task.status.has(WAITING));
    });
}

/// The next holder of the role, which saw WAITING, sees the task as it was put to wait.
#[test]
fn a_claim_sees_the_wait() {
    model(|| {
        let task = task();
        let role = writes(&task, Status::wait);
        while !task.status.claim() {
            thread::yield_now();
        }
        assert_eq!(task.data.read(), 1);
        assert!(role.join().unwrap());
    });
}

/// The thread that finds the task finished sees what it did.
#[test]
fn the_end_publishes() {
    model(|| {
        let task = task();
        let ends = writes(&task, Status::finish);
        if task.status.raise(WOKEN) == Found::Finished && task.status.is_finished() {
            assert_eq!(task.data.read(), 1);
        }
        ends.join().unwrap();
    });
}

/// The same where the end gives up the reference too.
#[test]
fn the_end_with_its_reference_publishes() {
    model(|| {
        let task = task();
        task.status.share();
        let ends = writes(&task, |status| status.release(true));
        if task.status.is_finished() {
            assert_eq!(task.data.read(), 1);
        }
        assert!(!ends.join().unwrap());
    });
}

/// The last reference frees the task after all other uses.
#[test]
fn the_last_reference_is_one_and_comes_last() {
    model(|| {
        let task = task();
        task.status.share();
        let theirs = Arc::clone(&task);
        let other = thread::spawn(move || {
            theirs.data.read();
            let is_last = theirs.status.release(false);
            if is_last {
                theirs.data.write(2);
            }
            is_last
        });
        task.data.read();
        let is_last = task.status.release(true);
        if is_last {
            task.data.write(2);
        }
        assert_ne!(other.join().unwrap(), is_last);
    });
}

/// A task whose owner has the only reference may be freed at once.
#[test]
fn the_sole_reference_comes_last() {
    model(|| {
        let task = task();
        task.status.share();
        let theirs = Arc::clone(&task);
        let other = thread::spawn(move || {
            theirs.data.read();
            theirs.status.release(false);
        });
        if task.status.is_sole() {
            task.data.write(2);
        }
        other.join().unwrap();
    });
}

/// A worker that sleeps while there is work is a deadlock, which the checkers find.
fn loses_no_wake_up(cheap: bool) {
    let (idle, parkers) = Idle::with_barrier(1, cheap);
    let (idle, work) = (Arc::new(idle), Arc::new(AtomicBool::new(false)));
    let (theirs, pushed) = (Arc::clone(&idle), Arc::clone(&work));
    let pusher = thread::spawn(move || {
        pushed.store(true, Ordering::Relaxed);
        theirs.notify();
    });
    assert!(idle.announce(0));
    if !work.load(Ordering::Relaxed) {
        parkers[0].park();
    }
    idle.rise(0);
    pusher.join().unwrap();
}

#[test]
fn no_wake_up_is_lost() {
    model(|| loses_no_wake_up(true));
}

/// Where the system has no barrier, both sides fence.
#[test]
fn no_wake_up_is_lost_without_the_barrier() {
    model(|| loses_no_wake_up(false));
}

/// Of two threads that push, one may stop between its mark and its wake-up: the other wakes the
/// worker.
#[test]
fn a_second_push_wakes_too() {
    model(|| {
        let (idle, parkers) = Idle::with_barrier(1, true);
        let (idle, work) = (Arc::new(idle), Arc::new(AtomicUsize::new(0)));
        let pushers = [(); 2].map(|()| {
            let (idle, work) = (Arc::clone(&idle), Arc::clone(&work));
            thread::spawn(move || {
                work.fetch_add(1, Ordering::Relaxed);
                idle.notify();
            })
        });
        let mut seen = 0;
        while seen < 2 {
            assert!(idle.announce(0));
            let now = work.load(Ordering::Relaxed);
            if now == seen {
                parkers[0].park();
            }
            idle.rise(0);
            seen = now;
        }
        for pusher in pushers {
            pusher.join().unwrap();
        }
    });
}

/// The thread that sees a worker asleep sees what that worker pushed before.
#[test]
fn a_look_sees_what_the_sleeper_pushed() {
    model(|| {
        let (idle, _parkers) = Idle::with_barrier(1, true);
        let (idle, work) = (Arc::new(idle), Arc::new(AtomicBool::new(false)));
        let (theirs, pushed) = (Arc::clone(&idle), Arc::clone(&work));
        let sleeper = thread::spawn(move || {
            pushed.store(true, Ordering::Relaxed);
            assert!(theirs.announce(0));
        });
        if idle.look() != 0 {
            assert!(work.load(Ordering::Relaxed));
        }
        sleeper.join().unwrap();
    });
}

/// The keeper of the time sleeps until the earlier deadline, or is told of it.
#[test]
fn the_keeper_is_told_of_an_earlier_deadline() {
    model(|| {
        let (idle, parkers) = Idle::with_barrier(1, true);
        let (idle, next) = (Arc::new(idle), Arc::new(AtomicUsize::new(9)));
        let (theirs, earlier) = (Arc::clone(&idle), Arc::clone(&next));
        let role = thread::spawn(move || {
            earlier.store(5, Ordering::Relaxed);
            theirs.hasten();
        });
        assert!(idle.keep(0));
        if next.load(Ordering::Relaxed) == 9 {
            parkers[0].park();
        }
        role.join().unwrap();
    });
}

/// A worker that woke and took the work is not asleep.
#[test]
fn calm_is_not_told_while_a_worker_works() {
    model(|| {
        let (idle, _parkers) = Idle::with_barrier(1, true);
        assert!(idle.announce(0));
        let (idle, work) = (Arc::new(idle), Arc::new(AtomicBool::new(true)));
        let (theirs, takes) = (Arc::clone(&idle), Arc::clone(&work));
        let worker = thread::spawn(move || {
            theirs.rise(0);
            takes.store(false, Ordering::Relaxed);
        });
        assert!(!idle.is_calm(1, || !work.load(Ordering::Relaxed)));
        worker.join().unwrap();
    });
}

/// What a worker did before it fell asleep is seen by the thread that finds it asleep.
#[test]
fn calm_sees_what_the_sleepers_did() {
    model(|| {
        let (idle, _parkers) = Idle::with_barrier(1, true);
        let (idle, timed) = (Arc::new(idle), Arc::new(AtomicUsize::new(0)));
        let (theirs, stores) = (Arc::clone(&idle), Arc::clone(&timed));
        let worker = thread::spawn(move || {
            stores.store(1, Ordering::Relaxed);
            assert!(theirs.announce(0));
        });
        assert!(!idle.is_calm(1, || timed.load(Ordering::Relaxed) == 0));
        worker.join().unwrap();
    });
}

/// A waker that counts its calls.
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: std::sync::Arc<Self>) {
        // Release: the handle sees the end after the call.
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// A poll beside the end of the task gets the result, or its waker is called.
#[test]
fn a_poll_gets_the_result_or_a_call() {
    model(|| {
        let joined = Arc::new(Joined::new());
        let ends = Arc::clone(&joined);
        let task = thread::spawn(move || {
            ends.succeed(1);
            ends.announce();
        });
        let calls = std::sync::Arc::new(Calls(AtomicUsize::new(0)));
        let waker = Waker::from(std::sync::Arc::clone(&calls));
        let first = joined.poll(&waker);
        task.join().unwrap();
        match first {
            Poll::Ready(result) => assert!(matches!(result, Ok(1))),
            Poll::Pending => {
                assert_eq!(calls.0.load(Ordering::Acquire), 1);
                assert!(matches!(joined.poll(&waker), Poll::Ready(Ok(1))));
            }
        }
    });
}
