//! A queue that is wrong in one step, whose fault the scheduler must find.

use crate::history::assert_sound;
use crate::history::program::{Fifo, Program, Size};
use rast_queue::primitive::model::{draw, faulty, model};
use rast_queue::primitive::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Release},
};

/// Slots in a row, a ticket for pushes and one for pops; a slot holds a value plus one.
struct Tickets {
    fault: Fault,
    head: AtomicUsize,
    tail: AtomicUsize,
    slots: Vec<AtomicU64>,
    is_closed: AtomicBool,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Two pops may take one ticket.
    PlainHead,
    /// A push takes its ticket before the value is written, and a pop takes a slot without one for
    /// the end.
    EmptySlot,
    /// A push looks whether the queue is closed before it takes a ticket, and not again.
    LateClose,
}

impl Tickets {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            slots: (0..100).map(|_| AtomicU64::new(0)).collect(),
            is_closed: AtomicBool::new(false),
        }
    }
}

impl Fifo for Tickets {
    fn push(&self, value: u64) -> bool {
        if self.is_closed.load(Acquire) {
            return false;
        }
        let ticket = self.tail.fetch_add(1, AcqRel);
        self.slots[ticket].store(value + 1, Release);
        true
    }

    fn pop(&self) -> Option<u64> {
        loop {
            let head = self.head.load(Acquire);
            if head == self.tail.load(Acquire) {
                return None;
            }
            let mut value = self.slots[head].load(Acquire);
            while value == 0 {
                if self.fault == Fault::EmptySlot {
                    return None;
                }
                rast_queue::primitive::hint::spin_loop();
                value = self.slots[head].load(Acquire);
            }
            if self.fault == Fault::PlainHead {
                self.head.store(head + 1, Release);
                return Some(value - 1);
            }
            let taken = self.head.compare_exchange(head, head + 1, AcqRel, Acquire);
            if taken.is_ok() {
                return Some(value - 1);
            }
        }
    }

    fn close(&self) -> bool {
        !self.is_closed.swap(true, AcqRel)
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire)
    }
}

fn run(fault: Fault, closes: bool) {
    let size = Size {
        threads: 3,
        steps: 8,
        batch: 2,
        closes,
    };
    let is_sound = matches!(fault, Fault::LateClose) && !closes;
    let scenario = move || {
        let seed = draw();
        let history = Program::random(seed, size).run(Tickets::new(fault));
        assert_sound(&format!("program {seed}"), &history);
    };
    match is_sound {
        true => model(scenario),
        false => faulty(scenario),
    }
}

#[test]
#[should_panic(expected = "was popped twice")]
fn a_pop_without_an_exchange_is_caught() {
    run(Fault::PlainHead, false);
}

#[test]
#[should_panic(expected = "found nothing though there was")]
fn an_end_that_is_none_is_caught() {
    run(Fault::EmptySlot, false);
}

/// The ticket waits for the slot before it, so this queue is right as long as no thread closes it.
#[test]
fn tickets_without_a_fault_pass() {
    run(Fault::LateClose, false);
}

#[test]
#[should_panic(expected = "though there was")]
fn a_push_after_the_close_is_caught() {
    run(Fault::LateClose, true);
}
