//! Both types of `mpsc` against `VecDeque`.

use crate::support::{Counting, Ledger};
use proptest::collection::vec;
use proptest::prelude::*;
use rast_queue::TryPushError;
use rast_queue::mpsc::{self, Link, intrusive};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Op {
    Push(usize),
    PushMany(usize, usize),
    Pop(usize),
    TakeAll(usize),
    Clone,
    Leave(usize),
    Refuse(bool),
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (0..4usize).prop_map(Op::Push),
        4 => (0..4usize, 0..600usize).prop_map(|(producer, count)| Op::PushMany(producer, count)),
        6 => (0..300usize).prop_map(Op::Pop),
        3 => (0..600usize).prop_map(Op::TakeAll),
        2 => Just(Op::Clone),
        2 => (0..4usize).prop_map(Op::Leave),
        2 => any::<bool>().prop_map(Op::Refuse),
        1 => Just(Op::Close),
    ]
}

struct Node {
    link: Link,
    item: crate::support::Payload,
}

rast_queue::impl_node!(Node { link });

proptest! {
    #[test]
    fn mpsc_is_a_deque(ops in vec(op(), 0..60)) {
        let (ledger, alloc) = (Ledger::default(), Counting::default());
        let (producer, mut consumer) = mpsc::queue_in(alloc.clone());
        let mut producers = vec![producer];
        let mut oracle = VecDeque::new();
        // What is queued since the last take.
        let (mut next, mut closed, mut refuses, mut fresh) = (0, false, false, 0);
        let mut taken = 0;
        for op in ops {
            match op {
                Op::Push(which) => {
                    let which = which % producers.len();
                    match producers[which].try_push(ledger.payload(next)) {
                        Ok(was_empty) => {
                            prop_assert!(!closed);
                            prop_assert_eq!(was_empty, fresh == 0);
                            oracle.push_back(next);
                            fresh += 1;
                        }
                        Err(TryPushError::Closed(item)) => {
                            prop_assert!(closed);
                            prop_assert_eq!(item.value, next);
                        }
                        Err(TryPushError::NoMemory(item)) => {
                            prop_assert!(refuses && !closed);
                            prop_assert_eq!(item.value, next);
                        }
                    }
                    next += 1;
                }
                Op::PushMany(which, count) => {
                    alloc.set_refuses(false);
                    let which = which % producers.len();
                    let end = next + count as u64;
                    match producers[which].push_batch((next..end).map(|n| ledger.payload(n))) {
                        Ok(was_empty) => {
                            prop_assert!(!closed);
                            prop_assert_eq!(was_empty, fresh == 0 && count != 0);
                            oracle.extend(next..end);
                            fresh += count;
                        }
                        Err(refused) => {
                            prop_assert!(closed);
                            prop_assert!(refused.into_inner().iter().map(|item| item.value).eq(next..end));
                        }
                    }
                    next = end;
                    alloc.set_refuses(refuses);
                }
                Op::Pop(count) => {
                    for _ in 0..count {
                        let item = consumer.pop().map(|item| item.value);
                        prop_assert_eq!(item, oracle.pop_front());
                        if taken == 0 {
                            taken = fresh;
                            fresh = 0;
                        }
                        taken = taken.saturating_sub(1);
                    }
                }
                Op::TakeAll(count) => {
                    let values: Vec<_> = consumer.take_all().take(count).map(|item| item.value).collect();
                    let expected: Vec<_> = oracle.drain(..).take(count).collect();
                    prop_assert_eq!(values, expected);
                    (taken, fresh) = (0, 0);
                }
                Op::Clone => {
                    if producers.len() < 4 {
                        producers.push(producers[0].clone());
                    }
                }
                Op::Leave(which) => {
                    if producers.len() > 1 {
                        producers.swap_remove(which % producers.len());
                    }
                }
                Op::Refuse(now) => {
                    refuses = now;
                    alloc.set_refuses(now);
                }
                Op::Close => {
                    prop_assert_eq!(consumer.close(), !closed);
                    closed = true;
                    taken += fresh;
                    fresh = 0;
                }
            }
            prop_assert_eq!(consumer.is_empty(), oracle.is_empty());
            prop_assert_eq!(ledger.made() - ledger.dropped(), oracle.len());
        }
        drop(producers);
        prop_assert_eq!(consumer.is_finished(), oracle.is_empty());
        drop(consumer);
        ledger.assert_settled();
        prop_assert_eq!(alloc.blocks(), 0);
    }

    #[test]
    fn mpsc_intrusive_is_a_deque(ops in vec(op(), 0..60)) {
        let ledger = Ledger::default();
        let queue = intrusive::Queue::new();
        let node = |n| Box::new(Node { link: Link::new(), item: ledger.payload(n) });
        let mut oracle = VecDeque::new();
        let (mut next, mut closed) = (0, false);
        for op in ops {
            match op {
                Op::Push(_) => {
                    match queue.push(node(next)) {
                        Ok(_) => oracle.push_back(next),
                        Err(refused) => {
                            prop_assert!(closed);
                            prop_assert_eq!(refused.into_inner().item.value, next);
                        }
                    }
                    next += 1;
                }
                Op::PushMany(_, count) => {
                    let end = next + count as u64;
                    match queue.push_batch((next..end).map(node)) {
                        Ok(_) => oracle.extend(next..end),
                        Err(refused) => {
                            prop_assert!(closed);
                            prop_assert!(refused.into_inner().map(|node| node.item.value).eq(next..end));
                        }
                    }
                    next = end;
                }
                Op::Pop(count) => {
                    let mut consumer = queue.consumer().expect("nothing else consumes");
                    for _ in 0..count {
                        let value = consumer.pop().map(|node| node.item.value);
                        prop_assert_eq!(value, oracle.pop_front());
                    }
                    prop_assert_eq!(consumer.is_empty(), oracle.is_empty());
                }
                Op::TakeAll(count) => {
                    let batch = queue.consumer().expect("nothing else consumes").take_all();
                    let values: Vec<_> = batch.take(count).map(|node| node.item.value).collect();
                    let expected: Vec<_> = oracle.drain(..).take(count).collect();
                    prop_assert_eq!(values, expected);
                }
                Op::Close => {
                    prop_assert_eq!(queue.consumer().expect("nothing else consumes").close(), !closed);
                    closed = true;
                }
                Op::Clone | Op::Leave(_) | Op::Refuse(_) => {}
            }
            prop_assert_eq!(ledger.made() - ledger.dropped(), oracle.len());
        }
        drop(queue);
        ledger.assert_settled();
    }
}
