//! `cargo xtask loom --weak LABEL`: does a model test this ordering?
//!
//! The command copies the crates. In the copy, each requested ordering becomes a choice at run time
//! between itself and `Relaxed`, and each requested fence a choice between itself and nothing. So
//! one build serves all labels. `RAST_WEAK=LABEL` weakens this ordering alone, and then the model
//! that docs/verification.md names must fail.
//!
//! A failure counts only if the model builds and passes while no ordering is weak, because
//! otherwise the test itself may be broken. A run that reaches the time limit does not count as a
//! failure.

use crate::cmd::Cmd;
use crate::count::Tests;
use crate::metadata::{Package, Workspace};
use crate::orderings::{Operation, operations};
use crate::programs::{Program, each};
use crate::source::{Source, is_word, item_end};
use crate::tidy::{Row, is_library, rows};
use crate::{Result, loom, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long one run of one model may take.
const LIMIT: Duration = Duration::from_secs(600);

/// The variable that names the label to weaken to the programs of the copy.
const VARIABLE: &str = "RAST_WEAK";

/// What a run of a model came to.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    Passed,
    Failed,
    TimedOut,
}

/// The command; `label` may be `all`.
pub(crate) fn command(label: &str) -> Result<bool> {
    let table = tree::read(tree::root(), "docs/verification.md")?;
    let labels: Vec<String> = if label == "all" {
        all(&table)
    } else {
        vec![label.to_string()]
    };
    let copy = Copy::of(&labels)?;
    let with_model = copy.rows.iter().filter(|row| row.model.is_some());
    let krates: BTreeSet<&str> = with_model.map(|row| row.krate.as_str()).collect();
    let runners = runners(copy.build(&krates)?);
    // Each model first with none weak.
    let models = copy.rows.iter().filter_map(model_of);
    let models: Vec<Model<'_>> = models.collect::<BTreeSet<_>>().into_iter().collect();
    let unchanged = each(&models, |&model| {
        match copy.test(&runners, model, "none")? {
            Verdict::Passed => Ok(()),
            other => Err(format!("`{}` does not pass unchanged ({other:?})", model.1)),
        }
    });
    let sound: BTreeMap<Model<'_>, Result> = models.into_iter().zip(unchanged).collect();
    Ok(weaken_each(&copy, &runners, |model| sound[&model].clone()))
}

/// The labels of `table` that a model tests.
pub(crate) fn all(table: &str) -> Vec<String> {
    let rows = rows(table).into_iter();
    let with_model = rows.filter(|row| row.model.is_some());
    with_model.map(|row| row.label).collect()
}

/// Runs the models of all crates, as `cargo xtask loom` does, and weakens each label in turn.
///
/// The models run in the copy, with no ordering weak, so that everything is built once.
pub(crate) fn with_models(labels: &[String]) -> Result<Tests> {
    let copy = Copy::of(labels)?;
    let workspace = Workspace::load(tree::root())?;
    let has_models = |krate: &&Package| krate.has_target("test", "loom");
    let krates = workspace.crates().filter(has_models);
    let programs = copy.build(&krates.map(|krate| krate.name.as_str()).collect())?;
    // Then all of them pass with none weak.
    let tests = loom::explore(&programs)?;
    match weaken_each(&copy, &runners(programs), |_| Ok(())) {
        true => Ok(tests),
        false => Err("a weakened ordering was not caught".into()),
    }
}

/// Weakens each label in turn; returns `false` if a model did not catch one. `sound` returns
/// whether a model passes while no ordering is weak.
fn weaken_each(copy: &Copy, runners: &Runners, sound: impl Fn(Model<'_>) -> Result + Sync) -> bool {
    let outcomes = each(&copy.rows, |row| {
        let label = &row.label;
        let outcome = one(copy, runners, row, &sound);
        let line = match &outcome {
            Ok(change) => format!(
                "{label}: caught by {} ({change})",
                row.model.as_deref().unwrap_or("")
            ),
            Err(reason) => format!("{label}: NOT caught: {reason}"),
        };
        println!("{line}");
        (line, outcome.is_ok())
    });
    if let [_, _, ..] = outcomes.as_slice() {
        println!();
        for (line, _) in &outcomes {
            println!("{line}");
        }
    }
    outcomes.iter().all(|(_, caught)| *caught)
}

/// A crate and one of its models.
type Model<'a> = (&'a str, &'a str);

fn model_of(row: &Row) -> Option<Model<'_>> {
    Some((&row.krate, row.model.as_deref()?))
}

/// Runs the model of one label; gives what was weakened.
fn one(
    copy: &Copy,
    runners: &Runners,
    row: &Row,
    sound: impl Fn(Model<'_>) -> Result,
) -> Result<String> {
    let model = model_of(row).ok_or("its row names no model")?;
    let change = match copy.found.changes.get(&row.label) {
        Some(change) => change.clone()?,
        None => {
            return Err(format!(
                "no comment in crates/*/src ends in [{}] above an atomic operation",
                row.label
            ));
        }
    };
    sound(model)?;
    match copy.test(runners, model, &row.label)? {
        Verdict::Failed => Ok(change),
        Verdict::Passed => Err(format!("`{}` passes with {change}", model.1)),
        Verdict::TimedOut => Err(format!("`{}` ran past {} s", model.1, LIMIT.as_secs())),
    }
}

/// What the sources hold of some labels.
struct Found {
    /// Of each label, the change in words, or why it cannot be weakened.
    changes: BTreeMap<String, Result<String>>,
    /// The files that hold labels, by path, with the choices put in.
    files: BTreeMap<String, String>,
}

/// Looks for the operations of `labels` in all libraries.
fn find(labels: &[String]) -> Result<Found> {
    let mut found = Found {
        changes: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    for path in tree::files(tree::root())?
        .into_iter()
        .filter(|path| is_library(path))
    {
        let text = tree::read(tree::root(), &path)?;
        let source = Source::new(&text);
        let mut edits = Vec::new();
        for operation in operations(&source) {
            let Some(label) = operation.comment.as_ref().map(|comment| &comment.name) else {
                continue;
            };
            if !labels.contains(label) || found.changes.contains_key(label) {
                continue;
            }
            let edit = weaken(&source, &operation, label);
            let change = edit.map(|edit| {
                let change = format!("{path}: {}", edit.change);
                edits.push(edit);
                change
            });
            found.changes.insert(label.clone(), change);
        }
        if !edits.is_empty() {
            found.files.insert(path, edited(&text, edits));
        }
    }
    Ok(found)
}

/// One place of a file, what is there in the copy, and what that weakens in words.
#[derive(Debug)]
struct Edit {
    place: Range<usize>,
    new: String,
    change: String,
}

/// The text with all of `edits` made.
fn edited(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.place.start);
    let mut new = text.to_string();
    for edit in edits.into_iter().rev() {
        new.replace_range(edit.place, &edit.new);
    }
    new
}

/// The choice that stands for the operation of `label`.
fn weaken(source: &Source<'_>, operation: &Operation, label: &str) -> Result<Edit> {
    // Whole in itself, so that it is in scope wherever it is.
    let is_weak = format!(
        "{{ static WEAK: ::std::sync::LazyLock<bool> = ::std::sync::LazyLock::new(\
         || ::std::env::var(\"{VARIABLE}\").is_ok_and(|label| label == \"{label}\")); *WEAK }}"
    );
    if operation.call == "fence" {
        let place = operation.start..item_end(source.code.as_bytes(), operation.start);
        return Ok(Edit {
            new: format!("if !{is_weak} {{ {} }}", &source.text[place.clone()]),
            place,
            change: format!("the fence of line {} removed", operation.line + 1),
        });
    }
    let strong = operation
        .orderings
        .iter()
        .find(|(_, ordering)| ordering != "Relaxed");
    let Some((at, ordering)) = strong else {
        return Err(format!("{label} is Relaxed already"));
    };
    let is_path = |byte: &u8| is_word(*byte) || *byte == b':';
    let path = source.text.as_bytes()[..*at].iter().rev();
    let place = at - path.take_while(|byte| is_path(byte)).count()..at + ordering.len();
    let own = &source.text[place.clone()];
    Ok(Edit {
        new: format!("if {is_weak} {{ ::core::sync::atomic::Ordering::Relaxed }} else {{ {own} }}"),
        place,
        change: format!(
            "{ordering} of line {} made Relaxed",
            source.line_of(*at) + 1
        ),
    })
}

/// The program of each crate that runs its models.
type Runners = BTreeMap<String, PathBuf>;

fn runners(programs: Vec<Program>) -> Runners {
    let runner = |program: Program| (program.krate, program.path);
    programs.into_iter().map(runner).collect()
}

/// Directory of the crates below the root of the copy. It is not `crates`, because Cargo tells
/// builds apart by the path from the root, and would confuse the crates of the copy with those of
/// the tree.
const CRATES: &str = "weakened";

/// The copy of the crates in which orderings are weakened.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
    /// The rows of the labels that can be weakened in it.
    rows: Vec<Row>,
    found: Found,
}

impl Copy {
    /// Makes a copy in which each of `labels` can be weakened.
    fn of(labels: &[String]) -> Result<Copy> {
        let table = rows(&tree::read(tree::root(), "docs/verification.md")?);
        let row = |label: &String| {
            let row = table.iter().find(|row| row.label == *label);
            row.cloned().ok_or(format!(
                "{label} has no row in docs/verification.md; Relaxed ones need none"
            ))
        };
        let target = Workspace::load(tree::root())?.target_dir;
        let copy = Copy {
            tree: target.join("weak"),
            target,
            rows: labels.iter().map(row).collect::<Result<_>>()?,
            found: find(labels)?,
        };
        copy.make()?;
        Ok(copy)
    }

    /// Writes the files that differ from those that are there.
    fn make(&self) -> Result {
        let root = tree::root();
        let below = |path: &String| path.strip_prefix("crates/").map(str::to_string);
        let changed = self.found.files.iter();
        let changed = changed.filter_map(|(path, text)| Some((below(path)?, text.clone())));
        tree::mirror(
            &root.join("crates"),
            &self.tree.join(CRATES),
            &changed.collect(),
        )?;
        let manifest = manifest(&tree::read(root, "Cargo.toml")?)?;
        let write = |name: &str, text: String| {
            std::fs::write(self.tree.join(name), text).map_err(|error| format!("{name}: {error}"))
        };
        write("Cargo.toml", manifest)?;
        // The same versions of outside crates.
        write("Cargo.lock", tree::read(root, "Cargo.lock")?)
    }

    /// Runs a model with the ordering of `label` weak.
    fn test(&self, runners: &Runners, (krate, model): Model<'_>, label: &str) -> Result<Verdict> {
        let runner = runners
            .get(krate)
            .ok_or("Cargo named no program for the test `loom`")?;
        let list = Cmd::new(runner)
            .quiet()
            .args(["--list", "--format", "terse"])
            .read()?;
        let full = list
            .text
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .find(|name| name.rsplit("::").next() == Some(model))
            .ok_or(format!("{krate} has no loom test `{model}`"))?
            .to_string();
        let mut command = Cmd::new(runner)
            .dir(&self.tree.join(CRATES).join(krate))
            .env(VARIABLE, label)
            .env("LOOM_MAX_PREEMPTIONS", loom::bound()?.to_string())
            .args(["--exact", &full, "--test-threads=1"])
            .into_inner();
        let log = self.tree.join(format!("weak-{krate}-{model}-{label}.log"));
        run_limited(&mut command, &log)
    }

    /// Builds the models of `krates` and gives the programs that run them.
    fn build(&self, krates: &BTreeSet<&str>) -> Result<Vec<Program>> {
        if krates.is_empty() {
            return Ok(Vec::new());
        }
        // In the directory of the models, for their builds of the outside crates.
        let cargo = Cmd::cargo().dir(&self.tree).arg("--quiet");
        loom::build(cargo, krates.iter().copied(), &self.target)
    }
}

/// The manifest of the copy: that of the tree, with the copied crates as its only members.
fn manifest(text: &str) -> Result<String> {
    let mut lines = Vec::new();
    let mut is_whole = false;
    for line in text.lines() {
        if line.starts_with("members = ") {
            is_whole = true;
            lines.push(format!("members = [\"{CRATES}/*\"]"));
        } else if !line.starts_with("default-members = ") {
            lines.push(line.replace("\"crates/", &format!("\"{CRATES}/")));
        }
    }
    match is_whole {
        true => Ok(lines.join("\n")),
        false => Err("Cargo.toml has no line `members = ..`".into()),
    }
}

/// Runs `command` with its output in `log`, no longer than the limit.
fn run_limited(command: &mut Command, log: &Path) -> Result<Verdict> {
    let file = std::fs::File::create(log).map_err(|error| error.to_string())?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    let mut child = command
        .stdout(Stdio::from(file))
        .stderr(Stdio::from(errors))
        .spawn()
        .map_err(|error| error.to_string())?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(Verdict::TimedOut);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = std::fs::read_to_string(log).unwrap_or_default();
    if status.success() {
        let ran = Tests::of(&text).passed == 1;
        return if ran {
            Ok(Verdict::Passed)
        } else {
            Err("the model did not run".into())
        };
    }
    // A model that panics twice ends by a signal, and the runner prints no summary. But it has
    // printed that the test began.
    let ran = text.contains("running 1 test");
    if ran {
        Ok(Verdict::Failed)
    } else {
        Err(format!("the model did not start:\n{text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
fn f() {
    // Release: pairs with the load. [RG1]
    x.store(1, Ordering::Release);
    // AcqRel: both. [RG2]
    x.compare_exchange(
        Relaxed,
        AcqRel, Acquire);
    // SeqCst fence: either, or. [RG3]
    fence(Ordering::SeqCst);
    // Relaxed: mine. [RG4]
    x.load(Relaxed);
    let c = 1;
}
";

    /// The text with the choices of `labels`, each cut down to `WEAK`, and the changes in words.
    fn chosen(text: &str, labels: &[&str]) -> Result<(String, Vec<String>)> {
        let source = Source::new(text);
        let mut edits = Vec::new();
        for operation in operations(&source) {
            let name = operation.comment.as_ref().unwrap().name.clone();
            if labels.contains(&name.as_str()) {
                edits.push(weaken(&source, &operation, &name)?);
            }
        }
        let changes = edits.iter().map(|edit| edit.change.clone()).collect();
        let mut text = edited(text, edits);
        while let Some(start) = text.find("{ static WEAK") {
            let end = start + text[start..].find(" }").unwrap() + 2;
            let label = text[start..end].rsplit('"').nth(1).unwrap().to_string();
            text.replace_range(start..end, &format!("WEAK({label})"));
        }
        Ok((text, changes))
    }

    #[test]
    fn weakens_each_label_by_choice() {
        const WEAK: &str = "::core::sync::atomic::Ordering::Relaxed";
        let (weak, changes) = chosen(TEXT, &["RG3", "RG2", "RG1"]).unwrap();
        let wanted = TEXT
            .replace(
                "Ordering::Release",
                &format!("if WEAK(RG1) {{ {WEAK} }} else {{ Ordering::Release }}"),
            )
            .replace(
                "AcqRel, Acquire",
                &format!("if WEAK(RG2) {{ {WEAK} }} else {{ AcqRel }}, Acquire"),
            )
            .replace(
                "fence(Ordering::SeqCst);",
                "if !WEAK(RG3) { fence(Ordering::SeqCst); }",
            );
        assert_eq!(weak, wanted);
        assert_eq!(
            changes,
            [
                "Release of line 4 made Relaxed",
                "AcqRel of line 8 made Relaxed",
                "the fence of line 10 removed"
            ]
        );
    }

    #[test]
    fn the_copy_has_its_crates_alone() {
        let text = "[workspace]\nmembers = [\"crates/*\", \"xtask\"]\ndefault-members = [\"b\"]\n\
                    a = { path = \"crates/a\" }\n";
        let wanted = "[workspace]\nmembers = [\"weakened/*\"]\na = { path = \"weakened/a\" }";
        assert_eq!(manifest(text).as_deref(), Ok(wanted));
        assert!(manifest("[workspace]\n").is_err());
    }

    #[test]
    fn what_is_relaxed_cannot_be_weakened() {
        assert!(chosen(TEXT, &["RG4"]).is_err());
        assert_eq!(chosen(TEXT, &["RG5"]), Ok((TEXT.to_string(), Vec::new())));
    }
}
