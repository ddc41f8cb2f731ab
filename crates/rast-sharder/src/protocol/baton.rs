//! The shared half of the protocol: word, pages, holders, seats.
//!
//! Everything in here may be called from any thread; what needs the role of a
//! worker is in `member.rs`.

use std::boxed::Box;
use std::fmt;
use std::vec::Vec;

use super::inbox::Inbox;
use super::member::Member;
use super::park::{Park, ThreadPark};
use super::word::{FREE, Word, holder_in};
use crate::assignment::Assignment;
use crate::ids::{ShardId, WorkerId};
use crate::panics::{contain, discard};
use crate::primitive::CachePadded;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// One of the two configurations.
#[derive(Debug)]
pub(super) struct Page {
    /// Who owns what in the epochs of this page.
    pub(super) owners: Assignment,
    /// The count of requests to reshard that were made before this epoch was
    /// decided: those are answered by it.
    pub(super) served: u32,
}

/// Where a worker sleeps.
pub(super) struct Seat {
    /// 1 while its worker is about to park or is parked, until a waker takes it.
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
    /// How often all were notified.
    pub(super) notices: CachePadded<AtomicU32>,
    pub(super) pages: [UnsafeCell<Page>; 2],
    pub(super) holders: Box<[CachePadded<AtomicU32>]>,
    pub(super) seats: Box<[CachePadded<Seat>]>,
    /// By worker: what is on its way to it.
    pub(super) inboxes: Box<[Inbox]>,
    /// Whether workers sleep at all. If not, nothing fences for their sake.
    pub(super) sleeps: bool,
}

// SAFETY: the cells in it are the pages. A page is written by the leader alone,
// while no thread reads it (rule 4: all have promised in the epoch of the other
// page, so all have left the page's own), and read by members of its epoch
// alone, after the Acquire load that showed them the epoch. All other fields
// are Sync by themselves.
unsafe impl Sync for Baton {}

impl Baton {
    /// Makes the shared words for `first`, and the role of each worker, which sleeps
    /// on a condition.
    pub fn new(first: Assignment) -> (Arc<Self>, Vec<Member>) {
        Self::with_parks(first, true, |_| Box::new(ThreadPark::new()))
    }

    /// Makes the shared words for `first`, and the role of each worker, which sleeps
    /// in what `park` returns for it, or never.
    ///
    /// All shards are free at first; each worker takes its own in its first
    /// turn.
    pub fn with_parks(
        first: Assignment,
        sleeps: bool,
        mut park: impl FnMut(WorkerId) -> Box<dyn Park>,
    ) -> (Arc<Self>, Vec<Member>) {
        let workers = first.workers();
        let shards = first.shards();
        let seats = (0..workers)
            .map(|at| {
                CachePadded::new(Seat {
                    sleeping: AtomicU32::new(0),
                    park: park(WorkerId::from_index(at)),
                })
            })
            .collect();
        let members = u16::try_from(workers).expect("an assignment has at most MAX_WORKERS");
        let baton = Arc::new(Self {
            word: CachePadded::new(AtomicU64::new(Word::new(0, members, 0).bits())),
            stop: CachePadded::new(AtomicU32::new(0)),
            requests: CachePadded::new(AtomicU32::new(0)),
            notices: CachePadded::new(AtomicU32::new(0)),
            pages: [
                UnsafeCell::new(Page {
                    owners: first.clone(),
                    served: 0,
                }),
                UnsafeCell::new(Page {
                    owners: first.clone(),
                    served: 0,
                }),
            ],
            holders: (0..shards)
                .map(|_| CachePadded::new(AtomicU32::new(FREE)))
                .collect(),
            seats,
            inboxes: (0..workers).map(|_| Inbox::new(workers, shards)).collect(),
            sleeps,
        });
        let members = (0..workers)
            .map(|at| Member::new(baton.clone(), WorkerId::from_index(at), &first))
            .collect();
        (baton, members)
    }

    /// Asks all workers to leave. Lock-free unless a worker must be unparked.
    pub fn stop(&self) {
        // Release: pairs with the Acquire in is_stopping; a worker that sees the
        // stop sees what was written before it. [SO1]
        self.stop.store(1, Ordering::Release);
        self.wake_all(None);
    }

    /// Tells whether the workers were asked to leave.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        // Acquire: pairs with the Release in stop; see there. [SO2]
        self.stop.load(Ordering::Acquire) != 0
    }

    /// Asks for a resharding as soon as every worker can promise.
    ///
    /// A request made while one is being decided is answered by a further one.
    pub fn request(&self) {
        // Relaxed: the count carries no data; the fence in wake_all orders it
        // before the look at the seats. [SO3]
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.wake_all(None);
    }

    /// Makes `shard` ready at the worker that holds it. From any thread.
    ///
    /// What the caller wrote before is seen by the turn that follows.
    pub fn wake(&self, shard: ShardId) {
        if let Some(worker) = self.target(shard) {
            self.set_bit(worker, shard);
        }
    }

    /// Returns the worker that a wake-up of `shard` is for; `None` drops it.
    #[inline]
    pub(super) fn target(&self, shard: ShardId) -> Option<WorkerId> {
        // Relaxed: a worker that holds the shard no more forwards the wake-up. [HO1]
        match holder_in(self.holders[shard.index()].load(Ordering::Relaxed)) {
            None => self.settle(shard),
            holder => holder,
        }
    }

    /// Brings a wake-up without a note to `worker`.
    pub(super) fn set_bit(&self, worker: WorkerId, shard: ShardId) {
        // It fences between the bit and the look at the seat.
        self.inboxes[worker.index()].set_bit(shard);
        self.rouse(worker);
    }

    /// Returns the holder of `shard` for a mark that found it moving; `None` drops the mark.
    ///
    /// All read-modify-writes of a holder word are in one order. If this one comes before
    /// that of the worker that takes the shard next, that one synchronises with it and
    /// sees, in the turn that an acquired shard gets, what the waker wrote. If it comes
    /// after, it returns that worker.
    #[cold]
    pub(super) fn settle(&self, shard: ShardId) -> Option<WorkerId> {
        // AcqRel: pairs with the swap in take. Release publishes what the waker wrote to the
        // worker that takes the shard; a load would not, and could return an old value. [HO7]
        holder_in(self.holders[shard.index()].fetch_add(0, Ordering::AcqRel))
    }

    /// Wakes all workers that sleep, and gives those that are about to another round.
    pub fn notify_all(&self) {
        // Release: pairs with the Acquire in has_news; the round that follows sees what was
        // written before. The fence in wake_all orders it before the look at the seats. [SO19]
        self.notices.fetch_add(1, Ordering::Release);
        self.wake_all(None);
    }

    /// Returns who holds `shard` right now: a hint, old when it arrives.
    pub fn holder(&self, shard: ShardId) -> Option<WorkerId> {
        // Relaxed: a hint; nothing is read through it. [HO2]
        holder_in(self.holders[shard.index()].load(Ordering::Relaxed))
    }

    /// Wakes all workers that sleep, but `but`.
    pub(super) fn wake_all(&self, but: Option<WorkerId>) {
        // SeqCst: pairs with the fence in park; orders the stop, request, promise
        // or epoch written before it ahead of the loads of the seats. [SO5]
        fence(Ordering::SeqCst);
        for at in 0..self.seats.len() {
            let worker = WorkerId::from_index(at);
            if Some(worker) != but {
                self.rouse(worker);
            }
        }
    }

    /// Wakes `worker` if it sleeps. Certain only if a SeqCst fence is between the write that it
    /// should see and this.
    #[inline]
    pub(super) fn rouse(&self, worker: WorkerId) {
        let seat = &self.seats[worker.index()];
        // Relaxed: ordered by the caller's fence, or a guess. [SO6]
        if seat.sleeping.load(Ordering::Relaxed) != 0 {
            seat.rouse_slow();
        }
    }
}

impl Seat {
    /// Ends the sleep of its worker, unless another waker does.
    #[cold]
    fn rouse_slow(&self) {
        // Release: pairs with the Acquire in park; what the waker wrote is seen after the
        // sleep. One of several wakers gets the 1 and makes the system call. [SO18]
        if self.sleeping.swap(0, Ordering::Release) != 0
            && let Err(payload) = contain(|| self.park.unpark())
        {
            // The waker may have a message in hand, and is not to blame.
            discard(payload);
        }
    }
}
