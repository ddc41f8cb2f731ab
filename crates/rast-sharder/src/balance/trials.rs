//! `Greedy` on what leaders collect: workers with time to spare, loaded shards that are pinned, and
//! timers with errors.
//!
//! The figures are those of a server with few clients. Each worker has a shard that does the I/O,
//! and several partitions. For some windows the partitions of one worker are hot. The threads of
//! the clients often preempt the workers, mostly in turns of I/O.

use crate::primitive::Random;
use std::vec::Vec;

use super::{Balancer, Decision, Greedy};
use crate::assignment::Assignment;
use crate::ids::{ShardId, WorkerId};
use crate::load::LoadView;
use crate::meter::Spent;
use crate::timers::Nanos;

const WORKERS: usize = 2;
const SHARDS: usize = WORKERS + 32;
const WINDOW: Nanos = Nanos::from_millis(200);
/// Windows until other partitions are hot.
const SHIFT: usize = 5;

/// Shares of a window: what each worker runs for I/O, and what all hot and all cold partitions run
/// in total.
const IO: f64 = 0.3;
const HOT: f64 = 0.2;
const COLD: f64 = 0.04;

/// Returns a random number between the two.
fn between(random: &mut Random, least: f64, most: f64) -> f64 {
    least + (most - least) * random.fraction()
}

/// What each shard ran in a window: its share of the hot or the cold load, or the I/O.
fn ran(hot: &[bool], random: &mut Random) -> Vec<f64> {
    let weight = |shard: usize| 1.0 / (1 + shard % 8) as f64;
    let of = |is_hot| {
        let some = (WORKERS..SHARDS).filter(move |&shard| hot[shard] == is_hot);
        some.map(weight).sum::<f64>().max(1e-9)
    };
    let (all_hot, all_cold) = (of(true), of(false));
    let share = |shard: usize| match (shard < WORKERS, hot[shard]) {
        (true, _) => IO * between(random, 0.97, 1.03),
        (false, true) => HOT * weight(shard) / all_hot * between(random, 0.9, 1.1),
        (false, false) => COLD * weight(shard) / all_cold * between(random, 0.9, 1.1),
    };
    (0..SHARDS).map(share).collect()
}

/// Decides on one window.
fn decide(
    greedy: &mut Greedy,
    view: &mut LoadView,
    now: &Assignment,
    ran: &[f64],
    random: &mut Random,
) -> Option<Assignment> {
    view.clear();
    // One turn of I/O that was read while another thread ran counts for many.
    let stretch = [between(random, 1.0, 1.4), between(random, 1.0, 1.4)];
    let mut turns = [0.0; WORKERS];
    for shard in 0..SHARDS {
        let reported = match shard < WORKERS {
            true => ran[shard] * stretch[shard],
            false => ran[shard] * between(random, 1.0, 1.1),
        };
        let (shard, time) = (
            ShardId::from_index(shard),
            WINDOW.as_nanos() as f64 * reported,
        );
        view.report(shard, WINDOW)
            .busy(Nanos::from_nanos(time as u64));
        turns[now.owner(shard).index()] += view.turns(shard);
    }
    for shard in (0..SHARDS).map(ShardId::from_index) {
        let worker = now.owner(shard);
        let all: f64 = now.shards_of(worker).map(|shard| ran[shard.index()]).sum();
        let spent = Spent {
            ran: Some(Nanos::from_nanos((WINDOW.as_nanos() as f64 * all) as u64)),
            fullness: 0.0,
        };
        view.weigh(shard, Nanos::ZERO, spent, turns[worker.index()]);
    }
    greedy.begin(view, now);
    loop {
        match greedy.step(view, now, 256) {
            Decision::Pending => {}
            decision => return decision.next(now).expect("what moves exists"),
        }
    }
}

/// Runs some windows; returns the moves of each.
fn run(windows: usize, seed: u64, has_hot: bool) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut greedy = Greedy::new();
    let mut view = LoadView::new(WORKERS, SHARDS);
    for worker in 0..WORKERS {
        view.add_pin(ShardId::from_index(worker), WorkerId::from_index(worker));
    }
    let mut now = Assignment::round_robin(SHARDS, WORKERS);
    let mut hot = std::vec![false; SHARDS];
    let mut moves = Vec::new();
    for window in 0..windows {
        if has_hot && window % SHIFT == 0 {
            let worker = WorkerId::from_index(window / SHIFT % WORKERS);
            hot = now.owners().iter().map(|&owner| owner == worker).collect();
        }
        let ran = ran(&hot, &mut random);
        let next = decide(&mut greedy, &mut view, &now, &ran, &mut random);
        moves.push(next.as_ref().map_or(0, |next| next.moved_from(&now)));
        now = next.unwrap_or(now);
    }
    moves
}

#[test]
fn a_hot_set_is_spread_beside_loaded_pinned_shards() {
    for seed in 1..=32 {
        let moves = run(10 * SHIFT, seed, true);
        let answered = moves
            .chunks(SHIFT)
            .filter(|shift| shift.iter().any(|&n| n > 0));
        let answered = answered.count();
        assert!(
            answered >= 6,
            "seed {seed}: {answered} of 10 shifts, {moves:?}"
        );
    }
}

#[test]
fn a_uniform_load_beside_loaded_pinned_shards_settles_to_no_moves() {
    for seed in 1..=200 {
        let moves = run(24, seed, false);
        assert!(moves[4..].iter().all(|&n| n == 0), "seed {seed}: {moves:?}");
    }
}
