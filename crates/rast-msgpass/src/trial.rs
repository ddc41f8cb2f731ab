//! The changes that a test makes to one instance: probes of messages, panics, edges without room.
//!
//! It is in the state of the instance, and is `None` except in a test. `instance_core/tested.rs`
//! applies it.

use std::any::Any;
use std::panic::resume_unwind;

use crate::primitive::panics::contain;
use crate::primitive::sync::{Arc, Mutex};
use crate::timers::{Instant, Nanos};

/// The room of an edge, as its senders see it; for
/// [`TestGraph::set_room`](crate::testing::TestGraph::set_room).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// The actual room.
    #[default]
    Real,
    /// Enough for exactly one burst: handlers run, and `try_send` past the burst fails. On an edge
    /// that returns or drops messages without room, it is the actual room, because such an edge has
    /// no burst.
    Burst,
    /// None: handlers that send on the edge are not called, `room` is zero, and `try_send` fails.
    /// On an edge that returns or drops messages without room, handlers are called, and their
    /// messages are returned or dropped. `drop_oldest` and `latest` always have room.
    None,
}

/// Where a message was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) sender: usize,
    pub(crate) receiver: usize,
    pub(crate) at: Instant,
}

/// A closure that is called for the messages of one edge.
pub(crate) type Watch = Arc<Mutex<Box<dyn FnMut(Place, &dyn Any) + Send>>>;

/// The payload of a watch that panicked.
pub(crate) type Failed = Arc<Mutex<Option<Box<dyn Any + Send>>>>;

/// A planned panic.
pub(crate) struct Fault {
    /// Only for messages of this edge.
    pub(crate) edge: Option<usize>,
    /// Number of messages until the panic, over all instances that share it.
    pub(crate) left: Arc<Mutex<u64>>,
    pub(crate) text: String,
}

/// A timer that was armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Armed {
    /// The time until it fires.
    pub after: Nanos,
    /// Whether it fires repeatedly, by [`Cx::every`](crate::Cx::every).
    pub repeats: bool,
    /// The type of its message.
    pub message: &'static str,
}

/// What a test imposes on one instance.
#[derive(Default)]
pub(crate) struct Trial {
    /// By outlet; empty while all have their actual room.
    pub(crate) rooms: Vec<Room>,
    pub(crate) watches: Vec<(usize, Watch)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) failed: Failed,
    /// The armed timers, if they are recorded.
    pub(crate) armed: Option<Vec<Armed>>,
}

impl Trial {
    pub(crate) fn watch(&self, edge: usize, place: Place, message: &dyn Any) {
        for (_, watch) in self.watches.iter().filter(|(watched, _)| *watched == edge) {
            // Stored for the test: here it would count as a panic of the handler.
            if let Err(payload) = contain(|| (watch.lock())(place, message)) {
                self.failed.lock().get_or_insert(payload);
            }
        }
    }

    pub(crate) fn fail(&self, edge: Option<usize>) {
        let mut due = None;
        for fault in &self.faults {
            if fault.edge.is_some() && fault.edge != edge {
                continue;
            }
            // Each fault counts all messages, including those on which another one panics.
            let mut left = fault.left.lock();
            *left = left.saturating_sub(1);
            if *left == 0 {
                // Only once.
                *left = u64::MAX;
                due = due.or(Some(fault));
            }
        }
        if let Some(fault) = due {
            // Without the panic hook, which would print a message for a planned panic.
            resume_unwind(Box::new(fault.text.clone()));
        }
    }
}
