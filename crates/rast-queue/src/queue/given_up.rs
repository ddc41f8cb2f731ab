//! Tickets that a consumer gives up because their producer seems to have been stopped between claim and store.
//!
//! A producer publishes by a plain store and must then learn whether its consumer has gone meanwhile. It cannot learn that
//! from the slot: if the value was taken, the segment may be memory of something else by now. So it learns it from here:
//! a count in the queue, which is zero but for rare moments, and if it is not, a table of the tickets that are given up.
//!
//! ```text
//!   producer of a ticket                          consumer of that ticket
//!     store WRITTEN                                 cell: 0 ─► ticket, UNDECIDED;  count + 1
//!     light fence                                   heavy fence
//!     count, then the ticket's cell                 WRITTEN?
//!
//!   cell of the ticket       its consumer                                  its producer
//!     UNDECIDED ─► 0         found WRITTEN: takes the value
//!     UNDECIDED ─► LEFT      did not: goes away
//!     UNDECIDED ─► BACK                                                    keeps its value, and claims again
//!     LEFT ─► 0                                                            the same, and the slot is DONE
//!     BACK ─► 0              goes away, and the slot is DONE
//! ```
//!
//! The fences are those of [`asymmetric`]: either the consumer sees WRITTEN, or the producer sees count and cell. So a
//! value that stands is not overlooked by both. If both see the other, the cell's one exchange away from UNDECIDED
//! decides. While a cell names a ticket, its slot is not DONE, so its segment is live in that use, and who finds its own
//! ticket here may touch the slot; because the number of a use is never used again, a producer of an earlier use finds
//! nothing.
//!
//! A ticket that no producer has claimed (a consumer may get one by a stale bound, or after a lost exchange) is not given
//! up: its consumer claims it on `tail` as well, and ends it. Only if other consumers are about to do that for tickets
//! before it, it comes here, too; and if there is no cell for it, it waits for them.
//!
//! The table is one for the process, of [`CELLS`] cells: as many producers may be stopped in that place at once. If there is
//! no cell, or the system forbids the barrier that it had allowed, a consumer goes on waiting for its producer.

use crate::primitive::asymmetric;
use crate::primitive::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::pause::IS_MODEL;
use super::word::MOST_SLOTS;

/// Cells of the table.
const CELLS: usize = match (IS_MODEL, cfg!(feature = "std")) {
    (true, _) => 2,
    (false, true) => 4096,
    (false, false) => 256,
};
/// Cells of a home, which are on one line.
const HOME: usize = if IS_MODEL { 2 } else { 8 };

/// The consumer has not decided yet.
const UNDECIDED: u64 = 0;
/// The consumer has gone.
const LEFT: u64 = 1;
/// The producer has its value back.
const BACK: u64 = 2;
const DECISION: u64 = 3;

/// A ticket of one use of a segment; its low bits are clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id(u64);

impl Id {
    /// Names the ticket `ticket` of use `number`.
    #[inline]
    pub fn new(number: u64, ticket: usize) -> Self {
        debug_assert!(number != 0 && ticket < MOST_SLOTS, "a ticket of a use");
        Self((number * MOST_SLOTS as u64 + ticket as u64) << 2)
    }

    /// The cells in the order in which the ticket's own is looked for.
    fn home(self) -> usize {
        let spread = (self.0 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        spread as usize % (CELLS / HOME) * HOME
    }
}

/// What became of giving a ticket up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The value stands and is the consumer's.
    Taken,
    /// The producer will find that the ticket was given up; the slot is its own to end.
    Left,
    /// The producer has found it already; the slot is the consumer's to end.
    Back,
    /// It could not be given up: nothing has changed.
    Impossible,
}

/// Where tickets that are given up stand.
#[repr(align(64))]
struct Table {
    cells: [AtomicU64; CELLS],
    /// How many homes past its own a ticket may stand; only grows.
    reach: AtomicUsize,
    /// The number of the last use of a segment.
    number: AtomicU64,
}

/// A model has a table for each queue: its values end with each execution.
#[cfg(not(any(rast_loom, rast_shuttle)))]
static TABLE: Table = Table::new();

impl Table {
    #[cfg(not(rast_loom))]
    const fn new() -> Self {
        Self {
            cells: [const { AtomicU64::new(0) }; CELLS],
            reach: AtomicUsize::new(0),
            number: AtomicU64::new(0),
        }
    }

    #[cfg(rast_loom)]
    fn new() -> Self {
        Self {
            cells: core::array::from_fn(|_| AtomicU64::new(0)),
            reach: AtomicUsize::new(0),
            number: AtomicU64::new(0),
        }
    }

    /// The cells of the homes from that of `id` on, `reach` homes further.
    fn cells_of(&self, id: Id, reach: usize) -> impl Iterator<Item = &AtomicU64> {
        let home = id.home();
        (0..(reach + 1) * HOME).map(move |at| &self.cells[(home + at) % CELLS])
    }

    /// Enters a ticket as UNDECIDED.
    fn enter(&self, id: Id) -> Option<&AtomicU64> {
        for (at, cell) in self.cells_of(id, CELLS / HOME - 1).enumerate() {
            // Relaxed: a guess, so that cells in use are passed over without a write. [QG1]
            if cell.load(Ordering::Relaxed) != 0 {
                continue;
            }
            if at >= HOME {
                // Relaxed: ordered before the producer's load by the pair of fences, as the cell is. [QG2]
                self.reach.fetch_max(at / HOME, Ordering::Relaxed);
            }
            // Relaxed: ordered by the pair of fences. [QG3]
            let entered =
                cell.compare_exchange(0, id.0 | UNDECIDED, Ordering::Relaxed, Ordering::Relaxed);
            if entered.is_ok() {
                return Some(cell);
            }
        }
        None
    }
}

/// What a queue knows of its tickets that are given up.
pub struct GivenUp {
    /// Cells of the table that name tickets of this queue.
    count: AtomicUsize,
    #[cfg(any(rast_loom, rast_shuttle))]
    table: Table,
}

impl GivenUp {
    /// Knows nothing yet.
    #[cfg(not(rast_loom))]
    pub const fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            #[cfg(rast_shuttle)]
            table: Table::new(),
        }
    }

    /// Knows nothing yet.
    #[cfg(rast_loom)]
    pub fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            table: Table::new(),
        }
    }

    #[cfg(not(any(rast_loom, rast_shuttle)))]
    #[expect(clippy::unused_self, reason = "a model has a table for each queue")]
    fn table(&self) -> &'static Table {
        &TABLE
    }

    #[cfg(any(rast_loom, rast_shuttle))]
    fn table(&self) -> &Table {
        &self.table
    }

    /// A number for a use of a segment, never given before.
    pub(super) fn next_number(&self) -> u64 {
        asymmetric::prepare();
        // Relaxed: only that no two are alike matters. [QG4]
        self.table().number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The consumer of a ticket gives it up; `is_written` looks whether the value stands.
    #[cold]
    pub fn give_up(&self, id: Id, is_written: impl Fn() -> bool) -> Verdict {
        let Some(cell) = self.table().enter(id) else {
            return Verdict::Impossible;
        };
        step!("give up: entered");
        // Relaxed: ordered by the pair of fences. [QG5]
        self.count.fetch_add(1, Ordering::Relaxed);
        step!("give up: counted");
        let is_fenced = asymmetric::heavy();
        step!("give up: fenced");
        let (to, verdict) = match (is_written(), is_fenced) {
            (true, _) => (0, Verdict::Taken),
            (false, true) => (id.0 | LEFT, Verdict::Left),
            (false, false) => (0, Verdict::Impossible),
        };
        step!("give up: looked");
        // AcqRel: the caller's look at the slot comes before what a producer does that finds LEFT; what a producer did
        // that left BACK comes before what the caller does. [QG6]
        let decided =
            cell.compare_exchange(id.0 | UNDECIDED, to, Ordering::AcqRel, Ordering::Acquire);
        step!("give up: decided");
        match decided {
            Ok(_) if to != 0 => verdict,
            Ok(_) => {
                self.forget();
                verdict
            }
            Err(found) => {
                debug_assert_eq!(found, id.0 | BACK, "only its producer changes it");
                // Relaxed: nobody looks for the ticket any more. [QG7]
                cell.store(0, Ordering::Relaxed);
                self.forget();
                Verdict::Back
            }
        }
    }

    fn forget(&self) {
        step!("give up: cell cleared");
        // Relaxed: a producer that needs the count needs its own part of it, which is still there. [QG8]
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the ticket that the caller has just filled was surely not given up; false asks for
    /// [`take_back`](Self::take_back).
    #[inline]
    pub fn is_quiet(&self) -> bool {
        asymmetric::light();
        // Relaxed: ordered after the store of WRITTEN by the light fence. [QG9]
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The producer of a ticket finds out whether it was given up, and takes its value back if so.
    #[cold]
    #[inline(never)]
    pub fn take_back(&self, id: Id) -> TakeBack {
        step!("take back: to be looked for");
        let table = self.table();
        // Relaxed: ordered by the pair of fences. [QG10]
        let reach = table.reach.load(Ordering::Relaxed);
        for cell in table.cells_of(id, reach) {
            // Relaxed: ordered by the pair of fences; what is done upon it is decided by the exchange. [QG11]
            let mut seen = cell.load(Ordering::Relaxed);
            while seen & !DECISION == id.0 {
                step!("take back: found");
                let (to, outcome) = if seen & DECISION == UNDECIDED {
                    (id.0 | BACK, TakeBack::Back)
                } else {
                    debug_assert_eq!(seen & DECISION, LEFT, "BACK is the caller's own");
                    (0, TakeBack::BackAndEnd)
                };
                // AcqRel: the caller's acts at the slot come before what a consumer does that finds BACK; what a
                // consumer did that left LEFT comes before what the caller does. [QG12]
                match cell.compare_exchange(seen, to, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => {
                        if to == 0 {
                            self.forget();
                        }
                        return outcome;
                    }
                    Err(now) => seen = now,
                }
            }
        }
        TakeBack::Taken
    }

    /// Clears the cells of one use of a segment, which is the caller's alone.
    pub(super) fn clear(&self, number: u64) {
        // Relaxed, here and below: nobody else knows the tickets. [QG13]
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for cell in &self.table().cells {
            // Relaxed: as above. [QG14]
            let id = cell.load(Ordering::Relaxed) >> 2;
            if id / MOST_SLOTS as u64 == number && id != 0 {
                // Relaxed: as above. [QG15]
                cell.store(0, Ordering::Relaxed);
                self.forget();
            }
        }
    }
}

impl Default for GivenUp {
    fn default() -> Self {
        Self::new()
    }
}

/// What a producer finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakeBack {
    /// The ticket was not given up: the value is its consumer's.
    Taken,
    /// The value is the producer's again; the consumer ends the slot.
    Back,
    /// The value is the producer's again, which ends the slot.
    BackAndEnd,
}

#[cfg(all(test, feature = "std", not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use crate::Queue;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;
    use std_alloc::vec::Vec;

    /// A consumer that was stopped in its look leaves a bound that may be of an earlier use of the segment.
    #[test]
    fn a_stale_bound_leaves_nothing_behind() {
        let queues: [Queue<u32>; 8] = core::array::from_fn(|_| Queue::new());
        for queue in &queues {
            queue.push_slice(&[1, 2, 3]).unwrap();
            for _ in 0..40 {
                let head = queue.head.load(Ordering::Relaxed);
                queue.set_bound(head, 1000);
                let mut taken = 0;
                queue.pop_batch(usize::MAX, |_| taken += 1);
                queue.set_bound(queue.head.load(Ordering::Relaxed), 1000);
                assert_eq!(queue.pop(), None);
                assert_eq!((queue.len(), queue.is_empty()), (0, true));
                queue.push_slice(&[4, 5]).unwrap();
                assert_eq!(queue.len(), 2);
            }
            assert_eq!(queue.given_up.count.load(Ordering::Relaxed), 0);
        }
    }

    /// Another thread leaves bounds of an earlier use of the segment all the time.
    #[test]
    fn items_come_once_and_in_order_whatever_the_bound_says() {
        const ITEMS: u64 = if cfg!(miri) { 100 } else { 20_000 };
        for slots in [2, 8, 64, 1024] {
            let queue = &Queue::with_segment_slots(slots);
            let popped = &AtomicUsize::new(0);
            let is_done = || popped.load(Ordering::Relaxed) == 2 * ITEMS as usize;
            let takes = thread::scope(|scope| {
                for id in 0..2 {
                    scope.spawn(move || {
                        for first in (0..ITEMS).step_by(4) {
                            let items = [1, 2, 3, 4].map(|n| id << 32 | (first + n));
                            if first % 8 == 0 {
                                queue.push_slice(&items).unwrap();
                            } else {
                                items.into_iter().for_each(|item| queue.push(item).unwrap());
                            }
                        }
                    });
                }
                scope.spawn(move || {
                    while !is_done() {
                        queue.set_bound(queue.head.load(Ordering::Relaxed), slots);
                        thread::yield_now();
                    }
                });
                let takers: [_; 2] = core::array::from_fn(|n| {
                    scope.spawn(move || {
                        let mut items = Vec::new();
                        while !is_done() {
                            let before = items.len();
                            if n == 0 {
                                queue.pop_batch(100, |item| items.push(item));
                            } else {
                                items.extend(queue.pop());
                            }
                            popped.fetch_add(items.len() - before, Ordering::Relaxed);
                        }
                        items
                    })
                });
                takers.map(|taker| taker.join().unwrap())
            });
            for items in &takes {
                let mut last = [0; 2];
                for &item in items {
                    let last = &mut last[(item >> 32) as usize];
                    assert!(*last < item, "{item:#x} after {last:#x}");
                    *last = item;
                }
            }
            let mut all: Vec<u64> = takes.concat();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 2 * ITEMS as usize);
            assert_eq!((queue.pop(), queue.len()), (None, 0));
        }
    }

    /// What comes back stands behind what the closure pushed, although the bound was stale, as it does otherwise.
    #[test]
    fn a_batch_comes_back_in_order_although_its_bound_was_stale() {
        for claimed in 3..=20 {
            let queue = Queue::new();
            queue.push_slice(&[1, 2, 3]).unwrap();
            assert_eq!(queue.pop(), Some(1));
            queue.set_bound(queue.head.load(Ordering::Relaxed), claimed);
            let stopped = catch_unwind(AssertUnwindSafe(|| {
                queue.pop_batch(usize::MAX, |item| {
                    assert_eq!(item, 2);
                    queue.push_slice(&[4, 5]).unwrap();
                    panic!("after the first");
                })
            }));
            assert!(stopped.is_err());
            let back: Vec<_> = queue.drain().collect();
            assert_eq!(back, [4, 5, 3], "{claimed} tickets");
        }
    }

    /// What a closure pushes is for others to pop, although the bound of its batch was stale.
    #[test]
    fn a_batch_keeps_no_later_item_from_others() {
        let queue = Queue::new();
        queue.push_slice(&[1, 2, 3]).unwrap();
        assert_eq!(queue.pop(), Some(1));
        queue.set_bound(queue.head.load(Ordering::Relaxed), 20);
        let mut seen = Vec::new();
        queue.pop_batch(2, |item| seen.push(item));
        queue.push_slice(&[4, 5]).unwrap();
        queue.set_bound(queue.head.load(Ordering::Relaxed), 20);
        let mut others = Vec::new();
        queue.pop_batch(usize::MAX, |item| {
            if item == 4 {
                queue.push(6).unwrap();
                others.extend(queue.pop());
            }
            seen.push(item);
        });
        assert_eq!((seen, others), ([2, 3, 4, 5].into(), [6].into()));
        assert_eq!(queue.given_up.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_ticket_without_a_cell_is_not_given_up() {
        let given_up = GivenUp::new();
        let number = given_up.next_number();
        // All tickets of one use that is larger than the table has cells left, one after the other.
        let mut left = 0;
        for ticket in 0..MOST_SLOTS {
            match given_up.give_up(Id::new(number, ticket), || false) {
                Verdict::Left => left += 1,
                verdict => {
                    assert_eq!(verdict, Verdict::Impossible);
                    break;
                }
            }
        }
        assert_eq!(given_up.count.load(Ordering::Relaxed), left);
        assert_eq!(given_up.take_back(Id::new(number, 0)), TakeBack::BackAndEnd);
        assert_eq!(given_up.take_back(Id::new(number, 0)), TakeBack::Taken);
        given_up.clear(number);
        assert!(given_up.is_quiet());
    }
}
