//! The skeleton of crates and pages: required files, manifests, links, and sources of the lock
//! file.

use super::{File, find};
use std::path::Path;

/// The page whose code map must name only files that exist.
const MAPS: [&str; 3] = ["docs/architecture.md", "README.md", "CONTRIBUTING.md"];

/// Files that every crate has, or many crates. Pages name them by their paths in the crate.
const OF_EACH_CRATE: [&str; 5] = [
    "tests/api.rs",
    "tests/it/main.rs",
    "tests/model.rs",
    "tests/loom.rs",
    "tests/shuttle.rs",
];

/// How cargo writes the public registry into the lock file, without its host.
const REGISTRY: (&str, &str) = ("registry+", "/crates.io-index");

pub(super) fn check(files: &[File], root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files {
        if file.path.ends_with("Cargo.toml") && file.path != "Cargo.toml" {
            faults.extend(manifest(file));
        }
        if MAPS.contains(&file.path.as_str()) {
            faults.extend(mentions(file, root));
        }
    }
    faults.extend(skeletons(files));
    if let Some(lock) = find(files, "Cargo.lock") {
        faults.extend(lock_sources(lock));
    }
    if let Some(config) = find(files, ".cargo/config.toml") {
        faults.extend(cargo_config(config));
    }
    faults
}

/// Every crate has the same files.
fn skeletons(files: &[File]) -> Vec<String> {
    let mut faults = Vec::new();
    let crates: Vec<&str> = files
        .iter()
        .filter_map(|f| f.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .filter(|name| !name.contains('/'))
        .collect();
    for name in crates {
        let mut wanted = vec![
            "README.md",
            "CHANGELOG.md",
            "src/lib.rs",
            "LICENSE-MIT",
            "LICENSE-APACHE",
        ];
        // The crate that uses the macros tests them.
        if name != "rast" && !name.ends_with("-macros") {
            wanted.extend(["tests/api.rs", "tests/model.rs", "tests/loom.rs"]);
        }
        for file in wanted {
            if find(files, &format!("crates/{name}/{file}")).is_none() {
                faults.push(format!("crates/{name}: no {file}; every crate has one"));
            }
        }
    }
    faults
}

/// The fields and lints of a member's manifest.
fn manifest(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    let mut section = "";
    let mut has = |wanted_section: &str, wanted: &[&str]| {
        section = "";
        file.text.lines().any(|line| {
            if line.starts_with('[') {
                section = line.trim();
            }
            section == wanted_section && wanted.iter().any(|w| line.starts_with(w))
        })
    };
    if !has("[lints]", &["workspace = true"]) {
        faults.push(format!("{}: no `[lints] workspace = true`", file.path));
    }
    let mut fields = vec![("license", ["license = ", "license.workspace = true"])];
    if file.path.starts_with("crates/") {
        fields.push((
            "description",
            ["description = ", "description.workspace = true"],
        ));
        fields.push(("readme", ["readme = ", "readme.workspace = true"]));
        fields.push((
            "rust-version",
            ["rust-version = ", "rust-version.workspace = true"],
        ));
    }
    for (field, forms) in fields {
        if !has("[package]", &forms) {
            faults.push(format!("{}: no `{field}` in [package]", file.path));
        }
    }
    faults
}

/// Packages come from the one registry.
fn lock_sources(lock: &str) -> Vec<String> {
    lock.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let source = line.strip_prefix("source = ")?.trim_matches('"');
            let public = source.starts_with(REGISTRY.0) && source.ends_with(REGISTRY.1);
            (!public).then(|| {
                let line = index + 1;
                format!("Cargo.lock:{line}: `{source}` is not the public registry")
            })
        })
        .collect()
}

/// The committed configuration sets no registry, proxy or path of one machine.
fn cargo_config(config: &str) -> Vec<String> {
    let words = [
        "[source",
        "[registr",
        "[http",
        "[net",
        "[build]",
        "rustflags",
        "target-dir",
        "proxy",
    ];
    config
        .lines()
        .enumerate()
        .filter(|(_, line)| {
            !line.trim_start().starts_with('#') && words.iter().any(|word| line.contains(word))
        })
        .map(|(index, line)| {
            format!(
                ".cargo/config.toml:{}: `{line}` belongs to a machine, not to the project",
                index + 1
            )
        })
        .collect()
}

/// Links to files lead to existing files.
pub(super) fn links(file: &File, root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let dir = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    for (number, line) in prose(&file.text) {
        for target in link_targets(line) {
            let path = target.split('#').next().unwrap_or("");
            let outside =
                target.contains("://") || target.starts_with("mailto:") || path.is_empty();
            if !outside && !root.join(dir).join(path).exists() {
                faults.push(format!(
                    "{}:{number}: the link to `{path}` leads nowhere",
                    file.path
                ));
            }
        }
    }
    faults
}

/// Paths in back-ticks that start at the root exist.
fn mentions(file: &File, root: &Path) -> Vec<String> {
    let tops = [
        "crates/", "docs/", "xtask/", "benches/", "tests/", ".ci/", ".cargo/", ".github/",
    ];
    let mut faults = Vec::new();
    for (number, line) in prose(&file.text) {
        for word in line.split('`').skip(1).step_by(2) {
            let is_path = tops.iter().any(|top| word.starts_with(top))
                && !word.contains(['<', '*', '{', ' ', ',']);
            if is_path && !OF_EACH_CRATE.contains(&word) && !root.join(word).exists() {
                faults.push(format!("{}:{number}: `{word}` does not stand", file.path));
            }
        }
    }
    faults
}

/// The lines outside of code fences, counted from one.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

fn link_targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for (at, _) in line.match_indices("](") {
        let rest = &line[at + 2..];
        // Inside back-ticks this is no link.
        if line[..at].matches('`').count() % 2 == 1 {
            continue;
        }
        if let Some(end) = rest.find(')') {
            targets.push(rest[..end].split(' ').next().unwrap_or(""));
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn manifests() {
        let good = "[package]\nname = \"a\"\ndescription = \"b\"\nlicense.workspace = true\nreadme = \"README.md\"\nrust-version.workspace = true\n\n[lints]\nworkspace = true\n";
        assert!(manifest(&file("crates/a/Cargo.toml", good)).is_empty());
        for gone in [
            "description = \"b\"\n",
            "license.workspace = true\n",
            "[lints]\n",
            "readme = \"README.md\"\n",
            "rust-version.workspace = true\n",
        ] {
            let found = manifest(&file("crates/a/Cargo.toml", &good.replace(gone, "")));
            assert_eq!(found.len(), 1, "{gone}: {found:?}");
        }
    }

    #[test]
    fn skeleton() {
        let all = [
            "Cargo.toml",
            "README.md",
            "CHANGELOG.md",
            "src/lib.rs",
            "LICENSE-MIT",
            "LICENSE-APACHE",
            "tests/api.rs",
            "tests/model.rs",
            "tests/loom.rs",
        ];
        let of = |name: &str, parts: &[&str]| -> Vec<File> {
            parts
                .iter()
                .map(|part| file(&format!("crates/{name}/{part}"), ""))
                .collect()
        };
        assert!(skeletons(&of("rast-a", &all)).is_empty());
        assert!(skeletons(&of("rast", &all[..6])).is_empty());
        assert_eq!(skeletons(&of("rast-a", &all[..8])).len(), 1);
        assert_eq!(skeletons(&of("rast", &all[..5])).len(), 1);
    }

    #[test]
    fn sources_of_the_lock_file() {
        let public = format!(
            "source = \"{}https://example.org{}\"\n",
            REGISTRY.0, REGISTRY.1
        );
        assert!(lock_sources(&public).is_empty());
        assert_eq!(
            lock_sources("a\nsource = \"git+https://example.org/x\"\n").len(),
            1
        );
    }

    #[test]
    fn configuration() {
        assert!(cargo_config("# a proxy is yours\n[alias]\nxtask = \"run\"\n").is_empty());
        assert_eq!(cargo_config("[source.crates-io]\n").len(), 1);
        assert_eq!(cargo_config("[build]\nrustflags = []\n").len(), 2);
    }

    #[test]
    fn links_and_mentions() {
        let root = crate::tree::root();
        let good = "[a](tree.rs) [b](https://example.org) [c](#top) [d](../Cargo.toml#x) `[e](f)`\n```\n[g](h)\n```\n";
        assert!(links(&file("xtask/src/a.md", good), root).is_empty());
        assert_eq!(
            links(&file("xtask/src/a.md", "[a](gone.rs)\n"), root).len(),
            1
        );
        assert!(
            mentions(
                &file(
                    "README.md",
                    "`xtask/src/tree.rs` `tests/loom.rs` `crates/<name>/x` `docs/*.md`\n"
                ),
                root
            )
            .is_empty()
        );
        assert_eq!(
            mentions(&file("README.md", "see `xtask/src/gone.rs`\n"), root).len(),
            1
        );
    }
}
