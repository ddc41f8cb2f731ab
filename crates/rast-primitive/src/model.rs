//! One scenario, run by loom in every interleaving or by std many times.

/// How often [`model`] repeats a scenario under std.
#[cfg(not(rast_loom))]
const RUNS: usize = 200;

/// The least bound on preemptions per execution that a model runs with.
#[cfg(rast_loom)]
const LEAST_BOUND: usize = 2;

/// Branches that one execution may take before loom calls it endless.
#[cfg(rast_loom)]
const BRANCHES: usize = 10_000;

/// Runs the scenario `f`: under `--cfg rast_loom` in every interleaving with at
/// most `max(2, LOOM_MAX_PREEMPTIONS)` preemptions, otherwise 200 times on real
/// threads as a stress.
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
#[cfg(not(rast_loom))]
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
