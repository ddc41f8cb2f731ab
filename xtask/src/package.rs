//! `cargo xtask package`: every crate builds and passes its tests from its package alone.
//!
//! The command makes the packages and unpacks them side by side under the target directory. Each
//! package is patched to use the other unpacked ones. So a build fails here if a manifest leaves
//! out a necessary file, or if a path leads out of the crate.
//!
//! All files in an archive have the same old modification time. With this time Cargo would not
//! rebuild a changed file. So the command writes only files that differ from the last run, with the
//! present time.

use crate::Result;
use crate::cmd::Cmd;
use crate::count::Tests;
use crate::metadata::{Package, Workspace};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What every package must hold besides its sources.
const HOLDS: [&str; 5] = [
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "README.md",
    "CHANGELOG.md",
    "Cargo.toml",
];

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    crate::no_more(args)?;
    check()?;
    test(true).map(|_| true)
}

/// Makes, unpacks and compiles every package, each alone, as the step `features` does with other
/// features. Nothing is linked.
pub(crate) fn check() -> Result {
    let (workspace, tree) = unpack()?;
    let mut errors = Vec::new();
    for krate in workspace.crates().filter(|krate| krate.publish) {
        // It uses the directory of the step `features`, which has checked the outside crates there.
        // Cargo tells the crates of the packages from those of the tree by their paths from the
        // root.
        let check = cargo("check --all-targets", &tree).args(["-p", &krate.name]);
        let check = check.env("CARGO_TARGET_DIR", workspace.target_dir.join("checks"));
        errors.extend(check.without_lines().run().err());
    }
    crate::no_errors(&errors)
}

/// Makes and unpacks every package; runs all tests if `full`, otherwise only the doc tests.
///
/// The step `global` runs other tests of the packages.
pub(crate) fn test(full: bool) -> Result<Tests> {
    let (workspace, tree) = unpack()?;
    if full {
        // The examples have the same names as those of the workspace, so they need another
        // directory.
        let target = workspace.target_dir.join("package-check/target");
        let tests = cargo("test --no-fail-fast --workspace", &tree).env("CARGO_TARGET_DIR", target);
        return tests.without_lines().count();
    }
    // It uses the directory of the other tests, which has builds of the outside crates.
    let tests = cargo("test --no-fail-fast --workspace --doc", &tree);
    tests.env("CARGO_TARGET_DIR", workspace.target_dir).count()
}

/// `cargo LINE` among the unpacked packages.
fn cargo(line: &str, tree: &Path) -> Cmd {
    Cmd::cargo().dir(tree).words(line).arg("--quiet")
}

/// Makes and unpacks every package; returns the root of the workspace that they form.
pub(crate) fn unpack() -> Result<(Workspace, PathBuf)> {
    let root = crate::tree::root();
    let workspace = Workspace::load(root)?;
    let crates: Vec<&Package> = workspace.crates().filter(|krate| krate.publish).collect();
    let mut cmd = Cmd::cargo().args(["package", "--no-verify", "--allow-dirty", "--quiet"]);
    for krate in &crates {
        cmd = cmd.args(["-p", &krate.name]);
    }
    cmd.run()?;

    let check = workspace.target_dir.join("package-check");
    let (unpacked, tree) = (check.join("unpacked"), check.join("tree"));
    let at = |dir: &Path, error: std::io::Error| format!("{}: {error}", dir.display());
    if unpacked.exists() {
        std::fs::remove_dir_all(&unpacked).map_err(|error| at(&unpacked, error))?;
    }
    std::fs::create_dir_all(&unpacked).map_err(|error| at(&unpacked, error))?;
    let mut manifest = String::from(
        "# Written by `cargo xtask package`.\n[workspace]\nresolver = \"3\"\nmembers = [\n",
    );
    let mut patch = String::from("]\n\n[patch.crates-io]\n");
    for krate in &crates {
        let name = format!("{}-{}", krate.name, krate.version);
        let archive = workspace
            .target_dir
            .join("package")
            .join(format!("{name}.crate"));
        let tar = Cmd::new("tar").arg("-xzf").arg(&archive);
        tar.arg("-C").arg(&unpacked).run()?;
        holds(&unpacked.join(&name))?;
        crate::tree::mirror(&unpacked.join(&name), &tree.join(&name), &BTreeMap::new())?;
        let _ = writeln!(manifest, "    \"{name}\",");
        let _ = writeln!(patch, "{} = {{ path = \"{name}\" }}", krate.name);
    }
    let write = |name: &str, text: &[u8]| {
        std::fs::write(tree.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    write("Cargo.toml", format!("{manifest}{patch}").as_bytes())?;
    // The same versions of outside crates as in the workspace.
    write(
        "Cargo.lock",
        crate::tree::read(root, "Cargo.lock")?.as_bytes(),
    )?;

    Ok((workspace, tree))
}

fn holds(dir: &Path) -> Result {
    for name in HOLDS {
        let path = dir.join(name);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        // In a checkout without symbolic links, the file has the target of the link as its text.
        if name.starts_with("LICENSE") && text.len() < 200 {
            return Err(format!(
                "{} holds no licence but `{}`; check out with symbolic links",
                path.display(),
                text.trim()
            ));
        }
    }
    Ok(())
}
