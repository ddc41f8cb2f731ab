//! Where tests reach into an instance, with the feature `testing`.
//!
//! Calls of handlers for messages and timers, sends to egress, and checks of room pass through
//! here. Without the feature `untested.rs` has these functions, which do nothing.

use super::Core;
use crate::graph::End;
use crate::outlet::Outlet as _;
use crate::timers::{Clock, Nanos};
use crate::trial::{Armed, Place, Room, Trial};

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
    /// if the send does not panic and the message is not dropped.
    #[inline]
    pub(crate) fn sending<M: Send + 'static>(
        &mut self,
        edge: usize,
        out: usize,
        target: usize,
        message: &M,
    ) {
        if self.trial.is_some() && self.shared.edges[edge].to == End::Egress {
            if self.is_filled(out) && self.outs[out].is_lossy() {
                // It is dropped.
                return;
            }
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
            Room::Burst if !outlet.is_lossy() => outlet.promise(index, invocation, promised),
            Room::Real | Room::Burst => outlet.room(index, invocation, promised),
            // The oldest messages make room.
            Room::None if outlet.always_has_room() => outlet.room(index, invocation, promised),
            Room::None => 0,
        })
    }
}
