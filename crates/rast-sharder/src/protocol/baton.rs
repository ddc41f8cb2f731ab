//! The shared half of the protocol: word, pages, holders, seats.
//!
//! Everything in here may be called from any thread; what needs the role of a
//! worker is in `member.rs`.

use std::boxed::Box;
use std::vec::Vec;

use super::member::Member;
use super::word::{FREE, Word, holder_in};
use crate::assignment::Assignment;
use crate::ids::{ShardId, WorkerId};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use crate::primitive::{CachePadded, Parker, Unparker};

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
#[derive(Debug)]
pub(super) struct Seat {
    /// 1 while its worker is about to park or is parked.
    pub(super) parked: AtomicU32,
    unparker: Unparker,
}

/// The shared words of one sharder.
#[derive(Debug)]
pub struct Baton {
    pub(super) word: CachePadded<AtomicU64>,
    pub(super) stop: CachePadded<AtomicU32>,
    pub(super) requests: CachePadded<AtomicU32>,
    pub(super) pages: [UnsafeCell<Page>; 2],
    pub(super) holders: Box<[CachePadded<AtomicU32>]>,
    pub(super) seats: Box<[CachePadded<Seat>]>,
}

// SAFETY: the cells in it are the pages. A page is written by the leader alone,
// while nobody reads it (rule 4: all have promised in the epoch of the other
// page, so all have left the page's own), and read by members of its epoch
// alone, after the Acquire load that showed them the epoch. All other fields
// are Sync by themselves.
unsafe impl Sync for Baton {}

impl Baton {
    /// Makes the shared words for `first`, and the role of each worker.
    ///
    /// All shards are free at first; each worker takes its own in its first
    /// turn.
    pub fn new(first: Assignment) -> (Arc<Self>, Vec<Member>) {
        let workers = first.workers();
        let shards = first.shards();
        let parkers: Vec<Parker> = (0..workers).map(|_| Parker::new()).collect();
        let seats = parkers
            .iter()
            .map(|parker| {
                CachePadded::new(Seat {
                    parked: AtomicU32::new(0),
                    unparker: parker.unparker(),
                })
            })
            .collect();
        let members = u16::try_from(workers).expect("an assignment has at most MAX_WORKERS");
        let baton = Arc::new(Self {
            word: CachePadded::new(AtomicU64::new(Word::new(0, members, 0).bits())),
            stop: CachePadded::new(AtomicU32::new(0)),
            requests: CachePadded::new(AtomicU32::new(0)),
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
        });
        let members = parkers
            .into_iter()
            .enumerate()
            .map(|(at, parker)| {
                Member::new(baton.clone(), WorkerId::from_index(at), parker, &first)
            })
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

    /// Wakes the holder of `shard`, if it sleeps, after something was written
    /// for the shard.
    #[inline]
    pub fn notify(&self, shard: ShardId) {
        self.notify_each(core::iter::once(shard));
    }

    /// Wakes the holders of several shards at the price of one fence.
    ///
    /// Either this fence comes before the one in a later `park` of whoever holds
    /// the shard by then, and the scan behind that one sees what was written; or
    /// that holder's fence comes first, and then the load below sees that holder
    /// (or a later one, or none) and its parked seat. A shard that nobody holds
    /// needs no wake-up: who takes it makes a turn of it before parking.
    #[inline]
    pub fn notify_each(&self, shards: impl IntoIterator<Item = ShardId>) {
        // SeqCst: pairs with the fence in park; orders what was written for the
        // shards before the loads of holders and seats below. [SO4]
        fence(Ordering::SeqCst);
        for shard in shards {
            // Relaxed: the fence above orders it; the id is used to choose a seat
            // and nothing is read through it. [HO1]
            let holder = self.holders[shard.index()].load(Ordering::Relaxed);
            if let Some(worker) = holder_in(holder) {
                self.wake(worker);
            }
        }
    }

    /// Wakes all workers that sleep.
    pub fn notify_all(&self) {
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
                self.wake(worker);
            }
        }
    }

    /// Wakes `worker` if it sleeps. A SeqCst fence must stand between the write
    /// that it should see and this.
    #[inline]
    pub(super) fn wake(&self, worker: WorkerId) {
        let seat = &self.seats[worker.index()];
        // Relaxed: ordered by the fence that the caller has made. [SO6]
        if seat.parked.load(Ordering::Relaxed) != 0 {
            seat.unparker.unpark();
        }
    }
}
