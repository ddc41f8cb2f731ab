//! An executor for one thread: its tasks, and the events that it waits for. Its loop is in
//! `local_executor.rs`.
//!
//! ```text
//!   wake-ups of this thread ──► ready lists ──► run        no lock, no fence
//!   wake-ups of others ──► injector ──┘                     looked at before each poll
//! ```
//!
//! Rule: a task is run, and its future dropped, only on the thread of its executor. A wake-up or an
//! abort from another thread pushes the task, with the right to run it, into the injector. The
//! injector lives as long as the tasks. An executor that is dropped drops the futures of all its
//! tasks and empties the injector, so a task that is pushed after that has no future.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec::Vec;

use crate::deadlines::{SharedClock, Timers};
use crate::driver::Driver;
use crate::injector::Injector;
use crate::lists::Lists;
use crate::owned::Owned;
use crate::primitive::Random;
use crate::primitive::sync::Arc;
use crate::sleepers::Sleepers;
use crate::task::{FUTURE_MAX, JoinHandle, Setup, Task, make};

/// Maximum number of deadlines that fire in one turn.
const EXPIRIES: usize = 128;

/// The part that wakers reach.
pub(crate) struct Shared {
    pub(crate) injector: Injector,
    pub(crate) owned: Owned,
    pub(crate) sleepers: Arc<Sleepers>,
}

impl Shared {
    /// Wakes the thread, or leaves a token.
    pub(crate) fn wake(&self) {
        self.sleepers.wake(0);
    }
}

/// The ready tasks.
pub(crate) enum Ready {
    /// By priority, first in first out.
    InOrder(Lists),
    /// In an order drawn from a seed.
    Seeded { tasks: Vec<Task>, random: Random },
}

impl Ready {
    pub(crate) fn push(&mut self, task: Task) {
        match self {
            Self::InOrder(lists) => lists.push(task),
            Self::Seeded { tasks, .. } => tasks.push(task),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::InOrder(lists) => lists.len() == 0,
            Self::Seeded { tasks, .. } => tasks.is_empty(),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Task> {
        match self {
            Self::InOrder(lists) => lists.pop(),
            Self::Seeded { tasks, .. } if tasks.is_empty() => None,
            Self::Seeded { tasks, random } => Some(tasks.swap_remove(random.below(tasks.len()))),
        }
    }
}

/// An executor of one thread, behind its public faces.
pub(crate) struct Local {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ready: RefCell<Ready>,
    pub(crate) timers: Arc<Timers>,
    driver: RefCell<Box<dyn Driver>>,
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    pub(crate) sockets: Option<crate::io::Sockets>,
    pub(crate) polls: Cell<u64>,
    /// How many more deadlines may fire in this turn.
    expiries: Cell<usize>,
}

impl Local {
    pub(crate) fn new(clock: SharedClock, seed: Option<u64>, driver: Box<dyn Driver>) -> Self {
        let sleepers = Arc::new(Sleepers::of_driver(driver.unparker()));
        let ready = match seed {
            None => Ready::InOrder(Lists::default()),
            Some(seed) => Ready::Seeded {
                tasks: Vec::new(),
                random: Random::new(seed),
            },
        };
        Self {
            timers: Arc::new(Timers::new(clock, 1, Arc::clone(&sleepers))),
            shared: Arc::new(Shared {
                injector: Injector::default(),
                owned: Owned::default(),
                sleepers,
            }),
            ready: RefCell::new(ready),
            #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
            sockets: driver.sockets(),
            driver: RefCell::new(driver),
            polls: Cell::new(0),
            expiries: Cell::new(EXPIRIES),
        }
    }

    /// Spawns a future that may borrow and may stay on this thread.
    ///
    /// # Safety
    ///
    /// What the future and its output borrow lives until the task is complete and the handle is
    /// dropped.
    pub(crate) unsafe fn spawn_unchecked<F: Future>(
        &self,
        future: F,
        setup: Setup,
    ) -> JoinHandle<F::Output> {
        // SAFETY: 1. by the caller; 2. this executor runs and drops the task on this thread.
        let (task, owned, handle) = unsafe { make(future, Arc::clone(&self.shared), setup) };
        // If a destructor spawns while the executor is dropped, the list is closed. Then the future
        // is dropped at once.
        match self.shared.owned.adopt(owned) {
            Ok(()) => self.ready.borrow_mut().push(task),
            Err(owned) => task.refuse(owned),
        }
        handle
    }

    pub(crate) fn spawn<F: Future + 'static>(
        &self,
        future: F,
        setup: Setup,
    ) -> JoinHandle<F::Output> {
        if size_of::<F>() > FUTURE_MAX {
            // SAFETY: nothing is borrowed.
            return unsafe { self.spawn_unchecked(Box::pin(future), setup) };
        }
        // SAFETY: as above.
        unsafe { self.spawn_unchecked(future, setup) }
    }

    /// Fires deadlines, up to the turn's bound; returns whether there was one.
    pub(crate) fn fire(&self) -> bool {
        let left = self.expiries.get();
        let fired = self.timers.fire_at_most(left);
        self.expiries.set(left - fired);
        fired != 0
    }

    pub(crate) fn submit(&self) {
        self.expiries.set(EXPIRIES);
        self.driver.borrow_mut().submit();
    }

    pub(crate) fn sleep(&self, timeout: Option<Duration>) {
        self.driver.borrow_mut().park(timeout);
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.shared.owned.close();
        self.timers.close();
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
        if let Some(sockets) = &self.sockets {
            sockets.0.close();
        }
        for task in self.shared.owned.all() {
            if let Some(task) = task.claim() {
                task.cancel();
            }
        }
        // Queued tasks were not claimed. Wait for a thread that has incremented the wake-ups of a
        // task and is about to push it.
        loop {
            while let Some(task) = self.ready.get_mut().pop() {
                task.cancel();
            }
            self.shared.injector.drain(Task::cancel);
            if self.shared.owned.len() == 0 {
                return;
            }
            crate::primitive::thread::yield_now();
        }
    }
}
