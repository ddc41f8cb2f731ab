//! Counters that any thread may read while the sharder runs.
//!
//! Each worker's counters are on a line of their own and are written by that worker alone, with
//! plain loads and stores. The sharder's own counters are written by leaders. A reading is no
//! snapshot: it loads the counters one after the other.

use std::string::String;
use std::vec::Vec;

use crate::assignment::Assignment;
use crate::panics::PanicRecord;
use crate::primitive::Counter;
use crate::primitive::sync::atomic::AtomicU64;
use crate::timers::Nanos;

/// Counts of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Turns that it gave to shards.
    pub turns: u64,
    /// Rounds of its loop: of at most 16 turns, or a check for work that found none.
    pub rounds: u64,
    /// How often it slept.
    pub parks: u64,
    /// Shards held now.
    pub shards: u64,
}

/// Counts of the sharder's actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Epochs published.
    pub epochs: u64,
    /// Decisions begun.
    pub decisions: u64,
    /// Shards moved in all.
    pub moves: u64,
    /// Shards moved by the latest epoch.
    pub last_moves: u64,
    /// Shards used in the windows of the latest decision. The cost of an epoch grows with their
    /// number.
    pub last_used: u64,
    /// Decisions refused, because the balancer panicked, returned an invalid one, or did not
    /// finish.
    pub rejected: u64,
    /// Panics contained.
    pub panics: u64,
    /// Time spent in slices of decisions, measured by a
    /// [`StartFinishTimer`](crate::timers::StartFinishTimer).
    pub deciding: Nanos,
    /// Each worker, by number.
    pub workers: Vec<WorkerStats>,
}

/// The result of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The counters at the end.
    pub stats: Stats,
    /// The panics contained, the first 256 of them.
    pub panics: Vec<PanicRecord>,
    /// Why decisions were refused, the first 256 of them.
    pub rejections: Vec<String>,
    /// The assignment at the end.
    pub assignment: Assignment,
}

/// The sharder's counters.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) epochs: Counter,
    pub(crate) decisions: Counter,
    pub(crate) moves: Counter,
    pub(crate) last_moves: Counter,
    pub(crate) last_used: Counter,
    /// Written by every worker, as the next one.
    pub(crate) rejected: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) deciding: Counter,
}

/// One worker's counters.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) turns: Counter,
    pub(crate) rounds: Counter,
    pub(crate) parks: Counter,
    pub(crate) shards: Counter,
}

impl Tally {
    pub(crate) fn read(&self) -> WorkerStats {
        WorkerStats {
            turns: self.turns.get(),
            rounds: self.rounds.get(),
            parks: self.parks.get(),
            shards: self.shards.get(),
        }
    }
}
