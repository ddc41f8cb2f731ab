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

/// A task of a reactor. Dropping it takes the task out of the reactor's list.
pub(crate) struct Entry {
    shared: Arc<Shared>,
    reactor: usize,
    origin: Origin,
    /// The number in the list; `None` for a call, which is in no list.
    task: Option<u64>,
}

impl Entry {
    /// Enters a task into the list of a reactor; `None` if `is_closed` is given and set.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        reactor: usize,
        origin: Origin,
        is_closed: Option<&AtomicBool>,
    ) -> Option<Self> {
        let tasks = &shared.seats[reactor].tasks;
        Some(Self {
            task: Some(tasks.enter(origin.clone(), is_closed)?),
            shared: Arc::clone(shared),
            reactor,
            origin,
        })
    }

    /// Makes the entry of a call.
    pub(crate) fn of_call(shared: Arc<Shared>, reactor: usize, origin: Origin) -> Self {
        Self {
            shared,
            reactor,
            origin,
            task: None,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(task) = self.task {
            self.shared.leave(self.reactor, task);
        }
    }
}

/// A future whose polls are measured.
pub(crate) struct Watched<F> {
    pub(crate) future: F,
    /// Dropped after the future.
    pub(crate) entry: Entry,
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future is not moved out of its pin; the other field needs none.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let _measure = Measure {
            begin: this.entry.shared.watch.clock.now(),
            entry: &this.entry,
        };
        future.poll(cx)
    }
}

/// Measures a poll, also one that panics: it ends when this is dropped.
struct Measure<'a> {
    begin: Instant,
    entry: &'a Entry,
}

impl Drop for Measure<'_> {
    fn drop(&mut self) {
        let Entry {
            shared,
            reactor,
            origin,
            ..
        } = self.entry;
        registry::polled(origin);
        let watch = &shared.watch;
        let took = Duration::from(watch.clock.now().saturating_since(self.begin));
        if took > watch.limit {
            shared.report_slow(*reactor, origin, took);
        }
    }
}
