//! What user code sees of the worker that runs it.

use std::fmt;

use crate::core_state::Core;
use crate::ids::{ShardId, WorkerId};
use crate::protocol::MemberView;
use crate::timers::{Clock, Instant, Tick};

/// The worker that runs a call, and what it offers.
///
/// All methods are cheap: none locks, and only those that wake a parked worker
/// enter the system.
pub struct WorkerCx<'a> {
    pub(crate) member: MemberView<'a>,
    pub(crate) core: &'a Core,
    pub(crate) tick: &'a Tick,
    pub(crate) now: Instant,
    /// Whether a shard of this very worker was notified.
    pub(crate) again: bool,
}

impl WorkerCx<'_> {
    /// Returns which worker runs the call.
    #[inline]
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.member.worker
    }

    /// Returns the epoch that the worker is in. It wraps.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.member.epoch
    }

    /// Returns the worker's tick, for the amortised timers of
    /// [`timers`](crate::timers). Published about once per turn.
    #[inline]
    #[must_use]
    pub fn tick(&self) -> &Tick {
        self.tick
    }

    /// Returns the time of the worker's last reading of the clock: free, and
    /// at most some turns old.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the clock, for a fresh reading.
    #[inline]
    #[must_use]
    pub fn clock(&self) -> &(dyn Clock + Send + Sync) {
        &*self.core.clock
    }

    /// Tells whether this worker holds `shard`: then nobody else touches it
    /// during this call, and a write for it needs no wake-up.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    #[inline]
    #[must_use]
    pub fn is_local(&self, shard: ShardId) -> bool {
        self.member.local[shard.index()]
    }

    /// Returns who holds `shard`: a hint, old when it arrives.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    #[must_use]
    pub fn holder(&self, shard: ShardId) -> Option<WorkerId> {
        self.member.baton.holder(shard)
    }

    /// Makes sure that `shard` gets a turn after what the caller has written
    /// for it, where [`is_ready`](crate::Controller::is_ready) sees that.
    ///
    /// Costs a fence and two loads for a shard of another worker, and a system
    /// call where that worker sleeps; nothing of it for a local shard.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    #[inline]
    pub fn notify(&mut self, shard: ShardId) {
        if self.is_local(shard) {
            self.again = true;
        } else {
            self.member.baton.notify(shard);
        }
    }

    /// As [`notify`](Self::notify) for several shards, with one fence for all,
    /// made also where there is none to notify.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    #[inline]
    pub fn fence_and_notify(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        let local = self.member.local;
        let mut again = false;
        self.member
            .baton
            .notify_each(shards.into_iter().filter(|shard| {
                let here = local[shard.index()];
                again |= here;
                !here
            }));
        self.again |= again;
    }

    /// Asks for a resharding, as [`Handle::reshard`](crate::Handle::reshard).
    pub fn reshard(&self) {
        self.member.baton.request();
    }

    /// Asks all workers to leave, as [`Handle::stop`](crate::Handle::stop).
    pub fn stop(&self) {
        self.member.baton.stop();
    }

    /// Tells whether all workers are to leave.
    #[inline]
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.member.baton.is_stopping()
    }
}

impl fmt::Debug for WorkerCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerCx")
            .field("member", &self.member)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
