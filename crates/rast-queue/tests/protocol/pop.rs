//! Pop and `is_empty`: the look for emptiness, claims on `head`, and tickets that are given up.

use super::machine::{Outcome, Step};
use super::mutant::Mutant;
use super::state::{At, Cell, DONE, Decision, TERMINAL, WRITTEN, Word};

impl Step<'_> {
    /// From the load of `head` to the claim, or to the end.
    pub(super) fn pop_look(&mut self) -> Outcome {
        let (slots, t) = (self.slots(), *self.t());
        match t.at {
            At::PopHead => {
                self.t().word = self.s.head;
                self.go(At::PopHint)
            }
            At::PopHint => {
                let hint = self.s.hint;
                let below = t.word.index < hint.index
                    || self.is(Mutant::HintForPins) && t.word.index >= slots;
                if hint.segment == t.word.segment && below && hint.segment != 0 {
                    self.t().seen = hint;
                    return self.go(At::PopClaim);
                }
                self.go(At::PopRetired)
            }
            At::PopRetired => {
                self.t().retired = self.s.retired;
                self.go(At::PopHeadAgain)
            }
            At::PopHeadAgain if self.s.head != t.word && !self.is(Mutant::NoHeadAgain) => {
                self.again()
            }
            At::PopHeadAgain => self.go(At::PopLimbo),
            At::PopLimbo => self.go(if self.s.limbo == 0 {
                At::PopTail
            } else {
                At::ReapTake
            }),
            At::PopTail => {
                let tail = self.s.tail;
                let bound = if tail.segment == t.word.segment {
                    tail.index.min(slots)
                } else {
                    slots
                };
                let was_empty = self.s.oracle.is_empty();
                if t.word.index < bound {
                    self.t().seen = Word {
                        index: bound,
                        ..t.word
                    };
                    self.go(At::PopHintStore)
                } else if tail.segment != t.word.segment {
                    self.go(At::PopClaim)
                } else {
                    self.t().was_empty = was_empty;
                    self.go(At::PopRetiredAgain)
                }
            }
            At::PopRetiredAgain => {
                if self.s.retired != t.retired && !self.is(Mutant::NoRetired) {
                    return self.again();
                }
                self.found_empty()
            }
            At::PopHintStore => {
                self.s.hint = t.seen;
                self.go(At::PopClaim)
            }
            _ => unreachable!(),
        }
    }

    pub(super) fn found_empty(&mut self) -> Outcome {
        let t = *self.t();
        let is_true = if self.model.any_point {
            t.ever_empty
        } else {
            t.was_empty
        };
        if !is_true {
            return Err("a pop finds nothing in a queue that holds an item".into());
        }
        self.finish()
    }

    pub(super) fn pop_claim(&mut self) -> Outcome {
        let (left, t, head) = (self.left(), *self.t(), self.s.head);
        if head != t.word {
            let most = self.model.losses;
            let t = self.t();
            t.word = head;
            t.losses += 1;
            if t.losses >= most {
                t.losses = 0;
                return self.go(At::PopClaimByAdding);
            }
            return Ok(());
        }
        let known = t.seen.segment == head.segment && head.index < t.seen.index;
        let tickets = if known {
            left.min(t.seen.index - head.index)
        } else {
            1
        };
        self.s.head.index += tickets;
        self.pop_claimed(tickets)
    }

    pub(super) fn pop_claimed(&mut self, tickets: u8) -> Outcome {
        let slots = self.slots();
        let t = self.t();
        let word = t.word;
        t.held = word.segment;
        t.seen = Word::default();
        t.retired = 0;
        t.losses = 0;
        if word.index >= slots {
            return self.go(At::PopPinnedTail);
        }
        t.tickets = tickets;
        for index in word.index..word.index + tickets {
            self.s.oracle.claim_pop(self.me, word.segment, index)?;
        }
        self.go(At::PopSlot)
    }

    /// From the entry of a ticket that is given up to the decision.
    pub(super) fn pop_give_up(&mut self) -> Outcome {
        let t = *self.t();
        let (segment, slot) = (t.word.segment, t.word.index + t.ticket);
        let late = self.is(Mutant::EnterLate);
        match t.at {
            // After a ticket without an item, the rest of the batch, which is one ticket, is looked at likewise.
            At::PopUnclaimed | At::PopRest => {
                let tail = self.s.tail;
                let is_own = (tail.segment == segment || self.is(Mutant::ClaimAnywhere))
                    && (tail.index == slot
                        || self.is(Mutant::ClaimAny) && tail.index < self.slots());
                if !is_own || self.is(Mutant::NoClaim) {
                    return self.go(match t.at {
                        At::PopRest => At::PopSlot,
                        _ if late => At::PopHeavy,
                        _ => At::PopEnter,
                    });
                }
                if !self.is(Mutant::EndUnclaimed) {
                    self.s.tail.index += 1;
                }
                self.s.oracle.abandon(segment, slot)?;
                self.go(At::PopEnd)
            }
            At::PopEnter => {
                let number = self.reach(segment)?.number;
                let Some(free) = self
                    .s
                    .cells
                    .iter_mut()
                    .find(|cell| cell.decision == Decision::None)
                else {
                    return Err("the model has too few cells".into());
                };
                *free = Cell {
                    segment,
                    number,
                    slot,
                    decision: Decision::Undecided,
                };
                self.t().number = number;
                self.go(At::PopCount)
            }
            At::PopCount => {
                self.s.count += 1;
                self.go(if late { At::PopDecide } else { At::PopHeavy })
            }
            At::PopHeavy => {
                if !self.is(Mutant::NoHeavy) {
                    for thread in 0..self.model.threads() {
                        if self.s.threads[thread].buffered {
                            self.flush(thread)?;
                        }
                    }
                }
                self.go(At::PopLook)
            }
            At::PopLook => {
                let found = self.ticket()?.2.state & WRITTEN != 0;
                self.t().found = found;
                self.go(if late { At::PopEnter } else { At::PopDecide })
            }
            At::PopDecide => {
                let (found, ignores) = (t.found, self.is(Mutant::NoDecision));
                self.t().found = false;
                self.t().number = 0;
                let Some(cell) = self.s.cells.iter_mut().find(|cell| {
                    (cell.segment, cell.number, cell.slot) == (segment, t.number, slot)
                }) else {
                    return Err("a ticket that is given up has lost its cell".into());
                };
                if !found && cell.decision == Decision::Undecided {
                    cell.decision = Decision::Left;
                    self.s.oracle.abandon(segment, slot)?;
                    return self.next_ticket(At::PopRest);
                }
                let is_taken = cell.decision == Decision::Undecided || ignores;
                *cell = Cell::default();
                self.s.count -= 1;
                self.go(if is_taken {
                    self.first_of_take()
                } else {
                    At::PopEnd
                })
            }
            At::PopEnd => {
                let (_, _, slot) = self.ticket()?;
                slot.value = 0;
                slot.state = DONE;
                self.next_ticket(At::PopRest)
            }
            _ => unreachable!(),
        }
    }

    pub(super) fn first_of_take(&self) -> At {
        if self.is(Mutant::DoneBeforeRead) {
            At::PopDone
        } else {
            At::PopRead
        }
    }

    pub(super) fn pop_read(&mut self) -> Outcome {
        let t = *self.t();
        let index = t.word.index + t.ticket;
        let slot = &mut self.reach(t.word.segment)?.slots[usize::from(index)];
        let item = slot.value;
        slot.value = 0;
        self.s.oracle.pop(self.me, t.word.segment, index, item)?;
        if self.is(Mutant::DoneBeforeRead) {
            self.t().through += 1;
            return self.next_ticket(At::PopSlot);
        }
        self.go(At::PopDone)
    }

    pub(super) fn pop_done(&mut self) -> Outcome {
        self.ticket()?.2.state = DONE;
        if self.is(Mutant::DoneBeforeRead) {
            return self.go(At::PopRead);
        }
        self.t().through += 1;
        self.next_ticket(At::PopSlot)
    }

    pub(super) fn pop_next(&mut self) -> Outcome {
        match self.load_next()? {
            0 | TERMINAL => Err("tail has left a segment that none follows".into()),
            next => {
                self.t().next = next;
                self.go(At::HeadLoad)
            }
        }
    }

    /// `is_empty`: the look of a pop, with its first two loads the other way round and no hint.
    pub(super) fn look_empty(&mut self) -> Outcome {
        let (slots, t) = (self.slots(), *self.t());
        match t.at {
            At::EmptyRetired => {
                self.t().retired = self.s.retired;
                self.go(At::EmptyHead)
            }
            At::EmptyHead => {
                self.t().word = self.s.head;
                self.go(At::EmptyTail)
            }
            At::EmptyTail => {
                let (tail, was_empty) = (self.s.tail, self.s.oracle.is_empty());
                if tail.segment == t.word.segment && t.word.index >= tail.index.min(slots) {
                    self.t().was_empty = was_empty;
                    return self.go(At::EmptyRetiredAgain);
                }
                self.finish()
            }
            At::EmptyRetiredAgain if self.s.retired != t.retired => self.again(),
            At::EmptyRetiredAgain => self.found_empty(),
            _ => unreachable!(),
        }
    }
}
