//! The outside of a graph under test: senders into its doors and receivers at its lanes, which act
//! in steps that the seed chooses.

use core::fmt;

use super::seed::share;
use crate::door::TrySendError;
use crate::egress::EgressReceiver;
use crate::egress::sealed::Lane as _;
use crate::primitive::Random;
use crate::primitive::sync::{Arc, Mutex};

/// Something outside that acts in steps.
pub(crate) trait Outside {
    /// Returns `true` if it may be able to act.
    fn is_ready(&mut self) -> bool;
    /// Makes one step.
    fn act(&mut self, random: &mut Random);
    /// Called after an instance had a turn.
    fn retry(&mut self) {}
    /// Called when the graph has ended.
    fn end(&mut self) {}
}

#[derive(Debug, Default)]
struct Progress {
    accepted: u64,
    is_done: bool,
}

/// The result of [`TestGraph::feed`](super::TestGraph::feed).
#[derive(Clone, Debug, Default)]
pub struct Feed {
    progress: Arc<Mutex<Progress>>,
}

impl Feed {
    /// Returns how many messages the door accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.progress.lock().accepted
    }

    /// Returns `true` if nothing is left to send, or the door has closed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.progress.lock().is_done
    }
}

/// The result of sending a message to a door.
pub(crate) enum Sent<T> {
    Taken,
    Full(T),
    Closed,
}

impl<T> Sent<T> {
    /// Converts the result of a door; `again` converts a returned message back to its item.
    pub(crate) fn of<M>(said: Result<(), TrySendError<M>>, again: impl FnOnce(M) -> T) -> Self {
        match said {
            Ok(()) => Self::Taken,
            Err(TrySendError::Full(message)) => Self::Full(again(message)),
            Err(TrySendError::Closed(_)) => Self::Closed,
        }
    }
}

/// Sends messages while there is room.
pub(crate) struct Feeder<I: Iterator, S> {
    messages: I,
    send: S,
    next: Option<I::Item>,
    is_blocked: bool,
    feed: Feed,
}

impl<I: Iterator, S: FnMut(I::Item) -> Sent<I::Item>> Feeder<I, S> {
    pub(crate) fn new(messages: I, send: S) -> (Self, Feed) {
        let feed = Feed::default();
        let mut feeder = Self {
            messages,
            send,
            next: None,
            is_blocked: false,
            feed: feed.clone(),
        };
        feeder.look();
        (feeder, feed)
    }

    /// Takes the next message, and records whether there is one.
    fn look(&mut self) {
        // If the iterator panics, nothing more is sent.
        self.feed.progress.lock().is_done = true;
        self.next = self.messages.next();
        self.feed.progress.lock().is_done = self.next.is_none();
    }
}

impl<I: Iterator, S: FnMut(I::Item) -> Sent<I::Item>> Outside for Feeder<I, S> {
    fn is_ready(&mut self) -> bool {
        !self.feed.is_done() && !self.is_blocked
    }

    fn act(&mut self, random: &mut Random) {
        for _ in 0..share(random, 4) {
            let Some(next) = self.next.take() else {
                return;
            };
            match (self.send)(next) {
                Sent::Taken => {
                    self.feed.progress.lock().accepted += 1;
                    self.look();
                }
                Sent::Full(back) => {
                    (self.next, self.is_blocked) = (Some(back), true);
                    return;
                }
                Sent::Closed => {
                    self.feed.progress.lock().is_done = true;
                    return;
                }
            }
        }
    }

    fn retry(&mut self) {
        self.is_blocked = false;
    }

    fn end(&mut self) {
        self.feed.progress.lock().is_done = true;
        // Not with the iterator, whose messages may panic too.
        drop(self.next.take());
    }
}

/// The messages of a lane, in order; from [`TestGraph::collect`](super::TestGraph::collect). Clones
/// share them.
pub struct Collected<M> {
    messages: Arc<Mutex<Vec<M>>>,
}

impl<M> Collected<M> {
    /// Takes the messages since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<M> {
        core::mem::take(&mut *self.messages.lock())
    }

    /// Returns the number of messages since the last [`take`](Self::take).
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.lock().len()
    }

    /// Returns `true` if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<M> Clone for Collected<M> {
    fn clone(&self) -> Self {
        Self {
            messages: Arc::clone(&self.messages),
        }
    }
}

impl<M> fmt::Debug for Collected<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Receives messages from a lane.
pub(crate) struct Collector<M> {
    receiver: EgressReceiver<M>,
    collected: Collected<M>,
}

impl<M> Collector<M> {
    pub(crate) fn new(receiver: EgressReceiver<M>) -> (Self, Collected<M>) {
        let collected = Collected {
            messages: Arc::default(),
        };
        let collector = Self {
            receiver,
            collected: collected.clone(),
        };
        (collector, collected)
    }

    fn take(&mut self, most: usize) {
        let mut messages = self.collected.messages.lock();
        self.receiver.drain(most, |message| messages.push(message));
    }
}

impl<M> Outside for Collector<M> {
    fn is_ready(&mut self) -> bool {
        self.receiver.is_ready()
    }

    fn act(&mut self, random: &mut Random) {
        self.take(share(random, 16) as usize);
    }

    fn end(&mut self) {
        self.take(usize::MAX);
    }
}
