//! Random operation lists against `VecDeque`, with payloads whose drops are counted.
#![cfg(not(rast_loom))]

#[path = "model/list.rs"]
mod list;
#[path = "model/mpsc.rs"]
mod mpsc;
#[path = "model/segmented.rs"]
mod segmented;
#[path = "model/spmc.rs"]
mod spmc;
#[path = "model/spsc.rs"]
mod spsc;
mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use rast_queue::{Queue, TryPushError};
use std::collections::VecDeque;
use support::{Counting, Ledger};

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
