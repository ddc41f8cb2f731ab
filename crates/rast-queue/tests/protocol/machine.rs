//! The protocol as a machine: one call is one access of one thread to shared memory.
//!
//! Accesses to memory that only the thread can reach are not steps: local variables, a segment that
//! is not linked, and a segment that it has retired. Pauses are not steps either: a consumer that
//! finds a slot unwritten gives the ticket up at once. Schedules in which the producer writes first
//! cover a consumer that waits longer.

use super::mutant::Mutant;
use super::state::{At, DONE, SLOTS, Segment, Slot, State, THREADS, Then, Thread, Word};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Push,
    /// Two items; claims as many tickets at once as the segment has.
    PushBatch,
    Pop,
    /// Up to two items; claims as many tickets at once as are known to be given away; ends early
    /// only when empty.
    PopBatch,
    Close,
    IsEmpty,
    /// One item that was in the queue before and is taken also when the queue is closed.
    PushBack,
    /// A push for which the allocator refuses.
    PushVain,
    /// What a consumer that was stopped in its look leaves: a hint of an earlier use of the
    /// segment.
    StaleHint,
}

impl Operation {
    pub(crate) fn items(self) -> u8 {
        match self {
            Self::Push | Self::PushBack | Self::PushVain | Self::Pop => 1,
            Self::PushBatch | Self::PopBatch => 2,
            Self::Close | Self::IsEmpty | Self::StaleHint => 0,
        }
    }

    /// The first access of the operation.
    pub(crate) fn first(self) -> At {
        match self {
            Self::Push | Self::PushBatch | Self::PushBack | Self::PushVain => At::PushLoad,
            Self::Pop | Self::PopBatch => At::PopHead,
            Self::Close => At::CloseLoad,
            Self::IsEmpty => At::EmptyRetired,
            Self::StaleHint => At::HintStale,
        }
    }

    pub(super) fn is_push(self) -> bool {
        matches!(
            self,
            Self::Push | Self::PushBatch | Self::PushBack | Self::PushVain
        )
    }

    pub(super) fn is_pop(self) -> bool {
        matches!(self, Self::Pop | Self::PopBatch)
    }
}

/// What the threads do, in segments of how many slots, and which rule of the protocol is left out.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) slots: u8,
    pub(crate) programs: Vec<Vec<Operation>>,
    /// The first item of each operation.
    pub(crate) items: Vec<Vec<u8>>,
    /// Items that also a closed queue takes, as bits.
    pub(crate) come_back: u32,
    /// Operations that thread 0 finishes before anybody else begins.
    pub(crate) prologue: u8,
    pub(crate) mutant: Mutant,
    /// An empty pop is judged by the whole of its time, not by its documented point.
    pub(crate) any_point: bool,
    /// A stopped thread may keep one segment, whatever it had taken from limbo.
    pub(crate) one_segment: bool,
}

impl Model {
    pub(crate) fn new(slots: u8, programs: &[&[Operation]]) -> Self {
        assert!(
            usize::from(slots) <= SLOTS && programs.len() <= THREADS,
            "a state has no room"
        );
        let mut item = 0;
        let mut come_back = 0;
        let mut items = Vec::new();
        for program in programs {
            items.push(Vec::new());
            for operation in *program {
                items.last_mut().unwrap().push(item + 1);
                if operation.is_push() {
                    item += operation.items();
                }
                if *operation == Operation::PushBack {
                    come_back |= 1 << item;
                }
            }
        }
        Self {
            slots,
            programs: programs.iter().map(|program| program.to_vec()).collect(),
            items,
            come_back,
            prologue: 0,
            mutant: Mutant::None,
            any_point: false,
            one_segment: false,
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.programs.len()
    }

    pub(crate) fn is_done(&self, state: &State, thread: usize) -> bool {
        usize::from(state.threads[thread].operation) == self.programs[thread].len()
    }

    /// The threads that have an operation for which `counts` holds.
    pub(crate) fn count(&self, counts: impl Fn(Operation) -> bool) -> u8 {
        self.programs
            .iter()
            .filter(|program| program.iter().any(|&operation| counts(operation)))
            .count() as u8
    }

    /// Makes the next access of `thread`.
    pub(crate) fn step(&self, state: &mut State, thread: usize) -> Result<(), String> {
        let local = &state.threads[thread];
        let operation = usize::from(local.operation);
        let mut step = Step {
            model: self,
            operation: self.programs[thread][operation],
            item: self.items[thread][operation] + local.through,
            me: thread,
            s: state,
        };
        step.run()?;
        if state.tail.closed != state.oracle.closed {
            return Err("tail has lost CLOSED".into());
        }
        if self.any_point && state.oracle.is_empty() {
            for (thread, local) in state.threads.iter_mut().enumerate() {
                if thread < self.threads() && local.at != At::Begin {
                    local.ever_empty = true;
                }
            }
        }
        Ok(())
    }

    /// The bounds on the indices.
    pub(crate) fn check_bounds(&self, state: &State) -> Result<(), String> {
        let tail = self.slots + self.count(|o| o.is_push() || o == Operation::Close);
        if state.tail.index > tail {
            return Err(format!(
                "the index of tail is {}, above {tail}",
                state.tail.index
            ));
        }
        let head = self.slots + 2 * self.count(Operation::is_pop);
        if state.head.index > head {
            return Err(format!(
                "the index of head is {}, above {head}",
                state.head.index
            ));
        }
        Ok(())
    }
}

/// One step in the making.
pub(super) struct Step<'a> {
    pub(super) model: &'a Model,
    pub(super) operation: Operation,
    /// The item that is to be pushed next.
    pub(super) item: u8,
    pub(super) me: usize,
    pub(super) s: &'a mut State,
}

/// The error says what the protocol promises not to do.
pub(super) type Outcome = Result<(), String>;

impl Step<'_> {
    pub(super) fn t(&mut self) -> &mut Thread {
        &mut self.s.threads[self.me]
    }

    pub(super) fn go(&mut self, at: At) -> Outcome {
        self.t().at = at;
        Ok(())
    }

    pub(super) fn slots(&self) -> u8 {
        self.model.slots
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.model.mutant == mutant
    }

    pub(super) fn left(&mut self) -> u8 {
        self.operation.items() - self.t().through
    }

    /// From the beginning, keeping what is through.
    pub(super) fn again(&mut self) -> Outcome {
        let first = self.operation.first();
        let t = self.t();
        *t = Thread {
            at: first,
            operation: t.operation,
            through: t.through,
            began_closed: t.began_closed,
            ever_empty: t.ever_empty,
            ..Thread::default()
        };
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Outcome {
        let t = self.t();
        *t = Thread {
            operation: t.operation + 1,
            ..Thread::default()
        };
        Ok(())
    }

    /// The operation's items are through, or more are to come.
    pub(super) fn finish_or_again(&mut self) -> Outcome {
        if self.left() == 0 {
            self.finish()
        } else {
            self.again()
        }
    }

    /// The segment, if this thread may look at it.
    pub(super) fn reach(&mut self, segment: u8) -> Result<&mut Segment, String> {
        let t = *self.t();
        if !self.s.segment(segment).allocated {
            return Err(format!("segment {segment} is used after it was freed"));
        }
        if ![t.held, t.settling, t.fresh].contains(&segment) {
            return Err(format!(
                "segment {segment} is used by a thread that does not hold it"
            ));
        }
        Ok(self.s.segment(segment))
    }

    /// The slot of the ticket at hand, and its segment and index.
    pub(super) fn ticket(&mut self) -> Result<(u8, u8, &mut Slot), String> {
        let t = *self.t();
        let (segment, index) = (t.word.segment, t.word.index + t.ticket);
        let slot = &mut self.reach(segment)?.slots[usize::from(index)];
        if slot.state & DONE != 0 {
            return Err(format!(
                "slot {index} of segment {segment} is used after DONE"
            ));
        }
        Ok((segment, index, slot))
    }

    pub(super) fn run(&mut self) -> Outcome {
        if self.t().at == At::Begin {
            let closed = self.s.oracle.closed;
            self.t().began_closed = closed;
            self.t().at = self.operation.first();
        }
        match self.t().at {
            At::Begin => unreachable!(),
            At::PushLoad => {
                let tail = self.s.tail;
                self.push_by(tail)
            }
            At::PushClaim => self.push_claim(),
            At::PushPin | At::ClosePin => self.pin_tail(),
            At::PushWrite => self.push_write(),
            At::PushPublish => self.push_publish(),
            At::PushDone => {
                let leaves = self.is(Mutant::NoDone);
                let (_, _, slot) = self.ticket()?;
                slot.value = 0;
                slot.state = if leaves { slot.state } else { DONE };
                self.next_ticket(At::PushWrite)
            }
            At::PushNext => self.push_next(),
            At::PushAllocate => self.push_allocate(),
            At::PushLink => self.push_link(),
            At::PushGiveBack => self.push_give_back(),
            At::TailLoad => {
                let tail = self.s.tail;
                self.follow(tail, At::TailMove)
            }
            At::TailMove => self.tail_move(),
            At::ClosedLoad => {
                let tail = self.s.tail;
                self.closed_by(tail)
            }
            At::ClosedSet => {
                let (seen, tail) = (self.t().seen, self.s.tail);
                if tail == seen {
                    self.set_closed();
                    self.is_closed()
                } else {
                    self.closed_by(tail)
                }
            }
            At::Pay => self.pay(),
            At::PinLoad => {
                let tail = self.s.tail;
                self.pin_back_by(tail)
            }
            At::PinBack => self.pin_back(),
            At::Leave => self.left_by_one(),
            At::PopHead
            | At::PopHint
            | At::PopRetired
            | At::PopHeadAgain
            | At::PopLimbo
            | At::PopTail
            | At::PopRetiredAgain
            | At::PopHintStore => self.pop_look(),
            At::PopClaim => self.pop_claim(),
            At::PopLast
            | At::PopUnclaimedReset
            | At::PopUnclaimed
            | At::PopGiveUpLast
            | At::PopSlot
            | At::PopHintReset
            | At::PopGiveUp => self.pop_unwritten(),
            At::PopRead => self.pop_read(),
            At::PopDone => self.pop_done(),
            At::PopPinnedTail => {
                let (tail, empty) = (self.s.tail, self.s.oracle.is_empty());
                if tail.segment != self.t().word.segment {
                    return self.go(At::PopNext);
                }
                self.t().was_empty = empty;
                self.t().then = Then::Empty;
                self.leave()
            }
            At::PopNext => self.pop_next(),
            At::HeadLoad => {
                let head = self.s.head;
                self.follow(head, At::HeadMove)
            }
            At::HeadMove => self.head_move(),
            At::Sweep => self.sweep(),
            At::Retire | At::RetireLate => self.retire(),
            At::Release => self.release(),
            At::LimboLoad => {
                self.t().limbo_top = self.s.limbo;
                self.go(At::LimboPush)
            }
            At::LimboPush => self.limbo_push(),
            At::ReapTake => self.reap_take(),
            At::RestLoad => {
                self.t().limbo_top = self.s.limbo;
                self.go(At::RestPush)
            }
            At::RestPush => self.rest_push(),
            At::CloseLoad => {
                let tail = self.s.tail;
                self.close_by(tail)
            }
            At::CloseSet => {
                let (word, tail) = (self.t().word, self.s.tail);
                if tail == word {
                    self.set_closed();
                    self.closed(true)
                } else {
                    self.close_by(tail)
                }
            }
            At::CloseTerminal => self.close_terminal(),
            At::HintStale => {
                self.s.hint = Word {
                    index: self.slots(),
                    ..self.s.head
                };
                self.finish()
            }
            At::EmptyRetired | At::EmptyHead | At::EmptyTail | At::EmptyRetiredAgain => {
                self.look_empty()
            }
        }
    }
}
