//! The rivals from other crates, behind the trait of the contenders.
//!
//! Some crates claim, like ours, that no thread waits for a stopped thread. One of them takes part:
//! `faaa_queue` 1.0, the unbounded array queue by fetch-and-add with hazard pointers. `lfqueue`
//! 0.8.1 (LSCQ) is left out, because with four producers and four consumers on two cores its
//! consumers wait for ever for pushed items. The other crates of this kind are bounded or have only
//! one release.

use std::collections::VecDeque;

use concurrent_queue::ConcurrentQueue;
use crossbeam_queue::{ArrayQueue, SegQueue};

use super::contenders::{Payload, Shared, Work, shared};
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

shared! {
    parking_lot::Mutex<VecDeque<T>>:
    new |_room| Self::default();
    push |queue, item| {
        queue.lock().push_back(item);
        Ok(())
    };
    pop |queue| queue.lock().pop_front();
}

shared! {
    SegQueue<T>:
    new |_room| Self::new();
    push |queue, item| {
        queue.push(item);
        Ok(())
    };
    pop |queue| queue.pop();
}

shared! {
    ArrayQueue<T>:
    new |room| Self::new(room);
    push |queue, item| queue.push(item);
    pop |queue| queue.pop();
}

/// `concurrent-queue` without a bound.
pub(super) struct Unbounded<T>(ConcurrentQueue<T>);

shared! {
    Unbounded<T>:
    new |_room| Self(ConcurrentQueue::unbounded());
    push |queue, item| queue.0.push(item).map_err(|refused| refused.into_inner());
    pop |queue| queue.0.pop().ok();
}

/// `concurrent-queue` with a bound.
pub(super) struct Bounded<T>(ConcurrentQueue<T>);

shared! {
    Bounded<T>:
    new |room| Self(ConcurrentQueue::bounded(room));
    push |queue, item| queue.0.push(item).map_err(|refused| refused.into_inner());
    pop |queue| queue.0.pop().ok();
}

/// `kanal` without a bound; both ends live as long as the queue.
pub(super) struct Kanal<T>(pub(super) kanal::Sender<T>, pub(super) kanal::Receiver<T>);

shared! {
    Kanal<T>:
    new |_room| {
        let (sender, receiver) = kanal::unbounded();
        Self(sender, receiver)
    };
    push |queue, item| queue.0.send(item).map_err(|_| item);
    pop |queue| queue.1.try_recv().expect("both ends live");
}

/// `flume` without a bound.
pub(super) struct Flume<T>(pub(super) flume::Sender<T>, pub(super) flume::Receiver<T>);

shared! {
    Flume<T>:
    new |_room| {
        let (sender, receiver) = flume::unbounded();
        Self(sender, receiver)
    };
    push |queue, item| queue.0.send(item).map_err(|refused| refused.0);
    pop |queue| queue.1.try_recv().ok();
}

/// `crossbeam-channel` without a bound.
pub(super) struct CrossbeamChannel<T>(crossbeam_channel::Sender<T>, crossbeam_channel::Receiver<T>);

shared! {
    CrossbeamChannel<T>:
    new |_room| {
        let (sender, receiver) = crossbeam_channel::unbounded();
        Self(sender, receiver)
    };
    push |queue, item| queue.0.send(item).map_err(|refused| refused.0);
    pop |queue| queue.1.try_recv().ok();
}

shared! {
    faaa_queue::FAAAQueue<T>:
    new |_room| Self::new();
    push |queue, item| {
        queue.enqueue(item);
        Ok(())
    };
    pop |queue| queue.dequeue();
}
