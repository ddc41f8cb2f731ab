//! The shards' states and figures, and who may touch them.
//!
//! | cell | touched by | while |
//! | --- | --- | --- |
//! | state, fate | the holder of the shard | it holds it |
//! | measure | the holder | it has not promised in the epoch |
//! | measure | the leader, reading | all have promised |
//!
//! The holder words order the first two, the epoch word the third.

use std::boxed::Box;
use std::vec::Vec;

use crate::controller::Controller;
use crate::ids::ShardId;
use crate::meter::Spent;
use crate::panics::PanicRecord;
use crate::primitive::CachePadded;
use crate::primitive::cell::UnsafeCell;
use crate::ready::Alarm;
use crate::timers::{Instant, Nanos};

/// A shard's state.
#[derive(Debug)]
pub(crate) struct Slot<S> {
    pub(crate) state: S,
    /// Set once the shard is retired.
    pub(crate) retired: Option<PanicRecord>,
    /// Its deadline at the worker that holds it.
    pub(crate) alarm: Alarm,
    /// It was acquired and has had no turn since.
    pub(crate) is_fresh: bool,
    /// When it became ready, if it is ready or in its turn.
    pub(crate) ready_since: Option<Instant>,
    /// Turns in a row that ended by a panic.
    pub(crate) panics_in_row: u32,
}

/// A shard's figures in the current window.
#[derive(Debug)]
pub(crate) struct Measure<L> {
    pub(crate) load: L,
    since: Instant,
    until: Instant,
    /// The time in which the shard was ready or in a turn.
    ready: Nanos,
    spent: Spent,
    /// The shard was retired in an earlier window: its code is not asked to
    /// report.
    pub(crate) is_muted: bool,
}

impl<L> Measure<L> {
    /// Opens a window.
    pub(crate) fn open(&mut self, now: Instant) {
        self.since = now;
        self.until = now;
        self.ready = Nanos::ZERO;
    }

    /// Adds a time in which the shard was ready or in a turn.
    #[inline]
    pub(crate) fn add_ready(&mut self, since: Instant, until: Instant) {
        self.ready = self.ready.saturating_add(until.saturating_since(since));
    }

    /// Closes the window, which its worker spent so.
    pub(crate) fn close(&mut self, now: Instant, spent: Spent) {
        self.until = now;
        self.spent = spent;
    }

    /// Returns the time in which the shard was ready or in a turn, and how the worker spent the
    /// window.
    pub(crate) fn asked(&self) -> (Nanos, Spent) {
        (self.ready, self.spent)
    }

    /// Says that there is nothing to report from now on.
    pub(crate) fn mute(&mut self) {
        self.is_muted = true;
    }

    /// Returns how long the window was.
    pub(crate) fn window(&self) -> Nanos {
        self.until.saturating_since(self.since)
    }
}

/// All shards of a sharder.
#[derive(Debug)]
pub(crate) struct Slots<S, L> {
    cells: Box<[CachePadded<Cells<S, L>>]>,
}

#[derive(Debug)]
struct Cells<S, L> {
    slot: UnsafeCell<Slot<S>>,
    measure: UnsafeCell<Measure<L>>,
}

// SAFETY: the cells are reached only through the unsafe functions below, whose
// obligations make each access exclusive; so a shared `Slots` moves states and
// loads from thread to thread, which `Send` allows, and never shares them.
unsafe impl<S: Send, L: Send> Sync for Slots<S, L> {}

impl<S: Send, L: Send> Slots<S, L> {
    pub(crate) fn new<C>(controller: &C, states: Vec<S>) -> Self
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
                    since: Instant::ORIGIN,
                    until: Instant::ORIGIN,
                    ready: Nanos::ZERO,
                    spent: Spent {
                        ran: None,
                        fullness: 0.0,
                    },
                    is_muted: false,
                }),
            })
        });
        Self {
            cells: cells.collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Reaches the state of a shard.
    ///
    /// # Safety
    ///
    /// 1. The caller's worker holds the shard, and
    /// 2. makes no other borrow of its slot while the result lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the obligations make it exclusive")]
    pub(crate) unsafe fn slot(&self, shard: ShardId) -> &mut Slot<S> {
        self.cells[shard.index()].slot.with_mut(|slot| {
            // SAFETY: obligation 1 excludes other threads and orders their
            // earlier accesses before this one, 2 excludes this one's others.
            unsafe { &mut *slot }
        })
    }

    /// Reaches the figures of a shard.
    ///
    /// # Safety
    ///
    /// 1. The caller's worker holds the shard and has not promised in its
    ///    epoch, or it leads; and
    /// 2. it makes no other borrow of its measure while the result lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the obligations make it exclusive")]
    pub(crate) unsafe fn measure(&self, shard: ShardId) -> &mut Measure<L> {
        self.cells[shard.index()].measure.with_mut(|measure| {
            // SAFETY: by obligation 1 either the promise of this worker is still
            // to come, and with it any leader's access, or all have promised
            // and only the leader has access; 2 excludes this one's others.
            unsafe { &mut *measure }
        })
    }

    /// Takes everything apart after the run: the slots by number, each with
    /// its figures, whose destructors are the caller's to contain.
    pub(crate) fn into_parts(self) -> impl Iterator<Item = (Slot<S>, Measure<L>)> {
        self.cells.into_vec().into_iter().map(|cells| {
            let Cells { slot, measure } = cells.into_inner();
            (slot.into_inner(), measure.into_inner())
        })
    }
}
