//! The read transactions that are open on one reactor, in the order in which they were opened.
//!
//! ```text
//!   oldest ◄──► ... ◄──► unreported ◄──► ... ◄──► newest      links are places in one table
//!   └─ its epoch is the least     └─ the first of those that were not open for too long yet
//! ```
//!
//! Opening and closing are a few plain stores. A transaction learns its task and its time when a
//! poll ends that has left it open.

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

/// What is told of a transaction.
pub(crate) struct Overdue {
    pub(crate) origin: Option<Origin>,
    pub(crate) line: &'static Location<'static>,
    pub(crate) open: Duration,
}

impl Transactions {
    pub(crate) fn new() -> Self {
        Self {
            records: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            unreported: NONE,
        }
    }

    /// Opens a transaction at `epoch`, which is not below those of the others.
    #[inline]
    pub(crate) fn open(&mut self, epoch: u64, line: &'static Location<'static>) -> u32 {
        let record = Record {
            epoch,
            line,
            origin: None,
            since: None,
            older: self.newest,
            newer: NONE,
        };
        let at = self.free;
        let at = match self.records.get_mut(at as usize) {
            Some(place) => {
                self.free = place.newer;
                *place = record;
                at
            }
            None => self.grow(record),
        };
        match self.records.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        if self.unreported == NONE {
            self.unreported = at;
        }
        at
    }

    #[cold]
    fn grow(&mut self, record: Record) -> u32 {
        let at = self.records.len() as u32;
        assert!(at < NONE, "transactions: more than 2^32 are open");
        self.records.push(record);
        at
    }

    #[inline]
    pub(crate) fn close(&mut self, at: u32) {
        let record = &mut self.records[at as usize];
        let (older, newer) = (record.older, record.newer);
        if record.since.is_some() {
            record.since = None;
            record.origin = None;
        }
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
        if self.newest == NONE && self.records.len() > SMALL {
            self.records = Vec::new();
            self.free = NONE;
        }
    }

    /// The epoch of the oldest one.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.records
            .get(self.oldest as usize)
            .map(|oldest| oldest.epoch)
    }

    /// Notes the task of those that its poll has left open.
    #[inline]
    pub(crate) fn left_open(&mut self, origin: &Origin, now: impl FnOnce() -> Instant) {
        if let Some(newest) = self.records.get(self.newest as usize)
            && newest.since.is_none()
        {
            self.left_open_slow(Some(origin), now());
        }
    }

    #[cold]
    fn left_open_slow(&mut self, origin: Option<&Origin>, now: Instant) {
        let mut at = self.newest;
        while let Some(record) = self.records.get_mut(at as usize)
            && record.since.is_none()
        {
            record.since = Some(now);
            record.origin = origin.cloned();
            at = record.older;
        }
    }

    /// Returns `true` if one has not been reported.
    pub(crate) fn has_unreported(&self) -> bool {
        self.unreported != NONE
    }

    /// The first one that has not been reported, and for how long it is open.
    fn unreported(&self, now: Instant) -> Option<(&Record, Duration)> {
        let record = self.records.get(self.unreported as usize)?;
        let since = record.since.unwrap_or(now);
        let open = Duration::from_nanos(now.saturating_since(since).as_nanos());
        Some((record, open))
    }

    /// Returns how long until one is to be reported, zero if one is now; `None` if there is none to
    /// report.
    pub(crate) fn until_overdue(&self, now: Instant, limit: Duration) -> Option<Duration> {
        let (_, open) = self.unreported(now)?;
        // A nanosecond more, since a transaction of just the limit is none.
        let left = limit.checked_sub(open);
        Some(left.map_or(Duration::ZERO, |left| {
            left.saturating_add(Duration::from_nanos(1))
        }))
    }

    /// The next one that is open for longer than `limit`.
    pub(crate) fn overdue(&mut self, now: Instant, limit: Duration) -> Option<Overdue> {
        // Those that no task left open: a destructor has.
        self.left_open_slow(None, now);
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
