//! `cargo xtask bench`: runs the bench crate, with or without the crates that it compares with.

use crate::Result;
use crate::cmd::Cmd;
use crate::metadata::Workspace;
use std::path::{Path, PathBuf};

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

/// The programs of the allocators, ours first. Each has the feature that enables its rival.
const PROGRAMS: [(&str, Option<&str>); 6] = [
    ("alloc-rast", None),
    ("alloc-hardened", Some("hardened")),
    ("alloc-system", None),
    ("alloc-mimalloc", Some("mimalloc")),
    ("alloc-snmalloc", Some("snmalloc")),
    ("alloc-jemalloc", Some("jemalloc")),
];

/// The cfg that rivals need besides their features, so that no other command builds them.
const RIVALS: &str = "--cfg rast_rivals";
/// Flags of the allocators' programs. Loops begin at multiples of 64 bytes, so that the loops of a
/// workload are aligned alike in each program. A loop of pushes that crossed such a multiple took
/// twice as long.
const APART: &str = "--cfg rast_rivals -Cllvm-args=-align-loops=64";

/// Runs the bench crate.
fn run(args: &[String], rivals: bool) -> Result {
    let target = Workspace::load(crate::tree::root())?.target_dir;
    // Figures are measured with the bench profile.
    let (profile, target) = if rivals {
        ("bench", target.join("rivals"))
    } else if args.iter().any(|arg| arg == "--smoke") {
        ("smoke", target)
    } else {
        ("release", target)
    };
    let mut cmd = Cmd::cargo()
        .args(["run", "--profile", profile, "-p", "rast-benches"])
        .env("CARGO_TARGET_DIR", &target);
    let mut features = Vec::new();
    if args.iter().any(|arg| arg == "executor") {
        features.push("own-alloc");
    }
    if rivals {
        features.push("rivals");
        cmd = cmd.rustflags(RIVALS);
    }
    if !features.is_empty() {
        cmd = cmd.args(["--features", &features.join(",")]);
    }
    cmd = cmd.arg("--").args(args);
    if needs_programs(args) {
        let profile = if rivals { "apart" } else { profile };
        cmd = cmd.arg("--programs").arg(build_programs(&target, profile)?);
    }
    cmd.run()
}

/// Whether the layer of the allocator is among those that run.
fn needs_programs(args: &[String]) -> bool {
    let stalls = args.iter().any(|arg| arg == "--stall");
    let mut values = false;
    let layer = args.iter().find(|arg| {
        let value = std::mem::replace(
            &mut values,
            matches!(arg.as_str(), "--json" | "--rounds" | "--only"),
        );
        !value && !arg.starts_with('-')
    });
    !stalls && layer.is_none_or(|layer| layer == "alloc")
}

/// Builds the programs of the allocators; returns where they are.
///
/// They are built without link-time optimisation, which would inline only the allocators that are
/// written in Rust. A rival that this machine cannot build is left out, with a message.
fn build_programs(target: &Path, profile: &str) -> Result<PathBuf> {
    let rivals = profile == "apart";
    let directory = target.join(profile);
    for (program, feature) in PROGRAMS {
        let file = directory.join(format!("{program}{}", std::env::consts::EXE_SUFFIX));
        let ours = program == "alloc-rast";
        if !rivals && !ours {
            continue;
        }
        let build = format!("build --profile {profile} -p rast-benches --bin {program}");
        let mut cmd = Cmd::cargo().words(&build).env("CARGO_TARGET_DIR", target);
        if rivals {
            cmd = cmd.rustflags(APART);
        }
        if let Some(feature) = feature {
            cmd = cmd.args(["--features", feature]);
        }
        match cmd.run() {
            Err(wrong) if feature.is_some() => {
                println!("bench: {program} is not built: {wrong}");
                // Otherwise a program of an earlier build would be measured.
                if file.exists() {
                    std::fs::remove_file(&file).map_err(|error| error.to_string())?;
                }
            }
            result => result?,
        }
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::needs_programs;

    fn needs(line: &str) -> bool {
        let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        needs_programs(&args)
    }

    #[test]
    fn the_allocators_programs_are_built_when_they_run() {
        assert!(needs(""));
        assert!(needs("--smoke"));
        assert!(needs("--json file alloc"));
        assert!(!needs("--only alloc queue"));
        assert!(!needs("queue --stall"));
    }
}
