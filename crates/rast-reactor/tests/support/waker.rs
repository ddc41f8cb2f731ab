//! A waker as a program may write it: its clones are other wakers, and they may panic.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{RawWaker, RawWakerVTable, Waker};

/// What the wakers of one [`waker`] have in common.
#[derive(Default)]
pub(crate) struct Odd {
    alive: AtomicUsize,
    wakes: AtomicUsize,
    clone_panics: AtomicBool,
}

impl Odd {
    /// How many wakers there are.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.load(Ordering::Relaxed)
    }

    /// From now on each clone panics.
    pub(crate) fn have_clones_panic(&self) {
        self.clone_panics.store(true, Ordering::Relaxed);
    }

    fn raw(self: Arc<Self>) -> RawWaker {
        self.alive.fetch_add(1, Ordering::Relaxed);
        // A box, so that each waker has an address of its own.
        RawWaker::new(Box::into_raw(Box::new(self)).cast(), &TABLE)
    }
}

/// A waker none of whose clones equals another one.
pub(crate) fn waker(odd: &Arc<Odd>) -> Waker {
    // SAFETY: the functions of the table take the box, or share it.
    unsafe { Waker::from_raw(Arc::clone(odd).raw()) }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: `raw` made the pointer, and the waker is alive.
    let odd = unsafe { &*data.cast::<Arc<Odd>>() };
    assert!(!odd.clone_panics.load(Ordering::Relaxed), "a clone panics");
    Arc::clone(odd).raw()
}

unsafe fn wake(data: *const ()) {
    // SAFETY: as in `clone`.
    unsafe { wake_by_ref(data) };
    // SAFETY: the waker is used up.
    unsafe { drop_waker(data) };
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as in `clone`.
    let odd = unsafe { &*data.cast::<Arc<Odd>>() };
    odd.wakes.fetch_add(1, Ordering::Relaxed);
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: `raw` made the box, and the waker is dropped once.
    let odd = unsafe { Box::from_raw(data.cast::<Arc<Odd>>().cast_mut()) };
    odd.alive.fetch_sub(1, Ordering::Relaxed);
}
