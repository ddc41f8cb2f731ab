//! Recorded histories of a queue, and whether one is linearizable.
//!
//! Each operation is stamped before it begins and after it has ended, by one shared clock. A history is linearizable if
//! there is an order of its operations that a plain queue would answer in the same way, and in which no operation comes
//! after one that began only when it had ended. The search tries every order (Wing and Gong), remembering which sets of
//! operations led nowhere, so it is for a dozen operations.
//!
//! A stamp is a read-modify-write with both halves of the ordering: what ended before a stamp was taken happens before
//! what began after it. So a history tells nothing about weak orderings, which the models look for, and an answer is
//! right or wrong on every machine alike.
#![allow(dead_code, reason = "each structure records what it has")]

use rast_queue::primitive::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

/// An operation with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Of an item, and whether it was taken.
    Push(u32, bool),
    /// What came out.
    Pop(Option<u32>),
    /// Whether it was this one that closed.
    Close(bool),
    IsEmpty(bool),
    IsClosed(bool),
    Len(usize),
}

/// An operation with its stamps.
#[derive(Clone, Copy, Debug)]
struct Event {
    operation: Operation,
    began: usize,
    ended: usize,
}

/// Records what threads do with one queue.
pub(crate) struct History {
    clock: AtomicUsize,
    // std's own: a model need not see it.
    events: Mutex<Vec<Event>>,
}

impl History {
    pub(crate) fn new() -> Self {
        Self {
            clock: AtomicUsize::new(0),
            events: Mutex::new(Vec::new()),
        }
    }

    fn stamp(&self) -> usize {
        self.clock.fetch_add(1, Ordering::AcqRel)
    }

    /// Runs `f` and records the operation that it gives.
    pub(crate) fn record(&self, f: impl FnOnce() -> Operation) -> Operation {
        let began = self.stamp();
        let operation = f();
        let ended = self.stamp();
        self.events.lock().unwrap().push(Event {
            operation,
            began,
            ended,
        });
        operation
    }

    /// Asserts that what was recorded is linearizable, for a queue that began open and empty.
    pub(crate) fn assert_linearizable(&self) {
        let mut events = self.events.lock().unwrap().clone();
        events.sort_by_key(|event| event.began);
        assert!(events.len() <= 64, "too long a history");
        assert!(is_linearizable(&events), "not linearizable: {events:#?}");
    }
}

/// What a plain queue knows.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Plain {
    items: VecDeque<u32>,
    closed: bool,
}

impl Plain {
    /// Does `operation`, if this queue answers as recorded.
    fn answers(&mut self, operation: Operation) -> bool {
        match operation {
            Operation::Push(item, taken) => {
                if taken {
                    self.items.push_back(item);
                }
                taken != self.closed
            }
            Operation::Pop(item) => self.items.pop_front() == item,
            Operation::Close(first) => first != std::mem::replace(&mut self.closed, true),
            Operation::IsEmpty(yes) => self.items.is_empty() == yes,
            Operation::IsClosed(yes) => self.closed == yes,
            Operation::Len(len) => self.items.len() == len,
        }
    }
}

fn is_linearizable(events: &[Event]) -> bool {
    let mut dead = HashSet::new();
    search(events, 0, &Plain::default(), &mut dead)
}

/// Whether the events that are not in the set `done` can follow, from `queue` on.
fn search(events: &[Event], done: u64, queue: &Plain, dead: &mut HashSet<(u64, Plain)>) -> bool {
    let left = |index: &usize| done & 1 << index == 0;
    let Some(first_end) = (0..events.len())
        .filter(left)
        .map(|index| events[index].ended)
        .min()
    else {
        return true;
    };
    if !dead.insert((done, queue.clone())) {
        return false;
    }
    (0..events.len())
        .filter(left)
        .filter(|&index| events[index].began < first_end)
        .any(|index| {
            let mut next = queue.clone();
            next.answers(events[index].operation) && search(events, done | 1 << index, &next, dead)
        })
}

mod tests {
    use super::*;

    fn check(events: &[(Operation, usize, usize)]) -> bool {
        let events: Vec<_> = events
            .iter()
            .map(|&(operation, began, ended)| Event {
                operation,
                began,
                ended,
            })
            .collect();
        is_linearizable(&events)
    }

    #[test]
    fn history_tells_right_from_wrong() {
        use Operation::{Close, IsClosed, Pop, Push};
        // Side by side, either order.
        assert!(check(&[(Push(1, true), 0, 3), (Pop(Some(1)), 1, 2)]));
        assert!(check(&[(Push(1, true), 0, 3), (Pop(None), 1, 2)]));
        // One after the other.
        assert!(!check(&[(Push(1, true), 0, 1), (Pop(None), 2, 3)]));
        assert!(!check(&[(Pop(Some(1)), 0, 1), (Push(1, true), 2, 3)]));
        // Twice, and out of order.
        assert!(!check(&[
            (Push(1, true), 0, 1),
            (Pop(Some(1)), 2, 4),
            (Pop(Some(1)), 3, 5)
        ]));
        assert!(!check(&[
            (Push(1, true), 0, 1),
            (Push(2, true), 2, 3),
            (Pop(Some(2)), 4, 5)
        ]));
        // Closing.
        assert!(check(&[(Close(true), 0, 3), (Push(1, false), 1, 2)]));
        assert!(!check(&[(Push(1, false), 0, 1), (Close(true), 2, 3)]));
        assert!(!check(&[(Close(true), 0, 1), (IsClosed(false), 2, 3)]));
        assert!(!check(&[(Close(true), 0, 3), (Close(true), 1, 2)]));
    }
}
