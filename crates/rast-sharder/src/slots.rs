//! Stores the states and load figures of the shards, and the windows (periods of measuring) of the
//! workers.
//!
//! A worker that is not dedicated *promises* once per epoch to change no figures until the next
//! epoch. The table says which thread may access which cell, and when:
//!
//! | cell | accessed by | while |
//! | --- | --- | --- |
//! | slot | the holder of the shard | it holds the shard |
//! | measure | the holder | it holds the shard and has not promised in the epoch |
//! | measure | the leader, reading | all workers that promise have promised in the epoch |
//! | window | its worker | it has not promised in the epoch |
//! | window | the leader, reading | all workers that promise have promised in the epoch |
//!
//! The slot has the state of a shard, and the measure has its figures. Each shard has a holder
//! word, which names the holder; it orders the accesses in rows 1 and 2. The epoch word, which all
//! workers share, orders the accesses in rows 3 to 5.

use std::boxed::Box;
use std::vec::Vec;

use crate::controller::Controller;
use crate::ids::{ShardId, WorkerId};
use crate::panics::PanicRecord;
use crate::primitive::CachePadded;
use crate::primitive::cell::UnsafeCell;
use crate::ready::Alarm;
use crate::timers::{Instant, Nanos};
use crate::windows::{Number, Window};

/// A shard's state. If the state is a box, a turn accesses only the first two cache lines.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot<S> {
    /// Since when it is ready or in its turn.
    pub(crate) ready_since: Option<Instant>,
    /// Set from an acquisition until the next turn.
    pub(crate) is_fresh: bool,
    /// Number of turns in a row that ended by a panic.
    pub(crate) panics_in_row: u32,
    /// Set once the shard is retired.
    pub(crate) retired: Option<PanicRecord>,
    /// Its deadline at the worker that holds it.
    pub(crate) alarm: Alarm,
    pub(crate) state: S,
}

/// A shard's figures in the last window that it was used in. Each turn reads the number and changes
/// the load, so these are first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Measure<L> {
    /// The window that the figures are of.
    pub(crate) number: Number,
    /// When the shard's part of the window began.
    pub(crate) since: Instant,
    /// Time in which the shard was ready or in a turn.
    pub(crate) ready: Nanos,
    /// Whether the load may be one of an earlier window: it was not emptied.
    pub(crate) is_stale: bool,
    pub(crate) load: L,
}

impl<L> Measure<L> {
    /// Enters a window, in which the shard takes part from `since` on.
    pub(crate) fn enter(&mut self, number: Number, since: Instant) {
        self.number = number;
        self.since = since;
        self.ready = Nanos::ZERO;
        self.is_stale = false;
    }

    /// Adds a time in which the shard was ready or in a turn. What is before the window does not
    /// count.
    #[inline]
    pub(crate) fn add_ready(&mut self, since: Instant, until: Instant) {
        let since = since.max(self.since);
        self.ready = self.ready.saturating_add(until.saturating_since(since));
    }
}

/// All shards of a sharder.
#[derive(Debug)]
pub(crate) struct Slots<S, L> {
    cells: Box<[CachePadded<Cells<S, L>>]>,
    /// By worker.
    windows: Box<[CachePadded<UnsafeCell<Window>>]>,
}

/// The slot and the measure of a shard.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Cells<S, L> {
    slot: UnsafeCell<Slot<S>>,
    measure: UnsafeCell<Measure<L>>,
}

impl<S, L> Cells<S, L> {
    /// Returns the slot.
    ///
    /// # Safety
    ///
    /// 1. The caller's worker holds the shard, and
    /// 2. it makes no other borrow of the slot while the result lives.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the obligations make it exclusive")]
    pub(crate) unsafe fn slot(&self) -> &mut Slot<S> {
        self.slot.with_mut(|slot| {
            // SAFETY: obligation 1 excludes other threads and orders their earlier accesses before
            // this one; 2 excludes other borrows of this thread.
            unsafe { &mut *slot }
        })
    }

    /// Returns the figures.
    ///
    /// # Safety
    ///
    /// 1. The caller's worker holds the shard and has not promised in its epoch, or it leads; and
    /// 2. it makes no other borrow of the measure while the result lives.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the obligations make it exclusive")]
    pub(crate) unsafe fn measure(&self) -> &mut Measure<L> {
        self.measure.with_mut(|measure| {
            // SAFETY: by obligation 1 either this worker has not promised, so that no leader
            // accesses the measure, or all have promised and only the leader does; 2 excludes other
            // borrows of this thread.
            unsafe { &mut *measure }
        })
    }
}

// SAFETY: the cells are accessed only through the unsafe functions below, whose obligations make
// each access exclusive. So a shared `Slots` only moves states and loads between threads, which
// `Send` allows, and never shares them.
unsafe impl<S: Send, L: Send> Sync for Slots<S, L> {}

impl<S: Send, L: Send> Slots<S, L> {
    pub(crate) fn new<C>(controller: &C, states: Vec<S>, workers: usize) -> Self
    where
        C: Controller<Shard = S, Load = L>,
    {
        let cells = states.into_iter().enumerate().map(|(at, state)| {
            CachePadded::new(Cells {
                slot: UnsafeCell::new(Slot {
                    state,
                    retired: None,
                    alarm: Alarm::default(),
                    is_fresh: true,
                    ready_since: None,
                    panics_in_row: 0,
                }),
                measure: UnsafeCell::new(Measure {
                    load: controller.new_load(ShardId::from_index(at)),
                    number: 0,
                    since: Instant::ORIGIN,
                    ready: Nanos::ZERO,
                    is_stale: false,
                }),
            })
        });
        let windows = (0..workers).map(|_| CachePadded::new(UnsafeCell::new(Window::new())));
        Self {
            cells: cells.collect(),
            windows: windows.collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns the cells of a shard, whose address is computed once for several accesses.
    #[inline]
    pub(crate) fn cells(&self, shard: ShardId) -> &Cells<S, L> {
        &self.cells[shard.index()]
    }

    /// Returns the slot of a shard.
    ///
    /// # Safety
    ///
    /// As [`Cells::slot`].
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the obligations make it exclusive")]
    pub(crate) unsafe fn slot(&self, shard: ShardId) -> &mut Slot<S> {
        // SAFETY: 1. and 2. as here.
        unsafe { self.cells(shard).slot() }
    }

    /// Returns the figures of a shard.
    ///
    /// # Safety
    ///
    /// As [`Cells::measure`].
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the obligations make it exclusive")]
    pub(crate) unsafe fn measure(&self, shard: ShardId) -> &mut Measure<L> {
        // SAFETY: 1. and 2. as here.
        unsafe { self.cells(shard).measure() }
    }

    /// Returns the window of a worker.
    ///
    /// # Safety
    ///
    /// 1. The caller is that worker and has not promised in its epoch, or it leads; and
    /// 2. it makes no other borrow of the window while the result lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the obligations make it exclusive")]
    pub(crate) unsafe fn window(&self, worker: WorkerId) -> &mut Window {
        self.windows[worker.index()].with_mut(|window| {
            // SAFETY: by obligation 1 either the worker has not promised, so that no leader
            // accesses the window, or all have promised and only the leader does; 2 excludes other
            // borrows of this thread.
            unsafe { &mut *window }
        })
    }

    /// Takes everything apart after the run: the slots by number, each with its figures. The caller
    /// must contain panics of their destructors.
    pub(crate) fn into_parts(self) -> impl Iterator<Item = (Slot<S>, Measure<L>)> {
        self.cells.into_vec().into_iter().map(|cells| {
            let Cells { slot, measure } = cells.into_inner();
            (slot.into_inner(), measure.into_inner())
        })
    }
}
