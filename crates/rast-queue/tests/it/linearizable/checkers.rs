//! The checkers: manually written histories, correct and wrong ones for each pattern, and a
//! comparison of the two checkers.

use crate::history::{Call, Event, History, Violation, exhaustive, patterns};
use Call::{Close, ClosedEmpty, Empty, IsClosed, Pop, Push, Refused};
use rast_queue::primitive::Random;

/// A history of single operations: thread, start, end, call.
fn history(events: &[(usize, u64, u64, Call)]) -> History {
    let threads = events.iter().map(|(thread, ..)| thread + 1).max();
    let mut history = vec![Vec::new(); threads.unwrap_or(0)];
    for &(thread, start, end, call) in events {
        history[thread].push(Event {
            thread,
            call,
            start,
            end,
        });
    }
    history
}

fn assert_good(events: &[(usize, u64, u64, Call)]) {
    let history = history(events);
    assert_eq!(patterns::check(&history), Ok(()), "{events:?}");
    assert_eq!(exhaustive::check(&history), Some(Ok(())), "{events:?}");
}

fn assert_bad(events: &[(usize, u64, u64, Call)], expected: &Violation) {
    let history = history(events);
    assert_eq!(
        patterns::check(&history).as_ref(),
        Err(expected),
        "{events:?}"
    );
    let exact = exhaustive::check(&history);
    assert_eq!(exact, Some(Err(Violation::NoOrder)), "{events:?}");
}

#[test]
fn one_after_the_other_is_good() {
    assert_good(&[]);
    assert_good(&[
        (0, 0, 1, Empty),
        (0, 2, 3, Push(1)),
        (0, 4, 5, Push(2)),
        (0, 6, 7, Pop(1)),
        (0, 8, 9, Pop(2)),
        (0, 10, 11, Empty),
    ]);
    // What stays in the queue is no fault.
    assert_good(&[(0, 0, 1, Push(1)), (0, 2, 3, Push(2)), (0, 4, 5, Pop(1))]);
}

#[test]
fn values_come_from_pushes_once() {
    assert_bad(&[(0, 0, 1, Pop(1))], &Violation::NeverPushed(1));
    assert_bad(
        &[(0, 0, 1, Push(1)), (0, 2, 3, Pop(1)), (1, 4, 5, Pop(1))],
        &Violation::PoppedTwice(1),
    );
    assert_bad(
        &[(0, 0, 1, Pop(1)), (1, 2, 3, Push(1))],
        &Violation::PoppedBeforePushed(1),
    );
    // Beside its push a pop may get the value.
    assert_good(&[(0, 0, 3, Push(1)), (1, 1, 2, Pop(1))]);
    // What was refused is not in the queue.
    assert_bad(
        &[
            (0, 0, 1, Close(true)),
            (0, 2, 3, Refused(1)),
            (0, 4, 5, Pop(1)),
        ],
        &Violation::NeverPushed(1),
    );
}

#[test]
fn values_keep_their_order() {
    let swapped = Violation::OutOfOrder {
        first: 1,
        second: 2,
    };
    assert_bad(
        &[
            (0, 0, 1, Push(1)),
            (1, 2, 3, Push(2)),
            (2, 4, 5, Pop(2)),
            (3, 6, 7, Pop(1)),
        ],
        &swapped,
    );
    // Pushes that overlap, or pops that do, may have any order.
    assert_good(&[
        (0, 0, 3, Push(1)),
        (1, 1, 2, Push(2)),
        (2, 4, 5, Pop(2)),
        (3, 6, 7, Pop(1)),
    ]);
    assert_good(&[
        (0, 0, 1, Push(1)),
        (1, 2, 3, Push(2)),
        (2, 4, 7, Pop(2)),
        (3, 5, 6, Pop(1)),
    ]);
    // The second is popped, the first is lost.
    assert_bad(
        &[(0, 0, 1, Push(1)), (1, 2, 3, Push(2)), (2, 4, 5, Pop(2))],
        &swapped,
    );
}

/// The operations of a batch share their stamps; their order is that of the thread.
#[test]
fn batches_keep_their_order() {
    let swapped = Violation::OutOfOrder {
        first: 1,
        second: 2,
    };
    let pushed = [(0, 0, 1, Push(1)), (0, 0, 1, Push(2))];
    let with = |pops: &[(usize, u64, u64, Call)]| [&pushed, pops].concat();
    assert_good(&with(&[
        (1, 2, 3, Pop(1)),
        (1, 2, 3, Pop(2)),
        (1, 2, 3, Empty),
    ]));
    // Both in a batch.
    assert_bad(&with(&[(1, 2, 3, Pop(2)), (1, 2, 3, Pop(1))]), &swapped);
    // The push alone.
    assert_bad(&with(&[(1, 2, 3, Pop(2)), (2, 4, 5, Pop(1))]), &swapped);
    // The pop alone.
    assert_bad(
        &[
            (0, 0, 1, Push(1)),
            (1, 2, 3, Push(2)),
            (2, 4, 5, Pop(2)),
            (2, 4, 5, Pop(1)),
        ],
        &swapped,
    );
    // Lost out of the middle.
    assert_bad(&with(&[(1, 2, 3, Pop(2))]), &swapped);
}

#[test]
fn nothing_is_found_only_where_there_may_be_nothing() {
    let empty = |thread, start, end| {
        Violation::FalseEmpty(Event {
            thread,
            call: Empty,
            start,
            end,
        })
    };
    assert_bad(&[(0, 0, 1, Push(1)), (1, 2, 3, Empty)], &empty(1, 2, 3));
    assert_bad(
        &[(0, 0, 1, Push(1)), (1, 2, 3, Empty), (1, 4, 5, Pop(1))],
        &empty(1, 2, 3),
    );
    // Before the push ends, or once the pop began, it may.
    assert_good(&[(0, 0, 3, Push(1)), (1, 1, 2, Empty)]);
    assert_good(&[(0, 0, 1, Push(1)), (1, 2, 5, Empty), (2, 3, 4, Pop(1))]);
    // One value or the other is there at each moment.
    assert_bad(
        &[
            (0, 0, 1, Push(1)),
            (1, 2, 7, Empty),
            (0, 3, 4, Push(2)),
            (2, 5, 6, Pop(1)),
            (2, 8, 9, Pop(2)),
        ],
        &empty(1, 2, 7),
    );
    // Here there is a moment between: the pop of the first before the push of the second.
    assert_good(&[
        (0, 0, 1, Push(1)),
        (1, 2, 7, Empty),
        (2, 3, 5, Pop(1)),
        (0, 4, 6, Push(2)),
        (2, 8, 9, Pop(2)),
    ]);
    // A value that is lost is missed by the last pop.
    assert_bad(
        &[
            (0, 0, 1, Push(1)),
            (1, 2, 3, Push(2)),
            (0, 4, 5, Pop(1)),
            (0, 6, 7, Empty),
        ],
        &empty(0, 6, 7),
    );
}

#[test]
fn a_close_is_once_and_for_all() {
    let at = |thread, start, end, call| Event {
        thread,
        call,
        start,
        end,
    };
    assert_good(&[
        (0, 0, 1, IsClosed(false)),
        (0, 2, 3, Push(1)),
        (1, 4, 9, Close(true)),
        (0, 5, 8, Push(2)),
        (2, 6, 7, Refused(3)),
        (0, 10, 11, Close(false)),
        (0, 12, 13, IsClosed(true)),
        (0, 14, 15, Pop(1)),
        (0, 16, 17, Pop(2)),
        (0, 18, 19, ClosedEmpty),
    ]);
    let close = at(0, 0, 1, Close(true));
    for call in [Push(1), IsClosed(false), Close(true)] {
        let expected = Violation::Close(at(1, 2, 3, call), Some(close));
        assert_bad(&[(0, 0, 1, Close(true)), (1, 2, 3, call)], &expected);
    }
    for call in [Refused(1), IsClosed(true), ClosedEmpty, Close(false)] {
        // No thread closed it.
        let early = at(1, 0, 1, call);
        assert_bad(&[(1, 0, 1, call)], &Violation::Close(early, None));
        // Some thread did, but later.
        let close = at(0, 2, 3, Close(true));
        assert_bad(
            &[(1, 0, 1, call), (0, 2, 3, Close(true))],
            &Violation::Close(close, Some(early)),
        );
    }
    // Beside the close, but refused before taken.
    assert_bad(
        &[
            (0, 0, 7, Close(true)),
            (1, 1, 2, Refused(1)),
            (2, 3, 4, Push(2)),
        ],
        &Violation::Close(at(2, 3, 4, Push(2)), Some(at(1, 1, 2, Refused(1)))),
    );
}

/// A push that began before the close and ends long after took effect before it; a pop after the
/// close misses it.
#[test]
fn after_closed_and_empty_nothing_appears() {
    let events = |call| {
        [
            (0, 0, 9, Push(1)),
            (1, 1, 2, Close(true)),
            (2, 3, 4, call),
            (2, 5, 6, Pop(1)),
        ]
    };
    for call in [Empty, ClosedEmpty] {
        let event = Event {
            thread: 2,
            call,
            start: 3,
            end: 4,
        };
        assert_bad(&events(call), &Violation::FalseEmpty(event));
    }
    // Beside the close it is as good as before it.
    assert_good(&[
        (0, 0, 9, Push(1)),
        (1, 1, 4, Close(true)),
        (2, 2, 3, Empty),
        (2, 5, 6, Pop(1)),
    ]);
    // Told that it is closed, beside the close and beside the value's way through the queue.
    let event = Event {
        thread: 2,
        call: ClosedEmpty,
        start: 1,
        end: 6,
    };
    assert_bad(
        &[
            (2, 1, 6, ClosedEmpty),
            (0, 2, 3, Push(1)),
            (1, 4, 5, Close(true)),
            (2, 7, 8, Pop(1)),
        ],
        &Violation::FalseEmpty(event),
    );
}

/// Four threads whose operations overlap nearly all: no order explains the pop, and to know it the
/// search has to try more states than it spends on a recorded history.
#[test]
fn the_search_gives_up_only_on_its_bound() {
    let history = history(&[
        (0, 0, 3, Push(7)),
        (0, 4, 10, Push(4)),
        (0, 11, 19, Push(5)),
        (1, 2, 5, Push(3)),
        (1, 9, 17, Push(1)),
        (2, 6, 12, Push(8)),
        (2, 14, 18, Pop(1)),
        (3, 1, 7, Push(2)),
        (3, 8, 13, Push(6)),
        (3, 15, 16, IsClosed(false)),
    ]);
    assert!(patterns::check(&history).is_err());
    assert_eq!(exhaustive::check(&history), None);
    let exact = exhaustive::check_within(SMALL_STATES_MAX, &history);
    assert_eq!(exact, Some(Err(Violation::NoOrder)));
}

/// A state is reached by a beginning of one of the orders. Four threads of ten operations in all
/// have at most 10! / (3! 3! 2! 2!) = 25 200 orders, each with ten beginnings, so the search of a
/// [`random_history`] always ends.
const SMALL_STATES_MAX: usize = 252_000;

/// A random history: threads of operations that overlap at random, with answers that are often
/// right.
fn random_history(random: &mut Random, closes: bool) -> History {
    let threads = 2 + random.below(3);
    let count = 2 + random.below(9);
    // Each operation takes effect at its place in a list; its stamps lie about it.
    let (mut queue, mut next, mut is_closed) = (std::collections::VecDeque::new(), 1, false);
    let mut calls: Vec<Call> = Vec::new();
    for _ in 0..count {
        let call = match random.below(if closes { 12 } else { 8 }) {
            0..4 if is_closed => Refused(next),
            0..4 => {
                queue.push_back(next);
                Push(next)
            }
            4..8 => queue.pop_front().map_or(Empty, Pop),
            8 => {
                let first = !is_closed;
                is_closed = true;
                Close(first)
            }
            9 => IsClosed(is_closed),
            _ if is_closed => queue.pop_front().map_or(ClosedEmpty, Pop),
            _ => queue.pop_front().map_or(Empty, Pop),
        };
        next += 1;
        calls.push(call);
    }
    // Some answers change places.
    for _ in 0..random.below(3) {
        let (a, b) = (random.below(count), random.below(count));
        calls.swap(a, b);
    }
    // Ends and beginnings by chance: at each step a thread begins its next operation or ends the
    // one it is in.
    let mut history = vec![Vec::<Event>::new(); threads];
    let mut open: Vec<Option<Event>> = vec![None; threads];
    let (mut clock, mut calls) = (0, calls.into_iter().peekable());
    while calls.peek().is_some() || open.iter().any(Option::is_some) {
        let thread = random.below(threads);
        match open[thread].take() {
            Some(mut event) => {
                event.end = clock;
                history[thread].push(event);
            }
            None => {
                let Some(call) = calls.next() else { continue };
                open[thread] = Some(Event {
                    thread,
                    call,
                    start: clock,
                    end: 0,
                });
            }
        }
        clock += 1;
    }
    history
}

/// On small histories the patterns say what the search says: exactly so without closing, and with
/// it they accuse no thread whom the search acquits.
#[test]
fn the_checkers_agree() {
    let seed = rast_queue::primitive::model::draw();
    let mut random = Random::new(seed);
    let (mut good, mut bad, mut missed) = (0, 0, 0);
    for round in 0..40_000 {
        let closes = round % 2 == 0;
        let history = random_history(&mut random, closes);
        let found = patterns::check(&history);
        let exact = exhaustive::check_within(SMALL_STATES_MAX, &history).unwrap_or_else(|| {
            panic!("seed {seed}, round {round}: no end of states: {history:#?}")
        });
        match (&found, &exact) {
            (Ok(()), Ok(())) => good += 1,
            (Err(_), Err(_)) => bad += 1,
            (Ok(()), Err(_)) if closes => missed += 1,
            _ => panic!("seed {seed}, round {round}: {found:?} but {exact:?}: {history:#?}"),
        }
    }
    println!("{good} good, {bad} bad, {missed} bad by the search alone");
    assert!(
        good > 1_000 && bad > 1_000 && missed * 100 < bad,
        "{good} {bad} {missed}"
    );
}
