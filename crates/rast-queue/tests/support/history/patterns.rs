//! Wrong patterns of a first-in first-out queue, for histories of any length, in O(n log n).
//!
//! A complete history of distinct values has an order that explains it unless one of these patterns
//! occurs (Henzinger, Sezgin and Vafeiadis, 2013): a value is popped that was not pushed before; a
//! value is popped twice; two values change places; or a pop returns `None` while at each moment
//! some value is queued. Closing adds one: every result says that the queue was open or closed, and
//! there must be a moment at which it changes.
//!
//! The operations of a batch also keep their order. This is checked only for pairs of values of one
//! thread, so it is not complete; the exhaustive search is.

use super::{Call, Event, History, Violation};
use std::collections::HashMap;

/// An operation: its thread, its place there, its stamps.
#[derive(Clone, Copy)]
struct Span {
    thread: usize,
    place: usize,
    start: u64,
    end: u64,
}

/// What was never popped is popped after everything.
const NEVER: Span = Span {
    thread: usize::MAX,
    place: usize::MAX,
    start: u64::MAX,
    end: u64::MAX,
};

/// A value that was pushed.
#[derive(Clone, Copy)]
struct Item {
    value: u64,
    push: Span,
    pop: Span,
}

/// Looks for each pattern.
pub(crate) fn check(history: &History) -> Result<(), Violation> {
    let (closed_from, open_until) = closing(history)?;
    let mut items = items(history)?;
    for item in &mut items {
        // It took effect before the close did.
        item.push.end = item.push.end.min(open_until);
    }
    order(&mut items)?;
    empties(history, &items, closed_from)
}

/// The gaps in which the queue can have been closed: from the first number on, before the second.
fn closing(history: &History) -> Result<(u64, u64), Violation> {
    let all = || history.iter().flatten();
    let by = all().find(|event| event.call == Call::Close(true));
    // An answer that holds only before the close, and its first gap; one that holds only after, and
    // the end of its gaps.
    let open = all().filter(|event| matches!(event.call, Call::Push(_) | Call::IsClosed(false)));
    let shut = all().filter(|event| {
        matches!(
            event.call,
            Call::Refused(_) | Call::ClosedEmpty | Call::Close(false) | Call::IsClosed(true)
        )
    });
    let last_open = open.max_by_key(|event| event.start);
    let first_shut = shut.min_by_key(|event| event.end);
    let Some(by) = by else {
        return match first_shut {
            Some(event) => Err(Violation::Close(*event, None)),
            None => Ok((u64::MAX, u64::MAX)),
        };
    };
    if let Some(again) = all().find(|event| event.call == Call::Close(true) && *event != by) {
        return Err(Violation::Close(*again, Some(*by)));
    }
    let late = |event: &&Event| event.start >= by.start;
    let early = |event: &&Event| event.end <= by.end;
    let opens = last_open.filter(late).unwrap_or(by);
    let shuts = first_shut.filter(early).unwrap_or(by);
    if opens.start < shuts.end {
        Ok((opens.start, shuts.end))
    } else {
        Err(Violation::Close(*opens, Some(*shuts)))
    }
}

/// Every value that was pushed, with its pop.
fn items(history: &History) -> Result<Vec<Item>, Violation> {
    let spans = || {
        history.iter().flat_map(|events| {
            events.iter().enumerate().map(|(place, event)| {
                let Event {
                    thread, start, end, ..
                } = *event;
                let span = Span {
                    thread,
                    place,
                    start,
                    end,
                };
                (event.call, span)
            })
        })
    };
    let mut items = HashMap::new();
    for (call, push) in spans() {
        if let Call::Push(value) = call {
            let pop = NEVER;
            let before = items.insert(value, Item { value, push, pop });
            assert!(before.is_none(), "a test pushes {value:x} twice");
        }
    }
    for (call, pop) in spans() {
        if let Call::Pop(value) = call {
            let Some(item) = items.get_mut(&value) else {
                return Err(Violation::NeverPushed(value));
            };
            if item.pop.place != NEVER.place {
                return Err(Violation::PoppedTwice(value));
            }
            if pop.end < item.push.start {
                return Err(Violation::PoppedBeforePushed(value));
            }
            item.pop = pop;
        }
    }
    Ok(items.into_values().collect())
}

/// No value is popped before one that was pushed before it.
fn order(items: &mut [Item]) -> Result<(), Violation> {
    let wrong = |first: &Item, second: &Item| {
        Err(Violation::OutOfOrder {
            first: first.value,
            second: second.value,
        })
    };

    // Both orders by stamps: of the values whose push ended before this one began, the one popped
    // last.
    let mut by_end: Vec<Item> = items.to_vec();
    by_end.sort_by_key(|item| item.push.end);
    items.sort_by_key(|item| item.push.start);
    let mut before = by_end.iter().peekable();
    let mut last: Option<&Item> = None;
    for item in items.iter() {
        while let Some(other) = before.next_if(|other| other.push.end < item.push.start) {
            if last.is_none_or(|last| last.pop.start < other.pop.start) {
                last = Some(other);
            }
        }
        if let Some(last) = last.filter(|last| item.pop.end < last.pop.start) {
            return wrong(last, item);
        }
    }

    // Pushed by one thread: of its earlier values, the one popped last, by stamps or by the popping
    // thread.
    items.sort_by_key(|item| (item.push.thread, item.push.place));
    for of_thread in items.chunk_by(|a, b| a.push.thread == b.push.thread) {
        let mut last = &of_thread[0];
        let mut last_by: HashMap<usize, &Item> = HashMap::new();
        for item in of_thread {
            if item.pop.end < last.pop.start {
                return wrong(last, item);
            }
            if last.pop.start < item.pop.start {
                last = item;
            }
            if let Some(other) = last_by.insert(item.pop.thread, item)
                && item.pop.place < other.pop.place
            {
                return wrong(other, item);
            }
        }
    }

    // Popped by one thread: of the values popped before, the one whose push began last.
    items.sort_by_key(|item| (item.pop.thread, item.pop.place));
    for of_thread in items.chunk_by(|a, b| a.pop.thread == b.pop.thread) {
        if of_thread[0].pop.thread == NEVER.thread {
            continue;
        }
        let mut latest = &of_thread[0];
        for item in of_thread {
            if item.push.end < latest.push.start {
                return wrong(item, latest);
            }
            if latest.push.start < item.push.start {
                latest = item;
            }
        }
    }
    Ok(())
}

/// A pop that finds nothing has a moment at which no value is in the queue for sure.
fn empties(history: &History, items: &[Item], closed_from: u64) -> Result<(), Violation> {
    // A value is in the queue for sure from the end of its push to the beginning of its pop.
    let mut held: Vec<(u64, u64)> = items
        .iter()
        .map(|item| (item.push.end, item.pop.start))
        .filter(|(from, to)| from < to)
        .collect();
    held.sort_unstable();
    // Stretches without a gap between them, in order.
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for (from, to) in held {
        match stretches.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => stretches.push((from, to)),
        }
    }
    for event in history.iter().flatten() {
        let start = match event.call {
            Call::Empty => event.start,
            Call::ClosedEmpty => event.start.max(closed_from),
            _ => continue,
        };
        let after = stretches.partition_point(|(from, _)| *from <= start);
        if after > 0 && stretches[after - 1].1 >= event.end {
            return Err(Violation::FalseEmpty(*event));
        }
    }
    Ok(())
}
