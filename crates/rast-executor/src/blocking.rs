//! Threads for calls that block.

use core::time::Duration;
use std_alloc::format;
use std_alloc::string::String;

use crate::chain::Chain;
use crate::owned::Owned;
use crate::primitive::sync::{Arc, Condvar, Mutex};
use crate::primitive::thread;
use crate::task::{JoinHandle, Schedule, Setup, Task, make};

/// Settings of a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolSetup {
    pub(crate) threads_max: usize,
    pub(crate) keep_alive: Duration,
    pub(crate) name: String,
}

#[derive(Default)]
struct State {
    queue: Chain,
    /// Number of threads that wait, or were woken and do not have the lock yet. Each counts itself.
    waiting: usize,
    threads: usize,
    named: usize,
    is_closed: bool,
}

/// State shared by threads and tasks.
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    owned: Owned,
    setup: PoolSetup,
}

/// The pool: its threads start when there is work, and end after a time without work.
pub(crate) struct Pool(Arc<Shared>);

// SAFETY: 1. `forget` unlinks from the list of this pool, which adopted the task. 2. `is_inside` is
// false. 3. The calls are `Send`.
unsafe impl Schedule for Shared {
    fn schedule(&self, task: Task) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            task.cancel();
            return;
        }
        state.queue.push(task);
        if state.queue.len() <= state.waiting {
            drop(state);
            self.wake.notify_one();
            return;
        }
        if state.threads < self.setup.threads_max {
            state.threads += 1;
            state.named += 1;
            let name = format!("{}-blocking-{}", self.setup.name, state.named);
            drop(state);
            self.start(name);
        }
    }

    fn is_inside(&self) -> bool {
        false
    }

    fn forget(&self, task: &Task) {
        // SAFETY: every task of this scheduler was adopted by this list, or by none.
        unsafe { self.owned.forget(task) };
    }
}

impl Shared {
    fn start(&self, name: String) {
        // SAFETY: `Pool::new` alone makes this type, in an `Arc`, and the caller has a reference.
        unsafe { Arc::increment_strong_count(self) };
        // SAFETY: the count above is this one's.
        let this = unsafe { Arc::from_raw(core::ptr::from_ref(self)) };
        if thread::spawn_named(name, move || this.serve()).is_err() {
            let mut state = self.state.lock();
            state.threads -= 1;
            if state.threads == 0 {
                // The system cannot start even one thread: the calls are cancelled.
                let queue = core::mem::take(&mut state.queue);
                drop(state);
                drop(queue);
            }
        }
    }

    fn serve(&self) {
        let yielded = core::cell::Cell::new(false);
        let mut state = self.state.lock();
        loop {
            while let Some(task) = state.queue.pop() {
                drop(state);
                task.run(&yielded);
                state = self.state.lock();
            }
            if state.is_closed {
                break;
            }
            state.waiting += 1;
            let expired = self.wake.wait_timeout(&mut state, self.setup.keep_alive);
            state.waiting -= 1;
            if expired && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

impl Pool {
    pub(crate) fn new(setup: PoolSetup) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            wake: Condvar::new(),
            owned: Owned::default(),
            setup,
        }))
    }

    pub(crate) fn spawn<T, F>(&self, call: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let future = async move { call() };
        // SAFETY: nothing is borrowed, and the future is `Send`.
        let (task, owned, handle) = unsafe { make(future, Arc::clone(&self.0), Setup::default()) };
        match self.0.owned.adopt(owned) {
            Ok(()) => self.0.schedule(task),
            Err(owned) => task.refuse(owned),
        }
        handle
    }

    /// Rejects calls from now on, and cancels those that have not begun.
    pub(crate) fn close(&self) {
        self.0.owned.close();
        let mut state = self.0.state.lock();
        state.is_closed = true;
        let queue = core::mem::take(&mut state.queue);
        drop(state);
        self.0.wake.notify_all();
        drop(queue);
    }

    /// Returns how many calls are queued or running.
    pub(crate) fn calls(&self) -> usize {
        self.0.owned.len()
    }

    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.0.state.lock().threads
    }
}
