//! The model of the queue as a machine of the explorer: its checks, its counts, and the text of its
//! traces.

use std::fmt::Write as _;

pub(crate) use rast_queue::primitive::explore::Limits;
use rast_queue::primitive::explore::{self, Machine};

use super::machine::Model;
use super::probe::Prober;
use super::state::{At, POOL, Slot, State, Word};

pub(crate) type Explored = explore::Explored<Notes>;
pub(crate) use explore::Fault;

/// What all states came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notes {
    /// How far the indices went past the slots.
    pub(crate) tail_over: u8,
    pub(crate) head_over: u8,
    /// Times that an address was given to the queue again.
    pub(crate) recycled: u8,
}

/// A model with what tries its states out.
struct Probed<'a> {
    model: &'a Model,
    prober: Prober,
}

/// Explores `model`; a fault is what the protocol promises not to do.
pub(crate) fn explore(model: &Model, limits: Limits) -> Result<Explored, Fault> {
    let prober = Prober::new(model);
    explore::explore(&Probed { model, prober }, limits)
}

impl Machine for Probed<'_> {
    type State = State;
    type Notes = Notes;

    fn threads(&self) -> usize {
        self.model.threads()
    }

    fn start(&self) -> State {
        State::new(self.model.slots)
    }

    fn prologue(&self, state: &State) -> Option<usize> {
        (state.threads[0].operation < self.model.prologue).then_some(0)
    }

    fn is_enabled(&self, state: &State, thread: usize) -> bool {
        !self.model.is_done(state, thread)
    }

    fn step(&self, state: &mut State, thread: usize) -> Result<bool, String> {
        let operation = state.threads[thread].operation;
        self.model.step(state, thread)?;
        Ok(state.threads[thread].operation != operation)
    }

    fn is_inside(&self, state: &State, thread: usize) -> bool {
        state.threads[thread].at != At::Begin
    }

    fn check(&self, state: &State) -> Result<(), String> {
        self.model.check_bounds(state)
    }

    fn probe(&self, state: &State) -> Result<bool, String> {
        self.prober.probe(state)
    }

    fn note(&self, state: &State, notes: &mut Notes) {
        let slots = self.model.slots;
        notes.tail_over = notes.tail_over.max(state.tail.index.saturating_sub(slots));
        notes.head_over = notes.head_over.max(state.head.index.saturating_sub(slots));
        notes.recycled = notes.recycled.max(state.retired);
    }

    fn describe(&self, before: &State, thread: usize, after: &State) -> String {
        let local = &before.threads[thread];
        let operation = self.model.programs[thread][usize::from(local.operation)];
        let at = if local.at == At::Begin {
            operation.first()
        } else {
            local.at
        };
        let mut text = format!("{operation:?}: {at:?}");
        changes(&mut text, before, after);
        text
    }
}

fn changes(text: &mut String, before: &State, after: &State) {
    let word = |word: Word| {
        let closed = if word.closed { " CLOSED" } else { "" };
        format!("({} {}{closed})", word.segment, word.index)
    };
    let mut change = |name: String, before: String, after: String| {
        if before != after {
            write!(text, "  {name} {before} -> {after}").unwrap();
        }
    };
    change("tail".into(), word(before.tail), word(after.tail));
    change("head".into(), word(before.head), word(after.head));
    change("hint".into(), word(before.hint), word(after.hint));
    let fields = |state: &State| [state.retired, state.first, state.limbo, state.spare];
    for (at, name) in ["retired", "first", "limbo", "spare"].iter().enumerate() {
        change(
            (*name).into(),
            fields(before)[at].to_string(),
            fields(after)[at].to_string(),
        );
    }
    for at in 0..POOL {
        let (old, new) = (&before.segments[at], &after.segments[at]);
        let name = |field: &str| format!("{}.{field}", at + 1);
        change(
            name("allocated"),
            old.allocated.to_string(),
            new.allocated.to_string(),
        );
        change(name("next"), old.next.to_string(), new.next.to_string());
        change(
            name("control"),
            old.control.to_string(),
            new.control.to_string(),
        );
        for (index, (old, new)) in old.slots.iter().zip(&new.slots).enumerate() {
            let show = |slot: &Slot| format!("{}/{}", slot.value, slot.state);
            change(name(&format!("slot{index}")), show(old), show(new));
        }
    }
}
