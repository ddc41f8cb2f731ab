//! The context of a call of user code: the worker that runs it.

use std::fmt;
use std::vec::Vec;

use crate::core_state::Core;
use crate::ids::{ShardId, WorkerId};
use crate::primitive::sync::Arc;
use crate::protocol::Member;
use crate::timers::{Clock, Instant, Tick};

/// The parts of a worker that user code can access.
pub(crate) struct Local {
    pub(crate) member: Member,
    pub(crate) core: Arc<Core>,
    pub(crate) tick: Tick,
    pub(crate) now: Instant,
    /// Wake-ups of shards of this worker, delivered after the call.
    pub(crate) notes: Vec<(ShardId, Option<u32>)>,
    /// Addresses of the lines that the worker fetches while it waits.
    pub(crate) lines: [usize; 2],
}

/// The worker that runs a call, and its operations.
///
/// All methods are cheap: none acquires a lock, and only those that wake a sleeping worker make a
/// system call.
pub struct WorkerCx<'a> {
    pub(crate) local: &'a mut Local,
}

impl WorkerCx<'_> {
    /// Returns the worker that runs the call.
    #[inline]
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.local.member.worker()
    }

    /// Returns the worker's epoch. It wraps. A [dedicated](crate::Builder::dedicate) worker stays
    /// in the first one.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.local.member.epoch()
    }

    /// Returns the worker's tick, for the amortised timers of
    /// [`timers`](crate::timers). Published with readings of the clock, at most once in 10 µs.
    #[inline]
    #[must_use]
    pub fn tick(&self) -> &Tick {
        &self.local.tick
    }

    /// Returns the worker's last clock reading. Costs a load. The reading is at most 16 turns old,
    /// or one turn if turns are long.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.local.now
    }

    /// Returns the clock, for a fresh reading.
    #[inline]
    #[must_use]
    pub fn clock(&self) -> &(dyn Clock + Send + Sync) {
        &*self.local.core.clock
    }

    /// Returns `true` if this worker holds `shard`, so that no other thread accesses it during this
    /// call.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[inline]
    #[must_use]
    pub fn is_local(&self, shard: ShardId) -> bool {
        self.local.member.is_local(shard)
    }

    /// Returns the current holder of `shard`. A hint: it may be out of date on return.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[must_use]
    pub fn holder(&self, shard: ShardId) -> Option<WorkerId> {
        self.local.core.baton.holder(shard)
    }

    /// Makes `shard` ready: after this call it gets a turn, on the worker that then holds it. The
    /// turn sees what the caller wrote before this call. Before that turn
    /// [`on_wake`](crate::Controller::on_wake) gets `note`.
    ///
    /// Cost: for a shard of this worker, a push to a vector without an atomic operation. For a
    /// shard of another worker, two loads and a store. If the shard is about to move, also a
    /// read-modify-write. If the other worker is asleep, also a system call. A worker that is just
    /// falling asleep is woken at the end of the calling worker's round: after at most 16 turns or
    /// about 20 µs, or after the current turn if that is longer.
    ///
    /// If the calling worker is [dedicated](crate::Builder::dedicate), its turn may block. So a
    /// worker that is just falling asleep is woken without delay, at the cost of one more fence.
    ///
    /// Returns `true` if the calling worker holds the shard, as [`is_local`](Self::is_local) does.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[inline(always)]
    pub fn wake(&mut self, shard: ShardId, note: u32) -> bool {
        let is_local = self.is_local(shard);
        match is_local {
            true => self.local.notes.push((shard, Some(note))),
            false => self.wake_elsewhere(shard, note),
        }
        is_local
    }

    /// As [`wake`](Self::wake), if this worker holds the shard and its vector of notes has room.
    /// Otherwise it does nothing and returns `false`; then call `wake`.
    ///
    /// It calls no function. So a caller that returns at once after `true` need not save registers
    /// on the stack.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[inline(always)]
    pub fn wake_local(&mut self, shard: ShardId, note: u32) -> bool {
        let notes = &mut self.local.notes;
        let is_done = self.local.member.is_local(shard) && notes.len() < notes.capacity();
        if is_done {
            notes.push((shard, Some(note)));
        }
        is_done
    }

    /// Names two addresses at which a shard of this worker expects the next write of another
    /// worker, such as the next slot of a queue. While the worker waits without work, it prefetches
    /// these cache lines each time that it checks for wake-ups. So the lines are in the cache when
    /// the wake-up arrives. Otherwise the turn after the wake-up would wait for them.
    ///
    /// The addresses are only a hint: any address is allowed, and none is read. Only the last call
    /// on each worker counts. A call costs two stores.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use rast_sharder::{Controller, Progress, ShardId, Sharder, WorkerCx};
    ///
    /// /// Shard 0 sends a number to shard 1.
    /// struct Send(AtomicU64);
    ///
    /// impl Controller for Send {
    ///     type Shard = ();
    ///     type Load = ();
    ///     fn process(
    ///         &self,
    ///         cx: &mut WorkerCx<'_>,
    ///         shard: ShardId,
    ///         (): &mut (),
    ///         _: Option<&mut ()>,
    ///     ) -> Progress {
    ///         if shard.index() == 0 {
    ///             self.0.store(7, Ordering::Relaxed);
    ///             cx.wake(ShardId::from_index(1), 0);
    ///         } else if self.0.load(Ordering::Relaxed) == 7 {
    ///             cx.stop();
    ///         } else {
    ///             cx.expect_at([self.0.as_ptr(); 2]);
    ///         }
    ///         Progress::Idle
    ///     }
    ///     fn new_load(&self, _: ShardId) {}
    /// }
    ///
    /// let builder = Sharder::builder(Send(AtomicU64::new(0))).shards(vec![(), ()]);
    /// builder.workers(2).build()?.run().expect("no worker fails");
    /// # Ok::<(), rast_sharder::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn expect_at<T>(&mut self, addresses: [*const T; 2]) {
        self.local.lines = addresses.map(|address| address.addr());
    }

    /// Wakes a shard of another worker; not inlined, so that a local wake-up stays short.
    #[inline(never)]
    fn wake_elsewhere(&mut self, shard: ShardId, note: u32) {
        self.local.member.wake(shard, note);
    }

    /// Requests a new epoch, as [`Handle::reshard`](crate::Handle::reshard).
    pub fn reshard(&self) {
        self.local.core.baton.request();
    }

    /// Requests that all workers leave, as [`Handle::stop`](crate::Handle::stop).
    pub fn stop(&self) {
        self.local.core.baton.stop();
    }

    /// Returns `true` if all workers must leave.
    #[inline]
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.local.core.baton.is_stopping()
    }
}

impl fmt::Debug for WorkerCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerCx")
            .field("member", &self.local.member)
            .field("now", &self.local.now)
            .finish_non_exhaustive()
    }
}
