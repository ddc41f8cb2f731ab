//! What the balancer sees: loads and traffic, as rates.
//!
//! A controller updates figures of its own type per shard (`Controller::Load`) until the worker
//! promises to stop. At the end of a window it reports the figures of the used shards here. The
//! sharder divides them by the time in which the shard was measured. This time begins when the
//! window of its worker begins, or when the worker acquires the shard. It ends when the worker
//! promises.

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
    /// The share of the window that the shard spent working. Time in which the system ran another
    /// thread instead of the worker does not count, if it is known.
    pub busy: f64,
    /// The share of a worker that the shard would use on a worker of its own. It is `busy`, plus,
    /// on a fully used worker, the share of the window in which the shard was ready and waited.
    /// Balancers decide by this figure.
    pub demand: f64,
    /// How long the shard was measured.
    pub window: Nanos,
}

/// The load figures of one epoch, which the balancer gets.
///
/// Only shards that were used in the window of their worker have figures; the load of every other
/// shard is zero. So the cost of making and of reading a view grows with the number of used shards:
///
/// ```text
///   used     (shard 7, load) (shard 2, load)          one entry per used shard
///   places   [ ?  ?  1  ?  ?  ?  ?  0  ? ]            by shard: its entry, if that names the shard
/// ```
///
/// `places` has an index into `used` for each shard. The index is valid if the entry of `used` at
/// this index names the shard. So before a new window only `used` is emptied, and old indices may
/// stay in `places` (Briggs and Torczon 1993, "An efficient representation for sparse sets").
///
/// ```
/// use rast_sharder::{LoadView, ShardId, timers::Nanos};
///
/// let mut view = LoadView::new(2, 3);
/// view.set(ShardId(0), 0.5, Nanos::from_millis(10));
/// assert_eq!(view.busy(ShardId(0)), 0.5);
/// assert_eq!(view.busy(ShardId(1)), 0.0);
/// assert_eq!(view.used().len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoadView {
    used: Vec<(ShardId, ShardLoad)>,
    places: Vec<u32>,
    /// How long each worker measured.
    windows: Vec<Nanos>,
    traffic: Vec<Traffic>,
    pins: Vec<(ShardId, WorkerId)>,
    /// By shard: the worker that it is pinned to. Empty if there are no pins.
    pin_of: Vec<Option<WorkerId>>,
    /// The workers that take part in no decision.
    dedicated: Vec<WorkerId>,
}

impl LoadView {
    /// Makes a view of `shards` shards without load on `workers` workers.
    #[must_use]
    pub fn new(workers: usize, shards: usize) -> Self {
        Self {
            used: Vec::new(),
            places: std::vec![0; shards],
            windows: std::vec![Nanos::ZERO; workers],
            traffic: Vec::new(),
            pins: Vec::new(),
            pin_of: Vec::new(),
            dedicated: Vec::new(),
        }
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.windows.len()
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.places.len()
    }

    /// Returns the shards that were used in their window, with their loads, each once.
    ///
    /// A shard is used if it had a turn in the window, was ready at its end, or came to its worker
    /// in it. A retired shard is not used. If [`report`](crate::Controller::report) or
    /// [`restart_load`](crate::Controller::restart_load) panicked, the load and its window are
    /// zero.
    #[must_use]
    pub fn used(&self) -> &[(ShardId, ShardLoad)] {
        &self.used
    }

    /// Returns the load of `shard`, or `None` if it was not used.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[must_use]
    pub fn load(&self, shard: ShardId) -> Option<ShardLoad> {
        self.place(shard).map(|place| self.used[place].1)
    }

    /// Returns the share of its window that `shard` spent working; zero if it was not used.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[must_use]
    pub fn busy(&self, shard: ShardId) -> f64 {
        self.load(shard).unwrap_or_default().busy
    }

    /// Returns the share of a worker that `shard` would use (its demand), at most 1.0 unless it
    /// reported more; zero if it was not used.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[must_use]
    pub fn demand(&self, shard: ShardId) -> f64 {
        self.load(shard).unwrap_or_default().demand
    }

    /// Returns how long `shard` was measured; zero if it was not used, or not measured. A shard
    /// that was not used was without load in the [window of its worker](Self::worker_window).
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[must_use]
    pub fn window(&self, shard: ShardId) -> Nanos {
        self.load(shard).unwrap_or_default().window
    }

    /// Returns how long `worker` measured.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    #[must_use]
    pub fn worker_window(&self, worker: WorkerId) -> Nanos {
        self.windows[worker.index()]
    }

    /// Returns how long each worker measured.
    pub(crate) fn worker_windows(&self) -> &[Nanos] {
        &self.windows
    }

    /// Returns the traffic between pairs of shards, in the order of the reports. A pair may
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

    /// Returns the worker that `shard` must stay at, if there is one. Costs a load.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    #[must_use]
    pub fn pin_of(&self, shard: ShardId) -> Option<WorkerId> {
        assert!(shard.index() < self.shards(), "there is no {shard}");
        self.pin_of.get(shard.index()).copied().flatten()
    }

    /// Returns the workers that keep their shards and get no others:
    /// [`Builder::dedicate`](crate::Builder::dedicate). Their shards count as not used, and an
    /// assignment that moves a shard from or to one of them is refused.
    #[must_use]
    pub fn dedicated(&self) -> &[WorkerId] {
        &self.dedicated
    }

    /// Returns whether `worker` is one of [`dedicated`](Self::dedicated). Costs a search among
    /// them.
    #[must_use]
    pub fn is_dedicated(&self, worker: WorkerId) -> bool {
        self.dedicated.contains(&worker)
    }

    /// Makes a worker a dedicated one: for balancers under test.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    pub fn dedicate(&mut self, worker: WorkerId) {
        assert!(worker.index() < self.workers(), "there is no {worker}");
        if !self.is_dedicated(worker) {
            self.dedicated.push(worker);
        }
    }

    /// Pins a shard to a worker: for balancers under test. Of two pins of a shard the first counts.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    pub fn add_pin(&mut self, shard: ShardId, worker: WorkerId) {
        if self.pins.is_empty() {
            self.pin_of.resize(self.shards(), None);
        }
        self.pins.push((shard, worker));
        self.pin_of[shard.index()].get_or_insert(worker);
    }

    /// Sets the load of a shard as if its worker had time to spare, so that its demand is `busy`:
    /// for balancers under test.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    pub fn set(&mut self, shard: ShardId, busy: f64, window: Nanos) {
        let load = ShardLoad {
            busy,
            demand: busy,
            window,
        };
        self.put(shard, load);
    }

    /// Sets how long a worker measured: for balancers under test.
    ///
    /// # Panics
    ///
    /// If there is no such worker.
    pub fn set_worker_window(&mut self, worker: WorkerId, window: Nanos) {
        self.windows[worker.index()] = window;
    }

    /// Sets the load of a shard to one that another view has: for balancers that give a part of
    /// what they see to another balancer.
    ///
    /// # Panics
    ///
    /// If there is no such shard.
    pub fn set_load(&mut self, shard: ShardId, load: ShardLoad) {
        self.put(shard, load);
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

    /// Forgets loads and traffic, and keeps pins and memory. Costs the same for any number of
    /// shards.
    pub fn clear(&mut self) {
        self.used.clear();
        self.traffic.clear();
    }

    /// Returns the place of a shard among those that were used.
    fn place(&self, shard: ShardId) -> Option<usize> {
        let place = self.places[shard.index()] as usize;
        let (used, _) = self.used.get(place)?;
        (*used == shard).then_some(place)
    }

    /// Sets the load of a shard; returns its place.
    fn put(&mut self, shard: ShardId, load: ShardLoad) -> usize {
        if let Some(place) = self.place(shard) {
            self.used[place].1 = load;
            return place;
        }
        let place = self.used.len();
        self.places[shard.index()] = place as u32;
        self.used.push((shard, load));
        place
    }

    /// Opens the report of one shard that was measured for `window`.
    pub(crate) fn report(&mut self, shard: ShardId, window: Nanos) -> LoadReport<'_> {
        let load = ShardLoad {
            window,
            ..ShardLoad::default()
        };
        let place = self.put(shard, load);
        LoadReport {
            view: self,
            shard,
            place,
            seconds: window.as_nanos() as f64 / 1e9,
        }
    }

    /// Returns the time of turns that a shard reported, in nanoseconds.
    pub(crate) fn turns(&self, shard: ShardId) -> f64 {
        let load = self.load(shard).unwrap_or_default();
        load.busy * load.window.as_nanos() as f64
    }

    /// Takes into account how long a shard asked for its worker, and how the worker spent its
    /// window, after the reports of all its shards. `turns` is the sum of their turns. A report
    /// that was withdrawn stays so.
    pub(crate) fn weigh(&mut self, shard: ShardId, asked: Nanos, spent: Spent, turns: f64) {
        let Some(place) = self.place(shard) else {
            return;
        };
        let load = &mut self.used[place].1;
        if load.window.is_zero() {
            return;
        }
        let window = load.window.as_nanos() as f64;
        let asked = asked.as_nanos() as f64 / window;
        (load.busy, load.demand) = spent.demand(load.busy, asked, turns);
    }

    /// Removes the figures that the report of `shard` gave before it panicked.
    pub(crate) fn withdraw(&mut self, shard: ShardId, traffic: usize) {
        self.put(shard, ShardLoad::default());
        self.traffic.truncate(traffic);
    }
}

/// Receives the figures of one shard from a controller.
///
/// Amounts are those of the whole window; the report converts them to rates.
#[derive(Debug)]
pub struct LoadReport<'a> {
    view: &'a mut LoadView,
    shard: ShardId,
    place: usize,
    seconds: f64,
}

impl LoadReport<'_> {
    /// Adds time that the shard spent working. Turns without work do not
    /// count: a worker with few shards makes more of such turns, so its shards would seem heavier.
    pub fn busy(&mut self, time: Nanos) {
        if self.seconds > 0.0 {
            let share = time.as_nanos() as f64 / 1e9 / self.seconds;
            self.view.used[self.place].1.busy += share;
        }
    }

    /// Adds messages that the shard took from the shard `from`.
    ///
    /// # Panics
    ///
    /// If there is no shard `from`.
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
        self.view.used[self.place].1.window
    }
}
