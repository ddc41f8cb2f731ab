//! Tasks for the tests of queues: they wait for ever, and count how many were cancelled.

use super::{Schedule, Setup, Task, make};
use crate::primitive::sync::Arc;
use crate::primitive::sync::Mutex;
use crate::priority::Priority;

/// A scheduler that counts.
pub(crate) struct Count(Mutex<usize>);

impl Count {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(0)))
    }

    pub(crate) fn cancelled(&self) -> usize {
        *self.0.lock()
    }
}

// SAFETY: there is no list, and `is_inside` is false; the futures are `Send`.
unsafe impl Schedule for Count {
    fn schedule(&self, task: Task) {
        task.cancel();
    }

    fn is_inside(&self) -> bool {
        false
    }

    fn forget(&self, _: &Task) {
        *self.0.lock() += 1;
    }
}

/// A task that is ready to run.
pub(crate) fn task(count: &Arc<Count>, priority: Priority) -> Task {
    let setup = Setup {
        priority,
        ..Setup::default()
    };
    // SAFETY: nothing is borrowed, and the future is `Send`.
    let (task, owned, handle) =
        unsafe { make(core::future::pending::<()>(), Arc::clone(count), setup) };
    let _ = owned.into_raw();
    handle.detach();
    task
}
