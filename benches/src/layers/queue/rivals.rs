//! The rivals from other crates under the face of the contenders.
//!
//! Of the crates whose queues claim not to stop when a thread stops, as ours does, one takes part:
//! `faaa_queue`, the array queue by fetch-and-add with hazard pointers, unbounded, at 1.0.
//! `lfqueue` 0.8.1 (LSCQ) was tried and left out: with four producers and four consumers on two
//! cores its consumers waited for ever for items that had been pushed.
//! The other crates of this kind that were looked at are bounded or have a single release.

use std::collections::VecDeque;

use concurrent_queue::ConcurrentQueue;
use crossbeam_queue::{ArrayQueue, SegQueue};

use super::contenders::{Payload, Shared, Work};
use crate::harness::Scenario;

/// The rivals of every scenario.
pub(super) fn nearest<W: Work>(scenario: Scenario) -> Scenario {
    scenario
        .rival(
            "parking_lot Mutex<VecDeque>",
            W::run::<parking_lot::Mutex<VecDeque<W::Item>>>,
        )
        .rival("crossbeam SegQueue", W::run::<SegQueue<W::Item>>)
}

/// The rivals of the broad scenarios.
pub(super) fn others<W: Work>(scenario: Scenario) -> Scenario {
    scenario
        .rival("concurrent-queue", W::run::<Unbounded<W::Item>>)
        .rival("kanal", W::run::<Kanal<W::Item>>)
        .rival("flume", W::run::<Flume<W::Item>>)
        .rival("crossbeam-channel", W::run::<CrossbeamChannel<W::Item>>)
        .rival("faaa_queue", W::run::<faaa_queue::FAAAQueue<W::Item>>)
        .rival(
            "bounded: crossbeam ArrayQueue",
            W::run::<ArrayQueue<W::Item>>,
        )
        .rival("bounded: concurrent-queue", W::run::<Bounded<W::Item>>)
}

impl<T: Payload> Shared for parking_lot::Mutex<VecDeque<T>> {
    type Item = T;

    fn new(_room: usize) -> Self {
        Self::default()
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), T> {
        self.lock().push_back(item);
        Ok(())
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        self.lock().pop_front()
    }
}

impl<T: Payload> Shared for SegQueue<T> {
    type Item = T;

    fn new(_room: usize) -> Self {
        Self::new()
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), T> {
        SegQueue::push(self, item);
        Ok(())
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        SegQueue::pop(self)
    }
}

impl<T: Payload> Shared for ArrayQueue<T> {
    type Item = T;

    fn new(room: usize) -> Self {
        Self::new(room)
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), T> {
        ArrayQueue::push(self, item)
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        ArrayQueue::pop(self)
    }
}

/// `concurrent-queue` without a bound.
pub(super) struct Unbounded<T>(ConcurrentQueue<T>);

impl<T: Payload> Shared for Unbounded<T> {
    type Item = T;

    fn new(_room: usize) -> Self {
        Self(ConcurrentQueue::unbounded())
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), T> {
        self.0.push(item).map_err(|refused| refused.into_inner())
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        self.0.pop().ok()
    }
}

/// `concurrent-queue` with a bound.
pub(super) struct Bounded<T>(ConcurrentQueue<T>);

impl<T: Payload> Shared for Bounded<T> {
    type Item = T;

    fn new(room: usize) -> Self {
        Self(ConcurrentQueue::bounded(room))
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), T> {
        self.0.push(item).map_err(|refused| refused.into_inner())
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        self.0.pop().ok()
    }
}

/// `kanal` without a bound; both ends live as long as the queue.
pub(super) struct Kanal<T>(pub(super) kanal::Sender<T>, pub(super) kanal::Receiver<T>);

impl<T: Payload> Shared for Kanal<T> {
    type Item = T;

    fn new(_room: usize) -> Self {
        let (sender, receiver) = kanal::unbounded();
        Self(sender, receiver)
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), T> {
        self.0.send(item).map_err(|_| item)
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        self.1.try_recv().expect("both ends live")
    }
}

/// `flume` without a bound.
pub(super) struct Flume<T>(pub(super) flume::Sender<T>, pub(super) flume::Receiver<T>);

impl<T: Payload> Shared for Flume<T> {
    type Item = T;

    fn new(_room: usize) -> Self {
        let (sender, receiver) = flume::unbounded();
        Self(sender, receiver)
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), T> {
        self.0.send(item).map_err(|refused| refused.0)
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        self.1.try_recv().ok()
    }
}

/// `crossbeam-channel` without a bound.
pub(super) struct CrossbeamChannel<T>(crossbeam_channel::Sender<T>, crossbeam_channel::Receiver<T>);

impl<T: Payload> Shared for CrossbeamChannel<T> {
    type Item = T;

    fn new(_room: usize) -> Self {
        let (sender, receiver) = crossbeam_channel::unbounded();
        Self(sender, receiver)
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), T> {
        self.0.send(item).map_err(|refused| refused.0)
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        self.1.try_recv().ok()
    }
}

impl<T: Payload> Shared for faaa_queue::FAAAQueue<T> {
    type Item = T;

    fn new(_room: usize) -> Self {
        Self::new()
    }

    #[inline]
    fn push(&self, item: T) -> Result<(), T> {
        self.enqueue(item);
        Ok(())
    }

    #[inline]
    fn pop(&self) -> Option<T> {
        self.dequeue()
    }
}
