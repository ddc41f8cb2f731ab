//! The labels in the sources and those in the tables of docs/verification.md must be the same.
//!
//! `Relaxed` is the weakest ordering, so no test can tell it from a weaker one: such an operation
//! needs neither a label nor a row.

use super::{File, find, is_library};
use crate::orderings::{ORDERINGS, is_label, operations};
use crate::source::Source;

/// The page with the table.
const TABLE: &str = "docs/verification.md";

/// The ordering that needs no row.
const RELAXED: &str = "Relaxed";

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) krate: String,
    pub(crate) ordering: String,
    pub(crate) pairs: String,
    /// The name of a loom test; `None` when the row says why there is none.
    pub(crate) model: Option<String>,
    line: usize,
    reason: String,
}

/// The rows of the tables; the heading above a table names the crate.
pub(crate) fn rows(table: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut krate = "";
    for (index, line) in table.lines().enumerate() {
        let line = line.trim();
        krate = line.strip_prefix("## ").unwrap_or(krate);
        let Some(inner) = line.strip_prefix('|').and_then(|l| l.strip_suffix('|')) else {
            continue;
        };
        let cells: Vec<String> = inner
            .replace("\\|", "\u{1}")
            .split('|')
            .map(|c| c.trim().replace('\u{1}', "|"))
            .collect();
        let plain = |cell: &String| cell.trim_matches('`').to_string();
        let [label, _place, ordering, pairs, model] = cells.as_slice() else {
            continue;
        };
        if !is_label(&plain(label)) {
            continue;
        }
        let model = plain(model);
        rows.push(Row {
            label: plain(label),
            krate: krate.to_string(),
            ordering: plain(ordering),
            pairs: pairs.clone(),
            model: (!model.starts_with("none")).then(|| model.clone()),
            line: index + 1,
            reason: model,
        });
    }
    rows
}

/// The labels that `verify` weakens, from the lines that start with `weak-in-verify:`.
pub(crate) fn weak_in_verify(table: &str) -> Vec<String> {
    table
        .lines()
        .filter_map(|line| line.trim().strip_prefix("weak-in-verify:"))
        .flat_map(|rest| rest.split([',', ' ']))
        .map(|word| word.trim_matches(['`', '.']).to_string())
        .filter(|word| !word.is_empty())
        .collect()
}

pub(super) fn check(files: &[File]) -> Vec<String> {
    let Some(table) = find(files, TABLE) else {
        return vec![format!("{TABLE}: missing")];
    };
    let rows = rows(table);
    let mut faults = Vec::new();
    let mut known: Vec<(String, String)> = Vec::new();
    for file in files.iter().filter(|f| is_library(&f.path)) {
        for (at, label, ordering) in labels_of(file, &mut faults) {
            if let Some((_, other)) = known.iter().find(|(known, _)| *known == label) {
                faults.push(format!(
                    "{at}: label {label} stands at {other} too; each is given once"
                ));
            }
            let krate = file.path.split('/').nth(1).unwrap_or("");
            match rows.iter().find(|row| row.label == label) {
                None if ordering == RELAXED => {}
                None => faults.push(format!("{at}: label {label} has no row in {TABLE}")),
                Some(row) => {
                    if row.krate != krate {
                        faults.push(format!(
                            "{TABLE}:{}: {label} stands in {krate}, not in {}",
                            row.line, row.krate
                        ));
                    }
                    if !row.ordering.starts_with(&ordering) {
                        faults.push(format!(
                            "{TABLE}:{}: {label} is {ordering} in the source, {} here",
                            row.line, row.ordering
                        ));
                    }
                }
            }
            known.push((label, at));
        }
    }
    for (index, row) in rows.iter().enumerate() {
        let at = format!("{TABLE}:{}", row.line);
        if !known.iter().any(|(label, _)| *label == row.label) {
            faults.push(format!("{at}: {} labels nothing in the sources", row.label));
        }
        if row.ordering == RELAXED {
            faults.push(format!(
                "{at}: {} is Relaxed, which nothing weakens; delete the row",
                row.label
            ));
        }
        if rows[..index].iter().any(|other| other.label == row.label) {
            faults.push(format!("{at}: {} has two rows", row.label));
        }
        for word in row
            .pairs
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| is_label(word))
        {
            if !known.iter().any(|(label, _)| label == word) && !is_other_name(word) {
                faults.push(format!(
                    "{at}: {} pairs with {word}, which labels nothing in the sources",
                    row.label
                ));
            }
        }
        check_model(files, row, &at, &mut faults);
    }
    for label in weak_in_verify(table) {
        match rows.iter().find(|row| row.label == label) {
            None => faults.push(format!(
                "{TABLE}: weak-in-verify names {label}, which has no row"
            )),
            Some(row) if row.model.is_none() => {
                faults.push(format!(
                    "{TABLE}: weak-in-verify names {label}, which has no model"
                ));
            }
            Some(_) => {}
        }
    }
    faults
}

/// Words of other fields that look like labels.
fn is_other_name(word: &str) -> bool {
    ["UTF8", "RFC", "RESP2"].contains(&word)
}

fn check_model(files: &[File], row: &Row, at: &str, faults: &mut Vec<String>) {
    let Some(model) = &row.model else {
        let reason = row
            .reason
            .trim_start_matches("none")
            .trim_start_matches(':')
            .trim();
        if !row.reason.starts_with("none:") || reason.split_whitespace().count() < 3 {
            faults.push(format!(
                "{at}: {} has no model; write `none: ` and why no test can see it",
                row.label
            ));
        }
        return;
    };
    let path = format!("crates/{}/tests/loom.rs", row.krate);
    let parts = format!("crates/{}/tests/loom/", row.krate);
    let stands = files
        .iter()
        .filter(|file| file.path == path || file.path.starts_with(&parts))
        .any(|file| {
            let source = Source::new(&file.text);
            let words: Vec<&str> = source.words().map(|(_, word)| word).collect();
            words
                .windows(2)
                .any(|pair| pair[0] == "fn" && pair[1] == model)
        });
    if !stands {
        faults.push(format!(
            "{at}: {} names the model `{model}`, which is no fn in {path} or beside it in {parts}",
            row.label
        ));
    }
}

/// The labels of one file with place and first ordering; adds the faults of its comments.
fn labels_of(file: &File, faults: &mut Vec<String>) -> Vec<(String, String, String)> {
    let source = Source::new(&file.text);
    let mut found: Vec<(String, String, String)> = Vec::new();
    let mut lines = Vec::new();
    for operation in operations(&source) {
        let at = format!("{}:{}", file.path, operation.line + 1);
        let first = operation.orderings[0].1.clone();
        let is_relaxed = operation.orderings.iter().all(|(_, name)| name == RELAXED);
        let Some(comment) = operation.comment else {
            if is_relaxed {
                continue;
            }
            faults.push(format!(
                "{at}: `{}` with {first} has no labelled comment; write `// {first}: pairs with .. [LABEL]` directly above",
                operation.call
            ));
            continue;
        };
        if lines.contains(&comment.line) {
            if is_relaxed {
                continue;
            }
            faults.push(format!(
                "{at}: two operations share label {}; give each its comment",
                comment.name
            ));
            continue;
        }
        lines.push(comment.line);
        let word: String = comment
            .text
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        if !ORDERINGS.contains(&word.as_str()) || word != first {
            faults.push(format!(
                "{at}: the comment of {} starts with `{word}`; the operation is {first}",
                comment.name
            ));
        }
        found.push((at, comment.name, first));
    }
    for line in 0..source.lines() {
        let label = source.block_above(line).and_then(|(first, text)| {
            let name = crate::orderings::label_at_end(&text)?.to_string();
            Some((first, name))
        });
        if let Some((first, name)) = label
            && !source.is_comment_line(line)
            && !lines.contains(&first)
            && !source.in_test(file.text.lines().take(first).map(|l| l.len() + 1).sum())
        {
            faults.push(format!(
                "{}:{}: the comment of {name} stands above no atomic operation",
                file.path,
                first + 1
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! Concept.\nfn a() {\n    // Release: pairs with the Acquire in b. [RG1]\n    x.store(1, Ordering::Release);\n}\n";
    const LOOM: &str = "//! Models.\n#[test]\nfn pushes() {}\n";
    const ROW: &str = "## rast-queue\n| RG1 | a | Release | RG1 | pushes |";

    fn faults(source: &str, table: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        check(&[
            file("crates/rast-queue/src/a.rs", source),
            file("crates/rast-queue/tests/loom.rs", LOOM),
            file(TABLE, table),
        ])
    }

    fn assert_bad(source: &str, table: &str, word: &str) {
        let found = faults(source, table);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(word), "{found:?}");
    }

    #[test]
    fn table_and_sources_agree() {
        assert_eq!(faults(SOURCE, ROW), Vec::<String>::new());
        let reason = ROW.replace("pushes", "none: only a weaker machine shows it");
        assert_eq!(faults(SOURCE, &reason), Vec::<String>::new());
    }

    #[test]
    fn rows_are_checked() {
        assert_bad(SOURCE, "", "has no row");
        assert_bad(SOURCE, &format!("{ROW}\n{ROW}"), "two rows");
        assert_bad(
            SOURCE,
            &format!("{ROW}\n{}", ROW.replacen("RG1", "RG2", 1)),
            "labels nothing",
        );
        assert_bad(
            SOURCE,
            &ROW.replace("| RG1 | pushes", "| RG7 | pushes"),
            "pairs with RG7",
        );
        assert_bad(SOURCE, &ROW.replace("pushes", "gone"), "is no fn");
        assert_bad(SOURCE, &ROW.replace("pushes", "none"), "why no test");
        assert_bad(
            SOURCE,
            &ROW.replace("Release", "Acquire"),
            "is Release in the source",
        );
        assert_bad(
            SOURCE,
            &ROW.replace("rast-queue", "rast-alloc")
                .replace("pushes", "none: no test can see it"),
            "stands in rast-queue",
        );
    }

    #[test]
    fn relaxed_needs_no_row() {
        let relaxed = SOURCE.replace("Release", "Relaxed");
        assert_eq!(faults(&relaxed, ""), Vec::<String>::new());
        assert_bad(
            &relaxed,
            &ROW.replace("Release", "Relaxed"),
            "delete the row",
        );
        let bare = "//! C.\nfn a() {\n    x.store(1, Ordering::Relaxed);\n}\n";
        assert_eq!(faults(bare, ""), Vec::<String>::new());
    }

    #[test]
    fn comments_are_checked() {
        let bare = "//! C.\nfn a() {\n    x.store(1, Ordering::Release);\n}\n";
        assert_bad(bare, "", "no labelled comment");
        assert_bad(
            &SOURCE.replace("// Release:", "// Acquire:"),
            ROW,
            "starts with `Acquire`",
        );
        assert_bad(
            &SOURCE.replace(
                "x.store(1, Ordering::Release)",
                "x.store(1, Ordering::Release) + y.load(Ordering::Acquire)",
            ),
            ROW,
            "share label",
        );
        let twice = format!("{SOURCE}{}", SOURCE.replace("//! Concept.\n", ""));
        assert_bad(&twice, ROW, "stands at");
        assert_bad(
            &format!("{SOURCE}fn b() {{\n    // Relaxed: none. [RG9]\n    c();\n}}\n"),
            ROW,
            "above no atomic",
        );
    }

    #[test]
    fn weak_labels_are_listed() {
        assert_eq!(
            weak_in_verify("text\nweak-in-verify: `RG1`, QU3\nweak-in-verify: SH1.\n"),
            ["RG1", "QU3", "SH1"]
        );
        assert_bad(SOURCE, &format!("{ROW}\n\nweak-in-verify: RG8\n"), "RG8");
    }
}
