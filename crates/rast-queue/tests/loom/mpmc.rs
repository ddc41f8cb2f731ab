//! The counted ends of `Queue`: which drop closes it, and what the end of the queue makes visible.

use rast_queue::Queue;
use rast_queue::primitive::cell::UnsafeCell;
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::thread;

/// A place that one producer writes and the consumer reads after the end of the queue.
struct Place(UnsafeCell<u32>);

// SAFETY: the producer's drop comes before the end that the consumer sees, which is what the test
// is about.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

/// The end of the queue comes after all that every producer did, not only the last one.
#[test]
fn mpmc_the_end_comes_after_all_producers() {
    model(|| {
        let place = Arc::new(Place(UnsafeCell::new(0)));
        let (producer, consumer) = Queue::<u32>::with_segment_slots(2).split();
        let first = producer.clone();
        let theirs = Arc::clone(&place);
        let other = thread::spawn(move || {
            // SAFETY: the consumer reads after this producer is gone.
            theirs.0.with_mut(|place| unsafe { *place = 1 });
            drop(first);
        });
        let last = thread::spawn(move || drop(producer));
        if consumer.is_finished() {
            // SAFETY: all producers are gone.
            assert_eq!(place.0.with(|place| unsafe { *place }), 1);
        }
        other.join().unwrap();
        last.join().unwrap();
        assert!(consumer.is_finished());
    });
}

/// A push beside the drop of the last consumer hands its item back, or the item is dropped with the
/// queue.
#[test]
fn mpmc_a_push_beside_the_last_consumer() {
    model(|| {
        let (producer, consumer) = Queue::with_segment_slots(2).split();
        let item = Arc::new(());
        let pushed = Arc::clone(&item);
        let other = thread::spawn(move || drop(consumer));
        let refused = producer.push(pushed).is_err();
        other.join().unwrap();
        assert!(producer.push(Arc::clone(&item)).is_err());
        assert!(producer.is_closed());
        drop(producer);
        let _ = refused;
        assert_eq!(Arc::strong_count(&item), 1);
    });
}
