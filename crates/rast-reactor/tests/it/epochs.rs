//! Epochs: what is destroyed when and where, stalled and stopped reactors, limits, reports, and the
//! faults of FASTER's epochs.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::support::{LONG, Live, Value, block, builder, on, own, put, reactors, turn, update};
use rast_reactor::executor::{block_on, yield_now};
use rast_reactor::registry::{
    Id, NotCommitted, Read, Resources, change, defer, read, retired, room,
};
use rast_reactor::timers::{Clock, Instant, ManualClock, Nanos};
use rast_reactor::{current, reactor_task, spawn_local, try_reactor_task};

/// Waits until so many values are left.
async fn until(live: &Live, count: usize) {
    while live.count() != count {
        yield_now().await;
    }
}

#[test]
fn the_end_of_an_inner_transaction_is_not_that_of_the_outer_one() {
    let (reactors, live) = reactors(2, own);
    let theirs = live.clone();
    let id = on(&reactors, 0, move || async move {
        put(1, theirs.value(1)).await
    });
    let (go, gone) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let reader = reactors.reactor(1).unwrap().spawn(move || async move {
        let outer = read();
        let value = outer.get(id).unwrap();
        // FASTER's `ReentrantProtect` does not count: the end of the inner one ends both.
        drop(read());
        drop([read(), read()]);
        begun.send(()).unwrap();
        while gone.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            yield_now().await;
            drop(read());
        }
        assert_eq!(value.number(), 1);
    });
    begins.recv().unwrap();
    let theirs = live.clone();
    on(&reactors, 0, move || async move {
        for n in 2..10 {
            update(id, n).commit().unwrap().await;
        }
        turn().await;
        assert_eq!(
            theirs.count(),
            9,
            "the first is read, and so what came later is kept"
        );
        assert!(retired() >= 8 * size_of::<Value>());
    });
    drop(go);
    block_on(reader).unwrap();
    on(&reactors, 0, move || async move { until(&live, 1).await });
}

#[test]
fn a_commit_at_the_limit_returns_its_changes_and_blocks_no_one() {
    const LIMIT: usize = 1 << 20;
    let (reactors, live) = reactors(2, |resources| own(resources).retired_max(LIMIT));
    let theirs = live.clone();
    let id = on(&reactors, 0, move || async move {
        let mut value = theirs.value(0);
        value.bytes = LIMIT / 10;
        put(1, value).await
    });
    let held = on(&reactors, 1, || async { hold() });
    let threads = on(&reactors, 0, move || async move {
        let mut number = 0;
        let changes = loop {
            number += 1;
            match update(id, number).commit() {
                Ok(committed) => committed.await,
                Err(NotCommitted::Full(changes)) => break changes,
                Err(error) => panic!("{error:?}"),
            }
        };
        // Its action runs on no other thread, and nothing sleeps in between.
        assert!((10..=11).contains(&number), "{number}");
        assert!(retired() >= LIMIT && defer(|| panic!("it is refused")).is_err());
        assert_eq!(read().get(id).unwrap().number(), number - 1);
        let mut waits = Box::pin(room());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        drop(waits);
        let free = spawn_local(async move {
            reactor_task(1, move || async move { let_go(held) })
                .await
                .unwrap();
        });
        room().await;
        free.await.unwrap();
        changes.commit().unwrap().await;
        assert_eq!(read().get(id).unwrap().number(), number);
        until(&live, 1).await;
        live.dropped()
    });
    let owner = on(&reactors, 0, || async { thread::current().id() });
    assert!(threads.len() > 10 && threads.iter().all(|&thread| thread == owner));
}

thread_local! {
    static HELD: RefCell<Vec<Option<Read>>> = const { RefCell::new(Vec::new()) };
}

/// Opens a transaction and keeps it.
fn hold() -> usize {
    HELD.with(|held| {
        held.borrow_mut().push(Some(read()));
        held.borrow().len() - 1
    })
}

fn let_go(place: usize) {
    let read = HELD.with(|held| held.borrow_mut()[place].take());
    drop(read);
}

#[test]
fn an_owner_that_waits_for_room_does_not_keep_itself_from_it() {
    // The changes are older than what is retired, and wait for room with it.
    let (reactors, live) = reactors(1, |resources| own(resources).retired_max(1));
    on(&reactors, 0, move || async move {
        let ids = [put(1, live.value(0)).await, put(2, live.value(0)).await];
        for n in 1..100 {
            room().await;
            let old = update(ids[1], n);
            update(ids[0], n).commit().unwrap().await;
            let mut old = old;
            loop {
                match old.commit() {
                    Ok(committed) => break committed.await,
                    Err(NotCommitted::Full(changes)) => old = changes,
                    Err(error) => panic!("{error:?}"),
                }
                room().await;
            }
        }
        room().await;
        assert_eq!(ids.map(|id| read().get(id).unwrap().number()), [99, 99]);
        until(&live, 2).await;
    });
}

#[test]
fn changes_that_wait_for_room_keep_nothing() {
    let (reactors, live) = reactors(1, |resources| own(resources).retired_max(1));
    on(&reactors, 0, move || async move {
        let ids = [put(1, live.value(0)).await, put(2, live.value(0)).await];
        drop(update(ids[0], 1).commit().unwrap());
        // Both are refused, and then wait while the other one commits.
        let writers = ids.map(|id| {
            spawn_local(async move {
                for n in 2..200 {
                    let mut changes = update(id, n);
                    loop {
                        match changes.commit() {
                            Ok(committed) => break committed.await,
                            Err(NotCommitted::Full(full)) => changes = full,
                            Err(error) => panic!("{error:?}"),
                        }
                        room().await;
                    }
                }
            })
        });
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(ids.map(|id| read().get(id).unwrap().number()), [199, 199]);
    });
}

#[test]
fn changes_that_go_on_after_a_refusal_conflict_with_nothing_that_they_have_seen() {
    let (reactors, live) = reactors(1, |resources| own(resources).retired_max(1));
    on(&reactors, 0, move || async move {
        let mut ids = Vec::new();
        for key in 0..3 {
            ids.push(put(key, live.value(0)).await);
        }
        let mut changes = update(ids[0], 1);
        drop(update(ids[1], 1).commit().unwrap());
        let Err(NotCommitted::Full(full)) = changes.commit() else {
            panic!("a value is retired that a transaction may read");
        };
        changes = full;
        room().await;
        // What the changes copy now has been committed after the refusal.
        for id in [ids[1], ids[2]] {
            update(id, 7).commit().unwrap().await;
            room().await;
        }
        changes.update(ids[1], |value| value.number += 1).unwrap();
        changes.remove(ids[2]).unwrap();
        changes.insert(2, live.value(9)).unwrap();
        let mut again = changes;
        loop {
            match again.commit() {
                Ok(committed) => break committed.await,
                Err(NotCommitted::Full(full)) => again = full,
                Err(error) => panic!("{error:?}"),
            }
            room().await;
        }
        let read = read();
        assert_eq!(
            [ids[0], ids[1]].map(|id| read.get(id).unwrap().number()),
            [1, 8]
        );
        assert_eq!(read.find::<Value, _>(&2).unwrap().1.number(), 9);
        drop(read);
        // What they copied before is in conflict with what another has committed since.
        let mut old = update(ids[0], 2);
        drop(update(ids[1], 9).commit().unwrap());
        let Err(NotCommitted::Full(full)) = old.commit() else {
            panic!("a value is retired that a transaction may read");
        };
        old = full;
        room().await;
        update(ids[0], 3).commit().unwrap().await;
        room().await;
        old.update(ids[0], |value| value.number += 1).unwrap();
        assert!(matches!(old.commit(), Err(NotCommitted::Conflict(_))));
    });
}

#[test]
fn a_parked_reactor_is_waited_for_by_no_commit() {
    let (reactors, live) = reactors(2, own);
    on(&reactors, 1, || async {});
    let theirs = live.clone();
    on(&reactors, 0, move || async move {
        let id = put(1, theirs.value(0)).await;
        // Reactor 1 has nothing to do, and is woken seldom: what it has not applied stays bounded.
        for n in 1..20_000 {
            update(id, n).commit().unwrap().await;
        }
        until(&theirs, 1).await;
        // All of it would be over 2 MiB.
        while retired() > 512 << 10 {
            yield_now().await;
        }
        let number = reactor_task(1, move || async move { read().get(id).unwrap().number() });
        assert_eq!(number.await.unwrap(), 19_999);
    });
}

#[test]
fn a_transaction_of_a_parked_reactor_is_kept() {
    let (reactors, live) = reactors(2, own);
    let theirs = live.clone();
    let id = on(&reactors, 0, move || async move {
        put(1, theirs.value(1)).await
    });
    let (go, waits) = std_oneshot();
    let reader = reactors.reactor(1).unwrap().spawn(move || async move {
        let read = read();
        waits.await;
        read.get(id).unwrap().number()
    });
    on(&reactors, 1, || async {});
    let theirs = live.clone();
    on(&reactors, 0, move || async move {
        update(id, 2).commit().unwrap().await;
        turn().await;
        assert_eq!(theirs.count(), 2);
    });
    go();
    assert_eq!(block_on(reader).unwrap(), 1);
    on(&reactors, 0, move || async move { until(&live, 1).await });
}

/// A future, and what completes it.
fn std_oneshot() -> (impl FnOnce() + Send, impl Future<Output = ()> + Send) {
    let place = Arc::new(Mutex::new((false, None::<Waker>)));
    let theirs = Arc::clone(&place);
    let future = poll_fn(move |cx| {
        let mut place = theirs.lock().unwrap();
        place.1 = Some(cx.waker().clone());
        if place.0 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    let complete = move || {
        let mut place = place.lock().unwrap();
        place.0 = true;
        let waker = place.1.take();
        drop(place);
        waker.into_iter().for_each(Waker::wake);
    };
    (complete, future)
}

#[test]
fn a_commit_waits_for_a_reactor_that_is_blocked_and_not_for_one_that_stopped() {
    let (reactors, live) = reactors(3, own);
    let release = block(&reactors, 1);
    on(&reactors, 0, move || async move {
        let mut changes = change();
        let id = changes.insert(1, live.value(1)).unwrap();
        let mut committed = Box::pin(changes.commit().unwrap());
        turn().await;
        let mut cx = Context::from_waker(Waker::noop());
        assert!(committed.as_mut().poll(&mut cx).is_pending());
        // Dropped in the middle it is committed all the same.
        drop(committed);
        assert_eq!(read().get(id).unwrap().number(), 1);
        let second = update(id, 2).commit().unwrap();
        let see = move || async move { read().get(id).map(Value::number) };
        while reactor_task(2, see).await.unwrap() != Some(2) {}
        drop(release);
        second.await;
        let seen = reactor_task(1, move || async move { read().get(id).unwrap().number() });
        assert_eq!(seen.await.unwrap(), 2);
    });
}

#[test]
fn all_is_destroyed_once_when_reactors_stop_in_any_state() {
    for blocked in [None, Some(0), Some(1)] {
        let (reactors, live) = reactors(2, own);
        let theirs = live.clone();
        let id = on(&reactors, 0, move || async move {
            let id = put(1, theirs.value(1)).await;
            put(2, theirs.value(1)).await;
            id
        });
        for index in [0, 1] {
            let task = reactors.reactor(index).unwrap().spawn(move || async move {
                struct Reads(Read, Id<Value>);
                impl Drop for Reads {
                    fn drop(&mut self) {
                        assert_eq!(self.0.get(self.1).unwrap().number(), 1);
                        assert!(read().get(self.1).is_some());
                    }
                }
                let _across = Reads(read(), id);
                pending::<()>().await;
            });
            task.detach();
            on(&reactors, index, || async {});
        }
        on(&reactors, 1, || async { hold() });
        on(&reactors, 0, move || async move {
            drop(update(id, 2).commit().unwrap())
        });
        let release = blocked.map(|index| block(&reactors, index));
        let stopped = reactors.stop(Duration::ZERO);
        assert_eq!(stopped.blocked, Vec::from_iter(blocked));
        if blocked.is_none() {
            // Also what a thread-local of the thread has kept.
            assert_eq!(live.count(), 0, "{blocked:?}");
        }
        drop(release);
        while live.count() > 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn a_transaction_that_is_forgotten_keeps_what_it_sees() {
    let (reactors, live) = reactors(2, own);
    let theirs = live.clone();
    let seen = on(&reactors, 0, move || async move {
        let id = put(1, theirs.value(1)).await;
        let read = std::mem::ManuallyDrop::new(read());
        let seen = core::ptr::from_ref(read.get(id).unwrap()) as usize;
        update(id, 2).commit().unwrap().await;
        turn().await;
        seen
    });
    assert!(reactors.stop(LONG).is_clean());
    assert_eq!(live.count(), 2);
    // SAFETY: the transaction is open for ever.
    let value = unsafe { &*(seen as *const Value) };
    assert_eq!(value.number(), 1);
}

#[test]
fn destructors_may_panic_read_commit_and_spawn() {
    let (reactors, live) = reactors(2, own);
    let runs = Arc::new(AtomicUsize::new(0));
    let (theirs, count) = (live.clone(), Arc::clone(&runs));
    on(&reactors, 0, move || async move {
        let other = put(2, theirs.value(0)).await;
        let mut value = theirs.value(1);
        value.in_drop = Some(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            if current().is_none() {
                return;
            }
            let number = read().get(other).unwrap().number();
            let committed = update(other, number + 1).commit().unwrap();
            spawn_local(committed).detach();
            panic!("a destructor does");
        }));
        let id = put(1, value).await;
        for n in 2..=10 {
            update(id, n).commit().unwrap().await;
        }
        until(&theirs, 2).await;
        while read().get(other).unwrap().number() != 9 {
            yield_now().await;
        }
    });
    assert!(reactors.stop(LONG).is_clean());
    assert_eq!((live.count(), runs.load(Ordering::Relaxed)), (0, 10));
}

#[test]
fn destructors_that_commit_at_the_limit_do_not_nest() {
    let (reactors, live) = reactors(1, |resources| own(resources).retired_max(1));
    let depth = Arc::new(AtomicUsize::new(0));
    on(&reactors, 0, move || async move {
        let other = put(2, live.value(0)).await;
        let mut value = live.value(1);
        value.in_drop = Some(Arc::new(move || {
            assert_eq!(depth.fetch_add(1, Ordering::Relaxed), 0);
            if current().is_some() {
                drop(update(other, 1).commit());
            }
            depth.fetch_sub(1, Ordering::Relaxed);
        }));
        let id = put(1, value).await;
        for n in 0..1000 {
            match update(id, n).commit() {
                Ok(committed) => drop(committed),
                Err(_) => room().await,
            }
        }
        room().await;
    });
}

#[test]
fn actions_are_called_by_the_owner_after_the_transactions_that_were_open() {
    let (reactors, _) = reactors(2, own);
    let held = on(&reactors, 1, || async { hold() });
    let is_called = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&is_called);
    on(&reactors, 0, move || async move {
        let owner = thread::current().id();
        let called = Arc::clone(&theirs);
        let action = move || {
            assert_eq!(thread::current().id(), owner);
            called.store(true, Ordering::Relaxed);
            panic!("it is contained");
        };
        defer(action).unwrap_or_else(|_| panic!("there is room"));
        // One that is opened when reactor 1 has come so far does not hold it up.
        change().commit().unwrap().await;
        let later = reactor_task(1, || async { hold() }).await.unwrap();
        assert!(!theirs.load(Ordering::Relaxed));
        reactor_task(1, move || async move { let_go(held) })
            .await
            .unwrap();
        while !theirs.load(Ordering::Relaxed) {
            yield_now().await;
        }
        reactor_task(1, move || async move { let_go(later) })
            .await
            .unwrap();
    });
    // One that the owner does not come to is called at the end of all.
    let (sender, receiver) = mpsc::channel();
    on(&reactors, 1, || async { hold() });
    on(&reactors, 0, move || async move {
        defer(move || sender.send(()).unwrap()).unwrap_or_else(|_| panic!("there is room"));
    });
    assert!(reactors.stop(LONG).is_clean());
    assert_eq!(receiver.recv(), Ok(()));
}

#[test]
fn an_owner_that_sleeps_destroys_when_the_last_transaction_ends() {
    let (reactors, live) = reactors(2, own);
    let theirs = live.clone();
    let id = on(&reactors, 0, move || async move {
        put(1, theirs.value(1)).await
    });
    let held = on(&reactors, 1, || async { hold() });
    on(&reactors, 0, move || async move {
        drop(update(id, 2).commit().unwrap())
    });
    on(&reactors, 1, move || async move { let_go(held) });
    // No task runs on the owner: the reader wakes it.
    while live.count() > 1 {
        thread::yield_now();
    }
}

#[test]
fn a_long_transaction_is_reported_once_with_its_task_and_line() {
    let clock = ManualClock::new();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&reports);
    let resources = own(Resources::new()).on_long_read(move |long| {
        let name = long.name.map(str::to_owned);
        let task = long.task.map(|task| task.line());
        let report = (long.reactor, name, task, long.line.line(), long.open);
        theirs.lock().unwrap().push(report);
        panic!("it is contained");
    });
    let builder = builder(2).resources(resources).clock(clock.clone());
    let reactors = builder.build().unwrap();
    let reactor = reactors.reactor(1).unwrap();
    let line = line!() + 1;
    let slow = reactor.spawn_named("slow", || async {
        let _read = read();
        pending::<()>().await;
    });
    on(&reactors, 1, || async { hold() });
    let held = line!() - 1;
    on(&reactors, 1, || async { turn().await });
    assert_eq!(reactors.long_reads(1), Some(0));
    clock.advance(Nanos::from_nanos(1_000_000_000));
    on(&reactors, 1, || async { turn().await });
    assert_eq!(
        reactors.long_reads(1),
        Some(0),
        "it is open for the limit, and not longer"
    );
    clock.advance(Nanos::from_nanos(500_000_000));
    on(&reactors, 1, || async { turn().await });
    on(&reactors, 1, || async { turn().await });
    assert_eq!(
        (reactors.long_reads(0), reactors.long_reads(1)),
        (Some(0), Some(2))
    );
    assert_eq!(reactors.long_reads(2), None);
    let open = Duration::from_millis(1500);
    let in_hold = line_of_hold();
    let expected = [
        (1, Some("slow".to_owned()), Some(line), line + 1, open),
        (1, None, Some(held), in_hold, open),
    ];
    assert_eq!(*reports.lock().unwrap(), expected);
    slow.abort();
}

/// The line of the `read` in `hold`.
fn line_of_hold() -> u32 {
    let source = include_str!("epochs.rs");
    let line = source
        .lines()
        .position(|line| line.contains("push(Some(read()))"));
    u32::try_from(line.unwrap() + 1).unwrap()
}

#[test]
fn a_reactor_that_sleeps_reports_too() {
    let (sender, receiver) = mpsc::channel();
    let resources = own(Resources::new())
        .long_read(Duration::from_millis(1))
        .on_long_read(move |long| sender.send(long.reactor).unwrap());
    let reactors = builder(2).resources(resources).build().unwrap();
    let task = reactors.reactor(1).unwrap().spawn(|| async {
        let _read = read();
        pending::<()>().await;
    });
    assert_eq!(receiver.recv(), Ok(1));
    task.abort();
}

#[test]
fn a_report_wakes_tasks_of_its_reactor_whenever_it_comes() {
    /// A clock that is a millisecond later each time.
    struct Steps(AtomicU64);
    impl Clock for Steps {
        fn now(&self) -> Instant {
            Instant::from_nanos(self.0.fetch_add(1_000_000, Ordering::Relaxed))
        }
    }
    #[derive(Default)]
    struct Reported {
        is_set: bool,
        waker: Option<Waker>,
    }
    // The report is due at each reading of the clock in a turn, one after the other.
    for limit in 1..40 {
        let reported = Arc::new(Mutex::new(Reported::default()));
        let theirs = Arc::clone(&reported);
        let resources = own(Resources::new())
            .long_read(Duration::from_millis(limit))
            .on_long_read(move |_| {
                let waker = {
                    let mut reported = theirs.lock().unwrap();
                    reported.is_set = true;
                    reported.waker.take()
                };
                waker.into_iter().for_each(Waker::wake);
            });
        let builder = builder(1).resources(resources);
        let reactors = builder.clock(Steps(AtomicU64::new(0))).build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let task = reactors.reactor(0).unwrap().spawn(move || async move {
            let _read = read();
            poll_fn(|cx| {
                let mut reported = reported.lock().unwrap();
                if reported.is_set {
                    return Poll::Ready(());
                }
                reported.waker = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            sender.send(()).unwrap();
        });
        let woken = receiver.recv_timeout(LONG);
        assert!(woken.is_ok(), "a limit of {limit} ms");
        block_on(task).unwrap();
    }
}

#[test]
fn what_a_deferred_action_calls_is_sent_before_its_reactor_sleeps() {
    let (reactors, _) = reactors(2, own);
    let (sender, receiver) = mpsc::channel();
    on(&reactors, 0, move || async move {
        let action = move || {
            let call = try_reactor_task(1, move || async move { sender.send(()).unwrap() });
            // A call that is dropped is given up.
            std::mem::forget(call);
        };
        defer(action).unwrap_or_else(|_| panic!("there is room"));
    });
    receiver.recv_timeout(LONG).unwrap();
}

#[test]
fn transactions_end_in_any_order() {
    let (reactors, live) = reactors(1, own);
    on(&reactors, 0, move || async move {
        let id = put(1, live.value(0)).await;
        let mut open: Vec<(u64, Read)> = Vec::new();
        let mut seed = 7_u64;
        for n in 1..2_000 {
            open.push((n - 1, read()));
            drop(update(id, n).commit().unwrap());
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 33) as usize % open.len();
            for (then, read) in [&open[at], &open[0]] {
                assert_eq!(read.get(id).unwrap().number(), *then);
                assert_eq!(read.find::<Value, _>(&1).unwrap().1.number(), *then);
            }
            if n % 3 > 0 {
                drop(open.swap_remove(at));
            }
            if n % 50 == 0 {
                turn().await;
                let oldest = open.iter().map(|open| open.0).min().unwrap();
                assert!(live.count() as u64 <= n - oldest + 1 + 256, "{oldest} {n}");
            }
        }
        open.clear();
        until(&live, 1).await;
    });
}

#[test]
fn a_commit_is_polled_outside_of_its_task() {
    let (reactors, live) = reactors(2, own);
    let release = block(&reactors, 1);
    on(&reactors, 0, move || async move {
        let mut changes = change();
        changes.insert(1, live.value(1)).unwrap();
        let mut committed = pin!(changes.commit().unwrap());
        let polls = Cell::new(0);
        let mut release = Some(release);
        poll_fn(|cx| {
            polls.set(polls.get() + 1);
            let poll = committed.as_mut().poll(cx);
            release.take();
            poll
        })
        .await;
        assert!(polls.get() >= 1);
    });
}

#[test]
fn a_hundred_thousand_commits_of_one_key_leave_nothing() {
    const COMMITS: u64 = 100_000;
    let (reactors, live) = reactors(3, own);
    on(&reactors, 0, move || async move {
        let id = put(1, live.value(0)).await;
        // One reactor sleeps all the while, and one has had a transaction open.
        let held = reactor_task(1, || async { hold() }).await.unwrap();
        let mut most = 0;
        for n in 1..=COMMITS {
            drop(update(id, n).commit().unwrap());
            most = most.max(retired());
            if n % 1000 == 0 {
                yield_now().await;
            }
            if n == COMMITS / 10 {
                assert_eq!(live.count() as u64, n + 1);
                let let_go = reactor_task(1, move || async move { let_go(held) });
                let_go.await.unwrap();
            }
        }
        until(&live, 1).await;
        assert!(most > 1 << 20, "{most}");
        // A reactor that sleeps keeps up to a thousand commits.
        while retired() > 1 << 18 {
            yield_now().await;
        }
    });
}
