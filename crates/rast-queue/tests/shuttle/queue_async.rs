//! `Queue`, waited for by futures and a stream. A future is polled again only after a wake-up, so a
//! lost wake-up is a deadlock, which the scheduler reports.

use crate::history::{Clock, Log, assert_sound};
use futures_core::Stream;
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::{Parker, Unparker, thread};
use rast_queue::{Pop, Queue};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

struct Unpark(Unparker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let parker = Parker::new();
    let waker = Waker::from(Arc::new(Unpark(parker.unparker())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        parker.park();
    }
}

/// How a consumer asks for its next item.
type Ask = fn(&Queue<u64>) -> Option<u64>;

fn by_future(queue: &Queue<u64>) -> Option<u64> {
    block_on(queue.pop_async())
}

/// The stream's place in the line goes with each item.
fn by_stream(queue: &Queue<u64>) -> Option<u64> {
    let mut stream = queue.stream();
    block_on(poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)))
}

/// Polls a future once and drops it, maybe woken.
fn in_passing(queue: &Queue<u64>) -> Option<u64> {
    let mut future = queue.pop_async();
    let polled = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
    thread::yield_now();
    match polled {
        Poll::Ready(item) => item,
        Poll::Pending => None,
    }
}

/// Counts down the items to come, and closes after the last.
#[derive(Clone)]
struct Counted(Arc<AtomicU64>);

impl Counted {
    fn one(&self, log: &mut Log, queue: &Queue<u64>) {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 1 {
            log.close(|| queue.close());
        }
    }
}

/// Two consumers, and two producers of `each` items, one of which pushes batches: all items come.
/// Who has the last one closes, so that a wake-up that is lost before leaves some thread asleep.
/// Another thread asks `passes` times in passing.
fn all_items_come(name: &'static str, asks: [Ask; 2], each: u64, passes: u32) {
    model(move || {
        let queue = Arc::new(Queue::with_segment_slots(2));
        let counted = Counted(Arc::new(AtomicU64::new(2 * each)));
        let clock = Clock::default();
        let consumers = [0, 1].map(|number| {
            let (queue, mut log) = (Arc::clone(&queue), clock.log(number));
            let (ask, counted) = (asks[number], counted.clone());
            thread::spawn(move || {
                while log.pop_wait(|| ask(&queue)).is_some() {
                    counted.one(&mut log, &queue);
                }
                log.into_events()
            })
        });
        let producers = [2, 3].map(|number| {
            let (queue, mut log) = (Arc::clone(&queue), clock.log(number));
            thread::spawn(move || {
                let values = |from: u64| [from, from + 1].map(|n| (number as u64) << 32 | n);
                for from in (0..each).step_by(2) {
                    if number == 2 {
                        for value in values(from) {
                            log.push(value, || queue.push(value).is_ok());
                        }
                    } else {
                        let batch = values(from);
                        log.push_batch(&batch, || {
                            queue.push_slice(&batch).map_or(0, |()| batch.len())
                        });
                    }
                }
                log.into_events()
            })
        });
        let (theirs, mut log) = (Arc::clone(&queue), clock.log(4));
        let passer = thread::spawn(move || {
            for _ in 0..passes {
                if log.pop(|| in_passing(&theirs)).is_some() {
                    counted.one(&mut log, &theirs);
                }
            }
            log.into_events()
        });
        let producers = producers.map(|thread| thread.join().unwrap());
        let consumers = consumers.map(|thread| thread.join().unwrap());
        let mut history: Vec<_> = consumers.into_iter().chain(producers).collect();
        history.push(passer.join().unwrap());
        assert_sound(name, &history);
    });
}

#[test]
fn queue_futures_are_woken() {
    all_items_come("futures", [by_future, by_future], 6, 0);
}

#[test]
fn queue_streams_are_woken() {
    all_items_come("streams", [by_stream, by_future], 6, 0);
}

#[test]
fn queue_dropped_futures_hand_their_wake_up_on() {
    all_items_come("dropped futures", [by_future, by_stream], 2, 2);
}

/// Counts its wake-ups.
#[derive(Default)]
struct Bell(AtomicU64);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls once. Returns the item, or how many wake-ups there were before this look for it.
fn poll_once(pop: &mut Pop<'_, u64>, bell: &Arc<Bell>) -> Result<u64, u64> {
    let before = bell.0.load(Ordering::SeqCst);
    let waker = Waker::from(Arc::clone(bell));
    match Pin::new(pop).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(item) => Ok(item.unwrap()),
        Poll::Pending => Err(before),
    }
}

/// One future is polled without having been woken, as `select!` and `join!` do, and takes the item
/// that the other was woken for. A wake-up that it gets meanwhile is for the next item, and must
/// reach the other.
#[test]
fn queue_poll_without_a_wake_up_uses_none() {
    model(|| {
        let queue = Arc::new(Queue::<u64>::with_segment_slots(2));
        let bells = [(); 2].map(|()| Arc::new(Bell::default()));
        let mut woken = queue.pop_async();
        let mut unwoken = queue.pop_async();
        poll_once(&mut woken, &bells[0]).unwrap_err();
        poll_once(&mut unwoken, &bells[1]).unwrap_err();
        queue.push(1).unwrap();
        let (first, second) = thread::scope(|scope| {
            let second = scope.spawn(|| poll_once(&mut unwoken, &bells[1]));
            let first = poll_once(&mut woken, &bells[0]);
            queue.push(2).unwrap();
            (first, second.join().unwrap())
        });
        let awake = [first, second]
            .iter()
            .zip(&bells)
            .any(|(poll, bell)| poll.is_err_and(|seen| bell.0.load(Ordering::SeqCst) > seen));
        assert!(
            awake || queue.is_empty(),
            "2 is queued, and the future that waits is not woken: {first:?} {second:?}"
        );
        drop((woken, unwoken));
    });
}
