//! Loads and traffic, smoothed over epochs.
//!
//! The recent past foretells the near future, but one window is noise.
//! Each rate is an exponentially weighted mean with weight 1/2 for the newest
//! window; beside it stands how far windows strayed from that mean, as shares
//! of the total so that a swing of everything at once does not count.

use std::vec::Vec;

use hashbrown::HashMap;

use crate::ids::ShardId;
use crate::load::LoadView;
use crate::timers::Nanos;

/// The weight of the newest window.
const NEWEST: f64 = 0.5;

/// How far a shard is taken to stray while only one window is known, as a
/// share of its load.
const FIRST_NOISE: f64 = 0.05;

/// After so many windows the decision waits no longer for shards that were
/// never measured: what cannot be measured counts as no load.
const PATIENCE: u32 = 8;

/// Traffic below so many messages per second is forgotten.
const LEAST_TRAFFIC: f64 = 1e-3;

/// Smoothed figures of all shards.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// Busy share of a worker, by shard.
    pub(super) loads: Vec<f64>,
    /// How far the shard's share of the total strays, as a load.
    pub(super) noise: Vec<f64>,
    /// Whether a window of the shard was ever long enough.
    known: Vec<bool>,
    /// Windows taken in, up to [`PATIENCE`].
    windows: u32,
    /// Messages per second by sender and receiver.
    pub(super) traffic: HashMap<(u32, u32), f64>,
}

impl Rates {
    /// Takes a view in. Windows shorter than `least` say nothing and leave the
    /// old rates. Returns whether every shard is known by now, or was waited
    /// for long enough.
    pub(super) fn update(&mut self, view: &LoadView, least: Nanos) -> bool {
        let shards = view.shards();
        if self.loads.len() != shards {
            *self = Self {
                loads: std::vec![0.0; shards],
                noise: std::vec![0.0; shards],
                known: std::vec![false; shards],
                windows: 0,
                traffic: HashMap::new(),
            };
        }
        let is_measured = |shard: usize| {
            let load = view.loads()[shard];
            load.window >= least && load.window > Nanos::ZERO && load.busy.is_finite()
        };
        let weight = |known: bool| if known { NEWEST } else { 1.0 };

        for (&(_, to), rate) in &mut self.traffic {
            let to = to as usize;
            if is_measured(to) {
                *rate *= 1.0 - weight(self.known[to]);
            }
        }
        for edge in view.traffic() {
            let to = edge.to.index();
            if is_measured(to) && edge.per_second.is_finite() && edge.from != edge.to {
                let rate = self.traffic.entry((edge.from.0, edge.to.0)).or_insert(0.0);
                *rate += edge.per_second * weight(self.known[to]);
            }
        }
        self.traffic.retain(|_, rate| *rate > LEAST_TRAFFIC);

        let old_total: f64 = self.loads.iter().sum();
        let new_total: f64 = view.loads().iter().map(|load| load.busy).sum();
        for shard in (0..shards).filter(|&shard| is_measured(shard)) {
            let fresh = view.busy(ShardId::from_index(shard));
            if self.known[shard] && old_total > 0.0 && new_total > 0.0 {
                let strayed = (fresh / new_total - self.loads[shard] / old_total).abs() * old_total;
                self.noise[shard] += (strayed - self.noise[shard]) * NEWEST;
            }
            if !self.known[shard] {
                self.noise[shard] = fresh * FIRST_NOISE;
            }
            self.loads[shard] += (fresh - self.loads[shard]) * weight(self.known[shard]);
            self.known[shard] = true;
        }
        self.windows = PATIENCE.min(self.windows + 1);
        self.windows == PATIENCE || self.known.iter().all(|&known| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Nanos = Nanos::from_millis(10);

    #[test]
    fn rates_follow_and_short_windows_say_nothing() {
        let mut rates = Rates::default();
        let mut view = LoadView::new(2, 2);
        view.set(ShardId(0), 0.8, WINDOW);
        view.set(ShardId(1), 0.2, Nanos::from_nanos(10));
        assert!(
            !rates.update(&view, Nanos::from_millis(1)),
            "shard 1 is unknown"
        );
        view.set(ShardId(0), 0.4, WINDOW);
        view.set(ShardId(1), 0.2, WINDOW);
        view.add_traffic(ShardId(0), ShardId(1), 100.0);
        assert!(rates.update(&view, Nanos::from_millis(1)));
        assert!((rates.loads[0] - 0.6).abs() < 1e-9);
        assert!((rates.loads[1] - 0.2).abs() < 1e-9);
        assert_eq!(rates.traffic[&(0, 1)], 100.0);
    }
}
