//! How owners and reactors wake each other.

use core::task::Waker;
use std_alloc::boxed::Box;

use crate::primitive::sync::Mutex;

/// The waker of each reactor's main task, once it has run.
pub(crate) struct Wakers(Box<[Mutex<Option<Waker>>]>);

impl Wakers {
    pub(super) fn new(reactors: usize) -> Self {
        Self((0..reactors).map(|_| Mutex::new(None)).collect())
    }

    pub(super) fn set(&self, reactor: usize, waker: &Waker) {
        let old = self.0[reactor].lock().replace(waker.clone());
        drop(old);
    }

    pub(super) fn wake(&self, reactor: usize) {
        let waker = self.0[reactor].lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
