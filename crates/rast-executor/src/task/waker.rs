//! The waker of a task: a counted reference, valid for as long as it is held.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::task::{RawWaker, RawWakerVTable, Waker};

use super::header::{Header, release};
use super::state::Woken;

/// One table for all tasks, so that `Waker::will_wake` compares tasks.
static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop);

/// Lends a waker for the time of a poll, without a reference of its own.
///
/// # Safety
///
/// The task outlives the waker.
pub(super) unsafe fn lent(raw: NonNull<Header>) -> ManuallyDrop<Waker> {
    let data = raw.as_ptr().cast_const().cast();
    // SAFETY: the table upholds the contract of wakers by the counts of the state; the reference is
    // the caller's, and the waker is not dropped.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) })
}

/// Returns the task that `waker` wakes, if it is the waker of a task of ours.
pub(crate) fn task_of(waker: &Waker) -> Option<*const ()> {
    core::ptr::eq(waker.vtable(), &TABLE).then(|| waker.data())
}

/// The header behind the data of a waker.
fn header(data: *const ()) -> NonNull<Header> {
    // SAFETY: the data of our wakers is the address of a header.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: a waker keeps its task.
    unsafe { header(data).as_ref() }.state.acquire();
    RawWaker::new(data, &TABLE)
}

unsafe fn wake_by_ref(data: *const ()) {
    let raw = header(data);
    // SAFETY: a waker keeps its task.
    let task = unsafe { raw.as_ref() };
    if task.state.wake_by_ref() == Woken::Schedule {
        // SAFETY: by rule 1 of the state the right to run was made above, with a reference.
        unsafe { (task.vtable.schedule)(raw) };
    }
}

unsafe fn wake(data: *const ()) {
    let raw = header(data);
    // SAFETY: a waker keeps its task.
    let task = unsafe { raw.as_ref() };
    // SAFETY: the task is alive.
    if !unsafe { (task.vtable.is_inside)(raw) } {
        // A queued task may be run and dropped, with its scheduler, while this thread still wakes a
        // worker. So this reference is kept until the end. SAFETY: as for a waker that is kept.
        unsafe { wake_by_ref(data) };
        // SAFETY: the reference is this waker's.
        unsafe { drop(data) };
        return;
    }
    match task.state.wake_by_value() {
        // SAFETY: the right to run was made above; this waker's reference goes with it.
        Woken::Schedule => unsafe { (task.vtable.schedule)(raw) },
        // SAFETY: this waker's reference was the last one.
        Woken::Free => unsafe { (task.vtable.free)(raw) },
        Woken::Noted => {}
    }
}

unsafe fn drop(data: *const ()) {
    // SAFETY: the reference is this waker's.
    unsafe { release(header(data), 1) };
}
