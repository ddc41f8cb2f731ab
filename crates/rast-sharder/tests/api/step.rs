//! Turns that the caller gives.

use std::time::Duration;

use rast_sharder::timers::{Instant, ManualClock, Nanos};
use rast_sharder::{
    Assignment, Balancer, Controller, Decision, LoadView, PanicPayload, PanicPolicy, Progress,
    ShardId, Sharder, Static, Stepper, WorkerCx, WorkerId,
};

/// Each shard wakes the next one until a note is zero; a note of 99 panics.
struct Chain;

#[derive(Debug, Default, PartialEq)]
struct Link {
    turns: u32,
    notes: Vec<Option<u32>>,
    send: Option<u32>,
    alarm: Option<Instant>,
}

impl Controller for Chain {
    type Shard = Link;
    type Load = ();

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        link: &mut Link,
        _: Option<&mut ()>,
    ) -> Progress {
        link.turns += 1;
        match link.send.take() {
            None | Some(0) => {}
            Some(99) => panic!("99"),
            Some(note) => {
                let next = ShardId::from_index((shard.index() + 1) % 3);
                let is_done = note % 2 == 0 && cx.wake_local(next, note - 1);
                if is_done {
                    assert!(cx.is_local(next));
                } else {
                    cx.wake(next, note - 1);
                }
            }
        }
        link.alarm.take().map_or(Progress::Idle, Progress::At)
    }

    fn new_load(&self, _: ShardId) {}

    fn on_wake(&self, _: ShardId, link: &mut Link, note: Option<u32>) {
        link.notes.push(note);
        link.send = note;
    }

    fn on_panic(&self, _: ShardId, _: &mut Link, _: PanicPayload) -> PanicPolicy {
        PanicPolicy::Retire
    }
}

const SHARDS: [ShardId; 3] = [ShardId(0), ShardId(1), ShardId(2)];

fn links() -> Vec<Link> {
    (0..3).map(|_| Link::default()).collect()
}

fn chain(workers: usize, balancer: impl Balancer) -> (Stepper<Chain>, ManualClock) {
    let clock = ManualClock::new();
    let sharder = Sharder::builder(Chain)
        .shards(links())
        .workers(workers)
        .period(Duration::ZERO)
        .balancer(balancer)
        .clock(clock.clone())
        .build();
    (sharder.expect("it builds").stepper(), clock)
}

/// Gives turns until none is wanted.
fn rest(steps: &mut Stepper<Chain>) {
    while let Some(shard) = steps.ready().last() {
        assert!(steps.turn(shard));
    }
}

#[test]
fn wake_ups_go_from_worker_to_worker() {
    for workers in 1..=3 {
        let (mut steps, _) = chain(workers, Static);
        rest(&mut steps);
        steps.shard(SHARDS[0]).send = Some(5);
        steps.handle().wake(SHARDS[0]);
        steps.look();
        // A wake-up from outside has no note, and the shard forgets what it was to send.
        assert_eq!(steps.shard(SHARDS[0]).notes, [None]);
        steps.shard(SHARDS[0]).send = Some(5);
        rest(&mut steps);
        assert_eq!(steps.shard(SHARDS[1]).notes, [Some(4), Some(1)]);
        assert_eq!(steps.shard(SHARDS[0]).notes, [None, Some(2)]);
        assert!(!steps.turn(SHARDS[1]), "it wants none");
    }
}

#[test]
fn alarms_ring_when_the_clock_has_moved() {
    let (mut steps, clock) = chain(2, Static);
    rest(&mut steps);
    let at = Instant::from_nanos(1_000);
    for shard in SHARDS {
        steps.shard(shard).alarm = Some(at);
        steps.handle().wake(shard);
    }
    steps.look();
    rest(&mut steps);
    assert_eq!((steps.next_alarm(), steps.ready().count()), (Some(at), 0));
    clock.advance(Nanos::from_nanos(999));
    steps.look();
    assert_eq!(steps.ready().count(), 0);
    clock.advance(Nanos::from_nanos(1));
    steps.look();
    assert_eq!((steps.ready().count(), steps.next_alarm()), (3, None));
}

/// Gives all shards to worker 1.
struct ToSecond;

impl Balancer for ToSecond {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, view: &LoadView, _: &Assignment, _: usize) -> Decision {
        let second = vec![WorkerId::from_index(1); view.shards()];
        Assignment::new(second, view.workers()).map_or(Decision::Keep, Decision::Adopt)
    }
}

#[test]
fn shards_move_between_two_turns() {
    let (mut steps, _) = chain(2, ToSecond);
    rest(&mut steps);
    assert_eq!(steps.holder(SHARDS[0]), Some(WorkerId::from_index(0)));
    steps.handle().reshard();
    steps.look();
    for shard in SHARDS {
        assert_eq!(steps.holder(shard), Some(WorkerId::from_index(1)));
    }
    rest(&mut steps);
    let outcome = steps.finish();
    assert_eq!(outcome.shards[0].state.turns, 2, "one at each worker");
    assert_eq!(outcome.report.stats.moves, 2);
}

#[test]
fn a_panic_retires_its_shard_and_a_stop_ends_the_turns() {
    let (mut steps, _) = chain(1, Static);
    rest(&mut steps);
    steps.handle().wake(SHARDS[1]);
    steps.look();
    steps.shard(SHARDS[1]).send = Some(99);
    rest(&mut steps);
    steps.handle().wake(SHARDS[0]);
    steps.look();
    steps.handle().stop();
    assert!(!steps.turn(SHARDS[0]));
    let outcome = steps.finish();
    assert_eq!(outcome.shards[1].retired.as_ref().unwrap().message, "99");
    assert_eq!(outcome.shards[0].state.turns, 1);
}
