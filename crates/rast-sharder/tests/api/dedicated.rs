//! Dedicated workers: their turns may block, and no resharding waits for them.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use rast_sharder::timers::{ManualClock, Nanos};
use rast_sharder::{
    Assignment, Balancer, BuildError, Builder, Controller, Decision, Greedy, LoadView, Move,
    PanicPolicy, Progress, ShardId, Sharder, WorkerCx, WorkerId,
};

use crate::support::{Rotate, Scripted, hooks};

/// Longer than anything takes that goes well.
const LONG: Duration = Duration::from_secs(60);

/// Two shards that the balancer may move between two workers, and one at a dedicated worker.
fn three(scripted: Scripted) -> Builder<Scripted> {
    let owners = [0, 1, 2].map(WorkerId::from_index).to_vec();
    Sharder::builder(scripted)
        .shards(vec![0; 3])
        .workers(3)
        .assignment(Assignment::new(owners, 3).expect("the workers exist"))
        .dedicate(WorkerId::from_index(2))
        .period(Duration::ZERO)
}

/// Swaps the owners of the first two shards.
struct Swap;

impl Balancer for Swap {
    fn begin(&mut self, view: &LoadView, _: &Assignment) {
        assert_eq!(view.dedicated(), [WorkerId(2)]);
        assert!(view.load(ShardId(2)).is_none());
    }

    fn step(&mut self, _: &LoadView, now: &Assignment, _: usize) -> Decision {
        let [first, second] = [0, 1].map(ShardId::from_index);
        let to = |shard, other| Move {
            shard,
            to: now.owner(other),
        };
        Decision::Move(vec![to(first, second), to(second, first)])
    }
}

#[test]
fn no_epoch_waits_for_a_dedicated_worker() {
    const EPOCHS: u64 = 50;
    let (begin, begun) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let gone = Mutex::new(gone);
    let sharder = three(Scripted {
        process: Box::new(move |cx, shard, _| {
            if shard == ShardId(2) {
                begin.send(()).expect("the test waits");
                let gone = gone.lock().expect("one turn at a time");
                gone.recv_timeout(LONG).expect("the epochs go on");
                assert_eq!((cx.worker(), cx.epoch()), (WorkerId(2), 0));
            }
            Progress::Idle
        }),
        ..hooks()
    });
    let sharder = sharder.balancer(Swap).build().expect("it can be built");
    let handle = sharder.handle();
    let run = std::thread::spawn(move || sharder.run().expect("it runs"));
    begun.recv_timeout(LONG).expect("the turn begins");
    // The turn blocks from here on.
    while handle.stats().epochs < EPOCHS {
        handle.reshard();
        std::thread::yield_now();
    }
    let assignment = handle.assignment().assignment.clone();
    assert_eq!(assignment.owner(ShardId(2)), WorkerId(2));
    // The worker is woken as any other, and leaves its shard at the end.
    go.send(()).expect("it blocks");
    handle.wake(ShardId(2));
    begun.recv_timeout(LONG).expect("it is woken");
    go.send(()).expect("it blocks");
    handle.stop();
    let outcome = run.join().expect("it ends");
    assert!(outcome.report.panics.is_empty(), "{:?}", outcome.report);
    assert!(outcome.report.rejections.is_empty(), "{:?}", outcome.report);
    assert!(outcome.report.stats.moves >= 2 * (EPOCHS - 1));
}

#[test]
fn a_decision_that_names_a_dedicated_worker_is_refused() {
    let mut steps = three(hooks())
        .balancer(Rotate)
        .build()
        .expect("it can be built")
        .stepper();
    steps.handle().reshard();
    steps.look();
    let outcome = steps.finish();
    let why =
        "the balancer moved shard 1 from worker 1 to worker 2, of which worker 2 is dedicated";
    assert_eq!(outcome.report.rejections, [why]);
    assert_eq!(outcome.report.stats.moves, 0);
}

#[test]
fn a_sharder_may_have_dedicated_workers_alone() {
    let build = || Sharder::builder(hooks()).shards(vec![0; 2]).workers(2);
    let workers = [0, 1].map(WorkerId::from_index).into_iter();
    let mut steps = workers
        .fold(build(), Builder::dedicate)
        .build()
        .expect("it can be built")
        .stepper();
    assert_eq!(steps.ready().count(), 2);
    steps.handle().reshard();
    steps.look();
    assert!(steps.turn(ShardId(0)) && steps.turn(ShardId(1)));
    assert_eq!(steps.finish().report.stats.epochs, 0);
    let error = build()
        .dedicate(WorkerId(2))
        .check()
        .expect_err("it does not exist");
    assert_eq!(error, BuildError::Dedicated(WorkerId(2)));
    assert_eq!(
        error.to_string(),
        "worker 2 is dedicated and does not exist"
    );
}

#[test]
fn greedy_gives_a_dedicated_worker_nothing() {
    // Four busy shards at worker 0; workers 1 and 3 are dedicated, and worker 2 is idle.
    let mut view = LoadView::new(4, 6);
    for worker in [1, 3].map(WorkerId::from_index) {
        view.dedicate(worker);
    }
    for worker in [0, 2].map(WorkerId::from_index) {
        view.set_worker_window(worker, Nanos::from_millis(100));
    }
    for shard in (0..4).map(ShardId::from_index) {
        view.set(shard, 0.2, Nanos::from_millis(100));
    }
    let owners = [0, 0, 0, 0, 1, 3].map(WorkerId::from_index).to_vec();
    let mut now = Assignment::new(owners, 4).expect("the workers exist");
    let mut greedy = Greedy::new();
    for _ in 0..20 {
        greedy.begin(&view, &now);
        let decision = loop {
            match greedy.step(&view, &now, 8) {
                Decision::Pending => {}
                decision => break decision,
            }
        };
        if let Some(next) = decision.next(&now).expect("it fits") {
            now = next;
        }
    }
    let shards_of = |worker| now.shards_of(WorkerId::from_index(worker)).count();
    assert_eq!([0, 1, 2, 3].map(shards_of), [2, 1, 2, 1]);
}

/// Two busy shards at worker 0. Six others take so many messages from a shard at a dedicated worker
/// that this worker would be the busiest one, whatever moves.
#[test]
fn greedy_relieves_a_worker_beside_a_busier_dedicated_one() {
    const SHARED: usize = 8;
    const WINDOW: Nanos = Nanos::from_millis(100);
    let dedicated = WorkerId::from_index(SHARED);
    let mut view = LoadView::new(SHARED + 1, 9);
    view.dedicate(dedicated);
    for worker in (0..SHARED).map(WorkerId::from_index) {
        view.set_worker_window(worker, WINDOW);
    }
    let sender = ShardId(8);
    for shard in (0..8).map(ShardId) {
        let busy = if shard.0 < 2 { 0.3 } else { 0.0 };
        view.set(shard, busy, WINDOW);
        if shard.0 >= 2 {
            // Each crossing costs 100 ns: 0.11 of a worker here, and 0.66 of the dedicated one.
            view.add_traffic(sender, shard, 1.1e6);
        }
    }
    let owners = [0, 0, 1, 2, 3, 4, 5, 6, SHARED].map(WorkerId::from_index);
    let now = Assignment::new(owners.to_vec(), SHARED + 1).expect("the workers exist");
    let mut greedy = Greedy::new();
    // The first window is enough, because every shard of a shared worker was measured in it.
    greedy.begin(&view, &now);
    let decision = loop {
        match greedy.step(&view, &now, 8) {
            Decision::Pending => {}
            decision => break decision,
        }
    };
    let next = decision.next(&now).expect("it fits");
    let next = next.expect("one of the two busy shards moves");
    assert_ne!(next.owner(ShardId(0)), next.owner(ShardId(1)));
    let is_shared = |shard| next.owner(ShardId(shard)) != dedicated;
    assert!((0..8).all(is_shared) && !is_shared(8));
}

/// A turn of a dedicated worker makes more shards of a busy worker ready than a ring has slots, and
/// blocks until all of them have run.
#[test]
fn wake_ups_past_a_full_ring_arrive_while_the_turn_blocks() {
    const SHARDS: usize = 100;
    let (ran, runs) = mpsc::channel();
    let (hold, held) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let [runs, held, gone] = [runs, held, gone].map(Mutex::new);
    let next = |from: &Mutex<mpsc::Receiver<()>>| {
        let from = from.lock().expect("one turn at a time");
        from.recv_timeout(LONG).expect("the other worker goes on");
    };
    let process = move |cx: &mut WorkerCx<'_>, shard: ShardId, turns: &mut u64| {
        *turns += 1;
        match (shard.index(), *turns) {
            (0, _) => {
                // The first turns of all others.
                (0..=SHARDS).for_each(|_| next(&runs));
                cx.wake(ShardId::from_index(1), 0);
                next(&held);
                for shard in 2..SHARDS + 2 {
                    cx.wake(ShardId::from_index(shard), 0);
                }
                go.send(()).expect("a turn waits");
                (0..SHARDS).for_each(|_| next(&runs));
                cx.stop();
            }
            (1, 2) => {
                // Its worker takes no mark meanwhile.
                hold.send(()).expect("the dedicated worker waits");
                next(&gone);
            }
            _ => ran.send(()).expect("the dedicated worker waits"),
        }
        Progress::Idle
    };
    let owners = (0..SHARDS + 2).map(|shard| WorkerId::from_index(usize::from(shard == 0)));
    let outcome = Sharder::builder(Scripted {
        process: Box::new(process),
        on_panic: Box::new(|_, _| PanicPolicy::Stop),
        ..hooks()
    })
    .shards(vec![0; SHARDS + 2])
    .workers(2)
    .assignment(Assignment::new(owners.collect(), 2).expect("the workers exist"))
    .dedicate(WorkerId::from_index(1))
    .build()
    .expect("it can be built")
    .run()
    .expect("it runs");
    assert!(outcome.report.panics.is_empty(), "{:?}", outcome.report);
}

/// Its figures have an entry per turn; the state of a shard is their number.
struct Entries;

impl Controller for Entries {
    type Shard = usize;
    type Load = Vec<()>;

    fn process(
        &self,
        _: &mut WorkerCx<'_>,
        _: ShardId,
        entries: &mut usize,
        load: Option<&mut Vec<()>>,
    ) -> Progress {
        let load = load.expect("no worker promises between two turns here");
        load.push(());
        *entries = load.len();
        Progress::Again
    }

    fn new_load(&self, _: ShardId) -> Vec<()> {
        Vec::new()
    }
}

#[test]
fn figures_of_a_dedicated_worker_are_emptied_after_the_period_and_on_request() {
    let clock = ManualClock::new();
    let workers = [0, 1].map(WorkerId::from_index);
    for dedicated in [&workers[1..], &workers[..]] {
        let builder = Sharder::builder(Entries)
            .shards(vec![0; 2])
            .workers(2)
            .period(Duration::from_millis(10))
            .clock(clock.clone());
        let builder = dedicated.iter().copied().fold(builder, Builder::dedicate);
        let mut steps = builder.build().expect("it can be built").stepper();
        let shard = ShardId(1);
        let mut entries = |advance, requests| {
            clock.advance(Nanos::from_millis(advance));
            if requests {
                steps.handle().reshard();
            }
            steps.look();
            assert!(steps.turn(shard));
            *steps.shard(shard)
        };
        assert_eq!([0, 0, 9].map(|advance| entries(advance, false)), [1, 2, 3]);
        assert_eq!([1, 0].map(|advance| entries(advance, false)), [1, 2]);
        assert_eq!([true, false].map(|requests| entries(0, requests)), [1, 2]);
    }
}
