//! The sharder from outside: building, running, balancing, time, wake-ups.
#![cfg(not(rast_loom))]

#[path = "api/dedicated.rs"]
mod dedicated;
#[path = "api/demand.rs"]
mod demand;
#[path = "api/figures.rs"]
mod figures;
#[path = "api/panics.rs"]
mod panics;
#[path = "api/step.rs"]
mod step;
#[path = "api/stop.rs"]
mod stop;
#[path = "api/storm.rs"]
mod storm;
#[path = "api/support.rs"]
mod support;
#[path = "api/waiting.rs"]
mod waiting;
#[path = "api/wake.rs"]
mod wake;
#[path = "api/windows.rs"]
mod windows;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rast_sharder::primitive::{Processors, WaitStrategy};
use rast_sharder::timers::{Clock, Instant, MonotonicClock, Nanos};
use rast_sharder::{
    Assignment, Balancer, BuildError, Builder, Controller, Decision, Greedy, Handle, LoadReport,
    LoadView, Outcome, PanicRecord, Progress, RunCause, RunError, ShardExit, ShardId, Sharder,
    Static, Stats, WorkerCx, WorkerId,
};
use support::{Rotate, Scripted, hooks};

/// Number of processors that the calling thread may use.
fn allowed() -> Option<usize> {
    Processors::of_this_thread().map(|allowed| allowed.count())
}

#[test]
fn workers_may_use_the_processors_of_the_thread_that_runs() {
    let before = allowed();
    // As many workers as processors, more, and fewer.
    let count = before.unwrap_or(2);
    for workers in [count, 2 * count + 1, count.div_ceil(2)] {
        let mut hooks = hooks();
        hooks.process = Box::new(|cx, _, _| {
            cx.stop();
            Progress::Idle
        });
        let seen = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&seen);
        let builder = Sharder::builder(hooks).shards(vec![0; workers]);
        let builder = builder.workers(workers).on_worker_start(move |_| {
            theirs.lock().unwrap().push(allowed());
        });
        builder.build().unwrap().run().unwrap();
        assert_eq!(*seen.lock().unwrap(), vec![before; workers]);
        assert_eq!(allowed(), before);
    }
}

#[test]
fn threads_may_share_what_they_must() {
    fn is_send_sync<T: Send + Sync + 'static>() {}
    fn is_send<T: Send + 'static>() {}
    is_send_sync::<Handle>();
    is_send_sync::<Assignment>();
    is_send_sync::<LoadView>();
    is_send_sync::<Stats>();
    is_send_sync::<PanicRecord>();
    is_send_sync::<Greedy>();
    is_send_sync::<BuildError>();
    is_send::<Sharder<Scripted>>();
    is_send::<Builder<Scripted>>();
    is_send::<Outcome<Scripted>>();
    is_send::<RunError<Scripted>>();
    fn is_unwind_safe<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    is_unwind_safe::<Assignment>();
    is_unwind_safe::<LoadView>();
}

#[test]
fn what_cannot_run_is_refused_by_name() {
    let build = |shards: usize| Sharder::builder(hooks()).shards(vec![0; shards]);
    let refused = |builder: Builder<Scripted>| builder.build().expect_err("it is refused");
    assert_eq!(refused(build(0)), BuildError::NoShards);
    assert_eq!(refused(build(1).workers(0)), BuildError::NoWorkers);
    assert_eq!(
        refused(build(70_000).workers(70_000)),
        BuildError::TooManyWorkers(70_000)
    );
    let first = Assignment::round_robin(3, 2);
    let error = refused(build(4).workers(2).assignment(first));
    assert_eq!(
        error.to_string(),
        "the first assignment is for 3 shards and 2 workers; there are 4 and 2"
    );
}

#[test]
fn a_builder_tells_before_it_takes() {
    let builder = Sharder::builder(hooks()).shards(vec![3, 4]).workers(0);
    assert_eq!(builder.check(), Err(BuildError::NoWorkers));
    let builder = builder.workers(1);
    assert_eq!(builder.check(), Ok(()));
    let sharder = builder.build().expect("it builds");
    sharder.handle().stop();
    let outcome = sharder.run().expect("it runs");
    let states: Vec<_> = outcome.shards.iter().map(|shard| shard.state).collect();
    assert_eq!(states, [3, 4]);
}

#[test]
fn an_explicit_count_of_workers_wins_and_shards_cap_it() {
    let workers = |shards: usize, workers: usize| {
        let builder = Sharder::builder(hooks()).shards(vec![0; shards]);
        builder
            .workers(workers)
            .build()
            .expect("it builds")
            .workers()
    };
    assert_eq!(workers(7, 5), 5);
    assert_eq!(workers(3, 5), 3);
    let default = Sharder::builder(hooks()).shards(vec![0]).build();
    assert_eq!(default.expect("it builds").workers(), 1);
}

#[test]
fn a_sharder_that_never_runs_drops_everything() {
    struct Drops;
    impl Controller for Drops {
        type Shard = Arc<()>;
        type Load = Arc<()>;
        fn process(
            &self,
            cx: &mut WorkerCx<'_>,
            _: ShardId,
            _: &mut Arc<()>,
            _: Option<&mut Arc<()>>,
        ) -> Progress {
            cx.stop();
            Progress::Idle
        }
        fn new_load(&self, _: ShardId) -> Arc<()> {
            Arc::default()
        }
    }
    let token = Arc::new(());
    let builder = Sharder::builder(Drops)
        .shards(vec![token.clone(); 5])
        .workers(2);
    let sharder = builder.build().expect("it builds");
    let handle = sharder.handle();
    assert_eq!(Arc::strong_count(&token), 6);
    drop(sharder);
    assert_eq!(Arc::strong_count(&token), 1);
    handle.stop();
    handle.reshard();
    handle.wake(ShardId(0));
    assert!(handle.is_stopping());
}

#[test]
fn the_states_come_back() {
    let mut script = hooks();
    script.process = Box::new(|cx, shard, turns| {
        *turns += 1;
        if shard == ShardId(4) && *turns == 1_050 {
            cx.stop();
        }
        Progress::Again
    });
    let builder = Sharder::builder(script).shards(vec![1_000; 5]).workers(2);
    let outcome = builder.build().expect("it builds").run().expect("it runs");
    assert_eq!(outcome.shards.len(), 5);
    assert_eq!(outcome.shards[4].state, 1_050);
    assert!(outcome.shards.iter().all(|shard| shard.retired.is_none()));
    let turns: u64 = outcome.report.stats.workers.iter().map(|w| w.turns).sum();
    assert!(turns >= 50);
    let ShardExit { state, .. } = outcome.shards[0];
    assert!(state >= 1_000);
}

/// The test: three workers, a handler that blocks on a gate. The gate
/// opens when the other workers' shards have had ten thousand turns each, so
/// the test ends only if no thread waits for the blocked one.
#[test]
fn a_blocked_handler_delays_only_its_own_worker() {
    const TURNS: u64 = 10_000;
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let is_open = Arc::new(AtomicBool::new(false));
    let ready = Arc::new(AtomicUsize::new(0));
    let epochs_in_gate = Arc::new(AtomicU64::new(0));
    let neighbour = Arc::new(AtomicU64::new(0));

    let mut script = hooks();
    let handle_cell: Arc<Mutex<Option<Handle>>> = Arc::default();
    {
        let (is_open, ready, handle_cell) = (is_open.clone(), ready.clone(), handle_cell.clone());
        let (epochs_in_gate, neighbour) = (epochs_in_gate.clone(), neighbour.clone());
        script.process = Box::new(move |cx, shard, turns| {
            *turns += 1;
            let epochs = || {
                let handle = handle_cell.lock().unwrap();
                handle.as_ref().expect("the handle is set").stats().epochs
            };
            match shard.0 {
                0 if *turns == 1 => {
                    // Its worker also holds shard 3.
                    let before = neighbour.load(Ordering::SeqCst);
                    let epochs_before = epochs();
                    gate.lock().unwrap().recv().expect("the gate opens");
                    assert_eq!(neighbour.load(Ordering::SeqCst), before);
                    epochs_in_gate.store(epochs() - epochs_before, Ordering::SeqCst);
                    is_open.store(true, Ordering::SeqCst);
                }
                3 => {
                    neighbour.fetch_add(1, Ordering::SeqCst);
                }
                _ if *turns == TURNS && ready.fetch_add(1, Ordering::SeqCst) + 1 == 4 => {
                    open.send(()).expect("the gate is there");
                }
                _ => {}
            }
            // Resharding is wanted all the time, and goes on in the end.
            cx.reshard();
            if is_open.load(Ordering::SeqCst) && epochs() >= 20 {
                cx.stop();
            }
            Progress::Again
        });
    }
    let sharder = Sharder::builder(script)
        .shards(vec![0; 6])
        .workers(3)
        .period(Duration::ZERO)
        .balancer(Rotate)
        .build()
        .expect("it builds");
    *handle_cell.lock().unwrap() = Some(sharder.handle());
    let outcome = sharder.run().expect("it runs");
    assert_eq!(outcome.report.panics, []);
    assert!(
        epochs_in_gate.load(Ordering::SeqCst) <= 1,
        "a blocked worker promises at most what it had promised"
    );
    let stats = &outcome.report.stats;
    assert!(stats.epochs >= 20 && stats.moves >= 20, "{stats:?}");
    assert_eq!(stats.last_moves, 6);
}

#[test]
fn a_balancer_that_goes_wrong_is_reported_and_changes_nothing() {
    /// Goes wrong in a new way each time.
    struct Wrong(u32);
    impl Balancer for Wrong {
        fn begin(&mut self, _: &LoadView, _: &Assignment) {
            self.0 += 1;
            assert_ne!(self.0, 1, "begin goes wrong");
        }
        fn step(&mut self, view: &LoadView, _: &Assignment, _: usize) -> Decision {
            match self.0 {
                2 => panic!("step goes wrong"),
                3 => Decision::Adopt(Assignment::round_robin(1, view.workers())),
                4 => Decision::Adopt(Assignment::round_robin(view.shards(), 1)),
                5 => Decision::Pending,
                _ => Decision::Keep,
            }
        }
    }
    let mut script = hooks();
    script.process = Box::new(|cx, _, _| {
        cx.reshard();
        if cx.epoch() >= 7 {
            cx.stop();
        }
        Progress::Again
    });
    let builder = Sharder::builder(script).shards(vec![0; 4]).workers(2);
    let builder = builder.period(Duration::ZERO).balancer(Wrong(0));
    let outcome = builder.build().expect("it builds").run().expect("it runs");
    let report = outcome.report;
    assert_eq!(report.assignment, Assignment::round_robin(4, 2));
    assert_eq!(report.stats.moves, 0);
    assert_eq!(report.stats.rejected, 5, "{:?}", report.rejections);
    assert!(report.rejections[0].contains("begin goes wrong"));
    assert!(report.rejections[1].contains("step goes wrong"));
    assert_eq!(
        report.rejections[2],
        "the balancer returned 1 shards over 2 workers for 4 over 2"
    );
    assert!(report.rejections[4].contains("no decision"));
    assert_eq!(report.panics.len(), 2);
    assert!(report.panics.iter().all(|record| record.shard.is_none()));
}

#[test]
fn outside_readers_see_whole_assignments_while_all_moves() {
    const READERS: usize = 2;
    const SEEN: u32 = 100;
    let done = Arc::new(AtomicUsize::new(0));
    let mut script = hooks();
    let finished = done.clone();
    script.process = Box::new(move |cx, _, _| {
        cx.reshard();
        std::thread::yield_now();
        if finished.load(Ordering::SeqCst) == READERS {
            cx.stop();
        }
        Progress::Again
    });
    let builder = Sharder::builder(script).shards(vec![0; 9]).workers(3);
    let builder = builder.period(Duration::ZERO).balancer(Rotate);
    let sharder = builder.build().expect("it builds");
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (handle, done) = (sharder.handle(), done.clone());
            std::thread::spawn(move || {
                let mut last = 0;
                while last < SEEN {
                    let seen = handle.assignment();
                    assert!(seen.epoch >= last, "epochs do not go back");
                    last = seen.epoch;
                    let turned = seen.assignment.owner(ShardId(0)).index();
                    assert_eq!(turned, seen.epoch as usize % 3);
                    for shard in 0..9 {
                        let owner = seen.assignment.owner(ShardId::from_index(shard));
                        assert_eq!(owner.index(), (shard + turned) % 3, "one epoch's owners");
                    }
                    drop(seen);
                    std::thread::yield_now();
                }
                done.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    let outcome = sharder.run().expect("it runs");
    for reader in readers {
        reader.join().expect("a reader finds nothing wrong");
    }
    assert!(outcome.report.stats.epochs >= u64::from(SEEN));
    let held: u64 = outcome.report.stats.workers.iter().map(|w| w.shards).sum();
    assert_eq!(held, 0, "all have left");
}

/// A worker sleeps without limit; only the notification wakes it.
#[test]
fn a_notification_wakes_the_worker_that_sleeps() {
    struct Mail(Vec<AtomicU64>);
    impl Controller for Mail {
        type Shard = u64;
        type Load = ();
        fn process(
            &self,
            cx: &mut WorkerCx<'_>,
            shard: ShardId,
            taken: &mut u64,
            _: Option<&mut ()>,
        ) -> Progress {
            let mail = self.0[shard.index()].swap(0, Ordering::AcqRel);
            *taken += mail;
            if mail == 0 {
                return Progress::Idle;
            }
            // Pass it on to the next shard, round the ring of workers.
            let next = ShardId::from_index((shard.index() + 1) % self.0.len());
            if *taken >= 500 {
                cx.stop();
            }
            self.0[next.index()].fetch_add(mail, Ordering::Release);
            cx.wake(next, 0);
            Progress::Again
        }
        fn new_load(&self, _: ShardId) {}
    }
    for wait in [WaitStrategy::Park, WaitStrategy::Adaptive] {
        let mail = Mail((0..4).map(|_| AtomicU64::new(0)).collect());
        mail.0[0].store(1, Ordering::SeqCst);
        let sharder = Sharder::builder(mail)
            .shards(vec![0; 4])
            .workers(3)
            .wait(wait)
            .period(Duration::from_millis(1))
            .balancer(Rotate)
            .build()
            .expect("it builds");
        let outcome = sharder.run().expect("it runs");
        assert!(outcome.shards.iter().any(|shard| shard.state >= 500));
    }
}

#[test]
fn a_shard_gets_the_turn_that_it_asked_for() {
    let mut script = hooks();
    script.process = Box::new(|cx, _, turns| {
        *turns += 1;
        if *turns == 5 {
            cx.stop();
        }
        Progress::At(cx.clock().now().saturating_add(Nanos::from_millis(1)))
    });
    let builder = Sharder::builder(script)
        .shards(vec![0])
        .wait(WaitStrategy::Park);
    let sharder = builder.build().expect("it builds");
    let outcome = sharder.run().expect("it runs");
    assert_eq!(outcome.shards[0].state, 5);
}

/// Figures of a shard are handed out until its worker has promised, restart in
/// each epoch, and are reported with the window they were taken in.
#[test]
fn figures_are_frozen_while_the_leader_reads() {
    struct Busy {
        seen: AtomicU64,
    }
    impl Controller for Busy {
        type Shard = u64;
        type Load = u64;
        fn process(
            &self,
            cx: &mut WorkerCx<'_>,
            _: ShardId,
            epoch: &mut u64,
            load: Option<&mut u64>,
        ) -> Progress {
            if let Some(turns) = load {
                if u64::from(cx.epoch()) != *epoch {
                    *epoch = u64::from(cx.epoch());
                    assert_eq!(*turns, 0, "an epoch starts with empty figures");
                }
                *turns += 1;
                if *turns >= 3 {
                    cx.reshard();
                }
            }
            if self.seen.load(Ordering::SeqCst) >= 20 {
                cx.stop();
            }
            Progress::Again
        }
        fn new_load(&self, _: ShardId) -> u64 {
            0
        }
        fn report(&self, shard: ShardId, turns: &u64, out: &mut LoadReport<'_>) {
            out.busy(out.window());
            out.received(ShardId((shard.0 + 1) % 4), *turns);
            if shard.0 == 0 {
                self.seen.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    struct Look;
    impl Balancer for Look {
        fn begin(&mut self, view: &LoadView, _: &Assignment) {
            for shard in (0..4).map(ShardId) {
                let measured = view.window(shard) > Nanos::ZERO;
                let wanted = if measured { 1.0 } else { 0.0 };
                assert!((view.busy(shard) - wanted).abs() < 1e-9);
            }
            assert!(view.traffic().iter().all(|edge| edge.per_second > 0.0));
        }
        fn step(&mut self, view: &LoadView, now: &Assignment, budget: usize) -> Decision {
            Rotate.step(view, now, budget)
        }
    }
    let busy = Busy {
        seen: AtomicU64::new(0),
    };
    let builder = Sharder::builder(busy).shards(vec![u64::MAX; 4]).clock(MonotonicClock::new()) // and so without the thread's own time
        .workers(2);
    let builder = builder.period(Duration::ZERO).balancer(Look);
    let outcome = builder.build().expect("it builds").run().expect("it runs");
    assert_eq!(outcome.report.rejections, Vec::<String>::new());
    assert_eq!(outcome.report.panics, []);
}

/// A busy machine reshards by its period, an idle one sleeps.
#[test]
fn the_period_is_asked_for_by_work_alone() {
    let mut script = hooks();
    script.process = Box::new(|cx, shard, _| {
        if cx.epoch() >= 5 {
            cx.stop();
        }
        match shard.0 {
            0 => Progress::Again,
            _ => Progress::Idle,
        }
    });
    // Worker 1 is idle and sleeps; it is woken to promise.
    let builder = Sharder::builder(script).shards(vec![0; 2]).workers(2);
    let builder = builder.period(Duration::from_millis(1));
    let sharder = builder.balancer(Static).build().expect("it builds");
    let outcome = sharder.run().expect("it runs");
    assert!(outcome.report.stats.epochs >= 5);
    assert_eq!(outcome.report.stats.moves, 0);
    assert_eq!(outcome.report.assignment.owner(ShardId(1)), WorkerId(1));
}

/// The one way to make the runtime itself panic: a clock that does.
#[test]
fn a_fault_of_the_runtime_ends_the_run_and_loses_nothing() {
    struct Broken(AtomicU64);
    impl Clock for Broken {
        fn now(&self) -> Instant {
            let reading = self.0.fetch_add(1, Ordering::SeqCst);
            assert!(reading < 200, "the clock is broken");
            Instant::from_nanos(reading * 1_000)
        }
    }
    let mut script = hooks();
    script.process = Box::new(|_, _, turns| {
        *turns += 1;
        Progress::Again
    });
    let builder = Sharder::builder(script).shards(vec![7; 6]).workers(3);
    let builder = builder.clock(Broken(AtomicU64::new(0)));
    let sharder = builder.wait(WaitStrategy::Park);
    let error = sharder
        .build()
        .expect("it builds")
        .run()
        .expect_err("it fails");
    assert!(error.to_string().contains("the clock is broken"), "{error}");
    let (cause, outcome) = error.into_parts();
    assert!(matches!(cause, RunCause::Runtime { .. }));
    assert_eq!(outcome.shards.len(), 6);
    assert!(outcome.shards.iter().all(|shard| shard.state >= 7));
}

#[test]
fn errors_say_what_went_wrong() {
    fn is_error<E: std::error::Error>() {}
    is_error::<BuildError>();
    is_error::<RunError<Scripted>>();
    let cause = RunCause::Runtime {
        worker: WorkerId(1),
        message: "a rule is broken".into(),
    };
    assert!(format!("{cause:?}").contains("a rule is broken"));
}
