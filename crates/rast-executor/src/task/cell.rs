//! A task with its types: making it, running it, freeing it.

use core::any::Any;
use core::mem::{ManuallyDrop, offset_of};
use core::pin::Pin;
use core::ptr::{self, NonNull};
use core::task::{Context, Poll};
use std_alloc::alloc::handle_alloc_error;
use std_alloc::boxed::Box;

use super::header::{Header, Task, TaskRef, Vtable, release};
use super::join::{JoinError, JoinHandle};
use super::state::State;
use super::waker;
use crate::alloc::{Allocator, Layout, RastAlloc};
use crate::primitive::Link;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::{contain, quietly};
use crate::primitive::sync::Arc;
use crate::priority::Priority;

/// Runs tasks: queues woken tasks, and has a list of all tasks that are not complete.
///
/// # Safety
///
/// 1. `forget` unlinks the task from the list that `adopt` put it into.
/// 2. If `is_inside` returns `true`, the scheduler stays alive until the calling thread returns to
///    the code that runs its tasks.
/// 3. If the future of a task is not `Send`, one thread alone polls it. After the first poll only
///    that thread drops it. Before the first poll another thread may drop it only if its contents
///    are still `Send`.
pub unsafe trait Schedule: Send + Sync + Sized + 'static {
    /// Queues `task`, or cancels it if nothing runs any more.
    fn schedule(&self, task: Task);

    /// Returns whether the calling thread runs tasks of this scheduler now.
    fn is_inside(&self) -> bool;

    /// Takes a complete task from the list of owned tasks.
    fn forget(&self, task: &Task);
}

/// A future, or after completion its output.
union Stage<F: Future> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<Result<F::Output, JoinError>>,
}

/// A task with its types.
#[repr(C)]
struct Cell<F: Future> {
    header: Header,
    stage: UnsafeCell<Stage<F>>,
}

/// How a task is set up.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) name: Option<Box<str>>,
    pub(crate) priority: Priority,
}

/// Maximum size of a future that is stored in its task, in bytes; a larger one is boxed.
pub(crate) const FUTURE_MAX: usize = 2048;

/// A new task: the right to run it, the reference of the list of owned tasks, and its handle.
pub(crate) type Made<T> = (Task, TaskRef, JoinHandle<T>);

/// Makes a task.
///
/// # Safety
///
/// 1. The future, its output and what they borrow live until the task is complete and the output is
///    taken or dropped.
/// 2. If the future is not `Send`, `scheduler` runs and drops it as its rule 3 says.
pub(crate) unsafe fn make<F: Future, S: Schedule>(
    future: F,
    scheduler: Arc<S>,
    setup: Setup,
) -> Made<F::Output> {
    let layout = const { Layout::new::<Cell<F>>() };
    let Ok(memory) = RastAlloc.allocate(layout) else {
        handle_alloc_error(layout);
    };
    let cell = memory.cast::<Cell<F>>();
    let value = Cell {
        header: Header {
            state: State::new(),
            vtable: &Types::<F, S>::VTABLE,
            queue_next: UnsafeCell::new(Link::NULL),
            owned_prev: UnsafeCell::new(None),
            owned_next: UnsafeCell::new(None),
            scheduler: Arc::into_raw(scheduler).cast(),
            join_waker: UnsafeCell::new(None),
            name: setup.name.map(Box::new),
            priority: setup.priority,
            queued: UnsafeCell::new([0; 7]),
        },
        stage: UnsafeCell::new(Stage {
            future: ManuallyDrop::new(future),
        }),
    };
    // SAFETY: the memory is new and fits.
    unsafe { cell.write(value) };
    let raw = cell.cast::<Header>();
    // SAFETY: the state begins with the right to run, and a reference for it.
    let task = unsafe { Task::from_raw(raw) };
    // SAFETY: the state begins with a reference for the list.
    let owned = unsafe { TaskRef::from_raw(raw) };
    // SAFETY: the state begins with the interest, and a reference for it.
    let handle = unsafe { JoinHandle::new(raw) };
    (task, owned, handle)
}

/// Returns the future and frees the task, which was made and never queued.
///
/// # Safety
///
/// The three values are of one call of [`make`] with this `F`, and there is no other reference.
pub(crate) unsafe fn unmake<F: Future>((task, owned, handle): Made<F::Output>) -> F {
    let raw = task.into_raw();
    core::mem::forget((owned, handle));
    let cell = raw.cast::<Cell<F>>();
    // SAFETY: the task is the caller's alone, and alive.
    let cell = unsafe { cell.as_ref() };
    let future = cell.stage.with_mut(|stage| {
        // SAFETY: the task was never run, so the stage is the future, and this the one access.
        let future = unsafe { &raw const (*stage).future };
        // SAFETY: it is read once, since the memory is freed below.
        unsafe { ptr::read(future) }
    });
    let free = cell.header.vtable.free;
    // SAFETY: the three references are gone, and the future is out.
    unsafe { free(raw) };
    ManuallyDrop::into_inner(future)
}

/// The functions of the vtable for one pair of types.
struct Types<F, S>(core::marker::PhantomData<(F, S)>);

impl<F: Future, S: Schedule> Types<F, S> {
    const VTABLE: Vtable = Vtable {
        run: Self::run,
        cancel: Self::cancel,
        schedule: Self::schedule,
        is_inside: Self::is_inside,
        take_output: Self::take_output,
        drop_output: Self::drop_output,
        free: Self::free,
    };

    /// The stage of a task.
    fn stage<'a>(raw: NonNull<Header>) -> &'a UnsafeCell<Stage<F>> {
        // SAFETY: every function of this table is called with a task of these types that is alive;
        // the reference is used while it is.
        let cell: &Cell<F> = unsafe { &*raw.cast::<Cell<F>>().as_ptr() };
        &cell.stage
    }

    /// The scheduler of a task.
    fn scheduler<'a>(raw: NonNull<Header>) -> &'a S {
        // SAFETY: the task is alive, as above.
        let scheduler = unsafe { raw.as_ref() }.scheduler.cast::<S>();
        // SAFETY: it is from `Arc::into_raw`, and the task owns that count.
        unsafe { &*scheduler }
    }

    unsafe fn run(raw: NonNull<Header>, yielded: &core::cell::Cell<bool>) -> bool {
        // SAFETY: the right to run comes with a reference.
        let header = unsafe { raw.as_ref() };
        let begun = header.state.begin();
        if begun.is_aborted() {
            // SAFETY: the right to run is passed on.
            unsafe { Self::cancel(raw) };
            return false;
        }
        yielded.set(false);
        // SAFETY: the waker is used during the poll, and the task stays until the end of the run.
        let waker = unsafe { waker::lent(raw) };
        let polled = Self::stage(raw).with_mut(|stage| {
            let poll = || {
                // SAFETY: the right to run makes this the one access.
                let stage = unsafe { &mut *stage };
                // SAFETY: the future was not dropped, since the task is not complete.
                let future = unsafe { &mut stage.future };
                // SAFETY: a future is not moved out of its task.
                let future = unsafe { Pin::new_unchecked(&mut **future) };
                future.poll(&mut Context::from_waker(&waker))
            };
            contain(poll)
        });
        let result = match polled {
            Ok(Poll::Pending) => return yielded.replace(false) || header.state.end(begun),
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(payload),
        };
        // SAFETY: the right to run is passed on.
        unsafe { Self::finish(raw, result) };
        false
    }

    unsafe fn cancel(raw: NonNull<Header>) {
        let stage = Self::stage(raw);
        // SAFETY: the right to run is the caller's.
        let result = match unsafe { Self::drop_future(stage) } {
            Ok(()) => JoinError::cancelled(),
            Err(payload) => JoinError::panicked(payload),
        };
        // SAFETY: the right to run is passed on, and the future is dropped.
        unsafe { Self::complete(raw, Err(result)) };
    }

    /// Drops the future; a panic of its destructor is caught.
    ///
    /// # Safety
    ///
    /// The caller has the right to run, and the future is not dropped yet.
    unsafe fn drop_future(stage: &UnsafeCell<Stage<F>>) -> Result<(), Box<dyn Any + Send>> {
        stage.with_mut(|stage| {
            let drop = || {
                // SAFETY: the right to run makes this the one access.
                let stage = unsafe { &mut *stage };
                // SAFETY: by the caller the future is there.
                let future = unsafe { &mut stage.future };
                // SAFETY: it is dropped in place, once.
                unsafe { ManuallyDrop::drop(future) }
            };
            contain(drop)
        })
    }

    /// Drops the future and completes with the result of its last poll.
    ///
    /// # Safety
    ///
    /// As for `run`; the future returned, or panicked.
    unsafe fn finish(raw: NonNull<Header>, result: Result<F::Output, Box<dyn Any + Send>>) {
        // SAFETY: the right to run is the caller's.
        let dropped = unsafe { Self::drop_future(Self::stage(raw)) };
        let result = match (result, dropped) {
            (Ok(output), Ok(())) => Ok(output),
            (Ok(output), Err(payload)) => {
                quietly(|| drop(output));
                Err(JoinError::panicked(payload))
            }
            (Err(payload), dropped) => {
                quietly(|| drop(dropped));
                Err(JoinError::panicked(payload))
            }
        };
        // SAFETY: the right to run is passed on, and the future is dropped.
        unsafe { Self::complete(raw, result) };
    }

    /// Stores the result and ends the task.
    ///
    /// # Safety
    ///
    /// The caller has the right to run with its reference, and the future is dropped.
    unsafe fn complete(raw: NonNull<Header>, result: Result<F::Output, JoinError>) {
        // SAFETY: the right to run comes with a reference, which is kept to the end.
        let header = unsafe { raw.as_ref() };
        // SAFETY: the right is not used for anything else meanwhile.
        let task = ManuallyDrop::new(unsafe { Task::from_raw(raw) });
        if !header.state.load().has_interest() {
            // No handle asks for the result, and none is made later.
            quietly(|| drop(result));
            Self::scheduler(raw).forget(&task);
            if header.state.complete_and_release() {
                // SAFETY: those were the last references.
                unsafe { Self::free(raw) };
            }
            return;
        }
        Self::stage(raw).with_mut(|stage| {
            // SAFETY: the right to run makes this the one access.
            let stage = unsafe { &mut *stage };
            // The future is dropped.
            stage.output = ManuallyDrop::new(result);
        });
        Self::scheduler(raw).forget(&task);
        if header.state.complete_for_handle() {
            return;
        }
        let seen = header.state.complete();
        if !seen.has_interest() {
            quietly(|| {
                // SAFETY: by rule 4 of the state the output is the runner's.
                unsafe { Self::drop_output(raw) }
            });
        } else if seen.has_join_waker() {
            let waker = header.join_waker.with_mut(|waker| {
                // SAFETY: by rule 5 of the state the waker is the runner's.
                unsafe { (*waker).take() }
            });
            quietly(|| waker.into_iter().for_each(core::task::Waker::wake));
        }
        // SAFETY: the references of the queue entry and of the list.
        unsafe { release(raw, 2) };
    }

    unsafe fn schedule(raw: NonNull<Header>) {
        // SAFETY: the right to run is passed on.
        let task = unsafe { Task::from_raw(raw) };
        Self::scheduler(raw).schedule(task);
    }

    unsafe fn is_inside(raw: NonNull<Header>) -> bool {
        Self::scheduler(raw).is_inside()
    }

    unsafe fn take_output(raw: NonNull<Header>, place: *mut ()) {
        let output = Self::stage(raw).with_mut(|stage| {
            // SAFETY: by the caller the task is complete and the output its own.
            let output = unsafe { &raw const (*stage).output };
            // SAFETY: it is moved once.
            unsafe { ptr::read(output) }
        });
        let place = place.cast::<Result<F::Output, JoinError>>();
        // SAFETY: by the caller the place is one for this type.
        unsafe { place.write(ManuallyDrop::into_inner(output)) };
    }

    unsafe fn drop_output(raw: NonNull<Header>) {
        Self::stage(raw).with_mut(|stage| {
            // SAFETY: by the caller the task is complete and the output its own.
            let stage = unsafe { &mut *stage };
            // SAFETY: the output was written when the task completed.
            let output = unsafe { &mut stage.output };
            // SAFETY: it is dropped once.
            unsafe { ManuallyDrop::drop(output) }
        });
    }

    unsafe fn free(raw: NonNull<Header>) {
        const { assert!(offset_of!(Cell<F>, header) == 0) };
        // SAFETY: the last reference is gone, so this is the one access.
        let header = unsafe { &mut *raw.as_ptr() };
        // SAFETY: it is from `Arc::into_raw`, and the task owns that count.
        let scheduler = unsafe { Arc::from_raw(header.scheduler.cast::<S>()) };
        // SAFETY: the stage is empty, by the rules of the state; the header is dropped once.
        unsafe { ptr::drop_in_place(header) };
        // SAFETY: the memory is of this allocator and layout.
        unsafe { RastAlloc.deallocate(raw.cast(), Layout::new::<Cell<F>>()) };
        // Last, because its destructor may run user code.
        drop(scheduler);
    }
}
