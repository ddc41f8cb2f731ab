//! The trivial twin: one list under a mutex, a condition variable that is notified only if a worker
//! waits, and a heap of deadlines whose entries are dropped lazily.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::processors;

/// The result of a step.
pub(super) enum Then {
    Again,
    Wait,
    Exit,
}

/// A task: its body, and the flags that a wake-up sets.
pub(super) struct Task {
    body: Mutex<Box<dyn FnMut() -> Then + Send>>,
    is_waiting: AtomicBool,
    /// Entries of the heap with another number are old.
    number: AtomicU64,
}

impl Task {
    pub(super) fn new(body: impl FnMut() -> Then + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            body: Mutex::new(Box::new(body)),
            is_waiting: AtomicBool::new(false),
            number: AtomicU64::new(0),
        })
    }
}

/// A deadline, the number of its entry, and its place in order.
type Entry = Reverse<(Instant, u64, usize)>;

#[derive(Default)]
struct Lists {
    ready: VecDeque<Arc<Task>>,
    deadlines: BinaryHeap<Entry>,
    /// The tasks of the heap, by place.
    waiting: Vec<Option<(Arc<Task>, u64)>>,
    sleepers: usize,
    is_stopping: bool,
}

#[derive(Default)]
struct Shared {
    lists: Mutex<Lists>,
    changed: Condvar,
}

pub(super) struct Twin {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Twin {
    pub(super) fn new(workers: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let threads = (0..workers)
            .map(|worker| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    processors::pin_in_turn(worker);
                    shared.work();
                })
            })
            .collect();
        Self { shared, threads }
    }

    pub(super) fn post(&self, task: Arc<Task>) {
        let mut lists = self.shared.lists.lock().expect("no panic");
        lists.ready.push_back(task);
        self.notify(&lists);
    }

    pub(super) fn post_at(&self, task: Arc<Task>, at: Instant) {
        task.is_waiting.store(true, Ordering::Relaxed);
        let number = task.number.fetch_add(1, Ordering::Relaxed) + 1;
        let mut lists = self.shared.lists.lock().expect("no panic");
        let place = lists.waiting.len();
        lists.waiting.push(Some((task, number)));
        lists.deadlines.push(Reverse((at, number, place)));
        self.notify(&lists);
    }

    pub(super) fn post_wait(&self, task: &Arc<Task>) {
        task.is_waiting.store(true, Ordering::Relaxed);
    }

    pub(super) fn wake(&self, task: &Arc<Task>) {
        let mut lists = self.shared.lists.lock().expect("no panic");
        if task.is_waiting.swap(false, Ordering::Relaxed) {
            task.number.fetch_add(1, Ordering::Relaxed);
            lists.ready.push_back(Arc::clone(task));
            self.notify(&lists);
        }
    }

    fn notify(&self, lists: &Lists) {
        if lists.sleepers > 0 {
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut lists = self.lists.lock().expect("no panic");
        while !lists.is_stopping {
            if let Some(Reverse((at, _, _))) = lists.deadlines.peek()
                && *at <= Instant::now()
                && let Some(Reverse((_, number, place))) = lists.deadlines.pop()
                && let Some((task, _)) = lists.waiting[place].take()
                && task.number.load(Ordering::Relaxed) == number
            {
                task.is_waiting.store(false, Ordering::Relaxed);
                lists.ready.push_back(task);
            }
            if let Some(task) = lists.ready.pop_front() {
                drop(lists);
                let then = (task.body.lock().expect("no panic"))();
                match then {
                    Then::Exit => {
                        drop(task);
                        lists = self.lists.lock().expect("no panic");
                    }
                    Then::Again => {
                        lists = self.lists.lock().expect("no panic");
                        lists.ready.push_back(task);
                    }
                    Then::Wait => {
                        task.is_waiting.store(true, Ordering::Relaxed);
                        lists = self.lists.lock().expect("no panic");
                    }
                }
                continue;
            }
            let next = lists.deadlines.peek().map(|entry| entry.0.0);
            lists.sleepers += 1;
            lists = match next {
                None => self.changed.wait(lists).expect("no panic"),
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    let left = left.max(Duration::from_nanos(1));
                    self.changed.wait_timeout(lists, left).expect("no panic").0
                }
            };
            lists.sleepers -= 1;
        }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        self.shared.lists.lock().expect("no panic").is_stopping = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            thread.join().expect("a worker does not panic");
        }
    }
}
