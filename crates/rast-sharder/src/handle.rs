//! The handle of a sharder: any thread can stop it, wake its shards and read its counters.

use crate::core_state::{Core, Published};
use crate::ids::ShardId;
use crate::primitive::SnapshotGuard;
use crate::primitive::sync::Arc;
use crate::stats::Stats;

/// Stops, wakes and observes a sharder from any thread, before, during and after its run.
///
/// ```
/// use rast_sharder::{Controller, Progress, ShardId, Sharder, WorkerCx};
///
/// struct Nothing;
///
/// impl Controller for Nothing {
///     type Shard = ();
///     type Load = ();
///     fn process(
///         &self,
///         _: &mut WorkerCx<'_>,
///         _: ShardId,
///         _: &mut (),
///         _: Option<&mut ()>,
///     ) -> Progress {
///         Progress::Idle
///     }
///     fn new_load(&self, _: ShardId) {}
/// }
///
/// let sharder = Sharder::builder(Nothing).shards(vec![(); 4]).workers(2).build()?;
/// let handle = sharder.handle();
/// let stopper = std::thread::spawn(move || {
///     assert_eq!(handle.assignment().assignment.shards(), 4);
///     handle.stop();
/// });
/// let outcome = sharder.run()?;
/// assert_eq!(outcome.shards.len(), 4);
/// # stopper.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) core: Arc<Core>,
}

impl Handle {
    /// Stops the sharder: all workers leave, and `run` returns once the running calls have
    /// returned. Calls that see the stop also see what the caller wrote before. Lock-free, except
    /// for waking sleeping workers.
    pub fn stop(&self) {
        self.core.baton.stop();
    }

    /// Returns `true` if a stop was requested.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.core.baton.is_stopping()
    }

    /// Requests a new epoch, to be decided as soon as every worker can promise. One decision
    /// answers all requests made before it starts.
    pub fn reshard(&self) {
        self.core.baton.request();
    }

    /// Makes `shard` ready: after this call it gets a turn, on the worker that holds it by then.
    /// The turn sees what the caller wrote before this call. Before that turn
    /// [`on_wake`](crate::Controller::on_wake) gets `None`.
    ///
    /// Before the run it has no effect, because every shard gets a turn at the start.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    pub fn wake(&self, shard: ShardId) {
        self.core.baton.wake(shard);
    }

    /// Wakes every sleeping worker, including workers that hold no shard. After this call each
    /// worker calls [`before_turn`](crate::Controller::before_turn), which sees what the caller
    /// wrote before. Lock-free, except for waking sleeping workers.
    pub fn notify_all(&self) {
        self.core.baton.notify_all();
    }

    /// Returns the current assignment. Lock-free; delays no worker. The guard always shows this
    /// assignment. While it exists, replaced assignments stay in memory, so drop it soon.
    pub fn assignment(&self) -> SnapshotGuard<'_, Published> {
        self.core.published.load()
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.core.tallies.len()
    }

    /// Reads the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }
}
