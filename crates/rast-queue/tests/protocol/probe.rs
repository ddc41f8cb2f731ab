//! What must hold where at most one thread is inside of an operation, tried out on a copy of the state.

use super::machine::{Model, Operation};
use super::state::{At, POOL, State, Thread, bit};

/// Steps that an operation may take alone.
const PATIENCE: usize = 400;

/// Runs of pops by a thread that is between two operations.
pub(crate) struct Prober {
    threads: usize,
    one_segment: bool,
    /// By thread: the same model, in which only that thread has anything to do.
    models: Vec<Model>,
}

impl Prober {
    pub(crate) fn new(model: &Model) -> Self {
        let pops: &[Operation] = &[Operation::Pop; 40];
        let models = (0..model.threads())
            .map(|thread| {
                let programs: Vec<_> = (0..model.threads())
                    .map(|at| if at == thread { pops } else { &[] })
                    .collect();
                Model {
                    losses: model.losses,
                    mutant: model.mutant,
                    any_point: model.any_point,
                    buffered: model.buffered,
                    ..Model::new(model.slots, &programs)
                }
            })
            .collect();
        Self {
            threads: model.threads(),
            one_segment: model.one_segment,
            models,
        }
    }

    /// Tries what can be tried in `state`; false if nothing can.
    pub(crate) fn probe(&self, state: &State) -> Result<bool, String> {
        let inside = |&thread: &usize| state.threads[thread].at != At::Begin;
        let stopped: Vec<_> = (0..self.threads).filter(inside).collect();
        let Some(prober) = (0..self.threads).find(|thread| !inside(thread)) else {
            return Ok(false);
        };
        match stopped[..] {
            [] => {
                if state.oracle.standing() == 0 {
                    self.poll(*state, prober)?;
                }
                self.drain(*state, prober, None)?;
            }
            [stopped] => self.drain(*state, prober, Some(stopped))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One pop; true if it found an item.
    fn pop(&self, state: &mut State, thread: usize) -> Result<bool, String> {
        let local = &mut state.threads[thread];
        if usize::from(local.operation) >= self.models[thread].programs[thread].len() {
            return Err("pops go on for ever".into());
        }
        let operation = local.operation;
        let standing = state.oracle.standing();
        for _ in 0..PATIENCE {
            self.models[thread].step(state, thread)?;
            if state.threads[thread].operation != operation {
                return Ok(state.oracle.standing() != standing);
            }
        }
        Err(format!(
            "a pop by thread {thread} does not end, though all others stand still"
        ))
    }

    /// Polls of an empty queue: the first may end one stale ticket, the second changes nothing.
    fn poll(&self, mut state: State, thread: usize) -> Result<(), String> {
        state.threads[thread] = Thread::default();
        let (before, given_up) = ((state.tail, state.head), state.count);
        self.pop(&mut state, thread)?;
        let first = (state.tail, state.head);
        if given_up == 0 && state.count != 0 {
            return Err("a poll of an empty queue leaves a ticket in the table".into());
        }
        let claimed = first.1.index.wrapping_sub(before.1.index);
        // A ticket that nobody has pushed to is claimed on both sides.
        let mut tail = before.0;
        if first.0 != tail {
            tail.index += 1;
        }
        if first.0 != tail || first.1.segment != before.1.segment || claimed > 1 {
            return Err(format!(
                "a poll of an empty queue moves head from {} by {claimed}",
                before.1.index
            ));
        }
        self.pop(&mut state, thread)?;
        if (state.tail, state.head) != first {
            return Err("polls of an empty queue go on changing the indices".into());
        }
        Ok(())
    }

    /// Pops all that a thread can get while `stopped` stands still; then what does not belong to the queue any more is
    /// free, spare, or the one segment that the stopped thread pins.
    fn drain(&self, mut state: State, thread: usize, stopped: Option<usize>) -> Result<(), String> {
        state.threads[thread] = Thread::default();
        while self.pop(&mut state, thread)? {}
        for _ in 0..POOL {
            self.pop(&mut state, thread)?;
        }
        if stopped.is_none() && state.oracle.standing() != 0 {
            return Err(format!(
                "items {:#b} (as bits) are lost",
                state.oracle.standing()
            ));
        }
        let mut away = state.allocated() & !state.reachable() & !bit(state.spare);
        let Some(stopped) = stopped else {
            return match away {
                0 => Ok(()),
                _ => Err(format!("segments {away:#b} (as bits) leak")),
            };
        };
        let local = &state.threads[stopped];
        away &= !bit(local.fresh);
        let mut rest = local.rest;
        while rest != 0 {
            if !self.one_segment {
                away &= !bit(rest);
            }
            rest = state.segments[usize::from(rest) - 1].limbo_next;
        }
        if away.count_ones() > 1 {
            return Err(format!(
                "thread {stopped}, stopped, keeps segments {away:#b} (as bits) from use"
            ));
        }
        // A producer that has not learnt yet that its ticket was given up has to end the slot.
        let given_up = match local.at {
            At::PushQuiet | At::PushFlush | At::PushSearch => bit(local.word.segment),
            _ => 0,
        };
        if away & !(bit(local.held) | bit(local.settling) | given_up) != 0 {
            return Err(format!("segments {away:#b} (as bits) are kept by nobody"));
        }
        Ok(())
    }
}
