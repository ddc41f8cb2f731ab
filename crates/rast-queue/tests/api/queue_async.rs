//! `Queue`: futures and streams. Wakers count their calls, and a future that is polled only when it
//! was woken ends only if no wake-up is lost.

use rast_queue::{Pop, Queue};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;

/// Counts its wake-ups.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Bell {
    fn new() -> (Arc<Self>, Waker) {
        let bell = Arc::new(Self::default());
        (bell.clone(), bell.into())
    }

    fn rung(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<T>(future: &mut Pop<'_, T>, waker: &Waker) -> Poll<Option<T>> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

fn poll_next<S: futures_core::Stream + Unpin>(
    stream: &mut S,
    waker: &Waker,
) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(waker))
}

/// Runs a future on this thread, polling it only when it was woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread, AtomicUsize);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.store(1, Ordering::SeqCst);
            self.0.unpark();
        }
    }
    let state = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(state.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while state.1.swap(0, Ordering::SeqCst) == 0 {
            thread::park();
        }
    }
}

#[test]
fn futures_are_shared_and_moved_as_the_queue_is() {
    fn check<T: Send + Sync + Unpin>() {}
    check::<Pop<'_, u8>>();
    check::<rast_queue::Stream<'_, std::cell::Cell<u8>>>();
}

#[test]
fn a_push_wakes_the_first_in_line() {
    let queue = Queue::new();
    let bells = [(); 3].map(|()| Bell::new());
    let mut pops = bells.each_ref().map(|(_, waker)| {
        let mut pop = queue.pop_async();
        assert_eq!(poll(&mut pop, waker), Poll::Pending);
        pop
    });
    let rung = || bells.each_ref().map(|(bell, _)| bell.rung());
    queue.push(1).unwrap();
    assert_eq!(rung(), [1, 0, 0]);
    queue.push(2).unwrap();
    assert_eq!(rung(), [1, 1, 0]);
    assert_eq!(poll(&mut pops[1], &bells[1].1), Poll::Ready(Some(1)));
    assert_eq!(poll(&mut pops[0], &bells[0].1), Poll::Ready(Some(2)));
    assert_eq!(poll(&mut pops[2], &bells[2].1), Poll::Pending);
    queue.close();
    assert_eq!(rung(), [1, 1, 1]);
    assert_eq!(poll(&mut pops[2], &bells[2].1), Poll::Ready(None));
}

#[test]
fn a_batch_wakes_as_many_as_it_has_items() {
    let queue = Queue::with_segment_slots(4);
    let bells: Vec<_> = (0..30).map(|_| Bell::new()).collect();
    let mut pops: Vec<_> = bells.iter().map(|_| queue.pop_async()).collect();
    for (pop, (_, waker)) in pops.iter_mut().zip(&bells) {
        assert_eq!(poll(pop, waker), Poll::Pending);
    }
    let rung = || bells.iter().map(|(bell, _)| bell.rung()).sum::<usize>();
    queue.push_batch(0..20).unwrap();
    assert_eq!(rung(), 20);
    queue.push_slice(&[20, 21, 22]).unwrap();
    assert_eq!(rung(), 23);
    queue.push_batch(23..100).unwrap();
    assert_eq!(rung(), 30);
    for (n, (pop, (_, waker))) in pops.iter_mut().zip(&bells).enumerate() {
        assert_eq!(poll(pop, waker), Poll::Ready(Some(n)));
    }
    queue.push(100).unwrap();
    assert_eq!(rung(), 30, "no thread is in the line");
}

#[test]
fn close_wakes_more_than_are_carried_at_once() {
    let queue = Queue::<u8>::new();
    let (bell, waker) = Bell::new();
    let mut pops: Vec<_> = (0..50).map(|_| queue.pop_async()).collect();
    for pop in &mut pops {
        assert_eq!(poll(pop, &waker), Poll::Pending);
    }
    queue.close();
    assert_eq!(bell.rung(), 50);
    for pop in &mut pops {
        assert_eq!(poll(pop, &waker), Poll::Ready(None));
    }
}

#[test]
fn a_future_dropped_while_pending_leaves_the_line() {
    let queue = Queue::new();
    let [(first, a), (second, b)] = [Bell::new(), Bell::new()];
    let mut dropped = queue.pop_async();
    let mut kept = queue.pop_async();
    assert_eq!(poll(&mut dropped, &a), Poll::Pending);
    assert_eq!(poll(&mut kept, &b), Poll::Pending);
    drop(dropped);
    drop(a);
    assert_eq!(
        Arc::strong_count(&first),
        1,
        "the waker is gone from the line"
    );
    queue.push(1).unwrap();
    assert_eq!((first.rung(), second.rung()), (0, 1));
    assert_eq!(poll(&mut kept, &b), Poll::Ready(Some(1)));
}

#[test]
fn a_future_dropped_after_it_was_woken_wakes_the_next() {
    let queue = Queue::new();
    let bells = [(); 3].map(|()| Bell::new());
    let mut pops: Vec<_> = bells.iter().map(|_| queue.pop_async()).collect();
    for (pop, (_, waker)) in pops.iter_mut().zip(&bells) {
        assert_eq!(poll(pop, waker), Poll::Pending);
    }
    queue.push(1).unwrap();
    let rung = || bells.each_ref().map(|(bell, _)| bell.rung());
    assert_eq!(rung(), [1, 0, 0]);
    drop(pops.remove(0));
    assert_eq!(rung(), [1, 1, 0]);
    drop(pops.remove(0));
    assert_eq!(rung(), [1, 1, 1]);
    assert_eq!(poll(&mut pops[0], &bells[2].1), Poll::Ready(Some(1)));
}

#[test]
fn the_waker_of_the_last_poll_is_the_one_that_is_woken() {
    let queue = Queue::new();
    let [(old, a), (new, b)] = [Bell::new(), Bell::new()];
    let mut pop = queue.pop_async();
    assert_eq!(poll(&mut pop, &a), Poll::Pending);
    assert_eq!(poll(&mut pop, &a), Poll::Pending, "the same again");
    assert_eq!(poll(&mut pop, &b), Poll::Pending);
    drop(a);
    assert_eq!(Arc::strong_count(&old), 1);
    queue.push(1).unwrap();
    assert_eq!((old.rung(), new.rung()), (0, 1));
    assert_eq!(poll(&mut pop, Waker::noop()), Poll::Ready(Some(1)));
}

#[test]
fn a_poll_that_was_not_woken_takes_no_wake_up_from_others() {
    let queue = Queue::new();
    let [(first, a), (second, b)] = [Bell::new(), Bell::new()];
    let (mut one, mut other) = (queue.pop_async(), queue.pop_async());
    assert_eq!(poll(&mut one, &a), Poll::Pending);
    assert_eq!(poll(&mut other, &b), Poll::Pending);
    // The first is woken for 1, but the second is polled and has it.
    queue.push(1).unwrap();
    assert_eq!(poll(&mut other, &b), Poll::Ready(Some(1)));
    assert_eq!(poll(&mut one, &a), Poll::Pending);
    queue.push(2).unwrap();
    assert_eq!((first.rung(), second.rung()), (2, 0));
    assert_eq!(poll(&mut one, &a), Poll::Ready(Some(2)));
}

#[test]
#[should_panic(expected = "polled after it was done")]
fn a_future_that_was_done_panics_when_polled() {
    let queue: Queue<_> = [1].into_iter().collect();
    let mut pop = queue.pop_async();
    assert_eq!(poll(&mut pop, Waker::noop()), Poll::Ready(Some(1)));
    let _ = poll(&mut pop, Waker::noop());
}

#[test]
fn a_stream_runs_to_the_end_and_stays_there() {
    let queue: Queue<_> = (0..3).collect();
    let (bell, waker) = Bell::new();
    let mut stream = queue.stream();
    for n in 0..3 {
        assert_eq!(poll_next(&mut stream, &waker), Poll::Ready(Some(n)));
    }
    assert_eq!(poll_next(&mut stream, &waker), Poll::Pending);
    queue.push(3).unwrap();
    assert_eq!(bell.rung(), 1);
    queue.close();
    assert_eq!(poll_next(&mut stream, &waker), Poll::Ready(Some(3)));
    assert_eq!(poll_next(&mut stream, &waker), Poll::Ready(None));
    assert_eq!(poll_next(&mut stream, &waker), Poll::Ready(None));
}

/// Does what it is told when it is woken.
struct Doing<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Doing<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn doing(act: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Doing(act)).into()
}

/// One waker among `count` panics, at `at`; the thread that wakes sees the panic, and everybody
/// else is woken.
fn one_waker_panics(count: usize, at: usize, wake: impl Fn(&Queue<usize>)) {
    let queue = Queue::new();
    let (bell, waker) = Bell::new();
    let mut pops: Vec<_> = (0..count).map(|_| queue.pop_async()).collect();
    for (n, pop) in pops.iter_mut().enumerate() {
        let waker = match n == at {
            true => &doing(|| std::panic::resume_unwind(Box::new("as planned"))),
            false => &waker,
        };
        assert_eq!(poll(pop, waker), Poll::Pending);
    }
    let result = catch_unwind(AssertUnwindSafe(|| wake(&queue)));
    assert!(result.is_err(), "the panic goes up");
    assert_eq!(bell.rung(), count - 1, "of {count} but {at}");
    let is_closed = queue.is_closed();
    for pop in &mut pops {
        assert!(poll(pop, &waker).is_ready());
    }
    assert_eq!(queue.push(0).is_err(), is_closed);
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_asleep() {
    for count in [1, 2, 8, 9, 17, 30] {
        for at in 0..count {
            one_waker_panics(count, at, |queue| assert!(queue.close()));
            one_waker_panics(count, at, |queue| {
                queue.push_slice(&(0..count).collect::<Vec<_>>()).unwrap();
            });
        }
    }
}

/// Goes off when the last waker of it is dropped.
struct Mine;

impl Wake for Mine {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Mine {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("as planned"));
    }
}

#[test]
fn an_item_in_hand_goes_back_when_the_drop_of_a_waker_panics() {
    let queue = Queue::new();
    // The push wakes this one, and the other one comes first.
    let mut woken = queue.pop_async();
    assert_eq!(poll(&mut woken, Waker::noop()), Poll::Pending);
    let mut pop = queue.pop_async();
    assert_eq!(poll(&mut pop, &Arc::new(Mine).into()), Poll::Pending);
    queue.push(Box::new(1)).unwrap();
    assert!(
        catch_unwind(AssertUnwindSafe(|| poll(&mut pop, Waker::noop()))).is_err(),
        "the panic goes up"
    );
    assert_eq!(queue.len(), 1);
    assert_eq!(
        poll(&mut pop, Waker::noop()),
        Poll::Ready(Some(Box::new(1)))
    );
    assert_eq!(queue.pop(), None);
}

#[test]
fn a_batch_wakes_when_its_first_item_stands() {
    let seen: &'static Mutex<Vec<usize>> = Box::leak(Box::default());
    for slots in [2, 64, 1024] {
        let queue: &'static Queue<u32> = Box::leak(Box::new(Queue::with_segment_slots(slots)));
        let look = doing(move || seen.lock().unwrap().push(queue.len()));
        let mut pops = [(); 2].map(|()| queue.pop_async());
        for pop in &mut pops {
            assert_eq!(poll(pop, &look), Poll::Pending);
        }
        queue.push_slice(&[7; 100]).unwrap();
        assert_eq!(queue.len(), 100);
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), [1, 2]);
    }
}

#[test]
fn an_iterator_that_panics_keeps_nobody_asleep() {
    for at in 0..70 {
        let queue = Queue::with_segment_slots(8);
        let (bell, waker) = Bell::new();
        let mut pops: Vec<_> = (0..80).map(|_| queue.pop_async()).collect();
        let panics = doing(|| std::panic::resume_unwind(Box::new("waker")));
        for (n, pop) in pops.iter_mut().enumerate() {
            let waker = if n == 3 { &panics } else { &waker };
            assert_eq!(poll(pop, waker), Poll::Pending);
        }
        let items = (0..70usize).map(|n| match n == at {
            true => std::panic::resume_unwind(Box::new("iterator")),
            false => n,
        });
        let result = catch_unwind(AssertUnwindSafe(|| drop(queue.push_batch(items))));
        // The waker's comes first where a full part of the batch went before, which ends the batch.
        let (expected, pushed) = match at {
            0..32 => ("iterator", at),
            _ => ("waker", 32),
        };
        assert_eq!(result.unwrap_err().downcast_ref(), Some(&expected));
        assert_eq!(queue.len(), pushed);
        assert_eq!(bell.rung(), pushed - usize::from(pushed > 3));
        let closed = catch_unwind(AssertUnwindSafe(|| queue.close()));
        assert_eq!(closed.is_err(), pushed <= 3);
        for pop in &mut pops {
            assert!(poll(pop, &waker).is_ready());
        }
    }
}

#[test]
fn several_wakers_that_panic_keep_nobody_else_asleep() {
    let queue = Queue::<u8>::new();
    let (bell, waker) = Bell::new();
    let mut pops: Vec<_> = (0..30).map(|_| queue.pop_async()).collect();
    for (n, pop) in pops.iter_mut().enumerate() {
        let waker = match n % 3 {
            0 => &doing(|| std::panic::resume_unwind(Box::new("as planned"))),
            _ => &waker,
        };
        assert_eq!(poll(pop, waker), Poll::Pending);
    }
    assert!(catch_unwind(AssertUnwindSafe(|| queue.close())).is_err());
    assert_eq!(bell.rung(), 20);
    assert!(queue.is_closed());
}

#[test]
fn a_waker_may_use_the_queue() {
    let queue: &'static Queue<u32> = Box::leak(Box::new(Queue::with_segment_slots(2)));
    let seen: &'static Mutex<Vec<Option<u32>>> = Box::leak(Box::new(Mutex::new(Vec::new())));
    let (bell, waker) = Bell::new();
    // Woken by the push of 1, it pops that, pushes others, polls a future of its own, and closes.
    let mut pop = queue.pop_async();
    let busy = doing(move || {
        let popped = queue.pop();
        seen.lock().unwrap().push(popped);
        queue.push_batch(2..10).unwrap();
        let mut inner = queue.pop_async();
        assert_eq!(poll(&mut inner, Waker::noop()), Poll::Ready(Some(2)));
        queue.drain().for_each(drop);
        let mut pending = queue.pop_async();
        assert_eq!(poll(&mut pending, Waker::noop()), Poll::Pending);
        drop(pending);
        queue.push(10).unwrap();
        queue.close();
    });
    assert_eq!(poll(&mut pop, &busy), Poll::Pending);
    let mut next = queue.pop_async();
    assert_eq!(poll(&mut next, &waker), Poll::Pending);
    queue.push(1).unwrap();
    assert_eq!(*seen.lock().unwrap(), [Some(1)]);
    assert!(bell.rung() > 0 && queue.is_closed());
    assert_eq!(poll(&mut pop, &waker), Poll::Ready(Some(10)));
    assert_eq!(poll(&mut next, &waker), Poll::Ready(None));
}

#[test]
fn futures_on_threads_lose_no_wake_up() {
    let count: u64 = if cfg!(miri) { 40 } else { 5_000 };
    for slots in [2, 64] {
        let queue = Queue::with_segment_slots(slots);
        let sum: u64 = thread::scope(|scope| {
            let consumers: Vec<_> = (0..3)
                .map(|id| {
                    let queue = &queue;
                    scope.spawn(move || {
                        let mut sum = 0;
                        while let Some(n) = block_on(async {
                            if id == 0 {
                                // One that is polled once and dropped, woken or not, before the one
                                // that is awaited.
                                let mut early = queue.pop_async();
                                if let Poll::Ready(item) = poll(&mut early, Waker::noop()) {
                                    return item;
                                }
                                thread::yield_now();
                            }
                            queue.pop_async().await
                        }) {
                            sum += n;
                        }
                        sum
                    })
                })
                .collect();
            for n in 0..count {
                queue.push(n).unwrap();
                if n % 4 == 0 {
                    thread::yield_now();
                }
            }
            while !queue.is_empty() {
                thread::yield_now();
            }
            queue.close();
            consumers.into_iter().map(|c| c.join().unwrap()).sum()
        });
        assert_eq!(sum, count * (count - 1) / 2);
    }
}

/// A waker each of whose clones panics when it is dropped.
static LOUD: RawWakerVTable = RawWakerVTable::new(
    |data| RawWaker::new(data, &LOUD),
    |_| {},
    |_| {},
    |_| panic!("this waker is dropped loudly"),
);

#[test]
fn a_pop_whose_waker_panics_in_its_drop_is_dropped_or_polled_by_another_waker() {
    let queue = Queue::<u8>::new();
    let raw = RawWaker::new(std::ptr::null(), &LOUD);
    // SAFETY: the functions of the table use no data.
    let loud = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
    let mut pop = queue.pop_async();
    assert_eq!(poll(&mut pop, &loud), Poll::Pending);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(pop))).is_err());
    let mut pop = queue.pop_async();
    assert_eq!(poll(&mut pop, &loud), Poll::Pending);
    let (bell, waker) = Bell::new();
    let again = catch_unwind(AssertUnwindSafe(|| poll(&mut pop, &waker)));
    assert!(again.is_err());
    assert_eq!(poll(&mut pop, &waker), Poll::Pending);
    queue.push(1).unwrap();
    assert_eq!(bell.rung(), 1);
    assert_eq!(poll(&mut pop, &waker), Poll::Ready(Some(1)));
}
