//! The ready queues of a worker, and its ends of the other workers' queues.

use core::fmt;
use core::iter;
use std::collections::VecDeque;
use std::vec::Vec;

use rast_timers::primitive::Parker;
use rast_timers::queue::spmc::{self, Consumer, Producer};

use crate::owned::Owned;
use crate::priority::Priority;

const CLASSES: usize = Priority::COUNT;

/// Number of slots of a block of a ready queue: 2 KiB, which one round fills.
const SLOTS: usize = 256;

/// Maximum number of tasks that are taken from another worker at once.
const HAUL: usize = 64;

/// One step in this many runs a normal task, and a low task.
const NORMAL_EVERY: u32 = 8;
const LOW_EVERY: u32 = 32;

/// The ready queues of a worker, one for each priority.
enum Ready {
    /// There is no other worker, so no other thread takes from them: repeating a step needs no
    /// read-modify-write.
    Private([VecDeque<Owned>; CLASSES]),
    Stealable {
        queues: [Producer<Owned>; CLASSES],
        /// By worker, including this one.
        ends: Vec<[Consumer<Owned>; CLASSES]>,
    },
}

/// The private state of a worker; one thread uses it at a time.
pub(crate) struct Seat {
    pub(crate) worker: usize,
    pub(crate) parker: Parker,
    ready: Ready,
    /// A bit per priority: set by a push, cleared when a pop finds that queue empty. Only this
    /// worker fills its queues, so a clear bit means an empty queue. If a bit is set, a thief may
    /// have emptied the queue.
    filled: u8,
    haul: Vec<Owned>,
    /// Number of pops from one of several queues.
    turn: u32,
    /// Index of the worker to check next.
    victim: usize,
}

impl Seat {
    /// Makes a seat for each parker.
    pub(crate) fn all(parkers: Vec<Parker>) -> Vec<Self> {
        let readies = Ready::all(parkers.len());
        let seats = parkers.into_iter().zip(readies).enumerate();
        seats
            .map(|(worker, (parker, ready))| Self {
                worker,
                parker,
                ready,
                filled: 0,
                haul: Vec::with_capacity(HAUL),
                turn: 0,
                victim: worker,
            })
            .collect()
    }

    /// Makes a task ready, behind those of its priority.
    #[inline(always)]
    pub(crate) fn push(&mut self, task: Owned) {
        let class = task.class() as usize;
        self.filled |= 1 << class;
        match &mut self.ready {
            Ready::Private(queues) => queues[class].push_back(task),
            Ready::Stealable { queues, .. } => queues[class].push(task),
        }
    }

    /// Returns how many tasks of a priority are ready here.
    #[inline]
    fn len(&self, class: usize) -> usize {
        match &self.ready {
            Ready::Private(queues) => queues[class].len(),
            Ready::Stealable { queues, .. } => queues[class].len(),
        }
    }

    /// Returns whether a task is ready here.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        (0..CLASSES).any(|class| self.len(class) > 0)
    }

    /// Returns the task to run next.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Owned> {
        // The common case: only one queue is not empty.
        if self.filled & self.filled.wrapping_sub(1) == 0 {
            return match self.filled {
                0 => None,
                only => self.pop_from(only.trailing_zeros() as usize),
            };
        }
        self.pop_by_turn()
    }

    /// Returns the task to run next, of several priorities.
    #[cold]
    fn pop_by_turn(&mut self) -> Option<Owned> {
        // The two turns never coincide.
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

    #[inline(always)]
    fn pop_from(&mut self, class: usize) -> Option<Owned> {
        if self.filled >> class & 1 == 0 {
            return None;
        }
        let task = match &mut self.ready {
            Ready::Private(queues) => queues[class].pop_front(),
            Ready::Stealable { ends, .. } => ends[self.worker][class].pop(),
        };
        if task.is_none() {
            self.filled &= !(1 << class);
        }
        task
    }

    /// Takes half of the ready tasks of the first worker that has any, and returns the first of
    /// them. The caller must run it at once. If it were queued here, workers could steal it from
    /// each other again and again without running it.
    pub(crate) fn steal(&mut self) -> Option<Owned> {
        let Ready::Stealable { queues, ends } = &mut self.ready else {
            return None;
        };
        for _ in 1..ends.len() {
            self.victim = after(self.victim, self.worker, ends.len());
            for (class, end) in ends[self.victim].iter_mut().enumerate() {
                let theirs = end.len();
                if theirs == 0 {
                    continue;
                }
                end.pop_into(&mut self.haul, theirs.div_ceil(2).min(HAUL));
                let mut haul = self.haul.drain(..);
                if let Some(first) = haul.next() {
                    self.filled |= 1 << class;
                    queues[class].push_batch(haul);
                    return Some(first);
                }
            }
        }
        None
    }

    /// Compares this worker's ready queues with those of one other, and takes half of the
    /// difference; returns whether it took any.
    pub(crate) fn balance(&mut self) -> bool {
        let Ready::Stealable { queues, ends } = &mut self.ready else {
            return false;
        };
        self.victim = after(self.victim, self.worker, ends.len());
        let mut took = false;
        for (class, end) in ends[self.victim].iter_mut().enumerate() {
            let more = end.len().saturating_sub(queues[class].len());
            if more >= 2 {
                took |= end.pop_into(&mut self.haul, (more / 2).min(HAUL)) > 0;
                self.filled |= 1 << class;
                queues[class].push_batch(self.haul.drain(..));
            }
        }
        took
    }

    /// Returns whether another worker has a ready task, by a check that agrees with a pop.
    pub(crate) fn others_have_ready(&self) -> bool {
        let Ready::Stealable { ends, .. } = &self.ready else {
            return false;
        };
        let others = ends.iter().enumerate();
        others
            .filter(|&(worker, _)| worker != self.worker)
            .any(|(_, ends)| ends.iter().any(|end| !end.is_empty()))
    }

    /// Removes all tasks that are ready here, the most urgent first.
    pub(crate) fn empty(&mut self, into: &mut Vec<Owned>) {
        for class in 0..CLASSES {
            while let Some(task) = self.pop_from(class) {
                into.push(task);
            }
        }
    }
}

/// Returns the worker after `victim`, skipping `worker`; there must be at least two.
fn after(victim: usize, worker: usize, workers: usize) -> usize {
    let next = (victim + 1) % workers;
    if next == worker {
        return (next + 1) % workers;
    }
    next
}

impl Ready {
    /// Makes the ready queues of so many workers.
    fn all(workers: usize) -> Vec<Self> {
        if workers == 1 {
            return iter::once(Self::Private(Default::default())).collect();
        }
        let halves: Vec<_> = (0..workers)
            .map(|_| [(); CLASSES].map(|()| spmc::with_block_slots(SLOTS)))
            .collect();
        let ends = || {
            let of_worker = |classes: &[(_, Consumer<Owned>); CLASSES]| {
                classes.each_ref().map(|(_, end)| Consumer::clone(end))
            };
            halves.iter().map(of_worker).collect()
        };
        let ends: Vec<Vec<_>> = (0..workers).map(|_| ends()).collect();
        let queues = halves
            .into_iter()
            .map(|classes| classes.map(|(producer, _)| producer));
        let with_ends = queues.zip(ends);
        with_ends
            .map(|(queues, ends)| Self::Stealable { queues, ends })
            .collect()
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
