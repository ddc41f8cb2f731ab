//! A decision of `Greedy` under way, in steps of bounded work.
//!
//! ```text
//!   Gather ─→ Sort ─→ Count ─→ Sum ─→ Fill ─→ Now ─→ Place ─→ Overlap ─→ Heap ─→ Label
//!   heavy     by      └─ ties of each shard ─┘  │     │                            │
//!   shards    load                    idle: Keep      └ groups            Owners ←─┘
//!                                                     Adopt or Keep ←─ Then ←─┘
//! ```
//!
//! Each placement chooses among three candidates instead of all shards that wait, so it costs
//! O(log shards) and its ties:
//!
//! 1. the shard with the strongest tie to the group, from a heap. A shard that does not fit is
//!    dropped from it, because a group's room only shrinks;
//! 2. the heaviest shard at home in the group that fits, from a list that is gone through once;
//! 3. the heaviest shard that fits, by a binary search and links past those that are placed.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::vec::Vec;

use hashbrown::HashMap;

use super::rates::Rates;
use crate::assignment::Assignment;
use crate::ids::{ShardId, WorkerId};

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

/// What is done to the item at `Plan::at`, until there is none.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Gather,
    Sort,
    Count,
    Sum,
    Fill,
    Now,
    Place,
    Overlap,
    Heap,
    Label,
    Owners,
    Then,
}

/// What a step left.
#[derive(Debug)]
pub(super) enum Planned {
    /// There is more to do.
    More,
    /// There is nothing to gain.
    Idle,
    /// The plan is made.
    Done(Verdict),
}

/// A plan beside what is.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) owners: Vec<WorkerId>,
    pub(super) moved: usize,
    /// The load that each worker should have.
    pub(super) average: f64,
    /// The load of the busiest worker, crossings included, and the variance of its load.
    pub(super) now: (f64, f64),
    pub(super) then: (f64, f64),
}

/// Loads of workers, crossings included, and their variances.
type Costs = Vec<(f64, f64)>;

/// A decision under way: shards are put into one group per worker.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    stage: Stage,
    at: usize,
    average: f64,
    /// What keeping one shard is worth.
    stay: f64,
    /// Seconds that a message costs more when it crosses.
    penalty: f64,
    /// Who exchanges messages with whom, at what cost when they are apart:
    /// `starts[shard]..starts[shard + 1]` of the two others.
    starts: Vec<u32>,
    tie_ends: Vec<u32>,
    tie_costs: Vec<f64>,
    heap: BinaryHeap<Worth>,
    /// The heavy shards, the heaviest first. A rank is a place in this list.
    order: Vec<u32>,
    rank: Vec<u32>,
    /// By rank: the next rank at or after it that is not placed, or nearer to that.
    links: Vec<u32>,
    /// By group: the ranks at home there, and how many were passed.
    homes: Vec<(Vec<u32>, usize)>,
    /// The group of each shard, or `NOWHERE`.
    group: Vec<u16>,
    /// Loads of the groups.
    sums: Vec<f64>,
    /// The group being filled, if any.
    filling: Option<u16>,
    filled: Vec<bool>,
    /// By shard: its ties to a group, and which one.
    passing: Vec<(f64, u16)>,
    /// Ties of the shard placed last that are to be added to `passing`.
    spread: core::ops::Range<usize>,
    /// By group: pinned shards whose ties are to be added to `passing` as well. Such a group
    /// has the label of its worker from the start.
    pinned: Vec<Vec<u32>>,
    /// How many shards of an owner are in a group.
    overlaps: Vec<((u16, u16), u32)>,
    overlap_at: HashMap<(u16, u16), u32>,
    label: Vec<u16>,
    taken: Vec<bool>,
    owners: Vec<WorkerId>,
    moved: usize,
    now: Costs,
    then: Costs,
}

impl Plan {
    pub(super) fn new(
        rates: &Rates,
        penalty: f64,
        charge: f64,
        current: &Assignment,
        pins: &[(ShardId, WorkerId)],
    ) -> Self {
        let (shards, workers) = (current.shards(), current.workers());
        let average = rates.total() / workers as f64;
        let mut plan = Self {
            stage: Stage::Gather,
            at: 0,
            average,
            stay: charge * average / shards as f64,
            penalty,
            starts: std::vec![0; shards + 1],
            tie_ends: Vec::new(),
            tie_costs: Vec::new(),
            heap: BinaryHeap::with_capacity(shards),
            order: Vec::with_capacity(shards),
            rank: std::vec![0; shards],
            links: Vec::with_capacity(shards + 1),
            homes: std::vec![(Vec::new(), 0); workers],
            group: std::vec![NOWHERE; shards],
            sums: std::vec![0.0; workers],
            filling: None,
            filled: std::vec![false; workers],
            passing: std::vec![(0.0, NOWHERE); shards],
            spread: 0..0,
            pinned: std::vec![Vec::new(); workers],
            overlaps: Vec::new(),
            overlap_at: HashMap::new(),
            label: std::vec![NOWHERE; workers],
            taken: std::vec![false; workers],
            owners: Vec::with_capacity(shards),
            moved: 0,
            now: std::vec![(0.0, 0.0); workers],
            then: std::vec![(0.0, 0.0); workers],
        };
        for &(shard, worker) in pins {
            let group = worker.index();
            plan.group[shard.index()] = worker.0;
            plan.sums[group] += rates.loads[shard.index()];
            plan.pinned[group].push(shard.0);
            (plan.label[group], plan.taken[group]) = (worker.0, true);
        }
        plan
    }

    /// Works for about `budget` units, each of which takes less than about 0.2 µs.
    pub(super) fn step(&mut self, rates: &Rates, current: &Assignment, budget: usize) -> Planned {
        let mut left = budget as isize;
        while left > 0 {
            let (at, shards) = (self.at, self.group.len());
            self.at += 1;
            left -= 1;
            match self.stage {
                Stage::Gather if at == shards => self.enter(Stage::Sort),
                Stage::Gather => {
                    let load = rates.loads[at];
                    if load > self.average * LEAST_SHARE && self.group[at] == NOWHERE {
                        self.heap.push(Worth(load, Reverse(at as u32)));
                    }
                }
                Stage::Sort => self.sort_one(current),
                Stage::Count if at == shards => self.enter(Stage::Sum),
                Stage::Count => {
                    let incoming = &rates.incoming[at];
                    for &(from, _) in incoming {
                        self.starts[from as usize + 1] += 1;
                    }
                    self.starts[at + 1] += incoming.len() as u32;
                    left -= incoming.len() as isize / 16;
                }
                Stage::Sum if at == shards => {
                    // The ends of the filled parts, one place to the left: `Fill` moves them.
                    let ties = self.starts[shards] as usize;
                    self.tie_ends = std::vec![0; ties];
                    self.tie_costs = std::vec![0.0; ties];
                    self.enter(Stage::Fill);
                }
                Stage::Sum => self.starts[at + 1] += self.starts[at],
                Stage::Fill if at == shards => self.enter(Stage::Now),
                Stage::Fill => {
                    for &(from, rate) in &rates.incoming[at] {
                        self.add_tie(from, at as u32, rate);
                        self.add_tie(at as u32, from, rate);
                    }
                    left -= rates.incoming[at].len() as isize / 4;
                }
                Stage::Now if at == shards => {
                    if self.now.iter().all(|&(cost, _)| cost <= LEAST_BUSY) {
                        return Planned::Idle;
                    }
                    self.heap.clear();
                    self.enter(Stage::Place);
                }
                Stage::Now => {
                    let owner = current.owners()[at];
                    left -= self.cost(rates, at, owner, current.owners(), |plan| &mut plan.now);
                }
                Stage::Place => left -= self.place(rates, current),
                Stage::Overlap if at == shards => self.enter(Stage::Heap),
                Stage::Overlap => self.overlap_one(at, current),
                Stage::Heap if at == self.overlaps.len() => self.enter(Stage::Label),
                Stage::Heap => {
                    let count = f64::from(self.overlaps[at].1);
                    self.heap.push(Worth(count, Reverse(at as u32)));
                }
                Stage::Label => self.label_one(),
                Stage::Owners if at == shards => self.enter(Stage::Then),
                Stage::Owners => {
                    let owner = current.owners()[at];
                    let next = match self.group[at] {
                        NOWHERE => owner,
                        group => WorkerId(self.label[usize::from(group)]),
                    };
                    self.moved += usize::from(next != owner);
                    self.owners.push(next);
                }
                Stage::Then if at == shards => return Planned::Done(self.verdict()),
                Stage::Then => {
                    let owners = core::mem::take(&mut self.owners);
                    left -= self.cost(rates, at, owners[at], &owners, |plan| &mut plan.then);
                    self.owners = owners;
                }
            }
        }
        Planned::More
    }

    fn enter(&mut self, stage: Stage) {
        (self.stage, self.at) = (stage, 0);
    }

    fn sort_one(&mut self, current: &Assignment) {
        let rank = self.order.len() as u32;
        self.links.push(rank);
        let Some(Worth(_, Reverse(shard))) = self.heap.pop() else {
            return self.enter(Stage::Count);
        };
        self.order.push(shard);
        self.rank[shard as usize] = rank;
        let home = current.owners()[shard as usize];
        self.homes[home.index()].0.push(rank);
    }

    /// Adds a tie to the part of `one`. Its start moves to its end, which is where the start of
    /// the next part was; `ties_of` takes that into account.
    fn add_tie(&mut self, one: u32, other: u32, rate: f64) {
        let at = &mut self.starts[one as usize];
        self.tie_ends[*at as usize] = other;
        self.tie_costs[*at as usize] = rate * self.penalty;
        *at += 1;
    }

    /// The places of a shard's ties, once all are filled in.
    fn ties_of(&self, shard: usize) -> core::ops::Range<usize> {
        let start = match shard {
            0 => 0,
            _ => self.starts[shard - 1],
        };
        start as usize..self.starts[shard] as usize
    }

    /// Adds what a shard costs its owner; returns the units that took.
    fn cost(
        &mut self,
        rates: &Rates,
        shard: usize,
        owner: WorkerId,
        owners: &[WorkerId],
        costs: impl FnOnce(&mut Self) -> &mut Costs,
    ) -> isize {
        let ties = self.ties_of(shard);
        let apart = |&at: &usize| owners[self.tie_ends[at] as usize] != owner;
        let cut: f64 = ties
            .clone()
            .filter(apart)
            .map(|at| self.tie_costs[at])
            .sum();
        let (cost, variance) = &mut costs(self)[owner.index()];
        *cost += rates.loads[shard] + cut;
        *variance += rates.noise(shard).powi(2);
        ties.len() as isize / 16
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

    /// Does one thing about placing; returns the units that took.
    fn place(&mut self, rates: &Rates, current: &Assignment) -> isize {
        if let Some(at) = self.spread.next() {
            self.spread_one(at, current);
            return 0;
        }
        let heaviest = self.waiting(0);
        if heaviest == self.order.len() {
            self.heap.clear();
            // So that the map never grows, which would take long.
            self.overlap_at.reserve(self.order.len());
            self.enter(Stage::Overlap);
            return 0;
        }
        let workers = self.sums.len() as isize;
        let Some(group) = self.filling.or_else(|| self.next_group(heaviest, current)) else {
            let least = (0..self.sums.len()).min_by(|&a, &b| self.sums[a].total_cmp(&self.sums[b]));
            self.put(heaviest, least.unwrap_or(0) as u16, rates);
            return workers / 64;
        };
        self.filling = Some(group);
        if let Some(shard) = self.pinned[usize::from(group)].pop() {
            self.spread = self.ties_of(shard as usize);
            return 1;
        }
        match self.choose(heaviest, group, rates) {
            Some(rank) => self.put(rank, group, rates),
            None => {
                self.filled[usize::from(group)] = true;
                self.filling = None;
                self.heap.clear();
            }
        }
        1
    }

    /// The group to fill next: the home of the heaviest shard that waits, if
    /// it is not filled yet, else the first that is not.
    fn next_group(&self, heaviest: usize, current: &Assignment) -> Option<u16> {
        let home = current.owners()[self.order[heaviest] as usize].0;
        if !self.filled[usize::from(home)] {
            return Some(home);
        }
        let at = self.filled.iter().position(|filled| !filled)?;
        Some(at as u16)
    }

    /// Chooses a waiting shard for `group`, by its rank.
    fn choose(&mut self, heaviest: usize, group: u16, rates: &Rates) -> Option<usize> {
        let load = |plan: &Self, rank: usize| rates.loads[plan.order[rank] as usize];
        let sum = self.sums[usize::from(group)];
        if sum == 0.0 && load(self, heaviest) > self.average {
            return Some(heaviest);
        }
        let room = self.average - sum;
        // 3.
        let fits = self
            .order
            .partition_point(|&shard| rates.loads[shard as usize] > room);
        let fits = self.waiting(fits);
        if fits == self.order.len() {
            return None;
        }
        let mut best = Worth(0.0, Reverse(fits as u32));
        // 2.
        while let (ranks, passed) = &self.homes[usize::from(group)]
            && let Some(&rank) = ranks.get(*passed)
        {
            let shard = self.order[rank as usize];
            if self.group[shard as usize] == NOWHERE && load(self, rank as usize) <= room {
                best = best.max(Worth(self.stay, Reverse(rank)));
                break;
            }
            self.homes[usize::from(group)].1 += 1;
        }
        // 1.
        while let Some(&top) = self.heap.peek() {
            let Worth(worth, Reverse(rank)) = top;
            let shard = self.order[rank as usize] as usize;
            let is_old = self.group[shard] != NOWHERE || self.passing[shard].0 > worth;
            if !is_old && load(self, rank as usize) <= room {
                best = best.max(top);
                break;
            }
            self.heap.pop();
        }
        Some(best.1.0 as usize)
    }

    fn put(&mut self, rank: usize, group: u16, rates: &Rates) {
        let shard = self.order[rank] as usize;
        self.links[rank] = rank as u32 + 1;
        self.group[shard] = group;
        self.sums[usize::from(group)] += rates.loads[shard];
        if self.filling.is_some() {
            self.spread = self.ties_of(shard);
        }
    }

    /// Adds a tie of the shard placed last to the worth of the shard at its other end.
    fn spread_one(&mut self, at: usize, current: &Assignment) {
        let other = self.tie_ends[at] as usize;
        let Some(group) = self.filling else {
            return;
        };
        let rank = self.rank[other];
        let is_heavy = self.order.get(rank as usize) == Some(&(other as u32));
        if self.group[other] != NOWHERE || !is_heavy {
            return;
        }
        let passing = &mut self.passing[other];
        if passing.1 != group {
            let at_home = current.owners()[other].0 == group;
            *passing = (if at_home { self.stay } else { 0.0 }, group);
        }
        passing.0 += self.tie_costs[at];
        self.heap.push(Worth(passing.0, Reverse(rank)));
    }

    fn overlap_one(&mut self, shard: usize, current: &Assignment) {
        let group = self.group[shard];
        if group == NOWHERE {
            return;
        }
        let pair = (group, current.owners()[shard].0);
        let next = self.overlaps.len() as u32;
        let at = *self.overlap_at.entry(pair).or_insert(next);
        if at == next {
            self.overlaps.push((pair, 0));
        }
        self.overlaps[at as usize].1 += 1;
    }

    /// Gives the group and the worker that share most one another, if both are free.
    fn label_one(&mut self) {
        let Some(Worth(_, Reverse(at))) = self.heap.pop() else {
            let mut rest = (0..self.taken.len()).filter(|&worker| !self.taken[worker]);
            for label in self.label.iter_mut().filter(|label| **label == NOWHERE) {
                let worker = rest.next().expect("there are as many workers as groups");
                *label = worker as u16;
            }
            return self.enter(Stage::Owners);
        };
        let (group, owner) = self.overlaps[at as usize].0;
        let label = &mut self.label[usize::from(group)];
        if *label == NOWHERE && !self.taken[usize::from(owner)] {
            *label = owner;
            self.taken[usize::from(owner)] = true;
        }
    }

    fn verdict(&mut self) -> Verdict {
        let busiest = |costs: &Costs| {
            let busiest = costs.iter().max_by(|a, b| a.0.total_cmp(&b.0));
            busiest.copied().unwrap_or_default()
        };
        Verdict {
            owners: core::mem::take(&mut self.owners),
            moved: self.moved,
            average: self.average,
            now: busiest(&self.now),
            then: busiest(&self.then),
        }
    }
}
