//! Loads and traffic, smoothed over epochs.
//!
//! The load of recent windows predicts the load of the next one, but the load of a single window is
//! noisy. So each rate (a load, or messages per second) is an exponentially weighted mean, with
//! weight 1/2 for the newest window. The noise of a load is a mean of its differences from one
//! window to the next. These are differences of shares of the total load, so a change of all loads
//! at once does not count as noise.
//!
//! Each load has a second mean: the shard's mean share of the total over about 16 windows, times
//! the mean total of the newest windows. If successive windows are independent, the noise of the
//! second mean is less than half of that of the first. If they are correlated, an estimate by this
//! ratio is too small, so it is combined with the difference of the two means (`hypot`). `Greedy`
//! uses the second mean while the two means differ by at most the noise. After a *step* (a lasting
//! change of a load) they soon differ by more, and `Greedy` uses the first mean.
//!
//! The difference between a window and the mean would be a worse measure of noise. The mean lags
//! behind a step, so the step would count as noise in many windows, in which no shard would move.
//! Of the differences between successive windows, a step changes only one (von Neumann 1941,
//! "Distribution of the ratio of the mean square successive difference").
//!
//! Several differences in a row may be small by chance, although the load varies as before. So the
//! noise is the greater of two means of the differences. The first is over the newest windows, and
//! detects a load that has begun to vary. The second is over about 16 windows. In it a very large
//! difference counts as a small multiple of the usual one, so a step hardly changes this mean
//! (Huber 1964, "Robust estimation of a location parameter").
//!
//! # What a window costs
//!
//! The load of an idle shard halves with each window. The load of a resting shard is not updated:
//!
//! ```text
//!   used in the window ──→ active ──────────────→ resting
//!                           │   in each window     nothing is done. When it is used again: its
//!                           │   (idle: halves)     load × 1/2 for each window that has passed
//!                           └─ idle, load below LEAST_LOAD, no ties ─→ resting
//! ```
//!
//! So the cost of a window grows with the number of shards that were used in it or shortly before.
//! A shard that used a whole worker rests after at most 20 idle windows. The entry of a resting
//! shard stores how many windows its load already includes. The sum of the loads of all resting
//! shards halves with each window too, so it is stored as one number.

use std::vec::Vec;

use crate::assignment::Assignment;
use crate::ids::ShardId;
use crate::load::LoadView;
use crate::timers::Nanos;

/// The weight of the newest window.
const NEWEST: f64 = 0.5;

/// The assumed noise of a shard while only one window is known, as a share of its load.
const FIRST_NOISE: f64 = 0.05;

/// Ratio of two distances, if windows are independent: that of a window to the mean of the windows
/// before, and that to the last window. It is the root of 4/3 variances over 2 variances.
const TO_MEAN: f64 = 0.816;

/// The minimum noise of a shard, as a share of its load. So the noise of a load that never changes
/// does not fall to zero, and neither does the gain that a plan must have.
const LEAST_NOISE: f64 = 0.01;

/// The weight of the newest difference in the usual noise, and of the newest window in the steady
/// share.
const USUAL: f64 = 0.125;

/// Number of windows after which a steady share is used. It is the mean of all windows until then.
const STEADY: u8 = 8;

/// Noise of a steady share divided by that of the newest windows, if windows are independent. The
/// noise of a mean with weight w is that of one window times the root of w / (2 − w).
const STEADY_NOISE: f64 = 0.447;

/// A window with at most this share of the loads so far changes no share of the total. Its few
/// loads would otherwise count as the shares of all that is used later.
const QUIET: f64 = 0.125;

/// A difference counts as at most this multiple of the usual one.
const OUTLIER: f64 = 3.0;

/// After this number of windows the decision no longer waits for shards that were never measured;
/// they count as without load.
const PATIENCE: u32 = 8;

/// Traffic below this number of messages per second is forgotten: at the default penalty it costs a
/// ten-millionth of a worker.
const LEAST_TRAFFIC: f64 = 1.0;

/// Maximum number of messages per second that counts, so that sums are finite.
const MOST_TRAFFIC: f64 = 1e30;

/// The messages per second between a shard and another one. Both shards of each pair that exchanged
/// messages in the last windows have a tie, so its size is kept small.
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

/// An idle shard whose load is below this share of a worker rests.
const LEAST_LOAD: f64 = 1e-6;

/// After this number of halvings any load is zero: the least positive `f64` is 2⁻¹⁰⁷⁴.
const MOST_HALVINGS: u64 = 2_200;

/// How many windows the figures of a shard, or of all shards, include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// The windows in which idle shards were measured.
    windows: u64,
    /// Those of them with more than [`QUIET`] load, in which shares were taken in.
    loaded: u64,
}

/// What `update` does next, from the item `Rates::at` on.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// Memory is taken for the figures of a shard, in the first decision.
    #[default]
    Grow,
    /// Used shards become active.
    Enter,
    /// Old traffic of a shard fades.
    Fade,
    /// New traffic is added.
    Add,
    /// What is too little is forgotten.
    Forget,
    /// Loads of active shards are summed.
    Sum,
    /// Loads of the window are summed.
    SumNew,
    /// The load of a shard.
    Load,
    Done,
}

/// The weight of the newest window of a shard.
fn weight(known: bool) -> f64 {
    if known { NEWEST } else { 1.0 }
}

/// The load of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figure {
    /// Share of a worker that the shard would use on its own (its demand).
    pub(super) load: f64,
    /// Noise of the load: how much it changes from window to window.
    pub(super) noise: f64,
}

/// Smoothed figures of all shards.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// By shard: the load that counts; zero for resting shards.
    pub(super) figures: Vec<Figure>,
    /// By shard: mean of its demand over the newest windows.
    loads: Vec<f64>,
    /// The shard's share of the total over about 16 windows.
    steady: Vec<f64>,
    /// By shard: noise of its share of the total in the newest windows, as a load.
    recent: Vec<f64>,
    /// By shard: the usual noise, over about 16 windows, as a share of its load.
    usual: Vec<f64>,
    /// The shard's share of the total in its last window.
    last: Vec<f64>,
    /// By shard: its ties, in the order of the other shards. Both shards of a pair have the tie.
    pub(super) ties: Vec<Vec<Tie>>,
    /// By shard: zero as long as none of its windows was long enough. Otherwise one more than the
    /// number of its windows that were not [`QUIET`], which counts up to [`STEADY`]. Windows after
    /// `seen` are not included.
    known: Vec<u8>,
    /// Number of shards of which no window was ever long enough.
    unknown: usize,
    /// By shard: what it has taken in.
    seen: Vec<Seen>,
    /// The active shards.
    active: Vec<u32>,
    /// By shard: its place in `active`, if that entry names the shard.
    places: Vec<u32>,
    /// Sum of the loads of the resting shards.
    resting: f64,
    /// The windows before this one, and those with it.
    passed: Seen,
    passing: Seen,
    /// Number of active shards that are still unknown after this window. All others are known:
    /// each shard is used in its first window, and stays active until it was measured.
    unknown_used: usize,
    /// Windows taken in, up to [`PATIENCE`].
    windows: u32,
    stage: Stage,
    at: usize,
    /// Sums of the loads: the smoothed loads before this window, those of the window, and the
    /// smoothed loads after it.
    totals: [f64; 3],
}

impl Rates {
    /// Begins to add the figures of a window.
    pub(super) fn begin(&mut self, shards: usize) {
        if self.known.len() != shards || self.loads.len() != shards {
            *self = Self::default();
            self.unknown = shards;
            self.figures.reserve_exact(shards);
            self.loads.reserve_exact(shards);
            self.steady.reserve_exact(shards);
            self.recent.reserve_exact(shards);
            self.usual.reserve_exact(shards);
            self.last.reserve_exact(shards);
            self.ties.reserve_exact(shards);
            self.known.reserve_exact(shards);
            self.seen.reserve_exact(shards);
            self.places.reserve_exact(shards);
            self.active.reserve_exact(shards);
        }
        (self.stage, self.at, self.totals) = (Stage::Grow, self.known.len(), [0.0; 3]);
    }

    /// Returns the sum of the loads.
    pub(super) fn total(&self) -> f64 {
        self.totals[2]
    }

    /// Returns the active shards. All others have about no load, and no ties.
    pub(super) fn active(&self) -> &[u32] {
        &self.active
    }

    /// Returns whether a shard is active.
    pub(super) fn is_active(&self, shard: usize) -> bool {
        self.active.get(self.places[shard] as usize) == Some(&(shard as u32))
    }

    /// Adds the figures of a window, for about `budget` units. Windows shorter than `least` leave
    /// the old rates. Returns `None` until it is done. Then it returns whether every shard was
    /// measured by now, or was waited for long enough.
    pub(super) fn update(
        &mut self,
        view: &LoadView,
        current: &Assignment,
        least: Nanos,
        budget: usize,
    ) -> Option<bool> {
        let shards = view.shards();
        let is_long = |window: Nanos| window >= least && window > Nanos::ZERO;
        let has_dedicated = !view.dedicated().is_empty();
        // The demand of a shard, if it was measured for long enough. A shard of a dedicated worker
        // stays there, so its load does not matter and counts as zero.
        let measured = |shard: usize| {
            let shard = ShardId::from_index(shard);
            let (demand, window) = match view.load(shard) {
                Some(load) => (load.demand, load.window),
                None if has_dedicated && view.is_dedicated(current.owner(shard)) => {
                    return Some(0.0);
                }
                None => (0.0, view.worker_window(current.owner(shard))),
            };
            (is_long(window) && demand.is_finite()).then_some(demand)
        };
        let mut left = budget as isize;
        while left > 0 {
            let at = self.at;
            self.at += 1;
            left -= 1;
            match self.stage {
                Stage::Grow if at == shards => self.enter(Stage::Enter),
                Stage::Grow => {
                    self.figures.push(Figure::default());
                    self.loads.push(0.0);
                    self.steady.push(0.0);
                    self.recent.push(0.0);
                    self.usual.push(FIRST_NOISE);
                    self.last.push(0.0);
                    self.ties.push(Vec::new());
                    self.known.push(0);
                    self.seen.push(Seen::default());
                    self.places.push(0);
                }
                Stage::Enter if at == view.used().len() => self.enter(Stage::Fade),
                Stage::Enter => self.activate(view.used()[at].0.index()),
                Stage::Fade if at == self.active.len() => self.enter(Stage::Add),
                Stage::Fade => {
                    let shard = self.active[at] as usize;
                    let known = &self.known;
                    // The window of the receiver counts, in both directions.
                    let fade = |to: usize| match measured(to) {
                        Some(_) => 1.0 - weight(known[to] > 0) as f32,
                        None => 1.0,
                    };
                    let received = fade(shard);
                    for tie in &mut self.ties[shard] {
                        tie.received *= received;
                        tie.sent *= fade(tie.other as usize);
                    }
                    // The figures of the other shard are three cache misses.
                    left -= self.ties[shard].len() as isize / 3;
                }
                Stage::Add if at == view.traffic().len() => self.enter(Stage::Forget),
                Stage::Add => {
                    let edge = view.traffic()[at];
                    let to = edge.to.index();
                    let is_measured = measured(to).is_some();
                    if is_measured && edge.per_second.is_finite() && edge.from != edge.to {
                        self.activate(edge.from.index());
                        self.activate(to);
                        let fresh = edge.per_second.min(MOST_TRAFFIC) * weight(self.known[to] > 0);
                        let fresh = fresh as f32;
                        left -= self.tie(edge.to, edge.from, |tie| tie.received += fresh);
                        left -= self.tie(edge.from, edge.to, |tie| tie.sent += fresh);
                    }
                }
                Stage::Forget if at == self.active.len() => self.enter(Stage::Sum),
                Stage::Forget => {
                    let ties = &mut self.ties[self.active[at] as usize];
                    ties.retain(|tie| tie.rate() > LEAST_TRAFFIC);
                    left -= ties.len() as isize / 16;
                }
                Stage::Sum if at == self.active.len() => {
                    self.totals[0] += self.resting;
                    self.enter(Stage::SumNew);
                }
                Stage::Sum => self.totals[0] += self.loads[self.active[at] as usize],
                Stage::SumNew if at == view.used().len() => {
                    let longest = (view.worker_windows().iter().max()).copied();
                    self.pass(longest.is_some_and(is_long));
                    self.enter(Stage::Load);
                }
                Stage::SumNew => {
                    let demand = view.used()[at].1.demand;
                    self.totals[1] += if demand.is_finite() { demand } else { 0.0 };
                }
                Stage::Load if at == self.active.len() => {
                    self.windows = PATIENCE.min(self.windows + 1);
                    if self.passing.windows != self.passed.windows {
                        self.unknown = self.unknown_used;
                    }
                    self.passed = self.passing;
                    self.enter(Stage::Done);
                }
                Stage::Load => {
                    let shard = self.active[at] as usize;
                    let is_idle = view.load(ShardId::from_index(shard)).is_none();
                    self.take_in(shard, measured(shard), is_idle);
                }
                Stage::Done => return Some(self.windows == PATIENCE || self.unknown == 0),
            }
        }
        None
    }

    /// Counts the window, if idle shards were measured in it.
    fn pass(&mut self, is_measured: bool) {
        self.passing = self.passed;
        self.unknown_used = 0;
        if is_measured {
            self.passing.windows += 1;
            self.passing.loaded += u64::from(self.is_loaded());
            self.resting *= 1.0 - NEWEST;
        }
        self.totals[2] = self.resting;
    }

    /// Returns whether the window had enough load to compare shares.
    fn is_loaded(&self) -> bool {
        self.totals[1] > self.totals[0] * QUIET
    }

    /// Makes a shard active, and adds the windows in which it rested.
    fn activate(&mut self, shard: usize) {
        if self.is_active(shard) {
            return;
        }
        self.places[shard] = self.active.len() as u32;
        self.active.push(shard as u32);
        let (seen, passed) = (self.seen[shard], self.passed);
        // Saturating: a shard may have seen a window whose decision was given up half-way.
        let windows = passed.windows.saturating_sub(seen.windows);
        let loaded = passed.loaded.saturating_sub(seen.loaded);
        // It was measured, as a shard without load.
        let counted = self.known[shard].saturating_sub(1);
        let all = loaded.saturating_add(counted.into()).min(STEADY.into()) as u8;
        if windows > 0 {
            self.known[shard] = 1 + all;
        }
        if loaded > 0 {
            self.last[shard] = 0.0;
        }
        if self.loads[shard] > 0.0 {
            let halved = (1.0 - NEWEST).powi(windows.min(MOST_HALVINGS) as i32);
            self.loads[shard] *= halved;
            self.recent[shard] *= halved;
            if loaded > 0 {
                let later = loaded - u64::from(all - counted);
                let later = (1.0 - USUAL).powi(later.min(MOST_HALVINGS) as i32);
                self.steady[shard] *= later * f64::from(counted) / f64::from(all);
            }
            let loaded = loaded.min(MOST_HALVINGS) as i32;
            let usual = self.usual[shard] * (1.0 - USUAL).powi(loaded);
            self.usual[shard] = usual.max(LEAST_NOISE);
            self.resting = (self.resting - self.loads[shard]).max(0.0);
        }
        self.seen[shard] = passed;
    }

    /// Adds the window of the active shard before `at`. The shard rests if it is idle and has about
    /// no load and no ties.
    fn take_in(&mut self, shard: usize, measured: Option<f64>, is_idle: bool) {
        if let Some(demand) = measured {
            self.take_load(shard, demand);
        } else if self.known[shard] == 0 {
            self.unknown_used += 1;
        }
        self.seen[shard] = self.passing;
        let is_light = self.loads[shard] < LEAST_LOAD && self.ties[shard].is_empty();
        if is_idle && is_light && measured.is_some() {
            self.at -= 1;
            self.active.swap_remove(self.at);
            if let Some(&moved) = self.active.get(self.at) {
                self.places[moved as usize] = self.at as u32;
            }
            self.resting += self.loads[shard];
            self.totals[2] += self.loads[shard];
            self.figures[shard] = Figure::default();
        } else {
            self.figures[shard] = self.figure(shard);
            self.totals[2] += self.figures[shard].load;
        }
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.at) = (stage, 0);
    }

    /// Adds to the tie of a shard to another one; returns the units that it took beyond one.
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
        let is_loaded = self.is_loaded();
        let [old_total, new_total, _] = self.totals;
        let load = &mut self.loads[shard];
        let was_known = self.known[shard] > 0;
        let counted = self.known[shard].saturating_sub(1) + u8::from(is_loaded);
        self.known[shard] = 1 + counted.min(STEADY);
        let mut strayed = 0.0;
        if is_loaded {
            let share = fresh / new_total;
            let last = core::mem::replace(&mut self.last[shard], share);
            strayed = (share - last).abs() * old_total * TO_MEAN;
            let steady = &mut self.steady[shard];
            *steady += (share - *steady) / f64::from(counted.min(STEADY));
        }
        if !was_known {
            self.unknown = self.unknown.saturating_sub(1);
            self.recent[shard] = fresh * FIRST_NOISE;
            *load = fresh;
            return;
        }
        self.recent[shard] += (strayed - self.recent[shard]) * NEWEST;
        if is_loaded && *load > 0.0 {
            let usual = &mut self.usual[shard];
            let most = OUTLIER * usual.max(FIRST_NOISE);
            *usual += ((strayed / *load).min(most) - *usual) * USUAL;
            *usual = usual.max(LEAST_NOISE);
        }
        *load += (fresh - *load) * NEWEST;
    }

    /// Returns the load of a shard that counts, and its noise.
    fn figure(&self, shard: usize) -> Figure {
        let [old_total, new_total, _] = self.totals;
        let total = old_total + (new_total - old_total) * NEWEST;
        let (load, steady) = (self.loads[shard], self.steady[shard] * total);
        let noise = self.recent[shard].max(self.usual[shard] * load);
        match self.known[shard] > STEADY && (load - steady).abs() <= noise {
            // If successive windows are alike, their differences hide how far this mean is off.
            true => Figure {
                load: steady,
                noise: (noise * STEADY_NOISE).hypot(load - steady),
            },
            false => Figure { load, noise },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::WorkerId;

    const WINDOW: Nanos = Nanos::from_millis(10);

    /// Takes a view of two shards in.
    fn update(rates: &mut Rates, view: &LoadView) -> Option<bool> {
        let current = Assignment::round_robin(view.shards(), view.workers());
        rates.begin(view.shards());
        rates.update(view, &current, WINDOW, usize::MAX / 2)
    }

    #[test]
    fn a_step_is_noise_once() {
        let mut rates = Rates::default();
        let mut noise = Vec::new();
        for (one, other) in [(0.8, 0.2), (0.2, 0.8), (0.2, 0.8), (0.2, 0.8), (0.2, 0.8)] {
            let mut view = LoadView::new(2, 2);
            view.set(ShardId(0), one, WINDOW);
            view.set(ShardId(1), other, WINDOW);
            assert_eq!(update(&mut rates, &view), Some(true));
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
            assert_eq!(update(&mut rates, &view), Some(true));
            let noise = rates.recent[0].max(rates.usual[0] * rates.loads[0]);
            (noise / rates.loads[0], rates.usual[0])
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
            let current = Assignment::round_robin(2, 2);
            let step = || rates.update(view, &current, Nanos::from_millis(1), 1);
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

    #[test]
    fn a_figure_that_is_no_number_leaves_those_of_other_shards() {
        let mut noise = Vec::new();
        for odd in [0.0, f64::NAN, f64::INFINITY] {
            let mut rates = Rates::default();
            for one in [0.8, 0.2, 0.5, 0.9, 0.4] {
                let mut view = LoadView::new(2, 3);
                view.set(ShardId(0), one, WINDOW);
                view.set(ShardId(1), 1.0 - one, WINDOW);
                view.set(ShardId(2), odd, WINDOW);
                update(&mut rates, &view);
            }
            noise.push((rates.recent[0], rates.usual[0], rates.steady[0]));
        }
        assert_eq!(noise, [noise[0]; 3]);
    }

    #[test]
    fn an_idle_shard_of_a_worker_with_a_short_window_stays_unknown() {
        const SHORT: Nanos = Nanos::from_nanos(1);
        let mut rates = Rates::default();
        let mut view = LoadView::new(2, 2);
        view.set(ShardId(1), 0.0, SHORT);
        for (window, is_known) in [(SHORT, false), (SHORT, false), (WINDOW, true)] {
            view.set(ShardId(0), 0.5, WINDOW);
            view.set_worker_window(WorkerId(0), WINDOW);
            view.set_worker_window(WorkerId(1), window);
            assert_eq!(update(&mut rates, &view), Some(is_known));
            // Shard 1 is idle from here on.
            view.clear();
        }
    }

    /// The same rates by going through all shards in each window.
    struct Naive {
        loads: Vec<f64>,
        steady: Vec<f64>,
        recent: Vec<f64>,
        usual: Vec<f64>,
        last: Vec<f64>,
        known: Vec<u32>,
    }

    impl Naive {
        fn new(shards: usize) -> Self {
            Self {
                loads: std::vec![0.0; shards],
                steady: std::vec![0.0; shards],
                recent: std::vec![0.0; shards],
                usual: std::vec![FIRST_NOISE; shards],
                last: std::vec![0.0; shards],
                known: std::vec![0; shards],
            }
        }

        /// Returns the load of a shard that counts. `total` is the mean of what the loads were and
        /// of what the window measured.
        fn figure(&self, shard: usize, total: f64) -> f64 {
            let (load, steady) = (self.loads[shard], self.steady[shard] * total);
            let noise = self.recent[shard].max(self.usual[shard] * load);
            let is_steady = self.known[shard] > 8 && (load - steady).abs() <= noise;
            if is_steady { steady } else { load }
        }

        /// Takes in what a window measured, by shard.
        fn take_in(&mut self, measured: &[Option<f64>], total: f64) {
            let old_total: f64 = self.loads.iter().sum();
            for (shard, &fresh) in measured.iter().enumerate() {
                let Some(fresh) = fresh else {
                    continue;
                };
                let is_first = self.known[shard] == 0;
                self.known[shard] = self.known[shard].max(1);
                let is_loaded = total > old_total * QUIET;
                let share = fresh / total;
                let last = self.last[shard];
                if is_loaded {
                    self.last[shard] = share;
                    let windows = self.known[shard].min(8);
                    self.known[shard] += 1;
                    self.steady[shard] += (share - self.steady[shard]) / f64::from(windows);
                }
                if is_first {
                    self.recent[shard] = fresh * FIRST_NOISE;
                    self.loads[shard] = fresh;
                    continue;
                }
                let load = self.loads[shard];
                if is_loaded {
                    let strayed = (share - last).abs() * old_total * TO_MEAN;
                    self.recent[shard] = (self.recent[shard] + strayed) / 2.0;
                    if load > 0.0 {
                        let usual = self.usual[shard];
                        let most = OUTLIER * usual.max(FIRST_NOISE);
                        let usual = usual + ((strayed / load).min(most) - usual) * USUAL;
                        self.usual[shard] = usual.max(LEAST_NOISE);
                    }
                } else {
                    self.recent[shard] /= 2.0;
                }
                self.loads[shard] = (load + fresh) / 2.0;
            }
        }
    }

    /// Asserts that two figures are equal, except for rounding.
    fn assert_near(one: f64, other: f64, what: &str) {
        let apart = (one - other).abs();
        assert!(
            apart <= 1e-9 * one.abs().max(other.abs()) + 1e-12,
            "{what}: {one} and {other}"
        );
    }

    /// Uses random shards in windows of random lengths, and compares with going through all.
    fn compare_with_naive(shards: usize, windows: usize, seed: u64) {
        use crate::primitive::Random;
        std::println!("{shards} shards, seed {seed:#x}");
        let mut random = Random::new(seed);
        let current = Assignment::round_robin(shards, 2);
        let (mut rates, mut naive) = (Rates::default(), Naive::new(shards));
        let mut view = LoadView::new(2, shards);
        for window in 0..windows {
            view.clear();
            let is_short = random.below(8) == 0;
            let length = match is_short {
                true => Nanos::from_nanos(1),
                false => WINDOW,
            };
            for worker in [0, 1].map(WorkerId) {
                view.set_worker_window(worker, length);
            }
            // None at all, a few that come again and again, or any.
            let (count, below) = match random.below(6) {
                0 => (0, 1),
                1..=3 => (1 + random.below(8), shards.min(10)),
                _ => (1 + random.below(20), shards),
            };
            let mut measured = std::vec![(!is_short).then_some(0.0); shards];
            for _ in 0..count {
                let shard = random.below(below);
                // A shard that came late has a window of its own.
                let is_late = random.below(5) == 0;
                let own = if is_late {
                    Nanos::from_nanos(1)
                } else {
                    length
                };
                let demand = random.fraction();
                view.set(ShardId::from_index(shard), demand, own);
                measured[shard] = (own >= WINDOW).then_some(demand);
            }
            let total = view.used().iter().map(|(_, load)| load.demand).sum();
            let before: f64 = naive.loads.iter().sum();
            naive.take_in(&measured, total);
            rates.begin(shards);
            let budget = 1 + random.below(1_000);
            let update = || rates.update(&view, &current, WINDOW, budget);
            let is_known = core::iter::repeat_with(update).find_map(|done| done);
            let all_known = naive.known.iter().all(|&known| known > 0);
            let is_patient = window + 1 >= PATIENCE as usize;
            assert_eq!(is_known, Some(all_known || is_patient), "window {window}");
            let figures = (0..shards).map(|shard| match rates.is_active(shard) {
                true => naive.figure(shard, (before + total) / 2.0),
                false => naive.loads[shard],
            });
            assert_near(rates.total(), figures.sum(), "the sum");
            for shard in 0..shards {
                // What is left of a resting shard is less than what makes one active.
                let is_resting = !rates.is_active(shard);
                assert!(!is_resting || naive.loads[shard] < LEAST_LOAD);
            }
        }
        assert!(
            rates.active().len() < 400.min(shards + 1),
            "{} active shards",
            rates.active().len()
        );
        for shard in 0..shards {
            rates.activate(shard);
            assert_near(rates.loads[shard], naive.loads[shard], "a load");
            assert_near(rates.steady[shard], naive.steady[shard], "a steady load");
            assert_near(rates.recent[shard], naive.recent[shard], "new noise");
            assert_near(rates.usual[shard], naive.usual[shard], "usual noise");
        }
    }

    #[test]
    fn lazy_rates_equal_those_of_a_model_that_goes_through_all() {
        for seed in 1..=100 {
            compare_with_naive(10, 120, seed);
        }
        for seed in 1..=3 {
            compare_with_naive(10_000, 120, seed);
        }
        compare_with_naive(100_000, 60, 7);
    }
}
