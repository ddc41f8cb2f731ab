//! User code that panics, calls back or changes its mind at the worst moment: keys, clocks, wakers,
//! values, paces.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use rast_conflate::timers::{Clock, Instant, ManualClock, Nanos};
use rast_conflate::{
    Conflator, Consumer, Growth, HandleError, InPlace, Merge, Merged, Mode, Newest, Pace, PutError,
    Sequenced, Word,
};

/// Everything that a pass hands out, by key.
fn pass<K: Clone + Ord, V, M: Mode<V>, S>(consumer: &mut Consumer<K, V, M, S>) -> Vec<(K, V)> {
    let mut seen = Vec::new();
    consumer.pass(|key, value| seen.push((key.clone(), value)));
    seen.sort_by(|one, two| one.0.cmp(&two.0));
    seen
}

fn balanced<K, V, M: Mode<V>, S>(of: &Conflator<K, V, M, S>)
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + 'static,
{
    let f = of.figures();
    let sum = f.handled + f.conflated + f.panicked + f.returned;
    assert_eq!(f.submitted, sum, "{f:?}");
}

fn panics<T>(call: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

thread_local! {
    /// What the next use of a [`Key`] does.
    static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Clone,
    Drop,
    /// The comparison after so many more.
    Eq(u32),
}

/// A key that panics when it is told to; every key has the same hash.
struct Key(u32);

fn due(fault: Fault) {
    if FAULT.get() == fault {
        FAULT.set(Fault::None);
        panic!("told to");
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(0);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        due(Fault::Eq(0));
        if let Fault::Eq(left) = FAULT.get() {
            FAULT.set(Fault::Eq(left - 1));
        }
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Clone for Key {
    fn clone(&self) -> Self {
        due(Fault::Clone);
        Self(self.0)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        due(Fault::Drop);
    }
}

/// Runs `call` with a fault that has to happen in it.
fn with_fault<T>(fault: Fault, call: impl FnOnce() -> T) {
    FAULT.set(fault);
    assert!(panics(call), "the fault was not met");
    assert!(FAULT.get() == Fault::None);
}

fn small() -> Conflator<Key, u32> {
    let builder = Conflator::builder().keys(2);
    builder.growth(Growth::Refuse).build()
}

#[test]
fn a_key_whose_clone_panics_takes_no_room() {
    let conflator = small();
    let mut producer = conflator.producer();
    for _ in 0..3 {
        let key = Key(1);
        with_fault(Fault::Clone, || producer.put_key(&key, 1));
    }
    assert_eq!(conflator.len(), 0);
    for key in 0..2 {
        producer.put_key(&Key(key), key).unwrap();
    }
    assert_eq!(producer.put_key(&Key(2), 2), Err(PutError::Full(2)));
    assert_eq!(conflator.drain(|_, _| {}), 2);
    balanced(&conflator);
}

#[test]
fn a_key_whose_comparison_panics_takes_no_room() {
    for after in 0..4 {
        let conflator = Conflator::<Key, u32>::builder()
            .keys(2)
            .growth(Growth::Refuse)
            .build();
        let mut producer = conflator.producer();
        producer.put_key(&Key(0), 0).unwrap();
        let key = Key(1);
        FAULT.set(Fault::Eq(after));
        let panicked = panics(|| producer.put_key(&key, 1));
        FAULT.set(Fault::None);
        let mut keys = 0;
        conflator.for_each(|_, _| keys += 1);
        assert_eq!(conflator.len(), keys, "comparison {after}");
        assert!(!panicked || keys == 1, "comparison {after}");
        producer.put_key(&key, 2).unwrap();
        assert_eq!(conflator.len(), 2, "comparison {after}");
        assert_eq!(conflator.consumer().unwrap().pass(|_, _| {}).handled, 2);
        balanced(&conflator);
    }
}

#[test]
fn a_removed_key_whose_drop_panics_takes_no_room() {
    let conflator = small();
    let mut producer = conflator.producer();
    let first = Key(0);
    let handle = conflator.handle(&first).unwrap();
    assert!(producer.remove(&first).was_present);
    with_fault(Fault::Drop, || drop(handle));
    producer.put_key(&Key(1), 1).unwrap();
    assert_eq!(conflator.len(), 1);
    with_fault(Fault::Drop, || {
        let mut consumer = conflator.consumer().unwrap();
        // The key leaves while it runs, so the end of its run drops it.
        let mut other = conflator.producer();
        let one = std::mem::ManuallyDrop::new(Key(1));
        consumer.pass(|_, _| assert!(other.remove(&one).was_present));
    });
    assert_eq!(conflator.len(), 0);
    balanced(&conflator);
    for key in 2..4 {
        producer.put_key(&Key(key), key).unwrap();
    }
    assert_eq!(conflator.consumer().unwrap().pass(|_, _| {}).handled, 2);
    balanced(&conflator);
}

#[test]
fn all_that_a_conflator_has_is_dropped_although_every_drop_panics() {
    const KEYS: usize = 200;
    static DROPS: AtomicUsize = AtomicUsize::new(0);

    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Loud(usize);
    impl Drop for Loud {
        fn drop(&mut self) {
            // Those of the test have higher numbers.
            if self.0 < KEYS {
                DROPS.fetch_add(1, Relaxed);
                panic!("the drop of {}", self.0);
            }
        }
    }
    let conflator = Conflator::<Loud, Loud>::builder().keys(2).build();
    let mut producer = conflator.producer();
    for number in 0..KEYS {
        let key = std::mem::ManuallyDrop::new(Loud(number));
        let handle = conflator.handle(&key).unwrap();
        producer.put(&handle, Loud(number)).unwrap();
        let captured = Loud(number);
        handle.set_handler(Some(Box::new(move |_, _| {
            let _whole = &captured;
        })));
    }
    drop(producer);
    assert!(panics(|| drop(conflator)));
    assert_eq!(DROPS.load(Relaxed), 3 * KEYS);
}

/// A clock that runs a function at its next reading.
#[derive(Clone, Default)]
struct Hook(Arc<Mutex<Option<Call>>>);

type Call = Box<dyn FnOnce() + Send>;

impl Hook {
    fn set(&self, call: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(call));
    }
}

impl Clock for Hook {
    fn now(&self) -> Instant {
        let call = self.0.lock().unwrap().take();
        if let Some(call) = call {
            call();
        }
        Instant::from_nanos(1000)
    }
}

#[test]
fn a_clock_that_panics_wedges_no_key() {
    let (clock, conflator) = paced::<Hook>(Nanos::from_nanos(1));
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    producer.put_key(&1, 1).unwrap();
    clock.set(|| panic!("no time"));
    assert!(panics(|| consumer.pass(|_, _| unreachable!())));
    assert_eq!(pass(&mut consumer), [(1, 1)]);
    balanced(&conflator);
}

/// A word that panics when it is decoded.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sour(u32);

impl Word for Sour {
    fn encode(self) -> NonZeroU64 {
        self.0.encode()
    }
    fn decode(word: NonZeroU64) -> Self {
        let value = u32::decode(word);
        assert!(value != 13, "no 13");
        Self(value)
    }
}

#[test]
fn a_value_that_cannot_be_decoded_is_counted_and_wedges_no_key() {
    let conflator = Conflator::<u32, Sour>::builder().mode::<InPlace>().build();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let handle = conflator.handle(&1).unwrap();
    producer.put(&handle, Sour(13)).unwrap();
    assert!(panics(|| consumer.pass(|_, _| unreachable!())));
    assert_eq!(conflator.figures().panicked, 1);
    producer.put(&handle, Sour(14)).unwrap();
    assert_eq!(pass(&mut consumer), [(1, Sour(14))]);
    balanced(&conflator);
}

/// A put is accepted while its key is removed, so a value waits in a cell without a pin; then the
/// key comes back while another key looks for a cell.
#[test]
fn a_value_in_a_removed_key_stays_its_keys() {
    let clock = Hook::default();
    let conflator = Conflator::<u32, u32>::builder()
        .clock(clock.clone())
        .key_figures()
        .build();
    let mut producer = conflator.producer();
    let mut remover = conflator.producer();
    producer.put_key(&1, 1).unwrap();
    clock.set(move || assert_eq!(remover.remove(&1).value, Some(1)));
    producer.put_key(&1, 2).unwrap();
    assert!(!conflator.contains(&1));
    assert_eq!(conflator.pending(), 1);
    for key in 2..2000 {
        producer.put_key(&key, key).unwrap();
    }
    producer.put_key(&1, 3).unwrap();
    let mut consumer = conflator.consumer().unwrap();
    let seen = pass(&mut consumer);
    assert_eq!((seen.len(), seen[0]), (1999, (1, 3)));
    balanced(&conflator);
}

/// A waker that owns what the test gives it.
struct Owner(#[allow(dead_code)] Mutex<Option<Box<dyn Send>>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_owns_a_consumer_can_be_replaced() {
    let conflator = Conflator::<u32, u32>::new();
    let mut consumer = conflator.consumer().unwrap();
    let other = conflator.consumer().unwrap();
    let owner = Owner(Mutex::new(Some(Box::new(other))));
    assert!(consumer.arm(&Waker::from(Arc::new(owner))));
    // The first waker goes, and with it the other consumer, which looks for its own waker.
    assert!(consumer.arm(Waker::noop()));
    conflator.producer().put_key(&1, 1).unwrap();
    assert_eq!(pass(&mut consumer), [(1, 1)]);
}

thread_local! {
    /// How many payloads of this thread's panics were dropped that panic no more.
    static LAST_DROPS: Cell<u32> = const { Cell::new(0) };
}

/// Panics when it is woken, with a payload that panics when it is dropped.
struct Spiteful;

struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic_any(LastPayload);
    }
}

/// A payload whose drop is counted.
struct LastPayload;

impl Drop for LastPayload {
    fn drop(&mut self) {
        LAST_DROPS.set(LAST_DROPS.get() + 1);
    }
}

impl Wake for Spiteful {
    fn wake(self: Arc<Self>) {
        panic_any(Payload);
    }
}

#[test]
fn a_waker_that_panics_harms_no_put() {
    let conflator = Conflator::<u32, u32>::new();
    let mut consumer = conflator.consumer().unwrap();
    let mut producer = conflator.producer();
    assert!(consumer.arm(&Waker::from(Arc::new(Spiteful))));
    producer.put_key(&1, 1).unwrap();
    assert_eq!(pass(&mut consumer), [(1, 1)]);
    assert!(consumer.arm(&Waker::from(Arc::new(Spiteful))));
    assert!(conflator.close());
    assert_eq!(LAST_DROPS.get(), 2, "a payload that can be dropped leaks");
}

/// Panics when it is dropped, with a payload that panics when it is dropped.
struct LoudWaker;

impl Wake for LoudWaker {
    fn wake(self: Arc<Self>) {}
}

impl Drop for LoudWaker {
    fn drop(&mut self) {
        LOUD_DROPS.set(LOUD_DROPS.get() + 1);
        panic_any(Payload);
    }
}

thread_local! {
    /// How many wakers of this thread were dropped that panic in their drops.
    static LOUD_DROPS: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn wakers_whose_drops_panic_harm_no_consumer() {
    let loud = || Waker::from(Arc::new(LoudWaker));
    let conflator = Conflator::<u32, u32>::new();
    let mut consumers = [0; 4].map(|_| conflator.consumer().unwrap());
    for consumer in &mut consumers {
        assert!(consumer.arm(&loud()));
        // The first waker is replaced.
        assert!(consumer.arm(&loud()));
    }
    assert_eq!(LOUD_DROPS.get(), 4);
    // The waker that was armed first is called.
    conflator.producer().put_key(&1, 1).unwrap();
    assert_eq!(LOUD_DROPS.get(), 5);
    // It is replaced by a waker that is not armed, because a value is pending.
    assert!(!consumers[1].arm(Waker::noop()));
    assert_eq!(LOUD_DROPS.get(), 6);
    assert_eq!(pass(&mut consumers[1]), [(1, 1)]);
    // Two consumers still have wakers.
    assert!(!panics(|| drop(consumers)));
    assert_eq!(LOUD_DROPS.get(), 8);
    balanced(&conflator);
}

fn paced<C>(every: Nanos) -> (C, Conflator<u32, u32>)
where
    C: Clock + Clone + Default + Send + Sync + 'static,
{
    let clock = C::default();
    let builder = Conflator::builder().clock(clock.clone());
    (clock, builder.pace(Pace::cooldown(every)).build())
}

#[test]
fn a_shorter_pace_ends_a_deferral() {
    let (clock, conflator) = paced::<ManualClock>(Nanos::from_secs(3600));
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let handle = conflator.handle(&1).unwrap();
    for value in [1, 2] {
        producer.put(&handle, value).unwrap();
        consumer.pass(|_, seen| assert_eq!(seen, 1));
    }
    handle.set_pace(Pace::NONE);
    assert_eq!(pass(&mut consumer), [(1, 2)]);
    clock.advance(Nanos::from_secs(3599));
    handle.set_pace(Pace::cooldown(Nanos::from_secs(1)));
    producer.put(&handle, 3).unwrap();
    assert_eq!(pass(&mut consumer), []);
    clock.advance(Nanos::from_secs(1));
    handle.set_pace(Pace::cooldown(Nanos::from_secs(7200)));
    assert_eq!(pass(&mut consumer), [(1, 3)]);
    producer.put(&handle, 4).unwrap();
    assert_eq!(pass(&mut consumer), []);
    // A millisecond from here, and not the two hours that the longer pace had laid ahead.
    handle.set_pace(Pace::cooldown(Nanos::from_millis(1)));
    assert_eq!(pass(&mut consumer), []);
    clock.advance(Nanos::from_millis(1));
    assert_eq!(pass(&mut consumer), [(1, 4)]);
    balanced(&conflator);
}

/// A clock that can be set back.
#[derive(Clone, Default)]
struct Settable(Arc<std::sync::atomic::AtomicU64>);

impl Clock for Settable {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Relaxed))
    }
}

#[test]
fn a_clock_that_steps_back_holds_a_key_for_one_pace_at_most() {
    let (clock, conflator) = paced::<Settable>(Nanos::from_nanos(100));
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    clock.0.store(1 << 50, Relaxed);
    producer.put_key(&1, 1).unwrap();
    assert_eq!(pass(&mut consumer), [(1, 1)]);
    clock.0.store(5, Relaxed);
    producer.put_key(&1, 2).unwrap();
    assert_eq!(pass(&mut consumer), []);
    clock.0.store(105, Relaxed);
    assert_eq!(pass(&mut consumer), [(1, 2)]);
}

/// A consumer that handled the value 1 of a key and has deferred its value 2 by an hour.
fn deferring() -> (Conflator<u32, u32>, Consumer<u32, u32>) {
    let (_, conflator) = paced::<ManualClock>(Nanos::from_secs(3600));
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    for value in [1, 2] {
        producer.put_key(&1, value).unwrap();
        consumer.pass(|_, seen| assert_eq!(seen, 1));
    }
    (conflator, consumer)
}

#[test]
fn a_close_ends_paces() {
    let (conflator, mut consumer) = deferring();
    conflator.close();
    let mut last = 0;
    let run = consumer.run(Default::default(), |_, value| last = value);
    assert_eq!((run.handled, last), (1, 2));
    balanced(&conflator);
}

#[test]
fn a_drain_leaves_no_deferral_to_wait_for() {
    let (conflator, mut consumer) = deferring();
    assert_eq!(conflator.drain(|_, value| assert_eq!(value, 2)), 1);
    assert_eq!(
        consumer
            .run(Default::default(), |_, _| unreachable!())
            .handled,
        0
    );
    balanced(&conflator);
}

#[test]
fn a_rate_of_many_per_span_is_a_limit() {
    assert_eq!(
        Pace::rate(1000, Nanos::from_nanos(10)).every(),
        Nanos::from_nanos(1)
    );
    assert_eq!(
        Pace::rate(3, Nanos::from_nanos(10)).every(),
        Nanos::from_nanos(4)
    );
}

#[test]
fn a_refused_handle_brings_no_key_back() {
    let conflator = Conflator::<u32, [u64; 1]>::builder()
        .mode::<Sequenced>()
        .build();
    let handle = conflator.handle(&1).unwrap();
    assert!(conflator.producer().remove(&1).was_present);
    assert_eq!(conflator.handle(&1).unwrap_err(), HandleError::Owned);
    assert!(conflator.is_empty() && !handle.is_live());
}

/// A value whose drop puts another value under the same key.
struct Echo(Conflator<u32, Echo>, Option<u32>, Arc<AtomicBool>);

impl Drop for Echo {
    fn drop(&mut self) {
        if let Some(left) = self.1.and_then(|left| left.checked_sub(1)) {
            let echo = Self(self.0.clone(), Some(left), Arc::clone(&self.2));
            let refused = self.0.producer().put_key(&1, echo).is_err();
            self.2.fetch_or(refused, Relaxed);
        }
    }
}

#[test]
fn a_value_whose_drop_puts_again() {
    let conflator = Conflator::<u32, Echo>::new();
    let refused = Arc::new(AtomicBool::new(false));
    let mut producer = conflator.producer();
    let echo = |left| Echo(conflator.clone(), left, Arc::clone(&refused));
    producer.put_key(&1, echo(Some(10))).unwrap();
    producer.put_key(&1, echo(Some(3))).unwrap();
    let mut consumer = conflator.consumer().unwrap();
    while !consumer.pass(|_, value| drop(value)).is_empty() {}
    assert!(!refused.load(Relaxed));
    assert_eq!(conflator.pending(), 0);
    balanced(&conflator);
    // A close ends the echo: the drop is refused, and its refusal drops the next one.
    producer.put_key(&1, echo(Some(5))).unwrap();
    assert_eq!(conflator.drain(|_, value| drop(value)), 1);
    assert!(refused.load(Relaxed));
    balanced(&conflator);
}

/// A handler that removes its key, drops its handle, closes, drains, and takes from a second
/// consumer.
#[test]
fn a_handler_that_does_everything() {
    let conflator = Conflator::<u32, u32, Newest>::new();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    let mut handles: Vec<_> = (0..100)
        .map(|key| conflator.handle(&key).unwrap())
        .collect();
    for handle in &handles {
        producer.put(handle, 0).unwrap();
    }
    let mut inner = conflator.consumer().unwrap();
    let (mut nested, mut drained) = (0, 0);
    let outer = consumer.pass(|key, _| {
        assert!(producer.remove(key).was_present);
        handles.pop();
        nested += u64::from(inner.try_next().is_some());
        producer.put_key(key, 1).unwrap();
        assert!(conflator.contains(key));
        if nested == 20 {
            drained = conflator.drain(|_, value| assert!(value < 2));
        }
        if conflator.is_closed() {
            assert_eq!(producer.put_key(key, 2), Err(PutError::Closed(2)));
        }
    });
    assert!(outer.handled >= 20 && drained > 0);
    assert_eq!(conflator.pending(), 0);
    balanced(&conflator);
}

/// A value whose destructor panics, even if another panic unwinds: then the process aborts.
struct Loud(#[expect(dead_code, reason = "the size of the value")] u32);

thread_local! {
    static VALUE_DROPS: Cell<u32> = const { Cell::new(0) };
}

impl Drop for Loud {
    fn drop(&mut self) {
        VALUE_DROPS.set(VALUE_DROPS.get() + 1);
        panic!("a value is dropped");
    }
}

#[test]
fn a_removed_key_and_its_value_may_both_panic() {
    let conflator = Conflator::<Key, Loud>::new();
    let mut producer = conflator.producer();
    let key = Key(0);
    producer.put_key(&key, Loud(0)).unwrap();
    with_fault(Fault::Drop, || producer.remove(&key));
    assert_eq!((conflator.len(), VALUE_DROPS.get()), (0, 1));
    // The key is removed while its value is an item.
    let mut consumer = conflator.consumer().unwrap();
    for is_moved_out in [false, true] {
        producer.put_key(&key, Loud(1)).unwrap();
        let item = consumer.try_next().unwrap();
        assert!(producer.remove(&key).was_present);
        with_fault(Fault::Drop, || {
            if is_moved_out {
                std::mem::forget(item.into_value());
            }
        });
    }
    assert_eq!((conflator.len(), VALUE_DROPS.get()), (0, 3));
    balanced(&conflator);
}

#[test]
fn the_last_handle_of_a_removed_key_may_be_the_last_of_the_conflator() {
    let conflator = Conflator::<Key, Loud>::new();
    let mut producer = conflator.producer();
    let removed = Key(0);
    producer.put_key(&Key(1), Loud(1)).unwrap();
    let handle = conflator.handle(&removed).unwrap();
    assert!(producer.remove(&removed).was_present);
    drop((producer, conflator));
    with_fault(Fault::Drop, || drop(handle));
    assert_eq!(VALUE_DROPS.get(), 1);
}

#[cfg(feature = "async")]
#[test]
fn an_item_may_be_the_last_of_the_conflator() {
    for is_removed in [false, true] {
        let drops = VALUE_DROPS.get();
        let conflator = Conflator::<Key, Loud>::new();
        let mut producer = conflator.producer();
        let key = Key(0);
        producer.put_key(&key, Loud(0)).unwrap();
        let mut stream = conflator.consumer().unwrap().into_stream();
        let mut cx = std::task::Context::from_waker(Waker::noop());
        let polled = futures_core::Stream::poll_next(std::pin::Pin::new(&mut stream), &mut cx);
        let std::task::Poll::Ready(Some(item)) = polled else {
            panic!("a value is pending");
        };
        producer.put_key(&Key(1), Loud(1)).unwrap();
        if is_removed {
            assert!(producer.remove(&key).was_present);
        }
        drop((stream, producer, conflator));
        with_fault(Fault::Drop, || drop(item));
        assert_eq!(VALUE_DROPS.get() - drops, 2, "{is_removed}");
    }
}

/// Closes a conflator when it is called.
struct Closes<V: Send + 'static>(Conflator<u32, V>);

impl<V: Send + 'static> Wake for Closes<V> {
    fn wake(self: Arc<Self>) {
        self.0.close();
    }
}

#[test]
fn a_put_that_meets_a_close_may_have_two_values_that_panic() {
    let builder = Conflator::<u32, Loud>::builder().clock(ManualClock::new());
    let conflator = builder.pace(Pace::cooldown(Nanos::from_secs(1))).build();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().unwrap();
    for value in [1, 2] {
        producer.put_key(&7, Loud(value)).unwrap();
        consumer.pass(|_, value| std::mem::forget(value));
    }
    // The value 2 is delayed, so the waker is armed; the put of the value 3 calls it.
    let closes = Closes(conflator.clone());
    assert!(consumer.arm(&Waker::from(Arc::new(closes))));
    assert!(panics(|| producer.put_key(&7, Loud(3))));
    assert!(conflator.is_closed());
    assert_eq!((conflator.pending(), VALUE_DROPS.get()), (0, 2));
    balanced(&conflator);
}

/// A value that panics when another one is merged into it, and when it is dropped.
struct Stubborn(Option<Conflator<u32, Stubborn, Merged>>, Loud);

impl Merge for Stubborn {
    fn merge(&mut self, newer: Self) {
        std::mem::forget(newer.1);
        if let Some(conflator) = self.0.take() {
            conflator.close();
        }
        panic!("it does not merge");
    }
}

#[test]
fn a_merge_may_close_and_panic_and_its_value_too() {
    let builder = Conflator::<u32, Stubborn>::builder();
    let conflator = builder.mode::<Merged>().build();
    let mut producer = conflator.producer();
    let older = Stubborn(Some(conflator.clone()), Loud(1));
    producer.put_key(&7, older).unwrap();
    assert!(panics(|| producer.put_key(&7, Stubborn(None, Loud(2)))));
    assert_eq!((conflator.pending(), VALUE_DROPS.get()), (0, 1));
    balanced(&conflator);
}
