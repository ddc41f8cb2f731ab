//! The work of one call is counted, not timed, for deadlines in clusters.

use rast_timers::{CalendarStore, DeadlineStore, Instant, Step};

/// Counting needs debug assertions; without them there is less to do.
const POPULATION: u64 = if cfg!(debug_assertions) {
    1_000_000
} else {
    10_000
};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

struct Counted {
    store: CalendarStore<u64>,
    most: u64,
    calls: u64,
}

impl Counted {
    fn new() -> Self {
        Self {
            store: CalendarStore::new(),
            most: 0,
            calls: 0,
        }
    }

    fn call<R>(&mut self, call: impl FnOnce(&mut CalendarStore<u64>) -> R) -> R {
        let before = self.store.touched();
        let result = call(&mut self.store);
        self.most = self.most.max(self.store.touched() - before);
        self.calls += 1;
        result
    }

    /// Steps until idle; checks that nothing fires early or out of order.
    fn drain(&mut self, now: u64) -> u64 {
        let (mut fired, mut last) = (0, 0);
        loop {
            match self.call(|store| store.step(at(now))) {
                Step::Due(due) => {
                    let time = due.at.as_nanos();
                    assert_eq!(time, due.value);
                    assert!(last <= time && time <= now, "in order and not early");
                    (fired, last) = (fired + 1, time);
                }
                Step::Busy => {}
                Step::Idle => return fired,
            }
        }
    }

    fn settle(&self, case: &str) {
        let most = self.most;
        println!("{case}: at most {most} touches in {} calls", self.calls);
        assert!(most <= CalendarStore::<u64>::TOUCHES, "{case}: {most}");
    }
}

fn noise(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

/// All deadlines by a rule, then one jump past them all.
fn jump(case: &str, rule: impl Fn(u64) -> u64) {
    let mut counted = Counted::new();
    for index in 0..POPULATION {
        let time = rule(index);
        counted.call(|store| store.insert(at(time), time));
    }
    assert_eq!(counted.drain(u64::MAX), POPULATION);
    // A value moves at most once a level, eight in a step.
    assert!(counted.calls <= POPULATION * 4 + 1_000, "{case}");
    counted.settle(case);
    sweep(case, &rule);
    let (from, to) = (0..POPULATION).fold((u64::MAX, 0), |(from, to), index| {
        (from.min(rule(index)), to.max(rule(index)))
    });
    gather(case, &rule, from, to);
}

/// The same by `expire`, a budget of 64 steps a call.
fn sweep(case: &str, rule: impl Fn(u64) -> u64) {
    const BUDGET: usize = 64;
    let mut counted = Counted::new();
    for index in 0..POPULATION {
        let time = rule(index);
        counted.store.insert(at(time), time);
    }
    let (mut fired, mut last, mut more) = (0, 0, true);
    while more {
        let swept = counted.call(|store| {
            store.expire(at(u64::MAX), BUDGET, |due| {
                assert!(last <= due.value, "in order");
                last = due.value;
            })
        });
        assert!(swept.fired <= BUDGET);
        fired += swept.fired as u64;
        more = swept.more;
    }
    assert_eq!(fired, POPULATION);
    let most = counted.most;
    println!("{case}: at most {most} touches in a call with a budget of {BUDGET}");
    assert!(most <= CalendarStore::<u64>::TOUCHES * BUDGET as u64);
}

/// The same by `expire_unordered`, a budget of one step a call: in one jump,
/// and in fifty small ones over `from..to`, where the deadlines lie.
fn gather(case: &str, rule: impl Fn(u64) -> u64, from: u64, to: u64) {
    for turns in [0, 50] {
        let mut counted = Counted::new();
        for index in 0..POPULATION {
            let time = rule(index);
            counted.store.insert(at(time), time);
        }
        let mut fired = 0;
        for turn in 0..=turns {
            let now = if turn == turns {
                u64::MAX
            } else {
                from + (to - from) / turns * turn
            };
            let mut more = true;
            while more {
                let swept = counted.call(|store| {
                    store.expire_unordered(at(now), 1, |due| {
                        assert!(due.at <= at(now), "not early");
                        assert_eq!(due.at.as_nanos(), due.value);
                    })
                });
                assert!(swept.fired <= 1);
                fired += swept.fired as u64;
                more = swept.more;
            }
        }
        assert_eq!(fired, POPULATION);
        assert!(counted.calls <= POPULATION * 2 + 1_000, "{case}");
        counted.settle(case);
    }
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_cluster_at_one_nanosecond() {
    jump("one nanosecond", |_| 30 * SECOND);
}

#[test]
fn a_cluster_in_order() {
    jump("in order", |index| 30 * SECOND + index);
}

#[test]
fn a_cluster_in_a_millisecond() {
    jump("a millisecond", |index| {
        30 * SECOND + noise(index) % 1_000_000
    });
}

#[test]
fn deadlines_over_all_of_time() {
    jump("all of time", |index| {
        noise(index) << (index % 20) | noise(!index)
    });
}

#[test]
fn a_cluster_in_the_past() {
    let mut counted = Counted::new();
    counted.call(|store| store.insert(at(SECOND), SECOND));
    assert_eq!(counted.drain(2 * SECOND), 1);
    counted.call(|store| store.step(at(2 * SECOND)));
    let mut handles = Vec::new();
    for index in 0..POPULATION {
        let time = noise(index) % SECOND;
        handles.push(counted.call(|store| store.insert(at(time), time)));
    }
    for &handle in handles.iter().step_by(3) {
        assert!(counted.call(|store| store.cancel(handle)).is_some());
    }
    let left = counted.store.len() as u64;
    assert_eq!(counted.drain(2 * SECOND), left);
    counted.settle("the past");
}

/// A cluster at the edge of a wide list, time in small steps, and half of the
/// cluster cancelled while it is being taken apart.
#[test]
fn a_cluster_taken_apart_while_it_changes() {
    let mut counted = Counted::new();
    let edge = 1 << 36;
    let mut handles = Vec::new();
    for index in 0..POPULATION {
        let time = edge + noise(index) % (1 << 22);
        handles.push(counted.call(|store| store.insert(at(time), time)));
    }
    let mut fired = 0;
    let mut cancelled = 0;
    let mut handles = handles.into_iter();
    for step in 0..=40 {
        let now = edge - (1 << 20) + (step << 17);
        for _ in 0..POPULATION / 200 {
            match counted.call(|store| store.step(at(now))) {
                Step::Due(due) => {
                    assert!(due.at <= at(now));
                    fired += 1;
                }
                Step::Busy => {}
                Step::Idle => break,
            }
            if let Some(handle) = handles.next() {
                cancelled += u64::from(counted.call(|store| store.cancel(handle)).is_some());
            }
        }
    }
    fired += counted.drain(u64::MAX);
    assert_eq!(fired + cancelled, POPULATION);
    counted.settle("taken apart");
}

/// One call with a time far ahead, with nothing or something beyond it, and what
/// comes after costs what it cost before.
#[test]
fn a_wild_time_costs_its_moment() {
    const YEAR: u64 = 365 * 24 * 3_600 * SECOND;
    for (wild, beyond) in [(YEAR, 0), (YEAR, 1_000), (u64::MAX, 0), (3 * SECOND, 10)] {
        for by_step in [true, false] {
            let mut store = CalendarStore::new();
            let beyond = (0..beyond).map(|nth| YEAR + 1 + noise(nth) % YEAR);
            let beyond: Vec<_> = beyond.map(|time| store.insert(at(time), time)).collect();
            for now in [SECOND, wild] {
                assert_eq!(store.pop_due(at(now)), None);
            }
            // These come before the next step does, and one of them after it.
            for index in 0..1_000 {
                let time = 2 * SECOND + noise(index) % SECOND;
                store.insert(at(time), time);
            }
            let far = store.insert(at(YEAR / 2), YEAR / 2);
            let settle = |store: &mut CalendarStore<u64>, now| {
                if by_step {
                    while let Some(due) = store.pop_due(at(now)) {
                        assert!(due.at <= at(now));
                    }
                } else {
                    store.expire_unordered(at(now), usize::MAX, |due| assert!(due.at <= at(now)));
                }
                store.check_invariants();
            };
            settle(&mut store, SECOND + 1);
            let before = store.touched();
            for index in 0..10_000 {
                let time = 2 * SECOND + noise(index) % SECOND;
                let handle = store.insert(at(time), time);
                assert_eq!(store.cancel(handle), Some(time));
            }
            let touched = store.touched() - before;
            assert!(touched <= 10_000 * 5, "{touched} for {wild}");
            settle(&mut store, 3 * SECOND);
            assert_eq!(store.len(), beyond.len() + 1);
            assert_eq!(store.cancel(far), Some(YEAR / 2));
            settle(&mut store, 2 * YEAR + 1);
            assert!(store.is_empty());
        }
    }
}
