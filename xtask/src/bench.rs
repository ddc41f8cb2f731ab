//! `cargo xtask bench`: hands its arguments to the bench crate, with the rivals or without.

use crate::Result;
use crate::cmd::Cmd;
use crate::metadata::Workspace;

/// The command.
pub(crate) fn command(args: &[String]) -> Result<bool> {
    let mut passed: Vec<String> = Vec::new();
    let (mut smoke, mut rivals) = (false, false);
    let mut args = args.iter();
    let mut layer = false;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--smoke" => {
                smoke = true;
                passed.push(arg.clone());
            }
            "--stall" => passed.push(arg.clone()),
            "--rivals" => rivals = true,
            "--json" | "--rounds" | "--only" => {
                let value = args.next().ok_or(format!("{arg} needs a value"))?;
                if arg == "--rounds" && !value.parse().is_ok_and(|n: u32| n > 0) {
                    return Err(format!(
                        "--rounds needs a number from one up, not `{value}`"
                    ));
                }
                passed.extend([arg.clone(), value.clone()]);
            }
            word if !word.starts_with('-') && !layer => {
                layer = true;
                passed.push(arg.clone());
            }
            other => crate::no_more(&[other.to_string()])?,
        }
    }
    run(&passed, rivals || !smoke).map(|()| true)
}

/// Runs the bench crate.
pub(crate) fn run(args: &[String], rivals: bool) -> Result {
    // Figures are measured with the bench profile; a smoke proves only that the benches run.
    let profile = if rivals { "bench" } else { "release" };
    let mut cmd = Cmd::cargo().args(["run", "--profile", profile, "-p", "rast-benches"]);
    if rivals {
        // The rivals stand behind a private cfg and a feature, so that nothing else ever builds them.
        let workspace = Workspace::load(crate::tree::root())?;
        cmd = cmd
            .args(["--features", "rivals"])
            .rustflags("--cfg rast_rivals")
            .env("CARGO_TARGET_DIR", workspace.target_dir.join("rivals"));
    }
    cmd.arg("--").args(args).run()
}
