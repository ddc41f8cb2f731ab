//! The promises of every deadline store, one test for each promise, run with each store.
#![cfg(not(rast_loom))]

use rast_timers::{
    CalendarStore, DeadlineStore, FiringStore, HeapStore, Instant, LaneStore, Nanos, Step,
};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

const HOUR: u64 = 3_600_000_000_000;

fn the_last_instant_is_never(mut store: impl DeadlineStore<u32>) {
    let never = store.insert(Instant::MAX, 1);
    store.insert(at(u64::MAX - 1), 2);
    assert_eq!(store.pop_due(Instant::MAX).map(|due| due.value), Some(2));
    assert_eq!(store.step(Instant::MAX), Step::Idle);
    assert_eq!(store.next_deadline(), None);
    let moved = store.reschedule(never, at(3)).unwrap();
    let due = store.pop_due(Instant::MAX).unwrap();
    assert_eq!((due.at, due.handle, due.value), (at(3), moved, 1));
    assert!(store.is_empty());
}

fn hours_pass_at_once(mut store: impl DeadlineStore<u64>) {
    for hour in (0..1000).rev() {
        store.insert(at(hour * HOUR), hour);
    }
    for hour in 0..10 {
        assert_eq!(store.pop_due(at(hour * HOUR)).unwrap().value, hour);
        assert_eq!(store.pop_due(at(hour * HOUR)), None);
    }
    // Back, and far ahead.
    assert_eq!(store.pop_due(at(0)), None);
    for hour in 10..1000 {
        assert_eq!(store.pop_due(at(5000 * HOUR)).unwrap().value, hour);
    }
    assert_eq!(store.pop_due(Instant::MAX), None);
}

fn time_goes_back(mut store: impl DeadlineStore<u32>) {
    store.insert(at(2 * HOUR), 1);
    assert_eq!(store.pop_due(at(HOUR)), None);
    // Before what has been seen: due at its own time nevertheless.
    store.insert(at(5), 2);
    store.insert(at(4), 3);
    assert_eq!(store.pop_due(at(3)), None);
    assert_eq!(store.pop_due(at(4)).map(|due| due.value), Some(3));
    assert_eq!(store.pop_due(at(4)), None);
    assert!(store.next_deadline().unwrap() <= at(5));
    assert_eq!(store.pop_due(at(5)).map(|due| due.value), Some(2));
}

fn a_value_is_armed_again(mut store: impl DeadlineStore<u32>) {
    store.insert(at(1), 7);
    let mut times = Vec::new();
    while let Some(due) = store.pop_due(at(25)) {
        times.push(due.at);
        store.insert(due.at.saturating_add(Nanos::from_nanos(10)), due.value);
    }
    assert_eq!(times, [at(1), at(11), at(21)]);
    assert_eq!(store.next_deadline(), Some(at(31)));
}

fn a_due_value_cancels_the_next(mut store: impl DeadlineStore<u32>) {
    let handles: Vec<_> = (0..100).map(|value| store.insert(at(9), value)).collect();
    let mut fired = Vec::new();
    while let Some(due) = store.pop_due(at(9)) {
        fired.push(due.value);
        let other = due.value + 1;
        if let Some(&handle) = handles.get(other as usize) {
            assert_eq!(store.cancel(handle), Some(other));
        }
        assert_eq!(store.cancel(due.handle), None);
        assert_eq!(store.reschedule(due.handle, at(20)), None);
    }
    assert_eq!(fired, (0..100).step_by(2).collect::<Vec<_>>());
}

fn a_panic_loses_one_value(mut store: impl DeadlineStore<u32>) {
    for value in 0..50 {
        store.insert(at(u64::from(value % 25) * 1_000), value);
    }
    let mut fired = Vec::new();
    loop {
        let swept = catch_unwind(AssertUnwindSafe(|| {
            store.expire(at(HOUR), 7, |due| {
                fired.push(due.value);
                assert!(due.value % 10 != 3, "this one fails");
            })
        }));
        if swept.is_ok_and(|swept| !swept.more) {
            break;
        }
    }
    let order = (0..25).flat_map(|value| [value, value + 25]);
    assert_eq!(fired, order.collect::<Vec<_>>());
    assert!(store.is_empty());
}

fn a_panic_loses_one_value_in_no_order(mut store: impl DeadlineStore<u32>) {
    for value in 0..500 {
        store.insert(at(u64::from(value * 37 % 500) * 1_000), value);
    }
    let mut fired = Vec::new();
    for now in [100_000, 100_001, 300_500, HOUR] {
        loop {
            let swept = catch_unwind(AssertUnwindSafe(|| {
                store.expire_unordered(at(now), 7, |due| {
                    assert!(due.at <= at(now), "not early");
                    fired.push(due.value);
                    assert!(due.value % 10 != 3, "this one fails");
                })
            }));
            if swept.is_ok_and(|swept| !swept.more) {
                break;
            }
        }
        assert_eq!(fired.len() as u64, (now / 1_000 + 1).min(500));
        assert_eq!(store.pop_due(at(now)), None);
    }
    fired.sort_unstable();
    assert_eq!(fired, (0..500).collect::<Vec<_>>());
    assert!(store.is_empty());
}

fn a_panic_while_inserting_keeps_what_came(mut store: impl DeadlineStore<u32>) {
    let values = |end: u32| {
        (0..200).map(move |value| {
            assert!(value != end, "this one fails");
            // Three timeouts, and one that no lane takes.
            let timeout = [7, 90, 90, 400, HOUR * 3_000_000][value as usize % 5];
            (at(timeout + u64::from(value)), value)
        })
    };
    let mut handles = Vec::new();
    let inserted = catch_unwind(AssertUnwindSafe(|| {
        store.insert_all(values(150), |handle| handles.push(handle))
    }));
    assert!(inserted.is_err());
    assert_eq!((store.len(), handles.len()), (150, 150));
    let told = std::cell::Cell::new(0);
    let inserted = catch_unwind(AssertUnwindSafe(|| {
        store.insert_all(values(1_000), |_| {
            told.set(told.get() + 1);
            assert!(told.get() < 50, "this one fails");
        })
    }));
    assert!(inserted.is_err());
    assert_eq!((store.len(), told.get()), (200, 50));
    // Some of them, in two orders; the panic keeps what comes after it.
    let (front, back) = handles.split_at(100);
    let back: Vec<_> = back.iter().rev().copied().collect();
    for (handles, fails) in [(front, 61), (&back[..], 130)] {
        let gone = catch_unwind(AssertUnwindSafe(|| {
            store.cancel_all(handles, |_, value| {
                assert!(value != fails, "this one fails")
            })
        }));
        assert!(gone.is_err());
    }
    assert_eq!(store.len(), 200 - 62 - 20);
    assert_eq!(store.cancel_all(&handles, |_, _| {}), 150 - 62 - 20);
    let mut values = Vec::new();
    while let Some(due) = store.pop_due(at(u64::MAX)) {
        values.push(due.value);
    }
    values.sort_unstable();
    assert_eq!(values, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_calendar_drops_what_it_holds() {
    // Every way out of the store, and staying in it, drops a value once.
    let value = Rc::new(());
    let mut store = CalendarStore::new();
    let handles: Vec<_> = (0..10)
        .map(|time| store.insert(at(time), Rc::clone(&value)))
        .collect();
    drop(store.cancel(handles[9]));
    drop(store.pop_due(at(0)));
    store.expire(at(2), 100, drop);
    store.expire_unordered(at(4), 100, drop);
    assert_eq!(Rc::strong_count(&value), 1 + 4);
    drop(store);
    assert_eq!(Rc::strong_count(&value), 1);
}

#[test]
fn a_store_is_as_unwind_safe_as_a_vec() {
    fn safe<T: UnwindSafe>() {}
    fn ref_safe<T: RefUnwindSafe>() {}
    safe::<Vec<std::cell::Cell<u32>>>();
    safe::<LaneStore<std::cell::Cell<u32>>>();
    safe::<CalendarStore<std::cell::Cell<u32>>>();
    ref_safe::<LaneStore<u32>>();
    ref_safe::<CalendarStore<u32>>();
}

/// While something is in the overflow that a lane could take, no lane is opened anew for
/// what comes later.
#[test]
fn an_overflow_comes_before_its_equals() {
    for at_once in [false, true] {
        let mut store = LaneStore::new();
        let handles: Vec<_> = (0..8)
            .map(|lane| store.insert(at(800 - lane * 100), 9))
            .collect();
        store.insert(at(50), 0);
        assert_eq!((store.lanes(), store.overflow()), (8, 1));
        assert_eq!(store.cancel(handles[7]), Some(9));
        if at_once {
            store.insert_all([(at(50), 1), (at(50), 2)], |_| {});
        } else {
            store.insert(at(50), 1);
            store.insert(at(50), 2);
        }
        assert_eq!(store.overflow(), 3);
        let fired: Vec<_> = std::iter::from_fn(|| store.pop_due(at(50)))
            .map(|due| due.value)
            .collect();
        assert_eq!(fired, [0, 1, 2]);
        store.check_invariants();
        // They have left, so there is a lane for the next.
        store.insert(at(50), 3);
        assert_eq!((store.lanes(), store.overflow()), (8, 0));
        store.check_invariants();
    }
}

/// However many are cancelled before the next value, a call passes no more than
/// a chunk of 64 places for each unit of its budget.
#[test]
fn what_is_cancelled_is_passed_within_the_budget() {
    const COUNT: u64 = 5_000;
    for stays in [2, 3, 64, 1_000, COUNT] {
        for budget in [1, 2, 7, 64] {
            let mut store = LaneStore::new();
            let handles: Vec<_> = (0..COUNT).map(|nth| store.insert(at(nth), nth)).collect();
            // From behind, so that those at the front wait for `expire`.
            for (&handle, nth) in handles.iter().rev().zip((0..COUNT).rev()) {
                if nth % stays != 0 && nth != COUNT - 1 {
                    assert_eq!(store.cancel(handle), Some(nth));
                }
            }
            let mut front = 0;
            loop {
                let swept = store.expire(Instant::MAX, budget, |due| {
                    assert!(due.value % stays == 0 || due.value == COUNT - 1);
                });
                assert!(swept.fired <= budget);
                // A place's deadline is its number here.
                let next = store.next_deadline().map_or(COUNT, Instant::as_nanos);
                assert!(next - front <= 64 * budget as u64, "{front} to {next}");
                assert!(next > front || !swept.more);
                front = next;
                if !swept.more {
                    break;
                }
            }
            assert!(store.is_empty());
        }
    }
}

fn slack_makes_deadlines_meet(mut store: impl DeadlineStore<u32>) {
    for value in 0..100 {
        let from = 1_000_000 + u64::from(value) * 1_000;
        store.insert_within(at(from), Nanos::from_nanos(200_000), value);
    }
    let mut times = Vec::new();
    while let Some(due) = store.pop_due(at(HOUR)) {
        let from = 1_000_000 + u64::from(due.value) * 1_000;
        assert!(from <= due.at.as_nanos() && due.at.as_nanos() <= from + 200_000);
        times.push(due.at);
    }
    times.dedup();
    assert!(times.len() <= 3, "{times:?}");
}

std::thread_local! {
    /// How many values this thread's test has dropped.
    static DROPPED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// A value whose drop counts, and panics if it is told to. Forgotten, it leaks nothing.
struct Loud {
    panics: bool,
}

impl Drop for Loud {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
        assert!(!self.panics, "this one fails");
    }
}

fn a_cleared_store_is_as_new(mut store: impl DeadlineStore<Loud>) {
    let loud = |panics| Loud { panics };
    let mut stale = Vec::new();
    for panics in [None, Some(0), Some(250), Some(999)] {
        DROPPED.set(0);
        let handles: Vec<_> = (0..1_000_u64)
            .map(|nth| {
                // In order, in no order, never, and far ahead of all lanes.
                let time = match nth % 5 {
                    0 => nth * 10,
                    1 => (nth * 7919) % 1_000_003,
                    2 => u64::MAX,
                    3 => HOUR * 3_000_000 - nth,
                    _ => 5_000 - nth,
                };
                store.insert(at(time), loud(panics == Some(nth)))
            })
            .collect();
        // Some of it in the middle of being sorted, some before the time reached.
        store.expire(at(3_000), 3, std::mem::forget);
        for nth in [13, 14, 500] {
            std::mem::forget(store.cancel(handles[nth]));
        }
        let left = store.len() as u32;
        let cleared = catch_unwind(AssertUnwindSafe(|| store.clear()));
        assert_eq!(DROPPED.get(), left, "all are dropped, whatever panics");
        assert_eq!(cleared.is_err(), panics.is_some_and(|nth| nth != 0));
        assert!(store.is_empty() && store.next_deadline().is_none());
        assert!(matches!(store.step(Instant::MAX), Step::Idle));
        stale.extend(handles);
        for &handle in &stale {
            assert!(store.cancel(handle).is_none(), "a handle names nothing");
        }
        let handle = store.insert(at(7), loud(false));
        assert!(!stale.contains(&handle));
        assert_eq!(store.next_deadline(), Some(at(7)));
        assert_eq!(store.pop_due(at(9)).map(|due| due.at), Some(at(7)));
        store.clear();
    }
}

/// Several destructors panic, in a `clear` and then in the drop of the store.
#[cfg(feature = "std")]
fn many_panics_in_destructors_are_one(mut store: impl DeadlineStore<Loud>) {
    let fill = |store: &mut dyn FnMut(u64, Loud)| {
        for nth in 0..200_u64 {
            // Two lanes and the overflow of a `LaneStore`.
            let time = [nth * 10, nth, u64::MAX, 500 - nth][nth as usize % 4];
            store(
                time,
                Loud {
                    panics: nth % 3 == 0,
                },
            );
        }
    };
    DROPPED.set(0);
    fill(&mut |time, value| {
        store.insert(at(time), value);
    });
    let cleared = catch_unwind(AssertUnwindSafe(|| store.clear()));
    assert!(cleared.is_err() && store.is_empty());
    assert_eq!(DROPPED.get(), 200);
    fill(&mut |time, value| {
        store.insert(at(time), value);
    });
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(store)));
    assert!(dropped.is_err());
    assert_eq!(DROPPED.get(), 400);
}

#[cfg(not(feature = "std"))]
fn many_panics_in_destructors_are_one(_: impl DeadlineStore<Loud>) {
    // Without std the second panic aborts the process.
}

/// A call with a time far ahead of all others leaves no trace.
fn a_wild_time_is_forgotten(mut store: impl DeadlineStore<u64>) {
    for wild in [HOUR, 1 << 61, u64::MAX - 1, u64::MAX] {
        store.insert(at(5 * HOUR), 0);
        store.insert(at(u64::MAX - 2), 1);
        while store.pop_due(at(wild)).is_some() {}
        for nth in 0..3_000 {
            // In no order, some of them equal.
            store.insert(at(HOUR / 2 + nth * 7919 % 1_000 * 1_000), nth);
        }
        let mut last = (0, 0);
        for turn in 0..1_100 {
            let now = HOUR / 2 + turn * 1_000;
            while let Some(due) = store.pop_due(at(now)) {
                assert!(due.at.as_nanos() <= now, "never early");
                assert!(due.at.as_nanos() + 1_000 > now, "never late");
                assert!(last < (due.at.as_nanos(), due.value), "in order");
                last = (due.at.as_nanos(), due.value);
            }
            if turn >= 1_000 {
                last = (0, 0);
            }
        }
        assert!(store.len() <= 2);
        store.clear();
    }
}

macro_rules! each_store {
    ($($test:ident)*) => {$(
        mod $test {
            use super::*;

            #[test]
            fn calendar() {
                super::$test(CalendarStore::new());
            }

            #[test]
            fn heap() {
                super::$test(HeapStore::new());
            }

            #[test]
            fn lanes() {
                super::$test(LaneStore::new());
            }

            #[test]
            fn firing() {
                super::$test(FiringStore::new());
            }
        }
    )*};
}

each_store! {
    the_last_instant_is_never
    hours_pass_at_once
    time_goes_back
    a_value_is_armed_again
    a_due_value_cancels_the_next
    a_panic_loses_one_value
    a_panic_loses_one_value_in_no_order
    a_panic_while_inserting_keeps_what_came
    slack_makes_deadlines_meet
    a_cleared_store_is_as_new
    many_panics_in_destructors_are_one
    a_wild_time_is_forgotten
}
