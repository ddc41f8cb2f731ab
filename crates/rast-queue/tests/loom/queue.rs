//! `Queue`.

use rast_queue::Queue;
use rast_queue::primitive::cell::UnsafeCell;
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::thread;

/// Two producers lose nothing to each other.
#[test]
fn queue_push_push() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(1).unwrap());
        queue.push(2).unwrap();
        other.join().unwrap();
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.drain().sum::<i32>(), 3);
    });
}

/// A consumer beside a producer: order, and nothing twice.
#[test]
fn queue_push_pop() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || {
            theirs.push(1).unwrap();
            theirs.push(2).unwrap();
        });
        let mut seen = Vec::new();
        seen.extend(queue.pop());
        seen.extend(queue.pop());
        other.join().unwrap();
        seen.extend(queue.drain());
        assert_eq!(seen, [1, 2]);
    });
}

/// Two consumers share out the items, over the border of a segment.
#[test]
fn queue_pop_pop() {
    model(|| {
        let queue: Arc<Queue<_>> = Arc::new((0..3).collect());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || (theirs.pop(), theirs.pop()));
        let mine = queue
            .pop()
            .expect("three items, at most two popped by the other");
        let (first, second) = other.join().unwrap();
        let mut all: Vec<i32> = [Some(mine), first, second].into_iter().flatten().collect();
        assert!(first < second);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

/// A push beside a close is refused, or is in what stands.
#[test]
fn queue_push_close() {
    model(|| {
        let queue = Arc::new(Queue::new());
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || theirs.push(1).is_ok());
        assert!(queue.close());
        let drained = queue.drain().count();
        let pushed = other.join().unwrap();
        assert_eq!(drained, usize::from(pushed), "after close nothing is added");
        assert!(!queue.close());
    });
}

/// A plain number: a data race on it fails the model.
struct Plain(UnsafeCell<u32>);

// SAFETY: the scenario below orders the two accesses by the close, which is what it checks.
unsafe impl Sync for Plain {}

/// Who sees the queue closed sees what the closer did before.
#[test]
fn queue_close_is_seen() {
    model(|| {
        let shared = Arc::new((Queue::<u8>::new(), Plain(UnsafeCell::new(0))));
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            // SAFETY: the other thread reads the cell only after it saw the close below.
            theirs.1.0.with_mut(|cell| unsafe { *cell = 7 });
            theirs.0.close();
        });
        if shared.0.is_closed() {
            // SAFETY: the writer is done once the close is seen.
            assert_eq!(shared.1.0.with(|cell| unsafe { *cell }), 7);
        }
        other.join().unwrap();
    });
}
