//! `cargo xtask loom --weak LABEL`: is an ordering tested?
//!
//! The tree is copied, the labelled ordering becomes `Relaxed` in the copy (a fence goes), and the model named in docs/verification.md must fail.
//! The model first passes in the unchanged copy, and the weakened copy must build, so that a broken test counts for nothing.
//! A run that has to be stopped at the time limit counts for nothing either.

use crate::Result;
use crate::cmd::Cmd;
use crate::json::Json;
use crate::orderings::{Operation, operations};
use crate::source::{Source, item_end};
use crate::tidy::{Row, is_library, rows};
use crate::tree;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long one run of one model may take.
const LIMIT: Duration = Duration::from_secs(600);

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
        rows(&table)
            .into_iter()
            .filter(|row| row.model.is_some() && !row.ordering.starts_with("Relaxed"))
            .map(|row| row.label)
            .collect()
    } else {
        vec![label.to_string()]
    };
    run(&labels)
}

/// Weakens each label in turn; `Ok(false)` when one was not caught.
pub(crate) fn run(labels: &[String]) -> Result<bool> {
    let table = rows(&tree::read(tree::root(), "docs/verification.md")?);
    let workspace = crate::metadata::Workspace::load(tree::root())?;
    // Builds of its own: Cargo takes the copy's for those of the tree, whose files are older than a weakened one.
    let weak = workspace.target_dir.join("weak");
    let copy = Copy {
        tree: weak.join("tree"),
        target: weak.join("target"),
    };
    copy.refresh()?;
    let mut sound: Vec<(String, String)> = Vec::new();
    let mut lines = Vec::new();
    let mut all = true;
    for label in labels {
        let row = table
            .iter()
            .find(|row| row.label == *label)
            .ok_or(format!("{label} has no row in docs/verification.md"))?;
        let outcome = one(&copy, row, &mut sound);
        all &= outcome.is_ok();
        lines.push(match outcome {
            Ok(change) => format!(
                "{label}: caught by {} ({change})",
                row.model.as_deref().unwrap_or("")
            ),
            Err(reason) => format!("{label}: NOT caught: {reason}"),
        });
        println!("{}", lines[lines.len() - 1]);
    }
    if lines.len() > 1 {
        println!("\n{}", lines.join("\n"));
    }
    Ok(all)
}

/// Weakens one label and runs its model; gives what was changed.
fn one(copy: &Copy, row: &Row, sound: &mut Vec<(String, String)>) -> Result<String> {
    let model = row.model.as_ref().ok_or("its row names no model")?;
    let key = (row.krate.clone(), model.clone());
    if !sound.contains(&key) {
        match copy.test(&row.krate, model)? {
            Verdict::Passed => sound.push(key),
            other => return Err(format!("`{model}` does not pass unchanged ({other:?})")),
        }
    }
    let (path, original, weak, change) = find(&row.label)?;
    println!("{path}: {change}");
    copy.write(&path, &weak)?;
    let verdict = copy.test(&row.krate, model);
    copy.write(&path, &original)?;
    match verdict? {
        Verdict::Failed => Ok(change),
        Verdict::Passed => Err(format!("`{model}` passes with {change}")),
        Verdict::TimedOut => Err(format!("`{model}` ran past {} s", LIMIT.as_secs())),
    }
}

/// The file that holds `label`: its path, its text, the weakened text, and the change in words.
fn find(label: &str) -> Result<(String, String, String, String)> {
    for path in tree::files(tree::root())?
        .into_iter()
        .filter(|path| is_library(path))
    {
        let text = tree::read(tree::root(), &path)?;
        if let Some((weak, change)) = weaken(&text, label)? {
            return Ok((path, text, weak, change));
        }
    }
    Err(format!(
        "no comment in crates/*/src ends in [{label}] above an atomic operation"
    ))
}

/// The file with the operation of `label` weakened, and the change in words.
fn weaken(text: &str, label: &str) -> Result<Option<(String, String)>> {
    let source = Source::new(text);
    let labelled =
        |operation: &Operation| operation.comment.as_ref().is_some_and(|c| c.name == label);
    let Some(operation) = operations(&source).into_iter().find(labelled) else {
        return Ok(None);
    };
    let line = operation.line + 1;
    if operation.call == "fence" {
        let end = item_end(source.code.as_bytes(), operation.start);
        let weak = format!("{}{}", &text[..operation.start], &text[end..]);
        return Ok(Some((weak, format!("the fence of line {line} removed"))));
    }
    let strong = operation
        .orderings
        .iter()
        .find(|(_, ordering)| ordering != "Relaxed");
    let Some((at, ordering)) = strong else {
        return Err(format!("{label} is Relaxed already"));
    };
    // By the same path, so that the word is in scope however the file imports it.
    let word = if text[..*at].ends_with("::") {
        "Relaxed".to_string()
    } else {
        let imported = source
            .words()
            .any(|(place, word)| word == "Relaxed" && !text[..place].ends_with("Ordering::"));
        let path = if imported {
            ""
        } else {
            "core::sync::atomic::Ordering::"
        };
        format!("{path}Relaxed")
    };
    let weak = format!("{}{word}{}", &text[..*at], &text[at + ordering.len()..]);
    Ok(Some((
        weak,
        format!("{ordering} of line {line} made Relaxed"),
    )))
}

/// The copy of the tree in which orderings are weakened.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Makes the copy equal to the tree; files that are equal keep their times, so that builds stay fresh.
    fn refresh(&self) -> Result {
        std::fs::create_dir_all(&self.tree).map_err(|error| error.to_string())?;
        let wanted = tree::files(tree::root())?;
        for old in tree::files(&self.tree)? {
            if !wanted.contains(&old) {
                std::fs::remove_file(self.tree.join(&old))
                    .map_err(|error| format!("{old}: {error}"))?;
            }
        }
        for path in wanted {
            let new = std::fs::read(tree::root().join(&path))
                .map_err(|error| format!("{path}: {error}"))?;
            if std::fs::read(self.tree.join(&path)).ok().as_ref() != Some(&new) {
                let target = self.tree.join(&path);
                let dir = target.parent().unwrap_or(Path::new(""));
                std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
                std::fs::write(&target, new).map_err(|error| format!("{path}: {error}"))?;
            }
        }
        Ok(())
    }

    fn write(&self, path: &str, text: &str) -> Result {
        std::fs::write(self.tree.join(path), text).map_err(|error| format!("{path}: {error}"))
    }

    /// Builds the models of `krate` and runs the one called `model`.
    fn test(&self, krate: &str, model: &str) -> Result<Verdict> {
        let runner = self.build(krate)?;
        let list = Cmd::new(&runner)
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
        let mut command = Cmd::new(&runner)
            .dir(&self.tree.join("crates").join(krate))
            .env("LOOM_MAX_PREEMPTIONS", crate::loom::bound()?.to_string())
            .args(["--exact", &full, "--test-threads=1"])
            .into_inner();
        run_limited(&mut command, &self.target.join("weak.log"))
    }

    /// Builds the models of `krate` and gives the program that runs them.
    fn build(&self, krate: &str) -> Result<PathBuf> {
        let output = Cmd::cargo()
            .dir(&self.tree)
            .args([
                "test",
                "--quiet",
                "--release",
                "--test",
                "loom",
                "-p",
                krate,
                "--no-run",
            ])
            .arg("--message-format=json-render-diagnostics")
            .rustflags("--cfg rast_loom")
            .env("CARGO_TARGET_DIR", &self.target)
            .read()?;
        if !output.success {
            return Err("the copy does not build".into());
        }
        for line in output.text.lines() {
            let message = Json::parse(line)?;
            let is_runner = message
                .get("target")
                .is_some_and(|target| target.text("name") == Ok("loom"));
            if let (true, Some(path)) = (is_runner, message.text_or_null("executable")) {
                return Ok(PathBuf::from(path));
            }
        }
        Err("Cargo named no program for the test `loom`".into())
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
        let ran = crate::loom::passed(&text) == 1;
        return if ran {
            Ok(Verdict::Passed)
        } else {
            Err("the model did not run".into())
        };
    }
    // A model that panics twice ends by a signal and without the runner's summary; it has begun, though.
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

    #[test]
    fn weakens_one_operation() {
        let (weak, _) = weaken(TEXT, "RG1").unwrap().unwrap();
        assert_eq!(weak, TEXT.replace("Ordering::Release", "Ordering::Relaxed"));
        let (weak, _) = weaken(TEXT, "RG2").unwrap().unwrap();
        assert_eq!(weak, TEXT.replace("AcqRel, Acquire", "Relaxed, Acquire"));
        let (weak, change) = weaken(TEXT, "RG3").unwrap().unwrap();
        assert_eq!(weak, TEXT.replace("fence(Ordering::SeqCst);", ""));
        assert!(change.contains("removed"));
        assert!(weaken(TEXT, "RG4").is_err());
        assert_eq!(weaken(TEXT, "RG5"), Ok(None));
    }

    #[test]
    fn a_word_that_is_not_imported_gets_its_path() {
        let text = "fn f() {\n    // Release: x. [RG1]\n    x.store(1, Release);\n}\n";
        let (weak, _) = weaken(text, "RG1").unwrap().unwrap();
        assert!(weak.contains("x.store(1, core::sync::atomic::Ordering::Relaxed)"));
    }
}
