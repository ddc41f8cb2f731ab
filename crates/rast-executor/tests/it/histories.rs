//! Random programs of threads that spawn, wake, abort, join and drop tasks, and the rules that each
//! recorded history has to keep: `support/history.rs` lists them.
//!
//! `RAST_HISTORY_SEED=N` runs the program of one seed a thousand times in place of the others.
//! Wrong executors and wrong histories are caught, or what passes says nothing.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use crate::history::{Entry, Event, check};
use crate::program::{Size, Subject, run};
use crate::subjects::{Fault, Plain, Tasks, Workers};
use rast_executor::Runtime;
use rast_executor::primitive::model::draw;

const SIZE: Size = Size {
    threads: 3,
    ops: 24,
    tasks: 6,
    steps: 5,
};

/// Runs programs on what `subject` makes; each is to keep the rules.
fn programs<S: Subject>(count: u64, subject: impl Fn() -> S) {
    let named = std::env::var("RAST_HISTORY_SEED").ok();
    let named = named.map(|seed| seed.parse().expect("RAST_HISTORY_SEED is a number"));
    let first = draw();
    for index in 0..named.map_or(count, |_: u64| 1_000) {
        let seed = named.unwrap_or(first.wrapping_add(index));
        if let Err(broken) = run(seed, SIZE, subject()) {
            panic!("{broken}\nto repeat it: RAST_HISTORY_SEED={seed}");
        }
    }
}

#[test]
fn tasks_keep_the_rules() {
    programs(1_000, Tasks::new);
}

#[test]
fn a_runtime_keeps_the_rules() {
    for workers in [1, 2, 4] {
        programs(100, || {
            // Without the watch, which would hide a wake-up that was lost.
            let builder = Runtime::builder().workers(workers).watch(None);
            Workers::new(builder.build().expect("the system gives threads"))
        });
    }
}

#[test]
fn a_plain_executor_keeps_the_rules() {
    programs(300, || Plain::new(None));
}

/// The first rule that an executor with this fault breaks, over programs of fixed seeds.
fn caught(fault: Fault) -> String {
    let broken = |seed| run(seed, SIZE, Plain::new(Some(fault))).err();
    (0..500).find_map(broken).expect("the fault is caught")
}

#[test]
fn executors_with_a_fault_are_caught() {
    // The order of the threads decides which of a fault's rules breaks first.
    let lost = ["rule 2: a wake-up was lost", "rule 4: an abort was lost"];
    // The future is kept, so one that was aborted is not dropped either.
    let kept = ["rule 3: ", lost[0], lost[1]];
    let cases: [(Fault, &[&str]); 7] = [
        // An abort is a wake-up too.
        (Fault::WakeDuringPoll, &lost),
        (
            Fault::PollAfterEnd,
            &["rule 1: polled after the end", kept[0], kept[1], kept[2]],
        ),
        (Fault::LateDrop, &kept),
        (Fault::LostAbort, &["rule 4: an abort was lost"]),
        (
            Fault::PollAfterAbort,
            &["rule 2: a poll without", "rule 4: "],
        ),
        (Fault::TwoOutputs, &["rule 5: an output was dropped twice"]),
        (Fault::HandleDrops, &["rule 3: dropped without a reason"]),
    ];
    for (fault, rules) in cases {
        let broken = caught(fault);
        let is_named = rules.iter().any(|rule| broken.starts_with(rule));
        assert!(is_named, "{fault:?}: {broken}");
    }
}

#[test]
fn each_rule_is_checked() {
    use Event::*;
    // A task that is polled to its end, with what the broken history has in place of a part.
    let good = [
        Spawn,
        PollBegins,
        Wake,
        PollPends,
        PollBegins,
        PollIsReady,
        Drop,
        Taken,
        OutputDropped,
    ];
    let of = |events: &[Event]| {
        events
            .iter()
            .map(|&event| (event, 0))
            .collect::<Vec<Entry>>()
    };
    assert_eq!(check(&of(&good)), Ok(()));
    let cases: &[(&[Event], &str)] = &[
        (&[PollBegins], "rule 1: polled before the spawn"),
        (&[Spawn, Spawn], "rule 1: spawned twice"),
        (
            &[Spawn, Wake, PollBegins, PollBegins],
            "rule 1: polled by two threads",
        ),
        (
            &[Spawn, Wake, PollBegins, PollIsReady, PollBegins],
            "rule 1: polled after the end",
        ),
        (
            &[Spawn, Wake, PollBegins, PollPanics, PollBegins],
            "rule 1: polled after the end",
        ),
        (
            &[Spawn, Wake, Abort, Drop, PollBegins],
            "rule 1: polled after the end",
        ),
        (
            &[Spawn, PollPends],
            "rule 1: a poll ends that did not begin",
        ),
        (
            &[Spawn, PollBegins, PollPends, PollBegins],
            "rule 2: a poll without a wake-up",
        ),
        (&[Spawn, Quiet], "rule 2: a wake-up was lost"),
        (
            &[Spawn, PollBegins, Wake, PollPends, Quiet],
            "rule 2: a wake-up was lost",
        ),
        (&[Spawn, PollBegins, Quiet], "rule 2: a poll did not end"),
        (&[Spawn, Abort, Drop, Drop], "rule 3: dropped twice"),
        (
            &[Spawn, PollBegins, Abort, Drop],
            "rule 3: dropped during a poll",
        ),
        (
            &[Spawn, PollBegins, PollPends, Drop],
            "rule 3: dropped without a reason",
        ),
        (
            &[Spawn, PollBegins, PollIsReady, Quiet],
            "rule 3: a future outlived its end",
        ),
        (
            &[Spawn, PollBegins, PollIsReady, Taken],
            "rule 3: a handle is ready before the drop",
        ),
        (
            &[Spawn, PollBegins, PollPends],
            "rule 3: a future was not dropped",
        ),
        (
            &[Spawn, PollBegins, PollPends, Abort, Aborted, Quiet],
            "rule 4: an abort was lost",
        ),
        (
            &[
                Spawn, Wake, Abort, Aborted, PollBegins, PollPends, PollBegins,
            ],
            "rule 4: polled after an abort",
        ),
        (
            &[Spawn, OutputDropped],
            "rule 5: an output without a ready poll",
        ),
        (
            &[Spawn, PollBegins, PollIsReady, Drop],
            "rule 5: an output was not dropped",
        ),
        (
            &[
                Spawn,
                PollBegins,
                PollIsReady,
                Drop,
                OutputDropped,
                OutputDropped,
            ],
            "rule 5: an output was dropped twice",
        ),
        (
            &[Spawn, PollBegins, PollIsReady, Drop, Taken, Taken],
            "rule 5: a handle returned twice",
        ),
        (
            &[Spawn, PollBegins, PollIsReady, Drop, Cancelled],
            "rule 5: a handle returned another result",
        ),
        (
            &[Spawn, Abort, Drop, Panicked],
            "rule 5: a handle returned another result",
        ),
        (
            &[Spawn, Abort, DropPanics, Cancelled],
            "rule 5: a handle returned another result",
        ),
    ];
    for (events, rule) in cases {
        let broken = check(&of(events)).expect_err(rule);
        assert!(broken.starts_with(rule), "{broken}");
    }
    let allowed: &[&[Event]] = &[
        &[Spawn, Shutdown, Drop, Cancelled],
        &[
            Spawn, PollBegins, Abort, Aborted, PollPends, Drop, Quiet, Cancelled,
        ],
        &[Spawn, Abort, Aborted, PollBegins, PollPends, Drop, Quiet],
        &[Spawn, PollBegins, PollPanics, Drop, Wake, Quiet, Panicked],
        &[
            Spawn,
            PollBegins,
            PollIsReady,
            DropPanics,
            OutputDropped,
            Panicked,
        ],
    ];
    for events in allowed {
        assert_eq!(check(&of(events)), Ok(()), "{events:?}");
    }
}
