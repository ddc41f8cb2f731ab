//! The list of a reactor's tasks, and the measurement of their polls.

use core::panic::Location;
use core::time::Duration;
use std_alloc::string::String;
use std_alloc::vec::Vec;

use hashbrown::{DefaultHashBuilder, HashMap};
use rast_executor::SharedClock;

use crate::origin::Origin;
use crate::primitive::sync::atomic::{AtomicBool, Ordering};
use crate::primitive::sync::{Arc, Mutex};

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
    /// By their numbers.
    tasks: HashMap<u64, Origin, DefaultHashBuilder>,
    /// How many there ever were: the number of the last one.
    entered: u64,
}

/// Number of tasks for which a list always keeps room.
const SMALL: usize = 256;

/// The tasks of one reactor that are not complete.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<Table>);

impl Tasks {
    /// Enters a task, and returns its number; `None` if `is_closed` is given and set. The flag is
    /// read under the lock, so that a count after the flag was set misses no task.
    pub(crate) fn enter(&self, origin: Origin, is_closed: Option<&AtomicBool>) -> Option<u64> {
        let mut table = self.0.lock();
        // Relaxed: the lock orders it with the count.
        if is_closed.is_some_and(|is_closed| is_closed.load(Ordering::Relaxed)) {
            return None;
        }
        table.entered += 1;
        let number = table.entered;
        table.tasks.insert(number, origin);
        Some(number)
    }

    /// Removes a task, and returns whether it was the last one. Frees memory once far more tasks
    /// were removed than are left.
    pub(crate) fn leave(&self, number: u64) -> bool {
        let (origin, is_last) = {
            let mut table = self.0.lock();
            let tasks = &mut table.tasks;
            let origin = tasks.remove(&number);
            if tasks.capacity() > 8 * tasks.len() + SMALL {
                tasks.shrink_to(2 * tasks.len());
            }
            (origin, tasks.is_empty())
        };
        drop(origin);
        is_last
    }

    /// How many there are, and how many there ever were.
    pub(crate) fn count(&self) -> (usize, u64) {
        let table = self.0.lock();
        (table.tasks.len(), table.entered)
    }

    /// All of them, in the order in which they were spawned.
    pub(crate) fn all(&self, reactor: usize) -> Vec<Unfinished> {
        let table = self.0.lock();
        let mut tasks: Vec<_> = table.tasks.iter().collect();
        tasks.sort_unstable_by_key(|&(number, _)| *number);
        let unfinished = |(_, origin): (_, &Origin)| Unfinished {
            reactor,
            name: origin.name.as_deref().cloned(),
            line: origin.line,
        };
        tasks.into_iter().map(unfinished).collect()
    }
}

/// The settings by which a reactor measures its polls.
pub(crate) struct Watch {
    pub(crate) clock: SharedClock,
    pub(crate) limit: Duration,
    pub(crate) report: Option<Report>,
}

/// The function that is called with slow polls.
pub(crate) type Report = Arc<dyn Fn(&SlowPoll<'_>) + Send + Sync>;
