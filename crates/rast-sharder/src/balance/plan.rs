//! A decision of `Greedy`, made in steps of bounded work.
//!
//! ```text
//!   Grow ─→ Gather ─→ Reset ─→ Pin ─→ Sort ─→ Now ─→ Place ─→ Link ─→ Overlap ─→ Heap ─→ Label
//!   once    heavy     workers         by       │     │                                    │
//!           shards                    load     Idle  └ groups                     Count ←─┘
//!                                              Moves ←─ Done ←─ Then ←──────────────┘
//! ```
//!
//! All stages except the first visit only the active shards (those used recently). A shard that is
//! not active keeps its owner, and has no tie to an active one (no traffic with it). In the lists
//! that are indexed by shard, the entries of inactive shards are old; no step reads them.
//!
//! A *group* is the set of shards planned for one worker. Each placement of a shard chooses among
//! three candidates instead of all unplaced shards, so it costs O(log shards), plus one step for
//! each tie of the placed shard:
//!
//! 1. the shard with the strongest tie to the group, from a heap. A shard that does not fit is
//!    removed from the heap, because the room of a group only shrinks;
//! 2. the heaviest shard that fits and whose current owner is the group's worker, from a list that
//!    is traversed once;
//! 3. the heaviest shard that fits, found by a binary search, and by links that skip the shards
//!    already placed.
//!
//! The lists keep their memory between decisions. Fresh memory costs a page fault for every 4 KiB,
//! and a list of all shards takes many pages. So a step writes only a bounded part of such a list.

use core::ops::Range;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::vec::Vec;

use super::rates::{Figure, Rates, Tie};
use crate::assignment::{Assignment, Move};
use crate::ids::{ShardId, WorkerId};
use crate::load::LoadView;

/// While no worker is busier than this, there is nothing to gain.
const LEAST_BUSY: f64 = 0.02;

/// Shards lighter than this share of the average stay where they are.
const LEAST_SHARE: f64 = 1e-3;

/// No group yet.
const NOWHERE: u16 = u16::MAX;

/// A number with an order, above a rank: the greatest number first, then the least rank.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Worth(f64, Reverse<u32>);

impl Eq for Worth {}

impl PartialOrd for Worth {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Worth {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

/// No shard.
const NONE: u32 = u32::MAX;

/// What is done to the item at `Plan::at`, until there is none.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    /// Memory is taken for the figures of a shard, in the first decision.
    #[default]
    Grow,
    /// Figures of a shard are set to their start; heavy shards go to the heap.
    Gather,
    /// Figures of a worker are set to their start.
    Reset,
    /// A shard goes to its group if it is pinned.
    Pin,
    Sort,
    Now,
    Place,
    /// A shard is linked to the others of its group.
    Link,
    /// A shard of a group is counted for its owner.
    Overlap,
    Heap,
    Label,
    /// Shards that move are counted.
    Count,
    Then,
    /// Shards that move are listed, once the plan was found to be worth it.
    Moves,
}

/// What a step left.
#[derive(Clone, Copy, Debug)]
pub(super) enum Planned {
    /// There is more to do.
    More,
    /// There is nothing to gain.
    Idle,
    /// The plan is made.
    Done(Verdict),
}

/// A plan compared with the current assignment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    pub(super) moved: usize,
    /// The load that each worker should have.
    pub(super) average: f64,
    /// The load of the busiest worker that is not dedicated, crossings included, and the variance
    /// of its load.
    pub(super) now: (f64, f64),
    pub(super) then: (f64, f64),
}

/// Loads of workers, crossings included, and their variances.
type Costs = Vec<(f64, f64)>;

/// An assignment whose costs are summed.
#[derive(Clone, Copy, Debug)]
enum Which {
    Now,
    Then,
}

/// Shards in order, linked by `Plan::next`.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// A decision under way: shards are put into one group per worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    stage: Stage,
    at: usize,
    average: f64,
    /// What keeping one shard is worth.
    stay: f64,
    /// Seconds that a message costs more when it crosses.
    penalty: f64,
    heap: BinaryHeap<Worth>,
    /// The heavy shards and their loads, the heaviest first. A rank is a place in this list.
    order: Vec<(f64, u32)>,
    rank: Vec<u32>,
    /// By rank: the next rank at or after it that is not placed, or nearer to that.
    links: Vec<u32>,
    /// By shard: the next one in its list of `homes` or `pinned`; no shard is in both. Once all are
    /// placed: the next one in its list of `members`.
    next: Vec<u32>,
    /// By group: the heavy shards at home there that were not passed, the heaviest first.
    homes: Vec<List>,
    /// By group: the first of the pinned shards whose ties are to be added to `passing`.
    pinned: Vec<u32>,
    /// The group of each shard, or `NOWHERE`. Pinned shards are in that of their worker from the
    /// start, and such a group has the label of its worker.
    group: Vec<u16>,
    /// Loads of the groups; infinite for the group of a dedicated worker, which has its number.
    sums: Vec<f64>,
    /// The group being filled, if any.
    filling: Option<u16>,
    filled: Vec<bool>,
    /// By shard: its ties to a group, and which one.
    passing: Vec<(f64, u16)>,
    /// The shard placed last, and those of its ties that are to be added to `passing`.
    spread: (usize, Range<usize>),
    /// By group: the first of its shards that are not counted in `overlaps`.
    members: Vec<u32>,
    /// How many shards of an owner are in a group, group by group.
    overlaps: Vec<((u16, u16), u32)>,
    /// By owner: its place in `overlaps`, if that entry names the owner and the group.
    overlap_at: Vec<u32>,
    label: Vec<u16>,
    taken: Vec<bool>,
    moved: usize,
    moves: Vec<Move>,
    now: Costs,
    then: Costs,
}

impl Plan {
    /// Begins a decision.
    pub(super) fn begin(
        &mut self,
        rates: &Rates,
        penalty: f64,
        charge: f64,
        current: &Assignment,
        view: &LoadView,
    ) {
        let shards = current.shards();
        self.average = rates.total() / shared_workers(view).max(1) as f64;
        self.stay = charge * self.average / shards as f64;
        self.penalty = penalty;
        let active = rates.active().len();
        self.heap.clear();
        self.heap.reserve(active);
        self.order.clear();
        self.order.reserve(active);
        self.links.clear();
        self.links.reserve(active + 1);
        if self.passing.len() != shards {
            restart(&mut self.rank, shards);
            restart(&mut self.next, shards);
            restart(&mut self.group, shards);
            restart(&mut self.passing, shards);
        }
        (self.stage, self.at) = (Stage::Grow, self.passing.len());
        for list in [&mut self.now, &mut self.then] {
            list.clear();
        }
        self.homes.clear();
        self.pinned.clear();
        self.sums.clear();
        self.filled.clear();
        self.label.clear();
        self.taken.clear();
        self.members.clear();
        self.overlaps.clear();
        self.overlap_at.clear();
        self.moves.clear();
        (self.filling, self.spread, self.moved) = (None, (0, 0..0), 0);
    }

    /// Lists the moves of a plan that is made, for about `budget` units. Returns `None` until all
    /// are listed.
    pub(super) fn moves(
        &mut self,
        rates: &Rates,
        current: &Assignment,
        budget: usize,
    ) -> Option<Vec<Move>> {
        if !matches!(self.stage, Stage::Moves) {
            self.enter(Stage::Moves);
            self.moves.reserve_exact(self.moved);
        }
        let active = rates.active();
        let end = active.len().min(self.at.saturating_add(budget));
        for &shard in &active[self.at..end] {
            let to = self.next_owner(shard as usize, current);
            if to != current.owners()[shard as usize] {
                let shard = ShardId(shard);
                self.moves.push(Move { shard, to });
            }
        }
        self.at = end;
        (end == active.len()).then(|| core::mem::take(&mut self.moves))
    }

    /// Returns the owner of an active shard in the plan.
    fn next_owner(&self, shard: usize, current: &Assignment) -> WorkerId {
        match self.group[shard] {
            NOWHERE => current.owners()[shard],
            group => WorkerId(self.label[usize::from(group)]),
        }
    }

    /// Works for about `budget` units, each of which takes less than about 0.2 µs.
    pub(super) fn step(
        &mut self,
        rates: &Rates,
        current: &Assignment,
        view: &LoadView,
        budget: usize,
    ) -> Planned {
        let (shards, workers) = (current.shards(), current.workers());
        let active = rates.active();
        let mut left = budget as isize;
        while left > 0 {
            let at = self.at;
            self.at += 1;
            left -= 1;
            match self.stage {
                Stage::Grow if at == shards => self.enter(Stage::Gather),
                Stage::Grow => {
                    self.rank.push(NONE);
                    self.next.push(NONE);
                    self.group.push(NOWHERE);
                    self.passing.push((0.0, NOWHERE));
                }
                Stage::Gather if at == active.len() => self.enter(Stage::Reset),
                Stage::Gather => self.gather_one(active[at] as usize, rates),
                Stage::Reset if at == workers => self.enter(match view.pins().is_empty() {
                    true => Stage::Sort,
                    false => Stage::Pin,
                }),
                Stage::Reset => self.reset_one(WorkerId::from_index(at), view),
                Stage::Pin if at == active.len() => self.enter(Stage::Sort),
                Stage::Pin => {
                    let shard = ShardId(active[at]);
                    if let Some(worker) = view.pin_of(shard) {
                        self.pin_one((shard, worker), rates);
                    }
                }
                Stage::Sort => {
                    self.sort_one(current);
                    left -= 1;
                }
                Stage::Now if at == active.len() => {
                    if self.now.iter().all(|&(cost, _)| cost <= LEAST_BUSY) {
                        return Planned::Idle;
                    }
                    self.heap.clear();
                    self.enter(Stage::Place);
                }
                Stage::Now => {
                    let shard = active[at] as usize;
                    let owner_of = |shard: usize| current.owners()[shard];
                    let (cost, variance) = self.cost(rates, shard, owner_of);
                    self.add_cost(Which::Now, owner_of(shard), cost, variance);
                    left -= rates.ties[shard].len() as isize / 8;
                }
                Stage::Place => left -= self.place(rates, current),
                Stage::Link if at == active.len() => self.enter(Stage::Overlap),
                Stage::Link => self.link_one(active[at]),
                Stage::Overlap if at == workers => self.enter(Stage::Heap),
                Stage::Overlap => self.overlap_one(at, current),
                Stage::Heap if at == self.overlaps.len() => self.enter(Stage::Label),
                Stage::Heap => {
                    let count = f64::from(self.overlaps[at].1);
                    self.heap.push(Worth(count, Reverse(at as u32)));
                }
                Stage::Label => self.label_one(),
                Stage::Count if at == active.len() => self.enter(Stage::Then),
                Stage::Count => {
                    let shard = active[at] as usize;
                    let moves = self.next_owner(shard, current) != current.owners()[shard];
                    self.moved += usize::from(moves);
                }
                Stage::Then if at == active.len() => return Planned::Done(self.verdict()),
                Stage::Then => {
                    let shard = active[at] as usize;
                    let owner_of = |shard: usize| self.next_owner(shard, current);
                    let (cost, variance) = self.cost(rates, shard, owner_of);
                    let owner = owner_of(shard);
                    self.add_cost(Which::Then, owner, cost, variance);
                    left -= rates.ties[shard].len() as isize / 8;
                }
                Stage::Moves => unreachable!("a plan that is made has no more steps"),
            }
        }
        Planned::More
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.at) = (stage, 0);
    }

    fn gather_one(&mut self, shard: usize, rates: &Rates) {
        self.rank[shard] = NONE;
        self.next[shard] = NONE;
        self.group[shard] = NOWHERE;
        self.passing[shard] = (0.0, NOWHERE);
        let load = rates.figures[shard].load;
        if load > self.average * LEAST_SHARE {
            self.heap.push(Worth(load, Reverse(shard as u32)));
        }
    }

    fn reset_one(&mut self, worker: WorkerId, view: &LoadView) {
        // A dedicated worker has a group of its own, which is full.
        let is_dedicated = view.is_dedicated(worker);
        self.homes.push(List {
            first: NONE,
            last: NONE,
        });
        self.pinned.push(NONE);
        self.members.push(NONE);
        self.overlap_at.push(0);
        self.sums
            .push(if is_dedicated { f64::INFINITY } else { 0.0 });
        self.filled.push(is_dedicated);
        self.label
            .push(if is_dedicated { worker.0 } else { NOWHERE });
        self.taken.push(is_dedicated);
        self.now.push((0.0, 0.0));
        self.then.push((0.0, 0.0));
    }

    fn pin_one(&mut self, (shard, worker): (ShardId, WorkerId), rates: &Rates) {
        let (at, group) = (shard.index(), worker.index());
        if self.group[at] != NOWHERE {
            return;
        }
        self.group[at] = worker.0;
        self.sums[group] += rates.figures[at].load;
        self.next[at] = core::mem::replace(&mut self.pinned[group], shard.0);
        (self.label[group], self.taken[group]) = (worker.0, true);
    }

    fn sort_one(&mut self, current: &Assignment) {
        let rank = self.order.len() as u32;
        let Some(Worth(load, Reverse(shard))) = self.heap.pop() else {
            self.links.push(rank);
            return self.enter(Stage::Now);
        };
        let at = shard as usize;
        if self.group[at] != NOWHERE {
            return;
        }
        self.links.push(rank);
        self.order.push((load, shard));
        self.rank[at] = rank;
        let home = &mut self.homes[current.owners()[at].index()];
        match home.last {
            NONE => home.first = shard,
            last => self.next[last as usize] = shard,
        }
        home.last = shard;
    }

    /// Adds what a shard costs its owner. The cost of a dedicated worker is zero: no plan changes
    /// it, so it must not be the cost of the busiest worker.
    fn add_cost(&mut self, which: Which, owner: WorkerId, cost: f64, variance: f64) {
        let at = owner.index();
        if self.sums[at].is_infinite() {
            return;
        }
        let sums = match which {
            Which::Now => &mut self.now[at],
            Which::Then => &mut self.then[at],
        };
        sums.0 += cost;
        sums.1 += variance;
    }

    /// Returns what a shard costs its owner, crossings included, and the variance of that.
    fn cost(
        &self,
        rates: &Rates,
        shard: usize,
        owner_of: impl Fn(usize) -> WorkerId,
    ) -> (f64, f64) {
        let owner = owner_of(shard);
        let ties = rates.ties[shard].iter();
        let apart = ties.filter(|tie| owner_of(tie.other as usize) != owner);
        let cut: f64 = apart.map(|tie| tie.rate() * self.penalty).sum();
        let Figure { load, noise } = rates.figures[shard];
        (load + cut, noise.powi(2))
    }

    /// Returns the first rank from `rank` on that waits; the number of ranks if there is none.
    fn waiting(&mut self, rank: usize) -> usize {
        let mut at = rank;
        while self.links[at] as usize != at {
            let next = self.links[at] as usize;
            self.links[at] = self.links[next];
            at = self.links[at] as usize;
        }
        at
    }

    /// Does one step of placing; returns the units that it took beyond one.
    fn place(&mut self, rates: &Rates, current: &Assignment) -> isize {
        if let Some(at) = self.spread.1.next() {
            self.spread_one(rates.ties[self.spread.0][at], rates, current);
            return 0;
        }
        let heaviest = self.waiting(0);
        if heaviest == self.order.len() {
            self.heap.clear();
            // So that the list never grows, which would take long. Pinned shards add at most one
            // pair for each worker.
            let workers = self.sums.len();
            let pairs = (self.order.len() + workers).min(workers * workers);
            self.overlaps.reserve(pairs);
            self.enter(Stage::Link);
            return 0;
        }
        let workers = self.sums.len() as isize;
        let Some(group) = self.filling.or_else(|| self.next_group(heaviest, current)) else {
            let least = (0..self.sums.len()).min_by(|&a, &b| self.sums[a].total_cmp(&self.sums[b]));
            self.put(heaviest, least.unwrap_or(0) as u16, rates);
            return workers / 64;
        };
        self.filling = Some(group);
        let pinned = &mut self.pinned[usize::from(group)];
        if *pinned != NONE {
            let shard = *pinned as usize;
            *pinned = self.next[shard];
            self.spread = (shard, 0..rates.ties[shard].len());
            return 1;
        }
        let sum = self.sums[usize::from(group)];
        if sum == 0.0 && self.order[heaviest].0 > self.average {
            self.put(heaviest, group, rates);
            return 1;
        }
        let room = self.average - sum;
        if self.pass_one(group, room) {
            return 0;
        }
        match self.choose(group, room) {
            Some(rank) => self.put(rank, group, rates),
            None => {
                self.filled[usize::from(group)] = true;
                self.filling = None;
                self.heap.clear();
            }
        }
        2
    }

    /// The group to fill next: the home of the heaviest shard that waits, if it is not filled yet,
    /// else the first group that is not.
    fn next_group(&self, heaviest: usize, current: &Assignment) -> Option<u16> {
        let home = current.owners()[self.order[heaviest].1 as usize].0;
        if !self.filled[usize::from(home)] {
            return Some(home);
        }
        let at = self.filled.iter().position(|filled| !filled)?;
        Some(at as u16)
    }

    /// Drops the first candidate of the heap, and that of the list of the group's home, if it was
    /// placed or does not fit; returns whether one was dropped.
    fn pass_one(&mut self, group: u16, room: f64) -> bool {
        let mut is_passed = false;
        let home = &mut self.homes[usize::from(group)];
        if home.first != NONE {
            let shard = home.first as usize;
            let (load, _) = self.order[self.rank[shard] as usize];
            if self.group[shard] != NOWHERE || load > room {
                home.first = self.next[shard];
                is_passed = true;
            }
        }
        if let Some(&Worth(worth, Reverse(rank))) = self.heap.peek() {
            let (load, shard) = self.order[rank as usize];
            let shard = shard as usize;
            // One that was pushed again has more worth there.
            let is_old = self.group[shard] != NOWHERE || self.passing[shard].0 > worth;
            if is_old || load > room {
                self.heap.pop();
                is_passed = true;
            }
        }
        is_passed
    }

    /// Chooses a waiting shard for `group`, by its rank; the first candidates fit.
    fn choose(&mut self, group: u16, room: f64) -> Option<usize> {
        // 3.
        let fits = self.order.partition_point(|&(load, _)| load > room);
        let fits = self.waiting(fits);
        if fits == self.order.len() {
            return None;
        }
        let mut best = Worth(0.0, Reverse(fits as u32));
        // 2.
        let home = self.homes[usize::from(group)].first;
        if home != NONE {
            best = best.max(Worth(self.stay, Reverse(self.rank[home as usize])));
        }
        // 1.
        if let Some(&top) = self.heap.peek() {
            best = best.max(top);
        }
        Some(best.1.0 as usize)
    }

    fn put(&mut self, rank: usize, group: u16, rates: &Rates) {
        let (load, shard) = self.order[rank];
        let shard = shard as usize;
        self.links[rank] = self.waiting(rank + 1) as u32;
        self.group[shard] = group;
        self.sums[usize::from(group)] += load;
        if self.filling.is_some() {
            self.spread = (shard, 0..rates.ties[shard].len());
        }
    }

    /// Adds a tie of the shard placed last to the worth of the shard at its other end.
    fn spread_one(&mut self, tie: Tie, rates: &Rates, current: &Assignment) {
        let other = tie.other as usize;
        debug_assert!(rates.is_active(other), "both shards of a tie are active");
        let Some(group) = self.filling else {
            return;
        };
        let rank = self.rank[other];
        if self.group[other] != NOWHERE || rank == NONE {
            return;
        }
        let passing = &mut self.passing[other];
        if passing.1 != group {
            let at_home = current.owners()[other].0 == group;
            *passing = (if at_home { self.stay } else { 0.0 }, group);
        }
        passing.0 += tie.rate() * self.penalty;
        self.heap.push(Worth(passing.0, Reverse(rank)));
    }

    fn link_one(&mut self, shard: u32) {
        let group = self.group[shard as usize];
        if group != NOWHERE {
            let first = &mut self.members[usize::from(group)];
            self.next[shard as usize] = core::mem::replace(first, shard);
        }
    }

    /// Counts the next shard of a group for its owner, and stays at the group until all its shards
    /// are counted.
    ///
    /// All counts of one group are made one after the other, so one table indexed by owner is
    /// enough. A hash table by pairs of group and owner would cost a page fault for nearly each new
    /// pair in the first decision.
    fn overlap_one(&mut self, group: usize, current: &Assignment) {
        let shard = self.members[group] as usize;
        if shard == NONE as usize {
            return;
        }
        self.at = group;
        self.members[group] = self.next[shard];
        let owner = current.owners()[shard];
        let pair = (group as u16, owner.0);
        let at = &mut self.overlap_at[owner.index()];
        match self.overlaps.get_mut(*at as usize) {
            Some((named, count)) if *named == pair => *count += 1,
            _ => {
                *at = self.overlaps.len() as u32;
                self.overlaps.push((pair, 1));
            }
        }
    }

    /// Assigns the group to the worker with which it shares most shards, if both are free.
    fn label_one(&mut self) {
        let Some(Worth(_, Reverse(at))) = self.heap.pop() else {
            let mut rest = (0..self.taken.len()).filter(|&worker| !self.taken[worker]);
            for label in self.label.iter_mut().filter(|label| **label == NOWHERE) {
                let worker = rest.next().expect("there are as many workers as groups");
                *label = worker as u16;
            }
            return self.enter(Stage::Count);
        };
        let (group, owner) = self.overlaps[at as usize].0;
        let label = &mut self.label[usize::from(group)];
        if *label == NOWHERE && !self.taken[usize::from(owner)] {
            *label = owner;
            self.taken[usize::from(owner)] = true;
        }
    }

    fn verdict(&self) -> Verdict {
        let busiest = |costs: &Costs| {
            let busiest = costs.iter().max_by(|a, b| a.0.total_cmp(&b.0));
            busiest.copied().unwrap_or_default()
        };
        Verdict {
            moved: self.moved,
            average: self.average,
            now: busiest(&self.now),
            then: busiest(&self.then),
        }
    }
}

/// Returns the number of workers that take part in decisions.
pub(super) fn shared_workers(view: &LoadView) -> usize {
    view.workers() - view.dedicated().len()
}

/// Empties a list and gives it room.
fn restart<T>(list: &mut Vec<T>, room: usize) {
    list.clear();
    list.reserve_exact(room);
}
