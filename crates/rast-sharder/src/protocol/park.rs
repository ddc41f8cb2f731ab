//! What a worker sleeps in.

use core::time::Duration;
use std::boxed::Box;

use crate::ids::ShardId;
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::{Parker, Unparker};

/// What a worker sleeps in: one for each worker.
///
/// The default is a condition of the system. A program whose workers do I/O gives
/// each a poller: then a worker without work waits for I/O and for wake-ups at once.
/// See [`Builder::park`](crate::Builder::park).
pub trait Park: Send + Sync + 'static {
    /// Blocks until [`unpark`](Self::unpark) is called, or was called since the last
    /// `park` returned, or `timeout` has passed. `None` is no limit. May return early
    /// for any reason. Called by its worker alone.
    ///
    /// `ready` makes a shard ready: a poller calls it for the shard that handles what came. It
    /// costs a push if this worker holds the shard, and a wake-up otherwise. It panics if
    /// there is no such shard.
    ///
    /// A panic is recorded ([`Hook::Park`](crate::Hook::Park)) and counts as an early return.
    /// After each further one in a row the worker pauses, for 10 µs at first, and twice as
    /// long each time up to about 100 ms. Nothing ends the pause.
    fn park(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId));

    /// Looks for what came, without blocking. A worker that has work calls this once in
    /// about 16 turns, so that its shards do not keep I/O waiting. A worker on which it
    /// panicked calls it no more.
    fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        let _ = ready;
    }

    /// Ends the present or the next [`park`](Self::park). Called by any thread. A panic is
    /// caught, so that the waker goes on, and reported by the panic hook alone.
    fn unpark(&self);
}

impl<P: Park + ?Sized> Park for Arc<P> {
    fn park(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId)) {
        (**self).park(timeout, ready);
    }

    fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        (**self).poll(ready);
    }

    fn unpark(&self) {
        (**self).unpark();
    }
}

impl<P: Park + ?Sized> Park for Box<P> {
    fn park(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId)) {
        (**self).park(timeout, ready);
    }

    fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        (**self).poll(ready);
    }

    fn unpark(&self) {
        (**self).unpark();
    }
}

/// A condition of the system.
#[derive(Debug)]
pub(crate) struct ThreadPark {
    /// Locked by one thread alone, for as long as it sleeps.
    parker: Mutex<Parker>,
    unparker: Unparker,
}

impl ThreadPark {
    pub(crate) fn new() -> Self {
        let parker = Parker::new();
        Self {
            unparker: parker.unparker(),
            parker: Mutex::new(parker),
        }
    }
}

impl Park for ThreadPark {
    fn park(&self, timeout: Option<Duration>, _: &mut dyn FnMut(ShardId)) {
        let parker = self.parker.lock();
        match timeout {
            Some(timeout) => {
                parker.park_timeout(timeout);
            }
            None => parker.park(),
        }
    }

    fn unpark(&self) {
        self.unparker.unpark();
    }
}
