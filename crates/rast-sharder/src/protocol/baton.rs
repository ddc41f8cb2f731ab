//! The shared half of the protocol: word, pages, holders, seats.
//!
//! Any thread may call everything in here; `member.rs` has what only a worker may do.

use std::boxed::Box;
use std::fmt;

use super::inbox::Inbox;
use super::page::Page;
use super::park::Park;
use super::word::{FREE, Word, holder_in};
use crate::assignment::Assignment;
use crate::ids::{ShardId, WorkerId};
use crate::primitive::CachePadded;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::{contain, discard};
use crate::primitive::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Which worker holds a shard.
pub(super) struct Holder {
    pub(super) word: AtomicU32,
    /// Index of the shard in the list of its holder.
    place: UnsafeCell<u32>,
}

impl Holder {
    fn free() -> Self {
        Self {
            word: AtomicU32::new(FREE),
            place: UnsafeCell::new(0),
        }
    }

    /// Returns the index that the holder gave the shard.
    ///
    /// # Safety
    ///
    /// The caller's worker holds the shard.
    pub(super) unsafe fn place(&self) -> usize {
        self.place.with(|place| {
            // SAFETY: only the holder accesses the cell. The Acquire of its swap in take orders
            // the accesses of earlier holders before this one.
            unsafe { *place as usize }
        })
    }

    /// Sets the index of the shard in its holder's list.
    ///
    /// # Safety
    ///
    /// The caller's worker holds the shard.
    pub(super) unsafe fn set_place(&self, index: usize) {
        self.place.with_mut(|place| {
            // SAFETY: as in `place`. The number of shards fits 31 bits.
            unsafe { *place = index as u32 };
        });
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder").finish_non_exhaustive()
    }
}

/// Where a worker sleeps, and whether it takes part in epochs.
pub(super) struct Seat {
    /// Whether the worker keeps its first shards and takes part in no epoch. Never changes.
    pub(super) is_dedicated: bool,
    /// 1 while its worker is about to park or is parked, until a waker swaps it to 0.
    pub(super) sleeping: AtomicU32,
    pub(super) park: Box<dyn Park>,
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}

/// The shared words of one sharder.
#[derive(Debug)]
pub struct Baton {
    pub(super) word: CachePadded<AtomicU64>,
    pub(super) stop: CachePadded<AtomicU32>,
    pub(super) requests: CachePadded<AtomicU32>,
    /// Number of calls of `notify_all`.
    pub(super) notices: CachePadded<AtomicU32>,
    pub(super) pages: [UnsafeCell<Page>; 2],
    pub(super) holders: Box<[CachePadded<Holder>]>,
    pub(super) seats: Box<[CachePadded<Seat>]>,
    /// Wake-ups on their way, by receiving worker.
    pub(super) inboxes: Box<[Inbox]>,
    /// Whether workers sleep at all. If not, no fence is made to wake them.
    pub(super) sleeps: bool,
    /// Number of workers that are not dedicated. Each of them promises in each epoch.
    pub(super) members: u16,
}

// SAFETY: the only cells in it are the pages and the places of the shards. Only the leader writes a
// page, while no thread reads it: by rule 4 all members have promised in the epoch of the other
// page, so all have left this page. Only members of its epoch read it, after the Acquire load that
// showed them the epoch; a dedicated worker reads none (rule 7). Only the holder of a shard
// accesses its place, by the obligation of its functions. All other fields are Sync by themselves.
unsafe impl Sync for Baton {}

impl Baton {
    /// Makes the shared words for `first`. All shards are free at first.
    pub(super) fn with_seats(
        first: &Assignment,
        dedicated: &[WorkerId],
        sleeps: bool,
        mut park: impl FnMut(WorkerId) -> Box<dyn Park>,
    ) -> Self {
        let workers = first.workers();
        let shards = first.shards();
        let seats: Box<[_]> = (0..workers)
            .map(|at| {
                let worker = WorkerId::from_index(at);
                CachePadded::new(Seat {
                    is_dedicated: dedicated.contains(&worker),
                    sleeping: AtomicU32::new(0),
                    park: park(worker),
                })
            })
            .collect();
        let members = seats.iter().filter(|seat| !seat.is_dedicated).count();
        let members = u16::try_from(members).expect("an assignment has at most MAX_WORKERS");
        Self {
            word: CachePadded::new(AtomicU64::new(Word::new(0, members, 0).bits())),
            stop: CachePadded::new(AtomicU32::new(0)),
            requests: CachePadded::new(AtomicU32::new(0)),
            notices: CachePadded::new(AtomicU32::new(0)),
            pages: [0, 1].map(|_| UnsafeCell::new(Page::first(first))),
            holders: (0..shards)
                .map(|_| CachePadded::new(Holder::free()))
                .collect(),
            seats,
            inboxes: (0..workers).map(|_| Inbox::new(workers, shards)).collect(),
            sleeps,
            members,
        }
    }

    /// Asks all workers to leave. Lock-free unless a worker must be unparked.
    pub fn stop(&self) {
        // Release: pairs with the Acquire in is_stopping; publishes what the caller wrote before
        // the stop. [SO1]
        self.stop.store(1, Ordering::Release);
        self.wake_all();
    }

    /// Returns `true` if the workers were asked to leave.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        // Acquire: pairs with the Release in stop. [SO2]
        self.stop.load(Ordering::Acquire) != 0
    }

    /// Asks for a new epoch as soon as every worker that is not dedicated can promise.
    ///
    /// A request that is made during a decision is answered by a later one.
    pub fn request(&self) {
        // Relaxed: the count carries no data; the fence in wake_members orders it before the loads
        // of the seats. [SO3]
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.wake_members(None);
    }

    /// Makes `shard` ready at the worker that holds it. Any thread may call it.
    ///
    /// The turn that follows sees what the caller wrote before.
    pub fn wake(&self, shard: ShardId) {
        if let Some(worker) = self.target(shard) {
            self.set_bit(worker, shard);
        }
    }

    /// Returns the worker to send a wake-up of `shard` to; `None` drops the wake-up.
    #[inline]
    pub(super) fn target(&self, shard: ShardId) -> Option<WorkerId> {
        // Relaxed: a worker that no longer holds the shard forwards the wake-up. [HO1]
        match holder_in(self.holders[shard.index()].word.load(Ordering::Relaxed)) {
            None => self.settle(shard),
            holder => holder,
        }
    }

    /// Sends a wake-up without a note to `worker`.
    pub(super) fn set_bit(&self, worker: WorkerId, shard: ShardId) {
        // This makes a fence between the bit and the load of the seat.
        self.inboxes[worker.index()].set_bit(shard);
        self.rouse(worker);
    }

    /// Returns the holder of `shard` for a mark whose shard moved meanwhile; `None` drops the mark.
    ///
    /// All read-modify-writes of a holder word are in one order. If the one of this call comes
    /// before the one by which a worker takes the shard next, the two synchronize. Then the turn
    /// after the acquisition sees what the waker wrote. Otherwise this call returns that worker.
    #[cold]
    pub(super) fn settle(&self, shard: ShardId) -> Option<WorkerId> {
        let holder = &self.holders[shard.index()].word;
        // AcqRel: pairs with the swap in take. Release publishes what the waker wrote to the
        // worker that takes the shard; a load would not, and could return an old value. [HO7]
        holder_in(holder.fetch_add(0, Ordering::AcqRel))
    }

    /// Wakes all workers that sleep, and makes those that are about to sleep run another round.
    pub fn notify_all(&self) {
        // Release: pairs with the Acquire in has_news; publishes what was written before to the
        // round that follows. The fence in wake_all orders it before the loads of the seats. [SO19]
        self.notices.fetch_add(1, Ordering::Release);
        self.wake_all();
    }

    /// Returns the current holder of `shard`. A hint: it may be out of date on return.
    pub fn holder(&self, shard: ShardId) -> Option<WorkerId> {
        // Relaxed: a hint; no data is read through it. [HO2]
        holder_in(self.holders[shard.index()].word.load(Ordering::Relaxed))
    }

    /// Wakes all workers that sleep.
    fn wake_all(&self) {
        self.wake_each(|_, _| true);
    }

    /// Wakes all workers that sleep, except `but` and the dedicated ones.
    pub(super) fn wake_members(&self, but: Option<WorkerId>) {
        self.wake_each(|worker, seat| !seat.is_dedicated && Some(worker) != but);
    }

    fn wake_each(&self, wakes: impl Fn(WorkerId, &Seat) -> bool) {
        // SeqCst: pairs with the fence in park; orders the stop, notice, request, promise
        // or epoch written before it ahead of the loads of the seats. [SO5]
        fence(Ordering::SeqCst);
        for (at, seat) in self.seats.iter().enumerate() {
            let worker = WorkerId::from_index(at);
            if wakes(worker, seat) {
                self.rouse(worker);
            }
        }
    }

    /// Wakes `worker` if it sleeps. Certain only if a SeqCst fence is between the write that the
    /// worker should see and this call.
    #[inline]
    pub(super) fn rouse(&self, worker: WorkerId) {
        let seat = &self.seats[worker.index()];
        // Relaxed: ordered by the caller's fence, or a hint. [SO6]
        if seat.sleeping.load(Ordering::Relaxed) != 0 {
            seat.rouse_slow();
        }
    }
}

impl Seat {
    /// Ends the sleep of its worker, unless another waker does.
    #[cold]
    fn rouse_slow(&self) {
        // Release: pairs with the Acquire in park; publishes what the waker wrote. Only one of
        // several wakers gets the 1 and makes the system call. [SO18]
        if self.sleeping.swap(0, Ordering::Release) != 0
            && let Err(payload) = contain(|| self.park.unpark())
        {
            // The panic is not the waker's fault, and the waker may be sending a message.
            discard(payload);
        }
    }
}
