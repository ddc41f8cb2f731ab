//! `list::ListQueue`.

use crate::support::{Counting, Ledger};
use proptest::collection::vec;
use proptest::prelude::*;
use rast_queue::TryPushError;
use rast_queue::list::ListQueue;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Operation {
    Push,
    PushMany(usize),
    Extend(usize),
    Pop,
    Drain(usize),
    Move,
    Refuse(bool),
    Close,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => Just(Operation::Push),
        4 => (0..20usize).prop_map(Operation::PushMany),
        2 => (0..20usize).prop_map(Operation::Extend),
        10 => Just(Operation::Pop),
        4 => (0..20usize).prop_map(Operation::Drain),
        2 => Just(Operation::Move),
        2 => any::<bool>().prop_map(Operation::Refuse),
        1 => Just(Operation::Close),
    ]
}

proptest! {
    #[test]
    fn list_is_a_deque(operations in vec(operation(), 0..60), by_iterator: bool) {
        let (ledger, alloc) = (Ledger::default(), Counting::default());
        let mut queue = ListQueue::new_in(alloc.clone());
        let mut oracle = VecDeque::new();
        let (mut next, mut closed, mut refuses) = (0, false, false);
        for operation in operations {
            let (pushes, pops) = match operation {
                Operation::Push => (1, 0),
                Operation::PushMany(count) => (count, 0),
                Operation::Extend(count) if !closed && !refuses => {
                    let end = next + count as u64;
                    queue.extend((next..end).map(|n| ledger.payload(n)));
                    oracle.extend(next..end);
                    next = end;
                    (0, 0)
                }
                Operation::Extend(_) => (0, 0),
                Operation::Pop => (0, 1),
                Operation::Drain(max) => (0, max),
                Operation::Move => {
                    // The first and the last node move with the queue.
                    queue = *std::hint::black_box(Box::new(queue));
                    (0, 0)
                }
                Operation::Refuse(yes) => {
                    alloc.set_refuses(yes);
                    refuses = yes;
                    (0, 0)
                }
                Operation::Close => {
                    prop_assert_eq!(queue.close(), !closed);
                    closed = true;
                    (0, 0)
                }
            };
            for _ in 0..pushes {
                match queue.try_push(ledger.payload(next)) {
                    Ok(()) => {
                        prop_assert!(!closed && !refuses);
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
                prop_assert_eq!(queue.pop().map(|payload| payload.value), oracle.pop_front());
            } else {
                let values: Vec<_> = queue.drain().take(pops).map(|payload| payload.value).collect();
                let expected: Vec<_> = oracle.drain(..pops.min(oracle.len())).collect();
                prop_assert_eq!(values, expected);
            }
            prop_assert_eq!(queue.is_empty(), oracle.is_empty());
            prop_assert_eq!(queue.is_closed(), closed);
            prop_assert_eq!(ledger.made() - ledger.dropped(), oracle.len());
            // An item and a node for each queued item, and one node more except for a new queue.
            prop_assert!(alloc.blocks() <= 2 * oracle.len() + 1);
            prop_assert!(alloc.blocks() >= 2 * oracle.len());
        }
        if by_iterator {
            let values: Vec<_> = queue.into_iter().map(|payload| payload.value).collect();
            prop_assert_eq!(oracle, values);
        } else {
            drop(queue);
        }
        ledger.assert_settled();
        prop_assert_eq!(alloc.blocks(), 0);
    }
}
