//! Finds the atomic operations of a file, and the labelled comment of each.
//!
//! An operation is a call with an ordering among its arguments. Its comment is directly above the
//! line of the ordering, or above a line between there and the start of the statement.

use crate::source::{Source, is_word};

/// The names of the orderings.
pub(crate) const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// One call with an ordering.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// The name of the called function.
    pub(crate) call: String,
    /// Each ordering among the arguments, with its place in the file.
    pub(crate) orderings: Vec<(usize, String)>,
    /// The start of the statement.
    pub(crate) start: usize,
    /// The line of the first ordering, from zero.
    pub(crate) line: usize,
    pub(crate) comment: Option<Label>,
}

/// The comment of an operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Label {
    /// `RG2`.
    pub(crate) name: String,
    /// The first line of the comment, from zero.
    pub(crate) line: usize,
    /// The last paragraph of the comment, on one line. The program does not read the paragraphs
    /// before it.
    pub(crate) text: String,
}

/// Every operation outside of test-only items.
pub(crate) fn operations(source: &Source<'_>) -> Vec<Operation> {
    let mut found: Vec<(usize, Operation)> = Vec::new();
    for (at, word) in source.words() {
        if !ORDERINGS.contains(&word) || source.in_test(at) {
            continue;
        }
        let Some((open, call)) = enclosing_call(&source.code, at) else {
            continue;
        };
        if let Some((_, operation)) = found.iter_mut().find(|(other, _)| *other == open) {
            operation.orderings.push((at, word.to_string()));
            continue;
        }
        let start = source.statement_start(at);
        let head = source.code[start..].trim_start();
        if head.starts_with("use ") || head.starts_with("pub use ") {
            continue;
        }
        let line = source.line_of(at);
        let first = source.line_of(start);
        let comment = (first..=line).rev().find_map(|l| label_above(source, l));
        let orderings = vec![(at, word.to_string())];
        found.push((
            open,
            Operation {
                call,
                orderings,
                start,
                line,
                comment,
            },
        ));
    }
    found.into_iter().map(|(_, operation)| operation).collect()
}

/// The label at the end of the comment above `line`.
fn label_above(source: &Source<'_>, line: usize) -> Option<Label> {
    let (first, text) = source.block_above(line)?;
    let text = text.rsplit('\n').next().unwrap_or("").to_string();
    let name = label_at_end(&text)?.to_string();
    Some(Label {
        name,
        line: first,
        text,
    })
}

/// `RG2` of a comment that ends in `[RG2]`.
pub(crate) fn label_at_end(text: &str) -> Option<&str> {
    let text = text.trim_end().trim_end_matches('.');
    let inner = text.strip_suffix(']')?;
    let name = &inner[inner.rfind('[')? + 1..];
    is_label(name).then_some(name)
}

/// Two or three capital letters and a number.
pub(crate) fn is_label(name: &str) -> bool {
    let letters = name.bytes().take_while(u8::is_ascii_uppercase).count();
    (2..=3).contains(&letters)
        && name.len() > letters
        && name.bytes().skip(letters).all(|b| b.is_ascii_digit())
}

/// The bracket that opens the innermost call around `at`, and the name before it.
fn enclosing_call(code: &str, at: usize) -> Option<(usize, String)> {
    let bytes = code.as_bytes();
    let mut depth = 0usize;
    let mut i = at;
    while i > 0 {
        i -= 1;
        match bytes[i] {
            b')' | b']' | b'}' => depth += 1,
            b'(' | b'[' | b'{' if depth > 0 => depth -= 1,
            b'(' => break,
            b'[' | b'{' => return None,
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    if bytes.get(i) != Some(&b'(') {
        return None;
    }
    let name = name_before(code, i)?;
    // `Some(Acquire)` and `matches!(o, Acquire)` are not accesses to memory.
    name.starts_with(|c: char| c.is_ascii_lowercase())
        .then(|| (i, name.to_string()))
}

/// The identifier that ends at `end`, turbofish skipped.
fn name_before(code: &str, end: usize) -> Option<&str> {
    let bytes = code.as_bytes();
    let mut last = end;
    if last > 0 && bytes[last - 1] == b'>' {
        let mut depth = 0usize;
        while last > 0 {
            last -= 1;
            match bytes[last] {
                b'>' => depth += 1,
                b'<' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
        }
        last = code[..last].trim_end_matches(':').len();
    }
    let mut first = last;
    while first > 0 && is_word(bytes[first - 1]) {
        first -= 1;
    }
    let name = &code[first..last];
    let keyword = matches!(
        name,
        "" | "if" | "match" | "while" | "return" | "in" | "let" | "fn"
    );
    (!keyword).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "
use core::sync::atomic::Ordering::{self, Acquire, Release};
fn f(x: &A) {
    // Release: pairs with
    // the load. [RG2]
    x.word
        .store(1, Ordering::Release);
    x.word.store(2, Release);
    // AcqRel: both. [RG3]
    while x.y.compare_exchange(a, (b, c), Ordering::AcqRel, Acquire).is_err() {}
    let s = S {
        // Relaxed: mine. [RG4]
        a: x.a.load(Ordering::Relaxed),
        b: x.b.load(Ordering::Relaxed),
    };
    // SeqCst fence: either, or. [RG5]
    fence(Ordering::SeqCst);
    match o { Ordering::Release => Some(Ordering::Acquire), _ => None };
}
#[cfg(test)]
mod tests { fn g() { x.load(Acquire); } }
";

    #[test]
    fn finds_each_operation_and_its_label() {
        let source = Source::new(CODE);
        let found: Vec<(String, Vec<String>, Option<String>)> = operations(&source)
            .into_iter()
            .map(|o| {
                (
                    o.call,
                    o.orderings.into_iter().map(|(_, w)| w).collect(),
                    o.comment.map(|c| c.name),
                )
            })
            .collect();
        let row = |call: &str, orderings: &[&str], label: Option<&str>| {
            (
                call.to_string(),
                orderings
                    .iter()
                    .map(|o| (*o).to_string())
                    .collect::<Vec<_>>(),
                label.map(str::to_string),
            )
        };
        assert_eq!(
            found,
            [
                row("store", &["Release"], Some("RG2")),
                row("store", &["Release"], None),
                row("compare_exchange", &["AcqRel", "Acquire"], Some("RG3")),
                row("load", &["Relaxed"], Some("RG4")),
                row("load", &["Relaxed"], Some("RG4")),
                row("fence", &["SeqCst"], Some("RG5")),
            ]
        );
    }

    #[test]
    fn labels_have_one_form() {
        for good in ["RG2", "ABC12"] {
            assert!(is_label(good), "{good}");
        }
        for bad in ["R2", "RG", "rg2", "ABCD1", "RG2a", ""] {
            assert!(!is_label(bad), "{bad}");
        }
        assert_eq!(
            label_at_end("Release: pairs with [RG1] below. [RG2]"),
            Some("RG2")
        );
        assert_eq!(label_at_end("see [RG1] below"), None);
    }
}
