//! Reactors and their calls: edges, refusals, drops, panics, stops.
#![cfg(not(any(rast_loom, rast_shuttle)))]

mod support;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use rast_reactor::executor::{block_on, yield_now};
use rast_reactor::queue::Full;
use rast_reactor::timers::{ManualClock, Nanos};
use rast_reactor::{
    BuildError, Builder, CallError, Policy, Pool, Reactors, all_results, background_task, current,
    reactor_task, reactors_task, spawn_local, spawn_local_named, try_reactor_task,
};

use support::{LONG, block, builder, on};

fn reactors(number: usize) -> Reactors {
    builder(number).build().unwrap()
}

/// Notes on which thread it is dropped.
struct Dropped(Sender<ThreadId>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(thread::current().id());
    }
}

fn thread_of(reactors: &Reactors, index: usize) -> ThreadId {
    on(reactors, index, || async { thread::current().id() })
}

#[test]
fn what_cannot_be_built_is_an_error() {
    let error = |builder: Builder| builder.build().unwrap_err();
    assert!(matches!(error(builder(0)), BuildError::NoReactors));
    assert!(matches!(error(builder(1025)), BuildError::TooManyReactors));
    let cores = builder(2).cores([0]);
    assert!(matches!(
        error(cores),
        BuildError::Cores {
            reactors: 2,
            cores: 1
        }
    ));
    let missing = builder(1).cores([123_456]);
    assert!(matches!(error(missing), BuildError::MissingCore(123_456)));
    assert!(matches!(error(builder(1).name("a\0")), BuildError::Name));
    for threads in [[4, 3, 0], [0, 0, 0], [1024, 0, 1], [usize::MAX, 1, 1]] {
        let pool = builder(1).pool(Pool::builder().threads(threads));
        assert!(matches!(error(pool), BuildError::Threads), "{threads:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_reactor_is_on_its_core() {
    let allowed = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list:"));
        line.unwrap().split_whitespace().last().unwrap().to_owned()
    };
    let ours = allowed();
    let first: usize = ours.split(['-', ',']).next().unwrap().parse().unwrap();
    let reactors = builder(2).cores([first, first]).build().unwrap();
    for index in 0..2 {
        let theirs = on(&reactors, index, move || async move { allowed() });
        assert_eq!(theirs, first.to_string());
    }
}

#[test]
fn threads_bear_their_names() {
    let reactors = builder(2).name("ads").build().unwrap();
    let name = || async { thread::current().name().map(str::to_owned) };
    assert_eq!(on(&reactors, 1, name).as_deref(), Some("ads-1"));
}

#[test]
fn current_knows_the_reactor_and_nothing_else() {
    let reactors = reactors(2);
    assert!(current().is_none());
    for index in 0..2 {
        let (seen, same) = on(&reactors, index, || async {
            let this = current().unwrap();
            let same = this == spawn_local(async { current().unwrap() }).await.unwrap();
            (this, same)
        });
        assert_eq!((seen.index(), seen.reactors(), same), (index, 2, true));
        assert_eq!(seen, reactors.reactor(index).unwrap());
    }
    assert!(reactors.reactor(2).is_none());
    assert!(reactors.tasks(2).is_none() && reactors.slow_polls(2).is_none());
}

#[test]
fn calls_outside_of_a_reactor_are_named() {
    let message = |call: &mut dyn FnMut()| {
        let payload = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        let text = payload.downcast::<String>().map(|text| *text);
        text.unwrap_or_else(|payload| (*payload.downcast::<&str>().unwrap()).to_owned())
    };
    let calls: [&mut dyn FnMut(); 4] = [
        &mut || spawn_local(async {}).detach(),
        &mut || drop(try_reactor_task(0, || async {})),
        &mut || drop(background_task(Policy::Low, || ())),
        &mut || drop(block_on(reactor_task(0, || async {}))),
    ];
    for call in calls {
        assert!(message(call).contains("no reactor runs on this thread"));
    }
}

#[test]
fn a_slow_poll_is_reported_with_its_task() {
    let clock = ManualClock::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&seen);
    let reactors = builder(2)
        .clock(clock.clone())
        .on_slow_poll(move |slow| {
            let name = slow.name.map(str::to_owned);
            let seen = (slow.reactor, name, slow.line.file(), slow.took);
            theirs.lock().unwrap().push(seen);
            panic!("contained");
        })
        .build()
        .unwrap();
    on(&reactors, 0, move || async move {
        // At the limit, and over it.
        for nanos in [1_000_000, 1_000_001] {
            let clock = clock.clone();
            let task = async move { clock.advance(Nanos::from_nanos(nanos)) };
            spawn_local_named("parser", task).await.unwrap();
        }
        let call = reactor_task(
            1,
            move || async move { clock.advance(Nanos::from_millis(2)) },
        );
        call.await.unwrap();
    });
    let took = Duration::from_nanos(1_000_001);
    let millis = Duration::from_millis(2);
    let seen = seen.lock().unwrap();
    // The task that called may have been in its poll meanwhile.
    assert_eq!(seen[0], (0, Some("parser".to_owned()), file!(), took));
    assert!(seen.contains(&(1, None, file!(), millis)), "{seen:?}");
    assert!(reactors.slow_polls(0).unwrap() >= 1 && reactors.slow_polls(1) == Some(1));
}

#[test]
fn a_stop_is_clean_when_tasks_end_by_themselves() {
    let reactors = reactors(3);
    // A task that hops: at each moment one reactor alone has a task.
    fn hop(left: u32) {
        if left > 0 {
            let here = current().unwrap();
            let next = (here.index() + 1) % here.reactors();
            let reactors = NEXT.lock().unwrap().clone().unwrap();
            reactors[next]
                .spawn(move || async move { hop(left - 1) })
                .detach();
        } else {
            END.lock().unwrap().take().unwrap().send(()).unwrap();
        }
    }
    static NEXT: Mutex<Option<Vec<rast_reactor::Reactor>>> = Mutex::new(None);
    static END: Mutex<Option<Sender<()>>> = Mutex::new(None);
    let handles = (0..3)
        .map(|index| reactors.reactor(index).unwrap())
        .collect();
    *NEXT.lock().unwrap() = Some(handles);
    let (end, ended) = mpsc::channel();
    *END.lock().unwrap() = Some(end);
    reactors
        .reactor(0)
        .unwrap()
        .spawn(|| async { hop(1000) })
        .detach();
    let stopped = reactors.stop(LONG);
    assert!(stopped.is_clean(), "{stopped:?}");
    assert_eq!(ended.try_recv(), Ok(()), "it waited for the last one");
    *NEXT.lock().unwrap() = None;
}

#[test]
fn a_stop_drops_what_does_not_end_on_its_thread_and_names_it() {
    let reactors = reactors(2);
    let (send, dropped) = mpsc::channel();
    let note = Dropped(send);
    let handle = reactors.reactor(1).unwrap();
    let task = handle.spawn_named("forever", move || async move {
        let _note = note;
        let inner = spawn_local(pending::<()>());
        inner.await.unwrap();
    });
    let theirs = thread_of(&reactors, 1);
    let stopped = reactors.stop(Duration::from_millis(1));
    let names: Vec<_> = stopped
        .unfinished
        .iter()
        .map(|task| task.name.as_deref())
        .collect();
    assert_eq!(names, [Some("forever"), None]);
    assert!(stopped.unfinished.iter().all(|task| task.reactor == 1));
    assert_eq!(stopped.unfinished[0].line.file(), file!());
    assert!(!stopped.is_clean());
    assert_eq!(dropped.recv(), Ok(theirs));
    assert!(matches!(block_on(task), Err(CallError::Stopped)));
    // A handle that is left refuses, and drops what it is given.
    let (send, dropped) = mpsc::channel();
    let note = Dropped(send);
    let late = handle.spawn(move || async move { drop(note) });
    assert!(matches!(block_on(late), Err(CallError::Stopped)));
    assert_eq!(dropped.recv(), Ok(thread::current().id()));
}

#[test]
fn a_stop_reports_a_reactor_that_does_not_return() {
    let reactors = reactors(2);
    let handle = reactors.reactor(0).unwrap();
    let release = block(&reactors, 0);
    let waits = handle.spawn(|| async { 1 });
    let stopped = reactors.stop(Duration::from_millis(1));
    assert!(stopped.blocked.contains(&0));
    assert_eq!(stopped.unfinished.len(), 2);
    release.send(()).unwrap();
    // It ends then, and its tasks with it.
    assert!(matches!(block_on(waits), Err(CallError::Stopped) | Ok(1)));
}

#[test]
fn a_stop_on_a_reactor_of_the_set_does_not_wait_for_itself() {
    let reactors = reactors(2);
    let handle = reactors.reactor(0).unwrap();
    let stopped = block_on(handle.spawn(move || async move { reactors.stop(LONG) })).unwrap();
    assert!(stopped.blocked.contains(&0));
    assert_eq!(stopped.unfinished.len(), 1);
}

#[test]
fn dropped_reactors_end_their_tasks() {
    let (send, dropped) = mpsc::channel();
    let reactors = reactors(2);
    for index in 0..2 {
        let note = Dropped(send.clone());
        let task = move || async move {
            let _note = note;
            pending::<()>().await;
        };
        reactors.reactor(index).unwrap().spawn(task).detach();
    }
    drop((reactors, send));
    assert_eq!(dropped.iter().count(), 2);
}

#[test]
fn a_destructor_that_calls_while_its_reactor_ends_is_answered() {
    struct Calls(Sender<bool>);
    impl Drop for Calls {
        fn drop(&mut self) {
            let call = try_reactor_task(0, || async { unreachable!("it has ended") });
            let spawned = spawn_local(async { unreachable!("it has ended") });
            let _ = self.0.send(call.is_ok() && spawned.is_finished());
        }
    }
    let reactors = reactors(1);
    let (send, called) = mpsc::channel();
    let calls = Calls(send);
    let task = move || async move {
        let _calls = calls;
        pending::<()>().await;
    };
    reactors.reactor(0).unwrap().spawn(task).detach();
    let _ = reactors.stop(Duration::ZERO);
    assert_eq!(called.recv(), Ok(true));
}

#[test]
fn panics_go_to_the_caller_and_reactors_go_on() {
    let reactors = reactors(2);
    let payloads = on(&reactors, 0, || async {
        let begins = reactor_task(1, || -> std::future::Ready<()> { panic!("begins") }).await;
        let runs = reactor_task(1, || async {
            yield_now().await;
            panic!("runs")
        });
        let runs: Result<(), _> = runs.await;
        let local: Result<(), _> = spawn_local(async { panic!("local") }).await;
        let pool = background_task(Policy::Low, || -> () { panic!("pool") })
            .ok()
            .unwrap();
        [begins, runs, local, pool.await].map(|result| match result {
            Err(CallError::Panicked(payload)) => *payload.downcast::<&str>().unwrap(),
            other => panic!("{other:?}"),
        })
    });
    assert_eq!(payloads, ["begins", "runs", "local", "pool"]);
    assert_eq!(on(&reactors, 1, || async { 1 }), 1);
}

#[test]
fn a_call_to_nowhere_is_an_error() {
    let reactors = reactors(2);
    let errors = on(&reactors, 0, || async {
        let waits = reactor_task(2, || async {}).await;
        let tries = try_reactor_task(usize::MAX, || async {})
            .ok()
            .unwrap()
            .await;
        [waits, tries].map(|result| matches!(result, Err(CallError::NoReactor)))
    });
    assert_eq!(errors, [true, true]);
}

#[test]
fn a_reactor_calls_itself_and_all_others() {
    let reactors = reactors(3);
    let (itself, others) = on(&reactors, 1, || async {
        let index = || async { current().unwrap().index() };
        (
            reactor_task(1, index).await.unwrap(),
            reactors_task(index).await,
        )
    });
    assert_eq!(itself, 1);
    assert_eq!(
        others.into_iter().map(Result::unwrap).collect::<Vec<_>>(),
        [0, 2]
    );
    let alone = builder(1).build().unwrap();
    assert_eq!(
        on(&alone, 0, || async {
            reactors_task(|| async {}).await.len()
        }),
        0
    );
}

#[test]
fn at_most_1024_calls_are_on_their_way() {
    let reactors = reactors(2);
    let release = block(&reactors, 1);
    let order = on(&reactors, 0, move || async move {
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |n: usize| {
            let order = Arc::clone(&order);
            move || async move { order.lock().unwrap().push(n) }
        };
        let mut calls = Vec::new();
        for n in 0..1024 {
            calls.push(try_reactor_task(1, note(n)).ok().unwrap());
        }
        let Err(Full(refused)) = try_reactor_task(1, note(0)) else {
            panic!("there is no credit")
        };
        // The other pairs have theirs.
        assert!(try_reactor_task(0, || async {}).is_ok());
        // These wait in order; the second gives up.
        let mut waiting: Vec<_> = (1024..1034)
            .map(|n| Some(Box::pin(reactor_task(1, note(n)))))
            .collect();
        for wait in waiting.iter_mut().flatten() {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(wait.as_mut().poll(&mut cx).is_pending());
        }
        waiting[1] = None;
        // Nothing is sent before those that wait.
        release.send(()).unwrap();
        for call in calls {
            call.await.unwrap();
        }
        let waiting = waiting.into_iter().flatten();
        for result in all_results(waiting).await {
            result.unwrap();
        }
        reactor_task(1, refused).await.unwrap();
        let order = order.lock().unwrap().clone();
        // Every credit is back.
        let again: Vec<_> = (0..1024)
            .map(|_| try_reactor_task(1, || async {}).ok().unwrap())
            .collect();
        for call in again {
            call.await.unwrap();
        }
        order
    });
    let mut expected: Vec<usize> = (0..1034).filter(|&n| n != 1025).collect();
    expected.push(0);
    assert_eq!(order, expected);
}

#[test]
fn credits_of_calls_that_are_given_up_come_back() {
    let reactors = reactors(2);
    for round in 0..5 {
        let release = block(&reactors, 1);
        on(&reactors, 0, move || async move {
            let staged: Vec<_> = (0..512)
                .map(|_| try_reactor_task(1, || async {}).ok().unwrap())
                .collect();
            if round % 2 == 0 {
                // Some are sent before they are given up, some after.
                yield_now().await;
            }
            let mut waiting: Vec<_> = (0..1024)
                .map(|_| Box::pin(reactor_task(1, || async {})))
                .collect();
            for wait in &mut waiting {
                let mut cx = Context::from_waker(Waker::noop());
                assert!(wait.as_mut().poll(&mut cx).is_pending());
            }
            drop((staged, waiting));
            release.send(()).unwrap();
            reactor_task(1, || async {}).await.unwrap();
            let all: Vec<_> = (0..1024)
                .map(|_| try_reactor_task(1, || async {}).ok().unwrap())
                .collect();
            for call in all {
                call.await.unwrap();
            }
        });
    }
}

#[test]
fn a_waiter_that_was_served_and_leaves_gives_its_credit_back() {
    let reactors = reactors(2);
    let release = block(&reactors, 1);
    on(&reactors, 0, move || async move {
        let calls: Vec<_> = (0..1024)
            .map(|_| try_reactor_task(1, || async {}).ok().unwrap())
            .collect();
        let mut waiting: Vec<_> = (0..8)
            .map(|_| Box::pin(reactor_task(1, || async {})))
            .collect();
        for wait in &mut waiting {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(wait.as_mut().poll(&mut cx).is_pending());
        }
        release.send(()).unwrap();
        for call in calls {
            call.await.unwrap();
        }
        // The main task has served them, or will; none of them is polled again.
        drop(waiting);
        let all: Vec<_> = (0..1024)
            .map(|_| Box::pin(reactor_task(1, || async {})))
            .collect();
        for result in all_results(all).await {
            result.unwrap();
        }
    });
}

#[test]
fn a_call_that_is_given_up_is_dropped_on_its_target() {
    let reactors = reactors(2);
    let theirs = thread_of(&reactors, 1);
    let release = block(&reactors, 1);
    let (send, dropped) = mpsc::channel();
    let (not_begun, begun) = (Dropped(send.clone()), Dropped(send));
    let (begins, has_begun) = mpsc::channel();
    on(&reactors, 0, move || async move {
        let call = try_reactor_task(1, move || {
            drop(not_begun);
            async { unreachable!("it was given up") }
        });
        let call = call.ok().unwrap();
        yield_now().await;
        drop(call);
        release.send(()).unwrap();
        // This one begins, and waits for ever.
        let waits = reactor_task(1, move || async move {
            let _begun = begun;
            begins.send(()).unwrap();
            pending::<()>().await;
        });
        let mut waits = Box::pin(waits);
        poll_fn(|cx| {
            assert!(waits.as_mut().poll(cx).is_pending());
            if has_begun.try_recv().is_ok() {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    });
    assert_eq!([dropped.recv(), dropped.recv()], [Ok(theirs), Ok(theirs)]);
}

#[test]
fn nested_calls_of_more_than_all_credits_do_not_block_each_other() {
    let reactors = reactors(2);
    let depth_sum = |from: usize| {
        move || async move {
            let calls = (0..1500).map(|n| {
                reactor_task(1 - from, move || async move {
                    let back = reactor_task(from, move || async move {
                        reactor_task(1 - from, move || async move { n })
                            .await
                            .unwrap()
                    });
                    back.await.unwrap()
                })
            });
            let results = all_results(calls).await;
            results.into_iter().map(Result::unwrap).sum::<usize>()
        }
    };
    let sums = [0, 1].map(|from| reactors.reactor(from).unwrap().spawn(depth_sum(from)));
    for sum in sums {
        assert_eq!(block_on(sum).unwrap(), (0..1500).sum());
    }
}

#[test]
fn what_stays_on_a_reactor_is_not_send() {
    let reactors = reactors(1);
    let sum = on(&reactors, 0, || {
        let shared = Rc::new(Cell::new(1));
        async move {
            let theirs = Rc::clone(&shared);
            spawn_local(async move { theirs.set(theirs.get() + 1) })
                .await
                .unwrap();
            shared.get()
        }
    });
    assert_eq!(sum, 2);
}

#[test]
fn an_abort_ends_a_task() {
    let reactors = reactors(1);
    let task = reactors.reactor(0).unwrap().spawn(pending::<()>);
    task.abort();
    assert!(matches!(block_on(task), Err(CallError::Stopped)));
    assert_eq!(on(&reactors, 0, || async { 1 }), 1);
}

#[test]
fn all_results_polls_those_that_were_woken() {
    let polls = Rc::new(RefCell::new(vec![0; 100]));
    let wakers = Rc::new(RefCell::new(vec![None::<Waker>; 100]));
    let futures = (0..100).map(|n| {
        let (polls, wakers) = (Rc::clone(&polls), Rc::clone(&wakers));
        poll_fn(move |cx| {
            polls.borrow_mut()[n] += 1;
            match wakers.borrow_mut()[n].replace(cx.waker().clone()) {
                None => Poll::Pending,
                Some(_) => Poll::Ready(n),
            }
        })
    });
    let mut all = pin!(all_results(futures));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(all.as_mut().poll(&mut cx).is_pending());
    assert!(all.as_mut().poll(&mut cx).is_pending(), "none was woken");
    let wake = |n: usize| {
        let waker = wakers.borrow()[n].clone().unwrap();
        waker.wake_by_ref();
        waker.wake();
    };
    wake(7);
    assert!(all.as_mut().poll(&mut cx).is_pending());
    assert_eq!(polls.borrow()[7], 2);
    assert_eq!(polls.borrow().iter().sum::<i32>(), 101);
    // One that is ready may be woken again.
    wake(7);
    (0..100).filter(|&n| n != 7).for_each(wake);
    let Poll::Ready(results) = all.as_mut().poll(&mut cx) else {
        panic!("all are ready")
    };
    assert_eq!(results, (0..100).collect::<Vec<_>>());
    assert!(catch_unwind(AssertUnwindSafe(|| all.as_mut().poll(&mut cx))).is_err());
}

/// A future, or an output, that panics when it is dropped.
struct Loud<'a>(&'a Cell<u32>);

impl Drop for Loud<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
        panic!("it is dropped loudly");
    }
}

#[test]
fn all_results_may_have_several_futures_that_panic_when_they_are_dropped() {
    let drops = Cell::new(0);
    let future = |is_ready: bool| {
        let loud = Loud(&drops);
        async move {
            if !is_ready {
                pending::<()>().await;
            }
            loud
        }
    };
    let mut all = Box::pin(all_results([true, true, false, false].map(future)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(all.as_mut().poll(&mut cx).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(all))).is_err());
    assert_eq!(drops.get(), 4);
}

#[test]
fn background_tasks_that_are_staged_count_against_the_bound() {
    let pool = Pool::builder().threads([0, 0, 1]).capacity(2);
    let reactors = Reactors::builder().number(1).pool(pool).build().unwrap();
    let results = on(&reactors, 0, || async {
        let mut calls = Vec::new();
        for n in 0..2 {
            calls.push(background_task(Policy::High, move || n).ok().unwrap());
        }
        let Err(Full(refused)) = background_task(Policy::High, || 7) else {
            panic!("two are staged")
        };
        assert_eq!(refused(), 7);
        // The other policies have their own bounds.
        assert!(background_task(Policy::Low, || 0).is_ok());
        all_results(calls).await
    });
    assert_eq!(
        results.into_iter().map(Result::unwrap).collect::<Vec<_>>(),
        [0, 1]
    );
}

#[test]
fn closures_of_a_storm_are_each_dropped_once() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts its drops.
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for seed in 1..=6_u64 {
        let reactors = reactors(3);
        let (made, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let begun = Arc::new(AtomicUsize::new(0));
        for index in 0..3 {
            let (made, dropped) = (Arc::clone(&made), Arc::clone(&dropped));
            let begun = Arc::clone(&begun);
            let task = move || async move {
                let mut random = seed * 31 + index as u64;
                loop {
                    begun.fetch_add(1, Ordering::Relaxed);
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let (target, kind) = ((random >> 33) as usize % 3, (random >> 40) % 5);
                    made.fetch_add(1, Ordering::Relaxed);
                    let count = Count(Arc::clone(&dropped));
                    let call = try_reactor_task(target, move || async move {
                        let _count = count;
                        match kind {
                            0 => std::panic::resume_unwind(Box::new("storm")),
                            1 => pending().await,
                            2 => yield_now().await,
                            3 => {
                                let _ = reactor_task((target + 1) % 3, || async {}).await;
                            }
                            _ => {}
                        }
                    });
                    match (call, kind) {
                        // Given up before it is sent, or at some later step.
                        (Ok(call), 1) => {
                            if random & 1 == 0 {
                                yield_now().await;
                            }
                            drop(call);
                        }
                        (Ok(call), 0) => {
                            assert!(matches!(call.await, Err(CallError::Panicked(_))));
                        }
                        (Ok(call), _) => call.await.unwrap(),
                        (Err(Full(refused)), _) => drop(refused),
                    }
                }
            };
            reactors.reactor(index).unwrap().spawn(task).detach();
        }
        while begun.load(Ordering::Relaxed) < 3_000 {
            thread::yield_now();
        }
        let stopped = reactors.stop(Duration::ZERO);
        assert_eq!(stopped.unfinished.len(), 3, "seed {seed}");
        // A reactor that the system did not run counts as blocked, and ends a little later.
        let counts = || {
            (
                made.load(Ordering::Relaxed),
                dropped.load(Ordering::Relaxed),
            )
        };
        while Arc::strong_count(&made) > 1 || counts().0 != counts().1 {
            thread::yield_now();
        }
        assert_eq!(counts().0, counts().1, "seed {seed}");
    }
}
