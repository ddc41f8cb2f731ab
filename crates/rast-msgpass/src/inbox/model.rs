//! One inbox without a graph, for the models of its rules.

use super::{Here, Inboxes, Receiver, inboxes};
use crate::waiting::Pace;
use core::marker::PhantomData;

/// The senders' end.
#[derive(Clone)]
pub struct Senders(Inboxes<u32>);

/// The receiver's end.
pub struct Taker(Receiver<u32>);

/// Makes an inbox with so many slots in its ring.
#[must_use]
pub fn inbox(capacity: usize) -> (Senders, Taker) {
    let (inboxes, receivers) = inboxes(0, 1, capacity, false, |capacity| Pace::new(capacity, 1));
    let receiver = receivers.into_iter().next();
    (Senders(inboxes), Taker(receiver.expect("there is one")))
}

impl Senders {
    /// Puts a message into a place, if rule 2 allows it. Returns `true` if it did.
    ///
    /// # Safety
    ///
    /// The caller's thread is that of the receiver: rule 1.
    #[must_use]
    pub unsafe fn put(&self, has_pushed: bool, tag: u32, message: u32) -> bool {
        // The caller argues what `Inbox::here` checks.
        let mut here = Here {
            inbox: &self.0[0],
            worker: PhantomData,
        };
        let has_room = here.room(has_pushed) > 0;
        if has_room {
            here.put(tag, message);
        }
        has_room
    }

    /// Pushes a message to the ring. Returns `true` if there was room.
    #[must_use]
    pub fn push(&self, tag: u32, message: u32) -> bool {
        self.0[0].push(tag, message).is_ok()
    }
}

impl Taker {
    /// A wake-up with the bit `RING` arrived.
    pub fn ask(&self) {
        self.0.ask();
    }

    /// Takes the next message, with the tag of its sender.
    pub fn take(&mut self) -> Option<(u32, u32)> {
        self.0.take().map(|(tag, message, _)| (tag, message))
    }
}
