//! The scheduler of a runtime's tasks: a woken task enters the queue of the worker that wakes it,
//! or the injector.

use crate::context::{self, Context, Place};
use crate::primitive::sync::Arc;
use crate::runtime::lane::Lane;
use crate::runtime::worker::Worker;
use crate::task::{Schedule, Task};

impl Lane {
    /// Returns the context of a thread that is not a worker and acts for this runtime.
    pub(crate) fn outside<'a>(this: &'a Arc<Self>) -> Context<'a> {
        let shard = this.shared.queues.len();
        Context::new(Place::Outside(this), &this.shared.timers, shard)
    }

    /// Returns the worker of this runtime on the calling thread, if it is one.
    #[inline]
    pub(crate) fn worker<'a>(&self, context: Option<&Context<'a>>) -> Option<&'a Worker> {
        match context?.place {
            Place::Worker(worker) if Arc::ptr_eq(&worker.shared, &self.shared) => Some(worker),
            _ => None,
        }
    }
}

// SAFETY: 1. `forget` unlinks from this lane's list, which adopted the task. 2. A worker holds the
// shared part, which holds all lanes while a worker runs. 3. The futures of a runtime are `Send`.
unsafe impl Schedule for Lane {
    #[inline]
    fn schedule(&self, task: Task) {
        context::with(|context| match self.worker(context) {
            Some(worker) => worker.push(task),
            None => self.shared.inject(task),
        });
    }

    #[inline]
    fn is_inside(&self) -> bool {
        context::with(|context| self.worker(context).is_some())
    }

    fn forget(&self, task: &Task) {
        // SAFETY: every task of this scheduler was adopted by this list, or by none.
        unsafe { self.owned.forget(task) };
        self.shared.note_complete();
    }
}
