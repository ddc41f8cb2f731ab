//! A page of rules must name, for each rule, the tests that check it.

use super::{File, find, has_extension};
use std::collections::HashSet;

/// Pages of rules, and where their tests are.
const PAGES: [(&str, &str); 1] = [("docs/msgpass-rules.md", "crates/rast-msgpass/")];

pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    for (page, folder) in PAGES {
        let Some(text) = find(files, page) else {
            continue;
        };
        let sources = files.iter().filter(|file| file.path.starts_with(folder));
        let sources = sources.filter(|file| has_extension(&file.path, "rs"));
        let tests: HashSet<&str> = sources.flat_map(|file| tests(&file.text)).collect();
        faults.extend(rows(page, text, &tests));
    }
    faults
}

/// The faults of the tables of a page: the last cell of a row names tests.
fn rows(page: &str, text: &str, tests: &HashSet<&str>) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(cells) = line
            .strip_prefix('|')
            .and_then(|line| line.strip_suffix('|'))
        else {
            continue;
        };
        let cell = cells.rsplit('|').next().unwrap_or("").trim();
        if cell == "held by" || cell.starts_with("---") {
            continue;
        }
        let mut names = cell.split('`').skip(1).step_by(2).peekable();
        if names.peek().is_none() {
            faults.push(format!("{page}:{}: a rule without a test", index + 1));
        }
        for name in names.filter(|name| !tests.contains(name)) {
            faults.push(format!("{page}:{}: there is no test `{name}`", index + 1));
        }
    }
    faults
}

/// The names of the tests in a source.
fn tests(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            is_test |= line == "#[test]";
        } else if let Some(rest) = line.strip_prefix("fn ") {
            if is_test {
                names.extend(rest.split(['(', '<']).next());
            }
            is_test = false;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_tests_that_exist() {
        let source = "fn helper() {}\n#[test]\n#[cfg(unix)]\nfn it_holds() {}\nfn other() {}\n";
        assert_eq!(tests(source), ["it_holds"]);
        let known = HashSet::from(["it_holds"]);
        let head = "| rule | held by |\n|---|---|\n";
        let faults = |row: &str| rows("page.md", &format!("{head}{row}\n"), &known);
        assert!(faults("| A `thing` holds. | `it_holds` |").is_empty());
        let gone = faults("| It holds. | `it_holds`, `helper` |");
        assert_eq!(gone, ["page.md:3: there is no test `helper`"]);
        assert_eq!(faults("| It holds. | none |").len(), 1);
    }
}
