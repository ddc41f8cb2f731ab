//! Panics of user code are contained, recorded, and answered by policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rast_sharder::primitive::WaitStrategy;
use rast_sharder::timers::ManualClock;
use rast_sharder::{
    Assignment, Balancer, Controller, Decision, Hook, LoadView, Outcome, PanicPolicy, Progress,
    ShardId, Sharder, WorkerCx,
};

use crate::support::{Rotate, Scripted, hooks};

const BAD: ShardId = ShardId(1);

fn go_wrong(shard: ShardId) {
    assert_ne!(shard, BAD, "it goes wrong");
}

/// Runs until shard 0 has had a hundred turns after ten epochs.
fn run(script: Scripted) -> Outcome<Scripted> {
    run_until(script, || true)
}

/// Runs until shard 0 has had a hundred turns after ten epochs, and `is_done`.
fn run_until(
    mut script: Scripted,
    is_done: impl Fn() -> bool + Send + Sync + 'static,
) -> Outcome<Scripted> {
    let inner = std::mem::replace(&mut script.process, Box::new(|_, _, _| Progress::Idle));
    let turns = AtomicU64::new(0);
    script.process = Box::new(move |cx, shard, state| {
        cx.reshard();
        let is_late = shard.0 == 0 && cx.epoch() >= 10;
        if is_late && turns.fetch_add(1, Ordering::SeqCst) >= 100 && is_done() {
            cx.stop();
        }
        let neighbour = ShardId((shard.0 + 1) % 4);
        cx.wake(neighbour, shard.0);
        match inner(cx, shard, state) {
            Progress::Idle if shard.0 == 0 => Progress::Again,
            progress => progress,
        }
    });
    let sharder = Sharder::builder(script)
        .shards(vec![0; 4])
        .workers(2)
        .wait(WaitStrategy::Park)
        .period(Duration::ZERO)
        .balancer(Rotate)
        .build()
        .expect("it builds");
    sharder.run().expect("panics of user code fail no run")
}

fn assert_retired(outcome: &Outcome<Scripted>, hook: Hook) {
    let panics = &outcome.report.panics;
    assert_eq!(panics.len(), 1, "{panics:?}");
    assert_eq!(panics[0].shard, Some(BAD));
    assert_eq!(panics[0].hook, hook);
    assert!(panics[0].message.contains("it goes wrong"));
    assert_eq!(outcome.report.stats.panics, 1);
    for (at, shard) in outcome.shards.iter().enumerate() {
        assert_eq!(shard.retired.is_some(), at == BAD.index());
    }
}

#[test]
fn a_panic_in_process_retires_the_shard() {
    let mut script = hooks();
    script.process = Box::new(|_, shard, turns| {
        *turns += 1;
        if *turns == 5 {
            go_wrong(shard);
        }
        Progress::Again
    });
    let outcome = run(script);
    assert_retired(&outcome, Hook::Process);
    assert_eq!(
        outcome.shards[1].state, 5,
        "the state comes back as it was left"
    );
}

#[test]
fn a_panic_in_on_acquire_retires_the_shard() {
    let mut script = hooks();
    script.on_acquire = Box::new(|_, shard| go_wrong(shard));
    assert_retired(&run(script), Hook::OnAcquire);
}

#[test]
fn a_panic_in_on_release_retires_the_shard_and_still_lets_it_go() {
    let mut script = hooks();
    script.on_release = Box::new(|_, shard| go_wrong(shard));
    assert_retired(&run(script), Hook::OnRelease);
}

#[test]
fn a_panic_in_on_wake_retires_the_shard() {
    let mut script = hooks();
    let woken = Arc::new(AtomicU64::new(0));
    let count = woken.clone();
    script.on_wake = Box::new(move |shard, _| {
        count.fetch_add(u64::from(shard == BAD), Ordering::SeqCst);
        go_wrong(shard);
    });
    let outcome = run_until(script, move || woken.load(Ordering::SeqCst) > 0);
    assert_retired(&outcome, Hook::OnWake);
}

#[test]
fn a_panic_in_restart_load_retires_the_shard() {
    let mut script = hooks();
    script.restart_load = Box::new(go_wrong);
    assert_retired(&run(script), Hook::RestartLoad);
}

#[test]
fn a_panic_in_report_leaves_the_shard_running() {
    let mut script = hooks();
    script.report = Box::new(go_wrong);
    let outcome = run(script);
    let panics = &outcome.report.panics;
    assert!(panics.len() >= 10, "one in each epoch");
    assert!(panics.iter().all(|panic| panic.hook == Hook::Report));
    assert!(outcome.shards.iter().all(|shard| shard.retired.is_none()));
}

#[test]
fn a_panic_in_before_turn_silences_it_on_that_worker() {
    let mut script = hooks();
    script.before_turn = Box::new(|_| panic!("it goes wrong"));
    let outcome = run(script);
    let panics = &outcome.report.panics;
    assert!((1..=2).contains(&panics.len()), "once per worker");
    assert!(panics.iter().all(|panic| panic.hook == Hook::BeforeTurn));
}

#[test]
fn a_panic_in_on_panic_retires_the_shard() {
    let mut script = hooks();
    script.process = Box::new(|_, shard, _| {
        go_wrong(shard);
        Progress::Again
    });
    script.on_panic = Box::new(|_, _| panic!("twice"));
    let outcome = run(script);
    let hooks: Vec<Hook> = outcome.report.panics.iter().map(|p| p.hook).collect();
    assert_eq!(hooks, [Hook::Process, Hook::OnPanic]);
    assert!(outcome.shards[1].retired.is_some());
}

#[test]
fn a_policy_continues() {
    let mut script = hooks();
    script.process = Box::new(|_, shard, turns| {
        *turns += 1;
        if *turns == 5 {
            go_wrong(shard);
        }
        Progress::Again
    });
    script.on_panic = Box::new(|_, turns| {
        *turns += 1_000;
        PanicPolicy::Continue
    });
    let outcome = run(script);
    assert_eq!(outcome.report.stats.panics, 1);
    assert!(outcome.shards[1].retired.is_none());
    assert!(outcome.shards[1].state >= 1_005);
}

/// A shard that panics in every turn and is continued each time leaves its worker to
/// others, and to sleep.
#[test]
fn a_panic_that_repeats_does_not_spin() {
    const MOST: u64 = 10_000;
    let panics = Arc::new(AtomicU64::new(0));
    let mut script = hooks();
    let count = panics.clone();
    script.process = Box::new(move |cx, shard, _| {
        if shard == BAD {
            if count.fetch_add(1, Ordering::SeqCst) == MOST {
                cx.stop();
            }
            go_wrong(shard);
        }
        Progress::Idle
    });
    script.on_panic = Box::new(|_, _| PanicPolicy::Continue);
    let builder = Sharder::builder(script).shards(vec![0; 2]).workers(1);
    let sharder = builder.wait(WaitStrategy::Park).clock(ManualClock::new());
    let sharder = sharder.build().expect("it builds");
    let handle = sharder.handle();
    let stopper = std::thread::spawn(move || {
        while handle.stats().workers[0].parks == 0 && !handle.is_stopping() {
            std::thread::yield_now();
        }
        handle.stop();
    });
    let outcome = sharder.run().expect("panics of user code fail no run");
    stopper.join().expect("the stopper ends");
    let panics = panics.load(Ordering::SeqCst);
    assert!(panics < MOST, "it panicked {panics} times without a pause");
    assert!(outcome.shards[1].retired.is_none());
}

#[test]
fn a_policy_stops_everything() {
    let mut script = hooks();
    script.process = Box::new(|_, shard, _| {
        go_wrong(shard);
        Progress::Again
    });
    script.on_panic = Box::new(|_, _| PanicPolicy::Stop);
    // Nothing else would stop it.
    let sharder = Sharder::builder(script)
        .shards(vec![0; 4])
        .workers(2)
        .build();
    let outcome = sharder
        .expect("it builds")
        .run()
        .expect("a stop is no error");
    assert!(outcome.shards[1].retired.is_some());
}

/// A payload whose destructor panics as well.
#[test]
fn a_payload_that_panics_when_dropped_is_contained() {
    struct Bomb(Arc<AtomicU64>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("dropped");
        }
    }
    let dropped = Arc::new(AtomicU64::new(0));
    let mut script = hooks();
    let count = dropped.clone();
    script.process = Box::new(move |_, shard, turns| {
        *turns += 1;
        if shard == BAD && *turns == 3 {
            std::panic::panic_any(Bomb(count.clone()));
        }
        Progress::Again
    });
    let outcome = run(script);
    assert!(outcome.shards[1].retired.is_some());
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert_eq!(
        outcome.report.panics[0].message,
        "a payload that is no text"
    );
}

/// Destructors of figures and of the balancer, when the run is over.
#[test]
fn destructors_that_panic_cost_no_state() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    impl Balancer for Bomb {
        fn begin(&mut self, _: &LoadView, _: &Assignment) {}
        fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
            Decision::Keep
        }
    }
    struct Armed;
    impl Controller for Armed {
        type Shard = u64;
        type Load = Bomb;
        fn process(
            &self,
            cx: &mut WorkerCx<'_>,
            _: ShardId,
            state: &mut u64,
            _: Option<&mut Bomb>,
        ) -> Progress {
            *state += 1;
            cx.stop();
            Progress::Again
        }
        fn new_load(&self, _: ShardId) -> Bomb {
            Bomb
        }
        fn restart_load(&self, _: ShardId, _: &mut Bomb) {}
    }
    let builder = Sharder::builder(Armed).shards(vec![7; 3]).workers(1);
    let sharder = builder.balancer(Bomb).build().expect("it builds");
    let outcome = sharder.run().expect("the run itself went well");
    let states: u64 = outcome.shards.iter().map(|shard| shard.state).sum();
    assert_eq!(states, 3 * 7 + 1);
    let panics = &outcome.report.panics;
    assert!(panics.iter().all(|panic| panic.hook == Hook::Drop));
    let shards: Vec<_> = panics.iter().map(|panic| panic.shard).collect();
    let all = (0..3).map(|shard| Some(ShardId(shard)));
    assert_eq!(shards, [None].into_iter().chain(all).collect::<Vec<_>>());
}
