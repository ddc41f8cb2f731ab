//! A waker that unparks a thread, and calls of the wakers of other crates.

use core::task::Waker;
use std_alloc::sync::Arc;
use std_alloc::task::Wake;

use crate::primitive::Unparker;
use crate::primitive::panics::quietly;

struct Thread(Unparker);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// A waker that leaves a token.
pub(crate) fn waker_of(unparker: Unparker) -> Waker {
    Waker::from(Arc::new(Thread(unparker)))
}

/// Calls a waker; a panic of a foreign waker is caught, since the thread serves others too.
pub(crate) fn wake(waker: Waker) {
    quietly(|| waker.wake());
}
