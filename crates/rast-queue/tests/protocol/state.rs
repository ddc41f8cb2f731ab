//! A state of the model: the queue's words and segments, each thread's place and local variables,
//! and the oracle.
//!
//! A state is small and is copied, so it can be stored, compared by a fingerprint, and continued
//! from. Segments are in a fixed pool, in which 0 is the null pointer. The lowest free address is
//! allocated first, so that addresses are reused as soon as possible.

use std::hash::{Hash, Hasher};

use super::oracle::Oracle;

/// Threads, slots of a segment, and addresses that a state has room for.
pub(crate) const THREADS: usize = 3;
pub(crate) const SLOTS: usize = 4;
pub(crate) const POOL: usize = 5;

/// In `next`: closed, none follows.
pub(crate) const TERMINAL: u8 = u8::MAX;
/// One of the two words in `control`; more than all pins of a program.
pub(crate) const SOURCE: i8 = 32;

pub(crate) const WRITTEN: u8 = 1;
pub(crate) const DONE: u8 = 2;
pub(crate) const GIVEN_UP: u8 = 4;

/// `head` or `tail`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Word {
    pub(crate) segment: u8,
    pub(crate) index: u8,
    pub(crate) closed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    /// 0: nothing.
    pub(crate) value: u8,
    pub(crate) state: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Out of the allocator.
    pub(crate) allocated: bool,
    pub(crate) next: u8,
    pub(crate) control: i8,
    pub(crate) swept: u8,
    pub(crate) limbo_next: u8,
    pub(crate) slots: [Slot; SLOTS],
}

impl Segment {
    pub(crate) const NEW: Self = Self {
        allocated: false,
        next: 0,
        control: 2 * SOURCE,
        swept: 0,
        limbo_next: 0,
        slots: [Slot { value: 0, state: 0 }; SLOTS],
    };
}

/// Most addresses of the pool are free and as new: those add one byte.
impl Hash for Segment {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let is_new = *self == Self::NEW;
        is_new.hash(hasher);
        if !is_new {
            let Self {
                allocated,
                next,
                control,
                swept,
                limbo_next,
                slots,
            } = self;
            (allocated, next, control, swept, limbo_next, slots).hash(hasher);
        }
    }
}

/// The access that a thread makes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// Between two operations.
    #[default]
    Begin,
    PushLoad,
    PushClaim,
    PushPin,
    PushWrite,
    PushPublish,
    PushDone,
    PushNext,
    PushAllocate,
    PushLink,
    PushGiveBack,
    TailLoad,
    TailMove,
    ClosedLoad,
    ClosedSet,
    Pay,
    PinLoad,
    PinBack,
    Leave,
    PopHead,
    PopHint,
    PopRetired,
    PopHeadAgain,
    PopLimbo,
    PopTail,
    PopRetiredAgain,
    PopHintStore,
    PopClaim,
    PopLast,
    PopUnclaimedReset,
    PopUnclaimed,
    PopGiveUpLast,
    PopSlot,
    PopHintReset,
    PopGiveUp,
    PopRead,
    PopDone,
    PopPinnedTail,
    PopNext,
    HeadLoad,
    HeadMove,
    Sweep,
    Retire,
    RetireLate,
    Release,
    LimboLoad,
    LimboPush,
    ReapTake,
    RestLoad,
    RestPush,
    CloseLoad,
    CloseSet,
    ClosePin,
    CloseTerminal,
    EmptyRetired,
    EmptyHead,
    EmptyTail,
    EmptyRetiredAgain,
    HintStale,
}

/// What a thread does once it has left a pinned segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    #[default]
    Again,
    Linked,
    Refused,
    NoMemory,
    Empty,
    ClosedByMe,
    ClosedByOther,
}

/// Where a thread goes on once a segment is settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Settled {
    #[default]
    Left,
    Paid,
    Reaped,
}

/// A thread: its place and its locals. Locals without a use are zero, so that states which differ
/// in nothing agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Thread {
    pub(crate) at: At,
    /// Operations finished.
    pub(crate) operation: u8,
    /// Items of the operation that are through.
    pub(crate) through: u8,
    /// The word that the operation goes by.
    pub(crate) word: Word,
    /// The word that a loop of exchanges expects, or the bound of a claim.
    pub(crate) seen: Word,
    /// Tickets claimed at once, and the one at hand.
    pub(crate) tickets: u8,
    pub(crate) ticket: u8,
    /// The segment that follows, and a new one that is not linked.
    pub(crate) next: u8,
    pub(crate) fresh: u8,
    /// `retired`, as first loaded.
    pub(crate) retired: u8,
    /// The segment in which the thread has a ticket or a pin.
    pub(crate) held: u8,
    /// The segment that it settles, alone.
    pub(crate) settling: u8,
    pub(crate) limbo_top: u8,
    /// What it took from limbo and has to put back.
    pub(crate) rest: u8,
    pub(crate) then: Then,
    pub(crate) settled: Settled,
    /// The queue was empty when the thread looked at `tail`.
    pub(crate) was_empty: bool,
    /// The queue was closed when the operation began.
    pub(crate) began_closed: bool,
    /// The queue was empty at some moment since the operation began.
    pub(crate) ever_empty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) tail: Word,
    pub(crate) head: Word,
    /// A segment and a bound below which `tail` need not be looked at; `closed` is not used.
    pub(crate) hint: Word,
    pub(crate) retired: u8,
    /// `next` of the null segment.
    pub(crate) first: u8,
    pub(crate) limbo: u8,
    pub(crate) spare: u8,
    pub(crate) segments: [Segment; POOL],
    pub(crate) threads: [Thread; THREADS],
    pub(crate) oracle: Oracle,
}

impl State {
    /// An empty queue with segments of `slots` slots.
    pub(crate) fn new(slots: u8) -> Self {
        let beginning = Word {
            segment: 0,
            index: slots,
            closed: false,
        };
        Self {
            tail: beginning,
            head: beginning,
            hint: Word::default(),
            retired: 0,
            first: 0,
            limbo: 0,
            spare: 0,
            segments: [Segment::NEW; POOL],
            threads: [Thread::default(); THREADS],
            oracle: Oracle::default(),
        }
    }

    pub(crate) fn segment(&mut self, address: u8) -> &mut Segment {
        &mut self.segments[usize::from(address) - 1]
    }

    /// `next` of a segment, or of the null one.
    pub(crate) fn next(&mut self, address: u8) -> &mut u8 {
        if address == 0 {
            &mut self.first
        } else {
            &mut self.segment(address).next
        }
    }

    /// Whether the consumer of a ticket has gone for good.
    pub(crate) fn is_given_up(&mut self, segment: u8, slot: u8) -> bool {
        self.segment(segment).slots[usize::from(slot)].state & GIVEN_UP != 0
    }

    /// The segments from `head` on, as bits.
    pub(crate) fn reachable(&self) -> u8 {
        let mut found = 0;
        let mut at = if self.head.segment == 0 {
            self.first
        } else {
            self.head.segment
        };
        while at != 0 && at != TERMINAL && found & bit(at) == 0 {
            found |= bit(at);
            at = self.segments[usize::from(at) - 1].next;
        }
        found
    }

    /// The segments out of the allocator, as bits.
    pub(crate) fn allocated(&self) -> u8 {
        (1..=POOL as u8)
            .filter(|&address| self.segments[usize::from(address) - 1].allocated)
            .fold(0, |found, address| found | bit(address))
    }
}

/// The bit of an address; none for null.
pub(crate) fn bit(address: u8) -> u8 {
    if address == 0 { 0 } else { 1 << (address - 1) }
}
