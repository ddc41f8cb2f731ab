//! The ready queues of a worker, and its ends of those of the others.

use core::fmt;
use std::vec::Vec;

use rast_timers::primitive::Parker;
use rast_timers::queue::spmc::{self, Consumer, Producer};

use crate::next::Priority;
use crate::owned::Owned;

const CLASSES: usize = Priority::COUNT;

/// Slots of a block of a ready queue: 2 KiB, which a round fills once.
const SLOTS: usize = 256;

/// Tasks that are taken from another worker at most at once.
const HAUL: usize = 64;

/// Of so many steps one goes to a normal task, and one to a low one.
const NORMAL_EVERY: u32 = 8;
const LOW_EVERY: u32 = 32;

/// What a worker has for itself; one thread sits on it at a time.
pub(crate) struct Seat {
    pub(crate) worker: usize,
    pub(crate) parker: Parker,
    ready: [Producer<Owned>; CLASSES],
    /// By worker, this one's own among them.
    ends: Vec<[Consumer<Owned>; CLASSES]>,
    haul: Vec<Owned>,
    /// Pops so far.
    turn: u32,
    /// The worker to look at next.
    victim: usize,
}

impl Seat {
    /// Makes a seat for each parker.
    pub(crate) fn all(parkers: Vec<Parker>) -> Vec<Self> {
        let queues: Vec<_> = parkers
            .iter()
            .map(|_| [(); CLASSES].map(|()| spmc::with_block_slots(SLOTS)))
            .collect();
        let ends: Vec<_> = parkers
            .iter()
            .map(|_| {
                queues
                    .iter()
                    .map(|classes| classes.each_ref().map(|(_, end)| Consumer::clone(end)))
                    .collect()
            })
            .collect();
        let seats = parkers.into_iter().zip(queues).zip(ends).enumerate();
        seats
            .map(|(worker, ((parker, queues), ends))| Self {
                worker,
                parker,
                ready: queues.map(|(producer, _)| producer),
                ends,
                haul: Vec::with_capacity(HAUL),
                turn: 0,
                victim: worker,
            })
            .collect()
    }

    /// Makes a task ready, behind those of its priority.
    #[inline]
    pub(crate) fn push(&mut self, task: Owned) {
        self.ready[task.class() as usize].push(task);
    }

    /// How many tasks of a priority are ready here.
    #[inline]
    fn len(&self, class: usize) -> usize {
        self.ready[class].len()
    }

    /// Whether a task is ready here.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        (0..CLASSES).any(|class| self.len(class) > 0)
    }

    /// The task to run next.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Owned> {
        // The two turns never fall on one step.
        const { assert!(LOW_EVERY.is_multiple_of(NORMAL_EVERY)) };
        let favoured = if self.turn % NORMAL_EVERY == NORMAL_EVERY - 1 {
            Priority::Normal
        } else if self.turn % LOW_EVERY == LOW_EVERY / 2 {
            Priority::Low
        } else {
            Priority::High
        };
        let task = self
            .pop_from(favoured as usize)
            .or_else(|| (0..CLASSES).find_map(|class| self.pop_from(class)));
        self.turn = self.turn.wrapping_add(u32::from(task.is_some()));
        task
    }

    #[inline]
    fn pop_from(&mut self, class: usize) -> Option<Owned> {
        if self.len(class) == 0 {
            return None;
        }
        self.ends[self.worker][class].pop()
    }

    /// Takes half of what is ready at the first worker that has something, and returns the first of it, to be run at
    /// once: if it were made ready here, it could be taken back and forth and never run.
    pub(crate) fn steal(&mut self) -> Option<Owned> {
        let count = self.ends.len();
        for _ in 1..count {
            let victim = self.next_victim();
            for class in 0..CLASSES {
                let theirs = self.ends[victim][class].len();
                if theirs == 0 {
                    continue;
                }
                let wanted = theirs.div_ceil(2).min(HAUL);
                self.ends[victim][class].pop_into(&mut self.haul, wanted);
                let mut haul = self.haul.drain(..);
                if let Some(first) = haul.next() {
                    self.ready[class].push_batch(haul);
                    return Some(first);
                }
            }
        }
        None
    }

    /// Compares this worker's ready queues with those of one other, and takes half of the difference; returns
    /// whether it took anything.
    pub(crate) fn balance(&mut self) -> bool {
        if self.ends.len() < 2 {
            return false;
        }
        let victim = self.next_victim();
        let mut took = false;
        for class in 0..CLASSES {
            let more = self.ends[victim][class]
                .len()
                .saturating_sub(self.len(class));
            if more >= 2 {
                took |= self.take(victim, class, more / 2);
            }
        }
        took
    }

    /// The next worker in turn, this one left out.
    fn next_victim(&mut self) -> usize {
        let count = self.ends.len();
        self.victim = (self.victim + 1) % count;
        if self.victim == self.worker {
            self.victim = (self.victim + 1) % count;
        }
        self.victim
    }

    fn take(&mut self, victim: usize, class: usize, wanted: usize) -> bool {
        let got = self.ends[victim][class].pop_into(&mut self.haul, wanted.min(HAUL));
        self.ready[class].push_batch(self.haul.drain(..));
        got > 0
    }

    /// Whether another worker has a task that is ready, by a look that a pop agrees with.
    pub(crate) fn others_have_ready(&self) -> bool {
        let others = self.ends.iter().enumerate();
        others
            .filter(|&(worker, _)| worker != self.worker)
            .any(|(_, ends)| ends.iter().any(|end| !end.is_empty()))
    }

    /// Takes all that is ready here out, the most urgent first.
    pub(crate) fn empty(&mut self, into: &mut Vec<Owned>) {
        for class in 0..CLASSES {
            while let Some(task) = self.ends[self.worker][class].pop() {
                into.push(task);
            }
        }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("worker", &self.worker)
            .field("has_ready", &self.has_ready())
            .finish_non_exhaustive()
    }
}
