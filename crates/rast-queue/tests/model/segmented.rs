//! The segmented queue against `VecDeque`, with an allocator that sometimes fails.

use crate::support::{Counting, Ledger};
use proptest::collection::vec;
use proptest::prelude::*;
use rast_queue::TryPushError;
use rast_queue::spsc::segmented;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Op {
    Push,
    PushIter(usize),
    Pop,
    PopBatch(usize),
    PopInto(usize),
    Peek,
    Refuse(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Push),
        3 => (0..20usize).prop_map(Op::PushIter),
        6 => Just(Op::Pop),
        3 => (0..20usize).prop_map(Op::PopBatch),
        2 => (0..20usize).prop_map(Op::PopInto),
        1 => Just(Op::Peek),
        1 => any::<bool>().prop_map(Op::Refuse),
    ]
}

/// The first half to leave, and how many operations before the end it does.
fn leaver() -> impl Strategy<Value = (bool, usize)> {
    (any::<bool>(), 0..30usize)
}

proptest! {
    #[test]
    fn segmented_is_a_deque(slots in 1..6usize, ops in vec(op(), 0..60), (producer_first, early) in leaver()) {
        let (ledger, alloc) = (Ledger::default(), Counting::default());
        let (producer, consumer) = segmented::queue_in(slots, alloc.clone());
        let (mut producer, mut consumer) = (Some(producer), Some(consumer));
        let mut oracle = VecDeque::new();
        let (mut next, mut refuses) = (0, false);
        let leaves_at = ops.len().saturating_sub(early);
        for (n, op) in ops.into_iter().enumerate() {
            if n == leaves_at {
                if producer_first { producer = None } else { consumer = None }
            }
            match op {
                Op::Push => {
                    if let Some(producer) = &mut producer {
                        match producer.try_push(ledger.payload(next)) {
                            Ok(()) => {
                                prop_assert!(consumer.is_some());
                                oracle.push_back(next);
                            }
                            Err(TryPushError::Closed(payload)) => {
                                prop_assert!(consumer.is_none() && payload.value == next);
                            }
                            Err(TryPushError::NoMemory(payload)) => {
                                prop_assert!(refuses && consumer.is_some() && payload.value == next);
                            }
                        }
                        next += 1;
                    }
                }
                Op::PushIter(count) => {
                    if let (Some(producer), false) = (&mut producer, refuses) {
                        let mut items = (next..).take(count).map(|n| ledger.payload(n));
                        let pushed = producer.push_batch(&mut items);
                        prop_assert_eq!(pushed, if consumer.is_some() { count } else { 0 });
                        oracle.extend(next..next + pushed as u64);
                        next += count as u64;
                    }
                }
                Op::Pop => {
                    if let Some(consumer) = &mut consumer {
                        prop_assert_eq!(consumer.pop().map(|p| p.value), oracle.pop_front());
                    }
                }
                Op::PopBatch(max) | Op::PopInto(max) => {
                    if let Some(consumer) = &mut consumer {
                        let mut values = Vec::new();
                        let count = if matches!(op, Op::PopInto(_)) {
                            let mut payloads = Vec::new();
                            let count = consumer.pop_into(&mut payloads, max);
                            values.extend(payloads.iter().map(|p| p.value));
                            count
                        } else {
                            consumer.pop_batch(max, |p| values.push(p.value))
                        };
                        let expected: Vec<_> = oracle.drain(..max.min(oracle.len())).collect();
                        prop_assert_eq!(count, expected.len());
                        prop_assert_eq!(values, expected);
                    }
                }
                Op::Peek => {
                    if let Some(consumer) = &consumer {
                        prop_assert_eq!(consumer.peek().map(|p| p.value), oracle.front().copied());
                    }
                }
                Op::Refuse(yes) => {
                    alloc.set_refuses(yes);
                    refuses = yes;
                }
            }
            if let Some(consumer) = &consumer {
                prop_assert_eq!(consumer.len(), oracle.len());
                prop_assert_eq!(consumer.is_closed(), producer.is_none());
            }
            if let Some(producer) = &producer {
                prop_assert_eq!(producer.len(), oracle.len());
                prop_assert_eq!(producer.is_closed(), consumer.is_none());
            }
            if producer.is_some() || consumer.is_some() {
                prop_assert_eq!(ledger.made() - ledger.dropped(), oracle.len());
                // The header, the spare, and the segments from the consumer's to the producer's.
                prop_assert!(alloc.blocks() <= oracle.len().div_ceil(slots) + 4);
            }
        }
        drop(producer);
        drop(consumer);
        ledger.assert_settled();
        prop_assert_eq!(alloc.blocks(), 0);
    }
}
