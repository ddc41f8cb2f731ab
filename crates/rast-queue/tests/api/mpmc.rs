//! Counted ends of a `Queue`.

#[cfg(feature = "std")]
use rast_queue::primitive::WaitStrategy;
use rast_queue::{Closed, Queue, TryPushError, mpmc};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn the_last_producer_closes() {
    let (producer, consumer) = Queue::new().split();
    let other = producer.clone();
    producer.push(1).unwrap();
    drop(producer);
    assert!(!consumer.is_closed());
    other.push_batch([2, 3]).unwrap();
    other.push_slice(&[4]).unwrap();
    drop(other);
    assert!(consumer.is_closed() && !consumer.is_finished());
    assert_eq!(consumer.len(), 4);
    let mut items = Vec::new();
    assert_eq!(consumer.pop_into(&mut items, 2), 2);
    consumer.pop_batch(1, |item| items.push(item));
    items.extend(consumer.pop());
    assert_eq!(items, [1, 2, 3, 4]);
    assert!(consumer.is_finished() && consumer.is_empty());
    assert_eq!(consumer.pop(), None);
}

#[cfg(feature = "std")]
#[test]
fn a_producer_that_panics_ends_its_consumers() {
    let (producer, consumer) = Queue::new().split();
    let worker = std::thread::spawn(move || {
        producer.push(1).unwrap();
        panic!("a producer that panics");
    });
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let consumer = consumer.clone();
            std::thread::spawn(move || {
                let mut popped = 0;
                while consumer.pop_wait(WaitStrategy::Park).is_some() {
                    popped += 1;
                }
                popped
            })
        })
        .collect();
    assert!(worker.join().is_err());
    let popped: u32 = waiting
        .into_iter()
        .map(|waiter| waiter.join().unwrap())
        .sum();
    assert_eq!(popped, 1);
}

#[test]
fn the_last_consumer_closes_and_drops_what_is_queued() {
    let item = Arc::new(());
    let (producer, consumer) = Queue::new().split();
    for _ in 0..3000 {
        producer.push(Arc::clone(&item)).unwrap();
    }
    let other = consumer.clone();
    drop(consumer);
    assert!(!producer.is_closed());
    drop(other);
    assert_eq!(Arc::strong_count(&item), 1);
    let Err(Closed(back)) = producer.push(Arc::clone(&item)) else {
        panic!("there is no consumer");
    };
    assert!(matches!(
        producer.try_push(back),
        Err(TryPushError::Closed(_))
    ));
    let late = producer.consumer();
    assert!(late.is_finished() && late.pop().is_none());
}

#[test]
fn an_end_makes_ends_of_the_other_side() {
    let (producer, consumer) = Queue::new().split();
    let second = consumer.producer();
    drop(producer);
    second.push(1).unwrap();
    let reader = second.consumer();
    drop(consumer);
    assert_eq!(reader.pop(), Some(1));
    assert!(reader.close());
    assert!(!second.close());
    assert_eq!(second.push(2), Err(Closed(2)));
}

#[test]
fn an_item_whose_drop_panics_does_not_keep_the_queue_open() {
    struct Hostile;
    impl Drop for Hostile {
        fn drop(&mut self) {
            panic!("a drop that panics");
        }
    }
    let (producer, consumer) = Queue::new().split();
    producer.push(Hostile).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(consumer))).is_err());
    assert!(producer.is_closed() && producer.is_empty());
}

#[test]
fn ends_are_sent_and_shared_if_items_are_sent() {
    fn both<T: Send + Sync>() {}
    both::<mpmc::Producer<std::cell::Cell<u8>>>();
    both::<mpmc::Consumer<std::cell::Cell<u8>>>();
}

/// Counts drops; those with the flag panic in them.
struct Dropped(Arc<AtomicUsize>, bool);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert!(!self.1, "a drop that panics");
    }
}

#[test]
fn an_item_whose_drop_panics_keeps_no_other_item_alive() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (producer, consumer) = Queue::new().split();
    for n in 0..3 {
        producer
            .push(Dropped(Arc::clone(&drops), n == 1))
            .ok()
            .unwrap();
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(consumer))).is_err());
    assert_eq!(drops.load(Ordering::Relaxed), 3);
    assert!(producer.is_empty());
}

/// A waiter that is forgotten outlives all consumers, and its waker is called by the close.
#[cfg(feature = "async")]
#[test]
fn a_waker_that_panics_as_the_last_consumer_is_dropped_keeps_no_item_alive() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }
    let item = Arc::new(());
    let (producer, consumer) = Queue::new().split();
    let waker = std::task::Waker::from(Arc::new(Panics));
    for _ in 0..2 {
        let mut pop = Box::pin(consumer.pop_async());
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(pop.as_mut().poll(&mut cx).is_pending());
        std::mem::forget(pop);
    }
    let pushed = catch_unwind(AssertUnwindSafe(|| producer.push(Arc::clone(&item))));
    assert!(pushed.is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(consumer))).is_err());
    assert_eq!(Arc::strong_count(&item), 1);
    assert!(producer.is_closed());
}

#[test]
fn a_slice_is_popped_into() {
    let (producer, consumer) = Queue::new().split();
    producer.push_slice(&[1, 2, 3]).unwrap();
    let mut out = [0; 2];
    assert_eq!(consumer.pop_slice(&mut out), 2);
    assert_eq!(out, [1, 2]);
}
