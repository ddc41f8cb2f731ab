//! Shards that stay with a worker, and what a worker sleeps in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rast_sharder::primitive::WaitStrategy;
use rast_sharder::{Assignment, BuildError, Park, Progress, ShardId, Sharder, WorkerId};

use crate::support::{Rotate, hooks};

#[test]
fn a_pinned_shard_stays_while_the_others_rotate() {
    let mut controller = hooks();
    controller.process = Box::new(|cx, shard, turns| {
        *turns += 1;
        if shard == ShardId(2) {
            assert_eq!(cx.worker(), WorkerId(1), "it is pinned there");
            if cx.epoch() >= 20 {
                cx.stop();
            }
            cx.reshard();
        }
        Progress::Again
    });
    let outcome = Sharder::builder(controller)
        .shards(vec![0; 4])
        .workers(2)
        .period(Duration::ZERO)
        .assignment(Assignment::round_robin(4, 2))
        .pin(ShardId(2), WorkerId(1))
        .balancer(Rotate)
        .build()
        .expect("it builds")
        .run()
        .expect("it runs");
    assert_eq!(outcome.report.panics, []);
    assert_eq!(outcome.report.stats.last_moves, 3);
}

#[test]
fn a_pin_to_what_does_not_exist_is_refused() {
    for (shard, worker) in [(3, 0), (0, 2)] {
        let (shard, worker) = (ShardId(shard), WorkerId(worker));
        let builder = Sharder::builder(hooks()).shards(vec![0; 3]).workers(2);
        let refused = builder.pin(shard, worker).build();
        assert_eq!(
            refused.expect_err("it is refused"),
            BuildError::Pin { shard, worker }
        );
    }
}

/// Something comes each time that it is looked at.
struct Busy(AtomicU64);

impl Park for Busy {
    fn park(&self, _: Option<Duration>, _: &mut dyn FnMut(ShardId)) {}

    fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        self.0.fetch_add(1, Ordering::Relaxed);
        ready(ShardId(1));
    }

    fn unpark(&self) {}
}

#[test]
fn a_worker_with_work_looks_at_what_it_sleeps_in() {
    let mut controller = hooks();
    controller.process = Box::new(|cx, shard, turns| {
        *turns += 1;
        if shard == ShardId(0) {
            return Progress::Again;
        }
        // The first turn is that of the acquisition.
        if *turns == 100 {
            cx.stop();
        }
        Progress::Idle
    });
    let busy = Arc::new(Busy(AtomicU64::new(0)));
    let given = Arc::clone(&busy);
    let outcome = Sharder::builder(controller)
        .shards(vec![0; 2])
        .workers(1)
        .wait(WaitStrategy::Park)
        .park(move |_| Arc::clone(&given))
        .build()
        .expect("it builds")
        .run()
        .expect("it runs");
    assert_eq!(outcome.shards[1].state, 100);
    let polls = busy.0.load(Ordering::Relaxed);
    let turns = outcome.shards[0].state;
    assert!(polls >= 99, "{polls}");
    assert!(turns <= polls * 16 + 16, "{turns} turns, {polls} polls");
}
