//! `Queue`: lists of all its operations against `VecDeque`, in segments so small that they are
//! reused.

use crate::support::{Counting, Ledger, Payload};
use proptest::collection::vec;
use proptest::prelude::*;
use rast_queue::{Queue, TryPushError};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[derive(Clone, Debug)]
enum Op {
    Push,
    TryPush(usize),
    /// The batch's size, and at which item its iterator panics, if it has as many.
    PushBatch(usize, usize),
    Pop,
    /// The most items, and at which the closure panics.
    PopBatch(usize, usize),
    PopInto(usize),
    Drain(usize),
    Refuse(bool),
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    let most = || prop_oneof![3 => 0..9_usize, 1 => 0..80_usize];
    prop_oneof![
        10 => Just(Op::Push),
        4 => most().prop_map(Op::TryPush),
        6 => (most(), 0..150_usize).prop_map(|(size, panics)| Op::PushBatch(size, panics)),
        10 => Just(Op::Pop),
        6 => (most(), 0..40_usize).prop_map(|(max, panics)| Op::PopBatch(max, panics)),
        3 => prop_oneof![most(), Just(usize::MAX)].prop_map(Op::PopInto),
        3 => most().prop_map(Op::Drain),
        2 => any::<bool>().prop_map(Op::Refuse),
        1 => Just(Op::Close),
    ]
}

/// Unwinds without a word on standard error.
fn bail() -> ! {
    resume_unwind(Box::new(()))
}

/// The queue, and what should be in it.
struct Run {
    queue: Queue<Payload, Counting>,
    oracle: VecDeque<u64>,
    ledger: Ledger,
    alloc: Counting,
    next: u64,
    closed: bool,
    refuses: bool,
}

impl Run {
    fn new(slots: usize) -> Self {
        let alloc = Counting::default();
        Self {
            queue: Queue::with_segment_slots_in(slots, alloc.clone()),
            oracle: VecDeque::new(),
            ledger: Ledger::default(),
            alloc,
            next: 0,
            closed: false,
            refuses: false,
        }
    }

    fn make(&mut self) -> Payload {
        self.next += 1;
        self.ledger.payload(self.next)
    }

    fn step(&mut self, op: Op) {
        match op {
            // These call `handle_alloc_error` when memory lacks.
            Op::Push | Op::PushBatch(..) if self.refuses => {}
            Op::Push => {
                let payload = self.make();
                match self.queue.push(payload) {
                    Ok(()) => self.accept(1),
                    Err(refused) => assert!(self.closed && refused.0.value == self.next),
                }
            }
            Op::TryPush(count) => {
                for _ in 0..count {
                    let payload = self.make();
                    match self.queue.try_push(payload) {
                        Ok(()) => self.accept(1),
                        Err(TryPushError::Closed(payload)) => {
                            assert!(self.closed && payload.value == self.next);
                        }
                        Err(TryPushError::NoMemory(payload)) => {
                            assert!(self.refuses && !self.closed && payload.value == self.next);
                        }
                    }
                }
            }
            Op::PushBatch(size, panics) => self.push_batch(size, panics),
            Op::Pop => {
                let popped = self.queue.pop().map(|payload| payload.value);
                assert_eq!(popped, self.oracle.pop_front());
            }
            // What comes back may need a segment, and aborts when memory lacks.
            Op::PopBatch(max, panics) if !self.refuses => self.pop_batch(max, panics),
            Op::PopBatch(max, _) | Op::PopInto(max) => {
                let mut popped = Vec::new();
                let count = self.queue.pop_into(&mut popped, max);
                assert_eq!(
                    count,
                    max.min(self.oracle.len()),
                    "at rest it takes what is queued"
                );
                let expected: Vec<_> = self.oracle.drain(..count).collect();
                assert!(popped.iter().map(|payload| payload.value).eq(expected));
            }
            Op::Drain(max) => {
                let popped = self.queue.drain().take(max).map(|payload| payload.value);
                let count = max.min(self.oracle.len());
                assert!(popped.eq(self.oracle.drain(..count)));
            }
            Op::Refuse(refuses) => {
                self.alloc.set_refuses(refuses);
                self.refuses = refuses;
            }
            Op::Close => {
                assert_eq!(self.queue.close(), !self.closed);
                self.closed = true;
            }
        }
        assert_eq!(self.queue.len(), self.oracle.len());
        assert_eq!(self.queue.is_empty(), self.oracle.is_empty());
        assert_eq!(self.queue.is_closed(), self.closed);
    }

    /// The last `count` payloads made are in the queue.
    fn accept(&mut self, count: u64) {
        assert!(!self.closed);
        self.oracle.extend(self.next + 1 - count..=self.next);
    }

    fn push_batch(&mut self, size: usize, panics: usize) {
        let payloads: Vec<_> = (0..size).map(|_| self.make()).collect();
        let first = self.next + 1 - size as u64;
        let items = payloads.into_iter().enumerate().map(|(n, payload)| {
            if n == panics {
                bail();
            }
            payload
        });
        let mut rest = None;
        let pushed = catch_unwind(AssertUnwindSafe(|| self.queue.push_batch(items)));
        let accepted = match pushed {
            Ok(Ok(pushed)) => {
                assert_eq!(pushed, size);
                size
            }
            Ok(Err(refused)) => {
                assert!(self.closed);
                rest = Some(refused.0);
                0
            }
            Err(_) => {
                assert!(panics < size && !self.closed);
                panics
            }
        };
        if let Some(rest) = rest {
            assert_eq!(rest.len(), size);
            let values = rest.take(panics).map(|payload| payload.value);
            assert!(values.eq(first..first + size.min(panics) as u64));
        }
        self.oracle.extend(first..first + accepted as u64);
    }

    fn pop_batch(&mut self, max: usize, panics: usize) {
        let mut popped = Vec::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.queue.pop_batch(max, |payload| {
                popped.push(payload.value);
                if popped.len() > panics {
                    bail();
                }
            })
        }));
        let expected: Vec<_> = self.oracle.drain(..popped.len()).collect();
        assert_eq!(popped, expected);
        match result {
            Ok(count) => {
                assert_eq!(count, popped.len());
                assert!(count == max || self.oracle.is_empty());
            }
            Err(_) => {
                assert_eq!(popped.len(), panics + 1);
                // What it had claimed went to the back, in order: one run of the oracle's front.
                // Which length that had is the queue's affair, so look.
                let stand: VecDeque<_> = self.queue.drain().map(|payload| payload.value).collect();
                let len = self.oracle.len();
                assert_eq!(stand.len(), len);
                let claimed = (0..len).find(|&claimed| {
                    self.oracle.rotate_left(usize::from(claimed > 0));
                    self.oracle == stand
                });
                assert!(len == 0 || claimed.is_some_and(|claimed| claimed < max));
                // Emptied as it is, a closed queue stays so.
                self.oracle.clear();
            }
        }
    }

    fn finish(self) {
        drop(self.queue);
        self.ledger.assert_settled();
        assert_eq!((self.alloc.blocks(), self.alloc.bytes()), (0, 0));
    }
}

proptest! {
    #[test]
    fn queue_is_a_deque(slots in prop_oneof![Just(2_usize), Just(4), Just(16), Just(64)], ops in vec(op(), 0..80)) {
        let mut run = Run::new(slots);
        for op in ops {
            run.step(op);
            let (blocks, stand) = (run.alloc.blocks(), run.oracle.len());
            prop_assert!(blocks <= stand / slots + 3, "{blocks} for {stand}: segments without items go back");
        }
        run.finish();
    }
}

proptest! {
    #[test]
    fn slices_are_batches(
        slots in prop_oneof![Just(2_usize), Just(8)],
        ops in vec((0..40_usize, 0..40_usize), 0..40),
        close in 0..60_usize,
    ) {
        let queue = Queue::with_segment_slots(slots);
        let mut oracle = VecDeque::new();
        let mut next = 0;
        for (turn, (size, max)) in ops.into_iter().enumerate() {
            if turn == close {
                queue.close();
            }
            let slice: Vec<u32> = (next..).take(size).collect();
            next += size as u32;
            match queue.push_slice(&slice) {
                Ok(()) => oracle.extend(slice),
                Err(rest) => prop_assert_eq!(rest.0, &slice[..]),
            }
            let mut popped = Vec::new();
            queue.pop_into(&mut popped, max);
            let expected: Vec<_> = oracle.drain(..max.min(oracle.len())).collect();
            prop_assert_eq!(popped, expected);
            prop_assert_eq!(queue.len(), oracle.len());
        }
        prop_assert!(queue.into_iter().eq(oracle));
    }
}
