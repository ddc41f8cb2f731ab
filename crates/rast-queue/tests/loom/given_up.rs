//! Tickets of `Queue` that are given up: the decision alone, with what either side does before and after it.

use rast_queue::primitive::cell::UnsafeCell;
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::sync::atomic::{AtomicBool, Ordering};
use rast_queue::primitive::thread;
use rast_queue::{GivenUp, Id, TakeBack, Verdict};

/// A slot, and a place that its consumer reads until it is gone.
struct Ticket {
    given_up: GivenUp,
    value: UnsafeCell<u32>,
    is_written: AtomicBool,
    segment: UnsafeCell<u32>,
}

// SAFETY: who may touch the cells when is what the test is about.
unsafe impl Send for Ticket {}
// SAFETY: as above.
unsafe impl Sync for Ticket {}

/// A ticket that no other test, and no queue, gives up.
fn id() -> Id {
    Id::new((1 << 40) + 1, 1)
}

/// Either the consumer has the value or the producer has it back; who ends the ticket comes after all that the other did.
#[test]
fn given_up_is_decided_by_one() {
    model(|| {
        let ticket = Arc::new(Ticket {
            given_up: GivenUp::new(),
            value: UnsafeCell::new(0),
            is_written: AtomicBool::new(false),
            segment: UnsafeCell::new(1),
        });
        let theirs = Arc::clone(&ticket);
        let producer = thread::spawn(move || {
            // SAFETY: nobody looks before it is written.
            theirs.value.with_mut(|value| unsafe { *value = 1 });
            theirs.is_written.store(true, Ordering::Release);
            if theirs.given_up.is_quiet() {
                return TakeBack::Taken;
            }
            let outcome = theirs.given_up.take_back(id());
            if outcome == TakeBack::BackAndEnd {
                // SAFETY: the consumer has left for good.
                theirs.segment.with_mut(|segment| unsafe { *segment = 0 });
            }
            outcome
        });
        let verdict = ticket.given_up.give_up(id(), || {
            // SAFETY: the ticket is not ended while this looks.
            assert_eq!(ticket.segment.with(|segment| unsafe { *segment }), 1);
            ticket.is_written.load(Ordering::Acquire)
        });
        match verdict {
            // SAFETY: it was found written, and does not go back.
            Verdict::Taken => assert_eq!(ticket.value.with(|value| unsafe { *value }), 1),
            // SAFETY: the producer has left for good.
            Verdict::Back => ticket.value.with_mut(|value| unsafe { *value = 2 }),
            Verdict::Left | Verdict::Impossible => {}
        }
        let outcome = producer.join().unwrap();
        let agreed = match verdict {
            Verdict::Taken => TakeBack::Taken,
            Verdict::Left => TakeBack::BackAndEnd,
            Verdict::Back => TakeBack::Back,
            Verdict::Impossible => unreachable!("there is a cell, and there are fences"),
        };
        assert_eq!(outcome, agreed);
        assert!(ticket.given_up.is_quiet(), "nothing is left in the table");
    });
}
