//! The changes that a test makes to one instance: probes of messages, panics, edges without room.
//!
//! It is in the instance's [`Core`], and is `None` except in a test. Calls of handlers for messages
//! and timers, sends to egress, and checks of room pass through here. Without the feature
//! `testing`, `untested.rs` has the same functions, which do nothing.

use std::any::Any;
use std::panic::resume_unwind;

use crate::cx::Core;
use crate::graph::End;
use crate::primitive::panics::contain;
use crate::primitive::sync::{Arc, Mutex};
use crate::timers::{Clock, Instant, Nanos};

/// The room of an edge, as its senders see it; for
/// [`TestGraph::set_room`](super::TestGraph::set_room).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// The actual room.
    #[default]
    Real,
    /// Enough for exactly one burst: handlers run, and `try_send` past the burst fails.
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
    /// Number of messages until then, over all instances that share it.
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
    fn watch(&self, edge: usize, place: Place, message: &dyn Any) {
        for (_, watch) in self.watches.iter().filter(|(watched, _)| *watched == edge) {
            // Stored for the test: here it would count as a panic of the handler.
            if let Err(payload) = contain(|| (watch.lock())(place, message)) {
                self.failed.lock().get_or_insert(payload);
            }
        }
    }

    fn fail(&self, edge: Option<usize>) {
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

impl Core {
    /// Returns what a test imposes, to change it.
    pub(crate) fn trial(&mut self) -> &mut Trial {
        self.trial.get_or_insert_default()
    }

    /// Called before the handler of a message of an edge, or of a timer.
    #[inline]
    pub(crate) fn delivering<M: 'static>(&self, edge: Option<usize>, message: &M) {
        if let Some(trial) = &self.trial {
            if let Some(edge) = edge {
                trial.watch(edge, self.place(self.sender, self.replica), message);
            }
            trial.fail(edge);
        }
    }

    /// Called before a message is sent. Messages to egress have no handler, so they are seen here,
    /// if the send does not panic.
    #[inline]
    pub(crate) fn sending<M: Send + 'static>(
        &mut self,
        edge: usize,
        out: usize,
        target: usize,
        message: &M,
    ) {
        if self.trial.is_some() && self.shared.edges[edge].to == End::Egress {
            let invocation = self.invocation;
            if self.out::<M>(out).takes(target, invocation) {
                self.trying(edge, target, message);
            }
        }
    }

    /// As `sending`, if there is room for it.
    #[inline]
    pub(crate) fn trying<M: 'static>(&self, edge: usize, target: usize, message: &M) {
        if let Some(trial) = &self.trial
            && self.shared.edges[edge].to == End::Egress
        {
            trial.watch(edge, self.place(self.replica, target), message);
        }
    }

    /// Called when a timer is armed.
    pub(crate) fn arming<M>(&mut self, after: Nanos, repeats: bool) {
        let trial = self.trial.as_mut();
        if let Some(armed) = trial.and_then(|trial| trial.armed.as_mut()) {
            armed.push(Armed {
                after,
                repeats,
                message: core::any::type_name::<M>(),
            });
        }
    }

    fn place(&self, sender: usize, receiver: usize) -> Place {
        Place {
            sender,
            receiver,
            at: self.shared.clock.now(),
        }
    }

    /// Returns the room that a test sets for an outlet.
    fn given_room(&self, out: usize) -> Room {
        let rooms = self.trial.as_ref().map(|trial| &trial.rooms);
        let given = rooms.and_then(|rooms| rooms.get(out).copied());
        given.unwrap_or_default()
    }

    /// Returns `true` if a test makes an outlet full.
    #[inline]
    pub(crate) fn is_filled(&self, out: usize) -> bool {
        self.given_room(out) == Room::None
    }

    /// As `is_filled`, for any outlet.
    #[inline]
    pub(crate) fn is_any_filled(&self) -> bool {
        self.trial.is_some()
            && (0..self.outs.len()).any(|out| self.is_filled(out) && !self.outs[out].is_lossy())
    }

    /// Returns how many messages `try_send` accepts now, if a test determines that.
    #[inline]
    pub(crate) fn trial_room<M: Send + 'static>(
        &mut self,
        out: usize,
        index: usize,
        promised: bool,
    ) -> Option<usize> {
        self.trial.as_ref()?;
        let (invocation, given) = (self.invocation, self.given_room(out));
        let outlet = self.out::<M>(out);
        outlet.check_target(index);
        Some(match given {
            Room::Real => outlet.room(index, invocation, promised),
            Room::Burst => outlet.promise(index, invocation, promised),
            // The oldest messages make room.
            Room::None if outlet.always_has_room() => outlet.room(index, invocation, promised),
            Room::None => 0,
        })
    }
}
