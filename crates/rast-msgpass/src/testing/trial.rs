//! What a test puts in the way of one instance: messages seen, panics, edges without room.
//!
//! It is in the instance's [`Core`], and is `None` there except in a test. Handlers of messages and
//! of timers, what is sent to egress, and looks at room pass by here. Without the feature `testing`
//! `untested.rs` has the same functions, which do nothing.

use std::any::Any;
use std::panic::resume_unwind;

use crate::cx::Core;
use crate::graph::End;
use crate::primitive::panics::contain;
use crate::primitive::sync::{Arc, Mutex};
use crate::timers::{Clock, Instant, Nanos};

/// The room of an edge, as its senders see it: for
/// [`TestGraph::set_room`](super::TestGraph::set_room).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// What there is.
    #[default]
    Real,
    /// Enough for a burst and no more: handlers run, and `try_send` past the burst is refused.
    Burst,
    /// None: handlers that send on the edge are not called, `room` is zero, and `try_send` is
    /// refused. Where messages without room are returned or dropped, they are, and handlers are
    /// called; `drop_oldest` and `latest` have room always.
    None,
}

/// Where a message was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) sender: usize,
    pub(crate) receiver: usize,
    pub(crate) at: Instant,
}

/// Looks at the messages of one edge.
pub(crate) type Watch = Arc<Mutex<Box<dyn FnMut(Place, &dyn Any) + Send>>>;

/// What a watch panicked with.
pub(crate) type Failed = Arc<Mutex<Option<Box<dyn Any + Send>>>>;

/// A panic to come.
pub(crate) struct Fault {
    /// Of this edge alone.
    pub(crate) edge: Option<usize>,
    /// Messages until it comes, among all instances that share it.
    pub(crate) left: Arc<Mutex<u64>>,
    pub(crate) text: String,
}

/// A timer that was armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Armed {
    /// In what time it fires.
    pub after: Nanos,
    /// Whether it fires again and again, by [`Cx::every`](crate::Cx::every).
    pub repeats: bool,
    /// The type of its message.
    pub message: &'static str,
}

/// What a test has put in the way of one instance.
#[derive(Default)]
pub(crate) struct Trial {
    /// Per outlet; empty while all have what there is.
    pub(crate) rooms: Vec<Room>,
    pub(crate) watches: Vec<(usize, Watch)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) failed: Failed,
    /// The timers, where they are kept.
    pub(crate) armed: Option<Vec<Armed>>,
}

impl Trial {
    fn watch(&self, edge: usize, place: Place, message: &dyn Any) {
        for (_, watch) in self.watches.iter().filter(|(watched, _)| *watched == edge) {
            // Kept for the test: here it would count as a panic of the handler.
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
            // Each counts all messages, also those that another takes.
            let mut left = fault.left.lock();
            *left = left.saturating_sub(1);
            if *left == 0 {
                // Once.
                *left = u64::MAX;
                due = due.or(Some(fault));
            }
        }
        if let Some(fault) = due {
            // Without the panic hook, whose text belongs to panics that no test asked for.
            resume_unwind(Box::new(fault.text.clone()));
        }
    }
}

impl Core {
    /// Returns what a test puts in the way, to be changed.
    pub(crate) fn trial(&mut self) -> &mut Trial {
        self.trial.get_or_insert_default()
    }

    /// The handler of a message is to be called: of an edge, or of a timer.
    #[inline]
    pub(crate) fn delivering<M: 'static>(&self, edge: Option<usize>, message: &M) {
        if let Some(trial) = &self.trial {
            if let Some(edge) = edge {
                trial.watch(edge, self.place(self.sender, self.replica), message);
            }
            trial.fail(edge);
        }
    }

    /// A message is to be sent. Those to egress have no handler, and are seen here, if the send
    /// does not panic.
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

    /// As `sending`, where there is room for it.
    #[inline]
    pub(crate) fn trying<M: 'static>(&self, edge: usize, target: usize, message: &M) {
        if let Some(trial) = &self.trial
            && self.shared.edges[edge].to == End::Egress
        {
            trial.watch(edge, self.place(self.replica, target), message);
        }
    }

    /// A timer is armed.
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

    /// Returns the room that a test gives to an outlet.
    fn given_room(&self, out: usize) -> Room {
        let rooms = self.trial.as_ref().map(|trial| &trial.rooms);
        let given = rooms.and_then(|rooms| rooms.get(out).copied());
        given.unwrap_or_default()
    }

    /// Returns whether a test says that an outlet is full.
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

    /// Returns how many messages `try_send` takes now, where a test has something to say.
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
            // The oldest make room.
            Room::None if outlet.always_has_room() => outlet.room(index, invocation, promised),
            Room::None => 0,
        })
    }
}
