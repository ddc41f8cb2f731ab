//! Pop and `is_empty`: the check for emptiness, claims on `head`, and tickets that are given up.

use super::machine::{Operation, Outcome, Step};
use super::mutant::Mutant;
use super::state::{At, DONE, GIVEN_UP, TERMINAL, WRITTEN, Word};

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
            // A batch looks again; a single claim is tried again with what the exchange found,
            // while there are slots.
            if self.operation == Operation::PopBatch || head.index >= self.slots() {
                return self.again();
            }
            let t = self.t();
            t.word = head;
            t.seen = Word::default();
            t.retired = 0;
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
        if word.index >= slots {
            return self.go(At::PopPinnedTail);
        }
        t.tickets = tickets;
        for index in word.index..word.index + tickets {
            self.s.oracle.claim_pop(self.me, word.segment, index)?;
        }
        self.go(if tickets == 1 || self.is(Mutant::KeepUnclaimed) {
            At::PopSlot
        } else {
            At::PopLast
        })
    }

    /// From the claim to the value, or to the exchange that gives the ticket up.
    pub(super) fn pop_unwritten(&mut self) -> Outcome {
        let t = *self.t();
        let segment = t.word.segment;
        let last = t.word.index + t.tickets - 1;
        match t.at {
            At::PopLast => {
                let is_written = self.reach(segment)?.slots[usize::from(last)].state & WRITTEN != 0;
                self.go(if is_written {
                    At::PopSlot
                } else if self.is(Mutant::KeepHintOfBatch) {
                    At::PopUnclaimed
                } else {
                    At::PopUnclaimedReset
                })
            }
            At::PopUnclaimed => {
                let tail = self.s.tail;
                let unclaimed = if tail.segment == segment {
                    tail.index
                } else {
                    self.slots()
                };
                if last < unclaimed {
                    return self.go(At::PopSlot);
                }
                self.t().seen.index = unclaimed;
                self.go(At::PopGiveUpLast)
            }
            At::PopUnclaimedReset => {
                self.s.hint = Word::default();
                self.go(At::PopUnclaimed)
            }
            At::PopGiveUpLast => {
                if !self.give_up(segment, last)? {
                    self.t().seen = Word::default();
                    return self.go(At::PopSlot);
                }
                let t = self.t();
                t.tickets -= 1;
                if t.tickets > 0 && last > t.seen.index {
                    return Ok(());
                }
                t.seen = Word::default();
                if t.tickets > 0 {
                    return self.go(At::PopSlot);
                }
                t.held = 0;
                self.again()
            }
            At::PopSlot => {
                let is_written = self.ticket()?.2.state & WRITTEN != 0;
                if !is_written && self.is(Mutant::Wait) {
                    return Ok(());
                }
                self.go(match (is_written, self.is(Mutant::KeepHint)) {
                    (true, _) => self.first_of_take(),
                    (false, true) => At::PopGiveUp,
                    (false, false) => At::PopHintReset,
                })
            }
            At::PopHintReset => {
                self.s.hint = Word::default();
                self.go(At::PopGiveUp)
            }
            At::PopGiveUp => {
                let given_up = self.give_up(segment, t.word.index + t.ticket)?;
                let leaves =
                    given_up && !self.is(Mutant::TakeGivenUp) || self.is(Mutant::LeaveWritten);
                if leaves {
                    return self.next_ticket(At::PopSlot);
                }
                self.go(self.first_of_take())
            }
            _ => unreachable!(),
        }
    }

    /// The exchange of a slot from 0 to GIVEN_UP; true if it succeeds.
    fn give_up(&mut self, segment: u8, index: u8) -> Result<bool, String> {
        let (stores, ends) = (self.is(Mutant::StoreGivenUp), self.is(Mutant::DoneByBoth));
        let slot = &mut self.reach(segment)?.slots[usize::from(index)];
        if slot.state != 0 && !stores {
            return Ok(false);
        }
        slot.state = if ends { GIVEN_UP | DONE } else { GIVEN_UP };
        self.s.oracle.abandon(segment, index)?;
        Ok(true)
    }

    pub(super) fn first_of_take(&self) -> At {
        if self.is(Mutant::DoneBeforeRead) {
            At::PopDone
        } else {
            At::PopRead
        }
    }

    pub(super) fn pop_read(&mut self) -> Outcome {
        let (t, tail) = (*self.t(), self.s.tail);
        let index = t.word.index + t.ticket;
        if tail.segment == t.word.segment && tail.index < t.word.index + t.tickets {
            return Err("a batch gives an item out and keeps a ticket that no producer has".into());
        }
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
