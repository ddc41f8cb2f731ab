//! The memory of a task: one allocation behind a thin pointer.
//!
//! ```text
//!   NonNull<Header>                               80 bytes, then the stage
//!        │
//!        ▼
//!  ┌───────┬────────┬──────┬───────────┬───────────┬────────────┬──────┬──────────┬────────┬───────────────┐
//!  │ state │ vtable │ next │ prev next │ scheduler │ join waker │ name │ priority │ queued │ future/output │
//!  └───────┴────────┴──────┴───────────┴───────────┴────────────┴──────┴──────────┴────────┴───────────────┘
//! ```
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | state | all, see `state.rs` | all |
//! | vtable, scheduler, name, priority | spawn | all |
//! | next | the thread with the right to run, when it queues the task | the thread that owns the queue |
//! | queued | the thread with the right to run, before it queues the task | the runner |
//! | prev, next of the owned list | any thread, under the lock of the list | the same |
//! | join waker | by rules 4 and 5 of the state | the same |
//! | stage (future or output) | the runner; after completion the handle | the same |
//!
//! A task is dropped in two steps: its future when the task is complete, and its memory when the
//! last reference is dropped.

use core::cell::Cell;
use core::ptr::NonNull;
use core::task::Waker;
use std_alloc::boxed::Box;

use super::state::State;
use crate::primitive::Link;
use crate::primitive::cell::UnsafeCell;
use crate::priority::Priority;

/// Functions that depend on the types of the future and the scheduler.
pub(super) struct Vtable {
    /// Runs the task once. Consumes the right to run and its reference.
    pub(super) run: unsafe fn(NonNull<Header>, &Cell<bool>) -> bool,
    /// Drops the future and completes. Consumes the right to run and its reference.
    pub(super) cancel: unsafe fn(NonNull<Header>),
    /// Queues the task. Consumes the right to run and its reference.
    pub(super) schedule: unsafe fn(NonNull<Header>),
    /// Returns whether the calling thread keeps the scheduler alive.
    pub(super) is_inside: unsafe fn(NonNull<Header>) -> bool,
    /// Moves the output to the pointer. Called once, by the handle of a complete task.
    pub(super) take_output: unsafe fn(NonNull<Header>, *mut ()),
    /// Drops the output. Called once, by the handle of a complete task.
    pub(super) drop_output: unsafe fn(NonNull<Header>),
    /// Frees the memory. Called by the thread that dropped the last reference.
    pub(super) free: unsafe fn(NonNull<Header>),
}

/// The part of a task that does not depend on its types.
#[repr(C)]
pub(crate) struct Header {
    pub(super) state: State,
    pub(super) vtable: &'static Vtable,
    /// Next task of the queue that contains this one.
    pub(crate) queue_next: UnsafeCell<Link<Header>>,
    /// The neighbours in the list of owned tasks.
    pub(crate) owned_prev: UnsafeCell<Option<NonNull<Header>>>,
    pub(crate) owned_next: UnsafeCell<Option<NonNull<Header>>>,
    /// From `Arc::into_raw`; its type is that of the vtable.
    pub(super) scheduler: *const (),
    pub(super) join_waker: UnsafeCell<Option<Waker>>,
    /// A thin pointer, because few tasks have names.
    pub(super) name: Option<Box<Box<str>>>,
    pub(crate) priority: Priority,
    /// Time at which the task was queued, in nanoseconds of the executor's clock, if that wait is
    /// measured; otherwise 0. Only the lower 56 bits, which are two years.
    pub(super) queued: UnsafeCell<[u8; 7]>,
}

#[cfg(all(target_pointer_width = "64", not(any(rast_loom, rast_shuttle))))]
const _: () = assert!(size_of::<Header>() == 80);

/// The right to run a task, with one reference. One queue or thread owns it.
///
/// Dropping it cancels the task.
#[derive(Debug)]
pub struct Task(pub(super) NonNull<Header>);

// SAFETY: the future is `Send`, or only its own thread runs and cancels the task, which is the
// contract of `Cell::allocate`; the rules of the header synchronise it.
unsafe impl Send for Task {}

impl Task {
    /// Returns the pointer, which now carries the right.
    pub(crate) fn into_raw(self) -> NonNull<Header> {
        let raw = self.0;
        core::mem::forget(self);
        raw
    }

    /// Makes the right from a pointer.
    ///
    /// # Safety
    ///
    /// The pointer must be from [`into_raw`](Self::into_raw), and its right must be taken once.
    pub(crate) const unsafe fn from_raw(raw: NonNull<Header>) -> Self {
        Self(raw)
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the right has a reference, so the memory is alive.
        unsafe { self.0.as_ref() }
    }

    /// Returns the address, which identifies the task among all that are alive.
    pub(crate) fn address(&self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    /// Records the time at which the task is queued, to measure its wait until the poll.
    pub(crate) fn note_queued(&self, at_ns: u64) {
        let [bytes @ .., _] = at_ns.max(1).to_le_bytes();
        self.header().queued.with_mut(|queued| {
            // SAFETY: only the thread with the right to run accesses it.
            unsafe { *queued = bytes }
        });
    }

    /// Takes the recorded time, if there is one.
    #[inline]
    pub(crate) fn take_queued(&self) -> Option<u64> {
        self.header().queued.with_mut(|queued| {
            // SAFETY: only the thread with the right to run accesses it.
            let queued = unsafe { &mut *queued };
            if *queued == [0; 7] {
                return None;
            }
            let [a, b, c, d, e, f, g] = core::mem::take(queued);
            Some(u64::from_le_bytes([a, b, c, d, e, f, g, 0]))
        })
    }

    /// Runs the task once. Returns it if it was woken meanwhile or yielded: the caller must queue
    /// it again. A task sets `yielded` when it yields, and the run clears it.
    #[inline]
    pub(crate) fn run(self, yielded: &Cell<bool>) -> Option<Self> {
        let raw = self.into_raw();
        // SAFETY: the memory is alive until the call drops the reference.
        let run = unsafe { raw.as_ref() }.vtable.run;
        // SAFETY: the right to run was the caller's and is passed on.
        let again = unsafe { run(raw, yielded) };
        // SAFETY: the call returned the right.
        again.then(|| unsafe { Self::from_raw(raw) })
    }

    /// Cancels a task that the list of owned tasks has rejected.
    pub(crate) fn refuse(self, owned: TaskRef) {
        // The completion drops the reference of the list.
        let _ = owned.into_raw();
        self.cancel();
    }

    /// Drops the future and completes the task.
    pub(crate) fn cancel(self) {
        drop(self);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let cancel = self.header().vtable.cancel;
        // SAFETY: the right to run is the caller's and ends here.
        unsafe { cancel(self.0) };
    }
}

/// A counted reference to a task, without the right to run it.
#[derive(Debug)]
pub(crate) struct TaskRef(pub(super) NonNull<Header>);

// SAFETY: the rules of the header synchronise it; any thread may free the memory, because the
// future and the output are dropped before.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

impl TaskRef {
    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// The caller owns the reference, and gives it up.
    pub(crate) const unsafe fn from_raw(raw: NonNull<Header>) -> Self {
        Self(raw)
    }

    /// Makes the reference of the list, for a task that is in no list.
    ///
    /// # Safety
    ///
    /// `make` returned that reference, it was turned into a pointer, and it must be taken once.
    pub(crate) unsafe fn of_list(task: &Task) -> Self {
        Self(task.0)
    }

    /// Adds a reference to a task.
    ///
    /// # Safety
    ///
    /// The task is alive.
    pub(crate) unsafe fn of(raw: NonNull<Header>) -> Self {
        // SAFETY: by the caller.
        unsafe { raw.as_ref() }.state.acquire();
        Self(raw)
    }

    /// Gives the reference up without dropping it.
    pub(crate) fn into_raw(self) -> NonNull<Header> {
        let raw = self.0;
        core::mem::forget(self);
        raw
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: this is a counted reference.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.header().name.as_ref().map(|name| &***name)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.header().state.load().is_complete()
    }

    /// Makes the next run drop the future; queues the task if it is not queued or running.
    pub(crate) fn abort(&self) {
        if let Some(task) = self.claim() {
            let raw = task.into_raw();
            // SAFETY: the right to run is the caller's and is passed on; `self` keeps the task.
            unsafe { (self.header().vtable.schedule)(raw) };
        }
    }

    /// Requests the abort; returns the right to run if no other thread or queue has it.
    pub(crate) fn claim(&self) -> Option<Task> {
        match self.header().state.abort() {
            // SAFETY: by rule 1 of the state the right was made by this call.
            super::state::Woken::Schedule => Some(unsafe { Task::from_raw(self.0) }),
            _ => None,
        }
    }
}

impl Clone for TaskRef {
    fn clone(&self) -> Self {
        self.header().state.acquire();
        Self(self.0)
    }
}

impl Drop for TaskRef {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference ends here.
        unsafe { release(self.0, 1) };
    }
}

/// Drops references, and frees the task with the last one.
///
/// # Safety
///
/// The caller owns `count` references and gives them up.
#[inline]
pub(super) unsafe fn release(raw: NonNull<Header>, count: u64) {
    // SAFETY: the references keep the memory.
    let header = unsafe { raw.as_ref() };
    let free = header.vtable.free;
    if header.state.release(count) {
        // SAFETY: those were the last references.
        unsafe { free(raw) };
    }
}
