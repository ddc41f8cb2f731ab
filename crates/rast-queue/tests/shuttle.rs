//! Scenarios of the queues that are too long for loom: three or four threads, and tens of
//! operations. There is one file per structure.
//!
//! Under `--cfg rast_shuttle` each runs in many random schedules: `cargo xtask shuttle -p
//! rast-queue`. Otherwise they run as a stress test on real threads. Histories are recorded and
//! checked as in `tests/it/linearizable`, but the scheduler does not switch threads at the clock.
#![cfg(all(feature = "std", not(rast_loom)))]

#[path = "support/history/mod.rs"]
mod history;

#[cfg(rast_shuttle)]
#[path = "shuttle/broken.rs"]
mod broken;
#[path = "shuttle/list.rs"]
mod list;
#[path = "shuttle/mpsc.rs"]
mod mpsc;
#[path = "shuttle/queue.rs"]
mod queue;
#[cfg(feature = "async")]
#[path = "shuttle/queue_async.rs"]
mod queue_async;
#[path = "shuttle/segmented.rs"]
mod segmented;
#[path = "shuttle/spmc.rs"]
mod spmc;
#[path = "shuttle/spsc.rs"]
mod spsc;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the items that were made and that were dropped.
#[derive(Clone, Default)]
struct Drops(Arc<[AtomicUsize; 2]>);

/// Counted by [`Drops`].
struct Item(Drops);

impl Drops {
    fn item(&self) -> Item {
        self.0[0].fetch_add(1, Ordering::Relaxed);
        Item(self.clone())
    }

    /// Panics unless `count` items were made, and each was dropped once.
    fn assert(&self, count: usize) {
        let [made, dropped] = &*self.0;
        let counts = (
            made.load(Ordering::Relaxed),
            dropped.load(Ordering::Relaxed),
        );
        assert_eq!(counts, (count, count), "made and dropped");
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.0.0[1].fetch_add(1, Ordering::Relaxed);
    }
}
