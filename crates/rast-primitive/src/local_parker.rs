//! Sleep of the calling thread and its wake-up by others, without a lock.
//!
//! It is std's own parking. On Linux and on Windows `park` and `unpark` are one read-modify-write
//! and a system call, so a thread that is suspended inside `unpark` delays only that wake-up. Both
//! sides of a [`Parker`] may take a lock, so a thread that is suspended with the lock delays other
//! threads. But a `Parker` has two advantages: it may move to another thread, and no other code
//! uses its token.
//!
//! loom and shuttle have no parking with a time limit, so a model uses a `Parker`.
//!
//! [`Parker`]: crate::Parker

use core::fmt;
use core::marker::PhantomData;
use std::time::Instant;

#[cfg(any(rast_loom, rast_shuttle))]
use crate::{Parker, Unparker};
#[cfg(not(any(rast_loom, rast_shuttle)))]
use std::thread;

/// The sleeping side: it belongs to the thread that made it.
///
/// The token is that of `std::thread::park`. So a sleep may end without a wake-up, for example
/// because of a token that other code left for this thread: check the condition, and sleep again.
///
/// # Examples
///
/// ```
/// use rast_primitive::{LocalParker, sync::{Arc, atomic::{AtomicBool, Ordering}}, thread};
///
/// let parker = LocalParker::new();
/// let (unparker, is_done) = (parker.unparker(), Arc::new(AtomicBool::new(false)));
/// let theirs = Arc::clone(&is_done);
/// let waker = thread::spawn(move || {
///     theirs.store(true, Ordering::Release);
///     unparker.unpark();
/// });
/// while !is_done.load(Ordering::Acquire) {
///     parker.park();
/// }
/// waker.join().unwrap();
/// ```
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// fn moves<T: Send>() {}
/// moves::<rast_primitive::LocalParker>();
/// ```
pub struct LocalParker {
    #[cfg(not(any(rast_loom, rast_shuttle)))]
    inner: thread::Thread,
    #[cfg(any(rast_loom, rast_shuttle))]
    inner: Parker,
    stays: PhantomData<*const ()>,
}

/// The waking side of a [`LocalParker`]: any thread, any number of clones.
#[derive(Clone)]
pub struct LocalUnparker {
    #[cfg(not(any(rast_loom, rast_shuttle)))]
    inner: thread::Thread,
    #[cfg(any(rast_loom, rast_shuttle))]
    inner: Unparker,
}

impl LocalParker {
    /// Makes a parker of the calling thread. Allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            #[cfg(not(any(rast_loom, rast_shuttle)))]
            inner: thread::current(),
            #[cfg(any(rast_loom, rast_shuttle))]
            inner: Parker::new(),
            stays: PhantomData,
        }
    }

    /// Returns a handle that wakes this thread.
    #[must_use]
    pub fn unparker(&self) -> LocalUnparker {
        LocalUnparker {
            #[cfg(not(any(rast_loom, rast_shuttle)))]
            inner: self.inner.clone(),
            #[cfg(any(rast_loom, rast_shuttle))]
            inner: self.inner.unparker(),
        }
    }

    /// Sleeps until there is a token and takes it; may also return without one. Blocking.
    ///
    /// What a thread wrote before the [`LocalUnparker::unpark`] whose token this takes is visible
    /// after it.
    pub fn park(&self) {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        thread::park();
        #[cfg(any(rast_loom, rast_shuttle))]
        self.inner.park();
    }

    /// As [`park`](Self::park), until `deadline` at the latest. Blocking, bounded by `deadline`.
    pub fn park_deadline(&self, deadline: Instant) {
        #[cfg(not(any(rast_loom, rast_shuttle)))]
        thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
        #[cfg(any(rast_loom, rast_shuttle))]
        self.inner.park_deadline(deadline);
    }
}

impl LocalUnparker {
    /// Leaves a token and wakes the thread if it sleeps. Tokens do not add up.
    ///
    /// One read-modify-write if the thread is awake, and a system call otherwise.
    pub fn unpark(&self) {
        self.inner.unpark();
    }
}

impl Default for LocalParker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalParker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalParker").finish_non_exhaustive()
    }
}

impl fmt::Debug for LocalUnparker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalUnparker").finish_non_exhaustive()
    }
}
