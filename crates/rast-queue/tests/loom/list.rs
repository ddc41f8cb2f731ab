//! `list::ListQueue`.
//!
//! Items are cells, so an item that is read before it was written fails the model. Freed memory is
//! overwritten and kept to the end, so a node that is used after it was freed fails the model. At
//! the end every block must have been freed.

use crate::history::{Call, Event, exhaustive};
use rast_queue::Closed;
use rast_queue::alloc::{AllocError, Allocator, Global, Layout};
use rast_queue::list::ListQueue;
use rast_queue::primitive::cell::UnsafeCell;
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::sync::atomic::{AtomicU64, Ordering};
use rast_queue::primitive::thread;
use std::ptr::NonNull;
use std::sync::{Arc as StdArc, Mutex};

/// What a queue promises, for the scenarios that the source's own form runs too.
pub(crate) trait Fifo: Send + Sync + 'static {
    fn push(&self, n: u32);
    fn pop(&self) -> Option<u32>;
    /// Asserts, of an empty queue at rest, that all nodes but the last have ended.
    fn check_memory(&self);
}

/// A number that a model sees written and read.
struct Plain(UnsafeCell<u32>);

// SAFETY: a cell of a number; whether its uses are ordered is what the scenarios check.
unsafe impl Sync for Plain {}

impl Plain {
    fn new(n: u32) -> Self {
        Self(UnsafeCell::new(n))
    }

    fn get(&self) -> u32 {
        // SAFETY: the model fails if a write is not ordered before this.
        self.0.with(|n| unsafe { *n })
    }
}

/// An allocator that keeps what comes back, filled with rubbish, until the end.
#[derive(Clone, Default)]
struct Graveyard(StdArc<Mutex<Graves>>);

#[derive(Default)]
struct Graves {
    live: usize,
    dead: Vec<(NonNull<u8>, Layout)>,
}

// SAFETY: the addresses are of memory that this allocator alone touches.
unsafe impl Send for Graves {}

impl Drop for Graves {
    fn drop(&mut self) {
        for (block, layout) in self.dead.drain(..) {
            // SAFETY: the block came from the global allocator with this layout, and its user gave
            // it back.
            unsafe { Global.deallocate(block, layout) };
        }
    }
}

impl Graveyard {
    fn live(&self) -> usize {
        self.0.lock().unwrap().live
    }
}

// SAFETY: the memory is the global allocator's; clones share it, being the same allocator.
unsafe impl Allocator for Graveyard {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.lock().unwrap().live += 1;
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the block back, so its bytes are ours.
        unsafe { block.write_bytes(0xdd, layout.size()) };
        let mut graves = self.0.lock().unwrap();
        graves.live -= 1;
        graves.dead.push((block, layout));
    }
}

type Queue = ListQueue<Plain, Graveyard>;

fn queue() -> (Arc<Queue>, Graveyard) {
    let alloc = Graveyard::default();
    (Arc::new(Queue::new_in(alloc.clone())), alloc)
}

impl Fifo for Queue {
    fn push(&self, n: u32) {
        assert!(Queue::push(self, Plain::new(n)).is_ok());
    }

    fn pop(&self) -> Option<u32> {
        Queue::pop(self).map(|item| item.get())
    }

    fn check_memory(&self) {
        assert!(self.allocator().live() <= 1, "one node is queued at most");
    }
}

/// Runs `scenario` on a new queue, which ends with it; every block must have gone back.
fn with_queue(scenario: impl Fn(&Arc<Queue>)) {
    let (queue, alloc) = queue();
    scenario(&queue);
    drop(queue);
    assert_eq!(alloc.live(), 0, "memory that did not go back");
}

fn spawn<Q: Fifo, R: 'static + Send>(
    queue: &Arc<Q>,
    f: impl FnOnce(&Q) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let queue = Arc::clone(queue);
    thread::spawn(move || f(&queue))
}

fn rest<Q: Fifo>(queue: &Q) -> Vec<u32> {
    std::iter::from_fn(|| queue.pop()).collect()
}

/// Two threads push one item each, then pop one each: there is one for each, whatever the order.
pub(crate) fn push_then_pop_twice<Q: Fifo>(queue: &Arc<Q>) {
    let other = spawn(queue, |queue| {
        queue.push(1);
        queue.pop().expect("an item is lost, or is not seen yet")
    });
    queue.push(2);
    let mine = queue.pop().expect("an item is lost, or is not seen yet");
    let theirs = other.join().unwrap();
    assert_eq!(mine + theirs, 3, "one item twice");
    assert_eq!(rest(&**queue), []);
    queue.check_memory();
}

/// One thread pushes and then pops where an item is queued; another pops: there is never none.
pub(crate) fn never_empty<Q: Fifo>(queue: &Arc<Q>) {
    queue.push(1);
    let other = spawn(queue, |queue| {
        queue.push(2);
        queue.pop().expect("empty, though two items were pushed")
    });
    let mine = queue.pop().expect("empty, though never without an item");
    let theirs = other.join().unwrap();
    assert_eq!(mine + theirs, 3, "one item twice");
    assert_eq!(rest(&**queue), []);
    queue.check_memory();
}

/// A consumer that finds nothing beside a producer of two.
pub(crate) fn polls_beside_pushes<Q: Fifo>(queue: &Arc<Q>) {
    let other = spawn(queue, |queue| {
        queue.push(1);
        queue.push(2);
    });
    let mut seen = Vec::new();
    seen.extend(queue.pop());
    seen.extend(queue.pop());
    other.join().unwrap();
    seen.extend(rest(&**queue));
    assert_eq!(seen, [1, 2]);
    queue.check_memory();
}

/// Two producers; once both are done, popping until nothing is found gives everything.
pub(crate) fn two_producers<Q: Fifo>(queue: &Arc<Q>) {
    let other = spawn(queue, |queue| queue.push(1));
    queue.push(2);
    other.join().unwrap();
    let mut all = rest(&**queue);
    all.sort_unstable();
    assert_eq!(all, [1, 2], "an item stays behind");
    queue.check_memory();
}

/// Two consumers beside a producer.
pub(crate) fn two_consumers<Q: Fifo>(queue: &Arc<Q>) {
    queue.push(1);
    let other = spawn(queue, Q::pop);
    let third = spawn(queue, |queue| queue.push(2));
    let mut seen: Vec<u32> = queue.pop().into_iter().collect();
    seen.extend(other.join().unwrap());
    third.join().unwrap();
    assert!(!seen.is_empty(), "empty, though an item stood");
    seen.extend(rest(&**queue));
    seen.sort_unstable();
    assert_eq!(seen, [1, 2]);
    queue.check_memory();
}

/// One thread alone: pushes and pops in turn, and polls in between.
pub(crate) fn alone<Q: Fifo>(queue: &Arc<Q>) {
    for _ in 0..9 {
        assert_eq!(queue.pop(), None);
    }
    for n in 0..3 {
        queue.push(n);
        assert_eq!(queue.pop(), Some(n));
        assert_eq!(queue.pop(), None);
    }
    queue.check_memory();
}

/// Two producers lose nothing to each other.
#[test]
fn list_push_push() {
    model(|| with_queue(two_producers));
}

/// A consumer beside a producer: in order, each item whole, and nothing used after its end.
#[test]
fn list_push_pop() {
    model(|| with_queue(polls_beside_pushes));
}

/// Two consumers share out what is queued, each node ends once.
#[test]
fn list_pop_pop() {
    model(|| {
        with_queue(|queue| {
            Fifo::push(&**queue, 1);
            Fifo::push(&**queue, 2);
            let other = spawn(queue, |queue| (Fifo::pop(queue), Fifo::pop(queue)));
            let mine = Fifo::pop(&**queue);
            let theirs = other.join().unwrap();
            assert!(theirs.1.is_none() || theirs.0 < theirs.1);
            let mut all: Vec<_> = [mine, theirs.0, theirs.1].into_iter().flatten().collect();
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
            assert_eq!(rest(&**queue), []);
        });
    });
}

/// Each of two threads pushes, then pops.
#[test]
fn list_push_pop_each() {
    model(|| with_queue(push_then_pop_twice));
}

/// A pop finds an item if one is queued all the time.
#[test]
fn list_never_empty() {
    model(|| with_queue(never_empty));
}

/// One thread alone: nothing is lost, and each node goes back at once.
#[test]
fn list_alone() {
    model(|| with_queue(alone));
}

/// Three threads: two consumers and a producer.
#[test]
fn list_three_pop() {
    model(|| with_queue(two_consumers));
}

/// Three threads: a consumer finds the next node through another consumer, which found it through
/// its producer.
#[test]
fn list_three_relay() {
    model(|| {
        with_queue(|queue| {
            let other = spawn(queue, |queue| Fifo::push(queue, 1));
            let third = spawn(queue, Fifo::pop);
            let mut all: Vec<u32> = Fifo::pop(&**queue).into_iter().collect();
            all.extend(third.join().unwrap());
            other.join().unwrap();
            all.extend(rest(&**queue));
            assert_eq!(all, [1]);
            queue.check_memory();
        });
    });
}

/// Three threads: two producers and a consumer.
#[test]
fn list_three_push() {
    model(|| {
        with_queue(|queue| {
            let other = spawn(queue, |queue| Fifo::push(queue, 1));
            let third = spawn(queue, |queue| Fifo::push(queue, 2));
            let mut all: Vec<u32> = Fifo::pop(&**queue).into_iter().collect();
            other.join().unwrap();
            third.join().unwrap();
            all.extend(rest(&**queue));
            all.sort_unstable();
            assert_eq!(all, [1, 2]);
            queue.check_memory();
        });
    });
}

/// Three threads: a push and a pop beside a close.
#[test]
fn list_three_close() {
    model(|| {
        with_queue(|queue| {
            let other = spawn(queue, |queue| Queue::push(queue, Plain::new(1)).is_ok());
            let third = spawn(queue, Fifo::pop);
            assert!(queue.close());
            let pushed = other.join().unwrap();
            let popped = third.join().unwrap().is_some();
            let found = queue.drain().count();
            assert_eq!(usize::from(popped) + found, usize::from(pushed));
            queue.check_memory();
        });
    });
}

/// A push beside a close is refused, or is in what is queued; after the close nothing is added.
#[test]
fn list_push_close() {
    model(|| {
        with_queue(|queue| {
            let other = spawn(queue, |queue| {
                let first = Queue::push(queue, Plain::new(1)).is_ok();
                (first, Queue::push(queue, Plain::new(2)).is_ok())
            });
            assert!(queue.close());
            assert!(queue.is_closed());
            let drained = queue.drain().count();
            let (first, second) = other.join().unwrap();
            assert_eq!(drained, usize::from(first) + usize::from(second));
            assert!(first || !second, "a push after a refused one");
            assert!(queue.is_empty() && !queue.close());
        });
    });
}

/// Of two that close beside a push, one did it.
#[test]
fn list_close_close() {
    model(|| {
        with_queue(|queue| {
            let other = spawn(queue, |queue| queue.close());
            let third = spawn(queue, |queue| Queue::push(queue, Plain::new(1)).is_ok());
            let mine = queue.close();
            assert_ne!(mine, other.join().unwrap());
            let pushed = third.join().unwrap();
            assert_eq!(queue.drain().count(), usize::from(pushed));
        });
    });
}

/// A pop beside a close takes what is queued.
#[test]
fn list_pop_close() {
    model(|| {
        with_queue(|queue| {
            Fifo::push(&**queue, 1);
            let other = spawn(queue, |queue| queue.close());
            assert_eq!(Fifo::pop(&**queue), Some(1));
            assert_eq!(Fifo::pop(&**queue), None);
            assert!(other.join().unwrap());
            assert_eq!(rest(&**queue), []);
        });
    });
}

/// Who sees the queue closed, by asking or by a refusal, sees what the closer did before.
#[test]
fn list_close_is_seen() {
    model(|| {
        let shared = Arc::new((ListQueue::<u8>::new(), Plain::new(0)));
        let theirs = Arc::clone(&shared);
        let other = thread::spawn(move || {
            // SAFETY: the other thread reads the cell only after it saw the close below.
            theirs.1.0.with_mut(|cell| unsafe { *cell = 7 });
            theirs.0.close();
        });
        if shared.0.is_closed() || shared.0.push(1).is_err() {
            assert_eq!(shared.1.get(), 7);
        }
        other.join().unwrap();
    });
}

/// Looking changes nothing, and what is seen was so.
#[test]
fn list_looks() {
    model(|| {
        with_queue(|queue| {
            Fifo::push(&**queue, 1);
            let other = spawn(queue, |queue| {
                Fifo::push(queue, 2);
                Fifo::pop(queue)
            });
            assert!(!queue.is_empty(), "an item is queued all the time");
            assert!(!queue.is_closed());
            assert_eq!(other.join().unwrap(), Some(1));
            assert_eq!(rest(&**queue), [2]);
        });
    });
}

/// The thread that ends the queue drops what is queued, once, and frees every node.
#[test]
fn list_drop_with_items() {
    model(|| {
        let (queue, alloc) = queue();
        let other = spawn(&queue, |queue| Fifo::push(queue, 1));
        Fifo::push(&*queue, 2);
        assert!(Fifo::pop(&*queue).is_some());
        drop(queue);
        other.join().unwrap();
        assert_eq!(alloc.live(), 0);
    });
}

/// Does the operations of a word: `+` push, `-` pop, `x` close, `?` is empty, `!` is closed.
///
/// The clock is the model's, as it must be: what ended before a stamp was taken happens before what
/// began after it.
fn record(queue: &Queue, clock: &AtomicU64, thread: usize, word: &str) -> Vec<Event> {
    let stamp = || clock.fetch_add(1, Ordering::AcqRel);
    let answer = |place: usize, letter: char| match letter {
        '+' => {
            let item = 10 * thread as u32 + place as u32;
            match Queue::push(queue, Plain::new(item)) {
                Ok(()) => Some(Call::Push(item.into())),
                Err(Closed(_)) => Some(Call::Refused(item.into())),
            }
        }
        '-' => Some(Fifo::pop(queue).map_or(Call::Empty, |item| Call::Pop(item.into()))),
        'x' => Some(Call::Close(queue.close())),
        // That something is queued, no call can say.
        '?' => queue.is_empty().then_some(Call::Empty),
        '!' => Some(Call::IsClosed(queue.is_closed())),
        other => panic!("no operation {other}"),
    };
    let events = word.chars().enumerate().filter_map(|(place, letter)| {
        let start = stamp();
        let call = answer(place, letter)?;
        let end = stamp();
        Some(Event {
            thread,
            call,
            start,
            end,
        })
    });
    events.collect()
}

/// Runs a word per thread, then asks for what is queued; some order must explain the whole.
fn linearizable(words: &'static [&'static str]) {
    model(move || {
        with_queue(|queue| {
            let clock = Arc::new(AtomicU64::new(0));
            let others: Vec<_> = (1..words.len())
                .map(|thread| {
                    let clock = Arc::clone(&clock);
                    spawn(queue, move |queue| {
                        record(queue, &clock, thread, words[thread])
                    })
                })
                .collect();
            let mut history = vec![record(queue, &clock, 0, words[0])];
            history.extend(others.into_iter().map(|other| other.join().unwrap()));
            history.push(record(queue, &clock, words.len(), "----!"));
            assert_eq!(exhaustive::check(&history), Some(Ok(())), "{history:#?}");
        });
    });
}

/// Every pair of operations, side by side, on a queue in which an item is queued and one that is
/// empty.
#[test]
fn list_linearizable_pairs() {
    for words in [
        &["++-", "-+"] as &'static [&'static str],
        &["+-?", "+-"],
        &["-+-", "-?"],
        &["+!-", "x-"],
        &["+?x", "-+"],
        &["x!", "x?"],
        &["+-x", "?!+"],
    ] {
        linearizable(words);
    }
}

/// Three threads.
#[test]
fn list_linearizable_threes() {
    for words in [
        &["+-", "+-", "+-"] as &'static [&'static str],
        &["+-", "-+", "?-"],
        &["+", "x", "-!"],
        &["+", "+x", "+-"],
    ] {
        linearizable(words);
    }
}
