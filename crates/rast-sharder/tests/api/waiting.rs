//! Waiting: deadlines, what workers sleep in, pins, threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rast_sharder::primitive::WaitStrategy;
use rast_sharder::timers::{Clock, Instant, ManualClock, Nanos};
use rast_sharder::{BuildError, Hook, Park, Progress, ShardId, Sharder, Static, WorkerId};

use crate::support::{Rotate, Scripted, hooks};

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Runs it on a thread of its own.
fn running(sharder: Sharder<Scripted>) -> std::thread::JoinHandle<rast_sharder::Outcome<Scripted>> {
    std::thread::spawn(move || sharder.run().expect("it runs"))
}

/// Each shard has its turn at its time and not a nanosecond before, and idle ones have none.
#[test]
fn deadlines_are_kept_to_the_nanosecond() {
    const SHARDS: usize = 4;
    let second = Nanos::from_secs(1);
    let clock = Arc::new(ManualClock::new());
    let turns: Arc<Vec<AtomicU64>> = Arc::new((0..SHARDS).map(|_| AtomicU64::new(0)).collect());
    let counts = turns.clone();
    let mut script = hooks();
    script.process = Box::new(move |cx, shard, _| {
        let at = Instant::ORIGIN.saturating_add(Nanos::from_nanos(
            second.as_nanos() * (1 + u64::from(shard.0)),
        ));
        let turn = counts[shard.index()].fetch_add(1, Ordering::SeqCst);
        if turn > 0 {
            assert!(cx.now() >= at, "{shard} is early");
        }
        match (shard.0, turn) {
            (3, _) | (_, 1) => Progress::Idle,
            _ => Progress::At(at),
        }
    });
    let builder = Sharder::builder(script).shards(vec![0; SHARDS]).workers(1);
    let builder = builder.wait(WaitStrategy::Park).clock(clock.clone());
    let sharder = builder.build().expect("it builds");
    let handle = sharder.handle();
    let thread = running(sharder);
    let turns_now = || -> Vec<u64> { turns.iter().map(|n| n.load(Ordering::SeqCst)).collect() };
    until(|| turns_now() == [1; SHARDS]);
    for shard in 0..3 {
        let at = second.as_nanos() * (1 + shard as u64);
        clock.set(Instant::from_nanos(at - 1));
        let before = turns_now();
        // The worker looks at the clock and sleeps again.
        for _ in 0..3 {
            let parks = handle.stats().workers[0].parks;
            handle.notify_all();
            until(|| handle.stats().workers[0].parks > parks);
        }
        assert_eq!(turns_now(), before);
        clock.set(Instant::from_nanos(at));
        handle.notify_all();
        until(|| turns[shard].load(Ordering::SeqCst) == 2);
    }
    handle.stop();
    thread.join().expect("no shard was early");
    assert_eq!(turns_now(), [2, 2, 2, 1]);
}

/// A wake-up before the deadline gives a turn; the deadline that it replaces gives none.
#[test]
fn a_wake_up_replaces_a_deadline() {
    let clock = Arc::new(ManualClock::new());
    let turns = Arc::new(AtomicU64::new(0));
    let count = turns.clone();
    let mut script = hooks();
    script.process = Box::new(move |_, _, _| match count.fetch_add(1, Ordering::SeqCst) {
        0 => Progress::At(Instant::from_nanos(1_000_000_000)),
        _ => Progress::Idle,
    });
    let builder = Sharder::builder(script).shards(vec![0]);
    let builder = builder.wait(WaitStrategy::Park).clock(clock.clone());
    let sharder = builder.build().expect("it builds");
    let handle = sharder.handle();
    let thread = running(sharder);
    until(|| turns.load(Ordering::SeqCst) == 1);
    handle.wake(ShardId(0));
    until(|| turns.load(Ordering::SeqCst) == 2);
    clock.set(Instant::from_nanos(2_000_000_000));
    for _ in 0..3 {
        let parks = handle.stats().workers[0].parks;
        handle.notify_all();
        until(|| handle.stats().workers[0].parks > parks);
    }
    handle.stop();
    thread.join().expect("it ends");
    assert_eq!(turns.load(Ordering::SeqCst), 2);
}

/// Something to sleep in that also waits for events of its own.
#[derive(Default)]
struct Poller {
    state: Mutex<(VecDeque<ShardId>, bool)>,
    wake: Condvar,
    sleeps: AtomicU64,
    unparks: AtomicU64,
}

impl Poller {
    fn event(&self, shard: ShardId) {
        self.state.lock().unwrap().0.push_back(shard);
        self.wake.notify_one();
    }
}

impl Park for Poller {
    fn park(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId)) {
        self.sleeps.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock().unwrap();
        let is_idle = |state: &mut (VecDeque<ShardId>, bool)| state.0.is_empty() && !state.1;
        state = match timeout {
            None => self.wake.wait_while(state, is_idle).unwrap(),
            Some(timeout) => {
                let waited = self.wake.wait_timeout_while(state, timeout, is_idle);
                waited.unwrap().0
            }
        };
        state.1 = false;
        let came = std::mem::take(&mut state.0);
        drop(state);
        came.into_iter().for_each(ready);
    }

    fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        let came = std::mem::take(&mut self.state.lock().unwrap().0);
        came.into_iter().for_each(ready);
    }

    fn unpark(&self) {
        self.unparks.fetch_add(1, Ordering::SeqCst);
        self.state.lock().unwrap().1 = true;
        self.wake.notify_one();
    }
}

#[test]
fn a_worker_sleeps_in_what_it_was_given() {
    let pollers: Vec<Arc<Poller>> = (0..2).map(|_| Arc::default()).collect();
    let turns: Arc<Vec<AtomicU64>> = Arc::new((0..3).map(|_| AtomicU64::new(0)).collect());
    let counts = turns.clone();
    let mut script = hooks();
    script.process = Box::new(move |_, shard, _| {
        counts[shard.index()].fetch_add(1, Ordering::SeqCst);
        match shard.0 {
            // Busy until the poller was heard of meanwhile.
            2 if counts[1].load(Ordering::SeqCst) < 2 => Progress::Again,
            _ => Progress::Idle,
        }
    });
    let given = pollers.clone();
    let sharder = Sharder::builder(script)
        .shards(vec![0; 3])
        .workers(2)
        .wait(WaitStrategy::Park)
        .park(move |worker| given[worker.index()].clone())
        .pin(ShardId(0), WorkerId(0))
        .pin(ShardId(1), WorkerId(1))
        .pin(ShardId(2), WorkerId(1))
        .build()
        .expect("it builds");
    let handle = sharder.handle();
    let thread = running(sharder);
    let turns_of = |shard: usize| turns[shard].load(Ordering::SeqCst);
    // An event at a worker that sleeps, and a wake-up.
    until(|| turns_of(0) == 1 && pollers[0].sleeps.load(Ordering::SeqCst) > 0);
    pollers[0].event(ShardId(0));
    until(|| turns_of(0) == 2);
    handle.wake(ShardId(0));
    until(|| turns_of(0) == 3);
    // At a worker that is busy, and one for a shard of the other. An event before the first turn
    // would bring no second one.
    until(|| turns_of(1) == 1);
    pollers[1].event(ShardId(1));
    until(|| turns_of(1) == 2);
    pollers[1].event(ShardId(0));
    until(|| turns_of(0) == 4);
    handle.stop();
    let outcome = thread.join().expect("it ends");
    assert_eq!(outcome.report.panics, []);
    assert!(pollers[0].unparks.load(Ordering::SeqCst) > 0);
}

/// A poller that wakes its worker and panics then.
#[derive(Default)]
struct Moody(Poller);

impl Park for Moody {
    fn park(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId)) {
        self.0.park(timeout, ready);
    }

    fn unpark(&self) {
        self.0.unpark();
        panic!("after the wake-up");
    }
}

/// One worker, which sleeps in `park` at once.
fn sleeping_in<P: Park>(park: &Arc<P>, script: Scripted, shards: usize) -> Sharder<Scripted> {
    let given = park.clone();
    let builder = Sharder::builder(script).shards(vec![0; shards]).workers(1);
    let builder = builder.wait(WaitStrategy::Park);
    let sharder = builder.park(move |_| given.clone()).build();
    sharder.expect("it builds")
}

#[test]
fn a_panic_of_unpark_does_not_hit_the_waker() {
    let turns = Arc::new(AtomicU64::new(0));
    let park = Arc::new(Moody::default());
    let counts = turns.clone();
    let mut script = hooks();
    script.process = Box::new(move |_, _, _| {
        counts.fetch_add(1, Ordering::SeqCst);
        Progress::Idle
    });
    let sharder = sleeping_in(&park, script, 1);
    let handle = sharder.handle();
    let thread = running(sharder);
    until(|| {
        handle.wake(ShardId(0));
        park.0.unparks.load(Ordering::SeqCst) > 0
    });
    let seen = turns.load(Ordering::SeqCst);
    handle.wake(ShardId(0));
    until(|| turns.load(Ordering::SeqCst) > seen);
    handle.stop();
    thread.join().expect("it ends");
}

/// A poller that panics as often as told, and notes the limits of its sleeps.
#[derive(Default)]
struct Faulty {
    poller: Poller,
    polls_left: AtomicU64,
    parks_left: AtomicU64,
    limits: Mutex<Vec<Option<Duration>>>,
}

impl Faulty {
    fn fail(left: &AtomicU64) {
        let is_left = |left: u64| left.checked_sub(1);
        let failed = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_left);
        assert!(failed.is_err(), "it goes wrong");
    }
}

impl Park for Faulty {
    fn park(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId)) {
        self.limits.lock().unwrap().push(timeout);
        Self::fail(&self.parks_left);
        self.poller.park(timeout, ready);
    }

    fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        Self::fail(&self.polls_left);
        self.poller.poll(ready);
    }

    fn unpark(&self) {
        self.poller.unpark();
    }
}

/// Runs shards that are idle, or wait for the instant of no end, on a worker that sleeps in `park`.
/// Wakes shard 0 again and again until `is_done`, and then once more, which gives it a turn.
fn run_in(park: &Arc<Faulty>, is_done: impl Fn() -> bool) -> rast_sharder::Outcome<Scripted> {
    let turns = Arc::new(AtomicU64::new(0));
    let released = Arc::new(AtomicU64::new(0));
    let (count, leaving) = (turns.clone(), released.clone());
    let mut script = hooks();
    script.process = Box::new(move |_, shard, _| match shard.0 {
        0 => {
            count.fetch_add(1, Ordering::SeqCst);
            Progress::Idle
        }
        _ => Progress::At(Instant::MAX),
    });
    script.on_release = Box::new(move |_, _| {
        leaving.fetch_add(1, Ordering::SeqCst);
    });
    let sharder = sleeping_in(park, script, 2);
    let handle = sharder.handle();
    let thread = running(sharder);
    until(|| is_done() || handle.is_stopping());
    let seen = turns.load(Ordering::SeqCst);
    handle.wake(ShardId(0));
    until(|| turns.load(Ordering::SeqCst) > seen || handle.is_stopping());
    handle.stop();
    let outcome = thread.join().expect("a panic of the poller fails no run");
    assert_eq!(released.load(Ordering::SeqCst), 2);
    outcome
}

fn assert_hooks(outcome: &rast_sharder::Outcome<Scripted>, expected: &[Hook]) {
    let hooks: Vec<Hook> = outcome.report.panics.iter().map(|p| p.hook).collect();
    assert_eq!(hooks, expected);
    assert!(outcome.shards.iter().all(|shard| shard.retired.is_none()));
}

#[test]
fn a_panic_of_park_is_an_early_return() {
    let park = Arc::new(Faulty::default());
    park.parks_left.store(3, Ordering::SeqCst);
    let outcome = run_in(&park, || park.poller.sleeps.load(Ordering::SeqCst) > 0);
    assert_hooks(&outcome, &[Hook::Park; 3]);
}

#[test]
fn a_poll_that_panicked_is_not_called_again() {
    let park = Arc::new(Faulty::default());
    park.polls_left.store(u64::MAX, Ordering::SeqCst);
    let outcome = run_in(&park, || park.poller.sleeps.load(Ordering::SeqCst) > 0);
    assert_hooks(&outcome, &[Hook::Park]);
}

#[test]
fn a_poller_that_names_a_shard_that_does_not_exist_is_told() {
    let park = Arc::new(Faulty::default());
    park.poller.event(ShardId(2));
    let outcome = run_in(&park, || park.poller.sleeps.load(Ordering::SeqCst) > 0);
    assert_hooks(&outcome, &[Hook::Park]);
    let message = &outcome.report.panics[0].message;
    assert!(message.contains("no shard 2"), "{message}");
}

/// The end of time is no limit of a sleep.
#[test]
fn a_deadline_at_the_end_of_time_is_none() {
    let park = Arc::new(Faulty::default());
    run_in(&park, || park.limits.lock().unwrap().len() > 1);
    let limits = park.limits.lock().unwrap();
    assert_eq!(limits[1], None, "after the sleep that gives memory back");
}

#[test]
fn a_worker_that_spins_never_sleeps() {
    let mut script = hooks();
    script.process = Box::new(|_, _, _| Progress::Idle);
    let builder = Sharder::builder(script).shards(vec![0; 2]).workers(2);
    let sharder = builder.wait(WaitStrategy::Spin).build();
    let sharder = sharder.expect("it builds");
    let handle = sharder.handle();
    let thread = running(sharder);
    until(|| {
        handle
            .stats()
            .workers
            .iter()
            .all(|worker| worker.rounds > 10_000)
    });
    handle.stop();
    let outcome = thread.join().expect("it ends");
    assert!(
        outcome
            .report
            .stats
            .workers
            .iter()
            .all(|worker| worker.parks == 0)
    );
}

/// Ten thousand idle shards take no turn after their first.
#[test]
fn idle_shards_have_no_turns() {
    const SHARDS: u64 = 10_000;
    let mut script = hooks();
    script.process = Box::new(|cx, shard, turns| {
        *turns += 1;
        match shard.0 {
            0 if *turns == 100_000 => {
                cx.stop();
                Progress::Idle
            }
            0 => Progress::Again,
            _ => Progress::Idle,
        }
    });
    let builder = Sharder::builder(script).shards(vec![0; SHARDS as usize]);
    let builder = builder.workers(1).period(Duration::ZERO);
    let outcome = builder.build().expect("it builds").run().expect("it runs");
    let turns = outcome.report.stats.workers[0].turns;
    assert!(turns <= SHARDS + 100_000, "{turns} turns");
}

/// Every ready shard has its turn within one pass over the ready ones.
#[test]
fn ready_shards_take_turns() {
    let mut script = hooks();
    let round = Arc::new(Mutex::new(vec![0_u64; 7]));
    script.process = Box::new(move |cx, shard, _| {
        let mut turns = round.lock().unwrap();
        turns[shard.index()] += 1;
        let (least, most) = (turns.iter().min(), turns.iter().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{turns:?}");
        if turns[shard.index()] == 1_000 {
            cx.stop();
        }
        Progress::Again
    });
    let sharder = Sharder::builder(script)
        .shards(vec![0; 7])
        .workers(1)
        .build();
    let outcome = sharder.expect("it builds").run().expect("it runs");
    assert_eq!(outcome.report.panics, []);
}

/// The clock is read once in 16 turns.
#[test]
fn short_turns_share_readings_of_the_clock() {
    struct Counting(Arc<AtomicU64>);
    impl Clock for Counting {
        fn now(&self) -> Instant {
            Instant::from_nanos(self.0.fetch_add(1, Ordering::SeqCst))
        }
    }
    let readings = Arc::new(AtomicU64::new(0));
    let mut script = hooks();
    script.process = Box::new(|cx, _, turns| {
        *turns += 1;
        if *turns == 10_000 {
            cx.stop();
        }
        Progress::Again
    });
    let builder = Sharder::builder(script).shards(vec![0; 4]).workers(1);
    let builder = builder
        .clock(Counting(readings.clone()))
        .period(Duration::ZERO);
    let outcome = builder.build().expect("it builds").run().expect("it runs");
    let turns = outcome.report.stats.workers[0].turns;
    let readings = readings.load(Ordering::SeqCst);
    assert!(
        readings <= turns / 16 + 10,
        "{readings} readings in {turns} turns"
    );
}

#[test]
fn a_pinned_shard_stays() {
    let mut script = hooks();
    script.process = Box::new(|cx, shard, _| {
        if shard.0 < 2 {
            assert_eq!(cx.worker(), WorkerId(1));
        }
        cx.reshard();
        if cx.epoch() >= 5 {
            cx.stop();
        }
        Progress::Again
    });
    let builder = Sharder::builder(script).shards(vec![0; 4]).workers(2);
    let sharder = builder
        .pin(ShardId(0), WorkerId(0))
        .pin(ShardId(0), WorkerId(1))
        .pin(ShardId(1), WorkerId(1))
        .period(Duration::ZERO)
        .balancer(Rotate)
        .build();
    let outcome = sharder.expect("it builds").run().expect("it runs");
    let report = outcome.report;
    assert_eq!((report.panics.len(), report.stats.moves), (0, 0));
    let refused = "the balancer moved shard 0, which is pinned to worker 1";
    assert!(report.rejections.iter().all(|why| why == refused));
    assert!(report.rejections.len() >= 5);

    let builder = Sharder::builder(hooks()).shards(vec![0; 4]).workers(2);
    let error = builder
        .pin(ShardId(4), WorkerId(0))
        .build()
        .expect_err("no such shard");
    let (shard, worker) = (ShardId(4), WorkerId(0));
    assert_eq!(error, BuildError::Pin { shard, worker });
    let builder = Sharder::builder(hooks()).shards(vec![0; 4]).workers(2);
    assert!(builder.pin(ShardId(0), WorkerId(2)).check().is_err());
}

#[test]
fn workers_start_with_a_hook_and_a_name() {
    type Seen = Vec<(WorkerId, Option<String>)>;
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let list = seen.clone();
    let mut script = hooks();
    script.process = Box::new(|cx, _, _| {
        if cx.epoch() >= 1 {
            cx.stop();
        }
        cx.reshard();
        Progress::Again
    });
    let builder = Sharder::builder(script).shards(vec![0; 3]).workers(3);
    let builder = builder
        .balancer(Static)
        .name("grind")
        .on_worker_start(move |worker| {
            let name = std::thread::current().name().map(ToString::to_string);
            list.lock().unwrap().push((worker, name));
            assert_ne!(worker, WorkerId(2), "it goes wrong");
        });
    let outcome = builder.build().expect("it builds").run().expect("it runs");
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort();
    let names: Vec<_> = seen[1..]
        .iter()
        .map(|(_, name)| name.clone().unwrap())
        .collect();
    assert_eq!(names, ["grind-1", "grind-2"]);
    let panics = &outcome.report.panics;
    assert_eq!((panics.len(), panics[0].hook), (1, Hook::WorkerStart));
}

/// A start hook may limit its thread to one processor.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_thread_stays_where_its_start_hook_put_it() {
    use rast_sharder::primitive::Processors;

    let counts: Arc<Mutex<Vec<usize>>> = Arc::default();
    let list = counts.clone();
    let mut script = hooks();
    script.process = Box::new(move |_, _, _| {
        let allowed = Processors::of_this_thread().expect("Linux tells them");
        list.lock().unwrap().push(allowed.count());
        Progress::Idle
    });
    let workers = std::thread::available_parallelism().unwrap().get();
    let builder = Sharder::builder(script).shards(vec![0; workers]);
    let builder = builder.workers(workers).on_worker_start(|worker| {
        let allowed = Processors::of_this_thread().expect("Linux tells them");
        assert!(allowed.stay_on(worker.index()));
    });
    let sharder = builder.balancer(Static).build().expect("it builds");
    let handle = sharder.handle();
    let running = running(sharder);
    while counts.lock().unwrap().len() < workers {
        std::thread::yield_now();
    }
    handle.stop();
    running.join().expect("it ends");
    assert!(counts.lock().unwrap().iter().all(|&count| count == 1));
}

/// Worker `n` runs on the `n`-th core that the process may use, beginning again after the last.
#[cfg(all(feature = "affinity", target_os = "linux", not(miri)))]
#[test]
fn pinned_threads_have_a_core_each() {
    /// Those that the calling thread may run on.
    fn cores() -> Vec<usize> {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mut lines = status.lines();
        let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let ranges = list.unwrap().trim().split(',').flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<usize>().unwrap()..=last.parse().unwrap()
        });
        ranges.collect()
    }
    type Seen = Vec<(WorkerId, Vec<usize>)>;
    const WORKERS: usize = 3;
    let all = cores();
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let list = seen.clone();
    let builder = Sharder::builder(hooks()).shards(vec![0; WORKERS]);
    let builder = builder.workers(WORKERS).pin_threads();
    let builder = builder.on_worker_start(move |worker| {
        list.lock().unwrap().push((worker, cores()));
    });
    let sharder = builder.build().expect("it builds");
    sharder.handle().stop();
    running(sharder).join().expect("it ends");
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort();
    let core_of = |worker| vec![all[worker % all.len()]];
    let expected = (0..WORKERS).map(|at| (WorkerId::from_index(at), core_of(at)));
    assert_eq!(seen, expected.collect::<Seen>());
}
