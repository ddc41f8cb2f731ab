//! The ring against a bounded `VecDeque`.

use crate::support::{Ledger, drop_halves};
use proptest::collection::vec;
use proptest::prelude::*;
use rast_queue::spsc;
use std::collections::VecDeque;
use std::mem::forget;

/// What a producer does.
#[derive(Clone, Debug)]
enum Put {
    Push,
    Iter(usize),
    /// A chunk of so many slots, filled from so many items.
    Fill(usize, usize),
    /// A chunk of so many values, of which so many are committed.
    Filled(usize, usize),
    /// A chunk that is dropped or forgotten.
    Waste(usize, bool),
}

/// What a consumer does.
#[derive(Clone, Debug)]
enum Get {
    Pop,
    Batch(usize),
    Into(usize),
    Peek,
    /// A chunk of so many items, of which so many are dropped.
    Commit(usize, usize),
    /// A chunk of so many items, of which so many are taken.
    Iter(usize, usize),
    /// A chunk, or its iterator, of which nothing is taken.
    Look(usize, bool),
}

#[derive(Clone, Debug)]
enum Op {
    Put(Put),
    Get(Get),
}

fn op() -> impl Strategy<Value = Op> {
    let n = 0..12usize;
    let put = prop_oneof![
        3 => Just(Put::Push),
        2 => n.clone().prop_map(Put::Iter),
        2 => (n.clone(), n.clone()).prop_map(|(a, b)| Put::Fill(a, b)),
        2 => (n.clone(), n.clone()).prop_map(|(a, b)| Put::Filled(a, b)),
        1 => (n.clone(), any::<bool>()).prop_map(|(a, b)| Put::Waste(a, b)),
    ];
    let get = prop_oneof![
        3 => Just(Get::Pop),
        2 => n.clone().prop_map(Get::Batch),
        1 => n.clone().prop_map(Get::Into),
        1 => Just(Get::Peek),
        2 => (n.clone(), n.clone()).prop_map(|(a, b)| Get::Commit(a, b)),
        2 => (n.clone(), n.clone()).prop_map(|(a, b)| Get::Iter(a, b)),
        1 => (n, any::<bool>()).prop_map(|(a, b)| Get::Look(a, b)),
    ];
    prop_oneof![put.prop_map(Op::Put), get.prop_map(Op::Get)]
}

proptest! {
    #[test]
    fn ring_is_a_bounded_deque(
        capacity in 0..9usize,
        below_wrap in 0..20usize,
        ops in vec(op(), 0..60),
        producer_first: bool,
    ) {
        let ledger = Ledger::default();
        let (mut producer, mut consumer) = spsc::ring_at(capacity, usize::MAX - below_wrap);
        let capacity = producer.capacity();
        let mut oracle = VecDeque::new();
        let mut next = 0;
        for op in ops {
            let room = capacity - oracle.len();
            match op {
                Op::Put(put) => {
                    let mut items = (next..).map(|n| ledger.payload(n));
                    let pushed = match put {
                        Put::Push => usize::from(producer.push(items.next().unwrap()).is_ok()),
                        Put::Iter(count) => {
                            let pushed = producer.push_batch(&mut items.by_ref().take(count));
                            prop_assert_eq!(pushed, count.min(room));
                            pushed
                        }
                        Put::Fill(slots, count) => {
                            let pushed = producer.write_chunk(slots).fill(items.by_ref().take(count));
                            prop_assert_eq!(pushed, slots.min(count).min(room));
                            pushed
                        }
                        Put::Filled(slots, count) => {
                            let mut chunk = producer.write_chunk(slots).filled_with(|| items.next().unwrap());
                            prop_assert_eq!(chunk.len(), slots.min(room));
                            let (first, second) = chunk.as_mut_slices();
                            let values = first.iter_mut().chain(second).map(|p| p.value);
                            prop_assert!(values.eq((next..).take(slots.min(room))));
                            let count = count.min(chunk.len());
                            chunk.commit(count);
                            count
                        }
                        Put::Waste(slots, forgets) => {
                            let chunk = producer.write_chunk(slots);
                            if forgets {
                                forget(chunk.filled_with(|| Ledger::default().payload(0)));
                            } else {
                                drop(chunk.filled_with(|| items.next().unwrap()));
                            }
                            0
                        }
                    };
                    prop_assert!(pushed <= room);
                    oracle.extend(next..next + pushed as u64);
                    next += 20;
                }
                Op::Get(get) => {
                    let mut values = Vec::new();
                    let expected = match get {
                        Get::Pop => {
                            values.extend(consumer.pop().map(|p| p.value));
                            1
                        }
                        Get::Batch(max) => {
                            let count = consumer.pop_batch(max, |p| values.push(p.value));
                            prop_assert_eq!(count, values.len());
                            max
                        }
                        Get::Into(max) => {
                            let mut payloads = Vec::new();
                            prop_assert_eq!(consumer.pop_into(&mut payloads, max), payloads.len());
                            values.extend(payloads.iter().map(|p| p.value));
                            max
                        }
                        Get::Peek => {
                            prop_assert_eq!(consumer.peek().map(|p| p.value), oracle.front().copied());
                            0
                        }
                        Get::Commit(max, count) => {
                            let chunk = consumer.read_chunk(max);
                            let count = count.min(chunk.len());
                            let (first, second) = chunk.as_slices();
                            values.extend(first.iter().chain(second).map(|p| p.value));
                            prop_assert_eq!(values.len(), max.min(oracle.len()));
                            values.truncate(count);
                            chunk.commit(count);
                            count
                        }
                        Get::Iter(max, count) => {
                            values.extend(consumer.read_chunk(max).into_iter().take(count).map(|p| p.value));
                            max.min(count)
                        }
                        Get::Look(max, iterates) => {
                            let chunk = consumer.read_chunk(max);
                            prop_assert_eq!(chunk.len(), max.min(oracle.len()));
                            if iterates {
                                drop(chunk.into_iter());
                            }
                            0
                        }
                    };
                    let expected: Vec<_> = oracle.drain(..expected.min(oracle.len())).collect();
                    prop_assert_eq!(values, expected);
                }
            }
            prop_assert_eq!(consumer.len(), oracle.len());
            prop_assert_eq!(producer.room(), capacity - oracle.len());
            prop_assert_eq!(ledger.made() - ledger.dropped(), oracle.len());
        }
        drop_halves(producer, consumer, producer_first);
        ledger.assert_settled();
    }
}
