//! The segment protocol of `Queue` as a model whose every state is visited.
//!
//! `docs/algorithms/queue-model.md` describes what is modelled and checked, and the results of the
//! programs below. `RAST_QUEUE_MODEL=large cargo test --release -p rast-queue --test protocol --
//! --nocapture --test-threads=1` also runs the large programs and prints what each explored.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]

#[path = "protocol/explore.rs"]
mod explore;
#[path = "protocol/machine.rs"]
mod machine;
#[path = "protocol/mutant.rs"]
mod mutant;
#[path = "protocol/oracle.rs"]
mod oracle;
#[path = "protocol/pop.rs"]
mod pop;
#[path = "protocol/probe.rs"]
mod probe;
#[path = "protocol/push.rs"]
mod push;
#[path = "protocol/segment.rs"]
mod segment;
#[path = "protocol/state.rs"]
mod state;

use std::env;
use std::time::Instant;

use explore::{Explored, Fault, Limits, explore};
use machine::Operation::{
    Close, IsEmpty, Pop, PopBatch, Push, PushBack, PushBatch, PushVain, StaleHint,
};
use machine::{Model, Operation};
use mutant::Mutant;
use state::{At, State};

/// Slots of a segment, and what each thread does.
type Program = (u8, &'static [&'static [Operation]]);

/// Whether to explore what takes minutes.
fn is_large() -> bool {
    env::var_os("RAST_QUEUE_MODEL").is_some_and(|size| size == "large")
}

fn limits(preemptions: Option<u8>) -> Limits {
    Limits {
        states: 30_000_000,
        preemptions,
        probes: true,
    }
}

/// Explores `model` and expects no fault.
fn holds(name: &str, model: &Model, preemptions: Option<u8>) -> Explored {
    let begin = Instant::now();
    match explore(model, limits(preemptions)) {
        Ok(explored) => {
            println!(
                "model: {name} slots={} {:?} {explored} {:?} in {:.1?}",
                model.slots,
                model.programs,
                explored.notes,
                begin.elapsed()
            );
            explored
        }
        Err(fault) => panic!(
            "{name}, slots={} {:?}: {} ({} steps, {} states)\n{}",
            model.slots, model.programs, fault.what, fault.steps, fault.states, fault.trace
        ),
    }
}

fn all_hold(name: &str, programs: &[Program]) -> Explored {
    let mut most = Explored::default();
    for (slots, threads) in programs {
        let explored = holds(name, &Model::new(*slots, threads), None);
        let (most, seen) = (&mut most.notes, explored.notes);
        most.recycled = most.recycled.max(seen.recycled);
        most.tail_over = most.tail_over.max(seen.tail_over);
        most.head_over = most.head_over.max(seen.head_over);
    }
    most
}

/// Explores `model`, which lacks a rule, and expects a fault that says `what`.
fn is_caught(model: &Model, what: &str) -> Fault {
    let probes = model.one_segment
        || matches!(
            model.mutant,
            Mutant::KeepHint
                | Mutant::KeepHintOfBatch
                | Mutant::HintForPins
                | Mutant::NoDone
                | Mutant::LeaveWritten
        );
    let limits = Limits {
        probes,
        ..limits(None)
    };
    match explore(model, limits) {
        Ok(explored) => panic!("{:?} is not caught: {explored}", model.mutant),
        Err(fault) => {
            println!(
                "mutant: {:?} slots={} {:?}: {} ({} steps, {} states)",
                model.mutant, model.slots, model.programs, fault.what, fault.steps, fault.states
            );
            if is_large() {
                println!("{}", fault.trace);
            }
            assert!(
                fault.what.contains(what),
                "{:?} shows as \"{}\" and not as \"{what}\":\n{}",
                model.mutant,
                fault.what,
                fault.trace
            );
            fault
        }
    }
}

fn mutant(mutant: Mutant, (slots, threads): Program, what: &str) {
    let model = Model {
        mutant,
        any_point: true,
        ..Model::new(slots, threads)
    };
    is_caught(&model, what);
}

#[test]
fn one_producer_one_consumer() {
    let most = all_hold(
        "one_producer_one_consumer",
        &[
            (1, &[&[Push, Push, Push], &[Pop, Pop, Pop]]),
            (2, &[&[Push, Push, Push, Push], &[Pop, Pop, Pop, Pop]]),
            (3, &[&[Push, Push, Push, Push], &[Pop, Pop, Pop, Pop]]),
        ],
    );
    assert!(most.notes.recycled >= 2, "segments come back");
}

#[test]
fn push_and_pop_by_turns() {
    let most = all_hold(
        "push_and_pop_by_turns",
        &[
            (1, &[&[Push, Pop, Push, Pop], &[Push, Pop]]),
            (2, &[&[Push, Push, Pop, Pop], &[Push, Pop]]),
            (1, &[&[Push, Push, Pop, Push, Pop, Push], &[Pop, Pop]]),
        ],
    );
    assert!(most.notes.recycled >= 2, "segments come back");
}

#[test]
fn two_producers() {
    all_hold(
        "two_producers",
        &[
            (1, &[&[Push], &[Push], &[Pop]]),
            (2, &[&[Push, Push], &[Push], &[Pop]]),
            (2, &[&[Push, Push], &[Push, Push]]),
        ],
    );
}

#[test]
fn two_consumers() {
    let most = all_hold(
        "two_consumers",
        &[
            (1, &[&[Push, Push], &[Pop, Pop], &[Pop]]),
            (2, &[&[Push, Push, Push], &[Pop], &[Pop]]),
        ],
    );
    assert!(
        most.notes.head_over >= 2,
        "consumers meet at a segment's end"
    );
}

#[test]
fn close_against_all() {
    all_hold(
        "close_against_all",
        &[
            (1, &[&[Push, Push], &[Close], &[Pop]]),
            (2, &[&[Push, Push, Pop], &[Close, Pop]]),
            (2, &[&[Push, Close], &[Push, Close], &[Pop]]),
            (1, &[&[Push, Pop], &[Close], &[Close]]),
        ],
    );
}

/// What a panic in a batch gives back.
#[test]
fn items_that_come_back() {
    all_hold(
        "items_that_come_back",
        &[
            (1, &[&[Push, Close], &[PushBack, Pop]]),
            (2, &[&[Push, Close], &[PushBack], &[Pop]]),
            (1, &[&[Close], &[PushBack], &[Push]]),
            (1, &[&[Close], &[PushBack], &[Close]]),
        ],
    );
}

#[test]
fn batches() {
    all_hold(
        "batches",
        &[
            (2, &[&[PushBatch, PushBatch], &[PopBatch, PopBatch]]),
            (3, &[&[PushBatch, PushBatch], &[PopBatch, Pop]]),
            (2, &[&[PushBatch], &[PopBatch], &[Push]]),
            (3, &[&[PushBatch, Push], &[PopBatch, Close]]),
        ],
    );
}

/// What the allocator refuses leaves nothing behind.
#[test]
fn vain_pushes() {
    all_hold(
        "vain_pushes",
        &[
            (1, &[&[Push, PushVain, PushVain, Pop], &[Pop, Push]]),
            (1, &[&[Push, PushVain, PushVain], &[Push, Pop]]),
            (2, &[&[Push, Push, PushVain], &[PushVain], &[Pop]]),
            (1, &[&[Push, PushVain], &[PushVain], &[Close]]),
            (1, &[&[Push, PushVain], &[Push], &[Pop]]),
        ],
    );
}

/// Tickets that no producer has claimed when their consumer gives them up.
#[test]
fn stale_hints() {
    let programs: &[Program] = &[
        (3, &[&[Push, Pop, StaleHint, Push, Push], &[Pop], &[Pop]]),
        (3, &[&[Push, Pop, StaleHint, PushBatch], &[Pop], &[Pop]]),
        (3, &[&[Push, Pop, StaleHint, Push], &[PopBatch], &[Pop]]),
        (
            3,
            &[&[Push, Pop, StaleHint, Push], &[PopBatch], &[PopBatch]],
        ),
        (3, &[&[Push, Pop, StaleHint, Push], &[Push], &[PopBatch]]),
        (3, &[&[Push, Pop, StaleHint, Close], &[Pop], &[Pop]]),
        (
            3,
            &[&[Push, Pop, StaleHint, Close], &[PushBack], &[PopBatch]],
        ),
        (3, &[&[Push, Pop, StaleHint, IsEmpty], &[Push], &[PopBatch]]),
    ];
    for &(slots, threads) in programs {
        let model = Model {
            prologue: 3,
            ..Model::new(slots, threads)
        };
        holds("stale_hints", &model, None);
    }
}

#[test]
fn emptiness() {
    all_hold(
        "emptiness",
        &[
            (
                1,
                &[&[Push, Push, Pop, Push, Pop, Push], &[IsEmpty, IsEmpty]],
            ),
            (2, &[&[Push], &[Pop], &[IsEmpty]]),
        ],
    );
}

#[test]
fn large_programs() {
    if !is_large() {
        return;
    }
    let programs: &[(Program, Option<u8>)] = &[
        (
            (2, &[&[Push, Pop, Push, Pop], &[Push, Pop, Push, Pop]]),
            None,
        ),
        (
            (1, &[&[Push, Push, Pop, Pop], &[Push, Push, Pop, Pop]]),
            None,
        ),
        (
            (
                3,
                &[
                    &[PushBatch, Pop, PushBatch, Pop],
                    &[PopBatch, Push, PopBatch],
                ],
            ),
            None,
        ),
        ((2, &[&[Push, Push], &[Pop, Pop], &[Pop, Pop]]), None),
        ((2, &[&[Push, Push, Push], &[Pop, Pop], &[Pop, Pop]]), None),
        ((1, &[&[Push, Push], &[Push], &[Pop, Pop]]), None),
        ((2, &[&[Push, Push], &[Push, Push], &[Pop, Pop]]), None),
        ((2, &[&[Push, Pop], &[Push, Pop], &[Close, Pop]]), None),
        ((2, &[&[PushBatch, Push], &[PopBatch], &[PopBatch]]), None),
        ((1, &[&[Push, Close], &[PushBack], &[PushBack]]), None),
        (
            (2, &[&[Push, Push], &[Pop, Pop], &[IsEmpty, IsEmpty]]),
            None,
        ),
        ((2, &[&[Push, Pop], &[Push, Pop], &[Pop, Push]]), None),
        ((1, &[&[Push, Pop], &[Push, Pop], &[Push, Pop]]), Some(3)),
        (
            (2, &[&[Push, Push, Pop], &[Push, Pop], &[Pop, Pop]]),
            Some(3),
        ),
        (
            (
                2,
                &[&[PushBatch, PushBatch], &[PushBatch], &[PopBatch, Close]],
            ),
            Some(3),
        ),
        (
            (2, &[&[PushBatch, Pop], &[Push, PopBatch], &[Pop, Push]]),
            Some(3),
        ),
        (
            (3, &[&[Push, Pop, StaleHint, Push, Push], &[Pop], &[Pop]]),
            None,
        ),
        (
            (
                3,
                &[&[Push, Pop, StaleHint, Push], &[PopBatch], &[Pop, Pop]],
            ),
            None,
        ),
        (
            (
                4,
                &[
                    &[Push, Pop, StaleHint, PushBatch, Push],
                    &[PopBatch, Pop],
                    &[PushBatch],
                ],
            ),
            Some(3),
        ),
        (
            (
                4,
                &[
                    &[Push, Pop, StaleHint, Push, StaleHint, Push],
                    &[PopBatch, PopBatch],
                    &[PopBatch],
                ],
            ),
            None,
        ),
    ];
    for ((slots, threads), preemptions) in programs {
        holds("large", &Model::new(*slots, threads), *preemptions);
    }
}

#[test]
fn without_retired_a_pop_finds_an_old_end() {
    mutant(
        Mutant::NoRetired,
        (1, &[&[Push, Push, Pop, Push, Pop, Push], &[Pop]]),
        "finds nothing in a queue that holds an item",
    );
}

#[test]
fn head_is_looked_at_again_after_retired() {
    mutant(
        Mutant::NoHeadAgain,
        (1, &[&[Push, Push, Pop, Push, Pop, Push], &[Pop]]),
        "finds nothing in a queue that holds an item",
    );
}

#[test]
fn nobody_waits_for_a_producer() {
    mutant(
        Mutant::Wait,
        (2, &[&[Push, Push], &[Pop], &[Pop]]),
        "step for ever",
    );
}

#[test]
fn a_producer_heeds_that_its_ticket_was_given_up() {
    mutant(
        Mutant::PublishBlindly,
        (2, &[&[Push, Push], &[Pop, Pop]]),
        "under a ticket that no thread will pop",
    );
}

#[test]
fn a_ticket_is_given_up_by_an_exchange() {
    mutant(
        Mutant::StoreGivenUp,
        (2, &[&[Push, Push], &[Pop, Pop]]),
        "was pushed and is given up",
    );
}

#[test]
fn a_consumer_that_finds_the_value_takes_it() {
    mutant(
        Mutant::LeaveWritten,
        (2, &[&[Push, Push], &[Pop, Pop]]),
        "are lost",
    );
}

#[test]
fn a_consumer_takes_nothing_from_a_slot_that_it_gave_up() {
    mutant(
        Mutant::TakeGivenUp,
        (2, &[&[Push, Push], &[Pop, Pop]]),
        "reads a slot that holds nothing",
    );
}

#[test]
fn a_slot_that_was_given_up_is_done_by_its_producer() {
    mutant(
        Mutant::NoDone,
        (2, &[&[Push, Push, Push], &[Pop, Pop, Pop]]),
        "kept by no thread",
    );
}

#[test]
fn a_slot_that_was_given_up_is_done_by_its_producer_alone() {
    mutant(
        Mutant::DoneByBoth,
        (2, &[&[Push, Push], &[Pop, Pop]]),
        "is used after DONE",
    );
}

#[test]
fn a_batch_keeps_no_ticket_without_a_producer() {
    mutant(
        Mutant::KeepUnclaimed,
        (3, &[&[Push, Pop, StaleHint, Push], &[PopBatch]]),
        "keeps a ticket that no producer has",
    );
}

#[test]
fn a_batch_without_a_producer_resets_the_hint() {
    mutant(
        Mutant::KeepHintOfBatch,
        (4, &[&[Push, Pop, StaleHint]]),
        "a poll of an empty queue moves head",
    );
}

#[test]
fn retired_counts_before_the_segment_comes_back() {
    let model = Model {
        mutant: Mutant::RetireLate,
        any_point: true,
        prologue: 3,
        ..Model::new(1, &[&[Push, Push, Pop, Pop], &[Push], &[Pop]])
    };
    is_caught(&model, "finds nothing in a queue that holds an item");
}

#[test]
fn the_hint_is_reset_by_an_unwritten_slot() {
    mutant(
        Mutant::KeepHint,
        (
            3,
            &[
                &[
                    Push, Push, Push, Pop, Pop, Pop, Push, Push, Push, Pop, Push, Pop, Pop,
                ],
                &[Pop],
            ],
        ),
        "a poll of an empty queue moves head",
    );
}

#[test]
fn the_hint_is_not_for_pins() {
    mutant(
        Mutant::HintForPins,
        (2, &[&[Push, Push], &[Pop, Pop]]),
        "go on changing the indices",
    );
}

#[test]
fn the_first_slot_is_filled_before_the_link() {
    mutant(
        Mutant::LinkUnfilled,
        (2, &[&[Push], &[Pop]]),
        "is not in the queue",
    );
}

#[test]
fn tail_starts_behind_the_first_slot() {
    mutant(
        Mutant::LinkFromZero,
        (2, &[&[Push], &[Push]]),
        "is written over",
    );
}

#[test]
fn a_segment_is_swept_before_it_is_freed() {
    let model = Model {
        mutant: Mutant::NoSweep,
        prologue: 3,
        ..Model::new(2, &[&[Push, Push, Push, Pop], &[Pop], &[Pop]])
    };
    is_caught(&model, "is freed while thread");
}

#[test]
fn the_move_pays_for_all_pins() {
    mutant(
        Mutant::NoOvershoot,
        (1, &[&[Push, Push], &[Pop, Pop]]),
        "is freed while thread",
    );
}

#[test]
fn a_full_segment_is_pinned() {
    mutant(
        Mutant::NoPin,
        (1, &[&[Push, Push, Pop, Pop], &[Push]]),
        "is freed while thread",
    );
}

#[test]
fn vain_pushes_leave_no_index_behind() {
    mutant(
        Mutant::PinToSegment,
        (1, &[&[Push, PushVain, PushVain], &[Pop]]),
        "the index of tail is 3, above 2",
    );
}

#[test]
fn a_pin_goes_back_where_it_is_counted() {
    mutant(
        Mutant::PinAnywhere,
        (2, &[&[Push, Push, Push, Push], &[Pop]]),
        "is written over",
    );
}

#[test]
fn a_full_last_segment_is_closed_by_its_end() {
    mutant(
        Mutant::NoTerminal,
        (1, &[&[Push], &[Close]]),
        "after the queue was closed",
    );
}

#[test]
fn a_full_last_segment_is_closed_before_it_gets_a_successor() {
    mutant(
        Mutant::OverTerminal,
        (1, &[&[Push, Close], &[PushBack]]),
        "the queue is open",
    );
}

#[test]
fn done_comes_after_the_read() {
    mutant(
        Mutant::DoneBeforeRead,
        (1, &[&[Push, Push], &[Pop, Pop], &[Pop]]),
        "is freed while thread",
    );
}

#[test]
fn slots_are_reset() {
    mutant(
        Mutant::NoReset,
        (1, &[&[Push, Push, Push], &[Pop, Pop]]),
        "is used again with a slot that is not 0",
    );
}

/// What is not promised: a thread that is stopped between the two exchanges of a reap keeps what
/// was in limbo.
#[test]
fn limit_a_reap_keeps_what_it_took() {
    if !is_large() {
        return;
    }
    let model = Model {
        one_segment: true,
        prologue: 3,
        ..Model::new(1, &[&[Push, Push, Push, Pop], &[Pop, Pop], &[Pop]])
    };
    is_caught(&model, "keeps segments");
}

/// What is not promised: `is_empty` says false for a push that is underway, and the pop after it
/// finds nothing.
#[test]
fn limit_is_empty_counts_pushes_underway() {
    let model = Model::new(2, &[&[Push, Push], &[Pop, IsEmpty, Pop]]);
    let mut state = State::new(model.slots);
    let run = |state: &mut State, thread: usize, until: &dyn Fn(&State) -> bool| {
        while !until(state) {
            model.step(state, thread).expect("the protocol allows it");
        }
    };
    run(&mut state, 0, &|state| state.threads[0].operation == 1);
    run(&mut state, 1, &|state| state.threads[1].operation == 1);
    run(&mut state, 0, &|state| state.threads[0].at == At::PushWrite);
    run(&mut state, 1, &|state| state.threads[1].at == At::EmptyTail);
    model.step(&mut state, 1).expect("the protocol allows it");
    assert_eq!(state.threads[1].operation, 2, "is_empty has returned false");
    run(&mut state, 1, &|state| state.threads[1].operation == 3);
    assert_eq!(state.oracle.standing(), 0, "the pop has found nothing");
    run(&mut state, 0, &|state| state.threads[0].operation == 2);
    assert_eq!(
        state.oracle.standing().count_ones(),
        1,
        "the push has succeeded afterwards"
    );
}

/// Three threads in a queue that has a spare segment and is near a border.
#[test]
fn three_threads_after_a_prologue() {
    let programs: &[(u8, Program)] = &[
        (4, (1, &[&[Push, Push, Pop, Pop, Push], &[Push], &[Pop]])),
        (
            6,
            (
                2,
                &[&[Push, Push, Pop, Push, Pop, Pop, Push], &[Pop], &[Pop]],
            ),
        ),
    ];
    for &(prologue, (slots, threads)) in programs {
        let model = Model {
            prologue,
            ..Model::new(slots, threads)
        };
        let explored = holds("three_threads_after_a_prologue", &model, None);
        assert!(explored.notes.recycled >= 1, "a segment came back");
    }
}
