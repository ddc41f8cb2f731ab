//! Builds of the workspace under a private cfg that no outside crate looks at.
//!
//! If the cfg were in `RUSTFLAGS`, Cargo would build each outside crate anew for each cfg. So the
//! cfg is in a compiler wrapper that Cargo uses only for the members of the workspace. Then Cargo
//! builds the outside crates once for all cfgs, and the members once for each.

use crate::Result;
use crate::cmd::Cmd;
use crate::metadata::Workspace;
use std::path::{Path, PathBuf};

/// `cargo LINE` with `--cfg CFG` for the members of the workspace.
pub(crate) fn cargo(cfg: &str, line: &str) -> Result<Cmd> {
    let target = Workspace::load(crate::tree::root())?
        .target_dir
        .join("variants");
    let command = Cmd::cargo()
        .words(line)
        .env("CARGO_TARGET_DIR", &target)
        .without_lines();
    if !cfg!(unix) {
        return Ok(command.rustflags(&format!("--cfg {cfg}")));
    }
    let compiler = compiler(&target, cfg).map_err(|error| format!("{cfg}: {error}"))?;
    Ok(command.env("RUSTC_WORKSPACE_WRAPPER", compiler))
}

/// A compiler wrapper: it runs the compiler that its arguments name, with the cfg added. Cargo
/// tells the builds of different wrappers apart by their paths.
fn compiler(target: &Path, cfg: &str) -> std::io::Result<PathBuf> {
    let path = target.join("compilers").join(cfg);
    let text = format!("#!/bin/sh\nexec \"$@\" --cfg {cfg}\n");
    if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
        std::fs::create_dir_all(target.join("compilers"))?;
        std::fs::write(&path, text)?;
        make_executable(&path)?;
    }
    Ok(path)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_gets_the_cfg() {
        let target = std::env::temp_dir().join(format!("rast-variant-{}", std::process::id()));
        for _ in 0..2 {
            let compiler = compiler(&target, "rast_x").unwrap();
            // A shell reads the file instead of executing it. If the file was just written, the
            // child of another test may still have it open for writing, and then it cannot be
            // executed.
            let command = Cmd::new("sh").quiet().arg(&compiler);
            let output = command.args(["echo", "a b", "c"]).read();
            assert_eq!(output.unwrap().text, "a b c --cfg rast_x\n");
        }
        std::fs::remove_dir_all(&target).unwrap();
    }
}
