//! `Queue`: threads that wait. Each test runs to its end only if no wake-up is lost.

use rast_queue::primitive::WaitStrategy::{self, Adaptive, Park, Spin};
use rast_queue::{PopError, Queue};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const STRATEGIES: [WaitStrategy; 3] = [Spin, Adaptive, Park];

/// Runs out while others are at work, and soon.
const SHORT: Duration = Duration::from_micros(50);
/// Does not run out while a test runs.
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn what_stands_is_had_without_waiting() {
    for strategy in STRATEGIES {
        let queue: Queue<_> = (0..4).collect();
        assert_eq!(queue.pop_wait(strategy), Some(0));
        assert_eq!(queue.pop_timeout(strategy, Duration::ZERO), Ok(1));
        assert_eq!(queue.pop_deadline(strategy, Instant::now()), Ok(2));
        queue.close();
        assert_eq!(queue.pop_timeout(strategy, Duration::MAX), Ok(3));
        assert_eq!(queue.pop_wait(strategy), None);
        assert_eq!(
            queue.pop_timeout(strategy, Duration::MAX),
            Err(PopError::Closed)
        );
        assert_eq!(
            queue.pop_timeout(strategy, Duration::ZERO),
            Err(PopError::Closed)
        );
        assert_eq!(
            queue.pop_deadline(strategy, Instant::now()),
            Err(PopError::Closed)
        );
    }
}

#[test]
fn time_runs_out() {
    for strategy in STRATEGIES {
        let queue = Queue::<u8>::new();
        assert_eq!(
            queue.pop_timeout(strategy, Duration::ZERO),
            Err(PopError::Elapsed)
        );
        let begun = Instant::now();
        let end = begun + Duration::from_millis(2);
        assert_eq!(queue.pop_deadline(strategy, end), Err(PopError::Elapsed));
        assert!(Instant::now() >= end, "not before its time");
        // No thread is in the line any more: this push pays for no wake-up, and this pop finds it.
        queue.push(1).unwrap();
        assert_eq!(queue.pop_timeout(strategy, SHORT), Ok(1));
    }
}

#[test]
fn errors_say_what_happened() {
    let error: &dyn std::error::Error = &PopError::Elapsed;
    assert_eq!(error.to_string(), "no item came in time");
    assert_eq!(
        PopError::Closed.to_string(),
        "the queue is closed and empty"
    );
}

/// Each item wakes some thread: every waiter takes exactly one, and the number of items is the
/// number of waiters.
#[test]
fn as_many_items_as_waiters_wake_all() {
    let rounds = if cfg!(miri) { 2 } else { 40 };
    for strategy in STRATEGIES {
        for round in 0..rounds {
            let queue = Queue::with_segment_slots([2, 4, 64][round % 3]);
            let waiters = 1 + round % 7;
            let mut got: Vec<usize> = thread::scope(|scope| {
                let threads: Vec<_> = (0..waiters)
                    .map(|_| scope.spawn(|| queue.pop_wait(strategy).unwrap()))
                    .collect();
                match round % 4 {
                    0 => (0..waiters).for_each(|n| queue.push(n).unwrap()),
                    1 => assert_eq!(queue.push_batch(0..waiters).unwrap(), waiters),
                    2 => queue.push_slice(&(0..waiters).collect::<Vec<_>>()).unwrap(),
                    _ => (0..waiters).for_each(|n| queue.try_push(n).unwrap()),
                }
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            got.sort_unstable();
            assert_eq!(got, (0..waiters).collect::<Vec<_>>());
            assert!(queue.is_empty());
        }
    }
}

/// More waiters than wake-ups are carried from under the lock at once.
#[test]
fn close_wakes_all() {
    let (rounds, waiters) = if cfg!(miri) { (1, 3) } else { (20, 20) };
    for round in 0..rounds {
        let queue = Queue::<u8>::with_segment_slots(2);
        for n in 0..round % 5 {
            queue.push(n).unwrap();
            queue.pop().unwrap();
        }
        let ready = Barrier::new(waiters + 1);
        thread::scope(|scope| {
            for n in 0..waiters {
                let (queue, ready) = (&queue, &ready);
                scope.spawn(move || {
                    ready.wait();
                    match n % 3 {
                        0 => assert_eq!(queue.pop_wait(STRATEGIES[n / 3 % 3]), None),
                        1 => assert_eq!(queue.pop_timeout(Park, LONG), Err(PopError::Closed)),
                        _ => assert_eq!(
                            queue.pop_deadline(Adaptive, Instant::now() + LONG),
                            Err(PopError::Closed)
                        ),
                    }
                });
            }
            ready.wait();
            (0..round).for_each(|_| thread::yield_now());
            assert!(queue.close());
        });
    }
}

/// Waiters whose time runs out are among those that wait for ever; a wake-up that reaches one of
/// the former and finds it gone would leave one of the latter asleep beside an item.
#[test]
fn waiters_that_give_up_take_no_wake_ups_along() {
    let count: u64 = if cfg!(miri) { 20 } else { 5_000 };
    for slots in [2, 64] {
        let queue = Queue::with_segment_slots(slots);
        let sum: u64 = thread::scope(|scope| {
            let patient = (0..2).map(|_| {
                let queue = &queue;
                scope.spawn(move || std::iter::from_fn(|| queue.pop_wait(Park)).sum::<u64>())
            });
            let hasty = (0..2).map(|_| {
                let queue = &queue;
                scope.spawn(move || {
                    let mut sum = 0;
                    loop {
                        match queue.pop_timeout(Park, SHORT) {
                            Ok(n) => sum += n,
                            Err(PopError::Elapsed) => {}
                            Err(PopError::Closed) => break sum,
                        }
                    }
                })
            });
            let threads: Vec<_> = patient.chain(hasty).collect();
            for n in 0..count {
                queue.push(n).unwrap();
                // Let the line build up again.
                if n % 8 == 0 {
                    thread::yield_now();
                }
            }
            // All are taken before the close, which wakes everybody, may hide a lost wake-up.
            while !queue.is_empty() {
                thread::yield_now();
            }
            queue.close();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(sum, count * (count - 1) / 2);
    }
}

/// Two threads hand one item to and fro, so that each push meets a waiter that is about to sleep,
/// sleeps, or wakes.
#[test]
fn ping_pong_in_every_strategy() {
    let count = if cfg!(miri) { 20 } else { 3_000 };
    for strategy in STRATEGIES {
        // A spinning partner on a busy machine costs a time slice per turn.
        let count = if strategy == Spin { count / 10 } else { count };
        let (there, back) = (Queue::with_segment_slots(2), Queue::with_segment_slots(64));
        thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(n) = there.pop_wait(strategy) {
                    back.push(n).unwrap();
                }
                back.close();
            });
            for n in 0..count {
                there.push(n).unwrap();
                assert_eq!(back.pop_wait(strategy), Some(n));
            }
            there.close();
            assert_eq!(back.pop_wait(strategy), None);
        });
    }
}

/// Waiters and plain consumers on one queue, and batches among the pushes.
#[test]
fn waiters_beside_plain_consumers_see_every_item() {
    let count: u64 = if cfg!(miri) { 60 } else { 20_000 };
    for slots in [2, 1024] {
        let queue = Queue::with_segment_slots(slots);
        let sum: u64 = thread::scope(|scope| {
            let waiting = STRATEGIES.map(|strategy| {
                let queue = &queue;
                scope.spawn(move || std::iter::from_fn(|| queue.pop_wait(strategy)).sum::<u64>())
            });
            let plain = scope.spawn(|| {
                let mut sum = 0;
                while !queue.is_closed() {
                    queue.pop_batch(3, |n| sum += n);
                    thread::yield_now();
                }
                sum
            });
            let producers = [0, 1].map(|odd| {
                let queue = &queue;
                scope.spawn(move || {
                    let mine: Vec<_> = (0..count).filter(|n| n % 2 == odd).collect();
                    for chunk in mine.chunks(5) {
                        match chunk[0] % 3 {
                            0 => queue.push_slice(chunk).unwrap(),
                            1 => drop(queue.push_batch(chunk.to_vec()).unwrap()),
                            _ => chunk.iter().for_each(|n| queue.push(*n).unwrap()),
                        }
                    }
                })
            });
            let _ = producers.map(|p| p.join().unwrap());
            while !queue.is_empty() {
                thread::yield_now();
            }
            queue.close();
            waiting.map(|w| w.join().unwrap()).iter().sum::<u64>() + plain.join().unwrap()
        });
        assert_eq!(sum, count * (count - 1) / 2);
    }
}

/// What a panicking closure gives back wakes some thread, too.
#[test]
fn what_comes_back_wakes_a_waiter() {
    let rounds = if cfg!(miri) { 3 } else { 200 };
    for _ in 0..rounds {
        let queue = Queue::with_segment_slots(4);
        queue.push_batch(0..4).unwrap();
        let mut all: Vec<i32> = thread::scope(|scope| {
            let batch = scope.spawn(|| {
                let mut seen = Vec::new();
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    queue.pop_batch(4, |n| {
                        seen.push(n);
                        std::panic::resume_unwind(Box::new(()));
                    })
                }));
                seen
            });
            let waiters = [(); 3].map(|()| scope.spawn(|| queue.pop_wait(Park).unwrap()));
            let mut all: Vec<_> = waiters.into_iter().map(|w| w.join().unwrap()).collect();
            all.extend(batch.join().unwrap());
            all
        });
        all.extend(queue.drain());
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
    }
}
