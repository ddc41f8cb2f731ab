//! The queues with many producers and many consumers, ours and the rivals, behind one trait.
//!
//! A contender that needs a handle per thread gets one ([`Mpmc::handle`]); the others are called by
//! reference ([`Shared`]). If a bounded rival is full, it returns the item, and the harness waits
//! in its own way.

use std::collections::VecDeque;
use std::sync::Mutex;

use rast::queue::Queue;
use rast::queue::list::ListQueue;

use super::LAYER;
use crate::harness::Scenario;
use crate::workers::{Patience, Sample};

/// An item: it has a number, and as many bytes as the scenario says.
pub(super) trait Payload: Copy + Send + Sync + 'static {
    /// Wraps a number.
    fn of(number: u64) -> Self;
    /// The number again.
    fn number(self) -> u64;
}

impl Payload for u64 {
    #[inline]
    fn of(number: u64) -> Self {
        number
    }

    #[inline]
    fn number(self) -> u64 {
        self
    }
}

impl Payload for [u64; 8] {
    #[inline]
    fn of(number: u64) -> Self {
        [number; 8]
    }

    #[inline]
    fn number(self) -> u64 {
        // The first and the last word: a torn item would show in the sum.
        (self[0] >> 1) + (self[7] - (self[7] >> 1))
    }
}

/// The access of one thread to a queue.
pub(super) trait Handle<T> {
    /// Returns the item if a bounded queue is full.
    fn push(&mut self, item: T) -> Result<(), T>;
    fn pop(&mut self) -> Option<T>;

    /// Pushes, and waits as long as the queue is full.
    #[inline]
    fn push_patiently(&mut self, item: T) {
        let mut item = item;
        let mut patience = Patience::new();
        while let Err(back) = self.push(item) {
            item = back;
            patience.wait();
        }
    }

    /// Pops, and waits as long as the queue is empty.
    #[inline]
    fn pop_patiently(&mut self) -> T {
        let mut patience = Patience::new();
        loop {
            if let Some(item) = self.pop() {
                return item;
            }
            patience.wait();
        }
    }
}

/// A queue.
pub(super) trait Mpmc: Sync + Sized + 'static {
    type Item: Payload;
    type Handle<'a>: Handle<Self::Item>;

    /// A queue with room for at least `room` items; unbounded queues ignore it.
    fn new(room: usize) -> Self;
    fn handle(&self) -> Self::Handle<'_>;
}

/// A queue whose calls need no handle.
pub(super) trait Shared: Sync + Sized + 'static {
    type Item: Payload;

    fn new(room: usize) -> Self;
    fn push(&self, item: Self::Item) -> Result<(), Self::Item>;
    fn pop(&self) -> Option<Self::Item>;
}

impl<Q: Shared> Mpmc for Q {
    type Item = Q::Item;
    type Handle<'a> = &'a Q;

    fn new(room: usize) -> Self {
        Shared::new(room)
    }

    fn handle(&self) -> &Q {
        self
    }
}

impl<Q: Shared> Handle<Q::Item> for &Q {
    #[inline]
    fn push(&mut self, item: Q::Item) -> Result<(), Q::Item> {
        Shared::push(*self, item)
    }

    #[inline]
    fn pop(&mut self) -> Option<Q::Item> {
        Shared::pop(*self)
    }
}

/// Implements the trait for a queue: how to make it with the given room, and how to push and pop by
/// reference.
macro_rules! shared {
    (
        $queue:ty:
        new |$room:pat_param| $new:expr;
        push |$pushed:ident, $item:ident| $push:expr;
        pop |$popped:ident| $pop:expr;
    ) => {
        impl<T: Payload> Shared for $queue {
            type Item = T;

            fn new($room: usize) -> Self {
                $new
            }

            #[inline]
            fn push(&self, $item: T) -> Result<(), T> {
                let $pushed = self;
                $push
            }

            #[inline]
            fn pop(&self) -> Option<T> {
                let $popped = self;
                $pop
            }
        }
    };
}
#[cfg(all(rast_rivals, feature = "rivals"))]
pub(super) use shared;

shared! {
    Queue<T>:
    new |_room| Self::new();
    push |queue, item| queue.push(item).map_err(|closed| closed.0);
    pop |queue| queue.pop();
}

/// Ours in segments of 64 slots, as a program with many small queues would use it.
pub(super) struct Small<T>(Queue<T>);

shared! {
    Small<T>:
    new |_room| Self(Queue::with_segment_slots(64));
    push |queue, item| queue.0.push(item).map_err(|closed| closed.0);
    pop |queue| queue.0.pop();
}

shared! {
    ListQueue<T>:
    new |_room| Self::new();
    push |queue, item| queue.push(item).map_err(|closed| closed.0);
    pop |queue| queue.pop();
}

shared! {
    Mutex<VecDeque<T>>:
    new |_room| Self::default();
    push |queue, item| {
        queue.lock().expect("no panic inside").push_back(item);
        Ok(())
    };
    pop |queue| queue.lock().expect("no panic inside").pop_front();
}

/// What a scenario does with a queue.
pub(super) trait Work: 'static {
    type Item: Payload;

    fn run<Q: Mpmc<Item = Self::Item>>(ops: u64) -> Sample;
}

/// Adds ours.
pub(super) fn ours<W: Work>(scenario: Scenario) -> Scenario {
    scenario
        .ours("rast Queue", W::run::<Queue<W::Item>>)
        .ours("rast Queue, 64 slots", W::run::<Small<W::Item>>)
}

/// Adds the queue of the original design. Few scenarios have it, because it is far slower.
pub(super) fn listed<W: Work>(scenario: Scenario) -> Scenario {
    scenario.ours("rast ListQueue", W::run::<ListQueue<W::Item>>)
}

/// Adds the rivals of every scenario: std's lock and, with the rivals, the faster lock and the
/// queue that most programs take.
pub(super) fn nearest<W: Work>(scenario: Scenario) -> Scenario {
    let scenario = scenario.rival("std Mutex<VecDeque>", W::run::<Mutex<VecDeque<W::Item>>>);
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = super::rivals::nearest::<W>(scenario);
    scenario
}

/// A scenario with every contender except the list queue.
pub(super) fn all<W: Work>(name: &'static str, ops: u64, smoke_ops: u64) -> Scenario {
    others::<W>(nearest::<W>(ours::<W>(Scenario::new(
        LAYER, name, ops, smoke_ops,
    ))))
}

/// Adds every other rival.
pub(super) fn others<W: Work>(scenario: Scenario) -> Scenario {
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = super::rivals::others::<W>(scenario);
    scenario
}
