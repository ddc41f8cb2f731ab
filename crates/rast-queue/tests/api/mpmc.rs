//! Counted ends of a `Queue`.

use rast_queue::primitive::WaitStrategy;
use rast_queue::{Closed, Queue, TryPushError, mpmc};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

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
    items.extend(consumer.pop_wait(WaitStrategy::Park));
    assert_eq!(items, [1, 2, 3, 4]);
    assert!(consumer.is_finished() && consumer.is_empty());
    assert_eq!(consumer.pop_wait(WaitStrategy::Park), None);
}

#[test]
fn a_producer_that_panics_ends_its_consumers() {
    let (producer, consumer) = Queue::new().split();
    let worker = thread::spawn(move || {
        producer.push(1).unwrap();
        panic!("a producer that panics");
    });
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let consumer = consumer.clone();
            thread::spawn(move || {
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
