//! Deadlines, wake-ups and signals.

use rast_scheduler::timers::{Clock, Instant, ManualClock, MonotonicClock, Nanos};
use rast_scheduler::{Next, Scheduler, Task};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use crate::support::{Count, Gate, LONG, advance, by_hand};

/// By a clock that is moved by hand: nothing runs a nanosecond before its time.
#[test]
fn a_deadline_is_exact_by_the_clock() {
    let (scheduler, clock) = by_hand(1);
    let (sender, receiver) = mpsc::channel();
    for at in [500, 100, 300] {
        let sender = sender.clone();
        let task = Task::new(move |cx| {
            assert!(cx.is_expired());
            assert_eq!(cx.deadline(), Some(Instant::from_nanos(at)));
            sender.send((at, cx.now().as_nanos())).unwrap();
            Next::Exit
        });
        scheduler.post_at(task, Instant::from_nanos(at)).unwrap();
    }
    // Each barrier is a task posted behind the others, so the deadlines were looked at.
    let barrier = || scheduler.spawn(|| ()).join().unwrap();
    barrier();
    assert!(receiver.try_recv().is_err());
    advance(&scheduler, &clock, Nanos::from_nanos(99));
    barrier();
    assert!(receiver.try_recv().is_err(), "one nanosecond early");
    advance(&scheduler, &clock, Nanos::from_nanos(1));
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), (100, 100));
    advance(&scheduler, &clock, Nanos::from_nanos(1000));
    let rest = [(); 2].map(|()| receiver.recv_timeout(LONG).unwrap());
    assert_eq!(rest, [(300, 1100), (500, 1100)], "in their order");
    assert!(scheduler.wait_idle(LONG));
}

/// By the system's clock: many deadlines, none early.
#[test]
fn no_deadline_fires_early() {
    let clock = MonotonicClock::new();
    let scheduler = Scheduler::builder()
        .workers(2)
        .clock(clock)
        .start()
        .unwrap();
    let fired = Count::new();
    for turn in 0..2000_u64 {
        let fired = fired.clone();
        let at = clock
            .now()
            .saturating_add(Nanos::from_nanos(turn * 7919 % 3_000_000));
        let task = Task::new(move |cx| {
            assert!(clock.now() >= at && cx.is_expired());
            fired.add();
            Next::Exit
        });
        scheduler.post_at(task, at).unwrap();
    }
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(fired.get(), 2000);
    assert_eq!(scheduler.stats().panics, 0);
}

#[test]
fn a_wake_up_is_not_expired_and_comes_before_the_deadline() {
    let (scheduler, _clock) = by_hand(1);
    let (sender, receiver) = mpsc::channel();
    let mut step = 0;
    let task = Task::new(move |cx| {
        step += 1;
        sender.send((step, cx.is_expired())).unwrap();
        match step {
            1 => cx.after(Nanos::from_secs(3600)),
            2 => Next::Wait,
            _ => Next::Exit,
        }
    });
    let handle = task.handle();
    scheduler.post(task).unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), (1, true));
    handle.wake().unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), (2, false));
    assert!(scheduler.wait_idle(LONG), "the old deadline is forgotten");
    handle.wake().unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), (3, false));
    assert!(receiver.recv().is_err(), "the body was dropped");
}

/// A wake-up before the post, in the queue and during the step is followed by a step each time.
#[test]
fn a_wake_up_at_any_time_is_followed_by_a_step() {
    let (scheduler, _clock) = by_hand(1);
    let (entered, go) = (Gate::new(), Gate::new());
    let steps = Count::new();
    let (at, on, count) = (entered.clone(), go.clone(), steps.clone());
    let task = Task::new(move |_| {
        if count.add() == 2 {
            at.open();
            on.pass();
        }
        Next::Wait
    });
    let handle = task.handle();
    handle.wake().unwrap();
    scheduler.post_wait(task).unwrap();
    steps.reaches(1);
    assert!(scheduler.wait_idle(LONG));
    handle.wake().unwrap();
    entered.pass();
    handle.wake().unwrap(); // while it runs
    handle.wake().unwrap(); // does not add up
    go.open();
    steps.reaches(3);
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(steps.get(), 3);
}

#[test]
fn an_unreceived_signal_overrides_every_wait() {
    let (scheduler, _clock) = by_hand(1);
    let (sender, receiver) = mpsc::channel();
    let mut step = 0;
    let task = Task::new(move |cx| {
        step += 1;
        sender.send(step).unwrap();
        match step {
            1 => Next::Wait,
            2 => Next::At(Instant::MAX),
            3 => cx.after(Nanos::from_secs(1)),
            4 => Next::Again,
            5 => {
                assert!(cx.is_signaled() && cx.take_signal() && !cx.take_signal());
                Next::Wait
            }
            _ => Next::Exit,
        }
    });
    let handle = task.handle();
    handle.signal().unwrap();
    handle.signal().unwrap();
    assert!(handle.is_signaled());
    scheduler.post_wait(task).unwrap();
    let steps: Vec<_> = (0..5)
        .map(|_| receiver.recv_timeout(LONG).unwrap())
        .collect();
    assert_eq!(steps, [1, 2, 3, 4, 5]);
    assert!(scheduler.wait_idle(LONG));
    assert!(receiver.try_recv().is_err() && !handle.is_signaled());
    handle.signal().unwrap();
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), 6);
}

#[test]
fn what_the_signaller_did_is_seen() {
    let scheduler = Scheduler::new(2).unwrap();
    let (sender, receiver) = mpsc::channel();
    let data = Arc::new(AtomicU64::new(0));
    let seen = data.clone();
    let task = Task::new(move |cx| {
        if cx.take_signal() {
            sender.send(seen.load(Ordering::Relaxed)).unwrap();
        }
        Next::Wait
    });
    let handle = task.handle();
    scheduler.post_wait(task).unwrap();
    for round in 1..=1000 {
        data.store(round, Ordering::Relaxed);
        handle.signal().unwrap();
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), round);
    }
}

#[test]
fn a_deadline_in_the_past_is_at_once() {
    let (scheduler, clock) = by_hand(1);
    clock.advance(Nanos::from_secs(9));
    let steps = Count::new();
    let count = steps.clone();
    let task = Task::new(move |cx| {
        assert!(cx.is_expired());
        if count.add() < 3 {
            Next::At(Instant::from_nanos(5))
        } else {
            Next::Exit
        }
    });
    scheduler.post_at(task, Instant::ORIGIN).unwrap();
    steps.reaches(3);
}

#[test]
fn a_deadline_is_only_adjusted_to_be_earlier() {
    let at = Instant::from_nanos;
    let mut task = Task::new(|_| Next::Exit);
    assert_eq!(task.deadline(), Some(Instant::ORIGIN));
    task.adjust_deadline(at(5));
    assert_eq!(task.deadline(), Some(Instant::ORIGIN));
    task.set_wait();
    assert_eq!(task.deadline(), None);
    task.adjust_deadline(at(9));
    task.adjust_deadline(at(7));
    task.adjust_deadline(at(8));
    assert_eq!(task.deadline(), Some(at(7)));
    task.set_deadline(Instant::MAX);
    assert_eq!(task.deadline(), None, "never is a wait");
    task.clear_deadline();
    assert_eq!(task.deadline(), Some(Instant::ORIGIN));
}

/// A task without a deadline is never due, whatever the clock says; the last deadline that counts
/// is the one before.
#[test]
fn a_clock_at_its_end_fires_no_wait() {
    for end in [u64::MAX - 1, u64::MAX] {
        let (scheduler, clock) = by_hand(1);
        let wait = Task::new(|_| Next::Exit);
        let handle = wait.handle();
        scheduler.post_wait(wait).unwrap();
        let (sender, receiver) = mpsc::channel();
        let last = Task::new(move |_| {
            sender.send(()).unwrap();
            Next::Exit
        });
        let at = Instant::from_nanos(u64::MAX - 2);
        scheduler.post_at(last, at).unwrap();
        advance(&scheduler, &clock, Nanos::from_nanos(end));
        receiver.recv_timeout(LONG).unwrap();
        scheduler.spawn(|| ()).join().unwrap();
        assert!(!handle.is_finished());
        handle.wake().unwrap();
        assert!(scheduler.wait_idle(LONG));
        assert!(handle.is_finished());
    }
}

/// A clock that fails while a test says so.
#[derive(Clone)]
struct Faulty {
    clock: ManualClock,
    fails: Arc<AtomicBool>,
}

impl Clock for Faulty {
    fn now(&self) -> Instant {
        assert!(!self.fails.load(Ordering::Acquire), "the clock has stopped");
        self.clock.now()
    }
}

#[test]
fn a_clock_that_panics_kills_no_worker() {
    let (clock, fails) = (ManualClock::new(), Arc::new(AtomicBool::new(false)));
    let faulty = Faulty {
        clock: clock.clone(),
        fails: Arc::clone(&fails),
    };
    let scheduler = Scheduler::builder().workers(2).clock(faulty).start();
    let scheduler = scheduler.unwrap();
    let (sender, receiver) = mpsc::channel();
    let due = Task::new(move |_| {
        sender.send(()).unwrap();
        Next::Exit
    });
    scheduler.post_at(due, Instant::from_nanos(100)).unwrap();
    fails.store(true, Ordering::Release);
    let ran = Count::new();
    for number in 1..200 {
        let ran_here = ran.clone();
        let task = Task::new(move |_| {
            ran_here.add();
            Next::Exit
        });
        scheduler.post(task).unwrap();
        ran.reaches(number);
    }
    assert!(scheduler.stats().clock_panics > 0);
    assert!(receiver.try_recv().is_err());
    clock.advance(Nanos::from_nanos(100));
    fails.store(false, Ordering::Release);
    scheduler.look();
    receiver.recv_timeout(LONG).unwrap();
    assert!(scheduler.wait_idle(LONG));
    assert_eq!(scheduler.stats().panics, 0);
}
