//! The read transactions that are open on one reactor, in the order in which they were opened.
//!
//! ```text
//!   oldest ◄──► ... ◄──► unreported ◄──► ... ◄──► newest      links are places in one table
//!   └─ its epoch is the least     └─ the oldest that was not reported as too long
//! ```
//!
//! Most transactions are closed before the next one is opened, and before the poll that opened them
//! ends. To make such transactions cheap, the newest one, `fresh`, is not in the list. Its epoch
//! and its source line are in cells, and its place in the table, `spare`, is reserved. So opening
//! and closing it are a few plain stores. The newest transaction enters the list when another one
//! is opened, or when the list is searched. If a transaction is still open when the poll ends, its
//! task and the time are recorded.

use core::cell::{Cell, RefCell};
use core::panic::Location;
use core::time::Duration;
use std_alloc::vec::Vec;

use rast_executor::timers::Instant;

use crate::origin::Origin;

const NONE: u32 = u32::MAX;

/// Records that are kept when no transaction is open.
const SMALL: usize = 64;

struct Record {
    epoch: u64,
    line: &'static Location<'static>,
    /// The task that left it open, if one did.
    origin: Option<Origin>,
    /// When it was first left open.
    since: Option<Instant>,
    older: u32,
    /// Of a free place, the next free one.
    newer: u32,
}

pub(crate) struct Transactions {
    /// The line of the newest transaction, if it is open and not linked.
    fresh: Cell<Option<&'static Location<'static>>>,
    /// The epoch of that transaction.
    epoch: Cell<u64>,
    /// The place of that transaction, and of the next one that is opened; neither linked nor free.
    spare: Cell<u32>,
    /// A transaction was linked since the end of the last poll, so its task is not recorded yet.
    is_unnoted: Cell<bool>,
    linked: RefCell<Linked>,
}

/// The transactions in their order, except `fresh`.
struct Linked {
    records: Vec<Record>,
    free: u32,
    oldest: u32,
    newest: u32,
    unreported: u32,
}

/// A read transaction that has been open for too long: what it reads cannot be freed.
#[derive(Debug)]
#[non_exhaustive]
pub struct LongRead<'a> {
    /// The reactor.
    pub reactor: usize,
    /// The name of the task that left it open, if it has one.
    pub name: Option<&'a str>,
    /// The line that spawned that task; `None` if no task left it open.
    pub task: Option<&'static Location<'static>>,
    /// The line that opened the transaction.
    pub line: &'static Location<'static>,
    /// For how long it has been open, from the end of the first poll that left it open.
    pub open: Duration,
}

/// What is reported of a transaction.
pub(crate) struct Overdue {
    pub(crate) origin: Option<Origin>,
    pub(crate) line: &'static Location<'static>,
    pub(crate) open: Duration,
}

impl Transactions {
    pub(crate) const fn new() -> Self {
        Self {
            fresh: Cell::new(None),
            epoch: Cell::new(0),
            spare: Cell::new(NONE),
            is_unnoted: Cell::new(false),
            linked: RefCell::new(Linked::new()),
        }
    }

    /// Opens a transaction at `epoch`, which is not below those of the others; returns its place.
    #[inline]
    pub(crate) fn open(&self, epoch: u64, line: &'static Location<'static>) -> u32 {
        if self.fresh.get().is_some() || self.spare.get() == NONE {
            self.open_slow();
        }
        self.fresh.set(Some(line));
        self.epoch.set(epoch);
        self.spare.get()
    }

    /// Links the transaction that is fresh, and reserves a place.
    #[cold]
    fn open_slow(&self) {
        let mut linked = self.linked.borrow_mut();
        if let Some(line) = self.fresh.take() {
            let place = self.spare.replace(NONE);
            linked.link(place, self.epoch.get(), line);
            self.is_unnoted.set(true);
        }
        if self.spare.get() == NONE {
            self.spare.set(linked.reserve());
        }
    }

    /// Closes the transaction of that place.
    #[inline]
    pub(crate) fn close(&self, place: u32) {
        if place == self.spare.get() {
            self.fresh.set(None);
        } else {
            self.close_slow(place);
        }
    }

    #[cold]
    fn close_slow(&self, place: u32) {
        let is_large = {
            let mut linked = self.linked.borrow_mut();
            linked.close(place);
            linked.newest == NONE && linked.records.len() > SMALL
        };
        if is_large && self.fresh.get().is_some() {
            // Linked, so that its end frees the records.
            self.open_slow();
        } else if is_large {
            self.linked.replace(Linked::new());
            self.spare.set(NONE);
        }
    }

    /// The epoch of the oldest one.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u64> {
        let fresh = self.fresh.get().map(|_| self.epoch.get());
        self.linked.borrow().oldest().or(fresh)
    }

    /// Records the task of the transactions that its poll has left open.
    #[inline]
    pub(crate) fn left_open(&self, origin: &Origin, now: impl FnOnce() -> Instant) {
        if self.fresh.get().is_some() || self.is_unnoted.get() {
            self.left_open_slow(origin, now());
        }
    }

    #[cold]
    fn left_open_slow(&self, origin: &Origin, now: Instant) {
        self.with_all(|all| all.left_open(Some(origin), now));
        self.is_unnoted.set(false);
    }

    /// Returns `true` if one has not been reported.
    pub(crate) fn has_unreported(&self) -> bool {
        self.fresh.get().is_some() || self.linked.borrow().unreported != NONE
    }

    /// Returns the time until the next transaction is to be reported as too long: zero if one is
    /// now, `None` if there is none to report.
    pub(crate) fn until_overdue(&self, now: Instant, limit: Duration) -> Option<Duration> {
        self.with_all(|all| all.until_overdue(now, limit))
    }

    /// The next one that is open for longer than `limit`.
    pub(crate) fn overdue(&self, now: Instant, limit: Duration) -> Option<Overdue> {
        self.with_all(|all| all.overdue(now, limit))
    }

    /// Links the transaction that is fresh, and calls `f` with all.
    fn with_all<R>(&self, f: impl FnOnce(&mut Linked) -> R) -> R {
        if self.fresh.get().is_some() {
            self.open_slow();
        }
        f(&mut self.linked.borrow_mut())
    }
}

impl Linked {
    const fn new() -> Self {
        Self {
            records: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            unreported: NONE,
        }
    }

    /// Returns a place for a record.
    fn reserve(&mut self) -> u32 {
        let place = self.free;
        if let Some(record) = self.records.get(place as usize) {
            self.free = record.newer;
            return place;
        }
        let place = self.records.len() as u32;
        assert!(place < NONE, "transactions: more than 2^32 are open");
        self.records.push(Record {
            epoch: 0,
            line: Location::caller(),
            origin: None,
            since: None,
            older: NONE,
            newer: NONE,
        });
        place
    }

    /// Adds the newest transaction, in a place that was reserved.
    fn link(&mut self, at: u32, epoch: u64, line: &'static Location<'static>) {
        let record = &mut self.records[at as usize];
        record.epoch = epoch;
        record.line = line;
        record.older = self.newest;
        record.newer = NONE;
        match self.records.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        if self.unreported == NONE {
            self.unreported = at;
        }
    }

    fn close(&mut self, at: u32) {
        let record = &mut self.records[at as usize];
        let (older, newer) = (record.older, record.newer);
        record.since = None;
        record.origin = None;
        record.newer = self.free;
        self.free = at;
        match self.records.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.records.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        if self.unreported == at {
            self.unreported = newer;
        }
    }

    fn oldest(&self) -> Option<u64> {
        let oldest = self.records.get(self.oldest as usize);
        oldest.map(|oldest| oldest.epoch)
    }

    /// Records the task and the time of the transactions without one.
    fn left_open(&mut self, origin: Option<&Origin>, now: Instant) {
        let mut at = self.newest;
        while let Some(record) = self.records.get_mut(at as usize)
            && record.since.is_none()
        {
            record.since = Some(now);
            record.origin = origin.cloned();
            at = record.older;
        }
    }

    /// The first one that has not been reported, and for how long it is open.
    fn unreported(&self, now: Instant) -> Option<(&Record, Duration)> {
        let record = self.records.get(self.unreported as usize)?;
        let since = record.since.unwrap_or(now);
        Some((record, now.saturating_since(since).into()))
    }

    fn until_overdue(&self, now: Instant, limit: Duration) -> Option<Duration> {
        let (_, open) = self.unreported(now)?;
        // A nanosecond more, because only a transaction beyond the limit is overdue.
        let left = limit.checked_sub(open);
        Some(left.map_or(Duration::ZERO, |left| {
            left.saturating_add(Duration::from_nanos(1))
        }))
    }

    fn overdue(&mut self, now: Instant, limit: Duration) -> Option<Overdue> {
        // Records that no task left these transactions open: a destructor opened them.
        self.left_open(None, now);
        let (record, open) = self.unreported(now)?;
        if open <= limit {
            return None;
        }
        let overdue = Overdue {
            origin: record.origin.clone(),
            line: record.line,
            open,
        };
        self.unreported = record.newer;
        Some(overdue)
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin {
            name: None,
            line: Location::caller(),
        }
    }

    #[test]
    fn one_that_is_left_open_has_the_task_of_its_poll_whatever_was_closed_since() {
        let all = Transactions::new();
        let (one, other) = (origin(), origin());
        let left = all.open(1, Location::caller());
        let closed = all.open(1, Location::caller());
        all.close(closed);
        all.left_open(&one, || Instant::from_nanos(10));
        let second = all.open(2, Location::caller());
        all.left_open(&other, || Instant::from_nanos(20));
        // The end of a further poll changes neither.
        all.left_open(&one, || unreachable!("all are noted"));
        let now = Instant::from_nanos(100);
        for (open, line) in [(90, one.line), (80, other.line)] {
            let overdue = all.overdue(now, Duration::from_nanos(50)).unwrap();
            assert_eq!(overdue.open, Duration::from_nanos(open));
            assert!(core::ptr::eq(overdue.origin.unwrap().line, line));
        }
        assert!(all.overdue(now, Duration::ZERO).is_none());
        assert_eq!(all.oldest(), Some(1));
        all.close(left);
        assert_eq!(all.oldest(), Some(2));
        all.close(second);
        assert!(all.oldest().is_none() && !all.has_unreported());
    }

    #[test]
    fn records_are_freed_whichever_is_closed_last() {
        for closes_newest_last in [true, false] {
            let all = Transactions::new();
            let mut open: Vec<_> = (0..2 * SMALL as u64)
                .map(|epoch| all.open(epoch, Location::caller()))
                .collect();
            if !closes_newest_last {
                open.reverse();
            }
            assert_eq!(all.oldest(), Some(0));
            for place in open {
                all.close(place);
            }
            assert_eq!(all.oldest(), None);
            assert_eq!(all.linked.borrow().records.capacity(), 0);
            let again = all.open(5, Location::caller());
            assert_eq!(all.oldest(), Some(5));
            all.close(again);
        }
    }
}
