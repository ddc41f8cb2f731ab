//! Checks of states with at most one thread inside an operation, made on a copy of the state.

use super::machine::{Model, Operation};
use super::state::{At, POOL, State, Thread, bit};

/// Steps that an operation may take alone.
const PATIENCE: usize = 400;
/// Pops by one that a probe may make; batches come behind them.
const POPS: usize = 40;

/// Runs of pops by a thread that is between two operations.
pub(crate) struct Prober {
    threads: usize,
    one_segment: bool,
    /// By thread: the same model, in which only that thread has anything to do.
    models: Vec<Model>,
}

impl Prober {
    pub(crate) fn new(model: &Model) -> Self {
        let pops: &[Operation] = &[[Operation::Pop; POPS], [Operation::PopBatch; POPS]].concat();
        let models = (0..model.threads())
            .map(|thread| {
                let programs: Vec<_> = (0..model.threads())
                    .map(|at| if at == thread { pops } else { &[] })
                    .collect();
                Model {
                    mutant: model.mutant,
                    any_point: model.any_point,
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
                    self.poll(*state, prober, Operation::Pop)?;
                    self.poll(*state, prober, Operation::PopBatch)?;
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

    /// Polls of an empty queue: the first may give up the tickets of one claim by a stale hint, the
    /// second changes nothing.
    fn poll(&self, mut state: State, thread: usize, first: Operation) -> Result<(), String> {
        state.threads[thread] = Thread::default();
        if first == Operation::PopBatch {
            state.threads[thread].operation = POPS as u8;
        }
        let before = (state.tail, state.head);
        self.pop(&mut state, thread)?;
        let after = (state.tail, state.head);
        let claimed = after.1.index.wrapping_sub(before.1.index);
        if after.0 != before.0 || after.1.segment != before.1.segment || claimed > first.items() {
            return Err(format!(
                "a poll of an empty queue moves head from {} by {claimed}",
                before.1.index
            ));
        }
        self.pop(&mut state, thread)?;
        if (state.tail, state.head) != after {
            return Err("polls of an empty queue go on changing the indices".into());
        }
        Ok(())
    }

    /// Pops all that a thread can get while `stopped` stands still; then what does not belong to
    /// the queue any more is free, spare, or the one segment that the stopped thread pins.
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
        if away & !(bit(local.held) | bit(local.settling)) != 0 {
            return Err(format!(
                "segments {away:#b} (as bits) are kept by no thread"
            ));
        }
        Ok(())
    }
}
