//! What a run under shuttle finds, shown by scenarios that are wrong; and what the
//! types keep of their form there.
//!
//! `RUSTFLAGS="--cfg rast_shuttle" cargo test -p rast-primitive --test shuttle`
#![cfg(rast_shuttle)]

use rast_primitive::cell::UnsafeCell;
use rast_primitive::model::model;
use rast_primitive::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use rast_primitive::sync::{Arc, Condvar, Mutex};
use rast_primitive::{Backoff, EventCount, Signal, hint, thread};

/// A number that nothing protects but the scenario.
struct Plain(UnsafeCell<u32>);

// SAFETY: shuttle runs one thread at a time, so accesses never race in truth.
unsafe impl Sync for Plain {}

impl Plain {
    fn add(&self) {
        // SAFETY: as above; an access that meets another panics before it.
        self.0.with_mut(|number| unsafe { *number += 1 });
    }

    fn get(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|number| unsafe { *number })
    }
}

fn beside<T: Send + Sync + 'static>(shared: T, theirs: fn(&T), mine: fn(&T)) {
    let shared = Arc::new(shared);
    let other = Arc::clone(&shared);
    let other = thread::spawn(move || theirs(&other));
    mine(&shared);
    other.join().unwrap();
}

#[test]
#[should_panic(expected = "an update is lost")]
fn a_lost_update_is_found() {
    fn add(number: &AtomicUsize) {
        let old = number.load(Relaxed);
        number.store(old + 1, Relaxed);
    }
    model(|| {
        let number = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&number);
        let other = thread::spawn(move || add(&theirs));
        add(&number);
        other.join().unwrap();
        assert_eq!(number.load(Relaxed), 2, "an update is lost");
    });
}

#[test]
#[should_panic(expected = "two accesses to a cell meet")]
fn two_writes_that_nothing_excludes_meet() {
    model(|| beside(Plain(UnsafeCell::new(0)), Plain::add, Plain::add));
}

#[test]
#[should_panic(expected = "two accesses to a cell meet")]
fn a_read_beside_a_write_meets_it() {
    model(|| {
        beside(Plain(UnsafeCell::new(0)), Plain::add, |cell| {
            assert!(cell.get() < 2)
        })
    });
}

#[test]
fn two_reads_may_meet_and_a_flag_excludes() {
    model(|| {
        let read = |cell: &Plain| assert_eq!(cell.get(), 0);
        beside(Plain(UnsafeCell::new(0)), read, read);
        beside(
            (Plain(UnsafeCell::new(0)), AtomicBool::new(false)),
            |(cell, ready)| {
                cell.add();
                ready.store(true, Release);
            },
            |(cell, ready)| {
                while !ready.load(Acquire) {
                    hint::spin_loop();
                }
                assert_eq!(cell.get(), 1);
            },
        );
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_deadlock_is_found() {
    model(|| {
        beside(
            (Mutex::new(()), Mutex::new(())),
            |(a, b)| drop((a.lock(), b.lock())),
            |(a, b)| drop((b.lock(), a.lock())),
        );
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_lost_wake_up_is_a_deadlock() {
    model(|| {
        beside(
            (AtomicBool::new(false), Mutex::new(()), Condvar::new()),
            |(ready, _, wake)| {
                // Wrong: not under the lock, so it may fall between look and wait.
                ready.store(true, Release);
                wake.notify_one();
            },
            |(ready, lock, wake)| {
                let mut guard = lock.lock();
                while !ready.load(Acquire) {
                    wake.wait(&mut guard);
                }
            },
        );
    });
}

/// A spin loop that waits by backing off ends, whatever thread is favoured.
#[test]
fn waiting_loops_let_others_run() {
    model(|| {
        beside(
            AtomicBool::new(false),
            |flag| flag.store(true, Release),
            |flag| {
                let backoff = Backoff::new();
                while !flag.load(Acquire) {
                    backoff.snooze();
                }
            },
        );
    });
}

static NUMBER: AtomicU64 = AtomicU64::new(7);
static LOCK: Mutex<u8> = Mutex::new(1);
static COUNT: EventCount = EventCount::new();
static SIGNAL: Signal = Signal::new();

/// Everything that is `const` under std is so here, the atomics and cells keep
/// their size, and the atomics work outside of a run.
#[test]
fn forms_are_those_of_std() {
    const { assert!(size_of::<AtomicU64>() == 8 && size_of::<AtomicPtr<u8>>() == size_of::<usize>()) };
    const { assert!(size_of::<UnsafeCell<u16>>() == 2) };
    assert_eq!(NUMBER.fetch_add(1, Relaxed), 7);
    model(|| {
        assert_eq!(*LOCK.lock(), 1);
        SIGNAL.send();
        assert!(SIGNAL.receive());
        COUNT.notify_all();
    });
}

thread::thread_local! {
    static OWN: AtomicUsize = AtomicUsize::new(0);
}

/// Thread-locals belong to the threads of the scenario, not to the system's.
#[test]
fn each_thread_has_its_own_locals() {
    fn add(_: &()) {
        assert_eq!(OWN.with(|own| own.fetch_add(1, Relaxed)), 0);
    }
    model(|| beside((), add, add));
}

/// The frames are larger than the stacks that shuttle gives unless it is told otherwise.
#[test]
#[should_panic(expected = "a fault under large frames")]
fn a_fault_under_large_frames_is_found() {
    model(|| {
        let large = std::hint::black_box([1_u8; 70 << 10]);
        assert_eq!(large[large.len() - 1], 2, "a fault under large frames");
    });
}

/// A schedule is repeated with the stacks of the run that printed it.
#[test]
fn a_schedule_under_large_frames_repeats() {
    let repeated = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_fault_under_large_frames_is_found"])
        .env("RAST_SHUTTLE_SCHEDULE", "910101aadbd8c9a9a4a5f48e0100")
        .output()
        .unwrap();
    assert!(repeated.status.success(), "{repeated:?}");
}
