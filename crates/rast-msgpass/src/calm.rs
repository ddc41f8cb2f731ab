//! Telling the workers that the graph drains, and knowing that all know.
//!
//! A drain ends pings first. A worker looks at the request in each turn and
//! says that it saw it; from then on it starts no ping. Once all have said so,
//! no ping is under way, and the counts that were read after that include what
//! all pings sent.

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicBool, Ordering};

/// A request to all workers, and their acknowledgements.
#[derive(Debug)]
pub struct Calm {
    asked: AtomicBool,
    /// Per worker: it has begun a turn since it was asked.
    seen: Vec<CachePadded<AtomicBool>>,
}

impl Calm {
    /// Makes the request to so many workers, not yet asked.
    pub fn new(workers: usize) -> Self {
        let seen = || CachePadded::new(AtomicBool::new(false));
        Self {
            asked: AtomicBool::new(false),
            seen: (0..workers).map(|_| seen()).collect(),
        }
    }

    /// Tells whether it was asked.
    #[inline]
    pub fn is_asked(&self) -> bool {
        // Relaxed: a worker that misses it asks again in its next turn; who needs to know waits for
        // all_see. [MP7]
        self.asked.load(Ordering::Relaxed)
    }

    /// Asks.
    pub fn ask(&self) {
        // Relaxed: nothing is published by it; that each worker says it saw it is what counts.
        // [MP8]
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Called by each worker at the start of its turns.
    #[inline]
    pub fn see(&self, worker: usize) {
        if self.is_asked() {
            // Release: pairs with the Acquire in all_see; the pings of this worker, and their
            // counts, are above. [MP9]
            self.seen[worker].store(true, Ordering::Release);
        }
    }

    /// Tells whether all workers have seen it.
    pub fn all_see(&self) -> bool {
        self.seen.iter().all(|seen| {
            // Acquire: pairs with the Release in see; counts read after this include those of all
            // pings. [MP10]
            seen.load(Ordering::Acquire)
        })
    }
}
