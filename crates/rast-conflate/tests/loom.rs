//! Models of the cells, the marks, the table and the consumers, in every interleaving.
//!
//! In a model a table has two cells or four, a key's window one cell, and a word of marks two bits:
//! two keys fill a small table, and the marks of the larger one have two levels. Without the
//! private cfg the same scenarios run as a stress.

mod support;

use std::sync::{Arc as StdArc, Mutex};

use rast_conflate::cell::{Cell, MergedCell, NodeCell, PeakCell, SeqCell, SumCell, WordCell};
use rast_conflate::primitive::cell::UnsafeCell;
use rast_conflate::primitive::model::model;
use rast_conflate::primitive::sync::Arc;
use rast_conflate::primitive::sync::atomic::{AtomicUsize, Ordering};
use rast_conflate::primitive::{WaitStrategy, thread};
use rast_conflate::timers::{Clock, Instant, ManualClock, Nanos};
use rast_conflate::{Conflator, Merge, Mode, Newest, Pace, PutError, Removed, Sequenced};
use support::Hash;

/// A number that only the order of events keeps from racing; loom watches it.
struct Watched(UnsafeCell<u32>);

// SAFETY: the models order every access to the number; loom fails one that does not.
unsafe impl Sync for Watched {}
// SAFETY: a number may be sent.
unsafe impl Send for Watched {}

impl Watched {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn add(&self, value: u32) {
        self.0.with_mut(|number| {
            // SAFETY: ordered by the model, checked by loom.
            unsafe { *number += value }
        });
    }

    fn read(&self) -> u32 {
        self.0.with(|number| {
            // SAFETY: ordered by the model, checked by loom.
            unsafe { *number }
        })
    }
}

type Shared<V, M = Newest> = Conflator<u8, V, M, Hash>;

fn conflator<V: Send + 'static, M: Mode<V>>() -> Shared<V, M> {
    conflator_for(1)
}

/// One with twice as many cells as keys.
fn conflator_for<V: Send + 'static, M: Mode<V>>(keys: usize) -> Shared<V, M> {
    let builder = Conflator::<u8, V>::builder().mode::<M>().keys(keys);
    builder.hasher(Hash::default()).build()
}

/// One whose clock does not move.
fn paced() -> Shared<u32> {
    let builder = Conflator::<u8, u32>::builder().keys(1);
    let builder = builder.hasher(Hash::default());
    builder.clock(ManualClock::new()).build()
}

fn pass<V, M: Mode<V>>(of: &Shared<V, M>) -> Vec<(u8, V)>
where
    V: Send + 'static,
{
    let mut seen = Vec::new();
    let mut consumer = of.consumer().unwrap();
    consumer.pass(|key, value| seen.push((*key, value)));
    seen
}

fn balanced<V, M: Mode<V>>(of: &Shared<V, M>) {
    let f = of.figures();
    assert_eq!(
        f.submitted,
        f.handled + f.conflated + f.panicked + f.returned,
        "{f:?}"
    );
}

/// Two producers and a consumer exchange nodes: each value comes out once, whole, and none is read
/// while it is written.
#[test]
fn cell_node_gives_each_value_once() {
    model(|| {
        let cell = Arc::new(NodeCell::new());
        cell.open();
        let value = Arc::new(());
        let put = |value: Arc<()>| {
            let cell = Arc::clone(&cell);
            thread::spawn(move || {
                let mut spare = NodeCell::spare();
                let put = cell.put(&mut spare, value);
                put.replaced.is_some()
            })
        };
        let [one, two] = [0, 0].map(|_| put(Arc::clone(&value)));
        let mut spare = NodeCell::spare();
        let mut taken = usize::from(cell.take(&mut spare).is_some());
        let replaced = [one, two].map(|thread| usize::from(thread.join().unwrap()));
        taken += usize::from(cell.take(&mut spare).is_some());
        assert_eq!(taken + replaced[0] + replaced[1], 2);
        drop((cell, spare));
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

/// What a producer wrote before its put is seen by the one that takes the value.
fn publishes<C: Cell<u32> + 'static>(puts: u32) {
    let cell = Arc::new(C::new());
    cell.open();
    let watched = Watched::new();
    let (theirs, seen) = (Arc::clone(&cell), Arc::clone(&watched));
    let producer = thread::spawn(move || {
        let mut spare = C::spare();
        for value in 1..=puts {
            seen.add(1);
            theirs.put(&mut spare, value);
        }
    });
    let mut spare = C::spare();
    if cell.take(&mut spare).is_some() && puts == 1 {
        assert_eq!(watched.read(), 1);
    }
    producer.join().unwrap();
}

#[test]
fn cell_word_publishes() {
    model(|| publishes::<WordCell>(1));
}

#[test]
fn cell_peak_publishes() {
    model(|| publishes::<PeakCell<true>>(1));
}

#[test]
fn cell_sum_publishes() {
    model(|| {
        let cell = Arc::new(SumCell::default());
        let watched = Watched::new();
        let (theirs, seen) = (Arc::clone(&cell), Arc::clone(&watched));
        let producer = thread::spawn(move || {
            seen.add(1);
            Cell::<u64>::put(&*theirs, &mut (), 5);
        });
        if Cell::<u64>::take(&*cell, &mut ()).is_some() {
            assert_eq!(watched.read(), 1);
        }
        producer.join().unwrap();
    });
}

/// A take that overlaps a put gives no torn value, never an older one after a newer, and each value
/// once.
#[test]
fn cell_seq_is_not_torn() {
    model(|| {
        let cell = Arc::new(SeqCell::default());
        let theirs = Arc::clone(&cell);
        let take = |cell: &SeqCell| {
            let taken = Cell::<[u64; 2]>::take(cell, &mut ());
            taken.map_or((0, 0), |taken| {
                let [one, two] = taken.value;
                assert_eq!(one, two, "torn");
                (one, taken.conflated + 1)
            })
        };
        let taking = thread::spawn(move || take(&theirs));
        for value in 1..=2 {
            cell.put(&mut (), [value, value]);
        }
        let (first, counted) = taking.join().unwrap();
        let (second, rest) = take(&cell);
        assert_eq!((first.max(second), counted + rest), (2, 2));
        assert_ne!(first, second);
    });
}

/// A value under a sequence lock is taken by one of two threads.
#[test]
fn cell_seq_is_taken_once() {
    model(|| {
        let cell = Arc::new(SeqCell::default());
        let watched = Watched::new();
        let put = |value: u64| {
            watched.add(1);
            cell.put(&mut (), [value]);
        };
        put(7);
        let (theirs, seen) = (Arc::clone(&cell), Arc::clone(&watched));
        let other = thread::spawn(move || {
            let taken = Cell::<[u64; 1]>::take(&*theirs, &mut ());
            taken.is_some() && seen.read() == 1
        });
        let mine = Cell::<[u64; 1]>::take(&*cell, &mut ()).is_some();
        assert_ne!(mine, other.join().unwrap());
    });
}

/// Two threads take while values are put: none of them takes an older value after a newer one was
/// taken.
#[test]
fn cell_seq_two_takers() {
    model(|| {
        let cell = Arc::new(SeqCell::default());
        let take = |cell: &SeqCell| {
            let taken = Cell::<[u64; 1]>::take(cell, &mut ());
            taken.map_or(0, |taken| taken.conflated + 1)
        };
        let taking = [0, 1].map(|_| {
            let theirs = Arc::clone(&cell);
            thread::spawn(move || take(&theirs))
        });
        for value in 1..=2 {
            cell.put(&mut (), [value]);
        }
        let counted: u64 = taking.map(|thread| thread.join().unwrap()).iter().sum();
        assert_eq!(counted + take(&cell), 2);
    });
}

/// What the producer wrote before a put under the sequence lock is seen by the one that takes the
/// value.
#[test]
fn cell_seq_publishes() {
    model(|| {
        let cell = Arc::new(SeqCell::default());
        let watched = Watched::new();
        let (theirs, seen) = (Arc::clone(&cell), Arc::clone(&watched));
        let taking = thread::spawn(move || {
            if Cell::<[u64; 1]>::take(&*theirs, &mut ()).is_some() {
                assert_eq!(seen.read(), 1);
            }
        });
        watched.add(1);
        cell.put(&mut (), [1]);
        taking.join().unwrap();
    });
}

struct Names(Vec<u8>);

impl Merge for Names {
    fn merge(&mut self, newer: Self) {
        self.0.extend(newer.0);
    }
}

/// Two producers merge and a consumer takes: each part comes out once.
#[test]
fn cell_merged_loses_no_part() {
    model(|| {
        let cell = Arc::new(MergedCell::new());
        cell.open();
        let theirs = Arc::clone(&cell);
        let other = thread::spawn(move || {
            let mut spare = MergedCell::spare();
            theirs.put(&mut spare, Names(vec![1]));
        });
        let mut spare = MergedCell::spare();
        cell.put(&mut spare, Names(vec![2]));
        let mut parts = Vec::new();
        let mut take = |spare: &mut _| {
            if let Some(taken) = cell.take(spare) {
                parts.extend(taken.value.0);
            }
        };
        take(&mut spare);
        other.join().unwrap();
        take(&mut spare);
        parts.sort_unstable();
        assert_eq!(parts, [1, 2]);
    });
}

/// A put tests the marks while a consumer clears them: the newest value is handled, by the consumer
/// or a later pass.
#[test]
fn put_meets_a_pass() {
    model(|| {
        let of = conflator_for::<u32, Newest>(2);
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        producer.put(&handle, 1).unwrap();
        let putting = thread::spawn(move || producer.put(&handle, 2).unwrap());
        let first = pass(&of);
        putting.join().unwrap();
        let second = pass(&of);
        let last = first.iter().chain(&second).next_back();
        assert_eq!(last, Some(&(0, 2)), "{first:?} {second:?}");
        balanced(&of);
    });
}

/// The same with two keys under one upper mark, which one put finds set and a consumer clears.
#[test]
fn put_meets_a_pass_two_keys() {
    model(|| {
        let of = conflator_for::<u32, Newest>(2);
        let mut producer = of.producer();
        let handles = [0, 1].map(|key| of.handle(&key).unwrap());
        producer.put(&handles[0], 1).unwrap();
        let putting = thread::spawn(move || producer.put(&handles[1], 2).unwrap());
        let mut seen = pass(&of);
        putting.join().unwrap();
        seen.extend(pass(&of));
        seen.sort_unstable();
        assert_eq!(seen, [(0, 1), (1, 2)]);
    });
}

/// The same where the mark is left from a value that was taken without it, so that the consumer
/// looks and exchanges nothing: the fence between the put's exchange and its test of the mark is
/// all that orders the two.
#[test]
fn put_meets_a_mark_without_a_value() {
    model(|| {
        let of = conflator_for::<u32, Newest>(2);
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        producer.put(&handle, 1).unwrap();
        assert_eq!(producer.remove(&0).value, Some(1));
        of.handle(&0).unwrap();
        let mut consumer = of.consumer().unwrap();
        let passing = thread::spawn(move || {
            let pass = consumer.pass(|_, value| assert_eq!(value, 2));
            (pass.handled, consumer)
        });
        producer.put(&handle, 2).unwrap();
        let (handled, _) = passing.join().unwrap();
        assert_eq!(pass(&of).len() as u64, 1 - handled);
    });
}

/// Two producers of one key, one of which finds the marks of the other half set.
#[test]
fn two_producers_of_one_key() {
    model(|| {
        let of = conflator_for::<u32, Newest>(2);
        let handle = of.handle(&0).unwrap();
        let (mut mine, mut theirs) = (of.producer(), of.producer());
        let other = handle.clone();
        let putting = thread::spawn(move || theirs.put(&other, 1).unwrap());
        mine.put(&handle, 2).unwrap();
        let first = pass(&of);
        // This put has marked all that its value needs, wherever the other one is.
        assert_eq!(first.len(), 1);
        putting.join().unwrap();
        pass(&of);
        balanced(&of);
        assert_eq!(of.pending(), 0);
    });
}

/// The only handle of a key goes from one thread to another: the second owner's put follows the
/// first's.
#[test]
fn a_sequenced_key_changes_its_owner() {
    model(|| {
        let of = conflator::<[u64; 1], Sequenced>();
        let handle = of.handle(&0).unwrap();
        let (mut mine, mut theirs) = (of.producer(), of.producer());
        let other = thread::spawn(move || {
            theirs.put(&handle, [1]).unwrap();
            drop(handle);
        });
        let has_put = of.handle(&0).map(|handle| mine.put(&handle, [2]).unwrap());
        other.join().unwrap();
        let expected = if has_put.is_ok() { [2] } else { [1] };
        assert_eq!(pass(&of), [(0, expected)]);
        balanced(&of);
    });
}

/// Two consumers and a key that is put while it runs: its handler runs on one thread at a time, and
/// the last value runs.
#[test]
fn a_key_runs_on_one_consumer() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        let watched = Watched::new();
        let last = Arc::new(AtomicUsize::new(0));
        producer.put(&handle, 1).unwrap();
        let consume = |of: &Shared<u32>| {
            let (watched, last) = (Arc::clone(&watched), Arc::clone(&last));
            let mut consumer = of.consumer().unwrap();
            move || {
                consumer.pass(|_, value| {
                    watched.add(1);
                    let before = last.swap(value as usize, Ordering::Relaxed);
                    assert!(before < value as usize);
                });
            }
        };
        let (mut mine, theirs) = (consume(&of), consume(&of));
        let other = thread::spawn(theirs);
        producer.put(&handle, 2).unwrap();
        mine();
        other.join().unwrap();
        mine();
        assert_eq!(last.load(Ordering::Relaxed), 2);
        balanced(&of);
    });
}

/// Two threads insert key 0, one of them after `before`: it gets one cell.
fn inserted_once(of: &Shared<u32>, before: impl FnOnce()) {
    let theirs = of.clone();
    let other = thread::spawn(move || theirs.handle(&0).unwrap());
    before();
    let handle = of.handle(&0).unwrap();
    let other = other.join().unwrap();
    assert_eq!(of.len(), 1);
    let mut producer = of.producer();
    producer.put(&handle, 1).unwrap();
    producer.put(&other, 2).unwrap();
    assert_eq!(pass(of), [(0, 2)]);
}

/// Two threads insert one key: it gets one cell.
#[test]
fn a_key_is_inserted_once() {
    model(|| inserted_once(&conflator(), || ()));
}

/// Two threads insert one key while the cell before it becomes free: two cells are claimed, and one
/// stays.
#[test]
fn a_key_is_inserted_once_beside_a_removal() {
    model(|| {
        let of = conflator::<u32, Newest>();
        // Keys 0 and 2 fall together, so 0 goes to the second table as long as 2 is there.
        let mut producer = of.producer();
        producer.put_key(&2, 7).unwrap();
        inserted_once(&of, || assert!(producer.remove(&2).was_present));
    });
}

/// A table is added by two threads while a consumer goes round: no value is lost.
#[test]
fn growth_loses_nothing() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let mut mine = of.producer();
        mine.put_key(&0, 1).unwrap();
        let mut theirs = of.producer();
        // Each of these falls together with key 0 and needs another table.
        let other = thread::spawn(move || {
            theirs.put_key(&2, 2).unwrap();
            theirs
        });
        mine.put_key(&4, 3).unwrap();
        let mut seen = pass(&of);
        other.join().unwrap();
        seen.extend(pass(&of));
        seen.sort_unstable();
        assert_eq!(seen, [(0, 1), (2, 2), (4, 3)]);
    });
}

/// A put against the close: it is refused with a value, or its value is handed out by the drain or
/// a consumer.
#[test]
fn close_loses_nothing() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        let putting = thread::spawn(move || match producer.put(&handle, 1) {
            Ok(()) => 0,
            Err(PutError::Closed(value)) => value,
            Err(error) => panic!("{error}"),
        });
        of.close();
        let mut sum = 0;
        let mut consumer = of.consumer().unwrap();
        // Once this consumer is finished, no accepted value may come.
        while !consumer.is_finished() {
            consumer.pass(|_, value| sum += value);
        }
        sum += putting.join().unwrap();
        assert_eq!(sum, 1);
        assert_eq!(of.pending(), 0);
        balanced(&of);
    });
}

/// What was written before a close is seen by the one that finds it closed.
#[test]
fn a_close_is_seen() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let watched = Watched::new();
        let (theirs, seen) = (of.clone(), Arc::clone(&watched));
        let looking = thread::spawn(move || {
            if theirs.is_closed() {
                assert_eq!(seen.read(), 1);
            }
        });
        watched.add(1);
        of.close();
        looking.join().unwrap();
    });
}

/// A put against a close, where the consumer is told of the close by another thread.
#[test]
fn close_loses_nothing_to_a_third() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        let consumer = of.consumer().unwrap();
        let putting = thread::spawn(move || {
            let result = producer.put(&handle, 1);
            (result.is_ok(), producer, handle)
        });
        let looking = thread::spawn(move || (consumer.is_finished(), consumer));
        of.close();
        let (is_accepted, ..) = putting.join().unwrap();
        let (is_finished, _) = looking.join().unwrap();
        // Once a consumer is finished, nothing that was accepted waits.
        assert!(!is_finished || !is_accepted || of.pending() == 0);
    });
}

/// A deferral ends while another consumer meets the key: its value is not lost.
#[test]
fn a_deferral_ends_beside_a_pass() {
    model(|| {
        let of = paced();
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        handle.set_pace(Pace::cooldown(Nanos::from_secs(1)));
        let [mut first, mut second] = [0, 0].map(|_| of.consumer().unwrap());
        producer.put(&handle, 1).unwrap();
        assert_eq!(first.pass(|_, _| {}).handled, 1);
        producer.put(&handle, 2).unwrap();
        assert_eq!(first.pass(|_, _| {}).handled, 0);
        let other = thread::spawn(move || {
            producer.put(&handle, 3).unwrap();
            second.pass(|_, _| unreachable!());
            (second, handle)
        });
        drop(first);
        let (second, handle) = other.join().unwrap();
        drop(second);
        handle.set_pace(Pace::NONE);
        assert_eq!(pass(&of), [(0, 3)]);
    });
}

/// A consumer goes to sleep while a value is put, or the conflator closes: it wakes.
#[test]
fn sleep_is_ended_by_a_put() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        let mut consumer = of.consumer().unwrap();
        let putting = thread::spawn(move || producer.put(&handle, 1).unwrap());
        assert!(consumer.wait(WaitStrategy::Park));
        assert_eq!(consumer.pass(|_, value| assert_eq!(value, 1)).handled, 1);
        putting.join().unwrap();
    });
}

#[test]
fn sleep_is_ended_by_a_close() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let mut consumer = of.consumer().unwrap();
        let watched = Watched::new();
        let seen = Arc::clone(&watched);
        let waiting = thread::spawn(move || {
            assert!(!consumer.wait(WaitStrategy::Park));
            assert_eq!(seen.read(), 1);
            consumer
        });
        watched.add(1);
        of.close();
        waiting.join().unwrap();
    });
}

/// A waker is armed while a value is put: it is called, or the arming says that there is something.
#[test]
fn a_waker_is_called() {
    use std::sync::atomic::AtomicBool;
    use std::task::{Wake, Waker};

    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: StdArc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    model(|| {
        let of = conflator::<u32, Newest>();
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        let mut consumer = of.consumer().unwrap();
        let putting = thread::spawn(move || producer.put(&handle, 1).unwrap());
        let flag = StdArc::new(Flag(AtomicBool::new(false)));
        let is_armed = consumer.arm(&Waker::from(flag.clone()));
        putting.join().unwrap();
        // A put that comes while the waker is stored may call it although the value is seen.
        assert!(!is_armed || flag.0.load(Ordering::Relaxed));
        assert_eq!(consumer.pass(|_, _| {}).handled, 1);
    });
}

/// A consumer defers a key while its pace is taken away: the value is handled without a wait.
#[test]
fn a_pace_meets_a_deferral() {
    model(|| {
        let of = paced();
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        let mut consumer = of.consumer().unwrap();
        handle.set_pace(Pace::cooldown(Nanos::from_secs(1)));
        producer.put(&handle, 1).unwrap();
        assert_eq!(consumer.pass(|_, _| {}).handled, 1);
        producer.put(&handle, 2).unwrap();
        let setting = thread::spawn(move || {
            handle.set_pace(Pace::NONE);
            handle
        });
        let mut handled = consumer.pass(|_, _| {}).handled;
        let _handle = setting.join().unwrap();
        handled += consumer.pass(|_, value| assert_eq!(value, 2)).handled;
        assert_eq!(handled, 1);
    });
}

/// A put by key is under way while its key is removed and another key looks for a cell: the cell
/// goes to the other key without the value.
#[test]
fn a_put_meets_a_removal_and_an_insertion() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let mut producer = of.producer();
        of.handle(&0).unwrap();
        let putting = thread::spawn(move || producer.put_key(&0, 1).unwrap());
        let mut mine = of.producer();
        let removed = mine.remove(&0);
        // Falls together with key 0.
        mine.put_key(&2, 9).unwrap();
        putting.join().unwrap();
        let mut seen = pass(&of);
        seen.extend(removed.value.map(|value| (0, value)));
        seen.sort_unstable();
        assert_eq!(seen, [(0, 1), (2, 9)]);
        balanced(&of);
    });
}

/// A clock that runs a function at its next reading.
#[derive(Clone, Default)]
struct Hook(StdArc<Mutex<Option<Call>>>);

type Call = Box<dyn FnOnce() + Send>;

impl Clock for Hook {
    fn now(&self) -> Instant {
        let call = self.0.lock().unwrap().take();
        if let Some(call) = call {
            call();
        }
        Instant::from_nanos(1)
    }
}

/// A value waits in the cell of a removed key; the key comes back while another key looks for a
/// cell. It stays in one cell, and the newer value follows the older one.
#[test]
fn a_removed_key_with_a_value_comes_back_once() {
    model(|| {
        let clock = Hook::default();
        let builder = Conflator::<u8, u32>::builder().keys(1).key_figures();
        let of = builder.clock(clock.clone()).hasher(Hash::default()).build();
        let (mut mine, mut theirs) = (of.producer(), of.producer());
        of.handle(&0).unwrap();
        let mut remover = of.producer();
        let removal = move || assert!(remover.remove(&0).was_present);
        *clock.0.lock().unwrap() = Some(Box::new(removal));
        mine.put_key(&0, 1).unwrap();
        let other = thread::spawn(move || theirs.put_key(&2, 9).unwrap());
        mine.put_key(&0, 2).unwrap();
        other.join().unwrap();
        let mut keys = Vec::new();
        of.for_each(|key, _| keys.push(*key));
        keys.sort_unstable();
        assert_eq!(keys, [0, 2]);
        let mut seen = pass(&of);
        seen.sort_unstable();
        assert_eq!(seen, [(0, 2), (2, 9)]);
    });
}

/// A value waits in the cell of a removed key; a consumer runs it while another key looks for a
/// cell: the handler has read the old key before the new one is written.
#[test]
fn a_run_of_a_removed_key_meets_an_insertion() {
    model(|| {
        let clock = Hook::default();
        let builder = Conflator::<u8, u32>::builder().keys(1).key_figures();
        let builder = builder.removed(Removed::Refuse);
        let of = builder.clock(clock.clone()).hasher(Hash::default()).build();
        let mut mine = of.producer();
        of.handle(&0).unwrap();
        let mut remover = of.producer();
        let removal = move || assert!(remover.remove(&0).was_present);
        *clock.0.lock().unwrap() = Some(Box::new(removal));
        mine.put_key(&0, 1).unwrap();
        let other = thread::spawn(move || mine.put_key(&2, 9).unwrap());
        let mut seen = pass(&of);
        other.join().unwrap();
        seen.extend(pass(&of));
        seen.sort_unstable();
        assert_eq!(seen, [(0, 1), (2, 9)]);
    });
}

/// A removal against a put by handle: the value is handed back, or handled.
#[test]
fn a_removal_meets_a_put() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let mut producer = of.producer();
        let handle = of.handle(&0).unwrap();
        let putting = thread::spawn(move || {
            producer.put(&handle, 1).unwrap();
        });
        let removed = of.producer().remove(&0);
        putting.join().unwrap();
        let seen = pass(&of);
        assert_eq!(removed.value.is_some(), seen.is_empty());
        balanced(&of);
    });
}

/// A key is removed and its cell given to another while a producer looks for it: what it compares
/// is whole.
#[test]
fn a_search_meets_a_removal() {
    model(|| {
        let of = Conflator::<Box<u8>, u32>::builder()
            .keys(1)
            .hasher(Hash::default())
            .build();
        of.handle(&Box::new(0)).unwrap();
        let theirs = of.clone();
        let other = thread::spawn(move || theirs.contains(&Box::new(0)));
        let mut producer = of.producer();
        assert!(producer.remove(&Box::new(0)).was_present);
        producer.put_key(&Box::new(2), 1).unwrap();
        other.join().unwrap();
        assert_eq!(of.len(), 1);
    });
}

/// A consumer is dropped in the middle of its lap while another one looks: what it had claimed is
/// handled.
#[test]
fn a_dropped_consumer_hands_on() {
    model(|| {
        let of = conflator::<u32, Newest>();
        let mut producer = of.producer();
        for key in [0, 1] {
            producer.put_key(&key, 1).unwrap();
        }
        let mut leaving = of.consumer().unwrap();
        let other = thread::spawn(move || leaving.try_next().is_some());
        let mut count = pass(&of).len();
        count += usize::from(other.join().unwrap());
        count += pass(&of).len();
        assert_eq!(count, 2);
    });
}
