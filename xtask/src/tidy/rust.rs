//! Rules for Rust files: the opening comment, forbidden names, safety comments, and calls that hide
//! errors.

use super::{File, is_library};
use crate::orderings::operations;
use crate::paths::{Named, paths};
use crate::source::Source;

/// Paths, given as prefixes, that only `rast-primitive` may name, and what the other crates name
/// instead.
const PRIMITIVE_PATHS: &[(&str, &str)] = &[
    ("loom", "the switch of rast-primitive"),
    ("shuttle", "the switch of rast-primitive"),
    ("parking_lot", "primitive::sync"),
    ("portable_atomic", "primitive::sync::atomic"),
    ("crossbeam_epoch", "primitive::Snapshot"),
    ("core::sync::atomic", "primitive::sync::atomic"),
    ("std::sync::atomic", "primitive::sync::atomic"),
    ("core::cell::UnsafeCell", "primitive::cell::UnsafeCell"),
    ("std::cell::UnsafeCell", "primitive::cell::UnsafeCell"),
    ("core::hint::spin_loop", "primitive::hint"),
    ("std::hint::spin_loop", "primitive::hint"),
    ("std::thread", "primitive::thread"),
    ("std::sync::Mutex", "primitive::sync"),
    ("std::sync::RwLock", "primitive::sync"),
    ("std::sync::Condvar", "primitive::sync"),
    ("std::sync::Barrier", "primitive::sync"),
    ("std::sync::Once", "primitive::sync"),
    ("std::sync::OnceLock", "primitive::sync"),
    ("std::sync::LazyLock", "primitive::sync"),
    ("std::sync::mpsc", "a queue of rast-queue"),
];

/// Calls that leave work undone or tests untrusted, wherever they are.
const NOWHERE: &[(&str, &str)] = &[
    (concat!("to", "do!"), "do it, or give an error value"),
    (
        concat!("unimple", "mented!"),
        "do it, or give an error value",
    ),
    (concat!("db", "g!"), "remove it"),
    (
        concat!("#[ig", "nore"),
        "a test that does not run proves nothing",
    ),
];

pub(super) fn check(file: &File) -> Vec<String> {
    let source = Source::new(&file.text);
    let mut faults = opening(file);
    faults.extend(nowhere(file, &source));
    faults.extend(sleeps(file, &source));
    faults.extend(safety(file, &source));
    if is_library(&file.path) && !file.path.starts_with("crates/rast-primitive/") {
        faults.extend(names(file, &source));
    }
    if is_library(&file.path) {
        faults.extend(sequential(file, &source));
    }
    faults
}

/// Every file opens with its concept.
fn opening(file: &File) -> Vec<String> {
    // A compile-fail case shows what a user would write.
    let is_case = file.path.contains("/tests/ui/")
        || file.path.contains("/tests/fail/")
        || file.path.contains("/tests/pass/");
    if is_case || file.text.starts_with("//!") {
        return Vec::new();
    }
    vec![format!(
        "{}:1: the file does not open with `//!` and its concept",
        file.path
    )]
}

fn nowhere(file: &File, source: &Source<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    for line in 0..source.lines() {
        for (call, instead) in NOWHERE {
            let code = source.code_line(line);
            let found = code.match_indices(call).any(|(at, _)| {
                !code[..at]
                    .bytes()
                    .next_back()
                    .is_some_and(crate::source::is_word)
            });
            if found {
                faults.push(format!("{}:{}: `{call}`; {instead}", file.path, line + 1));
            }
        }
    }
    faults
}

/// Tests wait for events, never for time.
fn sleeps(file: &File, source: &Source<'_>) -> Vec<String> {
    let is_test_file = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    let mut faults = Vec::new();
    for (at, word) in source.words() {
        if word != "sleep" || !(is_test_file || source.in_test(at)) {
            continue;
        }
        if source.code[..at].trim_end().ends_with("thread::") {
            let line = source.line_of(at) + 1;
            faults.push(format!(
                "{}:{line}: a test sleeps; wait for what it expects instead",
                file.path
            ));
        }
    }
    faults
}

/// Each `unsafe` block and impl says why it is sound.
fn safety(file: &File, source: &Source<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, word) in source.words() {
        if word != "unsafe" {
            continue;
        }
        let after = source.code[at + word.len()..].trim_start();
        let (what, needs) = if after.starts_with('{') {
            ("block", true)
        } else if after.starts_with("impl") {
            ("impl", true)
        } else {
            ("", false)
        };
        if !needs {
            continue;
        }
        let line = source.line_of(at);
        let first = source.line_of(source.statement_start(at)).min(line);
        let same_line = source
            .comment(line)
            .is_some_and(|c| c.text.contains("SAFETY:"));
        let above = (first..=line).any(|l| {
            source
                .block_above(l)
                .is_some_and(|(_, text)| text.contains("SAFETY:"))
        });
        if !same_line && !above {
            faults.push(format!(
                "{}:{}: an unsafe {what} without `// SAFETY:` above it",
                file.path,
                line + 1
            ));
        }
    }
    faults
}

/// Only the lowest crate names what loom and shuttle exchange.
fn names(file: &File, source: &Source<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    for Named { at, path, .. } in paths(source) {
        if source.in_test(at) {
            continue;
        }
        for (forbidden, instead) in PRIMITIVE_PATHS {
            if path == *forbidden || path.starts_with(&format!("{forbidden}::")) {
                let line = source.line_of(at) + 1;
                faults.push(format!(
                    "{}:{line}: `{path}` is named outside of rast-primitive; take {instead}",
                    file.path
                ));
            }
        }
    }
    for (at, word) in source.words() {
        if word == "thread_local"
            && source.code[at + word.len()..].starts_with('!')
            && !source.in_test(at)
        {
            let line = source.line_of(at) + 1;
            let before = source.code[..at].trim_end();
            if !before.ends_with("primitive::") && !before.ends_with("thread::") {
                faults.push(format!(
                    "{}:{line}: `thread_local!` outside of rast-primitive; take its re-export",
                    file.path
                ));
            }
        }
    }
    faults
}

/// `SeqCst` is used only in fences, because the model checker treats other uses as `AcqRel`.
fn sequential(file: &File, source: &Source<'_>) -> Vec<String> {
    operations(source)
        .into_iter()
        .filter(|operation| {
            !matches!(operation.call.as_str(), "fence" | "compiler_fence")
                && operation.orderings.iter().any(|(_, o)| o == "SeqCst")
        })
        .map(|operation| {
            format!(
                "{}:{}: `SeqCst` in `{}`; use it in a fence alone",
                file.path,
                operation.line + 1,
                operation.call
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        check(&File {
            path: path.into(),
            text: format!("//! Concept.\n{text}"),
        })
    }

    const LIBRARY: &str = "crates/rast-queue/src/a.rs";

    fn assert_bad(path: &str, text: &str, word: &str) {
        let found = faults(path, text);
        assert!(
            found.iter().any(|fault| fault.contains(word)),
            "{text}: {found:?}"
        );
    }

    fn assert_good(path: &str, text: &str) {
        assert_eq!(faults(path, text), Vec::<String>::new(), "{text}");
    }

    #[test]
    fn files_open_with_their_concept() {
        let bad = File {
            path: LIBRARY.into(),
            text: "fn a() {}\n".into(),
        };
        assert_eq!(opening(&bad).len(), 1);
        assert_good(LIBRARY, "fn a() {}\n");
    }

    #[test]
    fn undone_calls() {
        assert_good(
            LIBRARY,
            "// about dbg! and todo!\nfn a() { let s = \"#[ignore]\"; mydbg!(s) }\n",
        );
        for (call, _) in NOWHERE {
            let text = if call.starts_with('#') {
                format!("{call}]\nfn a() {{}}\n")
            } else {
                format!("fn a() {{ {call}() }}\n")
            };
            assert_bad("xtask/src/a.rs", &text, call);
        }
    }

    #[test]
    fn sleeping_tests() {
        assert_good("benches/src/a.rs", "fn a() { std::thread::sleep(d) }\n");
        assert_bad(
            "crates/rast-queue/tests/api.rs",
            "fn a() { std::thread::sleep(d) }\n",
            "sleeps",
        );
        assert_bad(
            "xtask/src/a.rs",
            "#[test]\nfn a() { thread::sleep(d) }\n",
            "sleeps",
        );
    }

    #[test]
    fn unsafe_says_why() {
        assert_good(
            LIBRARY,
            "// SAFETY: fine.\nunsafe impl Send for A {}\nunsafe fn f() {}\n",
        );
        assert_good(
            LIBRARY,
            "fn a() {\n    // SAFETY: fine,\n    // really.\n    let x =\n        unsafe { b() };\n}\n",
        );
        assert_bad(LIBRARY, "fn a() {\n    unsafe { b() };\n}\n", "SAFETY");
        assert_bad(LIBRARY, "unsafe impl Send for A {}\n", "SAFETY");
    }

    #[test]
    fn names_of_the_lowest_crate() {
        assert_good(
            LIBRARY,
            "use crate::primitive::sync::{Mutex, atomic::AtomicU64};\nuse std::sync::Arc;\nfn a() { primitive::thread::spawn(f); primitive::thread_local!(x); }\n#[cfg(test)]\nmod tests { use std::thread; }\n",
        );
        assert_good(
            "crates/rast-primitive/src/a.rs",
            "use loom::sync::Arc;\nuse core::sync::atomic;\n",
        );
        for bad in [
            "use std::{fmt, sync::{Arc, Mutex}};\n",
            "use core::sync::atomic::{self, AtomicU64};\n",
            "use core::{cell::UnsafeCell, fmt};\n",
            "fn a() { std::thread::spawn(f); }\n",
            "fn a() { let x = ::std::sync::Mutex::new(1); }\n",
            "use ::loom::sync;\n",
            "fn a() { loom::model(f); }\n",
            "use shuttle::thread;\n",
            "thread_local! { static A: u8 = 1; }\n",
            "use parking_lot as p;\n",
            "use std::sync::OnceLock;\n",
        ] {
            assert_bad(LIBRARY, bad, "outside of rast-primitive");
        }
    }

    #[test]
    fn sequential_consistency_is_for_fences() {
        assert_good(LIBRARY, "fn a() { fence(Ordering::SeqCst); }\n");
        assert_good(LIBRARY, "fn a() { compiler_fence(Ordering::SeqCst); }\n");
        assert_bad(
            LIBRARY,
            "fn a() { x.load(Ordering::SeqCst); }\n",
            "fence alone",
        );
    }
}
