//! Inputs (incoming queues) of `high` edges, which are handled before the others (the low inputs).
//!
//! ```text
//!   turn:  high inputs, up to a batch of each edge
//!            ├─ one has more than its batch ──► low inputs: a share of the batch, the turn ends
//!            └─ else ──► low inputs: a chunk ──► check the high inputs again
//! ```
//!
//! 1. A high message waits for at most a chunk of low ones, even if it arrives during the turn.
//! 2. While high edges are never empty, low inputs have a share of each turn, so they make
//!    progress.
//! 3. Even if the time limit of a batch has passed, a turn handles one high and one low message.

use super::{Input, Instance, Left};
use crate::graph::Graph;
use crate::load::Load;
use crate::process::Process;
use crate::sharder::WorkerCx;
use crate::stack::Stack;

/// Low messages between two checks of the high inputs.
const CHUNK: u32 = 8;

/// The part of a batch that all low inputs share in a turn in which a high edge used up its own
/// batch.
const SHARE: u32 = 16;

impl<G: Graph, P: Process<G>> Instance<G, P> {
    /// Handles the shares of the ready inputs, high ones first.
    #[inline(never)]
    pub(super) fn run_by_rank(&mut self, cx: &mut WorkerCx<'_>, load: &mut Option<&mut Load>) {
        // By rank, low and high: whether a message was handled in this turn.
        let mut served = [false; 2];
        loop {
            self.look_at_high();
            raise_high(&self.inputs, &mut self.ready, &mut self.served);
            let (mut low, mut is_busy, mut skipped) = (None, false, 0);
            for at in 0..self.ready.len() {
                let input = self.ready.at(at);
                let is_high = self.inputs[input as usize].is_high;
                let limit = match is_high {
                    true => u32::MAX,
                    false => *low.get_or_insert_with(|| {
                        is_busy = self.is_high_busy();
                        match is_busy {
                            true => (self.batch.messages / SHARE).max(1),
                            false => CHUNK,
                        }
                    }),
                };
                let inlet = self.inputs[input as usize].inlet as usize;
                let before = self.shares[inlet].taken;
                let is_served = &mut served[usize::from(is_high)];
                let is_over = self.watch.is_over && *is_served;
                let left = match limit == 0 || is_over || !self.core.is_running() {
                    true => Left::Skipped,
                    // After the time it handles one message: see `look_at_time`.
                    false => self.run_input(input, limit, cx, load),
                };
                let taken = self.shares[inlet].taken - before;
                *is_served |= taken > 0;
                if let Some(low) = &mut low {
                    *low -= taken;
                }
                skipped = self.put_back(input, left, skipped);
            }
            self.ready.truncate(skipped);
            self.ready.append(&mut self.served);
            let has_more = low == Some(0) && !is_busy;
            if !has_more || self.watch.is_over || !self.core.is_running() {
                return;
            }
        }
    }

    /// Finds high inputs that got messages since the turn started.
    fn look_at_high(&mut self) {
        for at in 0..self.high.len() {
            let input = self.high[at];
            if self.holds_any(input) {
                self.make_ready(input);
            }
        }
    }

    pub(super) fn holds_any(&self, input: u32) -> bool {
        let entry = self.inputs[input as usize];
        self.ins[entry.inlet as usize].has_any(entry.at as usize)
    }

    /// Returns `true` if a high edge has used up its batch and has more messages.
    fn is_high_busy(&self) -> bool {
        self.high.iter().any(|&input| {
            let inlet = self.inputs[input as usize].inlet as usize;
            self.shares[inlet].taken >= self.batch.messages && self.holds_any(input)
        })
    }
}

/// Moves the high inputs to the front, in their order. `spare` is empty.
fn raise_high(inputs: &[Input], ready: &mut Stack, spare: &mut Stack) {
    let mut high = 0;
    for at in 0..ready.len() {
        let input = ready.at(at);
        if inputs[input as usize].is_high {
            ready[high] = input;
            high += 1;
        } else {
            spare.push(input);
        }
    }
    ready.truncate(high);
    ready.append(spare);
}
