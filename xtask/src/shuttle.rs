//! `cargo xtask shuttle`: runs the scenarios of every crate in random schedules; prints their
//! number and seed.
//!
//! It runs `tests/loom.rs`, the same scenarios as under loom, and `tests/shuttle.rs`, scenarios
//! that are too long for loom. Each prints `shuttle: NAME schedules=N seed=S` at its end. A crate
//! whose scenarios print no such line fails.

use crate::cmd::Cmd;
use crate::count::Tests;
use crate::metadata::{Package, Workspace};
use crate::{Result, programs, tree};

/// The tests that hold scenarios.
const TARGETS: [&str; 2] = ["loom", "shuttle"];

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    run(&crate::packages(args)?, None).map(|_| true)
}

/// The variable for the number of schedules of each scenario.
const RUNS: &str = "RAST_SHUTTLE_RUNS";

/// Runs the scenarios of the crates `names`, or of every crate if it is empty. The number of
/// schedules is the one in the environment, or else `runs`, or else the default of the scenario.
pub(crate) fn run(names: &[String], runs: Option<u32>) -> Result<Tests> {
    let runs = runs.filter(|_| std::env::var_os(RUNS).is_none());
    let env: Vec<(&str, String)> = runs
        .map(|runs| (RUNS, runs.to_string()))
        .into_iter()
        .collect();
    let workspace = Workspace::load(tree::root())?;
    let chosen: Vec<(&Package, Vec<&str>)> = workspace
        .chosen(names)?
        .into_iter()
        .map(|krate| {
            let has = |target: &&str| krate.has_target("test", target);
            (krate, TARGETS.into_iter().filter(has).collect())
        })
        .filter(|(_, targets): &(_, Vec<&str>)| !targets.is_empty())
        .collect();
    if chosen.is_empty() {
        return Err("no crate among the chosen has a tests/loom.rs or tests/shuttle.rs".into());
    }
    let mut lines = Vec::new();
    let mut errors = Vec::new();
    let mut sum = Tests::default();
    let mut cargo = Cmd::cargo().words("test --no-run --profile schedules --all-features");
    for (krate, _) in &chosen {
        cargo = cargo.args(["-p", &krate.name]);
    }
    for target in TARGETS {
        if chosen.iter().any(|(_, targets)| targets.contains(&target)) {
            cargo = cargo.args(["--test", target]);
        }
    }
    let programs = programs::build(
        cargo
            .rustflags("--cfg rast_shuttle")
            .env("CARGO_TARGET_DIR", workspace.target_dir.join("shuttle")),
    )?;
    for output in programs::run_all(&programs, &env, &["--show-output"]) {
        let krate = &output.krate;
        let ran = ran(&output.text);
        errors.extend(output.fault.clone());
        let tests = Tests::of(&output.text);
        sum += tests;
        if tests.passed == 0 {
            errors.push(format!("{krate}: no scenario ran"));
        } else if ran.is_empty() {
            errors.push(format!(
                "{krate}: no scenario printed its schedules; use `primitive::model`"
            ));
        }
        let schedules: u64 = ran.iter().sum();
        lines.push(format!(
            "{krate:<16} {:>4} models {schedules:>10} schedules",
            ran.len()
        ));
    }
    println!("\n{}", lines.join("\n"));
    crate::no_errors(&errors)?;
    sum.some()
}

/// The number of schedules of each scenario, from the lines that they printed. The test runner may
/// have written text at the beginning of these lines.
fn ran(text: &str) -> Vec<u64> {
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line[line.find("shuttle: ")?..].split_whitespace().collect();
            let [_, _name, schedules, seed] = words.as_slice() else {
                return None;
            };
            seed.strip_prefix("seed=")?.parse::<u64>().ok()?;
            schedules.strip_prefix("schedules=")?.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_scenarios_print() {
        let text = "test a::b ... shuttle: a::b schedules=1000 seed=18446744073709551615\nok\n\
                    shuttle: c schedules=3 seed=x\nshuttle: d shows a fault; to repeat it: A=1\n";
        assert_eq!(ran(text), [1000]);
    }
}
