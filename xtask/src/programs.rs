//! Test programs that are built by one command and then run side by side.
//!
//! A program runs one test at a time, and as many programs run at a time as there are cores. Most
//! tests use one core; more tests at a time would only delay each other.

use crate::Result;
use crate::cmd::Cmd;
use crate::count::Tests;
use crate::watch::{self, Show};
use cargo_metadata::Message;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A built test.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The package that it belongs to.
    pub(crate) krate: String,
    /// The directory of the package, in which Cargo runs its tests.
    dir: PathBuf,
    pub(crate) path: PathBuf,
    /// The file that it was built from, from the directory of the package.
    source: String,
}

/// Runs `cargo`, a `cargo build` or `cargo test --no-run`; returns the test programs among what it
/// built.
pub(crate) fn build(cargo: Cmd) -> Result<Vec<Program>> {
    let output = cargo
        .arg("--message-format=json-render-diagnostics")
        .read()?;
    if !output.success {
        return Err("the tests do not build".into());
    }
    let mut programs = Vec::new();
    for message in Message::parse_stream(output.text.as_bytes()) {
        let message = message.map_err(|error| error.to_string())?;
        if let Message::CompilerArtifact(artifact) = message
            && artifact.profile.test
            && let Some(path) = artifact.executable
        {
            let dir = artifact.manifest_path.parent();
            let dir = dir.ok_or("a manifest without a directory")?;
            let source = artifact.target.src_path;
            programs.push(Program {
                krate: dir.file_name().unwrap_or_default().to_string(),
                source: source.strip_prefix(dir).unwrap_or(&source).to_string(),
                dir: dir.into(),
                path: path.into(),
            });
        }
    }
    Ok(programs)
}

/// Builds the test programs of each of `commands`, as [`build`] does, and runs all of them, even
/// after one failed.
///
/// The error names the programs that failed. If no test passed, this is an error too.
pub(crate) fn test(
    commands: impl IntoIterator<Item = Cmd>,
    env: &[(&str, String)],
    args: &[&str],
) -> Result<Tests> {
    let mut errors = Vec::new();
    let mut programs = Vec::new();
    for command in commands {
        match build(command) {
            Ok(built) => programs.extend(built),
            Err(error) => errors.push(error),
        }
    }
    sum(run_all(&programs, env, args), errors)
}

/// Adds up the tests of the programs that ran. The error has `errors` and the names of the programs
/// that failed. If no test passed, this is an error too.
pub(crate) fn sum(ran: Vec<Ran>, mut errors: Vec<String>) -> Result<Tests> {
    let mut sum = Tests::default();
    for ran in ran {
        sum += Tests::of(&ran.text);
        errors.extend(ran.fault);
    }
    crate::no_errors(&errors)?;
    sum.some()
}

/// The result of a program.
pub(crate) struct Ran {
    pub(crate) krate: String,
    /// Why it failed, if it did. If it was ended, this names the tests that hang.
    pub(crate) fault: Option<String>,
    /// Both streams.
    pub(crate) text: String,
}

/// Runs every program with `args`. When a program has ended, shows what it printed.
pub(crate) fn run_all(programs: &[Program], env: &[(&str, String)], args: &[&str]) -> Vec<Ran> {
    each(programs, |program| {
        let mut command = Command::new(&program.path);
        command.current_dir(&program.dir);
        command.arg("--test-threads=1").args(args);
        as_cargo_does(&mut command, program);
        command.envs(env.iter().map(|(key, value)| (key, value)));
        let title = format!("{} {}", program.krate, program.source);
        let heading = format!("\nRunning {title} ({})\n", name(&program.path));
        let begun = Instant::now();
        let (fault, text) = match watch::run(&mut command, watch::SILENCE, Show::AtTheEnd(&heading))
        {
            Ok(Ok((status, text))) => {
                let fault = (!status.success()).then(|| format!("failed ({status})"));
                (fault, text)
            }
            Ok(Err(tests)) => {
                let silence = watch::SILENCE.as_secs();
                let fault = format!("printed nothing for {silence} s and was ended{tests}");
                (Some(fault), String::new())
            }
            Err(error) => (Some(error.to_string()), String::new()),
        };
        if let Some(fault) = &fault {
            println!("error: {title} {fault}");
        }
        println!("{title}: {:.1} s", begun.elapsed().as_secs_f64());
        Ran {
            krate: program.krate.clone(),
            fault: fault.map(|fault| format!("{title} {fault}")),
            text,
        }
    })
}

/// Sets the variables that Cargo sets for a test. Otherwise the test would inherit those of xtask.
fn as_cargo_does(command: &mut Command, program: &Program) {
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("CARGO_PKG_") {
            command.env_remove(&key);
        }
    }
    command.env("CARGO_MANIFEST_DIR", &program.dir);
    command.env("CARGO_MANIFEST_PATH", program.dir.join("Cargo.toml"));
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Calls `run` for each of `items`, as many at a time as there are cores. The results are in the
/// order of the items.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return done;
            };
            done.push((at, run(item)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_has_its_result() {
        let items: Vec<usize> = (0..100).collect();
        let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
        assert_eq!(each(&items, |item| item * 2), doubled);
    }
}
