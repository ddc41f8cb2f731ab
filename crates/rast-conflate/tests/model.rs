//! Random operations against a `HashMap` that keeps the newest value per key.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::collections::HashMap;

use proptest::prelude::*;
use rast_conflate::{Conflator, Growth, Marks, PutError, Removed};
use std::hash::{BuildHasher, Hasher, RandomState};

#[derive(Clone, Copy, Debug)]
enum Op {
    Put(u8, u32),
    PutByHandle(u8, u32),
    Handle(u8),
    DropHandle(u8),
    Remove(u8),
    Pass,
    Take(u8),
    NewConsumer,
    Expire,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..24_u8;
    prop_oneof![
        4 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::Put(key, value)),
        4 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::PutByHandle(key, value)),
        2 => key.clone().prop_map(Op::Handle),
        1 => key.clone().prop_map(Op::DropHandle),
        2 => key.prop_map(Op::Remove),
        2 => Just(Op::Pass),
        2 => (0..8_u8).prop_map(Op::Take),
        1 => Just(Op::NewConsumer),
        1 => Just(Op::Expire),
    ]
}

/// A hasher by chance, or one that gives every key the same hash: then 16 keys fill a table that
/// grows.
struct Hash(Option<RandomState>);

struct Same;

impl Hasher for Same {
    fn finish(&self) -> u64 {
        7
    }
    fn write(&mut self, _: &[u8]) {}
}

impl BuildHasher for Hash {
    type Hasher = Box<dyn Hasher>;
    fn build_hasher(&self) -> Self::Hasher {
        match &self.0 {
            Some(random) => Box::new(random.build_hasher()),
            None => Box::new(Same),
        }
    }
}

proptest! {
    #[test]
    fn it_is_a_map_of_newest_values(
        ops in prop::collection::vec(op(), 1..200),
        flat: bool,
        refuses: bool,
        keys in 1..20_usize,
        grows: bool,
        spreads: bool,
    ) {
        let conflator = Conflator::<u8, u32>::builder()
            .marks(if flat { Marks::Flat } else { Marks::Tree })
            .removed(if refuses { Removed::Refuse } else { Removed::Insert })
            .growth(if grows { Growth::Grow } else { Growth::Refuse })
            .keys(keys)
            .hasher(Hash(spreads.then(RandomState::new)))
            .build();
        let room = if grows { usize::MAX } else { keys };
        let mut producer = conflator.producer();
        let mut consumer = conflator.consumer().unwrap();
        let mut handles = HashMap::new();
        // Keys that are there, and the values that wait.
        let mut model: HashMap<u8, Option<u32>> = HashMap::new();
        for op in ops {
            match op {
                Op::Put(key, value) => {
                    let fits = model.contains_key(&key) || model.len() < room;
                    let expected = if fits { Ok(()) } else { Err(PutError::Full(value)) };
                    prop_assert_eq!(producer.put_key(&key, value), expected);
                    if fits {
                        model.insert(key, Some(value));
                    }
                }
                Op::PutByHandle(key, value) => {
                    let Some(handle) = handles.get(&key) else { continue };
                    let is_there = model.contains_key(&key);
                    let expected = match (is_there, refuses) {
                        (false, true) => Err(PutError::Removed(value)),
                        (false, false) if model.len() >= room => Err(PutError::Full(value)),
                        _ => Ok(()),
                    };
                    prop_assert_eq!(producer.put(handle, value), expected);
                    if expected.is_ok() {
                        model.insert(key, Some(value));
                    }
                }
                Op::Handle(key) => {
                    let fits = model.contains_key(&key) || model.len() < room;
                    let handle = conflator.handle(&key);
                    prop_assert_eq!(handle.is_ok(), fits);
                    if let Ok(handle) = handle {
                        model.entry(key).or_insert(None);
                        handles.insert(key, handle);
                    }
                }
                Op::DropHandle(key) => drop(handles.remove(&key)),
                Op::Remove(key) => {
                    let removal = producer.remove(&key);
                    let expected = model.remove(&key);
                    prop_assert_eq!(removal.was_present, expected.is_some());
                    prop_assert_eq!(removal.value, expected.flatten());
                }
                Op::Pass => {
                    let mut seen = HashMap::new();
                    consumer.pass(|key, value| assert_eq!(seen.insert(*key, value), None));
                    for (key, value) in &mut model {
                        prop_assert_eq!(seen.remove(key), value.take());
                    }
                    prop_assert!(seen.is_empty());
                }
                Op::Take(count) => {
                    for _ in 0..count {
                        let waiting = model.values().flatten().count();
                        let Some(item) = consumer.try_next() else {
                            prop_assert_eq!(waiting, 0);
                            break;
                        };
                        let expected = model.get_mut(item.key()).and_then(Option::take);
                        prop_assert_eq!(expected, Some(*item));
                    }
                }
                Op::NewConsumer => consumer = conflator.consumer().unwrap(),
                Op::Expire => prop_assert_eq!(conflator.expire(), 0),
            }
            prop_assert_eq!(conflator.len(), model.len());
            prop_assert_eq!(conflator.pending(), model.values().flatten().count());
        }
        let mut keys: Vec<u8> = Vec::new();
        conflator.for_each(|key, _| keys.push(*key));
        keys.sort_unstable();
        let mut expected: Vec<u8> = model.keys().copied().collect();
        expected.sort_unstable();
        prop_assert_eq!(keys, expected);
        conflator.drain(|key, value| assert_eq!(model.remove(key), Some(Some(value))));
        let f = conflator.figures();
        prop_assert_eq!(f.submitted, f.handled + f.conflated + f.panicked + f.returned);
    }
}
