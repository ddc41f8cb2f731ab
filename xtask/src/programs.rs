//! Test programs that are built at once and then run side by side.
//!
//! Models run on one core each, so as many programs run at a time as there are cores.

use crate::Result;
use crate::cmd::Cmd;
use crate::watch;
use cargo_metadata::Message;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A built test.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The package that it belongs to.
    pub(crate) krate: String,
    /// The directory of the package, in which Cargo runs its tests.
    dir: PathBuf,
    pub(crate) path: PathBuf,
}

/// Builds the tests that `cargo`, a `cargo test` without arguments for the runner, names.
pub(crate) fn build(cargo: Cmd) -> Result<Vec<Program>> {
    let output = cargo
        .args(["--no-run", "--message-format=json-render-diagnostics"])
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
            programs.push(Program {
                krate: dir.file_name().unwrap_or_default().to_string(),
                dir: dir.into(),
                path: path.into(),
            });
        }
    }
    Ok(programs)
}

/// What a program came to.
pub(crate) struct Ran {
    pub(crate) krate: String,
    pub(crate) success: bool,
    /// Both streams.
    pub(crate) text: String,
}

/// Runs every program with `args`, and shows what each printed when it has ended.
pub(crate) fn run_all(programs: &[Program], env: &[(&str, String)], args: &[&str]) -> Vec<Ran> {
    each(programs, |program| {
        let mut command = Command::new(&program.path);
        command.current_dir(&program.dir).args(args);
        command.envs(env.iter().map(|(key, value)| (key, value)));
        let ran = match watch::run(&mut command, watch::SILENCE, watch::Show::AtTheEnd) {
            Ok(Ok((status, text))) => (status.success(), text),
            Ok(Err(tests)) => (false, format!("ended, as it printed nothing{tests}\n")),
            Err(error) => (false, format!("{}: {error}\n", name(&program.path))),
        };
        Ran {
            krate: program.krate.clone(),
            success: ran.0,
            text: ran.1,
        }
    })
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Calls `run` for each of `items`, as many at once as there are cores; the results are in their
/// order.
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
