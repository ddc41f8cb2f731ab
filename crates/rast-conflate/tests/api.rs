//! Examples and edges of the conflator.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rast_conflate::timers::{ManualClock, Nanos};
use rast_conflate::{
    Bar, Conflator, Consumer, Figures, Greatest, Growth, HandleError, InPlace, Least, Marks, Merge,
    Merged, Mode, Newest, Pace, PutError, Removed, Sequenced, Sum, TooManyConsumers,
};

/// Everything that a pass hands out, in its order.
fn pass<K: Clone, V, M: Mode<V>, S>(consumer: &mut Consumer<K, V, M, S>) -> Vec<(K, V)> {
    let mut seen = Vec::new();
    consumer.pass(|key, value| seen.push((key.clone(), value)));
    seen
}

/// Checks that each submitted value is accounted for.
fn balanced(figures: Figures) {
    let Figures {
        submitted,
        handled,
        conflated,
        panicked,
        returned,
        ..
    } = figures;
    assert_eq!(
        submitted,
        handled + conflated + panicked + returned,
        "{figures:?}"
    );
}

#[test]
fn the_newest_value_is_handled_once() {
    for marks in [Marks::Tree, Marks::Flat] {
        for keys in [1, 10, 700, 10_000] {
            let conflator = Conflator::<usize, String>::builder()
                .marks(marks)
                .keys(64)
                .build();
            let mut producer = conflator.producer();
            let handles: Vec<_> = (0..keys)
                .map(|key| conflator.handle(&key).unwrap())
                .collect();
            let mut consumer = conflator.consumer().unwrap();
            for round in 0..3 {
                for handle in &handles {
                    producer
                        .put(handle, format!("{}:{round}", handle.key()))
                        .unwrap();
                    producer
                        .put_key(handle.key(), format!("{}:{round}!", handle.key()))
                        .unwrap();
                }
                let mut seen = pass(&mut consumer);
                seen.sort_unstable();
                assert_eq!(seen.len(), keys, "{marks:?}");
                for (at, (key, value)) in seen.into_iter().enumerate() {
                    assert_eq!((key, value), (at, format!("{at}:{round}!")));
                }
                assert_eq!(consumer.pass(|_, _| unreachable!()).handled, 0);
            }
            assert_eq!(conflator.len(), keys);
            balanced(conflator.figures());
        }
    }
}

mod long {
    #[test]
    fn a_million_keys() {
        super::many_keys(1_000_000, 1_000_000);
    }
}

#[test]
fn a_hundred_thousand_keys_grow_from_ten() {
    many_keys(10, 100_000);
}

fn many_keys(room: usize, keys: u32) {
    let conflator = Conflator::<u32, u32>::builder()
        .mode::<InPlace>()
        .keys(room)
        .build();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    for key in 0..keys {
        producer.put_key(&key, key).unwrap();
    }
    for key in (0..keys).step_by(10) {
        producer.put_key(&key, key + 1).unwrap();
    }
    let (mut count, mut sum) = (0_u64, 0_u64);
    consumer.pass(|key, value| {
        assert_eq!(value, key + u32::from(key % 10 == 0));
        (count, sum) = (count + 1, sum + u64::from(*key));
    });
    assert_eq!(
        (count, sum),
        (u64::from(keys), u64::from(keys) * u64::from(keys - 1) / 2)
    );
    assert_eq!(conflator.len(), keys as usize);
    assert!(
        conflator.cells() < 12 * keys as usize,
        "{}",
        conflator.cells()
    );
    balanced(conflator.figures());
}

/// A hasher that gives every key the same hash.
#[derive(Default)]
struct Constant;

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        42
    }
    fn write(&mut self, _: &[u8]) {}
}

#[test]
fn a_constant_hash_stays_correct_and_small() {
    let builder =
        || Conflator::<u32, u64>::builder().hasher(BuildHasherDefault::<Constant>::default());
    for conflator in [
        builder().keys(1).build(),
        builder().keys(1).marks(Marks::Flat).build(),
        builder().keys(2000).growth(Growth::Refuse).build(),
    ] {
        let mut producer = conflator.producer();
        let mut consumer = conflator.consumer().unwrap();
        for round in 0..2 {
            for key in 0..2000 {
                producer.put_key(&key, u64::from(key) + round).unwrap();
            }
            let seen: HashMap<_, _> = pass(&mut consumer).into_iter().collect();
            assert_eq!(seen.len(), 2000);
            assert!(
                seen.iter()
                    .all(|(key, value)| *value == u64::from(*key) + round)
            );
        }
        assert!(conflator.cells() <= 5 * 2000 + 64, "{}", conflator.cells());
        for key in 0..2000 {
            assert!(producer.remove(&key).was_present);
        }
        assert!(conflator.is_empty());
    }
}

#[test]
fn a_full_conflator_refuses_and_hands_the_value_back() {
    let conflator = Conflator::<u32, u32>::builder()
        .keys(3)
        .growth(Growth::Refuse)
        .build();
    let mut producer = conflator.producer();
    for key in 0..3 {
        producer.put_key(&key, key).unwrap();
    }
    assert_eq!(producer.put_key(&3, 33), Err(PutError::Full(33)));
    assert_eq!(conflator.handle(&3).unwrap_err(), HandleError::Full);
    producer.put_key(&1, 11).unwrap();
    assert_eq!(producer.remove(&0).value, Some(0));
    producer.put_key(&3, 34).unwrap();
    assert_eq!(conflator.len(), 3);
    let mut seen = pass(&mut conflator.consumer().unwrap());
    seen.sort_unstable();
    assert_eq!(seen, [(1, 11), (2, 2), (3, 34)]);
    balanced(conflator.figures());
}

#[test]
fn a_handle_of_a_removed_key_inserts_it_anew() {
    let conflator = Conflator::<&str, u32>::new();
    let mut producer = conflator.producer();
    let handle = conflator.handle(&"a").unwrap();
    producer.put(&handle, 1).unwrap();
    let removal = producer.remove(&"a");
    assert_eq!((removal.was_present, removal.value), (true, Some(1)));
    assert!(!producer.remove(&"a").was_present);
    assert!(!handle.is_live() && !conflator.contains(&"a") && conflator.is_empty());
    let mut consumer = conflator.consumer().unwrap();
    assert_eq!(pass(&mut consumer), []);
    producer.put(&handle, 2).unwrap();
    assert!(handle.is_live());
    assert_eq!(pass(&mut consumer), [("a", 2)]);
    balanced(conflator.figures());
}

#[test]
fn a_handle_of_a_removed_key_is_refused_where_it_is_set_so() {
    let conflator = Conflator::<&str, u32>::builder()
        .removed(Removed::Refuse)
        .build();
    let mut producer = conflator.producer();
    let handle = conflator.handle(&"a").unwrap();
    producer.remove(&"a");
    assert_eq!(producer.put(&handle, 1), Err(PutError::Removed(1)));
    producer.put_key(&"a", 2).unwrap();
    producer.put(&handle, 3).unwrap();
    producer.remove(&"a");
    let again = conflator.handle(&"a").unwrap();
    producer.put(&again, 4).unwrap();
    assert_eq!(pass(&mut conflator.consumer().unwrap()), [("a", 4)]);
    balanced(conflator.figures());
}

#[test]
fn cells_of_removed_keys_are_used_again_and_those_with_a_handle_are_not() {
    let conflator = Conflator::<u64, u64>::builder()
        .keys(4)
        .growth(Growth::Refuse)
        .build();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let cells = conflator.cells();
    let kept = conflator.handle(&0).unwrap();
    producer.remove(&0);
    for key in 1..10_000 {
        producer.put_key(&key, key).unwrap();
        if key % 2 == 0 {
            assert_eq!(pass(&mut consumer), [(key, key)]);
        } else {
            assert_eq!(producer.remove(&key).value, Some(key));
        }
        producer.remove(&key);
    }
    assert_eq!((*kept.key(), conflator.cells()), (0, cells));
    producer.put(&kept, 7).unwrap();
    assert_eq!(pass(&mut consumer), [(0, 7)]);
    balanced(conflator.figures());
}

#[test]
fn idle_keys_expire_and_no_value_is_lost() {
    let clock = ManualClock::new();
    let conflator = Conflator::<u32, u32>::builder()
        .clock(clock.clone())
        .expire_after(Nanos::from_secs(1))
        .build();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let handle = conflator.handle(&1).unwrap();
    for key in 0..3 {
        producer.put_key(&key, key).unwrap();
    }
    consumer.pass(|_, _| {});
    clock.advance(Nanos::from_millis(600));
    producer.put_key(&0, 10).unwrap();
    consumer.pass(|_, _| {});
    clock.advance(Nanos::from_millis(600));
    producer.put_key(&2, 12).unwrap();
    // 0 was handled 600 ms ago, 2 has a value that waits.
    assert_eq!(conflator.expire(), 1);
    assert!(!handle.is_live());
    assert!(conflator.contains(&0) && conflator.contains(&2));
    producer.put(&handle, 11).unwrap();
    let mut seen = pass(&mut consumer);
    seen.sort_unstable();
    assert_eq!(seen, [(1, 11), (2, 12)]);
    assert_eq!(Conflator::<u32, u32>::new().expire(), 0);
}

#[test]
fn words_sums_and_peaks() {
    fn of<M: Mode<V>, V: Send + Copy + 'static>(values: &[V]) -> Vec<(u8, V)> {
        let conflator = Conflator::<u8, V>::builder().mode::<M>().build();
        let mut producer = conflator.producer();
        let handle = conflator.handle(&0).unwrap();
        for value in values {
            producer.put(&handle, *value).unwrap();
        }
        let mut consumer = conflator.consumer().unwrap();
        let seen = pass(&mut consumer);
        balanced(conflator.figures());
        assert_eq!(conflator.figures().submitted, values.len() as u64);
        seen
    }
    assert_eq!(of::<InPlace, f64>(&[1.0, -0.0]), [(0, -0.0)]);
    assert_eq!(of::<InPlace, i8>(&[-128]), [(0, -128)]);
    assert_eq!(of::<Sum, i64>(&[5, -7, 3]), [(0, 1)]);
    assert_eq!(of::<Sum, u64>(&[u64::MAX, 2]), [(0, 1)]);
    assert_eq!(of::<Sum, i64>(&[0]), []);
    assert_eq!(of::<Sum, i64>(&[5, -5]), []);
    assert_eq!(of::<Sum, i64>(&[0, 5, 0, -5, 0, 1]), [(0, 1)]);
    assert_eq!(of::<Least, i32>(&[5, i32::MIN, 7]), [(0, i32::MIN)]);
    assert_eq!(
        of::<Greatest, f64>(&[5.0, -1.0, f64::INFINITY, 0.0]),
        [(0, f64::INFINITY)]
    );
    assert_eq!(of::<Greatest, u8>(&[0]), [(0, 0)]);
    assert_eq!(of::<Least, u8>(&[255]), [(0, 255)]);
    assert_eq!(
        of::<Sequenced, [f64; 3]>(&[[1.0; 3], [2.0, 3.0, 4.0]]),
        [(0, [2.0, 3.0, 4.0])]
    );
    assert_eq!(of::<Sequenced, [u64; 8]>(&[[0; 8]]), [(0, [0; 8])]);
    let bars = [7, 3, 9, 5].map(Bar::of);
    let bar = Bar {
        open: 7,
        high: 9,
        low: 3,
        close: 5,
    };
    assert_eq!(of::<Merged, Bar<i32>>(&bars), [(0, bar)]);
}

#[test]
fn a_sequenced_key_has_one_handle() {
    let conflator = Conflator::<u8, [u64; 2]>::builder()
        .mode::<Sequenced>()
        .build();
    let handle = conflator.handle(&1).unwrap();
    assert_eq!(conflator.handle(&1).unwrap_err(), HandleError::Owned);
    let mut producer = conflator.producer();
    producer.put(&handle, [1, 2]).unwrap();
    drop(handle);
    let handle = conflator.handle(&1).unwrap();
    producer.put(&handle, [3, 4]).unwrap();
    assert_eq!(pass(&mut conflator.consumer().unwrap()), [(1, [3, 4])]);
    balanced(conflator.figures());
}

struct Picky(Vec<u32>);

impl Merge for Picky {
    fn merge(&mut self, newer: Self) {
        assert!(!newer.0.contains(&13), "no 13");
        self.0.extend(newer.0);
    }
}

#[test]
fn a_merge_that_panics_loses_its_value_alone() {
    let conflator = Conflator::<u8, Picky>::builder().mode::<Merged>().build();
    let mut producer = conflator.producer();
    let handle = conflator.handle(&0).unwrap();
    for value in [1, 2] {
        producer.put(&handle, Picky(vec![value])).unwrap();
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        producer.put(&handle, Picky(vec![13]))
    }));
    assert!(panicked.is_err());
    producer.put(&handle, Picky(vec![3])).unwrap();
    let mut seen = Vec::new();
    conflator
        .consumer()
        .unwrap()
        .pass(|_, value| seen = value.0);
    assert_eq!(seen, [1, 2, 3]);
    balanced(conflator.figures());
}

#[test]
fn a_handler_that_panics_is_counted_and_wedges_nothing() {
    let conflator = Conflator::<u32, u32>::new();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    for round in 0..3 {
        for key in 0..100 {
            producer.put_key(&key, round).unwrap();
        }
        let pass = consumer.pass(|key, _| assert!(key % 10 != 0, "every tenth"));
        assert_eq!((pass.handled, pass.panicked), (90, 10));
    }
    assert_eq!(conflator.figures().panicked, 30);
    balanced(conflator.figures());
}

#[test]
fn a_key_has_its_own_handler() {
    let conflator = Conflator::<u32, u32>::new();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let [own, other] = [1, 2].map(|key| conflator.handle(&key).unwrap());
    let seen = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&seen);
    own.set_handler(Some(Box::new(move |key, value| {
        assert!(value != 13, "no 13");
        theirs.fetch_add((key * value) as usize, Relaxed);
    })));
    let mut put = |value| {
        producer.put(&own, value).unwrap();
        producer.put(&other, value).unwrap();
        pass(&mut consumer)
    };
    assert_eq!(put(10), [(2, 10)]);
    assert_eq!(put(13), [(2, 13)]);
    assert_eq!(put(20), [(2, 20)]);
    assert_eq!(seen.load(Relaxed), 30);
    assert!(own.has_handler());
    own.set_handler(None);
    let mut seen_by_all = put(5);
    seen_by_all.sort_unstable();
    assert_eq!(seen_by_all, [(1, 5), (2, 5)]);
    assert_eq!(Arc::strong_count(&seen), 1);
    assert_eq!(conflator.figures().panicked, 1);
}

#[test]
fn a_handler_that_replaces_itself() {
    let conflator = Conflator::<u32, u32>::new();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let handle = conflator.handle(&1).unwrap();
    let own = handle.clone();
    let count = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&count);
    handle.set_handler(Some(Box::new(move |_, _| {
        theirs.fetch_add(1, Relaxed);
        let theirs = Arc::clone(&theirs);
        own.set_handler(Some(Box::new(move |_, _| {
            theirs.fetch_add(10, Relaxed);
        })));
    })));
    for _ in 0..3 {
        producer.put(&handle, 0).unwrap();
        consumer.pass(|_, _| unreachable!());
    }
    assert_eq!(count.load(Relaxed), 21);
}

#[test]
fn a_cooldown_holds_a_key_back_and_keeps_its_newest_value() {
    let clock = ManualClock::new();
    let conflator = Conflator::<u32, u32>::builder()
        .clock(clock.clone())
        .pace(Pace::cooldown(Nanos::from_millis(10)))
        .build();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let handle = conflator.handle(&1).unwrap();
    producer.put(&handle, 1).unwrap();
    assert_eq!(pass(&mut consumer), [(1, 1)]);
    producer.put(&handle, 2).unwrap();
    assert_eq!(pass(&mut consumer), []);
    producer.put(&handle, 3).unwrap();
    clock.advance(Nanos::from_nanos(9_999_999));
    assert_eq!(pass(&mut consumer), []);
    assert!(consumer.next_deadline().is_some());
    clock.advance(Nanos::from_nanos(1));
    assert_eq!(pass(&mut consumer), [(1, 3)]);
    assert_eq!(consumer.next_deadline(), None);
    assert!(conflator.set_pace(&1, Pace::NONE));
    for value in 4..8 {
        producer.put(&handle, value).unwrap();
        assert_eq!(pass(&mut consumer), [(1, value)]);
    }
    balanced(conflator.figures());
}

#[test]
fn a_rate_lets_a_burst_through_and_then_keeps_its_pace() {
    let clock = ManualClock::new();
    let conflator = Conflator::<u32, u32>::builder()
        .clock(clock.clone())
        .build();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let handle = conflator.handle(&1).unwrap();
    handle.set_pace(Pace::rate(4, Nanos::from_nanos(400)));
    let mut times = Vec::new();
    for now in 0..1000 {
        producer.put(&handle, now).unwrap();
        consumer.pass(|_, value| {
            assert_eq!(value, now);
            times.push(now);
        });
        clock.advance(Nanos::from_nanos(1));
    }
    // The clock's origin is a quiet past of no length: one at once, three in its burst.
    assert_eq!(times[..6], [0, 1, 2, 3, 100, 200]);
    assert_eq!(times.len(), 4 + 9);
}

#[test]
fn a_dropped_consumer_hands_on_what_its_pace_deferred_and_what_it_claimed() {
    let clock = ManualClock::new();
    let conflator = Conflator::<u32, u32>::builder()
        .clock(clock.clone())
        .build();
    let mut producer = conflator.producer();
    let mut first = conflator.consumer().unwrap();
    let paced = conflator.handle(&1000).unwrap();
    paced.set_pace(Pace::cooldown(Nanos::from_secs(1)));
    producer.put(&paced, 1).unwrap();
    assert_eq!(pass(&mut first), [(1000, 1)]);
    producer.put(&paced, 2).unwrap();
    assert_eq!(pass(&mut first), []);
    for key in 0..100 {
        producer.put_key(&key, key).unwrap();
    }
    let taken = *first.try_next().unwrap().key();
    drop(first);
    clock.advance(Nanos::from_secs(1));
    let mut seen = pass(&mut conflator.consumer().unwrap());
    seen.sort_unstable();
    let mut expected: Vec<_> = (0..100)
        .filter(|key| *key != taken)
        .map(|key| (key, key))
        .collect();
    expected.push((1000, 2));
    assert_eq!(seen, expected);
}

#[test]
fn the_higher_priority_goes_first() {
    let conflator = Conflator::<u32, u32>::builder().priorities(3).build();
    let mut producer = conflator.producer();
    let handles: Vec<_> = (0..30).map(|key| conflator.handle(&key).unwrap()).collect();
    for handle in &handles {
        handle.set_priority((handle.key() % 3) as usize);
        producer.put(handle, 0).unwrap();
    }
    let mut consumer = conflator.consumer().unwrap();
    let order: Vec<_> = pass(&mut consumer).iter().map(|(key, _)| key % 3).collect();
    let expected: Vec<_> = [2, 1, 0].into_iter().flat_map(|p| [p; 10]).collect();
    assert_eq!(order, expected);
    // One that was put under another priority is not lost.
    producer.put(&handles[0], 1).unwrap();
    handles[0].set_priority(2);
    producer.put(&handles[0], 2).unwrap();
    assert_eq!(pass(&mut consumer), [(0, 2)]);
    assert_eq!(pass(&mut consumer), []);
}

#[test]
fn in_a_pass_each_key_is_handled_once_whatever_is_put_meanwhile() {
    for marks in [Marks::Tree, Marks::Flat] {
        let conflator = Conflator::<u32, u32>::builder()
            .marks(marks)
            .keys(64)
            .build();
        let mut producer = conflator.producer();
        let mut consumer = conflator.consumer().unwrap();
        let handles: Vec<_> = (0..700)
            .map(|key| conflator.handle(&key).unwrap())
            .collect();
        for handle in &handles {
            producer.put(handle, 0).unwrap();
        }
        // Every handling puts its own key and another one again; a value is the number of handlings
        // before its put.
        let (mut handled, mut count) = ([0_u32; 700], 0);
        for round in 1..=1500 {
            let pass = consumer.pass(|key, put_at| {
                count += 1;
                assert!(count - put_at <= 700, "older than one handling of each key");
                let key = *key as usize;
                handled[key] += 1;
                producer.put(&handles[key], count).unwrap();
                producer.put(&handles[(key + 350) % 700], count).unwrap();
            });
            assert_eq!(pass.handled, 700, "{marks:?}");
            assert!(handled.iter().all(|count| *count == round), "{marks:?}");
        }
    }
}

#[test]
fn an_item_keeps_its_key_and_hands_on_what_came_meanwhile() {
    let conflator = Conflator::<u32, String>::new();
    let mut producer = conflator.producer();
    let [mut one, mut two] = [0, 0].map(|_| conflator.consumer().unwrap());
    producer.put_key(&1, "a".into()).unwrap();
    let mut item = one.try_next().unwrap();
    item.push('!');
    assert_eq!((item.key(), item.as_str()), (&1, "a!"));
    producer.put_key(&1, "b".into()).unwrap();
    assert!(two.try_next().is_none());
    assert_eq!(item.into_value(), "a!");
    assert_eq!(two.try_next().unwrap().into_value(), "b");
    balanced(conflator.figures());
}

#[test]
fn a_limit_of_consumers() {
    let conflator = Conflator::<u32, u32>::builder().consumers(1).build();
    let first = conflator.consumer().unwrap();
    assert_eq!(conflator.consumer().unwrap_err(), TooManyConsumers);
    drop(first);
    conflator.consumer().unwrap();
}

#[test]
fn after_a_close_puts_come_back_and_what_was_accepted_is_handled() {
    let conflator = Conflator::<u32, u32>::new();
    let mut producer = conflator.producer();
    let handle = conflator.handle(&1).unwrap();
    producer.put(&handle, 1).unwrap();
    assert!(conflator.close());
    assert!(!conflator.close() && conflator.is_closed());
    assert_eq!(producer.put(&handle, 2), Err(PutError::Closed(2)));
    assert_eq!(producer.put_key(&2, 3), Err(PutError::Closed(3)));
    assert!(!conflator.contains(&2));
    let mut consumer = conflator.consumer().unwrap();
    let mut seen = Vec::new();
    let run = consumer.run(Default::default(), |key, value| seen.push((*key, value)));
    assert_eq!((run.handled, seen), (1, vec![(1, 1)]));
    assert!(consumer.is_finished());
    balanced(conflator.figures());
}

#[test]
fn a_drain_hands_out_what_waits() {
    let conflator = Conflator::<u32, u32>::new();
    let mut producer = conflator.producer();
    for key in 0..100 {
        producer.put_key(&key, key).unwrap();
        producer.put_key(&key, key + 1).unwrap();
    }
    assert_eq!(conflator.pending(), 100);
    let mut seen = Vec::new();
    assert_eq!(conflator.drain(|key, value| seen.push((*key, value))), 100);
    seen.sort_unstable();
    assert!(seen.iter().copied().eq((0..100).map(|key| (key, key + 1))));
    assert_eq!(
        (conflator.pending(), conflator.figures().returned),
        (0, 100)
    );
    assert_eq!(conflator.drain(|_, _| unreachable!()), 0);
    balanced(conflator.figures());
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn everything_is_dropped_once() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let conflator = Conflator::<u32, Counted>::new();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    for round in 0..3 {
        for key in 0..100 {
            producer
                .put_key(&key, Counted(Arc::clone(&dropped)))
                .unwrap();
        }
        if round == 0 {
            consumer.pass(|_, _| {});
        }
    }
    assert_eq!(dropped.load(Relaxed), 200);
    drop((conflator, producer, consumer));
    assert_eq!(dropped.load(Relaxed), 300);
}

/// Panics when it is dropped for the first time.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0.fetch_add(1, Relaxed) == 0 {
            panic!("the first drop");
        }
    }
}

#[test]
fn a_value_whose_drop_panics_leaves_the_conflator_whole() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let conflator = Conflator::<u32, Bomb>::new();
    let mut producer = conflator.producer();
    producer.put_key(&1, Bomb(Arc::clone(&dropped))).unwrap();
    let second = Bomb(Arc::clone(&dropped));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        producer.put_key(&1, second)
    }));
    assert!(panicked.is_err());
    let mut count = 0;
    conflator.consumer().unwrap().pass(|_, _| count += 1);
    assert_eq!((count, dropped.load(Relaxed)), (1, 2));
    balanced(conflator.figures());
}

#[test]
fn figures_per_key() {
    let clock = ManualClock::at(rast_conflate::timers::Instant::from_nanos(5));
    let conflator = Conflator::<u32, u32>::builder()
        .clock(clock.clone())
        .key_figures()
        .build();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let handle = conflator.handle(&1).unwrap();
    producer.put(&handle, 1).unwrap();
    clock.advance(Nanos::from_nanos(100));
    producer.put(&handle, 2).unwrap();
    clock.advance(Nanos::from_nanos(50));
    let figures = conflator.key_figures(&1).unwrap();
    assert_eq!(
        (figures.submitted, figures.handled, figures.is_pending),
        (2, 0, true)
    );
    assert_eq!(figures.age, Some(Nanos::from_nanos(50)));
    assert_eq!(conflator.age(), figures.age);
    consumer.pass(|_, _| {});
    let figures = conflator.key_figures(&1).unwrap();
    assert_eq!(
        (figures.handled, figures.is_pending, figures.age),
        (1, false, None)
    );
    assert_eq!(figures.wait_max, Nanos::from_nanos(150));
    assert_eq!(figures.conflation(), Some(2.0));
    assert_eq!(conflator.figures().wait_max, Nanos::from_nanos(150));
    assert_eq!(conflator.age(), None);
    producer.put(&handle, 3).unwrap();
    consumer.pass(|_, _| {});
    let mut seen = Vec::new();
    conflator.for_each(|key, figures| seen.push((*key, figures)));
    assert_eq!((seen.len(), seen[0].0), (1, 1));
    assert_eq!(seen[0].1.wait_max, Nanos::from_nanos(150));
    assert_eq!(conflator.key_figures(&2), None);
}

#[test]
#[should_panic(expected = "the handle is of another conflator")]
fn a_foreign_handle_panics() {
    let [one, two] = [0, 0].map(|_| Conflator::<u32, u32>::new());
    let handle = one.handle(&1).unwrap();
    let _ = two.producer().put(&handle, 1);
}

#[test]
fn types_are_what_they_promise() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Conflator<u32, std::cell::Cell<u32>>>();
    sync::<Conflator<u32, std::cell::Cell<u32>>>();
    send::<rast_conflate::Producer<u32, std::cell::Cell<u32>>>();
    send::<rast_conflate::KeyHandle<u32, std::cell::Cell<u32>>>();
    send::<Consumer<u32, std::cell::Cell<u32>, Newest>>();
}
