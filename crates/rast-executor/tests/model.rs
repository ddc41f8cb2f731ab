//! Random operations on tasks against what they must come to: each future is dropped once, each
//! output is what was returned, and an aborted task returns an error or its output.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use rast_executor::{Deterministic, JoinHandle, sleep, spawn_local, timeout, yield_now};

#[derive(Clone, Debug)]
enum Op {
    Spawn { steps: u8, panics: bool },
    Wake(usize),
    Abort(usize),
    Detach(usize),
    Await(usize),
    Sleep(u8),
    Yield,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0_u8..4, prop::bool::weighted(0.1)).prop_map(|(steps, panics)| Op::Spawn { steps, panics }),
        3 => any::<usize>().prop_map(Op::Wake),
        1 => any::<usize>().prop_map(Op::Abort),
        1 => any::<usize>().prop_map(Op::Detach),
        1 => any::<usize>().prop_map(Op::Await),
        1 => (0_u8..5).prop_map(Op::Sleep),
        2 => Just(Op::Yield),
    ]
}

/// What the oracle knows of a task.
#[derive(Default)]
struct Seen {
    polls: u32,
    wakes: u32,
    is_dropped: bool,
    is_ready: bool,
    panics: bool,
    is_aborted: bool,
    waker: Option<Waker>,
}

struct Noted(Rc<RefCell<Seen>>);

impl Drop for Noted {
    fn drop(&mut self) {
        let mut seen = self.0.borrow_mut();
        assert!(!seen.is_dropped, "a future is dropped once");
        seen.is_dropped = true;
    }
}

/// Needs so many wake-ups; returns its number.
async fn task(number: usize, steps: u8, panics: bool, noted: Noted) -> usize {
    let mut left = steps;
    let seen = Rc::clone(&noted.0);
    poll_fn(move |cx| {
        let mut seen = seen.borrow_mut();
        assert!(!seen.is_dropped && !seen.is_ready, "polled after its end");
        seen.polls += 1;
        assert!(seen.polls <= seen.wakes + 1, "a poll without a wake-up");
        seen.waker = Some(cx.waker().clone());
        if left == 0 {
            seen.is_ready = true;
            return Poll::Ready(());
        }
        left -= 1;
        Poll::Pending
    })
    .await;
    assert!(!panics, "as the test asked for");
    number
}

fn check(result: Result<usize, rast_executor::JoinError>, number: usize, seen: &Seen) {
    assert!(
        seen.is_dropped,
        "the future is gone before the handle is ready"
    );
    match result {
        Ok(output) => assert!(output == number && seen.is_ready && !seen.panics),
        Err(error) if error.is_panic() => assert!(seen.panics && seen.is_ready),
        Err(_) => assert!(seen.is_aborted && !seen.is_ready),
    }
}

/// A task as the oracle sees it, and its handle until that is used up.
type Known = (Rc<RefCell<Seen>>, Option<JoinHandle<usize>>);

async fn run(ops: Vec<Op>) {
    let mut tasks: Vec<Known> = Vec::new();
    for op in ops {
        let count = tasks.len();
        match op {
            Op::Spawn { steps, panics } => {
                let seen = Rc::new(RefCell::new(Seen {
                    panics,
                    ..Seen::default()
                }));
                let noted = Noted(Rc::clone(&seen));
                let handle = spawn_local(task(count, steps, panics, noted));
                tasks.push((seen, Some(handle)));
            }
            Op::Wake(at) if count > 0 => {
                let seen = &tasks[at % count].0;
                let waker = seen.borrow_mut().waker.take();
                if let Some(waker) = waker {
                    seen.borrow_mut().wakes += 1;
                    waker.wake();
                }
            }
            Op::Abort(at) if count > 0 => {
                if let (seen, Some(handle)) = &tasks[at % count] {
                    seen.borrow_mut().is_aborted |= !handle.is_finished();
                    handle.abort();
                }
            }
            Op::Detach(at) if count > 0 => {
                if let Some(handle) = tasks[at % count].1.take() {
                    handle.detach();
                }
            }
            Op::Await(at) if count > 0 => {
                let number = at % count;
                if let Some(handle) = &mut tasks[number].1
                    && let Ok(result) = timeout(Duration::from_millis(1), handle).await
                {
                    check(result, number, &tasks[number].0.borrow());
                    tasks[number].1 = None;
                }
            }
            Op::Sleep(millis) => sleep(Duration::from_millis(millis.into())).await,
            Op::Yield => yield_now().await,
            _ => {}
        }
    }
    // Every task is woken to its end.
    for (number, (seen, handle)) in tasks.iter_mut().enumerate() {
        while !seen.borrow().is_dropped {
            let waker = seen.borrow_mut().waker.take();
            if let Some(waker) = waker {
                seen.borrow_mut().wakes += 1;
                waker.wake_by_ref();
                drop(waker);
            }
            yield_now().await;
        }
        if let Some(handle) = handle.take() {
            check(handle.await, number, &seen.borrow());
        }
    }
}

/// Panics of tasks are part of the test; their messages are not.
fn quietly() {
    std::panic::set_hook(Box::new(|info| {
        if !info.to_string().contains("as the test asked for") {
            eprintln!("{info}");
        }
    }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn tasks_end_as_the_oracle_says(seed: u64, ops in prop::collection::vec(op(), 0..60)) {
        quietly();
        Deterministic::new(seed).run(run(ops));
    }
}

#[test]
fn ten_thousand_seeds() {
    // One scenario, whose order is the seed's: producers, consumers, an abort and a time limit.
    for seed in 0..10_000 {
        let sum = Deterministic::new(seed).run(async {
            let items = Rc::new(RefCell::new(Vec::new()));
            let wakers = Rc::new(RefCell::new(Vec::<Waker>::new()));
            let producers: Vec<_> = (0..3)
                .map(|n| {
                    let (items, wakers) = (Rc::clone(&items), Rc::clone(&wakers));
                    spawn_local(async move {
                        for item in 0..3 {
                            items.borrow_mut().push(n * 3 + item);
                            wakers.borrow_mut().drain(..).for_each(Waker::wake);
                            if item == n {
                                sleep(Duration::from_millis(n)).await;
                            } else {
                                yield_now().await;
                            }
                        }
                    })
                })
                .collect();
            let consumer = spawn_local(async move {
                let (mut count, mut sum) = (0, 0);
                while count < 9 {
                    poll_fn(|cx| {
                        if items.borrow().is_empty() {
                            wakers.borrow_mut().push(cx.waker().clone());
                            Poll::Pending
                        } else {
                            Poll::Ready(())
                        }
                    })
                    .await;
                    for item in items.borrow_mut().drain(..) {
                        count += 1;
                        sum += item;
                    }
                }
                sum
            });
            let idler = spawn_local(std::future::pending::<()>());
            idler.abort();
            assert!(idler.await.unwrap_err().is_cancelled(), "seed {seed}");
            for producer in producers {
                producer.await.unwrap();
            }
            timeout(Duration::from_secs(1), consumer).await
        });
        assert_eq!(sum.expect("in time").unwrap(), 36, "seed {seed}");
    }
}
