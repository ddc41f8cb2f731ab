//! `cargo xtask verify`: every check. Steps that find faults cheaply come first.
//!
//! It continues after a failed step, so that one run shows all faults. Only the steps marked
//! `outside` may be reported as skipped; any other step that does not run counts as failed.
//!
//! Each step is a process of its own, whose output goes to a file. A step that passes prints one
//! line, so a truncated CI log still shows what failed. Two steps run at the same time, unless they
//! use the same target directory.

mod global;
mod lanes;
mod outcome;
mod processor;
mod report;
mod steps;

pub(crate) use outcome::Outcome;
pub(crate) use steps::{BUILD, example, smoke_programs};

use crate::metadata::Workspace;
use crate::space::Need;
use crate::{Result, clients, layers, outside, package, space, stall, tidy, tree};
use lanes::{Dirs, Event};
use outcome::{judge, said, verdict};
use report::Line;
use std::fs::{self, File};
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;
use steps::{cargo, checked, counted};

/// One check.
#[derive(Clone, Copy)]
struct Step {
    name: &'static str,
    run: fn() -> Result<Outcome>,
    /// Whether `--quick` runs it too.
    is_quick: bool,
    /// Whether its tool is neither part of Cargo nor of the toolchain, so that it may be missing.
    is_outside: bool,
    dirs: Dirs,
}

/// A step that always runs, and uses no target directory.
const fn step(name: &'static str, run: fn() -> Result<Outcome>) -> Step {
    Step {
        name,
        run,
        is_quick: false,
        is_outside: false,
        dirs: Dirs {
            alone: &[],
            shared: &[],
            is_single: false,
        },
    }
}

impl Step {
    /// It runs in `--quick` too.
    const fn quick(mut self) -> Step {
        self.is_quick = true;
        self
    }

    /// It is skipped if its tool is missing.
    const fn outside(mut self) -> Step {
        self.is_outside = true;
        self
    }

    /// It builds in these target directories.
    const fn builds(mut self, alone: &'static [&'static str]) -> Step {
        self.dirs.alone = alone;
        self
    }

    /// It uses what other steps built in these directories.
    const fn uses(mut self, shared: &'static [&'static str]) -> Step {
        self.dirs.shared = shared;
        self
    }

    /// No other step runs beside it. Some of its tests wait for what a server does under load, and
    /// compilers that run at the same time would take its processor time.
    const fn single(mut self) -> Step {
        self.dirs.is_single = true;
        self
    }
}

/// The next step is always the first in this list that may begin. So the longest chains come first:
/// the builds in `debug`, and beside them those in `smoke`.
const STEPS: &[Step] = &[
    step("fmt", || cargo("fmt --all --check")).quick(),
    step("clippy", steps::clippy).quick().builds(&["checks"]),
    step("layers", || checked("layers", layers::command(&[]))).quick(),
    step("tidy", || checked("tidy", tidy::command(&[]))).quick(),
    step("build", steps::build).quick().builds(&["debug"]),
    step("tests", steps::tests)
        .quick()
        .uses(&["debug"])
        .single(),
    step("doc tests", steps::doc_tests).quick().uses(&["debug"]),
    step("plain tests", steps::plain_tests).builds(&["debug"]),
    step("plain doc tests", steps::plain_doc_tests).uses(&["debug"]),
    step("examples", steps::examples).uses(&["debug"]),
    step("smoke build", steps::smoke_build).builds(&["smoke"]),
    step("demo", steps::demo).uses(&["smoke"]).single(),
    step("criterion", steps::criterion).builds(&["debug"]),
    step("clients", clients::run)
        .outside()
        .builds(&["debug", "smoke"]),
    step("redis tools", outside::redis_tools)
        .outside()
        .builds(&["smoke"]),
    step("loom", steps::models).builds(&["loom", "weak"]),
    step("features", steps::features).builds(&["checks"]),
    step("package", || steps::done(package::check())).builds(&[
        "checks",
        "package",
        "package-check",
    ]),
    step("package tests", || counted(package::test(steps::is_full()))).builds(&[
        "debug",
        "package",
        "package-check",
    ]),
    step("rustdoc", steps::rustdoc).builds(&["checks"]),
    step("shuttle", steps::schedules).builds(&["shuttle"]),
    step("address", outside::address)
        .outside()
        .builds(&["sanitizers/address"]),
    step("bench smoke", steps::smoke).builds(&["smoke"]),
    step("stress", steps::stress).builds(&["smoke"]),
    step("global", global::run).builds(&["package", "package-check", "variants"]),
    step("system segments", steps::system_segments).builds(&["variants"]),
    step("tagged pointer", steps::tagged).builds(&["variants"]),
    step("stall", || counted(stall::run())).builds(&["variants"]),
    step("no_std", steps::no_std).builds(&["no-std"]),
    step("deny", outside::deny).outside(),
    step("miri", outside::miri).outside().builds(&["miri"]),
    step("threads", outside::threads)
        .outside()
        .builds(&["sanitizers/thread"]),
    step("i686", || outside::build_for("i686-unknown-linux-gnu"))
        .outside()
        .builds(&["i686-unknown-linux-gnu"]),
    step("wasm32", || outside::build_for("wasm32-unknown-unknown"))
        .outside()
        .builds(&["wasm32-unknown-unknown"]),
];

/// How many steps run at a time, where there are as many cores.
const LANES: usize = 2;

/// How Cargo builds if nothing will be built a second time: without the files that only a second
/// build needs, and without line numbers in backtraces. A panic still prints its location.
const LEAN: [(&str, &str); 3] = [
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    let (mut quick, mut strict, mut only) = (false, false, None);
    let mut flags = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => {
                quick = true;
                steps::IS_QUICK.store(true, Ordering::Relaxed);
                flags.push("--quick");
            }
            "--strict" => {
                strict = true;
                flags.push("--strict");
            }
            "--full" => {
                steps::IS_FULL.store(true, Ordering::Relaxed);
                flags.push("--full");
            }
            "--only" => only = Some(args.next().ok_or("--only needs the name of a step")?),
            other => crate::no_more(&[other.to_string()])?,
        }
    }
    let Some(only) = only else {
        let chosen: Vec<Step> = STEPS
            .iter()
            .copied()
            .filter(|step| step.is_quick || !quick)
            .collect();
        return all(&chosen, quick, &flags);
    };
    let Some(step) = STEPS.iter().find(|step| step.name == only) else {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!("no step `{only}`; there are: {}", names.join(", ")));
    };
    let outcome = judge(step.is_outside, strict, (step.run)());
    if let Some(line) = processor::line() {
        println!("{line}");
    }
    println!("{}", verdict(step.name, &outcome));
    Ok(!matches!(outcome, Outcome::Failed(_)))
}

/// Runs the steps, prints the table, and returns whether none failed.
fn all(steps: &[Step], quick: bool, flags: &[&str]) -> Result<bool> {
    let target = Workspace::load(tree::root())?.target_dir;
    let logs = target.join("verify");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    // A step may replace this program while another one starts.
    let program = logs.join(format!("xtask{}", std::env::consts::EXE_SUFFIX));
    std::env::current_exe()
        .and_then(|own| fs::copy(own, &program))
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let is_removing = space::is_ci() && !quick;
    let need = match (quick, is_removing) {
        (true, _) => Need::Quick,
        (false, true) => Need::Removing,
        (false, false) => Need::Keeping,
    };
    space::check(&target, need)?;
    let mut least = space::free(&target).map(|free| (free, "the start"));
    let first = least.map_or(0, |(free, _)| free);
    let start = Instant::now();
    let lanes = std::thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(LANES);
    let mut begun = vec![start; steps.len()];
    let mut results: Vec<Option<Line<'_>>> = steps.iter().map(|_| None).collect();
    let dirs: Vec<Dirs> = steps.iter().map(|step| step.dirs).collect();
    lanes::run(
        &dirs,
        lanes,
        |at| {
            let ended = apart(steps[at].name, &program, flags, &logs).unwrap_or_else(Ended::failed);
            (ended, space::free(&target))
        },
        |event| match event {
            Event::Begun(at) => {
                begun[at] = Instant::now();
                println!("-- {} begins", steps[at].name);
            }
            Event::Ended(at, (ended, free)) => {
                let time = begun[at].elapsed();
                print!("{}", ended.faults);
                let words = verdict(steps[at].name, &ended.outcome);
                println!("{words} [{:.0} s]", time.as_secs_f64());
                results[at] = Some(Line {
                    name: steps[at].name,
                    time,
                    processor: ended.processor,
                    outcome: ended.outcome,
                });
                let free = free.map(|free| (free, steps[at].name));
                least = least.into_iter().chain(free).min();
                if is_removing {
                    space::release(&target, &unused(&dirs, at, |step| results[step].is_some()));
                }
            }
        },
    );
    if let Some((free, step)) = least {
        println!(
            "\ndisk: least free space {}, after {step}: {} less than at the start",
            space::gib(free),
            space::gib(first.saturating_sub(free))
        );
    }
    let results: Vec<Line<'_>> = results.into_iter().flatten().collect();
    let (summary, good) = report::summary(&results, start.elapsed());
    print!("{summary}");
    Ok(good && results.len() == steps.len())
}

/// The directories of step `at` that no step uses any more.
fn unused(dirs: &[Dirs], at: usize, has_ended: impl Fn(usize) -> bool) -> Vec<&'static str> {
    let own = dirs[at].alone.iter().chain(dirs[at].shared).copied();
    own.filter(|dir| {
        let mut users = (0..dirs.len()).filter(|step| dirs[*step].has(dir));
        users.all(&has_ended)
    })
    .collect()
}

/// What a step that has ended left behind.
struct Ended {
    outcome: Outcome,
    /// Its processor time in seconds, if it said so.
    processor: Option<f64>,
    /// The lines of its output that matter if it failed.
    faults: String,
}

impl Ended {
    fn failed(reason: String) -> Ended {
        Ended {
            outcome: Outcome::Failed(reason),
            processor: None,
            faults: String::new(),
        }
    }
}

/// Runs a step as `cargo xtask verify --only STEP`, with its output in a file.
fn apart(name: &str, program: &Path, flags: &[&str], logs: &Path) -> Result<Ended> {
    let log = logs.join(format!("{}.log", name.replace(' ', "-")));
    let told = |error: std::io::Error| format!("{}: {error}", log.display());
    let out = File::create(&log).map_err(told)?;
    let status = Command::new(program)
        .args(["verify", "--only", name])
        .args(flags)
        .envs(LEAN.into_iter().filter(|_| space::is_ci()))
        .current_dir(tree::root())
        .stdin(Stdio::null())
        .stderr(out.try_clone().map_err(told)?)
        .stdout(out)
        .status()
        .map_err(told)?;
    let text = String::from_utf8_lossy(&fs::read(&log).map_err(told)?).into_owned();
    let outcome = match said(name, &text) {
        Some(Outcome::Passed(_)) if !status.success() => {
            Outcome::Failed(format!("passed, but it ended with {status}"))
        }
        Some(outcome) => outcome,
        None => Outcome::Failed(status.to_string()),
    };
    let faults = match outcome {
        Outcome::Failed(_) => format!(
            "{}\n(all of it: {})\n",
            report::faults(&text),
            log.display()
        ),
        _ => String::new(),
    };
    Ok(Ended {
        outcome,
        processor: processor::said(&text),
        faults,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_steps_may_not_be_absent() {
        for name in ["fmt", "clippy", "build", "tests", "loom", "shuttle", "demo"] {
            let step = STEPS.iter().find(|step| step.name == name);
            assert!(step.is_some_and(|step| !step.is_outside), "{name}");
        }
    }

    #[test]
    fn a_directory_is_unused_when_all_its_steps_have_ended() {
        let dirs: Vec<Dirs> = STEPS.iter().map(|step| step.dirs).collect();
        let at = |name: &str| STEPS.iter().position(|step| step.name == name).unwrap();
        let unused_after = |step: &str, open: &[&str]| {
            unused(&dirs, at(step), |step| !open.contains(&STEPS[step].name))
        };
        assert!(unused_after("fmt", &[]).is_empty());
        assert_eq!(unused_after("loom", &[]), ["loom", "weak"]);
        assert_eq!(
            unused_after("global", &["stall"]),
            ["package", "package-check"]
        );
        assert_eq!(unused_after("tests", &["clients"]), [""; 0]);
        assert_eq!(unused_after("clients", &["stress"]), ["debug"]);
    }
}
