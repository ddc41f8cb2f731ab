//! `cargo xtask layers`: which crate may depend on which.
//!
//! The rules are in docs/architecture.md; the tables below are their exact form. The commit that
//! adds a crate also adds its row, and for an outside crate the reason.

use crate::Result;
use crate::metadata::{Dependency, Kind, Package, Workspace};
use crate::source::Source;
use std::path::Path;

/// Each crate and the one directly beneath it; nothing is beneath the first.
const BENEATH: &[(&str, Option<&str>)] = &[
    ("rast-primitive", None),
    ("rast-alloc", Some("rast-primitive")),
    ("rast-queue", Some("rast-alloc")),
    ("rast-timers", Some("rast-queue")),
    ("rast-sharder", Some("rast-timers")),
    ("rast-msgpass", Some("rast-sharder")),
    // The branches, so that each has its place before it stands.
    ("rast-conflate", Some("rast-timers")),
    ("rast-scheduler", Some("rast-timers")),
    ("rast-executor", Some("rast-timers")),
    ("rast-reactor", Some("rast-executor")),
    ("rast-link", Some("rast-msgpass")),
];

/// Each crate of procedural macros, and the only crate that depends on it. A macro crate depends on
/// no crate of the workspace, and the facade does not depend on it.
const MACROS: &[(&str, &str)] = &[("rast-msgpass-macros", "rast-msgpass")];

/// The crate of re-exports.
const FACADE: &str = "rast";

/// Paths that only the lowest crate may name, so that one switch replaces them by those of a model.
const PRIMITIVE_ONLY: &[&str] = &[
    "loom",
    "shuttle",
    "portable-atomic",
    "parking_lot",
    "crossbeam-epoch",
];

/// The outside crates that a crate may name, and in which dependency table. The comment above a row
/// says why.
const OUTSIDE: &[(&str, &str, Kind)] = &[
    // The model checker, under cfg(rast_loom) alone.
    ("rast-primitive", "loom", Kind::Normal),
    // Random schedules, under cfg(rast_shuttle) alone.
    ("rast-primitive", "shuttle", Kind::Normal),
    // 128-bit words and 32-bit targets.
    ("rast-primitive", "portable-atomic", Kind::Normal),
    // Parking and locks for cold paths.
    ("rast-primitive", "parking_lot", Kind::Normal),
    // Outside readers of shared snapshots.
    ("rast-primitive", "crossbeam-epoch", Kind::Normal),
    // `membarrier` on Linux, which std has no face for.
    ("rast-primitive", "libc", Kind::Normal),
    // The allocator trait that hashbrown uses too.
    ("rast-alloc", "allocator-api2", Kind::Normal),
    // Shows that a map takes its memory from the trait.
    ("rast-alloc", "hashbrown", Kind::Dev),
    // Mappings and the end of threads on unix.
    ("rast-alloc", "libc", Kind::Normal),
    // Forks and keys in the tests.
    ("rast-alloc", "libc", Kind::Dev),
    // Forks in the tests.
    ("rast-queue", "libc", Kind::Dev),
    // Percentiles of latencies, under the feature histogram alone.
    ("rast-timers", "hdrhistogram", Kind::Normal),
    // The clock that counts suspension, which std has no face for.
    ("rast-timers", "libc", Kind::Normal),
    // Threads on cores, under the feature affinity alone.
    ("rast-sharder", "core_affinity", Kind::Normal),
    // The high indices of the table of sockets, which is also that of the reactors' registry.
    ("rast-executor", "hashbrown", Kind::Normal),
    // Readiness of sockets on every system, under the feature io alone.
    ("rast-executor", "mio", Kind::Normal),
    // Reads into memory that is not initialised, under the feature io alone.
    ("rast-executor", "socket2", Kind::Normal),
    // The traits of byte streams, under the feature of that name alone.
    ("rast-executor", "futures-io", Kind::Normal),
    // Tokio's traits of byte streams, under the feature of that name alone.
    ("rast-executor", "tokio", Kind::Normal),
    // Hyper's executor, timer and byte streams, under the feature of that name alone.
    ("rast-executor", "hyper", Kind::Normal),
    // Combinators and channels that wake tasks in their own ways.
    ("rast-executor", "futures", Kind::Dev),
    // A server in the example of that feature.
    ("rast-executor", "hyper", Kind::Dev),
    // Reactors on cores; a core that is missing is an error.
    ("rast-reactor", "core_affinity", Kind::Normal),
    // The keys of the registry: entries by their hash and their address, without user code.
    ("rast-reactor", "hashbrown", Kind::Normal),
    // The rings of io_uring and their entries, on Linux, under the feature io alone.
    ("rast-reactor", "io-uring", Kind::Normal),
    // The constants of io_uring's operations and an eventfd, which std has no face for.
    ("rast-reactor", "libc", Kind::Normal),
    // Addresses for the kernel, and reads into memory that is not initialised.
    ("rast-reactor", "socket2", Kind::Normal),
    // The Stream trait, under the feature async alone.
    ("rast-conflate", "futures-core", Kind::Normal),
    // The Stream trait, under the feature async alone.
    ("rast-msgpass", "futures-core", Kind::Normal),
    // The Sink trait, under the feature async alone.
    ("rast-msgpass", "futures-sink", Kind::Normal),
    // The combinators that the tests of streams and sinks use.
    ("rast-msgpass", "futures", Kind::Dev),
    // The recorder that a program has, under the feature of that name alone.
    ("rast-msgpass", "metrics", Kind::Normal),
    // The subscriber that a program has, under the feature of that name alone.
    ("rast-msgpass", "tracing", Kind::Normal),
    // Shows the compile errors of graph!.
    ("rast-msgpass", "trybuild", Kind::Dev),
    // The partitions of the kv example.
    ("rast", "hashbrown", Kind::Dev),
    // Heads of requests and chunk lengths in the adserver example.
    ("rast", "httparse", Kind::Dev),
    // The server of the http-hello example.
    ("rast", "hyper", Kind::Dev),
    // The recorder of the observe example.
    ("rast", "metrics", Kind::Dev),
    // The screen of the kv example.
    ("rast", "ratatui", Kind::Dev),
    // The lowest scheduling class, on Linux, in the adserver example.
    ("rast", "libc", Kind::Dev),
    // Readiness of sockets in the kv example.
    ("rast", "mio", Kind::Dev),
    // Drives the kv example in its tests.
    ("rast", "redis", Kind::Dev),
    // SIGINT and SIGTERM in the kv example.
    ("rast", "signal-hook", Kind::Dev),
    // Documents of the adserver example.
    ("rast", "simd-json", Kind::Dev),
    // The length of the accept queue in the kv example, which std fixes.
    ("rast", "socket2", Kind::Dev),
    // The Stream trait, under the feature async alone.
    ("rast-queue", "futures-core", Kind::Normal),
];

/// Outside crates for the tests of every crate.
const OUTSIDE_TESTS: &[(&str, &str)] = &[("proptest", "random operation lists against an oracle")];

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    crate::no_more(args)?;
    let errors = check(crate::tree::root())?;
    Ok(crate::tidy::report("layers", &errors))
}

/// Every fault of the workspace at `root`.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let workspace = Workspace::load(root)?;
    let mut errors = check_manifests(&workspace);
    if let Some(facade) = workspace.package(FACADE) {
        let dir = format!("{}/src/", facade.dir);
        for file in crate::tree::files(root)?
            .iter()
            .filter(|f| f.starts_with(&dir))
        {
            errors.extend(check_facade_source(file, &crate::tree::read(root, file)?));
        }
    }
    Ok(errors)
}

/// The faults that manifests show.
pub(crate) fn check_manifests(workspace: &Workspace) -> Vec<String> {
    let mut errors = Vec::new();
    for package in &workspace.packages {
        if package.name == FACADE {
            check_facade(package, workspace, &mut errors);
        } else if package.dir.starts_with("crates/") {
            check_crate(package, workspace, &mut errors);
        } else if package.dir == "xtask" {
            for dependency in &package.dependencies {
                if dependency.name != "cargo_metadata" {
                    errors.push(format!(
                        "xtask names `{}`; it builds before everything else and names `cargo_metadata` alone: write the few lines it needs",
                        dependency.name
                    ));
                }
            }
        }
    }
    errors
}

fn check_crate(package: &Package, workspace: &Workspace, errors: &mut Vec<String>) {
    let name = &package.name;
    if is_macros(name) {
        check_macros(package, errors);
        return;
    }
    let Some((_, beneath)) = BENEATH.iter().find(|(known, _)| known == name) else {
        errors.push(format!(
            "`{name}` has no place in the tower; give it a row in BENEATH in xtask/src/layers.rs"
        ));
        return;
    };
    let mut named = false;
    for dependency in &package.dependencies {
        let inner = &dependency.name;
        if !dependency.inside {
            check_outside(package, dependency, errors);
            continue;
        }
        if MACROS.contains(&(inner.as_str(), name.as_str())) {
            continue;
        }
        if inner == FACADE {
            errors.push(format!(
                "`{name}` names the facade `{FACADE}` (rule 3: only examples, benches and tests do); take the types by path from the crate beneath"
            ));
        } else if Some(inner.as_str()) != *beneath {
            let instead = beneath.map_or(
                "it stands at the bottom and names none".to_string(),
                |beneath| format!("it names `{beneath}` alone, which re-exports all beneath"),
            );
            errors.push(format!(
                "`{name}` names `{inner}` (rule 1: exactly the crate directly beneath); {instead}"
            ));
        } else if dependency.kind == Kind::Normal {
            named = true;
            if dependency.default_features {
                errors.push(format!(
                    "`{name}` takes `{inner}` with its default features (rule 1); write `default-features = false` and forward each by name"
                ));
            }
        }
    }
    if let (Some(beneath), false) = (beneath, named) {
        errors.push(format!("`{name}` does not name `{beneath}`, the crate beneath it (rule 1); add it to [dependencies]"));
    }
    if let Some(lower) = beneath.and_then(|beneath| workspace.package(beneath)) {
        check_forwarding(package, lower, errors);
    }
}

fn is_macros(name: &str) -> bool {
    MACROS.iter().any(|(macros, _)| *macros == name)
}

/// A crate of macros names no crate, of the workspace or outside.
fn check_macros(package: &Package, errors: &mut Vec<String>) {
    for dependency in &package.dependencies {
        errors.push(format!(
            "`{}` names `{}`; a crate of macros needs `proc_macro` alone",
            package.name, dependency.name
        ));
    }
}

/// Each feature that the crate beneath also has is forwarded under the same name.
fn check_forwarding(package: &Package, lower: &Package, errors: &mut Vec<String>) {
    for (feature, enables) in package
        .features
        .iter()
        .filter(|(feature, _)| feature != "default")
    {
        let forwarded = |enable: &String| {
            let (krate, inner) = enable.split_once('/')?;
            (krate.trim_end_matches('?') == lower.name).then(|| inner.to_string())
        };
        let inner: Vec<String> = enables.iter().filter_map(forwarded).collect();
        if lower.features().any(|f| f == feature) && !inner.contains(feature) {
            errors.push(format!(
                "feature `{feature}` of `{}` is not forwarded (rule 1); add \"{}/{feature}\" to it",
                package.name, lower.name
            ));
        }
        for other in inner.iter().filter(|other| *other != feature) {
            errors.push(format!(
                "feature `{feature}` of `{}` turns on \"{}/{other}\" (rule 1: features are forwarded by name)",
                package.name, lower.name
            ));
        }
    }
}

fn check_outside(package: &Package, dependency: &Dependency, errors: &mut Vec<String>) {
    let (name, outside) = (package.name.as_str(), dependency.name.as_str());
    let allowed = OUTSIDE.contains(&(name, outside, dependency.kind));
    let in_tests =
        dependency.kind == Kind::Dev && OUTSIDE_TESTS.iter().any(|(dep, _)| *dep == outside);
    if allowed || in_tests {
        return;
    }
    if PRIMITIVE_ONLY.contains(&outside) {
        errors.push(format!(
            "`{name}` names `{outside}` (rule 2: only `rast-primitive` does); take the type from `primitive`, by path through the crate beneath"
        ));
    } else {
        errors.push(format!(
            "`{name}` names the outside crate `{outside}`, which is not on its list (rule 5); do without it, or add it to OUTSIDE in xtask/src/layers.rs with a reason, in a commit of its own"
        ));
    }
}

fn check_facade(package: &Package, workspace: &Workspace, errors: &mut Vec<String>) {
    for dependency in &package.dependencies {
        if !dependency.inside {
            check_outside(package, dependency, errors);
        } else if dependency.kind == Kind::Normal && dependency.default_features {
            errors.push(format!(
                "the facade takes `{}` with its default features (rule 1); write `default-features = false`",
                dependency.name
            ));
        }
    }
    let named = |krate: &&Package| krate.name != FACADE && !is_macros(&krate.name);
    for krate in workspace.crates().filter(named) {
        if !package
            .dependencies
            .iter()
            .any(|d| d.kind == Kind::Normal && d.name == krate.name)
        {
            errors.push(format!(
                "the facade does not name `{}` (rule 3: it names every crate); re-export it",
                krate.name
            ));
        }
    }
}

/// The facade holds `pub use`, modules of `pub use`, attributes and docs, and no code.
fn check_facade_source(path: &str, text: &str) -> Vec<String> {
    let source = Source::new(text);
    let mut errors = Vec::new();
    for (start, item) in source.items() {
        if !is_reexport(&item) {
            let line = source.line_of(start) + 1;
            let head: String = item.chars().take(40).collect();
            errors.push(format!(
                "{path}:{line}: the facade holds `{head}` (rule 3: only `pub use`, modules of `pub use`, attributes and docs); move it into the crate it belongs to"
            ));
        }
    }
    errors
}

fn is_reexport(item: &str) -> bool {
    if let Some((_, body)) = item
        .strip_prefix("pub mod ")
        .and_then(|rest| rest.split_once('{'))
    {
        let inner = Source::new(body.trim_end_matches('}')).items();
        return inner.iter().all(|(_, item)| is_reexport(item));
    }
    item.starts_with("pub use ") || item.starts_with("extern crate ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    /// The real tree, with `from` replaced by `to` in the manifest of `krate`.
    fn doctored(test: &str, krate: &str, from: &str, to: &str) -> Vec<String> {
        let dir = std::env::temp_dir().join(format!("rast-layers-{}-{test}", std::process::id()));
        for file in tree::files(tree::root()).unwrap() {
            let copy = dir.join(&file);
            std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
            if file == format!("crates/{krate}/Cargo.toml") {
                let text = tree::read(tree::root(), &file).unwrap();
                assert!(text.contains(from), "{file} has no `{from}`");
                std::fs::write(&copy, text.replacen(from, to, 1)).unwrap();
            } else {
                std::fs::copy(tree::root().join(&file), &copy).unwrap();
            }
        }
        let errors = check(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        errors.unwrap()
    }

    fn assert_names(errors: &[String], words: &[&str]) {
        assert!(
            errors
                .iter()
                .any(|error| words.iter().all(|word| error.contains(word))),
            "{words:?} in none of {errors:#?}"
        );
    }

    #[test]
    fn the_tree_keeps_its_layers() {
        assert_eq!(check(tree::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_crate_that_names_another_than_the_one_beneath_fails() {
        let errors = doctored(
            "skips",
            "rast-sharder",
            "[dependencies]\n",
            "[dependencies]\nrast-queue = { workspace = true }\n",
        );
        assert_names(
            &errors,
            &["`rast-sharder` names `rast-queue`", "rule 1", "rast-timers"],
        );
    }

    #[test]
    fn a_crate_that_names_the_facade_or_a_lock_crate_fails() {
        let errors = doctored(
            "facade",
            "rast-queue",
            "[dependencies]\n",
            "[dependencies]\nparking_lot = { workspace = true }\nrand = \"1\"\n",
        );
        assert_names(&errors, &["`rast-queue` names `parking_lot`", "rule 2"]);
        assert_names(
            &errors,
            &["`rast-queue` names the outside crate `rand`", "rule 5"],
        );
        let errors = doctored(
            "upward",
            "rast-timers",
            "[features]\n",
            "[dev-dependencies]\nrast = { workspace = true }\n\n[features]\n",
        );
        assert_names(&errors, &["`rast-timers` names the facade", "rule 3"]);
    }

    #[test]
    fn features_are_forwarded_and_defaults_are_off() {
        let errors = doctored("features", "rast-queue", "[\"rast-alloc/std\"]", "[]");
        assert_names(
            &errors,
            &["feature `std` of `rast-queue`", "rast-alloc/std"],
        );
        let errors = doctored(
            "defaults",
            "rast-queue",
            "rast-alloc = { workspace = true }",
            "rast-alloc = { version = \"0.1.0\", path = \"../rast-alloc\" }",
        );
        assert_names(&errors, &["default features", "rast-alloc"]);
        // Cargo refuses such a manifest, so the test changes the manifest after it was read.
        let mut workspace = Workspace::load(tree::root()).unwrap();
        let facade = workspace
            .packages
            .iter_mut()
            .find(|p| p.name == FACADE)
            .unwrap();
        facade.dependencies.retain(|d| d.name != "rast-timers");
        let errors = check_manifests(&workspace);
        assert_names(&errors, &["does not name `rast-timers`"]);
    }

    #[test]
    fn macros_name_nothing_and_one_crate_names_them() {
        let errors = doctored(
            "macros",
            "rast-msgpass-macros",
            "[lints]\n",
            "[dependencies]\nrast-msgpass = { workspace = true }\n\n[lints]\n",
        );
        assert_names(&errors, &["`rast-msgpass-macros` names `rast-msgpass`"]);
        let errors = doctored(
            "macros-other",
            "rast-sharder",
            "[dependencies]\n",
            "[dependencies]\nrast-msgpass-macros = { workspace = true }\n",
        );
        assert_names(&errors, &["`rast-sharder` names `rast-msgpass-macros`"]);
    }

    #[test]
    fn the_facade_holds_no_code() {
        let good = "//! Docs.\n#![no_std]\n#[cfg(feature = \"a\")]\npub mod a {\n    //! A.\n    #[doc(inline)]\n    pub use rast_a::*;\n}\npub use rast_b as b;\n";
        assert_eq!(check_facade_source("lib.rs", good), Vec::<String>::new());
        for bad in [
            "pub fn f() {}\n",
            "mod inner;\n",
            "pub mod inner;\n",
            "pub mod inner { pub fn f() {} }\n",
            "use rast_a as a;\n",
            "pub struct S;\n",
            "#[macro_export]\nmacro_rules! m { () => {} }\n",
        ] {
            assert_eq!(
                check_facade_source("lib.rs", &format!("{good}{bad}")).len(),
                1,
                "{bad}"
            );
        }
    }
}
