//! Quiescence request: tells the workers that the graph drains, and waits until all have seen it.
//!
//! A drain first ends pings. Each worker checks for the request in each round and acknowledges it;
//! from then on it starts no ping. Once all have acknowledged, no ping is running, and counts that
//! are read after that include the messages of all pings.

use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicBool, Ordering};

/// A request to all workers, and their acknowledgements.
#[derive(Debug)]
pub struct Calm {
    asked: AtomicBool,
    /// By worker: whether it has started a round since the request.
    seen: Vec<CachePadded<AtomicBool>>,
}

impl Calm {
    /// Makes a request to this many workers. It is not sent yet.
    pub fn new(workers: usize) -> Self {
        let seen = || CachePadded::new(AtomicBool::new(false));
        Self {
            asked: AtomicBool::new(false),
            seen: (0..workers).map(|_| seen()).collect(),
        }
    }

    /// Returns `true` if the request was sent.
    #[inline]
    pub fn is_asked(&self) -> bool {
        // Relaxed: a worker that misses it checks again in its next round; the drain waits for
        // all_see. [MP7]
        self.asked.load(Ordering::Relaxed)
    }

    /// Sends the request.
    pub fn ask(&self) {
        // Relaxed: it publishes nothing; only the acknowledgements matter. [MP8]
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Called by each worker at the start of its rounds.
    #[inline]
    pub fn see(&self, worker: usize) {
        if self.is_asked() {
            // Release: pairs with the Acquire in all_see; publishes the pings of this worker, and
            // their counts. [MP9]
            self.seen[worker].store(true, Ordering::Release);
        }
    }

    /// Returns `true` if all workers have acknowledged.
    pub fn all_see(&self) -> bool {
        self.seen.iter().all(|seen| {
            // Acquire: pairs with the Release in see; counts read after this include those of all
            // pings. [MP10]
            seen.load(Ordering::Acquire)
        })
    }
}
