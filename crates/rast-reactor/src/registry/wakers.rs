//! How reactors wake each other.

use core::task::Waker;
use std_alloc::boxed::Box;

use crate::primitive::CachePadded;
use crate::primitive::sync::Mutex;

/// The waker of each reactor's main task, once it has run.
pub(crate) struct Wakers(Box<[CachePadded<Mutex<Option<Waker>>>]>);

impl Wakers {
    pub(super) fn new(reactors: usize) -> Self {
        Self((0..reactors).map(|_| CachePadded::default()).collect())
    }

    pub(super) fn set(&self, reactor: usize, waker: &Waker) {
        let mut place = self.0[reactor].lock();
        if place.as_ref().is_none_or(|old| !old.will_wake(waker)) {
            let old = place.replace(waker.clone());
            drop(place);
            drop(old);
        }
    }

    pub(crate) fn wake(&self, reactor: usize) {
        let waker = self.0[reactor].lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
