//! Push and close: claims on `tail`, the link of a segment, and the closed end.

use super::machine::{Operation, Outcome, Step};
use super::mutant::Mutant;
use super::state::{At, GIVEN_UP, POOL, Segment, Slot, TERMINAL, Then, WRITTEN, Word, bit};

impl Step<'_> {
    /// What a push does with a tail that it has seen, by a load or by a lost exchange.
    pub(super) fn push_by(&mut self, tail: Word) -> Outcome {
        let (left, slots) = (self.left(), self.slots());
        let comes_back = self.operation == Operation::PushBack;
        let t = self.t();
        t.word = tail;
        if tail.closed && !comes_back {
            t.then = Then::Refused;
            self.after_leaving()
        } else if tail.index < slots {
            t.tickets = left.min(slots - tail.index);
            self.go(At::PushClaim)
        } else {
            self.pin_or(At::PushPin, At::PushNext)
        }
    }

    pub(super) fn claim_push(&mut self, segment: u8, slot: u8, item: u8) -> Outcome {
        let comes_back = self.model.come_back >> item & 1 != 0;
        self.s.oracle.claim_push(segment, slot, comes_back)
    }

    /// To the pin of a full segment; the null segment needs none.
    pub(super) fn pin_or(&mut self, pin: At, pinned: At) -> Outcome {
        if self.t().word.segment == 0 {
            self.go(pinned)
        } else if self.is(Mutant::NoPin) {
            self.t().held = self.t().word.segment;
            self.go(pinned)
        } else {
            self.go(pin)
        }
    }

    pub(super) fn push_claim(&mut self) -> Outcome {
        let (t, tail) = (*self.t(), self.s.tail);
        if tail != t.word {
            return self.push_by(tail);
        }
        self.s.tail.index += t.tickets;
        self.t().held = tail.segment;
        for index in tail.index..tail.index + t.tickets {
            if !self.s.is_given_up(tail.segment, index) {
                self.claim_push(tail.segment, index, self.item)?;
            }
        }
        self.go(At::PushWrite)
    }

    pub(super) fn pin_tail(&mut self) -> Outcome {
        let (word, tail) = (self.t().word, self.s.tail);
        let is_push = self.operation.is_push();
        if tail != word {
            return if is_push {
                self.push_by(tail)
            } else {
                self.close_by(tail)
            };
        }
        self.s.tail.index += 1;
        self.t().held = tail.segment;
        self.go(if is_push {
            At::PushNext
        } else {
            At::CloseTerminal
        })
    }

    pub(super) fn push_write(&mut self) -> Outcome {
        let item = self.item;
        let (segment, index, slot) = self.ticket()?;
        if slot.value != 0 {
            return Err(format!(
                "item {item} is written over item {} in slot {index} of segment {segment}",
                slot.value
            ));
        }
        slot.value = item;
        self.go(At::PushPublish)
    }

    /// The exchange that publishes the value, or finds the ticket given up.
    pub(super) fn push_publish(&mut self) -> Outcome {
        let item = self.item;
        let ignores = self.is(Mutant::PublishBlindly);
        let (segment, index, slot) = self.ticket()?;
        let before = slot.state;
        slot.state = WRITTEN;
        if before & WRITTEN != 0 {
            return Err(format!(
                "slot {index} of segment {segment} is published twice"
            ));
        }
        if before & GIVEN_UP != 0 && !ignores {
            return self.go(At::PushDone);
        }
        self.s.oracle.publish(segment, index, item)?;
        self.t().through += 1;
        self.next_ticket(At::PushWrite)
    }

    /// The ticket at hand is finished.
    pub(super) fn next_ticket(&mut self, at: At) -> Outcome {
        let t = self.t();
        t.ticket += 1;
        if t.ticket < t.tickets {
            return self.go(at);
        }
        t.held = 0;
        self.finish_or_again()
    }

    pub(super) fn push_next(&mut self) -> Outcome {
        match self.load_next()? {
            0 => self.go(At::PushAllocate),
            next => self.push_found(next),
        }
    }

    pub(super) fn load_next(&mut self) -> Result<u8, String> {
        let segment = self.t().word.segment;
        if segment != 0 {
            self.reach(segment)?;
        }
        Ok(*self.s.next(segment))
    }

    /// What a push does with the segment that follows, or with the end.
    pub(super) fn push_found(&mut self, next: u8) -> Outcome {
        if next == TERMINAL {
            if self.operation == Operation::PushBack {
                self.t().next = TERMINAL;
                if self.is(Mutant::OverTerminal) {
                    return self.go(At::PushAllocate);
                }
            }
            self.t().then = Then::Refused;
            return self.go(At::ClosedLoad);
        }
        self.t().next = next;
        self.go(At::TailLoad)
    }

    pub(super) fn push_allocate(&mut self) -> Outcome {
        let fresh = match self.s.spare {
            0 if self.operation == Operation::PushVain => {
                self.t().then = Then::NoMemory;
                return self.leave();
            }
            0 => match (1..=POOL as u8).find(|&free| self.s.allocated() & bit(free) == 0) {
                Some(free) => free,
                None => return Err("the pool is too small for this program".into()),
            },
            spare => spare,
        };
        self.s.spare = 0;
        if self
            .s
            .segment(fresh)
            .slots
            .iter()
            .any(|slot| slot.state != 0 || slot.value != 0)
        {
            return Err(format!(
                "segment {fresh} is used again with a slot that is not 0"
            ));
        }
        let segment = self.s.segment(fresh);
        if (Segment {
            allocated: false,
            ..*segment
        }) != Segment::NEW
        {
            return Err(format!(
                "segment {fresh} is used again with a header that is not new"
            ));
        }
        segment.allocated = true;
        if !self.is(Mutant::LinkUnfilled) {
            self.s.segment(fresh).slots[0] = Slot {
                value: self.item,
                state: WRITTEN,
            };
        }
        self.t().fresh = fresh;
        self.go(At::PushLink)
    }

    pub(super) fn push_link(&mut self) -> Outcome {
        let next = self.load_next()?;
        if next != self.t().next {
            self.t().next = next;
            return self.go(At::PushGiveBack);
        }
        let (segment, fresh) = (self.t().word.segment, self.t().fresh);
        *self.s.next(segment) = fresh;
        let t = self.t();
        t.next = fresh;
        t.fresh = 0;
        t.then = Then::Linked;
        self.go(At::TailLoad)
    }

    pub(super) fn push_give_back(&mut self) -> Outcome {
        let (fresh, next) = (self.t().fresh, self.t().next);
        self.s.segment(fresh).slots[0] = Slot::default();
        if self.s.spare == 0 {
            self.s.spare = fresh;
        } else {
            self.s.segment(fresh).allocated = false;
        }
        self.t().fresh = 0;
        self.t().next = 0;
        self.push_found(next)
    }

    pub(super) fn set_closed(&mut self) {
        self.s.tail.closed = true;
        self.s.oracle.close();
    }

    /// Goes on to set CLOSED while `tail` leads to the pinned segment without it.
    pub(super) fn closed_by(&mut self, tail: Word) -> Outcome {
        if !tail.closed && tail.segment == self.t().word.segment {
            self.t().seen = tail;
            return self.go(At::ClosedSet);
        }
        self.is_closed()
    }

    /// CLOSED is set; an item that comes back goes on to replace the end, all others leave.
    pub(super) fn is_closed(&mut self) -> Outcome {
        if self.operation == Operation::PushBack {
            let t = self.t();
            t.then = Then::Again;
            t.seen = Word::default();
            return self.go(At::PushAllocate);
        }
        self.leave()
    }

    /// What a close does with a tail that it has seen.
    pub(super) fn close_by(&mut self, tail: Word) -> Outcome {
        self.t().word = tail;
        if tail.closed {
            self.closed(false)
        } else if tail.index < self.slots() || self.is(Mutant::NoTerminal) {
            self.go(At::CloseSet)
        } else {
            self.pin_or(At::ClosePin, At::CloseTerminal)
        }
    }

    pub(super) fn close_terminal(&mut self) -> Outcome {
        let segment = self.t().word.segment;
        match self.load_next()? {
            0 => {
                *self.s.next(segment) = TERMINAL;
                self.t().then = Then::ClosedByMe;
                self.go(At::ClosedLoad)
            }
            TERMINAL => {
                self.t().then = Then::ClosedByOther;
                self.go(At::ClosedLoad)
            }
            next => {
                self.t().next = next;
                self.go(At::TailLoad)
            }
        }
    }

    pub(super) fn closed(&mut self, by_me: bool) -> Outcome {
        if by_me {
            if self.t().began_closed {
                return Err("a close of a closed queue says that it did it".into());
            }
            self.s.oracle.claim_close()?;
        } else if !self.s.oracle.closed {
            return Err("close has returned, and the queue is open".into());
        }
        self.finish()
    }
}
