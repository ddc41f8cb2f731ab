//! `cargo xtask package`: every crate builds and tests from what its package holds.
//!
//! The packages are made, unpacked side by side under the target directory, and each sibling is patched to its unpacked form.
//! A file that a manifest leaves out, or a path that leads out of the crate, shows here.

use crate::Result;
use crate::cmd::Cmd;
use crate::metadata::{Package, Workspace};
use std::fmt::Write as _;
use std::path::Path;

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
    run().map(|()| true)
}

/// Makes, unpacks, builds and tests every package.
pub(crate) fn run() -> Result {
    let root = crate::tree::root();
    let workspace = Workspace::load(root)?;
    let crates: Vec<&Package> = workspace.crates().filter(|krate| krate.publish).collect();
    let mut cmd = Cmd::cargo().args(["package", "--no-verify", "--allow-dirty", "--quiet"]);
    for krate in &crates {
        cmd = cmd.args(["-p", &krate.name]);
    }
    cmd.run()?;

    let check = workspace.target_dir.join("package-check");
    let mut manifest = String::from(
        "# Written by `cargo xtask package`.\n[workspace]\nresolver = \"3\"\nmembers = [\n",
    );
    let mut patch = String::from("]\n\n[patch.crates-io]\n");
    for krate in &crates {
        let name = format!("{}-{}", krate.name, krate.version);
        let dir = check.join(&name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        std::fs::create_dir_all(&check).map_err(|error| format!("{}: {error}", check.display()))?;
        let archive = workspace
            .target_dir
            .join("package")
            .join(format!("{name}.crate"));
        Cmd::new("tar")
            .arg("-xzf")
            .arg(&archive)
            .arg("-C")
            .arg(&check)
            .run()?;
        holds(&dir)?;
        let _ = writeln!(manifest, "    \"{name}\",");
        let _ = writeln!(patch, "{} = {{ path = \"{name}\" }}", krate.name);
    }
    let write = |name: &str, text: &[u8]| {
        std::fs::write(check.join(name), text).map_err(|error| format!("{name}: {error}"))
    };
    write("Cargo.toml", format!("{manifest}{patch}").as_bytes())?;
    // The same versions of outside crates as in the workspace.
    write(
        "Cargo.lock",
        crate::tree::read(root, "Cargo.lock")?.as_bytes(),
    )?;

    let mut errors = Vec::new();
    for krate in &crates {
        let test = Cmd::cargo()
            .dir(&check)
            .args(["test", "--quiet", "-p", &krate.name])
            .env("CARGO_TARGET_DIR", check.join("target"))
            .run();
        if let Err(error) = test {
            errors.push(format!("{}: {error}", krate.name));
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("; "))
    }
}

fn holds(dir: &Path) -> Result {
    for name in HOLDS {
        let path = dir.join(name);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        // A checkout without symbolic links leaves the link's target as the text.
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
