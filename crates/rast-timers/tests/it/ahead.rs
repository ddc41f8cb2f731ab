//! The calendar sorts ahead of the time, if its caller calls it when the store asks for it.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use rast_timers::{CalendarStore, Clock, DeadlineStore, Instant, ManualClock, Nanos, Step};

const MS: u64 = 1_000_000;

/// Enough for a list that takes milliseconds to sort; fewer would prove less.
const POPULATION: u64 = 400_000;

/// A turn of the caller's loop.
const TURN: u64 = 10_000;

/// Steps that fit into a turn at 100 ns each.
const STEPS: u64 = 100;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn noise(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

/// What a caller sees that turns each 10 µs and looks when the store asks for it.
#[derive(Debug, Default)]
struct Seen {
    /// Steps with something to do before the first deadline.
    early: u64,
    /// How late the first value came.
    first: u64,
    /// How late the latest value came.
    most: u64,
    /// Turns in which the store asked for steps.
    turns: u64,
}

/// Runs a store from `from` until it is empty.
fn run(store: &mut CalendarStore<u64>, from: u64) -> Seen {
    let clock = ManualClock::at(at(from));
    let mut seen = Seen::default();
    let mut is_first = true;
    while let Some(next) = store.next_deadline() {
        let now = clock.now();
        if next <= now {
            seen.turns += 1;
            for _ in 0..STEPS {
                match store.step(now) {
                    Step::Due(due) => {
                        let late = now.as_nanos() - due.at.as_nanos();
                        if is_first {
                            seen.first = late;
                            is_first = false;
                        }
                        seen.most = seen.most.max(late);
                    }
                    Step::Busy if is_first => seen.early += 1,
                    Step::Busy => {}
                    Step::Idle => break,
                }
            }
        }
        clock.advance(Nanos::from_nanos(TURN));
    }
    seen
}

/// 400,000 values in no order are sorted while the store's caller has nothing
/// else to do, so that the first fires in its time, wherever in its list it is.
#[test]
fn a_list_is_sorted_before_its_first_deadline() {
    for width in [10 * MS, 100 * MS, 1_000 * MS] {
        for start in [1_000 * MS, 1 << 30, 3 << 29, 1_500 * MS + 12_345] {
            let mut store = CalendarStore::new();
            for index in 0..POPULATION {
                store.insert(at(start + noise(index) % width), index);
            }
            let seen = run(&mut store, 0);
            println!("{width} ns from {start}: {seen:?}");
            assert!(seen.early > 0, "nothing was done early");
            assert!(seen.first <= 10 * TURN, "{} ns late", seen.first);
        }
    }
}

/// As one list, where all of the sorting is that of its lower levels.
#[test]
fn a_narrow_list_is_sorted_before_its_first_deadline() {
    for start in [1_000 * MS, 1 << 30, 3 << 29, 1_500 * MS + 12_345] {
        let mut store = CalendarStore::new();
        for index in 0..POPULATION {
            store.insert(at(start + noise(index) % MS), index);
        }
        let seen = run(&mut store, 0);
        println!("from {start}: {seen:?}");
        assert!(seen.first <= 2 * MS, "{} ns late", seen.first);
    }
}
