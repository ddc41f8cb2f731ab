//! `cargo xtask verify`: every check, in the order in which a fault is cheapest to find.
//!
//! It goes on after a failed step, so that one run shows all that is wrong. Only the steps marked
//! `outside` may be reported as not run; any other that does not run counts as failed.
//!
//! Each step is a process of its own, whose output goes to a file: what passed prints one line, so
//! that the part of a CI log that is kept shows what failed.

use crate::cmd::Cmd;
use crate::metadata::{Package, Workspace};
use crate::space::Need;
use crate::{
    Result, bench, clients, layers, loom, outside, package, shuttle, space, stall, tidy, tree, weak,
};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    NotRun(String),
}

/// One check.
struct Step {
    name: &'static str,
    /// Whether `--quick` runs it too.
    quick: bool,
    /// Whether its tool lies outside, so that it may be absent.
    outside: bool,
    run: fn() -> Result<Outcome>,
}

/// A step that always runs.
const fn step(name: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step {
        name,
        quick: false,
        outside: false,
        run,
    }
}

/// A step that runs in `--quick` too.
const fn quick(name: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step {
        name,
        quick: true,
        outside: false,
        run,
    }
}

/// A step that is not run where its tool is absent.
const fn outside(name: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step {
        name,
        quick: false,
        outside: true,
        run,
    }
}

const STEPS: &[Step] = &[
    quick("fmt", || cargo("fmt --all --check")),
    quick("clippy", || {
        cargo("clippy --workspace --all-targets --all-features -- -D warnings")
    }),
    quick("layers", || checked("layers", layers::command(&[]))),
    quick("tidy", || checked("tidy", tidy::command(&[]))),
    quick("tests", tests),
    // The step `doc tests` turns the hardening on with all features; the other tests of the plain
    // build are in `tests`.
    step("plain doc tests", || {
        cargo("test -p rast-alloc --no-fail-fast --doc")
    }),
    step("system segments", system_segments),
    step("global", global),
    quick("doc tests", || {
        cargo("test --workspace --all-features --no-fail-fast --doc")
    }),
    step("rustdoc", || {
        done(
            Cmd::cargo()
                .env("RUSTDOCFLAGS", "-D warnings")
                .args(words("doc --workspace --no-deps --all-features"))
                .run(),
        )
    }),
    step("features", features),
    step("crates alone", alone),
    step("no_std", no_std),
    step("tagged pointer", tagged),
    step("loom", || done(loom::run(&[]))),
    step("shuttle", || done(shuttle::run(&[]))),
    step("stall", || done(stall::run())),
    step("stress", stress),
    step("weak", weakened),
    step("examples", examples),
    step("demo", demo),
    step("bench smoke", || {
        done(bench::run(&["--smoke".to_string()], false))
    }),
    // Each criterion bench once, on what the steps above built. The option belongs to criterion
    // alone: a library or program without `bench = false` fails here, as it would fail `cargo bench
    // -- --save-baseline NAME`.
    step("criterion", || {
        cargo("test --workspace --all-features --no-fail-fast --benches -- --noplot")
    }),
    step("package", || {
        done(package::run(IS_FULL.load(Ordering::Relaxed)))
    }),
    outside("deny", outside::deny),
    outside("miri", outside::miri),
    outside("address", outside::address),
    outside("threads", outside::threads),
    outside("i686", || outside::build_for("i686-unknown-linux-gnu")),
    outside("wasm32", || outside::build_for("wasm32-unknown-unknown")),
    outside("redis tools", outside::redis_tools),
    outside("clients", clients::run),
];

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    let (mut quick, mut strict, mut only) = (false, false, None);
    let mut flags = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => quick = true,
            "--strict" => {
                strict = true;
                flags.push("--strict");
            }
            "--full" => {
                IS_FULL.store(true, Ordering::Relaxed);
                flags.push("--full");
            }
            "--only" => {
                let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
                let name = args.next().ok_or("--only needs the name of a step")?;
                if !names.contains(&name.as_str()) {
                    return Err(format!("no step `{name}`; there are: {}", names.join(", ")));
                }
                only = Some(name);
            }
            other => crate::no_more(&[other.to_string()])?,
        }
    }
    if let Some(only) = only {
        let step = STEPS
            .iter()
            .find(|step| step.name == only)
            .expect("checked above");
        let outcome = judge(step.outside, strict, (step.run)());
        println!("{}", verdict(step.name, &outcome));
        return Ok(!matches!(outcome, Outcome::Failed(_)));
    }
    // Before the first step: one that builds the workspace may replace this program.
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = Workspace::load(tree::root())?.target_dir;
    let logs = target.join("verify");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let is_ci = space::is_ci();
    let need = match (quick, is_ci) {
        (true, _) => Need::Quick,
        (false, true) => Need::Removing,
        (false, false) => Need::Keeping,
    };
    space::check(&target, need)?;
    // The least free space after a step, and that step.
    let mut least: Option<(u64, &str)> = None;
    let start = Instant::now();
    let mut results = Vec::new();
    for step in STEPS.iter().filter(|step| step.quick || !quick) {
        println!("\n== {} ==", step.name);
        let begun = Instant::now();
        let outcome = apart(step.name, &program, &flags, &logs).unwrap_or_else(Outcome::Failed);
        println!("{}", verdict(step.name, &outcome));
        results.push((step.name, begun.elapsed(), outcome));
        least = least
            .into_iter()
            .chain(space::free(&target).map(|free| (free, step.name)))
            .min();
        if is_ci {
            space::release(&target, step.name);
        }
    }
    if let Some((free, step)) = least {
        println!(
            "\ndisk: least free space {}, after {step}",
            space::gib(free)
        );
    }
    let (summary, good) = summary(&results, start.elapsed());
    print!("{summary}");
    Ok(good)
}

/// Whether a step has this name.
#[cfg(test)]
pub(crate) fn is_step(name: &str) -> bool {
    STEPS.iter().any(|step| step.name == name)
}

/// The line that says how a step ended.
fn verdict(name: &str, outcome: &Outcome) -> String {
    let words = match outcome {
        Outcome::Passed => "passed".to_string(),
        Outcome::Failed(reason) => format!("FAILED: {reason}"),
        Outcome::NotRun(reason) => format!("not run: {reason}"),
    };
    format!("== {name}: {words}")
}

/// Runs a step as `cargo xtask verify --only STEP`, with its output in a file; prints what matters
/// of it if the step failed.
fn apart(name: &str, program: &Path, flags: &[&str], logs: &Path) -> Result<Outcome> {
    let log = logs.join(format!("{}.log", name.replace(' ', "-")));
    let told = |error: std::io::Error| format!("{}: {error}", log.display());
    let out = File::create(&log).map_err(told)?;
    let status = Command::new(program)
        .args(["verify", "--only", name])
        .args(flags)
        .envs(space::is_ci().then_some(("CARGO_INCREMENTAL", "0")))
        .current_dir(tree::root())
        .stdin(Stdio::null())
        .stderr(out.try_clone().map_err(told)?)
        .stdout(out)
        .status()
        .map_err(told)?;
    let text = String::from_utf8_lossy(&fs::read(&log).map_err(told)?).into_owned();
    let start = format!("== {name}: ");
    let last = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(&start));
    let outcome = match last {
        Some("passed") if status.success() => return Ok(Outcome::Passed),
        Some(words) => match words.split_once(": ") {
            Some(("not run", reason)) => return Ok(Outcome::NotRun(reason.to_string())),
            Some((_, reason)) => Outcome::Failed(reason.to_string()),
            None => Outcome::Failed(format!("{words}, but it ended with {status}")),
        },
        None => Outcome::Failed(status.to_string()),
    };
    println!("{}\n(all of it: {})", faults(&text), log.display());
    Ok(outcome)
}

/// The lines of a log that tell what failed: those before a test's FAILED, those of the lists of
/// failures, those after an error, and the last ones.
fn faults(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = vec![false; lines.len()];
    let mut show = |from: usize, to: usize| shown[from..to.min(lines.len())].fill(true);
    let mut in_list = false;
    for (at, line) in lines.iter().enumerate() {
        in_list = (in_list || *line == "failures:") && !line.starts_with("test result:");
        if in_list {
            show(at, at + 1);
        }
        if line.contains("FAILED") || line.contains("not caught") {
            show(at.saturating_sub(30), at + 1);
        }
        if line.starts_with("error") || line.starts_with("warning") {
            show(at.saturating_sub(2), at + 15);
        }
    }
    show(lines.len().saturating_sub(20), lines.len());
    let mut kept = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if shown[at] {
            kept.push(*line);
        } else if at == 0 || shown[at - 1] {
            kept.push("...");
        }
    }
    // The last ones, if they are too many: the summary of a failed test run is at its end.
    kept[kept.len().saturating_sub(400)..].join("\n")
}

/// What a step's result counts as.
fn judge(outside: bool, strict: bool, result: Result<Outcome>) -> Outcome {
    match result {
        Ok(Outcome::NotRun(reason)) if strict || !outside => {
            Outcome::Failed(format!("not run: {reason}"))
        }
        Ok(outcome) => outcome,
        Err(reason) => Outcome::Failed(reason),
    }
}

/// The table at the end, its last line the count, and whether nothing failed.
fn summary(results: &[(&str, Duration, Outcome)], whole: Duration) -> (String, bool) {
    let mut text = String::from("\n");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, time, outcome) in results {
        let words = match outcome {
            Outcome::Passed => {
                passed += 1;
                "passed".to_string()
            }
            Outcome::Failed(reason) => {
                failed += 1;
                format!("FAILED: {}", reason.lines().next().unwrap_or(""))
            }
            Outcome::NotRun(reason) => {
                skipped += 1;
                format!("not run: {reason}")
            }
        };
        text += &format!("{name:<16} {:>7.1} s  {words}\n", time.as_secs_f64());
    }
    text += &format!("{:<16} {:>7.1} s\n", "all", whole.as_secs_f64());
    text += &format!("{passed} passed, {failed} failed, {skipped} skipped\n");
    (text, failed == 0)
}

fn words(line: &str) -> std::str::Split<'_, char> {
    line.split(' ')
}

fn done(result: Result) -> Result<Outcome> {
    result.map(|()| Outcome::Passed)
}

fn cargo(line: &str) -> Result<Outcome> {
    done(Cmd::cargo().args(words(line)).run())
}

/// A command that told its faults itself.
fn checked(name: &str, result: Result<bool>) -> Result<Outcome> {
    if result? {
        Ok(Outcome::Passed)
    } else {
        Err(format!("{name} found faults; they are listed above"))
    }
}

/// Unit and integration tests; some of the latter start an example, so the examples are built
/// before. Those that need features that are off by default are run here, where all are on.
fn tests() -> Result<Outcome> {
    cargo("build --workspace --all-features --examples")?;
    let built = Workspace::load(tree::root())?
        .target_dir
        .join("debug/examples");
    for name in ["testing", "async-server", "observe"] {
        Cmd::new(
            built
                .join(name)
                .with_extension(std::env::consts::EXE_EXTENSION),
        )
        .run()?;
    }
    let all = cargo("test --workspace --all-features --no-fail-fast --lib --bins --tests");
    // With all features the allocator is hardened: it keeps no mappings then, and has no blocks of
    // 8 bytes. So the plain one is tested too, whatever came of the others.
    let plain = cargo("test -p rast-alloc --no-fail-fast --lib --tests");
    match (all, plain) {
        (Err(all), Err(plain)) => Err(format!("{all}; {plain}")),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
        (Ok(_), Ok(outcome)) => Ok(outcome),
    }
}

/// The allocator as it is built where the system is not unix.
fn system_segments() -> Result<Outcome> {
    let target = Workspace::load(tree::root())?.target_dir.join("segments");
    for line in [
        "test -p rast-alloc --no-fail-fast --lib --tests",
        // And so hardened, where nothing guards a page.
        "test -p rast-alloc --no-fail-fast --features hardened --lib --test api --test exchange --test misuse \
         --test model --test shared_heap",
    ] {
        Cmd::cargo()
            .args(line.split_whitespace())
            .rustflags("--cfg rast_system_segments")
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .run()?;
    }
    Ok(Outcome::Passed)
}

/// The layers above the allocator, whose tests take all of their memory from it then.
///
/// The allocator's own test comes first: it fails where it is not the program's.
fn global() -> Result<Outcome> {
    let target = Workspace::load(tree::root())?.target_dir.join("global");
    for line in [
        "test -p rast-alloc --test global --test threads",
        "test --no-fail-fast -p rast-queue -p rast-timers -p rast-conflate -p rast-sharder -p rast-msgpass --lib --test api \
         --test model --test memory --test protocol --test linearizable --test source --test allocation \
         --test many_edges",
    ] {
        Cmd::cargo()
            .args(line.split_whitespace())
            .rustflags("--cfg rast_global_alloc")
            .env("CARGO_TARGET_DIR", &target)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .run()?;
    }
    Ok(Outcome::Passed)
}

/// Each crate and its tests with no feature, with each alone, and with all.
fn features() -> Result<Outcome> {
    each_crate(|krate| {
        let check = || Cmd::cargo().args(["check", "--quiet", "--all-targets", "-p", &krate.name]);
        let mut results = vec![check().arg("--no-default-features").run()];
        for feature in krate.features() {
            results.push(
                check()
                    .args(["--no-default-features", "--features", feature])
                    .run(),
            );
        }
        results.push(check().arg("--all-features").run());
        results.into_iter().collect()
    })
}

/// Whether searches take minutes.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Moves the instances of a busy graph for a minute, or ten; and outruns a conflator's consumers
/// for a million passes.
fn stress() -> Result<Outcome> {
    let is_full = IS_FULL.load(Ordering::Relaxed);
    let seconds = if is_full { "600" } else { "60" };
    Cmd::cargo()
        .args(words("test --release -p rast-msgpass --test stress"))
        .env("RAST_STRESS_SECONDS", seconds)
        .args(["--", "--nocapture"])
        .run()?;
    // One test after the other, because some of them need both cores.
    let mut passes = Cmd::cargo()
        .args(words(
            "test --release -p rast-conflate --test above_capacity",
        ))
        .args(["--", "--test-threads=1", "--nocapture"]);
    if is_full {
        passes = passes.env("RAST_FULL", "1");
        // The same with 64 keys; the step `bench smoke` makes a thousand such passes.
        let line = "conflate --only above --rounds 1";
        let args: Vec<String> = words(line).map(str::to_string).collect();
        bench::run(&args, false)?;
    }
    done(passes.run())
}

/// Each crate with its tests and no other beside it, so that none depends on a neighbour's
/// features.
fn alone() -> Result<Outcome> {
    each_crate(|krate| {
        Cmd::cargo()
            .args(["check", "--quiet", "--all-targets", "-p", &krate.name])
            .run()
    })
}

fn each_crate(run: impl Fn(&Package) -> Result) -> Result<Outcome> {
    let workspace = Workspace::load(tree::root())?;
    let errors: Vec<String> = workspace
        .crates()
        .filter_map(|krate| run(krate).err())
        .collect();
    if errors.is_empty() {
        Ok(Outcome::Passed)
    } else {
        Err(errors.join("; "))
    }
}

/// The program without std links what lies below and runs; alone, so that no neighbour turns std
/// on.
fn no_std() -> Result<Outcome> {
    let workspace = Workspace::load(tree::root())?;
    // It takes its entry point from the C library by that library's name on Linux.
    let (flags, command) = if cfg!(target_os = "linux") {
        ("--cfg rast_no_std -C panic=abort", "run")
    } else {
        ("", "build")
    };
    done(
        Cmd::cargo()
            .args([command, "--release", "-p", "no-std"])
            .rustflags(flags)
            .env("CARGO_TARGET_DIR", workspace.target_dir.join("no-std"))
            .run(),
    )
}

/// The two forms of the tagged pointer that this machine would not choose by itself.
fn tagged() -> Result<Outcome> {
    let workspace = Workspace::load(tree::root())?;
    for form in ["rast_tagged_low", "rast_tagged_wide"] {
        Cmd::cargo()
            .args(["test", "--lib", "--tests", "-p", "rast-primitive"])
            .rustflags(&format!("--cfg {form}"))
            .env("CARGO_TARGET_DIR", workspace.target_dir.join(form))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .run()?;
    }
    Ok(Outcome::Passed)
}

/// A few orderings, at least one of each protocol, each caught by its model.
fn weakened() -> Result<Outcome> {
    let labels = tidy::weak_in_verify(&tree::read(tree::root(), "docs/verification.md")?);
    if labels.is_empty() {
        return Err("docs/verification.md has no line `weak-in-verify: LABEL, ..`".into());
    }
    if weak::run(&labels)? {
        Ok(Outcome::Passed)
    } else {
        Err("a weakened ordering was not caught".into())
    }
}

/// Builds the examples as the READMEs start them, all at once, so that no step after this one
/// builds them with other features; runs those that end by themselves. The demos have a step of
/// their own.
fn examples() -> Result<Outcome> {
    cargo("build --release --examples")?;
    for name in [
        "hello",
        "ring",
        "log-pipeline",
        "order-book",
        "requests",
        "supervision",
    ] {
        cargo(&format!("run --release --example {name}"))?;
    }
    Ok(Outcome::Passed)
}

/// The demos of the kv and adserver examples, as the READMEs start them.
fn demo() -> Result<Outcome> {
    cargo("run --release --example kv -- --demo")?;
    cargo("run --release --features io --example adserver -- --demo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_outside_steps_may_be_absent() {
        let absent = || Ok(Outcome::NotRun("no tool".into()));
        assert!(matches!(judge(true, false, absent()), Outcome::NotRun(_)));
        assert!(matches!(judge(true, true, absent()), Outcome::Failed(_)));
        assert!(matches!(judge(false, false, absent()), Outcome::Failed(_)));
        assert_eq!(judge(false, false, Ok(Outcome::Passed)), Outcome::Passed);
        assert_eq!(
            judge(true, false, Err("x".into())),
            Outcome::Failed("x".into())
        );
        for name in ["fmt", "clippy", "tests", "loom", "shuttle", "demo"] {
            assert!(
                STEPS.iter().any(|step| step.name == name && !step.outside),
                "{name}"
            );
        }
    }

    #[test]
    fn a_log_is_cut_to_what_failed() {
        let mut log: Vec<String> = (0..1000).map(|n| format!("test t{n} ... ok")).collect();
        log[500] = "test broken ... FAILED".into();
        log[510] = "failures:".into();
        log[511] = "thread 'broken' panicked".into();
        log[560] = "test result: FAILED".into();
        let cut = faults(&log.join("\n"));
        for line in [
            "test t470 ... ok".to_string(),
            log[500].clone(),
            log[511].clone(),
            log[560].clone(),
            log[999].clone(),
        ] {
            assert!(cut.contains(line.as_str()), "{line}");
        }
        for line in ["test t400 ... ok", "test t600 ... ok"] {
            assert!(!cut.contains(line), "{line}");
        }
        assert_eq!(faults("all\nof it"), "all\nof it");
        assert_eq!(faults(""), "");
    }

    #[test]
    fn the_last_line_counts() {
        let second = Duration::from_secs(1);
        let results = [
            ("a", second, Outcome::Passed),
            ("b", second, Outcome::NotRun("no tool".into())),
            ("c", second, Outcome::Passed),
        ];
        let (text, good) = summary(&results, second);
        assert!(good);
        assert!(
            text.ends_with("\n2 passed, 0 failed, 1 skipped\n"),
            "{text}"
        );
        let (text, good) = summary(&[("a", second, Outcome::Failed("x\ny".into()))], second);
        assert!(!good);
        assert!(
            text.ends_with("\n0 passed, 1 failed, 0 skipped\n"),
            "{text}"
        );
    }
}
