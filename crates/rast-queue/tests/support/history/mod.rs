//! Histories: the operations of each thread on a queue, with their results and times.
//!
//! The clock is one counter. Each operation takes a stamp from it before it begins and one after it
//! returned, by a read-modify-write that acquires and releases. So if the stamps of two operations
//! do not overlap, the first happens before the second in the memory model, which is the order that
//! linearizability promises to keep. Stamps only widen an operation, so a correct queue is never
//! reported. The system's clock would not do: a store may still be in the store buffer when the
//! clock is read after it. The stamps also order the threads, so a queue with a weak ordering may
//! pass here; the loom models find that.
//!
//! Stamps are unique. Between two neighbouring stamps is a gap, named by the stamp before it. An
//! operation takes effect in one of the gaps between its two stamps.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod exhaustive;
pub(crate) mod patterns;
pub(crate) mod program;
mod queues;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was asked, and the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A push of a value, which no other push of the history has.
    Push(u64),
    /// A push that was told the queue is closed.
    Refused(u64),
    Pop(u64),
    /// A pop that found nothing.
    Empty,
    /// A pop that was told the queue is closed and empty.
    ClosedEmpty,
    /// A close; true if it was the one that closed.
    Close(bool),
    /// The question whether the queue is closed.
    IsClosed(bool),
}

/// One operation of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) thread: usize,
    pub(crate) call: Call,
    /// Taken before the operation began.
    pub(crate) start: u64,
    /// Taken after it returned.
    pub(crate) end: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{:>6}, {:>6}] thread {}: {:x?}",
            self.start, self.end, self.thread, self.call
        )
    }
}

/// What a batch of pops says that brings fewer values than were asked for.
#[derive(Clone, Copy)]
pub(crate) enum Fewer {
    /// The queue was empty after them.
    SayEmpty,
    /// It was empty if there were none.
    SayEmptyIfNone,
}

/// All operations, each thread's in its own order. Those of a batch share their stamps and keep
/// their order.
pub(crate) type History = Vec<Vec<Event>>;

/// The clock of one history.
#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    fn stamp(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel)
    }

    /// The log of thread number `thread`.
    pub(crate) fn log(&self, thread: usize) -> Log {
        Log {
            clock: self.clone(),
            thread,
            events: Vec::with_capacity(256),
        }
    }
}

/// What one thread did.
pub(crate) struct Log {
    clock: Clock,
    thread: usize,
    events: Vec<Event>,
}

impl Log {
    fn note(&mut self, call: Call, start: u64, end: u64) {
        let thread = self.thread;
        self.events.push(Event {
            thread,
            call,
            start,
            end,
        });
    }

    /// A push that is refused only because the queue is closed; `push` returns whether it
    /// succeeded.
    pub(crate) fn push(&mut self, value: u64, push: impl FnOnce() -> bool) -> bool {
        self.push_batch(&[value], || usize::from(push())) == 1
    }

    /// A push of all of `values`; `push` returns how many were taken before the queue was found
    /// closed.
    pub(crate) fn push_batch(&mut self, values: &[u64], push: impl FnOnce() -> usize) -> usize {
        let start = self.clock.stamp();
        let taken = push();
        let end = self.clock.stamp();
        for (place, value) in values.iter().enumerate() {
            let call = if place < taken {
                Call::Push(*value)
            } else {
                Call::Refused(*value)
            };
            self.note(call, start, end);
        }
        taken
    }

    /// A push into something bounded: what finds no room leaves no trace in the history.
    pub(crate) fn offer(&mut self, value: u64, push: impl FnOnce() -> bool) -> bool {
        let start = self.clock.stamp();
        let taken = push();
        let end = self.clock.stamp();
        if taken {
            self.note(Call::Push(value), start, end);
        }
        taken
    }

    /// As [`offer`](Self::offer), of several; `push` returns those that were taken.
    pub(crate) fn offer_batch<'a>(&mut self, push: impl FnOnce() -> &'a [u64]) -> usize {
        let start = self.clock.stamp();
        let taken = push();
        let end = self.clock.stamp();
        for value in taken {
            self.note(Call::Push(*value), start, end);
        }
        taken.len()
    }

    /// A pop.
    pub(crate) fn pop(&mut self, pop: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let start = self.clock.stamp();
        let popped = pop();
        let end = self.clock.stamp();
        self.note(popped.map_or(Call::Empty, Call::Pop), start, end);
        popped
    }

    /// A pop that waits: `None` says that the queue is closed and empty.
    pub(crate) fn pop_wait(&mut self, pop: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let start = self.clock.stamp();
        let popped = pop();
        let end = self.clock.stamp();
        self.note(popped.map_or(Call::ClosedEmpty, Call::Pop), start, end);
        popped
    }

    /// A pop of at most `max` values, which `pop` hands to its argument.
    pub(crate) fn pop_batch(
        &mut self,
        max: usize,
        fewer: Fewer,
        pop: impl FnOnce(&mut dyn FnMut(u64)),
    ) -> usize {
        let start = self.clock.stamp();
        let mut popped = Vec::new();
        pop(&mut |value| popped.push(value));
        let end = self.clock.stamp();
        for value in &popped {
            self.note(Call::Pop(*value), start, end);
        }
        let is_empty = match fewer {
            Fewer::SayEmpty => popped.len() < max,
            Fewer::SayEmptyIfNone => popped.is_empty(),
        };
        if is_empty {
            self.note(Call::Empty, start, end);
        }
        popped.len()
    }

    /// A close; `close` returns whether it was the one that closed.
    pub(crate) fn close(&mut self, close: impl FnOnce() -> bool) -> bool {
        let start = self.clock.stamp();
        let first = close();
        let end = self.clock.stamp();
        self.note(Call::Close(first), start, end);
        first
    }

    /// The question whether the queue is closed.
    pub(crate) fn is_closed(&mut self, ask: impl FnOnce() -> bool) -> bool {
        let start = self.clock.stamp();
        let closed = ask();
        let end = self.clock.stamp();
        self.note(Call::IsClosed(closed), start, end);
        closed
    }

    /// The operations in the order in which the thread made them.
    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events
    }
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A value was popped that no thread pushed, or whose push was refused.
    NeverPushed(u64),
    PoppedTwice(u64),
    /// A pop returned the value before its push began.
    PoppedBeforePushed(u64),
    /// `first` was pushed before `second`, which was popped before it, or it was never popped.
    OutOfOrder {
        first: u64,
        second: u64,
    },
    /// At every moment of this pop a value was in the queue.
    FalseEmpty(Event),
    /// These two answers disagree about when the queue was closed: by the first it was open still,
    /// by the second closed already. One event alone: it found the queue closed, and no thread
    /// closed it.
    Close(Event, Option<Event>),
    /// No order of the operations explains all answers; the exhaustive search says no more.
    NoOrder,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverPushed(value) => write!(f, "{value:x} was popped and never pushed"),
            Self::PoppedTwice(value) => write!(f, "{value:x} was popped twice"),
            Self::PoppedBeforePushed(value) => write!(f, "{value:x} was popped before its push"),
            Self::OutOfOrder { first, second } => write!(
                f,
                "{first:x} was pushed before {second:x} and popped after it, or lost"
            ),
            Self::FalseEmpty(event) => write!(f, "a pop found nothing though there was: {event}"),
            Self::Close(open, Some(closed)) => {
                write!(f, "open after it was closed: {open} / {closed}")
            }
            Self::Close(event, None) => write!(f, "closed by no thread: {event}"),
            Self::NoOrder => f.write_str("no order of the operations explains all answers"),
        }
    }
}

/// Panics with the violation and the history around it, if there is one.
pub(crate) fn assert_sound(what: &str, history: &History) {
    let violation = match patterns::check(history) {
        Err(violation) => violation,
        Ok(()) => match exhaustive::check(history) {
            Some(Err(violation)) => violation,
            _ => return,
        },
    };
    let mut all: Vec<Event> = history.iter().flatten().copied().collect();
    all.sort_by_key(|event| event.start);
    let near = around(&all, &violation);
    let lines: Vec<String> = near.iter().map(ToString::to_string).collect();
    panic!("{what}: {violation}\n{}", lines.join("\n"));
}

/// The operations that have to do with a violation, and those beside them; all, if there are few.
fn around<'a>(all: &'a [Event], violation: &Violation) -> &'a [Event] {
    let is_part = |event: &&Event| {
        let value = match event.call {
            Call::Push(value) | Call::Refused(value) | Call::Pop(value) => Some(value),
            _ => None,
        };
        match violation {
            Violation::NeverPushed(v) | Violation::PoppedTwice(v) => value == Some(*v),
            Violation::PoppedBeforePushed(v) => value == Some(*v),
            Violation::OutOfOrder { first, second } => {
                value.is_some_and(|v| v == *first || v == *second)
            }
            Violation::FalseEmpty(e) => *event == e,
            Violation::Close(a, b) => *event == a || Some(**event) == *b,
            Violation::NoOrder => true,
        }
    };
    let places: Vec<usize> = (0..all.len()).filter(|i| is_part(&&all[*i])).collect();
    let from = places.first().map_or(0, |first| first.saturating_sub(20));
    let to = places
        .last()
        .map_or(all.len(), |last| (last + 20).min(all.len()));
    &all[from..to.min(from + 200)]
}
