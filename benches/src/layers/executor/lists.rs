//! The run queues of the original design, under our tasks and our sleep: only a list under a mutex
//! for each worker. Tasks from outside go to the lists in turn, and a thief takes one task.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rast::executor::parts::{self, Idle, Notified, Schedule, Task};
use rast::executor::{block_on, yield_now};
use rast::primitive::{Parker, Unparker};

use super::rigs::{Join, Rig, pin};

const WORKERS: usize = 2;

thread_local! {
    /// Which worker the thread is.
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

struct Shared {
    lists: [Mutex<VecDeque<Task>>; WORKERS],
    idle: Idle,
    unparkers: [Unparker; WORKERS],
    next: AtomicUsize,
}

// SAFETY: there is no list of owned tasks, the workers hold the scheduler for ever, and the futures
// are `Send`.
unsafe impl Schedule for Shared {
    fn schedule(&self, task: Task) {
        let by_turns = || self.next.fetch_add(1, Ordering::Relaxed) % WORKERS;
        let list = WORKER.get().unwrap_or_else(by_turns);
        self.list(list, |tasks| tasks.push_back(task));
        if let Notified::Wake(worker) = self.idle.notify() {
            self.unparkers[worker].unpark();
        }
    }

    fn is_inside(&self) -> bool {
        WORKER.get().is_some()
    }

    fn forget(&self, _: &Task) {}
}

impl Shared {
    fn list<R>(&self, list: usize, f: impl FnOnce(&mut VecDeque<Task>) -> R) -> R {
        f(&mut self.lists[list].lock().expect("no panic"))
    }

    /// Takes a task of the worker itself, or else one of the other worker.
    fn take(&self, worker: usize) -> Option<Task> {
        (0..WORKERS).find_map(|step| self.list((worker + step) % WORKERS, VecDeque::pop_front))
    }

    fn has_work(&self) -> bool {
        (0..WORKERS).any(|list| self.list(list, |tasks| !tasks.is_empty()))
    }

    fn work(&self, worker: usize, parker: &Parker) {
        WORKER.set(Some(worker));
        let mut is_searching = false;
        loop {
            if let Some(task) = self.take(worker) {
                if std::mem::take(&mut is_searching)
                    && self.idle.found()
                    && self.has_work()
                    && let Notified::Wake(other) = self.idle.notify()
                {
                    self.unparkers[other].unpark();
                }
                if let Some(again) = parts::run(task) {
                    self.list(worker, |tasks| tasks.push_back(again));
                }
                continue;
            }
            if !std::mem::replace(&mut is_searching, true) {
                self.idle.search();
            }
            let epoch = self.idle.prepare();
            if self.has_work() {
                self.idle.resume();
            } else if self.idle.enlist(worker, epoch) {
                parker.park();
                self.idle.delist(worker);
            }
        }
    }
}

/// A runtime on these lists.
#[derive(Clone)]
pub(super) struct Lists(Arc<Shared>);

impl Rig for Lists {
    type Join = Join;

    fn start() -> Self {
        let parkers = [(); WORKERS].map(|()| Parker::new());
        let shared = Arc::new(Shared {
            lists: Default::default(),
            idle: Idle::new(WORKERS),
            unparkers: [0, 1].map(|worker: usize| parkers[worker].unparker()),
            next: AtomicUsize::new(0),
        });
        for (worker, parker) in parkers.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work(worker, &parker));
        }
        pin(Self(shared))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_joined(future).0.detach();
    }

    fn spawn_joined(&self, future: impl Future<Output = ()> + Send + 'static) -> Join {
        let (task, handle) = parts::spawn(future, &self.0);
        self.0.schedule(task);
        Join(handle)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        yield_now()
    }
}
