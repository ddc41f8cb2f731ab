//! One scenario, run by loom in every interleaving, by shuttle in many random
//! ones, or by std many times.

#[cfg(all(rast_loom, rast_shuttle))]
compile_error!("one of rast_loom and rast_shuttle at a time");

/// How often [`model`] repeats a scenario under std.
#[cfg(not(any(rast_loom, rast_shuttle)))]
const RUNS: usize = 200;

/// The least bound on preemptions per execution that a model runs with.
#[cfg(rast_loom)]
const LEAST_BOUND: usize = 2;

/// Branches that one execution may take before loom calls it endless.
#[cfg(rast_loom)]
const BRANCHES: usize = 10_000;

/// Runs the scenario `f`: under `--cfg rast_loom` in every interleaving with at
/// most `max(2, LOOM_MAX_PREEMPTIONS)` preemptions; under `--cfg rast_shuttle` in
/// `RAST_SHUTTLE_RUNS` random ones; otherwise 200 times on real threads as a stress.
///
/// Under loom it ends by printing `loom: <test> executions=N bound=B`, one line
/// that `cargo xtask loom` reads.
///
/// # Panics
///
/// When the scenario panics, deadlocks, leaks or races in some interleaving.
///
/// # Examples
///
/// ```
/// use rast_primitive::sync::{Arc, atomic::{AtomicU32, Ordering}};
/// use rast_primitive::{model, thread};
///
/// model::model(|| {
///     let sum = Arc::new(AtomicU32::new(0));
///     let theirs = Arc::clone(&sum);
///     let other = thread::spawn(move || theirs.fetch_add(1, Ordering::Relaxed));
///     sum.fetch_add(1, Ordering::Relaxed);
///     other.join().unwrap();
///     assert_eq!(sum.load(Ordering::Relaxed), 2);
/// });
/// ```
#[cfg(not(any(rast_loom, rast_shuttle)))]
pub fn model<F>(f: F)
where
    F: Fn() + Send + Sync + 'static,
{
    for _ in 0..RUNS {
        f();
    }
}

/// Runs the scenario `f` in every interleaving with at most
/// `max(2, LOOM_MAX_PREEMPTIONS)` preemptions.
///
/// Ends by printing `loom: <test> executions=N bound=B`, one line that
/// `cargo xtask loom` reads.
///
/// # Panics
///
/// When the scenario panics, deadlocks, leaks or races in some interleaving.
#[cfg(rast_loom)]
pub fn model<F>(f: F)
where
    F: Fn() + Send + Sync + 'static,
{
    use std::string::ToString;

    const COUNTED: &str = "no scenario runs while the count is locked";

    // std's own types: loom must not see the count.
    let executions = std::sync::Arc::new(std::sync::Mutex::new(0_u64));
    let counter = std::sync::Arc::clone(&executions);

    let mut builder = loom::model::Builder::new();
    let bound = builder.preemption_bound.unwrap_or(0).max(LEAST_BOUND);
    builder.preemption_bound = Some(bound);
    builder.max_branches = builder.max_branches.max(BRANCHES);
    builder.check(move || {
        *counter.lock().expect(COUNTED) += 1;
        f();
    });

    let name = std::thread::current().name().unwrap_or("main").to_string();
    let executions = *executions.lock().expect(COUNTED);
    std::println!("loom: {name} executions={executions} bound={bound}");
}

/// Returns a number for a scenario to vary by.
///
/// Under shuttle it is part of the schedule: the same seed draws the same
/// numbers, and so does a schedule that is repeated. Under loom it is always 0,
/// as executions must repeat. Under std it is another each time.
///
/// # Examples
///
/// ```
/// let pushes = 1 + rast_primitive::model::draw() % 8;
/// assert!((1..=8).contains(&pushes));
/// ```
#[must_use]
pub fn draw() -> u64 {
    #[cfg(rast_loom)]
    return 0;
    #[cfg(rast_shuttle)]
    return random::draw();
    #[cfg(not(any(rast_loom, rast_shuttle)))]
    {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    }
}

#[cfg(rast_shuttle)]
pub use self::random::model;

#[cfg(rast_shuttle)]
mod random {
    //! Random schedules, from a seed that is printed.

    use std::hash::{BuildHasher, RandomState};
    use std::string::{String, ToString};

    use shuttle::rand::{RngCore, thread_rng};
    use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
    use shuttle::{Config, Runner};

    use crate::scheduled;

    /// Schedules per scenario unless `RAST_SHUTTLE_RUNS` says otherwise.
    const RUNS: usize = 10_000;

    /// Places at which a schedule of the second half changes its mind, plus one.
    const DEPTH: usize = 3;

    /// The stack of a thread: room for a failure to be told.
    const STACK: usize = 512 << 10;

    /// Runs the scenario `f` in `RAST_SHUTTLE_RUNS` random schedules, 10 000 if
    /// that is not set: half of them switch at any step with equal chance, half
    /// are of PCT, which runs one thread until it waits and switches at a few
    /// places beside.
    ///
    /// Ends by printing `shuttle: <test> schedules=N seed=S`, one line that
    /// `cargo xtask shuttle` reads. The seed is another each time, or
    /// `SHUTTLE_RANDOM_SEED`; with the same seed and number all runs repeat.
    /// When one fails, shuttle prints its schedule too, and with that text in
    /// `RAST_SHUTTLE_SCHEDULE` it alone is run.
    ///
    /// # Panics
    ///
    /// When the scenario panics, deadlocks, takes a million steps, or two
    /// accesses to a cell meet, in one of the schedules.
    pub fn model<F>(f: F)
    where
        F: Fn() + Send + Sync + 'static,
    {
        let name = std::thread::current().name().unwrap_or("main").to_string();
        let f = std::sync::Arc::new(f);
        let scenario = move || {
            scheduled::begin();
            f();
        };
        if let Ok(schedule) = std::env::var("RAST_SHUTTLE_SCHEDULE") {
            let schedule = ReplayScheduler::new_from_encoded(&schedule);
            Runner::new(schedule, config()).run(scenario);
            return;
        }
        let runs = number("RAST_SHUTTLE_RUNS").map_or(RUNS, |runs| runs.max(2) as usize);
        // shuttle itself reads this variable, and it has the last word.
        let seed = number("SHUTTLE_RANDOM_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
        let failing = Failing { name, seed, runs };
        scheduled::take_has_threads();

        let random = RandomScheduler::new_from_seed(seed, runs / 2);
        let mut schedules = Runner::new(random, config()).run(scenario.clone());
        // PCT refuses a scenario of one thread.
        if scheduled::take_has_threads() {
            let pct = PctScheduler::new_from_seed(seed, DEPTH, runs - runs / 2);
            schedules += Runner::new(pct, config()).run(scenario);
        }
        std::println!(
            "shuttle: {} schedules={schedules} seed={seed}",
            failing.name
        );
    }

    fn config() -> Config {
        let mut config = Config::new();
        config.silence_warnings = true;
        config.stack_size = STACK;
        config
    }

    pub(super) fn draw() -> u64 {
        thread_rng().next_u64()
    }

    /// The number that an environment variable holds, if it is set.
    fn number(variable: &str) -> Option<u64> {
        let text = std::env::var(variable).ok()?;
        match text.parse() {
            Ok(number) => Some(number),
            Err(_) => panic!("{variable} is `{text}`; it must be a number"),
        }
    }

    /// Tells how to repeat a run, should it fail.
    struct Failing {
        name: String,
        seed: u64,
        runs: usize,
    }

    impl Drop for Failing {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let Self { name, seed, runs } = self;
                std::println!(
                    "shuttle: {name} shows a fault; to repeat it: \
                     SHUTTLE_RANDOM_SEED={seed} RAST_SHUTTLE_RUNS={runs}"
                );
            }
        }
    }
}
