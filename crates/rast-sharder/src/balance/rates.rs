//! Loads and traffic, smoothed over epochs.
//!
//! The recent past foretells the near future, but one window is noise.
//! Each rate is an exponentially weighted mean with weight 1/2 for the newest
//! window. Beside it is its noise: how far a window differs from the one before,
//! as shares of the total, so that a swing of everything at once does not count.
//!
//! The mean lags behind a step of the load, so the distance to the mean takes the
//! step for noise in each window until the mean has caught up, and nothing moves
//! meanwhile. The difference of two windows sees the step once (von Neumann 1941,
//! "Distribution of the ratio of the mean square successive difference").
//!
//! Such a difference is small by chance as well, and then so is the mean of the newest few,
//! although the shard strays as much as ever. So the noise is the greater of two means: that
//! of the newest windows, which sees a load that has become restless, and that of about 16
//! windows. In the second a difference that is far out counts as a small multiple of the usual
//! one (Huber 1964, "Robust estimation of a location parameter"), so that a step of the load
//! leaves it nearly as it was.

use std::vec::Vec;

use crate::ids::ShardId;
use crate::load::LoadView;
use crate::timers::Nanos;

/// The weight of the newest window.
const NEWEST: f64 = 0.5;

/// How far a shard is taken to stray while only one window is known, as a
/// share of its load.
const FIRST_NOISE: f64 = 0.05;

/// The distance of a window to the mean of those before, over its difference to the last one,
/// where windows are independent: the root of 4/3 variances over 2 variances.
const TO_MEAN: f64 = 0.816;

/// How far a shard is taken to stray at least, as a share of its load: the noise of a load
/// that never changes comes to an end there, and with it the fall of the bar for plans.
const LEAST_NOISE: f64 = 0.01;

/// The weight of the newest difference in the usual noise.
const USUAL: f64 = 0.125;

/// A difference counts as no more than so many times the usual one.
const OUTLIER: f64 = 3.0;

/// After so many windows the decision waits no longer for shards that were
/// never measured: what cannot be measured counts as no load.
const PATIENCE: u32 = 8;

/// Traffic below so many messages per second is forgotten: at the default penalty it costs a
/// ten-millionth of a worker.
const LEAST_TRAFFIC: f64 = 1.0;

/// More messages per second count as so many, whose sums are finite.
const MOST_TRAFFIC: f64 = 1e30;

/// The messages per second between a shard and another one. There is one for each pair that has
/// talked in the last windows, in both of its shards, so it is small.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tie {
    /// The other shard.
    pub(super) other: u32,
    received: f32,
    sent: f32,
}

impl Tie {
    /// Returns the messages per second in both directions.
    pub(super) fn rate(&self) -> f64 {
        f64::from(self.received) + f64::from(self.sent)
    }
}

/// What is taken in next, up to `Rates::at`.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// Memory is taken for the figures of a shard, in the first decision.
    #[default]
    Grow,
    /// Old traffic of a shard fades.
    Fade,
    /// New traffic is added.
    Add,
    /// What is too little is forgotten.
    Forget,
    /// Loads are summed.
    Sum,
    /// The load of a shard.
    Load,
    Done,
}

/// The weight of the newest window of a shard.
fn weight(known: bool) -> f64 {
    if known { NEWEST } else { 1.0 }
}

/// Smoothed figures of all shards.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// Share of a worker that each shard asks for.
    pub(super) loads: Vec<f64>,
    /// How far the shard's share of the total strayed in the newest windows, as a load.
    recent: Vec<f64>,
    /// How far it strays as a rule, as a share of the shard's load.
    usual: Vec<f64>,
    /// The shard's share of the total in its last window.
    last: Vec<f64>,
    /// By shard: its ties, in the order of the other shards. Both shards of a pair have the tie.
    pub(super) ties: Vec<Vec<Tie>>,
    /// Whether a window of the shard was ever long enough.
    known: Vec<bool>,
    /// How many are.
    known_count: usize,
    /// Windows taken in, up to [`PATIENCE`].
    windows: u32,
    stage: Stage,
    at: usize,
    /// Sums of the loads: smoothed ones at the start, the view's, smoothed ones.
    totals: [f64; 3],
}

impl Rates {
    /// Begins to take a view in.
    pub(super) fn begin(&mut self, shards: usize) {
        if self.known.len() != shards || self.loads.len() != shards {
            *self = Self::default();
            self.loads.reserve_exact(shards);
            self.recent.reserve_exact(shards);
            self.usual.reserve_exact(shards);
            self.last.reserve_exact(shards);
            self.ties.reserve_exact(shards);
            self.known.reserve_exact(shards);
        }
        (self.stage, self.at, self.totals) = (Stage::Grow, self.known.len(), [0.0; 3]);
    }

    /// Returns the sum of the loads.
    pub(super) fn total(&self) -> f64 {
        self.totals[2]
    }

    /// Takes a view in, for about `budget` units. Windows shorter than `least` say nothing and
    /// leave the old rates. Returns `None` until it is done, and then whether every shard is
    /// known by now, or was waited for long enough.
    pub(super) fn update(&mut self, view: &LoadView, least: Nanos, budget: usize) -> Option<bool> {
        let shards = view.shards();
        let is_measured = |shard: usize| {
            let load = view.loads()[shard];
            load.window >= least && load.window > Nanos::ZERO && load.demand.is_finite()
        };
        let mut left = budget as isize;
        while left > 0 {
            let at = self.at;
            self.at += 1;
            left -= 1;
            match self.stage {
                Stage::Grow if at == shards => self.enter(Stage::Fade),
                Stage::Grow => {
                    self.loads.push(0.0);
                    self.recent.push(0.0);
                    self.usual.push(FIRST_NOISE);
                    self.last.push(0.0);
                    self.ties.push(Vec::new());
                    self.known.push(false);
                }
                Stage::Fade if at == shards => self.enter(Stage::Add),
                Stage::Fade => {
                    let known = &self.known;
                    // The window of the receiver counts, in both directions.
                    let fade = |to: usize| match is_measured(to) {
                        true => 1.0 - weight(known[to]) as f32,
                        false => 1.0,
                    };
                    let received = fade(at);
                    for tie in &mut self.ties[at] {
                        tie.received *= received;
                        tie.sent *= fade(tie.other as usize);
                    }
                    left -= self.ties[at].len() as isize / 8;
                }
                Stage::Add if at == view.traffic().len() => self.enter(Stage::Forget),
                Stage::Add => {
                    let edge = view.traffic()[at];
                    let to = edge.to.index();
                    if is_measured(to) && edge.per_second.is_finite() && edge.from != edge.to {
                        let fresh = edge.per_second.min(MOST_TRAFFIC) * weight(self.known[to]);
                        let fresh = fresh as f32;
                        left -= self.tie(edge.to, edge.from, |tie| tie.received += fresh);
                        left -= self.tie(edge.from, edge.to, |tie| tie.sent += fresh);
                    }
                }
                Stage::Forget if at == shards => self.enter(Stage::Sum),
                Stage::Forget => {
                    self.ties[at].retain(|tie| tie.rate() > LEAST_TRAFFIC);
                    left -= self.ties[at].len() as isize / 16;
                }
                Stage::Sum if at == shards => self.enter(Stage::Load),
                Stage::Sum => {
                    self.totals[0] += self.loads[at];
                    self.totals[1] += view.loads()[at].demand;
                }
                Stage::Load if at == shards => {
                    self.windows = PATIENCE.min(self.windows + 1);
                    self.enter(Stage::Done);
                }
                Stage::Load => {
                    if is_measured(at) {
                        self.take_load(at, view.loads()[at].demand);
                    }
                    self.totals[2] += self.loads[at];
                }
                Stage::Done => {
                    return Some(self.windows == PATIENCE || self.known_count == shards);
                }
            }
        }
        None
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.at) = (stage, 0);
    }

    /// Adds to the tie of a shard to another one; returns the units that took on top of one.
    fn tie(&mut self, shard: ShardId, other: ShardId, add: impl FnOnce(&mut Tie)) -> isize {
        let ties = &mut self.ties[shard.index()];
        match ties.binary_search_by_key(&other.0, |tie| tie.other) {
            Ok(at) => {
                add(&mut ties[at]);
                1
            }
            Err(at) => {
                let mut tie = Tie {
                    other: other.0,
                    ..Tie::default()
                };
                add(&mut tie);
                ties.insert(at, tie);
                4 + (ties.len() - at) as isize / 64
            }
        }
    }

    fn take_load(&mut self, shard: usize, fresh: f64) {
        let [old_total, new_total, _] = self.totals;
        let load = &mut self.loads[shard];
        let total = if new_total > 0.0 { new_total } else { 1.0 };
        let last = core::mem::replace(&mut self.last[shard], fresh / total);
        if !self.known[shard] {
            self.known[shard] = true;
            self.known_count += 1;
            self.recent[shard] = fresh * FIRST_NOISE;
            *load = fresh;
            return;
        }
        if old_total > 0.0 && new_total > 0.0 {
            let strayed = (fresh / new_total - last).abs() * old_total * TO_MEAN;
            self.recent[shard] += (strayed - self.recent[shard]) * NEWEST;
            if *load > 0.0 {
                let usual = &mut self.usual[shard];
                let most = OUTLIER * usual.max(FIRST_NOISE);
                *usual += ((strayed / *load).min(most) - *usual) * USUAL;
                *usual = usual.max(LEAST_NOISE);
            }
        }
        *load += (fresh - *load) * NEWEST;
    }

    /// Returns how far the shard's share of the total strays, as a load.
    pub(super) fn noise(&self, shard: usize) -> f64 {
        self.recent[shard].max(self.usual[shard] * self.loads[shard])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Nanos = Nanos::from_millis(10);

    #[test]
    fn a_step_is_noise_once() {
        let mut rates = Rates::default();
        let mut noise = Vec::new();
        for (one, other) in [(0.8, 0.2), (0.2, 0.8), (0.2, 0.8), (0.2, 0.8), (0.2, 0.8)] {
            let mut view = LoadView::new(2, 2);
            view.set(ShardId(0), one, WINDOW);
            view.set(ShardId(1), other, WINDOW);
            rates.begin(2);
            assert_eq!(rates.update(&view, WINDOW, usize::MAX / 2), Some(true));
            noise.push(rates.recent[0]);
        }
        // It halves with each window after the step.
        let halves = noise[1..].windows(2).map(|pair| pair[1] / pair[0]);
        assert!(
            halves.clone().all(|half| (half - 0.5).abs() < 1e-9),
            "{noise:?}"
        );
    }

    #[test]
    fn quiet_windows_and_a_step_leave_the_usual_noise() {
        let mut rates = Rates::default();
        let mut take = |one: f64| {
            let mut view = LoadView::new(2, 2);
            view.set(ShardId(0), one, WINDOW);
            view.set(ShardId(1), 1.0 - one, WINDOW);
            rates.begin(2);
            assert_eq!(rates.update(&view, WINDOW, usize::MAX / 2), Some(true));
            (rates.noise(0) / rates.loads[0], rates.usual[0])
        };
        for window in 0..40 {
            take(0.5 + 0.05 * f64::from(window % 2));
        }
        let (_, restless) = take(0.5);
        assert!((0.07..0.09).contains(&restless), "{restless}");
        // The newest windows are alike, by chance as it seems so far.
        let (noise, _) = (take(0.5), take(0.5)).1;
        assert!(noise > 0.7 * restless, "{noise} of {restless}");
        let (_, before) = take(0.5);
        let (_, after) = take(0.9);
        assert!(
            after <= 1.26 * before,
            "{after} after a step, {before} before"
        );
        // A load that never changes strays by the least.
        let (noise, _) = (0..40).map(|_| take(0.9)).last().expect("some windows");
        assert_eq!(noise, LEAST_NOISE);
    }

    #[test]
    fn rates_follow_and_short_windows_say_nothing() {
        let mut rates = Rates::default();
        let mut view = LoadView::new(2, 2);
        view.set(ShardId(0), 0.8, WINDOW);
        view.set(ShardId(1), 0.2, Nanos::from_nanos(10));
        let mut update = |view: &LoadView| {
            rates.begin(2);
            let step = || rates.update(view, Nanos::from_millis(1), 1);
            core::iter::repeat_with(step).find_map(|done| done)
        };
        assert_eq!(update(&view), Some(false), "shard 1 is unknown");
        view.set(ShardId(0), 0.4, WINDOW);
        view.set(ShardId(1), 0.2, WINDOW);
        view.add_traffic(ShardId(0), ShardId(1), 100.0);
        assert_eq!(update(&view), Some(true));
        assert!((rates.loads[0] - 0.6).abs() < 1e-9);
        assert!((rates.loads[1] - 0.2).abs() < 1e-9);
        let tie = |other, received, sent| Tie {
            other,
            received,
            sent,
        };
        assert_eq!(rates.ties[0], [tie(1, 0.0, 100.0)]);
        assert_eq!(rates.ties[1], [tie(0, 100.0, 0.0)]);
    }
}
