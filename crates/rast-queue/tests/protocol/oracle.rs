//! The abstract queue, which is part of each state. It changes at the linearization points of the
//! protocol, which `docs/algorithms/queue-model.md` lists.
//!
//! If a ticket is given up, its push and its pop are removed together, so the remaining operations
//! are still those of a queue. Every state contains its oracle, so a path needs no history: a state
//! that is reached has been checked along every path to it.

use std::hash::{Hash, Hasher};

use super::state::THREADS;

const ENTRIES: usize = 10;

/// A ticket that `tail` has given away and that is not settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Entry {
    segment: u8,
    slot: u8,
    /// 0 until it is published.
    value: u8,
    /// The consumer whose ticket it is, plus one.
    taker: u8,
}

/// A ticket that `head` has given away before `tail` did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Early {
    segment: u8,
    slot: u8,
    taker: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oracle {
    entries: [Entry; ENTRIES],
    count: u8,
    early: [Early; 2 * THREADS],
    early_count: u8,
    /// Items that are in the queue or were, and items that were popped, as bits.
    pushed: u32,
    popped: u32,
    pub(crate) closed: bool,
    closer_known: bool,
}

impl Hash for Oracle {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self {
            entries,
            count,
            early,
            early_count,
            pushed,
            popped,
            closed,
            closer_known,
        } = self;
        entries[..usize::from(*count)].hash(hasher);
        early[..usize::from(*early_count)].hash(hasher);
        (pushed, popped, closed, closer_known).hash(hasher);
    }
}

impl Oracle {
    /// whether no item is queued that no pop has taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries[..usize::from(self.count)]
            .iter()
            .all(|entry| entry.taker != 0)
    }

    /// Items that were pushed and not popped.
    pub(crate) fn standing(&self) -> u32 {
        self.pushed & !self.popped
    }

    pub(crate) fn was_pushed(&self, value: u8) -> bool {
        self.pushed & 1 << value != 0
    }

    /// `tail` gave the ticket away, and no consumer has abandoned it.
    pub(crate) fn claim_push(
        &mut self,
        segment: u8,
        slot: u8,
        comes_back: bool,
    ) -> Result<(), String> {
        if self.closed && !comes_back {
            return Err("a push is admitted after the queue was closed".into());
        }
        if self.find(segment, slot).is_some() {
            return Ok(());
        }
        let mut taker = 0;
        let early = &self.early[..usize::from(self.early_count)];
        if let Some(first) = early.first() {
            if (first.segment, first.slot) != (segment, slot) {
                return Err("a push gets a ticket out of the order in which pops wait".into());
            }
            taker = first.taker;
            self.early.copy_within(1.., 0);
            self.early_count -= 1;
            self.early[usize::from(self.early_count)] = Early::default();
        }
        self.entries[usize::from(self.count)] = Entry {
            segment,
            slot,
            value: 0,
            taker,
        };
        self.count += 1;
        Ok(())
    }

    /// The slot of the ticket holds the value, and the producer takes that for success.
    pub(crate) fn publish(&mut self, segment: u8, slot: u8, value: u8) -> Result<(), String> {
        if self.was_pushed(value) {
            return Err(format!("item {value} is pushed twice"));
        }
        let Some(at) = self.find(segment, slot) else {
            return Err(format!(
                "item {value} is pushed under a ticket that no thread will pop"
            ));
        };
        self.entries[at].value = value;
        self.pushed |= 1 << value;
        Ok(())
    }

    /// `head` gave the ticket away.
    pub(crate) fn claim_pop(&mut self, thread: usize, segment: u8, slot: u8) -> Result<(), String> {
        let taker = thread as u8 + 1;
        let count = usize::from(self.count);
        if let Some(entry) = self.entries[..count]
            .iter_mut()
            .find(|entry| entry.taker == 0)
        {
            if (entry.segment, entry.slot) != (segment, slot) {
                return Err("a pop gets a ticket that is not that of the oldest item".into());
            }
            entry.taker = taker;
        } else {
            if usize::from(self.early_count) == self.early.len() {
                return Err("more pops wait for tickets than there can be".into());
            }
            self.early[usize::from(self.early_count)] = Early {
                segment,
                slot,
                taker,
            };
            self.early_count += 1;
        }
        Ok(())
    }

    /// The ticket is given up; its producer keeps its value.
    pub(crate) fn abandon(&mut self, segment: u8, slot: u8) -> Result<(), String> {
        if let Some(at) = self.find(segment, slot) {
            let value = self.entries[at].value;
            if value != 0 {
                return Err(format!("item {value} was pushed and is given up"));
            }
            self.remove(at);
        } else if let Some(at) = self.early[..usize::from(self.early_count)]
            .iter()
            .position(|early| (early.segment, early.slot) == (segment, slot))
        {
            self.early.copy_within(at + 1.., at);
            self.early_count -= 1;
            self.early[usize::from(self.early_count)] = Early::default();
        }
        Ok(())
    }

    /// The producer of `value` takes its push for a success.
    pub(crate) fn expect_pushed(&self, value: u8) -> Result<(), String> {
        if !self.was_pushed(value) {
            return Err(format!("item {value} was pushed and is not in the queue"));
        }
        Ok(())
    }

    /// The consumer read `value` under its ticket.
    pub(crate) fn pop(
        &mut self,
        thread: usize,
        segment: u8,
        slot: u8,
        value: u8,
    ) -> Result<(), String> {
        if value == 0 {
            return Err("a pop reads a slot that holds nothing".into());
        }
        if self.popped & 1 << value != 0 {
            return Err(format!("item {value} is popped twice"));
        }
        let Some(at) = self.find(segment, slot) else {
            return Err(format!(
                "item {value} is popped, but was never in the queue"
            ));
        };
        let entry = self.entries[at];
        if entry.value != value || usize::from(entry.taker) != thread + 1 {
            return Err(format!(
                "item {value} is popped in place of {}",
                entry.value
            ));
        }
        self.remove(at);
        self.popped |= 1 << value;
        Ok(())
    }

    /// CLOSED is in `tail`.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// A close returns that it did it.
    pub(crate) fn claim_close(&mut self) -> Result<(), String> {
        if self.closer_known {
            return Err("two closes say that they did it".into());
        }
        if !self.closed {
            return Err("close has returned, and the queue is open".into());
        }
        self.closer_known = true;
        Ok(())
    }

    fn find(&self, segment: u8, slot: u8) -> Option<usize> {
        self.entries[..usize::from(self.count)]
            .iter()
            .position(|entry| (entry.segment, entry.slot) == (segment, slot))
    }

    fn remove(&mut self, at: usize) {
        self.entries.copy_within(at + 1.., at);
        self.count -= 1;
        self.entries[usize::from(self.count)] = Entry::default();
    }
}
