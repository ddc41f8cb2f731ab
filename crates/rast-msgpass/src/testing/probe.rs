//! Records of the messages of an edge.

use core::fmt;
use std::any::Any;

use crate::primitive::sync::{Arc, Mutex};
use crate::timers::Instant;
use crate::trial::{Place, Watch};

/// A message of an edge, with its ends and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Passed<M> {
    /// The replica that sent it; 0 from ingress.
    pub sender: usize,
    /// The replica that received it, or the lane.
    pub receiver: usize,
    /// The time, by the clock of the graph.
    pub at: Instant,
    /// The message.
    pub message: M,
}

impl<M> Passed<M> {
    pub(super) fn new(place: Place, message: M) -> Self {
        Self {
            sender: place.sender,
            receiver: place.receiver,
            at: place.at,
            message,
        }
    }
}

/// Records the messages of one edge, in order; from [`TestGraph::probe`](super::TestGraph::probe).
///
/// It records a message before its handler is called, and on an edge to egress when it is sent.
/// Clones share the records.
pub struct Probe<M> {
    seen: Arc<Mutex<Vec<Passed<M>>>>,
}

impl<M> Probe<M> {
    /// Takes the records since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Passed<M>> {
        core::mem::take(&mut *self.seen.lock())
    }

    /// Takes the messages since the last call.
    #[must_use]
    pub fn messages(&self) -> Vec<M> {
        let passed = self.take().into_iter();
        passed.map(|passed| passed.message).collect()
    }

    /// Returns the number of records since the last call that took them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seen.lock().len()
    }

    /// Returns `true` if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<M: Clone + Send + 'static> Probe<M> {
    pub(crate) fn new() -> Self {
        Self {
            seen: Arc::default(),
        }
    }

    /// Returns the watch that fills it.
    pub(crate) fn watch(&self) -> Watch {
        let seen = Arc::clone(&self.seen);
        watch(move |passed: Passed<&M>| {
            let message = passed.message.clone();
            seen.lock().push(Passed {
                message,
                sender: passed.sender,
                receiver: passed.receiver,
                at: passed.at,
            });
        })
    }
}

/// Makes a watch from a closure for the message type.
pub(crate) fn watch<M: 'static>(mut each: impl FnMut(Passed<&M>) + Send + 'static) -> Watch {
    let each = move |place: Place, message: &dyn Any| {
        let message = message.downcast_ref();
        let message = message.expect("an edge carries its own message");
        each(Passed::new(place, message));
    };
    Arc::new(Mutex::new(Box::new(each)))
}

impl<M> Clone for Probe<M> {
    fn clone(&self) -> Self {
        Self {
            seen: Arc::clone(&self.seen),
        }
    }
}

impl<M> fmt::Debug for Probe<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
