//! The tasks of a reactor: which there are, and how long their polls take.

use core::panic::Location;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std_alloc::string::String;
use std_alloc::vec::Vec;

use rast_executor::timers::{Clock, Instant};

use crate::origin::Origin;
use crate::primitive::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::sync::{Arc, Mutex};
use crate::registry;
use crate::shared::Shared;

/// A poll that held its reactor for too long.
#[derive(Debug)]
#[non_exhaustive]
pub struct SlowPoll<'a> {
    /// The reactor.
    pub reactor: usize,
    /// The task's name, if it has one.
    pub name: Option<&'a str>,
    /// The line that spawned the task, or made the call.
    pub line: &'static Location<'static>,
    /// How long the poll took.
    pub took: Duration,
}

/// A task that did not end by itself before its reactor was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The reactor.
    pub reactor: usize,
    /// The task's name, if it has one.
    pub name: Option<String>,
    /// The line that spawned the task.
    pub line: &'static Location<'static>,
}

#[derive(Default)]
struct Table {
    places: Vec<Option<Origin>>,
    free: Vec<usize>,
    /// How many there ever were.
    entered: u64,
}

/// The tasks of one reactor that are not complete.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<Table>);

impl Tasks {
    /// Enters a task; `None` if `is_closed` is set. The flag is looked at under the lock, so that a
    /// count that comes after its change misses nothing.
    pub(crate) fn enter(&self, origin: Origin, is_closed: &AtomicBool) -> Option<usize> {
        let mut table = self.0.lock();
        // Relaxed: the lock orders it with the count.
        if is_closed.load(Ordering::Relaxed) {
            return None;
        }
        table.entered += 1;
        let place = match table.free.pop() {
            Some(place) => place,
            None => {
                table.places.push(None);
                table.places.len() - 1
            }
        };
        table.places[place] = Some(origin);
        Some(place)
    }

    /// Takes a task out; returns whether it was the last one.
    pub(crate) fn leave(&self, place: usize) -> bool {
        let (origin, is_last) = {
            let mut table = self.0.lock();
            table.free.push(place);
            let origin = table.places[place].take();
            (origin, table.free.len() == table.places.len())
        };
        drop(origin);
        is_last
    }

    /// How many there are, and how many there ever were.
    pub(crate) fn count(&self) -> (usize, u64) {
        let table = self.0.lock();
        (table.places.len() - table.free.len(), table.entered)
    }

    /// All of them.
    pub(crate) fn all(&self, reactor: usize) -> Vec<Unfinished> {
        let table = self.0.lock();
        let unfinished = |origin: &Origin| Unfinished {
            reactor,
            name: origin.name.as_deref().cloned(),
            line: origin.line,
        };
        table.places.iter().flatten().map(unfinished).collect()
    }
}

/// Takes a task out of the list when it is dropped.
pub(crate) struct Entry {
    pub(crate) shared: Arc<Shared>,
    pub(crate) reactor: usize,
    pub(crate) place: usize,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.leave(self.reactor, self.place);
    }
}

/// What a reactor measures its polls by.
pub(crate) struct Watch {
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
    pub(crate) limit: Duration,
    pub(crate) report: Option<Report>,
}

/// What is told of slow polls.
pub(crate) type Report = Arc<dyn Fn(&SlowPoll<'_>) + Send + Sync>;

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
        let took = Duration::from_nanos(took.as_nanos());
        if took > watch.limit {
            self.shared.report_slow(self.reactor, self.origin, took);
        }
    }
}

/// A count of slow polls.
#[derive(Default)]
pub(crate) struct SlowPolls(AtomicU64);

impl SlowPolls {
    pub(crate) fn add(&self) {
        // Relaxed: a figure; one thread writes it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: a figure.
        self.0.load(Ordering::Relaxed)
    }
}
