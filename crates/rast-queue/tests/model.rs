//! Random operation lists against `VecDeque`, with payloads whose drops are counted.
#![cfg(not(rast_loom))]

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use rast_queue::{Queue, TryPushError, spsc};
use std::collections::VecDeque;
use support::{Counting, Ledger};

#[derive(Clone, Debug)]
enum RingOp {
    Push,
    PushIter(usize),
    Pop,
    PopBatch(usize),
    PopInto(usize),
    Peek,
}

fn ring_op() -> impl Strategy<Value = RingOp> {
    prop_oneof![
        3 => Just(RingOp::Push),
        2 => (0..12usize).prop_map(RingOp::PushIter),
        3 => Just(RingOp::Pop),
        2 => (0..12usize).prop_map(RingOp::PopBatch),
        1 => (0..12usize).prop_map(RingOp::PopInto),
        1 => Just(RingOp::Peek),
    ]
}

#[derive(Clone, Debug)]
enum QueueOp {
    Push,
    PushMany(usize),
    Pop,
    Drain(usize),
    Refuse(bool),
    Close,
}

fn queue_op() -> impl Strategy<Value = QueueOp> {
    prop_oneof![
        10 => Just(QueueOp::Push),
        4 => (0..80usize).prop_map(QueueOp::PushMany),
        10 => Just(QueueOp::Pop),
        4 => (0..80usize).prop_map(QueueOp::Drain),
        2 => any::<bool>().prop_map(QueueOp::Refuse),
        1 => Just(QueueOp::Close),
    ]
}

proptest! {
    #[test]
    fn ring_is_a_bounded_deque(
        capacity in 0..9usize,
        below_wrap in 0..20usize,
        ops in vec(ring_op(), 0..60),
        producer_first: bool,
    ) {
        let ledger = Ledger::default();
        let (mut producer, mut consumer) = spsc::ring_at(capacity, usize::MAX - below_wrap);
        let capacity = producer.capacity();
        let mut oracle = VecDeque::new();
        let mut next = 0;
        for op in ops {
            match op {
                RingOp::Push => {
                    let pushed = producer.push(ledger.payload(next)).is_ok();
                    prop_assert_eq!(pushed, oracle.len() < capacity);
                    if pushed {
                        oracle.push_back(next);
                    }
                    next += 1;
                }
                RingOp::PushIter(count) => {
                    let end = next + count as u64;
                    let mut items = (next..end).map(|n| ledger.payload(n));
                    let pushed = producer.push_iter(&mut items);
                    prop_assert_eq!(pushed, count.min(capacity - oracle.len()));
                    prop_assert_eq!(items.count(), count - pushed);
                    oracle.extend(next..next + pushed as u64);
                    next = end;
                }
                RingOp::Pop => {
                    prop_assert_eq!(consumer.pop().map(|p| p.value), oracle.pop_front());
                }
                RingOp::PopBatch(max) => {
                    let mut values = Vec::new();
                    let count = consumer.pop_batch(max, |p| values.push(p.value));
                    let expected: Vec<_> = oracle.drain(..max.min(oracle.len())).collect();
                    prop_assert_eq!(count, expected.len());
                    prop_assert_eq!(values, expected);
                }
                RingOp::PopInto(max) => {
                    let mut payloads = Vec::new();
                    let count = consumer.pop_into(&mut payloads, max);
                    let expected: Vec<_> = oracle.drain(..max.min(oracle.len())).collect();
                    prop_assert_eq!(count, expected.len());
                    prop_assert_eq!(payloads.iter().map(|p| p.value).collect::<Vec<_>>(), expected);
                }
                RingOp::Peek => {
                    prop_assert_eq!(consumer.peek().map(|p| p.value), oracle.front().copied());
                }
            }
            prop_assert_eq!(consumer.len(), oracle.len());
            prop_assert_eq!(producer.room(), capacity - oracle.len());
            prop_assert_eq!(ledger.made() - ledger.dropped(), oracle.len());
        }
        if producer_first {
            drop(producer);
            drop(consumer);
        } else {
            drop(consumer);
            drop(producer);
        }
        ledger.assert_settled();
    }

    #[test]
    fn queue_is_a_deque(ops in vec(queue_op(), 0..60)) {
        let (ledger, alloc) = (Ledger::default(), Counting::default());
        let queue = Queue::new_in(alloc.clone());
        let mut oracle = VecDeque::new();
        let (mut next, mut closed, mut refuses) = (0, false, false);
        for op in ops {
            let (pushes, pops) = match op {
                QueueOp::Push => (1, 0),
                QueueOp::PushMany(count) => (count, 0),
                QueueOp::Pop => (0, 1),
                QueueOp::Drain(max) => (0, max),
                QueueOp::Refuse(yes) => {
                    alloc.set_refuses(yes);
                    refuses = yes;
                    (0, 0)
                }
                QueueOp::Close => {
                    prop_assert_eq!(queue.close(), !closed);
                    closed = true;
                    (0, 0)
                }
            };
            for _ in 0..pushes {
                match queue.try_push(ledger.payload(next)) {
                    Ok(()) => {
                        prop_assert!(!closed);
                        oracle.push_back(next);
                    }
                    Err(TryPushError::Closed(payload)) => {
                        prop_assert!(closed && payload.value == next);
                    }
                    Err(TryPushError::NoMemory(payload)) => {
                        prop_assert!(refuses && !closed && payload.value == next);
                    }
                }
                next += 1;
            }
            if pops == 1 {
                prop_assert_eq!(queue.pop().map(|p| p.value), oracle.pop_front());
            } else {
                let values: Vec<_> = queue.drain().take(pops).map(|p| p.value).collect();
                let expected: Vec<_> = oracle.drain(..pops.min(oracle.len())).collect();
                prop_assert_eq!(values, expected);
            }
            prop_assert_eq!(queue.len(), oracle.len());
            prop_assert_eq!(queue.is_empty(), oracle.is_empty());
            prop_assert_eq!(queue.is_closed(), closed);
            prop_assert!(alloc.blocks() <= oracle.len() / 32 + 3, "segments without items go back");
        }
        drop(queue);
        ledger.assert_settled();
        prop_assert_eq!(alloc.blocks(), 0);
    }
}
