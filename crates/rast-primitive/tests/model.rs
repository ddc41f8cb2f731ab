//! Random operations on the tagged pointer and the event count, against plain values.
#![cfg(not(rast_loom))]

use proptest::prelude::*;
use rast_primitive::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use rast_primitive::{AtomicTaggedPtr, TaggedPtr};

/// Aligned to 16, so that the low-bits layout has four bits to count with.
#[repr(align(16))]
#[derive(Default)]
struct Block(#[expect(dead_code, reason = "gives the block a size")] u64);

#[derive(Clone, Debug)]
enum Operation {
    Store(usize, u64),
    Swap(usize, u64),
    Exchange(usize, u64, bool),
    Add(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (0..4_usize, any::<u64>()).prop_map(|(block, count)| Operation::Store(block, count)),
        (0..4_usize, any::<u64>()).prop_map(|(block, count)| Operation::Swap(block, count)),
        (0..4_usize, any::<u64>(), any::<bool>())
            .prop_map(|(block, count, matches)| Operation::Exchange(block, count, matches)),
        prop_oneof![0..4_u64, any::<u64>()].prop_map(Operation::Add),
    ]
}

proptest! {
    #[test]
    fn tagged_pointer_is_a_pair(operations in prop::collection::vec(operation(), 0..60)) {
        let mut blocks: [Block; 4] = Default::default();
        let blocks = blocks.each_mut().map(|block| &raw mut *block);
        let modulo = |count: u64| count & TaggedPtr::<Block>::COUNT_MAX;
        let parts = |tagged: TaggedPtr<Block>| (tagged.ptr(), tagged.count());

        let word = AtomicTaggedPtr::<Block>::default();
        let mut expected = (core::ptr::null_mut(), 0);
        for operation in operations {
            match operation {
                Operation::Store(block, count) => {
                    word.store(TaggedPtr::new(blocks[block], count), Release);
                    expected = (blocks[block], modulo(count));
                }
                Operation::Swap(block, count) => {
                    let before = word.swap(TaggedPtr::new(blocks[block], count), AcqRel);
                    prop_assert_eq!(parts(before), expected);
                    expected = (blocks[block], modulo(count));
                }
                Operation::Exchange(block, count, matches) => {
                    let new = TaggedPtr::new(blocks[block], count);
                    let mut current = TaggedPtr::new(expected.0, expected.1);
                    if !matches {
                        current = current.with_count(expected.1 ^ 1);
                    }
                    let outcome = word.compare_exchange(current, new, AcqRel, Relaxed);
                    prop_assert_eq!(outcome.is_ok(), matches);
                    prop_assert_eq!(parts(outcome.unwrap_or_else(|found| found)), expected);
                    if matches {
                        expected = parts(new);
                    }
                }
                Operation::Add(n) => {
                    prop_assert_eq!(parts(word.fetch_add_count(n, AcqRel)), expected);
                    expected.1 = modulo(expected.1.wrapping_add(n));
                }
            }
            prop_assert_eq!(parts(word.load(Acquire)), expected);
        }
    }
}

#[cfg(feature = "std")]
mod event_count {
    use super::*;
    use rast_primitive::EventCount;
    use std::collections::VecDeque;
    use std::time::Duration;

    #[derive(Clone, Debug)]
    enum Call {
        Prepare,
        Cancel(prop::sample::Index),
        Wait(prop::sample::Index),
        NotifyOne,
        NotifyAll,
    }

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            3 => Just(Call::Prepare),
            1 => any::<prop::sample::Index>().prop_map(Call::Cancel),
            1 => any::<prop::sample::Index>().prop_map(Call::Wait),
            2 => Just(Call::NotifyOne),
            1 => Just(Call::NotifyAll),
        ]
    }

    proptest! {
        /// The oracle: a line of waiters, and those that one call or a call to all has woken.
        #[test]
        fn wakes_as_the_oracle_does(calls in prop::collection::vec(call(), 0..60)) {
            let event = EventCount::new();
            let mut keys = Vec::new();
            let mut line = VecDeque::new();
            let (mut by_one, mut by_all) = (Vec::new(), Vec::new());
            for (name, call) in calls.into_iter().enumerate() {
                match call {
                    Call::Prepare => {
                        keys.push((name, event.prepare()));
                        line.push_back(name);
                    }
                    Call::NotifyOne => {
                        event.notify_one();
                        by_one.extend(line.pop_front());
                    }
                    Call::NotifyAll => {
                        event.notify_all();
                        by_all.extend(line.drain(..));
                    }
                    Call::Cancel(index) if !keys.is_empty() => {
                        let (name, key) = keys.remove(index.index(keys.len()));
                        event.cancel(key);
                        line.retain(|waiter| *waiter != name);
                        if by_one.contains(&name) {
                            by_one.extend(line.pop_front());
                        }
                    }
                    Call::Wait(index) if !keys.is_empty() => {
                        let (name, key) = keys.remove(index.index(keys.len()));
                        let woken = by_one.contains(&name) || by_all.contains(&name);
                        prop_assert_eq!(event.wait_timeout(key, Duration::ZERO), woken);
                        line.retain(|waiter| *waiter != name);
                    }
                    Call::Cancel(_) | Call::Wait(_) => {}
                }
                event.check_invariants();
            }
        }
    }
}
