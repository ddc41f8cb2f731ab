//! Tasks without a runtime: wakers that count, and a thread that runs one future.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;
use std::thread::{self, Thread};

/// Wakes a thread, and counts.
pub(crate) struct Bell {
    thread: Thread,
    rings: AtomicUsize,
}

impl Bell {
    /// Returns how often it woke.
    pub(crate) fn rings(&self) -> usize {
        self.rings.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Makes a bell of the calling thread.
pub(crate) fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell {
        thread: thread::current(),
        rings: AtomicUsize::new(0),
    });
    let waker = Waker::from(Arc::clone(&bell));
    (bell, waker)
}

/// Polls a future only after wake-ups.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let (bell, waker) = bell();
    let mut cx = Context::from_waker(&waker);
    let mut seen = 0;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        while bell.rings() == seen {
            thread::park();
        }
        seen = bell.rings();
    }
}

/// Waits, by yielding, until something is so.
pub(crate) fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        thread::yield_now();
    }
}
