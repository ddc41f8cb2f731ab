//! `cargo xtask tidy`: the house rules that a program can check.
//!
//! Each rule is a function from the text of a file to its faults, with a good and a bad snippet in
//! its tests. CONTRIBUTING.md describes the rules.

mod circles;
mod labels;
mod layout;
mod rules;
mod rust;
mod text;

pub(crate) use labels::{Row, rows, weak_in_verify};

use crate::Result;
use std::path::Path;

/// One text file of the workspace.
pub(crate) struct File {
    /// From the root, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    crate::no_more(args)?;
    Ok(report("tidy", &check(crate::tree::root())?))
}

/// Prints the faults that a command found, and their number; returns whether there are none.
pub(crate) fn report(command: &str, faults: &[String]) -> bool {
    for fault in faults {
        println!("{command}: {fault}");
    }
    println!("{command}: {} found", count(faults.len(), "fault"));
    faults.is_empty()
}

/// `1 fault`, `2 faults`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Every fault of the workspace at `root`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for path in crate::tree::files(root)? {
        if let Some(text) = crate::tree::text(root, &path)? {
            files.push(File { path, text });
        }
    }
    let mut faults = Vec::new();
    for file in &files {
        faults.extend(text::check(file));
        if has_extension(&file.path, "rs") {
            faults.extend(rust::check(file));
        }
        if has_extension(&file.path, "md") {
            faults.extend(layout::links(file, root));
        }
    }
    faults.extend(circles::check(&files));
    faults.extend(labels::check(&files));
    faults.extend(layout::check(&files, root));
    faults.extend(rules::check(&files));
    Ok(faults)
}

/// The text of the file at `path`.
fn find<'a>(files: &'a [File], path: &str) -> Option<&'a str> {
    files
        .iter()
        .find(|f| f.path == path)
        .map(|f| f.text.as_str())
}

/// Whether `path` ends in `.extension`.
fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|e| e == extension)
}

/// Whether a file is library code of a crate: under `crates/*/src` and not for tests alone.
pub(crate) fn is_library(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    parts.len() > 3
        && parts[0] == "crates"
        && parts[2] == "src"
        && has_extension(path, "rs")
        && !parts[3..]
            .iter()
            .any(|part| *part == "tests" || *part == "tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_files_are_told_apart() {
        assert!(is_library("crates/rast-queue/src/spsc/ring.rs"));
        for other in [
            "crates/rast-queue/tests/api.rs",
            "crates/rast-queue/src/spsc/tests.rs",
            "xtask/src/main.rs",
            "crates/rast/examples/kv/main.rs",
        ] {
            assert!(!is_library(other), "{other}");
        }
    }

    #[test]
    fn counts_read_well() {
        assert_eq!(
            (count(0, "fault"), count(1, "fault")),
            ("0 faults".into(), "1 fault".into())
        );
    }
}
