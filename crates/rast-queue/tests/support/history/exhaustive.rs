//! The search for an order that explains a history, after Wing and Gong, with Lowe's memory of
//! visited states.
//!
//! It tries each operation as the next one that may take effect: the first of its thread's
//! remaining operations, if it began before every other remaining operation ended. It runs the
//! operation on a deque with a flag, and goes back if the result differs. It is exact, and
//! exponential in the number of threads; for histories of some tens of operations.

use super::{Call, Event, History, Violation};
use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};

/// More states than this are too many for recorded histories, and the search gives up.
const STATES_MAX: usize = 2_000;

/// Longer histories have too many states for sure, and are not begun.
const EVENTS_MAX: usize = 64;

/// The states of the deque that a search met, by how far each thread was.
type Seen = HashSet<(Vec<usize>, VecDeque<u64>, bool)>;

/// What the queue is in one place of the search.
#[derive(Clone)]
struct State {
    /// How many operations of each thread have taken effect.
    done: Vec<usize>,
    queue: VecDeque<u64>,
    is_closed: bool,
}

impl State {
    /// Lets the operation take effect, if its answer fits.
    fn run(&self, event: &Event) -> Option<Self> {
        let mut next = self.clone();
        next.done[event.thread] += 1;
        let fits = match event.call {
            Call::Push(value) => {
                next.queue.push_back(value);
                !self.is_closed
            }
            Call::Refused(_) => self.is_closed,
            Call::Pop(value) => next.queue.pop_front() == Some(value),
            Call::Empty => self.queue.is_empty(),
            Call::ClosedEmpty => self.queue.is_empty() && self.is_closed,
            Call::Close(first) => {
                next.is_closed = true;
                first != self.is_closed
            }
            Call::IsClosed(answer) => answer == self.is_closed,
        };
        fits.then_some(next)
    }
}

/// Whether some order explains `history`; `None` when that took too many states. Thread numbers are
/// places.
pub(crate) fn check(history: &History) -> Option<Result<(), Violation>> {
    check_within(STATES_MAX, history)
}

/// As [`check`], giving up only after `states_max` states.
pub(crate) fn check_within(states_max: usize, history: &History) -> Option<Result<(), Violation>> {
    if history.iter().map(Vec::len).sum::<usize>() > EVENTS_MAX {
        return None;
    }
    let mut seen = Seen::new();
    let mut open = vec![State {
        done: vec![0; history.len()],
        queue: VecDeque::new(),
        is_closed: false,
    }];
    while let Some(state) = open.pop() {
        if seen.len() > states_max {
            return None;
        }
        let rest = || {
            let of = history.iter().zip(&state.done);
            of.filter_map(|(events, done)| events.get(*done))
        };
        let Some(first_end) = rest().map(|event| event.end).min() else {
            return Some(Ok(()));
        };
        let mut next: Vec<&Event> = rest().filter(|event| event.start < first_end).collect();
        // What ends first is tried first: in most histories it took effect first.
        next.sort_by_key(|event| Reverse(event.end));
        for state in next.into_iter().filter_map(|event| state.run(event)) {
            if seen.insert((state.done.clone(), state.queue.clone(), state.is_closed)) {
                open.push(state);
            }
        }
    }
    Some(Err(Violation::NoOrder))
}
