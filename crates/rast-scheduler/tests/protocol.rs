//! The protocol of the scheduler as a model whose every state is visited.
//!
//! `docs/algorithms/scheduler.md` describes what is modelled and checked.
//! `RAST_SCHEDULER_MODEL=large cargo test --release -p rast-scheduler --test protocol --
//! --nocapture` also runs the large programs and prints the traces of the mutants.
#![cfg(not(any(rast_loom, rast_shuttle)))]

#[path = "protocol/machine.rs"]
mod machine;
#[path = "protocol/mutant.rs"]
mod mutant;
#[path = "protocol/round.rs"]
mod round;
#[path = "protocol/state.rs"]
mod state;

use std::env;
use std::time::Instant;

use rast_scheduler::primitive::explore::{Limits, explore};

use machine::Answer::{After, Again, At, Exit, TakeThenWait, Wait};
use machine::Model;
use machine::Operation::{Close, Post, Signal, Stop, Wake};
use mutant::Mutant;
use state::NEVER;

/// Whether to explore what takes minutes.
fn is_large() -> bool {
    env::var_os("RAST_SCHEDULER_MODEL").is_some_and(|size| size == "large")
}

fn holds(name: &str, model: &Model) {
    holds_within(name, model, None);
}

/// Only schedules with so many preemptions at most, if there is such a bound.
fn holds_within(name: &str, model: &Model, preemptions: Option<u8>) {
    let begin = Instant::now();
    let limits = Limits {
        preemptions,
        ..Limits::new(40_000_000)
    };
    match explore(model, limits) {
        Ok(explored) => println!("model: {name} {explored} in {:.1?}", begin.elapsed()),
        Err(fault) => panic!(
            "{name}: {} ({} steps, {} states)\n{}",
            fault.what, fault.steps, fault.states, fault.trace
        ),
    }
}

fn is_caught(model: &Model, mutant: Mutant, what: &str) {
    let model = Model {
        mutant,
        ..model.clone()
    };
    match explore(&model, Limits::new(40_000_000)) {
        Ok(explored) => panic!("{mutant:?} is not caught: {explored}"),
        Err(fault) => {
            println!(
                "mutant: {mutant:?}: {} ({} steps, {} states)",
                fault.what, fault.steps, fault.states
            );
            if is_large() {
                println!("{}", fault.trace);
            }
            assert!(
                fault.what.contains(what),
                "{mutant:?} shows as \"{}\" and not as \"{what}\":\n{}",
                fault.what,
                fault.trace
            );
        }
    }
}

/// One task is posted, runs twice, and ends.
fn reposts() -> Model {
    Model::new(&[&[Post(0, 0)]], &[&[Again, Exit]])
}

/// Two threads post a task each.
fn posts() -> Model {
    Model::new(&[&[Post(0, 0)], &[Post(1, 0)]], &[&[Exit], &[Exit]])
}

/// A task waits, and two threads wake it.
fn wakes() -> Model {
    Model::new(&[&[Post(0, NEVER), Wake(0)], &[Wake(0)]], &[&[Wait, Wait]])
}

/// A deadline against a wake-up.
fn deadline_and_wake() -> Model {
    Model {
        clock: 1,
        ..Model::new(&[&[Post(0, 1)], &[Wake(0)]], &[&[Wait]])
    }
}

/// Signals before, in and after the steps; an unreceived one overrides the deadline.
fn signals() -> Model {
    Model::new(
        &[&[Post(0, NEVER), Signal(0)], &[Signal(0)]],
        &[&[At(9), TakeThenWait, TakeThenWait]],
    )
}

/// The first task blocks until the second has run.
fn blocks() -> Model {
    Model::new(&[&[Post(0, 0), Post(1, 0)]], &[&[After(1)], &[Exit]])
}

/// The same where both become due by time.
fn blocked_keeper() -> Model {
    Model {
        clock: 2,
        ..Model::new(&[&[Post(0, 1), Post(1, 2)]], &[&[After(1)], &[Exit]])
    }
}

/// A later deadline, then an earlier one; time ends at that.
fn earlier_deadline() -> Model {
    Model {
        clock: 1,
        ..Model::new(&[&[Post(0, 2), Post(1, 1)]], &[&[Exit], &[Exit]])
    }
}

/// A thread that posts is stopped for ever; what the other posts runs.
fn stopped_thread(workers: usize) -> Model {
    Model {
        workers,
        freezes: true,
        ..posts()
    }
}

/// A stop against a wake-up and a post.
fn stops() -> Model {
    Model::new(
        &[&[Post(0, NEVER), Stop], &[Wake(0), Post(1, 0)]],
        &[&[Wait, Exit], &[Exit]],
    )
}

/// A close against a wake-up and a post.
fn closes() -> Model {
    Model::new(
        &[&[Post(0, NEVER), Close], &[Wake(0), Post(1, 0)]],
        &[&[Wait, Exit], &[Exit]],
    )
}

fn one(model: Model) -> Model {
    Model {
        workers: 1,
        ..model
    }
}

#[test]
fn the_protocol_holds_under_one_worker() {
    holds("reposts", &one(reposts()));
    holds("posts", &one(posts()));
    holds("wakes", &one(wakes()));
    holds("deadline_and_wake", &one(deadline_and_wake()));
    holds("signals", &one(signals()));
    holds("earlier_deadline", &one(earlier_deadline()));
    holds("stopped_thread", &stopped_thread(1));
    holds("stops", &one(stops()));
    holds("closes", &one(closes()));
}

/// Every schedule of one task.
#[test]
fn the_protocol_holds_under_two_workers() {
    holds("reposts", &reposts());
    if is_large() {
        holds("posts", &posts());
        holds("blocks", &blocks());
        holds("wakes", &wakes());
        holds("deadline_and_wake", &deadline_and_wake());
        holds("signals", &signals());
    }
}

/// Schedules of larger programs with few preemptions; with more on request.
#[test]
fn larger_programs_hold() {
    let bound = Some(match is_large() {
        true => 4,
        false if cfg!(debug_assertions) => 1,
        false => 2,
    });
    let wide = |model: Model| Model { batch: 2, ..model };
    for (name, model) in [
        ("posts", posts()),
        ("wakes", wakes()),
        ("deadline_and_wake", deadline_and_wake()),
        ("signals", signals()),
        ("blocks", wide(blocks())),
        ("blocked_keeper", blocked_keeper()),
        ("earlier_deadline", earlier_deadline()),
        ("stopped_thread", stopped_thread(2)),
        ("stops", stops()),
        ("closes", closes()),
    ] {
        holds_within(name, &model, bound);
    }
}

mod long {
    use super::*;

    #[test]
    fn each_mutant_is_caught() {
        let forgotten = "was forgotten";
        is_caught(&one(posts()), Mutant::NoSecondLook, forgotten);
        is_caught(&one(posts()), Mutant::LookBeforePush, forgotten);
        is_caught(&one(deadline_and_wake()), Mutant::NoClaim, "places");
        is_caught(&one(wakes()), Mutant::AlwaysMove, "places");
        is_caught(&one(wakes()), Mutant::WaitBlindly, "was woken and sleeps");
        is_caught(&one(wakes()), Mutant::KeepEntry, "stored and ready");
        is_caught(&blocks(), Mutant::NoShare, "stuck");
        is_caught(
            &stopped_thread(1),
            Mutant::NoHelp,
            "waits for a stopped thread",
        );
        is_caught(&earlier_deadline(), Mutant::NoHasten, forgotten);
        is_caught(&blocked_keeper(), Mutant::NoNextKeeper, "stuck");
        is_caught(&one(stops()), Mutant::SilentStop, "does not return");
        is_caught(&one(closes()), Mutant::CloseEarly, "stored after its end");
        is_caught(&one(closes()), Mutant::CloseOnce, forgotten);
        is_caught(&one(signals()), Mutant::SignalsWait, "was woken and sleeps");
        is_caught(&one(wakes()), Mutant::BeginLate, "was woken and sleeps");
        is_caught(&one(deadline_and_wake()), Mutant::Early, "is early");
        let due = Model {
            clock: 1,
            ..Model::new(&[&[Post(0, 1)]], &[&[Exit]])
        };
        is_caught(&due, Mutant::KeepBesideRole, "for ever");
        is_caught(&reposts(), Mutant::StealToKeep, "for ever");
        is_caught(&reposts(), Mutant::TryRoleTwice, "for ever");
    }
}
