//! Rules for every text file: white space, and nothing that ties the tree to one machine.

use super::{File, count, has_extension};

/// Directories that name a machine rather than the project.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/ro", "ot"),
    concat!("/ho", "me"),
    concat!("/wo", "rk"),
    concat!("/t", "mp"),
    concat!("/Use", "rs"),
];

/// A directory outside of the repository, which nothing inside may read.
const OUTSIDE: &str = concat!("../sha", "red");

/// Words for work left undone.
const UNDONE: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// The most lines of a Rust file.
const LINES: usize = 800;

/// The most columns of a comment. Tables, drawings and addresses are exempt, because they cannot be
/// wrapped.
const COLUMNS: usize = 100;

/// Words for a thread or a caller that do not name it, with what to write.
const HABITS: [(&str, &str); 6] = [
    ("nobody", "`no thread`, `nothing`"),
    ("Nobody", "`No thread`, `Nothing`"),
    ("somebody", "`some thread`, `another thread`"),
    ("Somebody", "`Some thread`, `Another thread`"),
    ("whoever", "`the thread that`"),
    ("Whoever", "`The thread that`"),
];

/// Pages with the most words that each may have.
const PAGES: [(&str, usize); 2] = [
    ("docs/performance.md", 4000),
    ("docs/performance-branches.md", 3000),
];

pub(super) fn check(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    let path = &file.path;
    if path.contains("LICENSE") || path.ends_with(".snap") {
        return faults;
    }
    let generated = path == "Cargo.lock" || has_extension(path, "stderr");
    for (index, line) in file.text.split('\n').enumerate() {
        let at = format!("{path}:{}", index + 1);
        if !generated && line.ends_with([' ', '\t']) {
            faults.push(format!("{at}: white space at the end of the line"));
        }
        if !generated && line.contains('\t') {
            faults.push(format!("{at}: a tab; indent with spaces"));
        }
        if line.contains('\r') {
            faults.push(format!(
                "{at}: a carriage return; lines end in a line feed alone"
            ));
        }
        for machine in MACHINE_PATHS {
            if names_path(line, machine) {
                faults.push(format!("{at}: `{machine}` is a path of one machine; name paths from the root of the repository"));
            }
        }
        if line.contains(OUTSIDE) {
            faults.push(format!("{at}: reads outside of the repository"));
        }
        for word in UNDONE {
            if has_word(line, word) {
                faults.push(format!("{at}: `{word}`; do it, or open an issue"));
            }
        }
        if !path.ends_with("tidy/text.rs") && !path.ends_with("CHANGELOG.md") {
            for (word, instead) in HABITS {
                if has_word(line, word) {
                    faults.push(format!("{at}: `{word}`; write {instead}"));
                }
            }
        }
        if has_extension(path, "rs") && is_wide_comment(line) {
            faults.push(format!("{at}: a comment wider than {COLUMNS} columns"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        faults.push(format!("{path}: no line feed at the end"));
    }
    if file.text.ends_with("\n\n") {
        faults.push(format!("{path}: an empty line at the end"));
    }
    for (page, most) in PAGES {
        let is_word = |word: &&str| word.contains(char::is_alphanumeric);
        let words = file.text.split_whitespace().filter(is_word).count();
        if path == page && words > most {
            faults.push(format!("{path}: {words} words; it may have {most}"));
        }
    }
    let lines = file.text.lines().count();
    if has_extension(path, "rs") && lines > LINES {
        faults.push(format!(
            "{path}: {}; split it at {LINES}",
            count(lines, "line")
        ));
    }
    faults
}

/// Whether `line` is a comment that should be wrapped.
fn is_wide_comment(line: &str) -> bool {
    let trimmed = line.trim_start();
    let text = trimmed.trim_start_matches(['/', '!']).trim_start();
    let is_drawing = |c: char| ('\u{2500}'..='\u{25ff}').contains(&c);
    trimmed.starts_with("//")
        && line.chars().count() > COLUMNS
        && !text.starts_with('|')
        && !text.contains(is_drawing)
        && !text.contains("://")
}

/// Whether `line` names the absolute directory `dir` or something below it.
fn names_path(line: &str, dir: &str) -> bool {
    line.match_indices(dir).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + dir.len()..].chars().next();
        let starts = !before.is_some_and(|c| c.is_alphanumeric() || "._-/}])*~`$>".contains(c));
        let starts = starts || (before == Some('`'));
        starts && after == Some('/')
    })
}

/// Whether `word` is in `line` on its own.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].chars().next_back().is_some_and(part)
            && !line[at + word.len()..].chars().next().is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        check(&File {
            path: path.into(),
            text: text.into(),
        })
    }

    fn assert_one(path: &str, text: &str, word: &str) {
        let found = faults(path, text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(word), "{found:?}");
    }

    #[test]
    fn white_space() {
        assert!(faults("a.md", "one\n\ntwo\n").is_empty());
        assert_one("a.md", "one \n", "white space at the end");
        assert_one("a.md", "a\tb\n", "tab");
        assert_one("a.md", "one", "no line feed");
        assert_one("a.md", "one\n\n", "empty line");
        assert_one("a.md", "one\r\ntwo\n", "carriage return");
    }

    #[test]
    fn machine_paths() {
        assert!(
            faults(
                "a.md",
                "see target/tmp/x, crates/work/y and `/` of a http://host.example/home/x\n"
            )
            .is_empty()
        );
        for path in MACHINE_PATHS {
            assert_one("a.rs", &format!("//! {path}/a\n"), "one machine");
            assert_one("a.rs", &format!("//! `{path}/a`\n"), "one machine");
        }
        assert_one(
            "a.md",
            &format!("{OUTSIDE}/x\n"),
            "outside of the repository",
        );
    }

    #[test]
    fn habits_and_lengths() {
        assert_one("a.md", "a value that nobody reads\n", "no thread");
        assert!(faults("a.rs", "const NOBODY: u8 = 0;\n").is_empty());
        let long = "x ".repeat(60);
        assert_one("a.rs", &format!("// {}\n", long.trim()), "wider than");
        for fine in ["/// | ", "//! ─ ", "// see http://host.example/ "] {
            assert!(faults("a.rs", &format!("{fine}{}\n", long.trim())).is_empty());
        }
        assert_one("docs/performance.md", &"word\n".repeat(4001), "4001 words");
        assert!(faults("docs/performance.md", &"word | -\n".repeat(4000)).is_empty());
    }

    #[test]
    fn undone_work_and_long_files() {
        assert!(faults("a.rs", "//! MASTODON TODOS\n").is_empty());
        for word in UNDONE {
            assert_one("a.rs", &format!("// {word}: x\n"), word);
        }
        assert!(faults("a.rs", &"x\n".repeat(LINES)).is_empty());
        assert_one("a.rs", &"x\n".repeat(LINES + 1), "split");
    }
}
