//! The figures of a shard are emptied and reported in turns, whatever the shard, the user's code
//! and the balancer do.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rast_sharder::primitive::{Random, WaitStrategy};
use rast_sharder::timers::{Clock, Instant, Nanos};
use rast_sharder::{
    Assignment, Balancer, Controller, Decision, Greedy, Handle, LoadReport, LoadView, Move,
    PanicPayload, PanicPolicy, Progress, ShardId, Sharder, Static, Stats, WorkerCx, WorkerId,
};

/// What panics on purpose.
const MEANT: &str = "it is meant";

/// Random turns, with figures that notice a call too many or too few.
struct Checked {
    shards: usize,
    /// One turn in so many panics.
    panics: u64,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Reports of the current decision.
    reports: AtomicU64,
    decisions: AtomicU64,
    /// Stop after so many decisions.
    most: u64,
    /// Turns that were measured and reported.
    turns: AtomicU64,
}

#[derive(Default)]
struct Figures {
    restarts: u32,
    /// Reports since the last restart. `report` has a shared borrow.
    reports: AtomicU32,
    epoch: Option<u32>,
    turns: u32,
}

impl Controller for Checked {
    type Shard = Random;
    type Load = Figures;

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        _: ShardId,
        random: &mut Random,
        load: Option<&mut Figures>,
    ) -> Progress {
        if let Some(load) = load {
            assert!(load.restarts > 0, "figures are emptied before the turn");
            assert_eq!(
                load.reports.load(Ordering::Relaxed),
                0,
                "they are reported later"
            );
            let epoch = *load.epoch.get_or_insert(cx.epoch());
            assert_eq!(epoch, cx.epoch(), "they are those of one window");
            load.turns += 1;
        }
        if random.draw().is_multiple_of(self.panics) {
            resume_unwind(Box::new(MEANT));
        }
        if random.below(3) > 0 {
            cx.wake(ShardId::from_index(random.below(self.shards)), 0);
        }
        match random.below(3) {
            0 => Progress::Again,
            _ => Progress::Idle,
        }
    }

    fn new_load(&self, _: ShardId) -> Figures {
        Figures::default()
    }

    fn restart_load(&self, _: ShardId, load: &mut Figures) {
        let reports = *load.reports.get_mut();
        assert_eq!(
            reports,
            u32::from(load.restarts > 0),
            "each window is reported"
        );
        *load = Figures {
            restarts: load.restarts + 1,
            ..Figures::default()
        };
    }

    fn report(&self, _: ShardId, load: &Figures, _: &mut LoadReport<'_>) {
        assert!(load.restarts > 0, "figures are emptied before the report");
        let reports = load.reports.fetch_add(1, Ordering::Relaxed);
        assert_eq!(reports, 0, "each window is reported once");
        self.counts.reports.fetch_add(1, Ordering::Relaxed);
        (self.counts.turns).fetch_add(u64::from(load.turns), Ordering::Relaxed);
    }

    fn before_turn(&self, cx: &mut WorkerCx<'_>) {
        if self.counts.decisions.load(Ordering::Relaxed) >= self.counts.most {
            cx.stop();
        }
        cx.reshard();
    }

    fn on_panic(&self, _: ShardId, random: &mut Random, _: PanicPayload) -> PanicPolicy {
        match random.below(8) {
            0 => PanicPolicy::Retire,
            _ => PanicPolicy::Continue,
        }
    }
}

/// Moves random shards to random workers, as a list, and some of them nowhere.
struct Scatter {
    random: Random,
    moves: usize,
    counts: Arc<Counts>,
}

impl Balancer for Scatter {
    fn begin(&mut self, view: &LoadView, _: &Assignment) {
        let reports = self.counts.reports.swap(0, Ordering::Relaxed);
        assert_eq!(view.used().len() as u64, reports, "the used shards report");
        for (at, &(shard, load)) in view.used().iter().enumerate() {
            assert_eq!(
                view.load(shard),
                Some(load),
                "entry {at} is of another shard"
            );
        }
    }

    fn step(&mut self, view: &LoadView, now: &Assignment, _: usize) -> Decision {
        self.counts.decisions.fetch_add(1, Ordering::Relaxed);
        let mut moves: Vec<_> = (0..self.random.below(self.moves + 1))
            .map(|_| Move {
                shard: ShardId::from_index(self.random.below(view.shards())),
                to: WorkerId::from_index(self.random.below(now.workers())),
            })
            .collect();
        moves.sort_by_key(|moved| moved.shard);
        moves.dedup_by_key(|moved| moved.shard);
        Decision::Move(moves)
    }
}

fn check(shards: usize, workers: usize, moves: usize, decisions: u64, seed: u64) {
    println!("{shards} shards, {workers} workers, seed {seed:#x}");
    let counts = Arc::new(Counts {
        most: decisions,
        ..Counts::default()
    });
    let mut random = Random::new(seed);
    let handle = Arc::new(OnceLock::<Handle>::new());
    let seen = Arc::clone(&handle);
    // Each shard of worker 0 has a turn when it is acquired.
    let turns = shards.div_ceil(workers) as u64;
    let sharder = Sharder::builder(Checked {
        shards,
        panics: 500,
        counts: counts.clone(),
    })
    .shards((0..shards).map(|_| Random::new(random.draw())).collect())
    .workers(workers)
    .wait(if seed.is_multiple_of(2) {
        WaitStrategy::Park
    } else {
        WaitStrategy::Adaptive
    })
    .period(Duration::ZERO)
    .balancer(Scatter {
        random,
        moves,
        counts: counts.clone(),
    })
    .on_worker_start(move |worker| {
        // Worker 1 comes late.
        let handle = seen.wait();
        while worker == WorkerId(1) && handle.stats().workers[0].turns < turns {
            std::thread::yield_now();
        }
    })
    .build()
    .expect("it builds");
    handle.set(sharder.handle()).expect("it is set once");
    let outcome = sharder.run().expect("it runs");
    let wrong = outcome
        .report
        .panics
        .iter()
        .find(|panic| panic.message != MEANT);
    assert_eq!(wrong, None);
    assert_eq!(outcome.report.rejections, Vec::<String>::new());
    let stats = &outcome.report.stats;
    assert!(stats.epochs + 1 >= decisions, "{stats:?}");
    println!(
        "{} turns reported, {} moves",
        counts.turns.load(Ordering::Relaxed),
        stats.moves
    );
}

#[test]
fn figures_of_ten_shards_are_emptied_and_reported_in_turns() {
    for seed in 1..=20 {
        check(10, 1 + seed as usize % 4, 4, 300, seed);
    }
}

#[test]
fn figures_of_ten_thousand_shards_are_emptied_and_reported_in_turns() {
    for seed in 1..=4 {
        check(10_000, 3, 10_000, 40, seed);
    }
}

mod long {
    use super::check;

    #[test]
    fn figures_of_a_hundred_thousand_shards_are_emptied_and_reported_in_turns() {
        check(100_000, 3, 200, 40, 1);
        check(100_000, 2, 200_000, 6, 2);
    }
}

/// Each turn adds one to the figures. Emptying those of shard 0 panics while it is told to.
struct Torn {
    goes_wrong: Arc<AtomicBool>,
    reported: Arc<Mutex<Vec<(ShardId, u32)>>>,
}

impl Controller for Torn {
    type Shard = ();
    type Load = u32;

    fn process(
        &self,
        _: &mut WorkerCx<'_>,
        _: ShardId,
        (): &mut (),
        load: Option<&mut u32>,
    ) -> Progress {
        *load.expect("no worker has promised") += 1;
        Progress::Idle
    }

    fn new_load(&self, _: ShardId) -> u32 {
        0
    }

    fn restart_load(&self, shard: ShardId, load: &mut u32) {
        if shard == ShardId(0) && self.goes_wrong.load(Ordering::Relaxed) {
            resume_unwind(Box::new(MEANT));
        }
        *load = 0;
    }

    fn report(&self, shard: ShardId, load: &u32, _: &mut LoadReport<'_>) {
        self.reported.lock().unwrap().push((shard, *load));
    }

    fn on_panic(&self, _: ShardId, (): &mut (), _: PanicPayload) -> PanicPolicy {
        PanicPolicy::Continue
    }
}

#[test]
fn figures_that_were_not_emptied_are_not_reported_again() {
    let (goes_wrong, reported) = (Arc::default(), Arc::default());
    let torn = Torn {
        goes_wrong: Arc::clone(&goes_wrong),
        reported: Arc::clone(&reported),
    };
    let sharder = Sharder::builder(torn)
        .shards(vec![(); 2])
        .workers(1)
        .period(Duration::ZERO)
        .balancer(Next(Arc::default()))
        .build();
    let mut steps = sharder.expect("it builds").stepper();
    let shards = [0, 1].map(ShardId);
    for (is_wrong, reports) in [
        (false, vec![(shards[0], 1), (shards[1], 1)]),
        // Its figures would be those of two windows.
        (true, vec![(shards[1], 1)]),
        (true, vec![(shards[1], 1)]),
        (false, vec![(shards[0], 1), (shards[1], 1)]),
    ] {
        goes_wrong.store(is_wrong, Ordering::Relaxed);
        for shard in shards {
            steps.handle().wake(shard);
            steps.look();
            assert!(steps.turn(shard));
        }
        steps.handle().reshard();
        steps.look();
        assert_eq!(std::mem::take(&mut *reported.lock().unwrap()), reports);
        assert_eq!(steps.handle().stats().last_used, 2, "both had a turn");
    }
}

/// Decides what it is told to, once.
struct Next(Arc<Mutex<Option<Decision>>>);

impl Balancer for Next {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
        self.0.lock().unwrap().take().unwrap_or(Decision::Keep)
    }
}

/// Panics when it is asked whether it needs figures.
struct Unsure;

impl Balancer for Unsure {
    fn needs_figures(&self, _: &LoadView, _: &Assignment) -> bool {
        resume_unwind(Box::new(MEANT));
    }

    fn begin(&mut self, _: &LoadView, _: &Assignment) {
        unreachable!("it was not answered");
    }

    fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
        unreachable!("it was not answered");
    }
}

/// Needs figures in each decision from the one with this number on, counted from zero.
struct From(u32, AtomicU32);

impl Balancer for From {
    fn needs_figures(&self, _: &LoadView, _: &Assignment) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed) >= self.0
    }

    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, _: &LoadView, _: &Assignment, _: usize) -> Decision {
        Decision::Keep
    }
}

/// Counts its readings.
struct Counted(Arc<AtomicU64>);

impl Clock for Counted {
    fn now(&self) -> Instant {
        self.0.fetch_add(1, Ordering::Relaxed);
        Instant::ORIGIN
    }
}

/// Ends three windows in which both shards had a turn; returns the number of reports, and the
/// counts.
fn reports_for(workers: usize, balancer: impl Balancer) -> (usize, Stats) {
    let (reports, stats, _) = reports_and_readings_for(workers, balancer);
    (reports, stats)
}

/// As [`reports_for`]; returns the number of readings of the thread clock as well.
fn reports_and_readings_for(workers: usize, balancer: impl Balancer) -> (usize, Stats, u64) {
    let reported = Arc::<Mutex<Vec<_>>>::default();
    let readings = Arc::<AtomicU64>::default();
    let torn = Torn {
        goes_wrong: Arc::default(),
        reported: Arc::clone(&reported),
    };
    let sharder = Sharder::builder(torn)
        .shards(vec![(); 2])
        .workers(workers)
        .thread_clock(Counted(Arc::clone(&readings)))
        .period(Duration::ZERO)
        .balancer(balancer)
        .build();
    let mut steps = sharder.expect("it builds").stepper();
    for _ in 0..3 {
        for shard in [0, 1].map(ShardId) {
            steps.handle().wake(shard);
            steps.look();
            assert!(steps.turn(shard));
        }
        steps.handle().reshard();
        steps.look();
    }
    let reports = reported.lock().unwrap().len();
    let readings = readings.load(Ordering::Relaxed);
    (reports, steps.handle().stats(), readings)
}

#[test]
fn figures_are_collected_for_a_balancer_that_needs_them() {
    let one_worker = reports_for(1, Greedy::new());
    for (reports, stats) in [one_worker, reports_for(2, Static)] {
        let counts = (reports, stats.epochs, stats.decisions, stats.last_used);
        assert_eq!(counts, (0, 3, 3, 2), "epochs go on without figures");
    }
    let (reports, stats) = reports_for(2, Greedy::new());
    assert_eq!((reports, stats.epochs, stats.last_used), (6, 3, 2));
    let (reports, stats) = reports_for(2, Unsure);
    let counts = (reports, stats.epochs, stats.rejected, stats.panics);
    assert_eq!(counts, (0, 3, 3, 3), "the assignment stays");
}

#[test]
fn the_thread_clock_is_read_after_a_decision_that_needed_figures() {
    // Readings per worker: at the start and at the end of each of three windows, and at the start
    // of the fourth one.
    for (first, reports, readings) in [(0, 6, 7), (1, 4, 5), (2, 2, 3), (3, 0, 2)] {
        for workers in [1, 2] {
            let balancer = From(first, AtomicU32::new(0));
            let (reported, stats, read) = reports_and_readings_for(workers, balancer);
            assert_eq!((reported, stats.epochs), (reports, 3));
            assert_eq!(
                read,
                readings * workers as u64,
                "{first}, {workers} workers"
            );
        }
    }
}

#[test]
fn no_list_of_moves_harms() {
    for shards in [10, 10_000, 100_000] {
        let next = Arc::new(Mutex::new(None));
        let torn = Torn {
            goes_wrong: Arc::default(),
            reported: Arc::default(),
        };
        let sharder = Sharder::builder(torn)
            .shards(vec![(); shards])
            .workers(2)
            .period(Duration::ZERO)
            .balancer(Next(Arc::clone(&next)))
            .pin(ShardId(0), WorkerId(0))
            .build();
        let mut steps = sharder.expect("it builds").stepper();
        let handle = steps.handle();
        let mut decide = |decision| {
            *next.lock().unwrap() = Some(decision);
            let before = handle.stats();
            handle.reshard();
            steps.look();
            let stats = handle.stats();
            assert_eq!(
                stats.epochs,
                before.epochs + 1,
                "an epoch opens in any case"
            );
            (stats.last_moves, stats.rejected - before.rejected)
        };
        let to = |shard: usize, worker: u16| Move {
            shard: ShardId::from_index(shard),
            to: WorkerId(worker),
        };
        let all = |worker: u16| (1..shards).map(move |shard| to(shard, worker));
        // As many as there are, and wrong at the end.
        for wrong in [
            to(shards, 0),
            to(usize::from(u16::MAX), 2),
            to(1, u16::MAX),
            to(1, 1),
            to(0, 1),
            to(u32::MAX as usize, 0),
        ] {
            let moves = all(1).chain([wrong]).collect();
            assert_eq!(decide(Decision::Move(moves)), (0, 1), "{wrong:?}");
        }
        // One shard, a million times.
        assert_eq!(decide(Decision::Move(vec![to(1, 0); 1_000_000])), (0, 1));
        assert_eq!(decide(Decision::Move(Vec::new())), (0, 0));
        let half = shards as u64 / 2;
        assert_eq!(decide(Decision::Move(all(1).collect())), (half - 1, 0));
        assert_eq!(decide(Decision::Move(all(1).collect())), (0, 0));
        for worker in [0, 1, 0, 1] {
            let moved = decide(Decision::Move(all(worker).collect()));
            assert_eq!(moved, (shards as u64 - 1, 0));
        }
        let outcome = steps.finish();
        let owner = |shard: usize| outcome.report.assignment.owner(ShardId::from_index(shard));
        assert_eq!(owner(0), WorkerId(0));
        assert!((1..shards).all(|shard| owner(shard) == WorkerId(1)));
        assert_eq!(outcome.report.panics, []);
    }
}

/// The number of slices of a decision of `Greedy`.
fn slices(greedy: &mut Greedy, view: &LoadView, now: &Assignment) -> usize {
    greedy.begin(view, now);
    let slices = (1..).find(|_| greedy.step(view, now, 256) != Decision::Pending);
    slices.expect("it decides")
}

#[test]
fn slices_of_greedy_follow_the_shards_that_are_used() {
    const WINDOW: Nanos = Nanos::from_millis(100);
    let workers = [0, 1].map(WorkerId);
    let mut decisions = Vec::new();
    for shards in [10, 100_000] {
        let now = Assignment::round_robin(shards, workers.len());
        let mut view = LoadView::new(workers.len(), shards);
        workers
            .iter()
            .for_each(|&worker| view.set_worker_window(worker, WINDOW));
        let mut greedy = Greedy::new();
        // Every shard has a turn in the first window, and two have turns in each other one.
        (0..shards).for_each(|shard| view.set(ShardId::from_index(shard), 1e-5, WINDOW));
        let first = slices(&mut greedy, &view, &now);
        assert!(first > shards / 256, "{first} slices for {shards} shards");
        let mut each = Vec::new();
        for _ in 0..30 {
            view.clear();
            (0..2).for_each(|shard| view.set(ShardId(shard), 0.9, WINDOW));
            each.push(slices(&mut greedy, &view, &now));
        }
        // All others rest by then.
        decisions.push(each.split_off(20));
    }
    assert_eq!(decisions[0], decisions[1]);
    assert!(
        decisions[1].iter().all(|&slices| slices <= 4),
        "{decisions:?}"
    );
}
