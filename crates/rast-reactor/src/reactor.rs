//! A reactor of a set, as any thread sees it.

use core::fmt;
use core::panic::Location;
use std_alloc::string::String;

use crate::here::{here, here_of};
use crate::origin::Origin;
use crate::primitive::sync::Arc;
use crate::shared::Shared;
use crate::spawned::Spawned;
use crate::watched::{Entry, Watched};

/// Returns the reactor that runs the caller; `None` on other threads.
///
/// ```
/// assert!(rast_reactor::current().is_none());
/// ```
#[must_use]
pub fn current() -> Option<Reactor> {
    here().map(|here| Reactor {
        shared: Arc::clone(&here.shared),
        index: here.index,
    })
}

/// A reactor of a set: a handle for any thread.
#[derive(Clone)]
pub struct Reactor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
}

impl Reactor {
    /// Its number, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many reactors the set has.
    #[must_use]
    pub fn reactors(&self) -> usize {
        self.shared.seats.len()
    }

    /// Calls `begin` on the reactor's thread, and runs the returned future there. The future need
    /// not be `Send`.
    ///
    /// The number of such tasks has no limit, unlike that of calls by
    /// [`reactor_task`](crate::reactor_task). After [`Reactors::stop`](crate::Reactors::stop) has
    /// begun, a closure from a thread outside of the reactors is dropped, and the handle returns
    /// [`CallError::Stopped`](crate::CallError::Stopped).
    ///
    /// Cost: an allocation, the locks of two lists of tasks, an exchange, and a wake-up if the
    /// reactor sleeps.
    ///
    /// ```
    /// use rast_reactor::{Reactors, current};
    ///
    /// let reactors = Reactors::builder().number(2).build().unwrap();
    /// let task = reactors.reactor(1).unwrap().spawn(|| async { current().unwrap().index() });
    /// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn spawn<F, R>(&self, begin: F) -> Spawned<R::Output>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        self.spawn_as(Location::caller(), None, begin)
    }

    /// As [`spawn`](Self::spawn), with a name for reports.
    #[track_caller]
    pub fn spawn_named<F, R>(&self, name: impl Into<String>, begin: F) -> Spawned<R::Output>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        self.spawn_as(Location::caller(), Some(name.into()), begin)
    }

    fn spawn_as<F, R>(
        &self,
        line: &'static Location<'static>,
        name: Option<String>,
        begin: F,
    ) -> Spawned<R::Output>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        let remote = &self.shared.seats[self.index].remote;
        let origin = Origin {
            name: name.map(Arc::new),
            line,
        };
        // Tasks that a reactor of the set spawns are never rejected.
        let is_outside = here_of(&self.shared).is_none();
        let is_closed = is_outside.then_some(&self.shared.is_closing);
        let Some(entry) = Entry::new(&self.shared, self.index, origin, is_closed) else {
            drop(begin);
            return Spawned::stopped();
        };
        Spawned::new(remote.spawn(move || Watched {
            future: async move { begin().await },
            entry,
        }))
    }
}

impl PartialEq for Reactor {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && self.index == other.index
    }
}

impl Eq for Reactor {}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
