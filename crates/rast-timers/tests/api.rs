//! Examples and edges of the public interface.
#![cfg(not(rast_loom))]

use rast_timers::primitive::sync::Arc;
use rast_timers::queue::Closed;
use rast_timers::remote::{self, RemoteTimer, RemoteTimers, TimerOwner, TooLate};
use rast_timers::{
    CalendarStore, Clock, DeadlineStore, Expired, Handle, HeapStore, Instant, ManualClock, Missed,
    Nanos, PeriodicTimer, StartFinishTimer, Step, Tick, TimerConfig, WaitingTimer,
};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

#[test]
fn threads_may_share_what_they_should() {
    fn send<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    shared::<Tick>();
    shared::<ManualClock>();
    shared::<TimerConfig>();
    shared::<Handle>();
    shared::<HeapStore<u32>>();
    shared::<RemoteTimers<Cell<u32>, fn()>>();
    shared::<RemoteTimer<Cell<u32>, fn()>>();
    send::<HeapStore<Cell<u32>>>();
    send::<TimerOwner<Cell<u32>, fn()>>();
    send::<PeriodicTimer<ManualClock>>();
    send::<StartFinishTimer<ManualClock>>();
    send::<WaitingTimer<ManualClock>>();
}

#[test]
fn a_clock_may_be_borrowed_or_shared() {
    fn reading(clock: impl Clock) -> Instant {
        clock.now()
    }
    let clock = ManualClock::at(at(5));
    assert_eq!(reading(&clock), at(5));
    assert_eq!(reading(Arc::new(clock.clone())), at(5));
    clock.advance(Nanos::MAX);
    assert_eq!(reading(&clock), Instant::MAX);
}

#[cfg(feature = "std")]
#[test]
fn monotonic_clocks_agree_on_all_threads() {
    use rast_timers::MonotonicClock;
    fn shared<T: Send + Sync>() {}
    shared::<MonotonicClock>();
    let here = MonotonicClock::new();
    let before = here.now();
    let there = std::thread::spawn(|| MonotonicClock.now()).join().unwrap();
    let after = here.now();
    assert!(before <= there && there <= after);
    let system = here.system_of(after).unwrap();
    assert_eq!(here.instant_of(system), after);
}

#[test]
fn tick_keeps_the_newest_reading() {
    let tick = Tick::new();
    tick.publish(at(7));
    tick.publish(at(3));
    assert_eq!((tick.load(), tick.now()), (7, at(7)));
}

#[test]
fn missed_beats_follow_the_policy() {
    let beats = |policy| {
        let clock = ManualClock::new();
        let tick = Tick::new();
        let mut beat = WaitingTimer::new(clock.clone(), Nanos::from_nanos(10), TimerConfig::new())
            .missed(policy);
        clock.set(at(35));
        let mut fired = 0;
        tick.publish(clock.now());
        while fired < 9 && beat.check(&tick) {
            fired += 1;
        }
        (fired, beat.deadline())
    };
    assert_eq!(beats(Missed::Burst), (3, at(40)));
    assert_eq!(beats(Missed::Skip), (1, at(40)));
    assert_eq!(beats(Missed::Delay), (1, at(45)));
}

#[test]
fn a_wait_past_the_end_of_time_never_ends() {
    let clock = ManualClock::new();
    let tick = Tick::new();
    let mut beat = WaitingTimer::new(clock.clone(), Nanos::MAX, TimerConfig::new());
    clock.set(Instant::MAX);
    tick.publish(clock.now());
    assert!(!beat.check(&tick));
    assert!(!beat.check(&tick));
}

#[test]
fn equal_deadlines_leave_in_their_order() {
    let mut store = HeapStore::with_capacity(8);
    for value in 0..5 {
        store.insert(at(9), value);
    }
    let moved = store.insert(at(1), 5);
    assert_eq!(store.reschedule(moved, at(9)), Some(moved));
    let mut order = Vec::new();
    let swept = store.expire(at(9), 2, |due| order.push(due.value));
    assert_eq!((swept.fired, swept.more), (2, true));
    let swept = store.expire(at(9), 9, |due| order.push(due.value));
    assert_eq!((swept.fired, swept.more), (4, false));
    assert_eq!(order, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn the_last_instant_means_never() {
    let mut store = HeapStore::new();
    let never = store.insert(Instant::MAX, "never");
    assert_eq!(store.next_deadline(), None);
    assert_eq!(store.pop_due(Instant::MAX), None);
    assert_eq!(store.reschedule(never, at(3)), Some(never));
    assert_eq!(store.next_deadline(), Some(at(3)));
    assert_eq!(
        store.pop_due(Instant::MAX),
        Some(Expired {
            at: at(3),
            handle: never,
            value: "never"
        })
    );
}

#[test]
fn a_value_may_be_armed_again_while_expiring() {
    let mut store = HeapStore::new();
    store.insert(at(1), "again");
    let mut times = Vec::new();
    for _ in 0..10 {
        let Some(due) = store.pop_due(at(25)) else {
            break;
        };
        times.push(due.at);
        store.insert(due.at.saturating_add(Nanos::from_nanos(10)), due.value);
    }
    assert_eq!(times, [at(1), at(11), at(21)]);
    assert_eq!(store.next_deadline(), Some(at(31)));
}

/// Counts its drops.
struct Counted(Rc<Cell<u32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_panic_while_expiring_loses_one_value() {
    let drops = Rc::new(Cell::new(0));
    let mut store = HeapStore::new();
    for nanos in 0..5 {
        store.insert(at(nanos), Counted(Rc::clone(&drops)));
    }
    let mut calls = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        store.expire(at(9), 9, |_| {
            calls += 1;
            assert!(calls < 3, "the third fails");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!((drops.get(), store.len()), (3, 2));
    store.check_invariants();
    assert_eq!(store.expire(at(9), 9, drop).fired, 2);
    assert_eq!(drops.get(), 5);
}

#[test]
fn a_closed_owner_gives_values_back_and_fires_the_rest() {
    let (timers, mut owner) = remote::channel(|| ());
    let _armed = timers.arm(at(1), 1).unwrap();
    owner.close();
    assert!(timers.is_closed());
    assert!(matches!(timers.arm(at(1), 2), Err(Closed(2))));
    assert_eq!(owner.poll(9), 1);
    assert_eq!(owner.pop_due(at(1)), Some((at(1), 1)));
    let timers = owner.remote();
    drop(owner);
    assert!(matches!(timers.arm(at(1), 3), Err(Closed(3))));
}

#[test]
fn a_dropped_owner_drops_what_it_has() {
    let drops = Arc::new(());
    let (timers, mut owner) = remote::channel(|| ());
    let stored = timers.arm(at(1), Arc::clone(&drops)).unwrap();
    owner.poll(1);
    let queued = timers.arm(at(1), Arc::clone(&drops)).unwrap();
    drop(owner);
    assert_eq!(Arc::strong_count(&drops), 1);
    let gone = Err(TooLate::AlreadyGone);
    assert_eq!((stored.cancel(), queued.cancel()), (gone, gone));
}

#[test]
fn one_handle_of_many_cancels() {
    let (timers, mut owner) = remote::channel(|| ());
    let timer = timers.arm(at(1), "gone").unwrap();
    let other = timer.clone();
    assert_eq!(timer.cancel(), Ok(()));
    assert_eq!(other.cancel(), Err(TooLate::AlreadyGone));
    owner.poll(9);
    assert_eq!(owner.pop_due(at(9)), None);
    drop(owner);
    assert_eq!(other.cancel(), Err(TooLate::AlreadyGone));
}

#[test]
fn a_cancelled_far_timer_leaves_the_store() {
    let (timers, mut owner) = remote::channel(|| ());
    let value = Arc::new(());
    let timer = timers.arm(Instant::MAX, Arc::clone(&value)).unwrap();
    owner.poll(9);
    assert_eq!((owner.len(), owner.next_deadline()), (1, None));
    assert_eq!(timer.cancel(), Ok(()));
    owner.poll(9);
    assert!(owner.is_empty());
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_cancel_after_close_still_empties_the_store() {
    let (timers, mut owner) = remote::channel(|| ());
    let value = Arc::new(());
    let stored = timers.arm(Instant::MAX, Arc::clone(&value)).unwrap();
    owner.poll(9);
    let queued = timers.arm(Instant::MAX, Arc::clone(&value)).unwrap();
    owner.close();
    assert_eq!((queued.cancel(), stored.cancel()), (Ok(()), Ok(())));
    // The arm that was accepted before, then the two cancels.
    assert_eq!(owner.poll(9), 3);
    assert!(owner.is_empty());
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn cancelled_timers_count_in_the_budget_and_fire_nothing() {
    let (timers, mut owner) = remote::channel(|| ());
    let armed: Vec<_> = (0..4)
        .map(|value| timers.arm(at(value), value).unwrap())
        .collect();
    owner.poll(4);
    let mut armed = armed.into_iter();
    assert_eq!(armed.next().unwrap().cancel(), Ok(()));
    assert_eq!(armed.next().unwrap().cancel(), Ok(()));
    let mut fired = Vec::new();
    assert_eq!(
        owner.expire(at(9), 3, |_, value| fired.push(value)).fired,
        3
    );
    assert_eq!(fired, [2]);
    assert_eq!(owner.pop_due(at(9)), Some((at(3), 3)));
    assert_eq!(armed.next().unwrap().cancel(), Err(TooLate::Fired));
    assert_eq!(owner.poll(9), 2);
}

/// A store from outside of the crate: a list that never reuses a slot.
struct Plain<T>(Vec<Option<(Instant, T)>>);

impl<T> Plain<T> {
    fn first(&self) -> Option<(Instant, usize)> {
        let waiting = self.0.iter().enumerate();
        waiting
            .filter_map(|(slot, entry)| entry.as_ref().map(|entry| (entry.0, slot)))
            .min()
            .filter(|first| first.0 != Instant::MAX)
    }
}

impl<T> DeadlineStore<T> for Plain<T> {
    fn insert(&mut self, at: Instant, value: T) -> Handle {
        self.0.push(Some((at, value)));
        Handle::new(self.0.len() as u32 - 1, 0)
    }

    fn cancel(&mut self, handle: Handle) -> Option<T> {
        Some(self.0[handle.slot() as usize].take()?.1)
    }

    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle> {
        self.0[handle.slot() as usize].as_mut()?.0 = at;
        Some(handle)
    }

    fn clear(&mut self) {
        self.0.fill_with(|| None);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.first().map(|first| first.0)
    }

    fn step(&mut self, now: Instant) -> Step<T> {
        let Some((at, slot)) = self.first().filter(|first| first.0 <= now) else {
            return Step::Idle;
        };
        let value = self.0[slot].take().expect("found above").1;
        Step::Due(Expired {
            at,
            handle: Handle::new(slot as u32, 0),
            value,
        })
    }

    fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }
}

#[test]
fn remote_timers_take_a_store_of_the_callers() {
    let (timers, mut owner) = remote::channel_with(Plain(Vec::new()), || ());
    let first = timers.arm(at(1), "first").unwrap();
    let _second = owner.remote().arm(at(2), "second").unwrap();
    owner.poll(2);
    assert_eq!(first.cancel(), Ok(()));
    assert_eq!(owner.pop_due(at(2)), Some((at(2), "second")));
    owner.poll(1);
    assert!(owner.is_empty());
}

#[test]
fn a_store_may_be_chosen_while_running() {
    let mut heap = HeapStore::new();
    let mut calendar = CalendarStore::new();
    let mut plain = Plain(Vec::new());
    let stores: [&mut dyn DeadlineStore<u32>; 3] = [&mut heap, &mut calendar, &mut plain];
    for store in stores {
        let handle = store.insert(at(3), 7);
        assert_eq!(store.reschedule(handle, at(4)), Some(handle));
        assert_eq!(store.pop_due(at(3)), None);
        assert_eq!(store.pop_due(at(4)).map(|due| due.value), Some(7));
        assert_eq!(store.cancel(handle), None);
        assert!(store.is_empty());
    }
}

#[test]
fn handles_pass_through_a_store_of_the_callers() {
    let handle = Handle::new(3, 9);
    assert_eq!((handle.slot(), handle.generation()), (3, 9));
    assert!(catch_unwind(|| Handle::new(u32::MAX, 0)).is_err());
}

/// Only what is due before the end of a rest wakes; outside of one everything
/// does.
#[test]
fn a_rest_is_ended_by_earlier_timers_alone() {
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let (timers, mut owner) = remote::channel(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let arm = |nanos| drop(timers.arm(at(nanos), nanos).unwrap());
    let woken = || wakes.swap(0, Ordering::Relaxed);
    arm(10);
    assert_eq!(woken(), 1);
    // What waits goes first.
    assert_eq!(owner.rest(|_| ()), None);
    assert_eq!(owner.poll(9), 1);
    let rested = owner.rest(|until| {
        assert_eq!(until, Some(at(10)));
        arm(10);
        arm(u64::MAX);
        assert_eq!(woken(), 0);
        arm(9);
        assert_eq!(woken(), 1);
    });
    assert_eq!(rested, Some(()));
    arm(11);
    assert_eq!(woken(), 1);
    assert_eq!(owner.poll(9), 4);
    // A rest that panics is over, too.
    let panicked = catch_unwind(AssertUnwindSafe(|| owner.rest(|_| panic!("in its sleep"))));
    assert!(panicked.is_err());
    arm(12);
    assert_eq!((woken(), owner.poll(9)), (1, 1));
    // Without a deadline every timer but one that is never due ends it.
    while owner.pop_due(at(100)).is_some() {}
    owner.rest(|until| {
        assert_eq!(until, None);
        arm(u64::MAX);
        assert_eq!(woken(), 0);
        arm(u64::MAX - 1);
        assert_eq!(woken(), 1);
    });
}

/// Once so many commands wait, arms and cancels wake whatever they are.
#[test]
fn a_backlog_ends_a_rest() {
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let (timers, mut owner) = remote::channel(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let woken = || wakes.swap(0, Ordering::Relaxed);
    let arm = || timers.arm(Instant::MAX, 0).unwrap();
    let mut armed: Vec<_> = (0..2 * remote::BACKLOG).map(|_| arm()).collect();
    owner.poll(usize::MAX);
    woken();
    for _ in 0..2 {
        owner.rest(|_| {
            for _ in 1..remote::BACKLOG {
                drop(arm());
            }
            assert_eq!(woken(), 0);
            drop(arm());
            assert_eq!(woken(), 1);
        });
        assert_eq!(owner.poll(usize::MAX), remote::BACKLOG);
    }
    let mut cancel = |owner: &mut TimerOwner<u64, _>| {
        owner.rest(|_| {
            for _ in 1..remote::BACKLOG {
                armed.pop().unwrap().cancel().unwrap();
            }
            assert_eq!(woken(), 0);
            armed.pop().unwrap().cancel().unwrap();
            assert_eq!(woken(), 1);
        });
        assert_eq!(owner.poll(usize::MAX), remote::BACKLOG);
    };
    cancel(&mut owner);
    owner.close();
    cancel(&mut owner);
    assert_eq!(owner.len(), 2 * remote::BACKLOG);
}

/// Who does not rest has no thread to wake it for what is cancelled.
#[test]
fn cancels_wake_no_owner_that_does_not_rest() {
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakes);
    let (timers, mut owner) = remote::channel(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let armed: Vec<_> = (0..=remote::BACKLOG)
        .map(|_| timers.arm(Instant::MAX, 0).unwrap())
        .collect();
    owner.poll(usize::MAX);
    owner.rest(|_| ());
    wakes.store(0, Ordering::Relaxed);
    for timer in &armed {
        assert_eq!(timer.cancel(), Ok(()));
    }
    assert_eq!(wakes.load(Ordering::Relaxed), 0);
    assert_eq!(owner.poll(usize::MAX), armed.len());
    assert!(owner.is_empty());
}

#[test]
fn a_timer_cancelled_in_the_queue_never_comes_into_the_store() {
    let (timers, mut owner) = remote::channel(|| ());
    let value = Arc::new(());
    let timer = timers.arm(Instant::MAX, Arc::clone(&value)).unwrap();
    assert_eq!(timer.cancel(), Ok(()));
    assert_eq!(owner.poll(1), 1);
    assert!(owner.is_empty());
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(owner.cancel_all(&[timer], drop), 0);
    assert_eq!(owner.poll(9), 1);
}

#[test]
fn the_owner_cancels_what_has_no_fate_yet() {
    let (timers, mut owner) = remote::channel(|| ());
    let armed: Vec<_> = (0..40)
        .map(|value| timers.arm(at(value), value).unwrap())
        .collect();
    // Half of them wait in the queue, behind and before others.
    owner.poll(20);
    drop(timers.arm(at(100), 100).unwrap());
    assert_eq!(owner.pop_due(at(0)), Some((at(0), 0)));
    assert_eq!((armed[1].cancel(), armed[30].cancel()), (Ok(()), Ok(())));
    let mut seen = Vec::new();
    assert_eq!(owner.cancel_all(&armed, |value| seen.push(value)), 37);
    seen.sort_unstable();
    let left: Vec<_> = (2..40).filter(|&value| value != 30).collect();
    assert_eq!(seen, left);
    assert_eq!(owner.cancel_all(&armed, |_| panic!("gone")), 0);
    assert_eq!(armed[0].cancel(), Err(TooLate::Fired));
    assert_eq!(armed[2].cancel(), Err(TooLate::AlreadyGone));
    owner.poll(9);
    assert_eq!((owner.len(), owner.next_deadline()), (1, Some(at(100))));
}

#[test]
fn another_owners_timers_are_refused_before_anything_is_cancelled() {
    let (timers, mut owner) = remote::channel::<u32, fn()>(|| ());
    let (others, _other) = remote::channel::<u32, fn()>(|| ());
    let arm = |timers: &RemoteTimers<_, fn()>| timers.arm(at(1), 1).unwrap();
    let armed = [arm(&timers), arm(&others)];
    let refused = catch_unwind(AssertUnwindSafe(|| owner.cancel_all(&armed, drop)));
    assert!(refused.is_err());
    assert_eq!(armed.map(|timer| timer.cancel()), [Ok(()), Ok(())]);
}

/// What panics loses the value at hand; the others fire, or stay cancelled.
#[test]
fn a_panic_in_a_sweep_or_a_cancel_loses_one_value() {
    let (timers, mut owner) = remote::channel(|| ());
    let armed: Vec<_> = (0..6)
        .map(|value| timers.arm(at(value), value).unwrap())
        .collect();
    owner.poll(6);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        owner.expire_unordered(at(9), 9, |_, _| panic!("in the sweep"))
    }));
    assert!(panicked.is_err());
    assert_eq!(owner.len(), 5);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        owner.cancel_all(&armed, |_| panic!("in the cancel"))
    }));
    assert!(panicked.is_err());
    assert_eq!(owner.len(), 4);
    let mut seen = Vec::new();
    let swept = owner.expire_unordered(at(9), 9, |_, value| seen.push(value));
    assert_eq!((swept.fired, swept.more), (4, false));
    let fates = armed.iter().map(|timer| timer.cancel().unwrap_err());
    let fired = fates.filter(|&fate| fate == TooLate::Fired).count();
    assert_eq!((seen.len(), fired), (4, 5));
}

/// Panics when it is dropped, if it is told to.
struct Touchy(Arc<AtomicUsize>, bool);

impl Drop for Touchy {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert!(!self.1, "in the destructor");
    }
}

#[test]
fn a_destructor_that_panics_keeps_no_cancelled_value() {
    let (timers, mut owner) = remote::channel(|| ());
    let drops = Arc::new(AtomicUsize::new(0));
    let armed: Vec<_> = (0..40)
        .map(|value| {
            let value = Touchy(Arc::clone(&drops), value % 10 == 3);
            timers.arm(Instant::MAX, value).unwrap()
        })
        .collect();
    owner.poll(40);
    for timer in &armed {
        assert_eq!(timer.cancel(), Ok(()));
    }
    let mut panics = 0;
    while !owner.is_empty() {
        let polled = catch_unwind(AssertUnwindSafe(|| owner.poll(usize::MAX)));
        panics += usize::from(polled.is_err());
    }
    assert_eq!((panics, drops.load(Ordering::Relaxed)), (4, 40));
}

/// What an owner that leaves still finds in its queue goes with it, whatever
/// the destructors do.
#[test]
fn a_destructor_that_panics_keeps_no_value_of_a_leaving_owner() {
    let (timers, mut owner) = remote::channel(|| ());
    let drops = Arc::new(AtomicUsize::new(0));
    let armed: Vec<_> = (0..8)
        .map(|value| {
            if value == 4 {
                owner.poll(4);
            }
            // With std also in the store, and twice in the queue.
            let panics = value == 5 || cfg!(feature = "std") && value % 2 == 1;
            let value = Touchy(Arc::clone(&drops), panics);
            timers.arm(Instant::MAX, value).unwrap()
        })
        .collect();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(owner))).is_err());
    assert_eq!(drops.load(Ordering::Relaxed), 8);
    for timer in &armed {
        assert_eq!(timer.cancel(), Err(TooLate::AlreadyGone));
    }
}

/// A destructor that panics while the owner cancels leaves the timers behind it
/// armed, and nothing that was cancelled in the store.
#[test]
fn a_destructor_that_panics_in_a_cancel_of_the_owner_loses_one_value() {
    let (timers, mut owner) = remote::channel(|| ());
    let drops = Arc::new(AtomicUsize::new(0));
    let arm = |touchy| {
        let value = Touchy(Arc::clone(&drops), touchy);
        timers.arm(at(1), value).unwrap()
    };
    let theirs: Vec<_> = (0..16).map(|value| arm(value == 7)).collect();
    owner.poll(16);
    for timer in &theirs {
        assert_eq!(timer.cancel(), Ok(()));
    }
    // Behind the sixteen cancels, so that they are dropped on the way to it.
    let ours = [arm(false), arm(false)];
    let panicked = catch_unwind(AssertUnwindSafe(|| owner.cancel_all(&ours, drop)));
    assert!(panicked.is_err());
    assert_eq!(drops.load(Ordering::Relaxed), 8);
    assert_eq!(owner.cancel_all(&ours, drop), 2);
    assert_eq!(drops.load(Ordering::Relaxed), 18);
    assert!(owner.is_empty());
}

#[test]
fn a_cleared_owner_has_cancelled_all() {
    let (timers, mut owner) = remote::channel(|| ());
    let stored = timers.arm(at(1), "stored").unwrap();
    let cancelled = timers.arm(at(2), "cancelled").unwrap();
    owner.poll(2);
    let queued = timers.arm(at(3), "queued").unwrap();
    assert_eq!(cancelled.cancel(), Ok(()));
    owner.clear();
    assert!(owner.is_empty());
    for timer in [stored, cancelled, queued] {
        assert_eq!(timer.cancel(), Err(TooLate::AlreadyGone));
    }
    // It goes on as a new one.
    let next = timers.arm(at(4), "next").unwrap();
    assert_eq!(owner.poll(9), 1);
    assert_eq!(owner.pop_due(Instant::MAX), Some((at(4), "next")));
    assert_eq!(next.cancel(), Err(TooLate::Fired));
}

#[test]
fn a_destructor_that_panics_keeps_no_value_of_a_cleared_owner() {
    struct Loud(Rc<Cell<u32>>, bool);
    impl Drop for Loud {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            assert!(!self.1, "this one fails");
        }
    }
    // From 8 on, all of them panic, which aborts the process without std.
    let end = if cfg!(feature = "std") { 9 } else { 8 };
    for panics in 0..end {
        let dropped = Rc::new(Cell::new(0));
        let (timers, mut owner) = remote::channel(|| ());
        for nth in 0..8 {
            let value = Loud(Rc::clone(&dropped), nth == panics || panics == 8);
            drop(timers.arm(at(nth), value));
            if nth == 4 {
                owner.poll(9);
            }
        }
        let clear = AssertUnwindSafe(|| owner.clear());
        assert!(catch_unwind(clear).is_err());
        assert_eq!(dropped.get(), 8);
        assert!(owner.is_empty() && owner.poll(9) == 0);
    }
}
