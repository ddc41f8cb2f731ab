//! State that a sharder shares with its handles: everything that does not depend on the
//! controller's types.

use std::boxed::Box;
use std::fmt;
use std::string::String;

use crate::assignment::Assignment;
use crate::ids::{ShardId, WorkerId};
use crate::panics::{Hook, PanicLog, PanicRecord};
use crate::primitive::sync::atomic::{AtomicBool, Ordering};
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::{CachePadded, Snapshot};
use crate::protocol::Baton;
use crate::stats::{Stats, Tally, Totals};
use crate::timers::{Clock, Instant, Nanos};

/// The assignment as readers outside see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Published {
    /// The epoch that brought this assignment. Later epochs that kept it do not count.
    pub epoch: u32,
    /// The owners since then.
    pub assignment: Assignment,
}

/// The shared state.
pub(crate) struct Core {
    pub(crate) baton: Arc<Baton>,
    pub(crate) clock: Box<dyn Clock + Send + Sync>,
    /// Clock of the calling thread's processor time, if the system has one.
    pub(crate) thread_clock: Option<Box<dyn Clock + Send + Sync>>,
    /// Whether the latest decision needed figures. Written by leaders, before they publish.
    needs_figures: AtomicBool,
    pub(crate) published: Snapshot<Published>,
    pub(crate) totals: Totals,
    pub(crate) tallies: Box<[CachePadded<Tally>]>,
    /// Rarely accessed: the record of what went wrong in user code.
    pub(crate) log: Mutex<PanicLog>,
    /// Rarely accessed: the first reason why the runtime itself failed.
    pub(crate) failure: Mutex<Option<(WorkerId, String)>>,
}

impl Core {
    pub(crate) fn new(
        baton: Arc<Baton>,
        clock: Box<dyn Clock + Send + Sync>,
        thread_clock: Option<Box<dyn Clock + Send + Sync>>,
        assignment: Assignment,
    ) -> Self {
        let workers = assignment.workers();
        Self {
            baton,
            clock,
            thread_clock,
            needs_figures: AtomicBool::new(true),
            published: Snapshot::new(Published {
                epoch: 0,
                assignment,
            }),
            totals: Totals::default(),
            tallies: (0..workers).map(|_| CachePadded::default()).collect(),
            log: Mutex::new(PanicLog::default()),
            failure: Mutex::new(None),
        }
    }

    /// Returns how long the calling thread has run; `None` if the system cannot tell, or if the
    /// latest decision needed no figures. A call costs a system call otherwise.
    pub(crate) fn thread_time(&self) -> Option<Instant> {
        // Relaxed: a worker calls this after the Acquire load that showed it the epoch, and the
        // leader stored the flag before it published that epoch.
        let is_needed = self.needs_figures.load(Ordering::Relaxed);
        let clock = self.thread_clock.as_ref().filter(|_| is_needed);
        clock.map(|clock| clock.now())
    }

    /// Records whether the decision of this leader needs figures.
    pub(crate) fn set_needs_figures(&self, is_needed: bool) {
        // Relaxed: see `thread_time`. Most often nothing changes, and each worker reads this line
        // in each round, so it is not written then.
        if self.needs_figures.load(Ordering::Relaxed) != is_needed {
            self.needs_figures.store(is_needed, Ordering::Relaxed);
        }
    }

    /// Records a contained panic.
    #[cold]
    pub(crate) fn panicked(
        &self,
        worker: WorkerId,
        shard: Option<ShardId>,
        hook: Hook,
        message: String,
    ) -> PanicRecord {
        // Relaxed: a statistic; nothing is read through it.
        self.totals.panics.fetch_add(1, Ordering::Relaxed);
        let record = PanicRecord {
            shard,
            worker,
            hook,
            message,
        };
        self.log.lock().panicked(record.clone());
        record
    }

    /// Records a rejected decision.
    #[cold]
    pub(crate) fn rejected(&self, why: String) {
        // Relaxed: as above.
        self.totals.rejected.fetch_add(1, Ordering::Relaxed);
        self.log.lock().rejected(why);
    }

    /// Records that the runtime failed on `worker`, and stops everything.
    #[cold]
    pub(crate) fn failed(&self, worker: WorkerId, why: String) {
        self.failure.lock().get_or_insert((worker, why));
        self.baton.stop();
    }

    pub(crate) fn stats(&self) -> Stats {
        let totals = &self.totals;
        Stats {
            epochs: totals.epochs.get(),
            decisions: totals.decisions.get(),
            moves: totals.moves.get(),
            last_moves: totals.last_moves.get(),
            last_used: totals.last_used.get(),
            // Relaxed: as above.
            rejected: totals.rejected.load(Ordering::Relaxed),
            // Relaxed: as above.
            panics: totals.panics.load(Ordering::Relaxed),
            deciding: Nanos::from_nanos(totals.deciding.get()),
            workers: self.tallies.iter().map(|tally| tally.read()).collect(),
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("baton", &self.baton)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// The sharder's clock, for timers that outlive a borrow.
#[derive(Clone, Debug)]
pub(crate) struct CoreClock(pub(crate) Arc<Core>);

impl Clock for CoreClock {
    fn now(&self) -> Instant {
        self.0.clock.now()
    }
}
