//! The paths that a Rust file names: those of its `use` trees, one per leaf, and those in its code.

use crate::source::{Source, is_word, item_end};

/// One path, without a leading `::`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    /// Where the path, or the `use` that holds it, starts.
    pub(crate) at: usize,
    pub(crate) path: String,
    pub(crate) import: Option<Import>,
}

/// The name that a leaf of a `use` tree imports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Import {
    /// The name that it has in this file; `*` for all names of a module.
    pub(crate) name: String,
    /// Whether the `use` has a visibility: it exports the name again.
    pub(crate) again: bool,
    /// Where the `use` ends.
    pub(crate) end: usize,
}

/// Every path of the code.
pub(crate) fn paths(source: &Source<'_>) -> Vec<Named> {
    let code = source.code.as_bytes();
    let mut found = Vec::new();
    let mut skip_to = 0;
    for (at, word) in source.words() {
        if at < skip_to {
            continue;
        }
        if word == "use" && !code[at..].starts_with(b"use<") {
            let end = item_end(code, at);
            let tree: Vec<&str> = source.code[at + 3..end].split_whitespace().collect();
            let mut leaves = Vec::new();
            spread("", tree.join(" ").trim_end_matches(';'), &mut leaves);
            let head = &source.code[source.statement_start(at)..at];
            let again = head.split_whitespace().any(|word| word.starts_with("pub"));
            found.extend(leaves.into_iter().map(|(path, name)| Named {
                at,
                path,
                import: Some(Import { name, again, end }),
            }));
            skip_to = end;
            continue;
        }
        let before = source.code[..at].trim_end();
        let is_later_part = before.ends_with("::")
            && before
                .trim_end_matches(':')
                .bytes()
                .next_back()
                .is_some_and(|b| is_word(b) || b == b'>');
        if is_later_part {
            continue;
        }
        let mut path = word.to_string();
        let mut rest = &source.code[at + word.len()..];
        while let Some(next) = rest.trim_start().strip_prefix("::") {
            let next = next.trim_start();
            let len = next.bytes().take_while(|b| is_word(*b)).count();
            if len == 0 {
                break;
            }
            path = format!("{path}::{}", &next[..len]);
            rest = &next[len..];
        }
        // A lone word is a local name unless it is a crate in a path.
        if path.contains("::") {
            found.push(Named {
                at,
                path,
                import: None,
            });
        }
    }
    found
}

/// The leaves of a `use` tree, each as a whole path and the name that it gets.
fn spread(prefix: &str, tree: &str, leaves: &mut Vec<(String, String)>) {
    let tree = tree.trim().trim_start_matches("::");
    let Some(open) = tree.find('{') else {
        let (name, own) = match tree.split_once(" as ") {
            Some((name, own)) => (name.trim(), Some(own.trim().to_string())),
            None => (tree.trim(), None),
        };
        let path = match name {
            "self" => prefix.trim_end_matches("::").to_string(),
            _ => format!("{prefix}{name}").replace(' ', ""),
        };
        let last = path.rsplit("::").next().unwrap_or(&path).to_string();
        leaves.push((path, own.unwrap_or(last)));
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].replace(' ', ""));
    let inner = tree[open + 1..]
        .trim_end()
        .strip_suffix('}')
        .unwrap_or(&tree[open + 1..]);
    let mut depth = 0usize;
    let mut start = 0;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                spread(&prefix, &inner[start..at], leaves);
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = &inner[start..];
    if last.bytes().any(is_word) || last.contains('*') {
        spread(&prefix, last, leaves);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<(String, Option<(String, bool)>)> {
        paths(&Source::new(text))
            .into_iter()
            .map(|named| {
                let import = named.import.map(|import| (import.name, import.again));
                (named.path, import)
            })
            .collect()
    }

    #[test]
    fn trees_are_spread_and_names_kept() {
        let import =
            |path: &str, name: &str, again| (path.to_string(), Some((name.to_string(), again)));
        assert_eq!(
            named("use a::{self, b::{C, D as E,},};\npub(crate) use ::f::*;\nuse g as h;\n"),
            [
                import("a", "a", false),
                import("a::b::C", "C", false),
                import("a::b::D", "E", false),
                import("f::*", "*", true),
                import("g", "h", false),
            ]
        );
    }

    #[test]
    fn paths_of_the_code_are_whole() {
        assert_eq!(
            named("fn f() -> impl Sized + use<> { a::b::<C>::d(e, ::g::h) } // i::j\n"),
            [("a::b".to_string(), None), ("g::h".to_string(), None)]
        );
    }
}
