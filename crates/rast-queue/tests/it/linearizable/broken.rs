//! Wrong queues, each with one fault, which the checkers must find.

use crate::history::program::{Fifo, Program, Size};
use crate::history::{Violation, exhaustive, patterns};
use rast_queue::primitive::Random;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a thread does wrong, in a queue under one lock that is right otherwise.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The newest value comes first.
    Lifo,
    /// Two queues, each under its lock; pops look into the one and then into the other.
    TwoLocks,
    /// A pop that finds the lock taken says that there is nothing.
    FalseEmpty,
    /// Now and then a value stays in the queue when it is popped.
    Repeats,
    /// Now and then a value is dropped.
    Loses,
    /// A push looks whether the queue is closed, and takes the lock afterwards.
    LateClose,
    /// A batch is pushed from its end.
    Backwards,
}

struct Broken {
    fault: Fault,
    queues: [Mutex<VecDeque<u64>>; 2],
    is_closed: AtomicBool,
    count: AtomicUsize,
}

impl Broken {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            queues: Default::default(),
            is_closed: AtomicBool::new(false),
            count: AtomicUsize::new(0),
        }
    }

    /// One time in `n`.
    fn now_and_then(&self, fault: Fault, n: usize) -> bool {
        self.fault == fault && self.count.fetch_add(1, Ordering::Relaxed) % n == n - 1
    }

    fn with<R>(&self, number: usize, f: impl FnOnce(&mut VecDeque<u64>) -> R) -> R {
        f(&mut self.queues[number]
            .lock()
            .unwrap_or_else(PoisonError::into_inner))
    }

    fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Acquire)
    }
}

/// Long enough for others to come between.
fn linger() {
    (0..50).for_each(|_| std::hint::spin_loop());
    std::thread::yield_now();
}

impl Fifo for Broken {
    fn push(&self, value: u64) -> bool {
        let was_open = self.is_open();
        if self.fault == Fault::LateClose {
            linger();
        }
        // Any rule will do that sends the values of one thread to both.
        let number = usize::from(self.fault == Fault::TwoLocks && value.is_multiple_of(3));
        self.with(number, |queue| {
            let takes = match self.fault {
                Fault::LateClose => was_open,
                _ => self.is_open(),
            };
            if takes && !self.now_and_then(Fault::Loses, 50) {
                queue.push_back(value);
            }
            if self.fault == Fault::FalseEmpty {
                linger();
            }
            takes
        })
    }

    fn push_batch(&self, values: &[u64]) -> usize {
        if self.fault != Fault::Backwards {
            return values.iter().take_while(|value| self.push(**value)).count();
        }
        self.with(0, |queue| {
            if self.is_open() {
                queue.extend(values.iter().rev());
                values.len()
            } else {
                0
            }
        })
    }

    fn pop(&self) -> Option<u64> {
        match self.fault {
            Fault::Lifo => self.with(0, VecDeque::pop_back),
            Fault::TwoLocks => self
                .with(0, VecDeque::pop_front)
                .or_else(|| self.with(1, VecDeque::pop_front)),
            Fault::FalseEmpty => self.queues[0].try_lock().ok()?.pop_front(),
            Fault::Repeats if self.now_and_then(Fault::Repeats, 50) => {
                self.with(0, |queue| queue.front().copied())
            }
            _ => self.with(0, VecDeque::pop_front),
        }
    }

    fn close(&self) -> bool {
        let close = || !self.is_closed.swap(true, Ordering::AcqRel);
        match self.fault {
            Fault::LateClose => close(),
            _ => self.with(0, |_| close()),
        }
    }

    fn is_closed(&self) -> bool {
        !self.is_open()
    }
}

/// Runs programs until one shows a fault, and gives it.
fn caught(fault: Fault, size: Size) -> Violation {
    let first = rast_queue::primitive::model::draw();
    let mut seeds = Random::new(first);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let seed = seeds.draw();
        let history = Program::random(seed, size).run(Broken::new(fault));
        if let Err(violation) = patterns::check(&history) {
            if let Some(exact) = exhaustive::check(&history) {
                assert_eq!(exact, Err(Violation::NoOrder), "seed {seed}: {violation}");
            }
            println!("seed {seed}: {violation}");
            return violation;
        }
    }
    panic!("not caught in a minute, seeds from {first}");
}

const SMALL: Size = Size {
    threads: 3,
    steps: 30,
    batch: 4,
    closes: false,
};

const CLOSING: Size = Size {
    closes: true,
    ..SMALL
};

#[test]
fn the_queue_without_a_fault_passes() {
    for (count, size) in [(200, SMALL), (200, CLOSING)] {
        let mut seeds = Random::new(rast_queue::primitive::model::draw());
        for _ in 0..count {
            let seed = seeds.draw();
            let history = Program::random(seed, size).run(Broken::new(Fault::None));
            crate::history::assert_sound(&format!("seed {seed}"), &history);
        }
    }
}

#[test]
fn a_stack_is_caught() {
    let violation = caught(Fault::Lifo, SMALL);
    assert!(
        matches!(violation, Violation::OutOfOrder { .. }),
        "{violation}"
    );
}

#[test]
fn two_queues_for_one_are_caught() {
    let violation = caught(Fault::TwoLocks, SMALL);
    let known = matches!(
        violation,
        Violation::OutOfOrder { .. } | Violation::FalseEmpty(_)
    );
    assert!(known, "{violation}");
}

#[test]
fn a_false_empty_is_caught() {
    let violation = caught(Fault::FalseEmpty, SMALL);
    assert!(matches!(violation, Violation::FalseEmpty(_)), "{violation}");
}

#[test]
fn a_value_that_comes_twice_is_caught() {
    let violation = caught(Fault::Repeats, SMALL);
    assert!(
        matches!(violation, Violation::PoppedTwice(_)),
        "{violation}"
    );
}

#[test]
fn a_lost_value_is_caught() {
    let violation = caught(Fault::Loses, SMALL);
    let known = matches!(
        violation,
        Violation::OutOfOrder { .. } | Violation::FalseEmpty(_)
    );
    assert!(known, "{violation}");
}

#[test]
fn a_push_after_the_close_is_caught() {
    let violation = caught(Fault::LateClose, CLOSING);
    let known = matches!(violation, Violation::Close(..) | Violation::FalseEmpty(_));
    assert!(known, "{violation}");
}

#[test]
fn a_batch_that_is_turned_round_is_caught() {
    let violation = caught(Fault::Backwards, SMALL);
    assert!(
        matches!(violation, Violation::OutOfOrder { .. }),
        "{violation}"
    );
}
