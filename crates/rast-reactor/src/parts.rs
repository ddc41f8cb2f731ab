//! The parts of the protocols, for the models alone; no part of the interface.

use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use rast_executor::timers::MonotonicClock;
use rast_executor::trusted_clock;

pub use crate::credit::{CREDITS, Pair, Sent};
pub use crate::epoch::{Follower, Ledger, Reader, Writer};
use crate::registry::{Plan, Replica, Resources};

/// The resources of one reactor, without the reactor.
pub struct Registry(Plan);

/// The turns of a thread that has such resources.
pub struct Turns(Rc<Replica>);

impl Registry {
    /// Makes one registry for each of `reactors` threads.
    ///
    /// # Panics
    ///
    /// If a type has no owner among these threads, or two.
    #[must_use]
    pub fn of(resources: Resources, reactors: usize) -> Vec<Self> {
        let (plans, _) = resources.plans(reactors).expect("each type has an owner");
        plans.into_iter().map(Self).collect()
    }

    /// Calls `f` while the thread is the reactor of these resources.
    pub fn run<R>(self, f: impl FnOnce(&Turns) -> R) -> R {
        let turns = Turns(Rc::new(self.0.make(trusted_clock(MonotonicClock::new()))));
        let result = turns.0.enter(|| f(&turns));
        turns.0.leave();
        result
    }
}

impl Turns {
    /// What a reactor does between the polls of two turns.
    pub fn turn(&self) {
        self.0.turn();
    }
}

/// How often completions overflowed the ring of the calling reactor, and how many calls of the
/// system it made; `None` without io_uring.
#[cfg(all(feature = "io", target_os = "linux", not(any(rast_loom, rast_shuttle))))]
pub fn ring_counts() -> Option<(u64, u64)> {
    let io = crate::io::Io::current();
    io.ring.as_ref().map(|ring| ring.counts())
}
