//! The end of a segment: moves of the words, releases of pins, the sweep, limbo, and the spare.

use super::machine::{Outcome, Step};
use super::mutant::Mutant;
use super::state::{At, DONE, SOURCE, Segment, Settled, Then, Word};

impl Step<'_> {
    /// Goes on to `exchange` while `word` leads to the pinned segment.
    pub(super) fn follow(&mut self, word: Word, exchange: At) -> Outcome {
        if word.segment != self.t().word.segment {
            return self.leave();
        }
        self.t().seen = word;
        self.go(exchange)
    }

    pub(super) fn tail_move(&mut self) -> Outcome {
        let (t, tail) = (*self.t(), self.s.tail);
        if tail != t.seen {
            return self.follow(tail, At::TailMove);
        }
        let index = u8::from(!self.is(Mutant::LinkFromZero));
        self.s.tail = Word {
            segment: t.next,
            index,
            ..tail
        };
        let item = self.s.segment(t.next).slots[0].value;
        self.claim_push(t.next, 0, item)?;
        if item != 0 {
            self.s.oracle.publish(t.next, 0, item)?;
        }
        self.pay_for_move()
    }

    pub(super) fn head_move(&mut self) -> Outcome {
        let (t, head) = (*self.t(), self.s.head);
        if head != t.seen {
            return self.follow(head, At::HeadMove);
        }
        self.s.head = Word {
            segment: t.next,
            ..Word::default()
        };
        self.pay_for_move()
    }

    pub(super) fn pay_for_move(&mut self) -> Outcome {
        if self.t().word.segment == 0 {
            self.leave()
        } else {
            self.go(At::Pay)
        }
    }

    pub(super) fn pay(&mut self) -> Outcome {
        let (slots, t) = (self.slots(), *self.t());
        let pins = if self.is(Mutant::NoOvershoot) {
            0
        } else {
            t.seen.index - slots
        };
        let segment = self.reach(t.word.segment)?;
        segment.control += pins as i8 - SOURCE;
        if segment.control == 0 {
            return self.settle(t.word.segment, Settled::Paid);
        }
        self.leave()
    }

    pub(super) fn leave(&mut self) -> Outcome {
        if self.t().word.segment == 0 || self.is(Mutant::NoPin) && !self.operation.is_pop() {
            self.t().held = 0;
            return self.after_leaving();
        }
        self.go(if self.operation.is_pop() {
            At::Leave
        } else {
            At::PinLoad
        })
    }

    /// What who gives a pin of `tail` back does with a tail that it has seen.
    pub(super) fn pin_back_by(&mut self, tail: Word) -> Outcome {
        let is_counted = tail.segment == self.t().word.segment;
        if is_counted && tail.index <= self.slots() {
            return Err("tail does not count a pin that is out".into());
        }
        if (is_counted || self.is(Mutant::PinAnywhere)) && !self.is(Mutant::PinToSegment) {
            self.t().seen = tail;
            return self.go(At::PinBack);
        }
        self.t().seen = Word::default();
        self.go(At::Leave)
    }

    pub(super) fn pin_back(&mut self) -> Outcome {
        let (seen, tail) = (self.t().seen, self.s.tail);
        if tail != seen {
            return self.pin_back_by(tail);
        }
        self.s.tail.index -= 1;
        self.t().held = 0;
        self.t().seen = Word::default();
        self.after_leaving()
    }

    pub(super) fn left_by_one(&mut self) -> Outcome {
        let address = self.t().word.segment;
        let segment = self.reach(address)?;
        segment.control -= 1;
        let is_last = segment.control == 0;
        self.t().held = 0;
        if is_last {
            return self.settle(address, Settled::Left);
        }
        self.after_leaving()
    }

    pub(super) fn after_leaving(&mut self) -> Outcome {
        let then = self.t().then;
        match then {
            Then::Again => self.again(),
            Then::Linked => {
                self.s.oracle.expect_pushed(self.item)?;
                self.t().through += 1;
                self.finish_or_again()
            }
            Then::Refused if self.s.oracle.closed => self.finish(),
            Then::Refused => Err("an open queue refuses".into()),
            Then::NoMemory => self.finish(),
            Then::Empty => self.found_empty(),
            Then::ClosedByMe => self.closed(true),
            Then::ClosedByOther => self.closed(false),
        }
    }

    /// `control` came to zero in this thread.
    pub(super) fn settle(&mut self, segment: u8, settled: Settled) -> Outcome {
        if self
            .s
            .threads
            .iter()
            .any(|thread| thread.settling == segment)
        {
            return Err(format!("segment {segment} is settled by two threads"));
        }
        let t = self.t();
        t.settling = segment;
        t.settled = settled;
        if self.is(Mutant::NoSweep) {
            for slot in &mut self.s.segment(segment).slots {
                slot.state = 0;
            }
            return self.go(At::Retire);
        }
        self.go(At::Sweep)
    }

    /// One slot; that a slot which is DONE is touched by nothing else is checked where slots are
    /// touched.
    pub(super) fn sweep(&mut self) -> Outcome {
        let (slots, address) = (self.slots(), self.t().settling);
        let keep = self.is(Mutant::NoReset);
        let segment = self.reach(address)?;
        let slot = &mut segment.slots[usize::from(segment.swept)];
        if slot.state & DONE == 0 {
            return self.go(At::LimboLoad);
        }
        if !keep {
            slot.state = 0;
        }
        segment.swept += 1;
        if segment.swept < slots {
            return Ok(());
        }
        self.go(if self.is(Mutant::RetireLate) {
            At::Release
        } else {
            At::Retire
        })
    }

    pub(super) fn check_unheld(&self, address: u8) -> Outcome {
        match self
            .s
            .threads
            .iter()
            .position(|thread| thread.held == address)
        {
            Some(holder) => Err(format!(
                "segment {address} is freed while thread {holder} holds it"
            )),
            None => Ok(()),
        }
    }

    pub(super) fn renew(&mut self, address: u8) -> Outcome {
        self.check_unheld(address)?;
        let segment = self.s.segment(address);
        *segment = Segment {
            allocated: true,
            slots: segment.slots,
            ..Segment::NEW
        };
        Ok(())
    }

    pub(super) fn retire(&mut self) -> Outcome {
        if self.t().at == At::RetireLate {
            self.s.retired += 1;
            return self.after_settling();
        }
        self.renew(self.s.threads[self.me].settling)?;
        self.s.retired += 1;
        self.go(At::Release)
    }

    pub(super) fn release(&mut self) -> Outcome {
        let address = self.t().settling;
        if self.is(Mutant::RetireLate) {
            self.renew(address)?;
        }
        if !self.s.segment(address).allocated || self.s.spare == address {
            return Err(format!("segment {address} is freed twice"));
        }
        if self.s.spare == 0 {
            self.s.spare = address;
        } else {
            self.s.segment(address).allocated = false;
        }
        self.t().settling = 0;
        if self.is(Mutant::RetireLate) {
            return self.go(At::RetireLate);
        }
        self.after_settling()
    }

    pub(super) fn after_settling(&mut self) -> Outcome {
        match self.t().settled {
            Settled::Left => self.after_leaving(),
            Settled::Paid => self.leave(),
            Settled::Reaped => self.go(At::PopTail),
        }
    }

    pub(super) fn limbo_push(&mut self) -> Outcome {
        let (t, limbo) = (*self.t(), self.s.limbo);
        if limbo != t.limbo_top {
            self.t().limbo_top = limbo;
            return Ok(());
        }
        self.reach(t.settling)?.limbo_next = limbo;
        self.s.limbo = t.settling;
        self.t().settling = 0;
        self.t().limbo_top = 0;
        self.after_settling()
    }

    /// Takes all of limbo, to settle the one that is there longest; the others go back first.
    pub(super) fn reap_take(&mut self) -> Outcome {
        let first = self.s.limbo;
        self.s.limbo = 0;
        if first == 0 {
            return self.go(At::PopTail);
        }
        let (mut before, mut last) = (0, first);
        while self.s.segment(last).limbo_next != 0 {
            before = last;
            last = self.s.segment(last).limbo_next;
        }
        if before == 0 {
            return self.settle(last, Settled::Reaped);
        }
        self.s.segment(before).limbo_next = 0;
        self.t().rest = first;
        self.t().settling = last;
        self.go(At::RestLoad)
    }

    pub(super) fn rest_push(&mut self) -> Outcome {
        let (t, limbo) = (*self.t(), self.s.limbo);
        if limbo != t.limbo_top {
            self.t().limbo_top = limbo;
            return Ok(());
        }
        let mut last = t.rest;
        while self.s.segment(last).limbo_next != 0 {
            last = self.s.segment(last).limbo_next;
        }
        self.s.segment(last).limbo_next = limbo;
        self.s.limbo = t.rest;
        let t = self.t();
        t.rest = 0;
        t.limbo_top = 0;
        let oldest = t.settling;
        t.settling = 0;
        self.settle(oldest, Settled::Reaped)
    }
}
