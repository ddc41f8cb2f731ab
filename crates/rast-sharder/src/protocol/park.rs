//! How a worker sleeps.

use core::time::Duration;
use std::boxed::Box;

use crate::ids::ShardId;
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::{Parker, Unparker};

/// What a worker sleeps in; each worker has its own.
///
/// The default is a condition variable. A program whose workers do I/O gives each worker a poller:
/// then a worker without work waits for I/O and for wake-ups at once. See
/// [`Builder::park`](crate::Builder::park).
pub trait Park: Send + Sync + 'static {
    /// Blocks until [`unpark`](Self::unpark) is called or `timeout` has passed; `None` means no
    /// limit. Returns at once if `unpark` was called since the last `park` returned. May return
    /// early for any reason. Only its worker calls it.
    ///
    /// `ready` makes a shard ready: a poller calls it for the shard that handles an event. It costs
    /// a push if this worker holds the shard, and a wake-up otherwise. It panics if there is no
    /// such shard.
    ///
    /// A panic is recorded ([`Hook::Park`](crate::Hook::Park)) and counts as an early return.
    /// After each further panic in a row the worker pauses, first for 10 µs, then twice as long
    /// each time, up to about 82 ms. A wake-up does not end the pause.
    fn park(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId));

    /// Checks for events without blocking. A busy worker calls this about once per 16 turns, so
    /// that its shards do not delay I/O. After a panic the worker does not call it again.
    fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        let _ = ready;
    }

    /// Ends the current or the next [`park`](Self::park). Any thread may call it. A panic is
    /// caught, so that the waker continues, and only the panic hook reports it.
    fn unpark(&self);
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        impl<P: Park + ?Sized> Park for $pointer<P> {
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
    )*};
}

forward!(Arc, Box);

/// A condition variable.
#[derive(Debug)]
pub(crate) struct ThreadPark {
    /// Only its worker locks it, for the time of a sleep.
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
        self.parker.lock().park_for(timeout);
    }

    fn unpark(&self) {
        self.unparker.unpark();
    }
}
