//! `cargo xtask loom`: runs the models of every crate under loom; prints the number of executions
//! and the preemption bound.
//!
//! Each model prints `loom: NAME executions=N bound=B` at its end. A crate whose models print no
//! such line fails.

use crate::cmd::Cmd;
use crate::count::Tests;
use crate::metadata::Workspace;
use crate::programs::{self, Program};
use crate::{Result, weak};
use std::path::Path;

/// The least number of preemptions that a model explores.
const BOUND: usize = 2;

/// One line that a model printed.
#[derive(Clone, Debug, PartialEq)]
struct Explored {
    name: String,
    executions: u64,
    bound: usize,
}

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    if let [flag, rest @ ..] = args
        && flag == "--weak"
    {
        let (label, rest) = rest
            .split_first()
            .ok_or("--weak needs a label, or `all`; it knows the crate from the label")?;
        crate::no_more(rest)?;
        return weak::command(label);
    }
    run(&crate::packages(args)?).map(|_| true)
}

/// Runs the models of `names`, or of every crate when it is empty.
pub(crate) fn run(names: &[String]) -> Result<Tests> {
    let workspace = Workspace::load(crate::tree::root())?;
    let mut chosen = workspace.chosen(names)?;
    chosen.retain(|krate| krate.has_target("test", "loom"));
    if chosen.is_empty() {
        return Err("no crate among the chosen has a tests/loom.rs".into());
    }
    let names = chosen.iter().map(|krate| krate.name.as_str());
    explore(&build(Cmd::cargo(), names, &workspace.target_dir)?)
}

/// Builds the models of `names` in the directory `loom` of `target`.
pub(crate) fn build<'a>(
    cargo: Cmd,
    names: impl IntoIterator<Item = &'a str>,
    target: &Path,
) -> Result<Vec<Program>> {
    let mut cargo = cargo.words("test --no-run --profile models --test loom");
    for name in names {
        cargo = cargo.args(["-p", name]);
    }
    programs::build(
        cargo
            .rustflags("--cfg rast_loom")
            .env("CARGO_TARGET_DIR", target.join("loom")),
    )
}

/// Runs every model of `programs`, with its executions and bound.
pub(crate) fn explore(programs: &[Program]) -> Result<Tests> {
    let bound = bound()?;
    let mut table = Vec::new();
    let mut errors = Vec::new();
    let mut sum = Tests::default();
    let env = [("LOOM_MAX_PREEMPTIONS", bound.to_string())];
    for output in programs::run_all(programs, &env, &["--nocapture"]) {
        let krate = &output.krate;
        let explored = explored(&output.text);
        errors.extend(output.fault.clone());
        let tests = Tests::of(&output.text);
        sum += tests;
        if tests.passed == 0 {
            errors.push(format!("{krate}: no model ran"));
        } else if explored.is_empty() {
            errors.push(format!(
                "{krate}: no model printed its executions; use `primitive::model`"
            ));
        }
        for line in &explored {
            if line.bound < BOUND {
                errors.push(format!(
                    "{}: {} explored {} preemptions; {BOUND} is the least",
                    krate, line.name, line.bound
                ));
            }
        }
        table.extend(explored.into_iter().map(|line| (krate.clone(), line)));
    }
    print_table(&table);
    crate::no_errors(&errors)?;
    sum.some()
}

/// The preemption bound from the environment, which can only raise it.
pub(crate) fn bound() -> Result<usize> {
    let Ok(text) = std::env::var("LOOM_MAX_PREEMPTIONS") else {
        return Ok(BOUND);
    };
    match text.parse() {
        Ok(bound) if bound >= BOUND => Ok(bound),
        _ => Err(format!(
            "LOOM_MAX_PREEMPTIONS is `{text}`; it must be a number from {BOUND} up"
        )),
    }
}

/// The lines that models printed. The test runner may have written text at the beginning of these
/// lines.
fn explored(text: &str) -> Vec<Explored> {
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line[line.find("loom: ")?..].split_whitespace().collect();
            let [_, name, executions, bound] = words.as_slice() else {
                return None;
            };
            Some(Explored {
                name: (*name).to_string(),
                executions: executions.strip_prefix("executions=")?.parse().ok()?,
                bound: bound.strip_prefix("bound=")?.parse().ok()?,
            })
        })
        .collect()
}

fn print_table(table: &[(String, Explored)]) {
    let width = table
        .iter()
        .map(|(_, line)| line.name.len())
        .max()
        .unwrap_or(0)
        .max(5);
    println!(
        "\n{:<16} {:<width$} {:>12} {:>6}",
        "crate", "model", "executions", "bound"
    );
    for (krate, line) in table {
        println!(
            "{krate:<16} {:<width$} {:>12} {:>6}",
            line.name, line.executions, line.bound
        );
    }
    let total: u64 = table.iter().map(|(_, line)| line.executions).sum();
    println!(
        "{:<16} {:<width$} {total:>12}",
        "total",
        crate::tidy::count(table.len(), "model")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_models_print() {
        let text = "test a::b ... loom: a::b executions=1204 bound=2\nok\nloom: c executions=3 bound=3\nloom: broken\ntest result: ok. 2 passed; 0 failed; 0 ignored\n";
        assert_eq!(
            explored(text),
            [
                Explored {
                    name: "a::b".into(),
                    executions: 1204,
                    bound: 2
                },
                Explored {
                    name: "c".into(),
                    executions: 3,
                    bound: 3
                },
            ]
        );
    }
}
