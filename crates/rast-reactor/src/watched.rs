//! A task of a reactor, which is in its list while it lives, and whose polls are measured.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use rast_executor::timers::{Clock, Instant};

use crate::origin::Origin;
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::AtomicBool;
use crate::registry;
use crate::shared::Shared;

/// Takes a task out of the list when it is dropped.
pub(crate) struct Entry {
    shared: Arc<Shared>,
    reactor: usize,
    task: u64,
}

impl Entry {
    /// Enters a task into the list of a reactor; `None` if `is_closed` is given and set.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        reactor: usize,
        origin: Origin,
        is_closed: Option<&AtomicBool>,
    ) -> Option<Self> {
        let task = shared.seats[reactor].tasks.enter(origin, is_closed)?;
        Some(Self {
            shared: Arc::clone(shared),
            reactor,
            task,
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.leave(self.reactor, self.task);
    }
}

/// A future whose polls are measured.
pub(crate) struct Watched<F> {
    pub(crate) future: F,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reactor: usize,
    pub(crate) origin: Origin,
    /// Dropped after the future.
    pub(crate) _entry: Option<Entry>,
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved out of its pin; the other fields need none.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let _measure = Measure {
            begin: this.shared.watch.clock.now(),
            shared: &this.shared,
            reactor: this.reactor,
            origin: &this.origin,
        };
        future.poll(cx)
    }
}

/// Measures a poll, also one that panics: it ends when this is dropped.
struct Measure<'a> {
    begin: Instant,
    shared: &'a Shared,
    reactor: usize,
    origin: &'a Origin,
}

impl Drop for Measure<'_> {
    fn drop(&mut self) {
        registry::polled(self.origin);
        let watch = &self.shared.watch;
        let took = watch.clock.now().saturating_since(self.begin);
        let took = Duration::from(took);
        if took > watch.limit {
            self.shared.report_slow(self.reactor, self.origin, took);
        }
    }
}
