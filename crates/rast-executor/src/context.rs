//! The executor of the calling thread, through which free functions find it.

use core::cell::Cell;
use core::ptr;
use std_alloc::rc::Rc;

use crate::budget;
use crate::deadlines::Timers;
use crate::local::Local;
use crate::primitive::{self, sync::Arc};
use crate::runtime::lane::Lane;
use crate::runtime::worker::Worker;

/// The executor of a thread.
pub(crate) enum Place<'a> {
    /// A worker of a runtime runs its tasks.
    Worker(&'a Worker),
    /// A thread of no runtime waits in `block_on`.
    Outside(&'a Arc<Lane>),
    /// A `LocalExecutor` runs its tasks.
    Local(&'a Rc<Local>),
}

/// State of a thread that runs an executor.
pub(crate) struct Context<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) timers: &'a Arc<Timers>,
    /// Index of the timer store for sleeps.
    pub(crate) shard: usize,
    /// The task that is being polled.
    pub(crate) task: Cell<*const ()>,
    /// `true` if that task yielded.
    pub(crate) yielded: Cell<bool>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(place: Place<'a>, timers: &'a Arc<Timers>, shard: usize) -> Self {
        Self {
            place,
            timers,
            shard,
            task: Cell::new(ptr::null()),
            yielded: Cell::new(false),
        }
    }
}

primitive::thread_local! {
    static CURRENT: Cell<*const Context<'static>> = const { Cell::new(ptr::null()) };
}

/// Calls `f` while `context` is that of the calling thread, without a limit on the budget.
pub(crate) fn enter<R>(context: &Context<'_>, f: impl FnOnce() -> R) -> R {
    /// Restores the previous context and budget, also on a panic.
    struct Former {
        context: *const Context<'static>,
        budget: u32,
    }
    impl Drop for Former {
        fn drop(&mut self) {
            let _ = CURRENT.try_with(|current| current.set(self.context));
            budget::replace(self.budget);
        }
    }
    let address = ptr::from_ref(context).cast::<Context<'static>>();
    let _former = Former {
        context: CURRENT.with(|current| current.replace(address)),
        budget: budget::replace(budget::UNLIMITED),
    };
    f()
}

/// Calls `f` with the context of the thread; with `None` if there is none, or if the thread is
/// ending.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(Option<&Context<'_>>) -> R) -> R {
    let address = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: `enter` keeps the context alive until it restores the previous one, on this thread;
    // the lifetime ends with this call.
    f(unsafe { address.as_ref() })
}

/// Panics if the thread runs tasks, because blocking it would block them.
#[track_caller]
pub(crate) fn refuse_nested(what: &str) {
    let is_inside = with(|context| context.is_some());
    assert!(
        !is_inside,
        "{what} inside of an executor would block the thread that runs its tasks; await instead, \
         or use spawn_blocking"
    );
}

/// Panic message of a free function outside an executor.
pub(crate) const OUTSIDE: &str = "no executor runs on this thread: call this inside of \
    Runtime::block_on, LocalExecutor::run or a task";
