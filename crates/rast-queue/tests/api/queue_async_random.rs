//! `Queue`: futures that are polled, moved, dropped and woken in random order, on one thread. It
//! checks one promise: once every woken future was polled, no future waits while an item is queued.
//! The seed is printed.

use rast_queue::primitive::Random;
use rast_queue::{Pop, Queue};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A task that is to be polled once it was woken.
#[derive(Default)]
struct Task {
    is_woken: AtomicBool,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
    }
}

struct Waiting<'a> {
    pop: Pop<'a, usize>,
    task: Arc<Task>,
}

struct Game<'a> {
    queue: &'a Queue<usize>,
    waiting: Vec<Waiting<'a>>,
    pushed: usize,
    popped: Vec<usize>,
}

impl<'a> Game<'a> {
    /// Polls a future, for a new task or the one it has; drops it if it is done.
    fn poll(&mut self, at: usize, is_new_task: bool) {
        let waiting = &mut self.waiting[at];
        if is_new_task {
            waiting.task = Arc::default();
        }
        waiting.task.is_woken.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&waiting.task));
        match Pin::new(&mut waiting.pop).poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {}
            Poll::Ready(item) => {
                self.popped.push(item.expect("the queue is open"));
                self.waiting.swap_remove(at);
            }
        }
    }

    fn step(&mut self, random: &mut Random) {
        let count = self.waiting.len();
        match random.below(16) {
            0..=3 if count < 12 => {
                let pop = self.queue.pop_async();
                let task = Arc::default();
                self.waiting.push(Waiting { pop, task });
                self.poll(count, false);
            }
            4..=6 if count > 0 => self.poll(random.below(count), false),
            7 if count > 0 => self.poll(random.below(count), true),
            8 | 9 if count > 0 => drop(self.waiting.swap_remove(random.below(count))),
            10 if count > 1 => {
                // Futures change their places, as in a `select!` that is moved.
                let at = random.below(count);
                self.waiting.swap(0, at);
            }
            11 => self.popped.extend(self.queue.pop()),
            12 => {
                let items = self.pushed..self.pushed + random.below(4);
                self.pushed = items.end;
                self.queue.push_batch(items).unwrap();
            }
            13 => {
                self.poll_woken(random.below(3));
            }
            14 => {
                self.queue.push(self.pushed).unwrap();
                self.pushed += 1;
            }
            _ => {}
        }
    }

    /// Polls up to `most` of the futures that were woken, as an executor does.
    fn poll_woken(&mut self, most: usize) -> usize {
        for done in 0..most {
            let is_woken = |waiting: &Waiting| waiting.task.is_woken.load(Ordering::Relaxed);
            let Some(at) = self.waiting.iter().position(is_woken) else {
                return done;
            };
            self.poll(at, false);
        }
        most
    }
}

#[test]
fn no_item_is_queued_beside_a_future_that_waits() {
    let seed = RandomState::new().hash_one(0) | 1;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let runs = if cfg!(miri) { 5 } else { 2_000 };
    for run in 0..runs {
        let queue = Queue::with_segment_slots(2 << random.below(4));
        let mut game = Game {
            queue: &queue,
            waiting: Vec::new(),
            pushed: 0,
            popped: Vec::new(),
        };
        for _ in 0..random.below(12) {
            for _ in 0..random.below(24) {
                game.step(&mut random);
            }
            game.poll_woken(usize::MAX);
            assert!(
                game.waiting.is_empty() || queue.is_empty(),
                "run {run}: {} futures wait beside {} items",
                game.waiting.len(),
                queue.len()
            );
        }
        game.waiting.clear();
        game.popped.extend(queue.drain());
        assert_eq!(game.popped, Vec::from_iter(0..game.pushed), "run {run}");
    }
}
