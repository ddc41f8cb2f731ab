//! The queue for many consumers: one thread uses several consumers in turn.

use crate::support::{Counting, Ledger};
use proptest::collection::vec;
use proptest::prelude::*;
use rast_queue::{TryPushError, spmc};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Op {
    Push,
    Pending(usize),
    Publish,
    PushBatch(usize),
    Reserve(usize),
    Refuse(bool),
    Pop(usize),
    PopBatch(usize, usize),
    PopInto(usize, usize),
    Enter,
    Leave(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let who = 0..4usize;
    prop_oneof![
        6 => Just(Op::Push),
        3 => (1..6usize).prop_map(Op::Pending),
        3 => Just(Op::Publish),
        2 => (0..20usize).prop_map(Op::PushBatch),
        1 => (0..20usize).prop_map(Op::Reserve),
        1 => any::<bool>().prop_map(Op::Refuse),
        8 => who.clone().prop_map(Op::Pop),
        2 => (who.clone(), 0..20usize).prop_map(|(who, max)| Op::PopBatch(who, max)),
        2 => (who.clone(), 0..20usize).prop_map(|(who, max)| Op::PopInto(who, max)),
        1 => Just(Op::Enter),
        1 => who.prop_map(Op::Leave),
    ]
}

proptest! {
    #[test]
    fn spmc_is_a_deque(
        slots in 1..9usize,
        ops in vec(op(), 0..80),
        producer_first: bool,
    ) {
        let (ledger, alloc) = (Ledger::default(), Counting::default());
        let (mut producer, first) = spmc::with_block_slots_in(slots, alloc.clone());
        let mut consumers = vec![first];
        // What is published and queued, and what is pending.
        let (mut oracle, mut pending) = (VecDeque::new(), VecDeque::new());
        let (mut next, mut refuses, mut reserved) = (0, false, 0);
        // Below which number the last publication told of all, and whether something came since.
        let (mut told, mut fresh) = (0, false);
        for op in ops {
            match op {
                Op::Push | Op::Pending(_) => {
                    let count = if let Op::Pending(count) = op { count } else { 1 };
                    for _ in 0..count {
                        let payload = ledger.payload(next);
                        let pushed = if matches!(op, Op::Push) {
                            producer.try_push(payload)
                        } else {
                            producer.try_push_pending(payload)
                        };
                        match pushed {
                            Ok(()) => {
                                pending.push_back(next);
                                fresh = true;
                                reserved = usize::saturating_sub(reserved, 1);
                                if matches!(op, Op::Push) {
                                    oracle.append(&mut pending);
                                }
                            }
                            Err(TryPushError::NoMemory(payload) | TryPushError::Closed(payload)) => {
                                prop_assert!(refuses && reserved == 0 && payload.value == next);
                            }
                        }
                        next += 1;
                    }
                }
                Op::Publish => {
                    // Payloads are numbered, so what it has told of are the lesser ones.
                    let drained = oracle.front().is_none_or(|&n| n >= told);
                    prop_assert_eq!(producer.publish(), drained && fresh);
                    (told, fresh) = (next, false);
                    oracle.append(&mut pending);
                }
                Op::PushBatch(count) => {
                    // What lacks memory here aborts.
                    if !refuses {
                        let items = (next..).take(count).map(|n| ledger.payload(n));
                        prop_assert_eq!(producer.push_batch(items), count);
                        oracle.append(&mut pending);
                        oracle.extend((next..).take(count));
                        next += count as u64;
                        fresh |= count > 0;
                        reserved = usize::saturating_sub(reserved, count);
                    }
                }
                Op::Reserve(count) => match producer.try_reserve(count) {
                    Ok(()) => reserved = reserved.max(count),
                    Err(_) => prop_assert!(refuses && count > reserved),
                },
                Op::Refuse(yes) => {
                    alloc.set_refuses(yes);
                    refuses = yes;
                }
                Op::Pop(who) => {
                    if let Some(consumer) = consumers.get_mut(who) {
                        prop_assert_eq!(consumer.pop().map(|p| p.value), oracle.pop_front());
                    }
                }
                Op::PopBatch(who, max) => {
                    if let Some(consumer) = consumers.get_mut(who) {
                        let mut values = Vec::new();
                        let count = consumer.pop_batch(max, |p| values.push(p.value));
                        let expected: Vec<_> = oracle.drain(..max.min(oracle.len())).collect();
                        prop_assert_eq!(count, expected.len());
                        prop_assert_eq!(values, expected);
                    }
                }
                Op::PopInto(who, max) => {
                    if let Some(consumer) = consumers.get_mut(who) {
                        let mut payloads = Vec::new();
                        let count = consumer.pop_into(&mut payloads, max);
                        let values: Vec<_> = payloads.iter().map(|p| p.value).collect();
                        let expected: Vec<_> = oracle.drain(..max.min(oracle.len())).collect();
                        prop_assert_eq!(count, expected.len());
                        prop_assert_eq!(values, expected);
                    }
                }
                Op::Enter => consumers.push(match consumers.last() {
                    Some(consumer) => consumer.clone(),
                    None => producer.consumer(),
                }),
                Op::Leave(who) => {
                    if who < consumers.len() {
                        consumers.remove(who);
                    }
                }
            }
            prop_assert_eq!(producer.len(), oracle.len());
            prop_assert_eq!(producer.pending(), pending.len());
            prop_assert_eq!(producer.consumers(), consumers.len());
            prop_assert_eq!(producer.is_closed(), consumers.is_empty());
            for consumer in &consumers {
                prop_assert_eq!(consumer.len(), oracle.len());
                prop_assert_eq!(consumer.is_empty(), oracle.is_empty());
                prop_assert!(!consumer.is_finished());
            }
            prop_assert_eq!(ledger.made() - ledger.dropped(), oracle.len() + pending.len());
            // The words, the blocks of what is queued and one more, the spare, the stock, and one
            // for each consumer.
            let items = oracle.len() + pending.len();
            let most = 3 + items.div_ceil(slots) + 20 / slots + 1 + consumers.len();
            prop_assert!(alloc.blocks() <= most, "{} blocks, at most {}", alloc.blocks(), most);
        }
        if producer_first {
            drop(producer);
            for consumer in &mut consumers {
                prop_assert!(consumer.is_closed());
                prop_assert_eq!(consumer.len(), oracle.len() + pending.len());
            }
            drop(consumers);
        } else {
            drop(consumers);
            drop(producer);
        }
        ledger.assert_settled();
        prop_assert_eq!(alloc.blocks(), 0);
    }
}
