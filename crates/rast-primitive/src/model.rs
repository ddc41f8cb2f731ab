//! Runs one scenario many times: under loom in every interleaving up to a bound on preemptions,
//! under shuttle in many random interleavings, under std on real threads.

#[cfg(all(rast_loom, rast_shuttle))]
compile_error!("one of rast_loom and rast_shuttle at a time");

/// Number of times that [`model`] repeats a scenario under std.
#[cfg(not(any(rast_loom, rast_shuttle)))]
const RUNS: usize = 200;

/// Minimum bound on preemptions per execution.
#[cfg(rast_loom)]
const LEAST_BOUND: usize = 2;

/// Maximum number of branches of one execution before loom reports it as endless.
#[cfg(rast_loom)]
const BRANCHES: usize = 10_000;

/// Runs the scenario `f`. Under `--cfg rast_loom` it runs in every interleaving with at most
/// `max(2, LOOM_MAX_PREEMPTIONS)` preemptions. Under `--cfg rast_shuttle` it runs in
/// `RAST_SHUTTLE_RUNS` random interleavings. Otherwise it runs 200 times on real threads as a
/// stress test.
///
/// Under loom it ends by printing `loom: <test> executions=N bound=B`, one line that `cargo xtask
/// loom` reads.
///
/// # Panics
///
/// If the scenario panics. Under loom and shuttle also if it deadlocks or has a data race in a
/// `cell`, and under loom if it leaks. Under std a deadlock hangs, and leaks and races go
/// unnoticed.
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
/// # Panics
///
/// If the scenario panics, deadlocks, leaks or has a data race in one of these interleavings.
#[cfg(rast_loom)]
pub fn model<F>(f: F)
where
    F: Fn() + Send + Sync + 'static,
{
    use std::string::ToString;

    const COUNTED: &str = "no scenario runs while the count is locked";

    // std's own types: loom must not see the counter.
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

/// Returns a number from which a scenario may choose what it does.
///
/// Under shuttle it is part of the schedule: the same seed, or a repeated schedule, gives the same
/// numbers. Under loom it is always 0, because executions must repeat. Under std it differs in each
/// call.
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
pub use self::random::{faulty, model};

#[cfg(rast_shuttle)]
mod random {
    //! Random schedules, from a seed that is printed.

    use std::hash::{BuildHasher, RandomState};
    use std::string::{String, ToString};

    use shuttle::rand::{RngCore, thread_rng};
    use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
    use shuttle::{Config, Runner};

    use crate::scheduled;

    /// Default number of schedules per scenario.
    const RUNS: usize = 10_000;

    /// By how much [`faulty`] multiplies the number of schedules.
    const TIMES_FAULTY: usize = 20;

    /// Number of switch points of a PCT schedule, plus one.
    const DEPTH: usize = 3;

    /// Stack size of a thread, large enough to report a failure.
    const STACK: usize = 512 << 10;

    /// Runs the scenario `f` in `RAST_SHUTTLE_RUNS` random schedules, 10 000 by default. In half of
    /// the schedules each step runs a thread chosen uniformly from those that can run. The other
    /// half use PCT (probabilistic concurrency testing), which runs one thread until it waits and
    /// switches at a few additional points. A scenario of one thread runs only the first half of
    /// the schedules.
    ///
    /// Ends by printing `shuttle: <test> schedules=N seed=S`, one line that `cargo xtask shuttle`
    /// reads. The seed differs in each run, unless `SHUTTLE_RANDOM_SEED` is set. The same seed and
    /// number of runs repeat all schedules. If a schedule fails, shuttle prints it; with the
    /// printed text in `RAST_SHUTTLE_SCHEDULE` only this schedule is run, and no line is printed.
    ///
    /// # Panics
    ///
    /// If the scenario panics, deadlocks, takes a million steps, or has two concurrent accesses to
    /// a cell in one of the schedules.
    pub fn model<F>(f: F)
    where
        F: Fn() + Send + Sync + 'static,
    {
        explore(f, 1);
    }

    /// As [`model`], for a scenario with a fault that some schedule is expected to show. It runs in
    /// up to 20 times as many schedules, because it ends at the first one that fails.
    ///
    /// # Panics
    ///
    /// As [`model`].
    pub fn faulty<F>(f: F)
    where
        F: Fn() + Send + Sync + 'static,
    {
        explore(f, TIMES_FAULTY);
    }

    /// Runs a scenario in `times` times the usual number of schedules.
    fn explore<F>(f: F, times: usize)
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
        let runs = number("RAST_SHUTTLE_RUNS").map_or(RUNS, |runs| runs.max(2) as usize) * times;
        // shuttle itself reads this variable, and it takes precedence.
        let seed = number("SHUTTLE_RANDOM_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
        let failing = Failing { name, seed, runs };
        scheduled::take_has_threads();

        let random = RandomScheduler::new_from_seed(seed, runs / 2);
        let mut schedules = Runner::new(random, config()).run(scenario.clone());
        // PCT rejects a scenario of one thread.
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

    /// Returns the number in an environment variable, if it is set.
    fn number(variable: &str) -> Option<u64> {
        let text = std::env::var(variable).ok()?;
        match text.parse() {
            Ok(number) => Some(number),
            Err(_) => panic!("{variable} is `{text}`; it must be a number"),
        }
    }

    /// Prints how to repeat a run if it fails.
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
