//! What the balancer sees: loads and traffic, as rates.
//!
//! A controller keeps figures of its own kind per shard (`Controller::Load`)
//! while it may; at the end of a window it reports them here.
//! The sharder knows the window in which each shard was really measured, from
//! the turn that acquired it to the turn in which its worker promised, and
//! divides by it: the source adds up durations of windows that differ from
//! thread to thread (fault H11 of `docs/algorithms/sharder.md`).

use std::vec::Vec;

use crate::ids::{ShardId, WorkerId};
use crate::meter::Spent;
use crate::timers::Nanos;

/// The messages that one shard took from another, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Traffic {
    /// The sender.
    pub from: ShardId,
    /// The receiver.
    pub to: ShardId,
    /// Messages per second of the receiver's window.
    pub per_second: f64,
}

/// The load of one shard in its window, as shares of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ShardLoad {
    /// The share of the window that it spent working. Time in which the system ran another
    /// thread in the worker's place does not count, where that is known.
    pub busy: f64,
    /// What the shard would take of a worker of its own: `busy`, and on a worker without
    /// time to spare the share of the window in which it was ready and waited as well. What
    /// balancers go by.
    pub demand: f64,
    /// How long the shard was measured.
    pub window: Nanos,
}

/// The frozen figures of one epoch, given to the balancer.
///
/// ```
/// use rast_sharder::{LoadView, ShardId, timers::Nanos};
///
/// let mut view = LoadView::new(2, 3);
/// view.set(ShardId(0), 0.5, Nanos::from_millis(10));
/// assert_eq!(view.busy(ShardId(0)), 0.5);
/// assert_eq!(view.busy(ShardId(1)), 0.0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoadView {
    workers: usize,
    loads: Vec<ShardLoad>,
    traffic: Vec<Traffic>,
    pins: Vec<(ShardId, WorkerId)>,
}

impl LoadView {
    /// Makes a view of `shards` shards without load on `workers` workers.
    #[must_use]
    pub fn new(workers: usize, shards: usize) -> Self {
        Self {
            workers,
            loads: std::vec![ShardLoad::default(); shards],
            traffic: Vec::new(),
            pins: Vec::new(),
        }
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.loads.len()
    }

    /// Returns the share of its window that `shard` spent working.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    #[must_use]
    pub fn busy(&self, shard: ShardId) -> f64 {
        self.loads[shard.index()].busy
    }

    /// Returns the share of a worker that `shard` asks for, at most 1.0 unless it reported more.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    #[must_use]
    pub fn demand(&self, shard: ShardId) -> f64 {
        self.loads[shard.index()].demand
    }

    /// Returns how long `shard` was measured; zero says: not at all.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    #[must_use]
    pub fn window(&self, shard: ShardId) -> Nanos {
        self.loads[shard.index()].window
    }

    /// Returns the load of each shard, by number.
    #[must_use]
    pub fn loads(&self) -> &[ShardLoad] {
        &self.loads
    }

    /// Returns who sends to whom, in the order of the reports. A pair may
    /// occur more than once; the rates then add up.
    #[must_use]
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// Returns the shards that must stay at a worker, and which one. An assignment that moves
    /// one of them is refused.
    #[must_use]
    pub fn pins(&self) -> &[(ShardId, WorkerId)] {
        &self.pins
    }

    /// Pins a shard to a worker: for balancers under test.
    pub fn add_pin(&mut self, shard: ShardId, worker: WorkerId) {
        self.pins.push((shard, worker));
    }

    /// Sets the load of a shard on a worker with time to spare, so that the demand is what it
    /// worked: for balancers under test.
    ///
    /// # Panics
    ///
    /// When there is no such shard.
    pub fn set(&mut self, shard: ShardId, busy: f64, window: Nanos) {
        self.loads[shard.index()] = ShardLoad {
            busy,
            demand: busy,
            window,
        };
    }

    /// Sets the load of a shard to one that another view has: for balancers that give a part of
    /// what they see to another balancer.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    pub fn set_load(&mut self, shard: ShardId, load: ShardLoad) {
        self.loads[shard.index()] = load;
    }

    /// Adds traffic between two shards, in messages per second: for
    /// balancers under test.
    pub fn add_traffic(&mut self, from: ShardId, to: ShardId, per_second: f64) {
        self.traffic.push(Traffic {
            from,
            to,
            per_second,
        });
    }

    /// Forgets all figures, and keeps pins and memory.
    pub fn clear(&mut self) {
        self.loads.fill(ShardLoad::default());
        self.traffic.clear();
    }

    /// Opens the report of one shard that was measured for `window`.
    pub(crate) fn report(&mut self, shard: ShardId, window: Nanos) -> LoadReport<'_> {
        self.loads[shard.index()].window = window;
        LoadReport {
            view: self,
            shard,
            seconds: window.as_nanos() as f64 / 1e9,
        }
    }

    /// Returns the time of turns that a shard reported, in nanoseconds.
    pub(crate) fn turns(&self, shard: ShardId) -> f64 {
        let load = &self.loads[shard.index()];
        load.busy * load.window.as_nanos() as f64
    }

    /// Takes into account how long a shard asked for its worker, and how the worker spent its
    /// window, after the reports of all its shards. `turns` is the sum of their turns.
    pub(crate) fn weigh(&mut self, shard: ShardId, asked: Nanos, spent: Spent, turns: f64) {
        let load = &mut self.loads[shard.index()];
        let window = load.window.as_nanos().max(1) as f64;
        let asked = asked.as_nanos() as f64 / window;
        (load.busy, load.demand) = spent.demand(load.busy, asked, turns);
    }

    /// Takes back what the report of `shard` said, after it panicked.
    pub(crate) fn withdraw(&mut self, shard: ShardId, traffic: usize) {
        self.loads[shard.index()] = ShardLoad::default();
        self.traffic.truncate(traffic);
    }
}

/// Where a controller reports the figures of one shard.
///
/// Amounts are those of the whole window; the report makes rates of them.
#[derive(Debug)]
pub struct LoadReport<'a> {
    view: &'a mut LoadView,
    shard: ShardId,
    seconds: f64,
}

impl LoadReport<'_> {
    /// Adds time that the shard spent working. Turns without work do not
    /// count: a worker with few shards takes more of them, and its shards
    /// would look heavier.
    pub fn busy(&mut self, time: Nanos) {
        if self.seconds > 0.0 {
            let share = time.as_nanos() as f64 / 1e9 / self.seconds;
            self.view.loads[self.shard.index()].busy += share;
        }
    }

    /// Adds messages that the shard took from the shard `from`.
    ///
    /// # Panics
    ///
    /// When there is no shard `from`.
    pub fn received(&mut self, from: ShardId, messages: u64) {
        assert!(
            from.index() < self.view.shards(),
            "traffic is reported from a shard that exists"
        );
        if self.seconds > 0.0 && messages > 0 {
            self.view
                .add_traffic(from, self.shard, messages as f64 / self.seconds);
        }
    }

    /// Returns how long the shard was measured.
    #[must_use]
    pub fn window(&self) -> Nanos {
        self.view.window(self.shard)
    }
}
