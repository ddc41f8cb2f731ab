//! The step `clients` of `verify`: public client libraries connect to the kv example with their
//! default options.
//!
//! The step builds the example and starts it once; the clients are in `tests/clients`. Libraries
//! that are not crates are installed below the target directory, in the versions that the files
//! there pin.

use crate::cmd::Cmd;
use crate::count::Tests;
use crate::metadata::Workspace;
use crate::outside::{Server, answers};
use crate::verify::{self, Outcome};
use crate::{Result, tree};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Runs the clients that this machine can install.
pub(crate) fn run() -> Result<Outcome> {
    let target = Workspace::load(tree::root())?.target_dir;
    let built = verify::smoke_programs()?;
    Cmd::cargo().words(verify::BUILD).run()?;
    let mut server = start(&built)?;
    let port = server.1.clone();

    let suffix = std::env::consts::EXE_SUFFIX;
    Cmd::new(target.join("debug").join(format!("clients{suffix}")))
        .arg(&port)
        .run()?;
    let mut missing = Vec::new();
    for (name, install) in [
        ("redis-py", python as fn(&Path) -> Result<Ready>),
        ("node-redis and ioredis", node),
    ] {
        match install(&target.join("clients"))? {
            Ready::Run(cmd) => cmd.arg(&port).run()?,
            Ready::Missing(reason) => missing.push(format!("{name}: {reason}")),
        }
    }
    server.0.stop()?;
    if missing.is_empty() {
        Ok(Outcome::Passed(Tests::default()))
    } else {
        Ok(Outcome::NotRun(missing.join("; ")))
    }
}

/// The command to run, or why it cannot run.
enum Ready {
    Run(Box<Cmd>),
    Missing(String),
}

/// Starts kv, which is among the programs in `built`, on a free port. The first line that it prints
/// has the port.
fn start(built: &Path) -> Result<(Server, String)> {
    let mut child = verify::example(built, "kv")
        .args(["--port", "0", "--workers", "2"])
        .into_inner()
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("kv: {error}"))?;
    let stdout = child.stdout.take();
    let server = Server(child);
    let mut line = String::new();
    if let Some(stdout) = stdout {
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(|error| format!("kv: {error}"))?;
    }
    let port = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("127.0.0.1:"));
    let port = port.ok_or_else(|| format!("kv said no address: {line}"))?;
    Ok((server, port.to_string()))
}

/// Installs redis-py in an environment of its own.
fn python(target: &Path) -> Result<Ready> {
    let python = ["python3", "python"]
        .into_iter()
        .find(|name| answers(Cmd::new(name).arg("--version")));
    let Some(python) = python else {
        return Ok(Ready::Missing("python3 is not installed".into()));
    };
    let wanted = tree::read(tree::root(), "tests/clients/requirements.txt")?;
    let home = target.join("python");
    let scripts = if cfg!(windows) { "Scripts" } else { "bin" };
    let inner = home.join(scripts).join("python");
    if !is_installed(&home, &wanted) {
        let made = Cmd::new(python).args(["-m", "venv", "--clear"]).arg(&home);
        if made.run().is_err() {
            return Ok(Ready::Missing("python3 makes no environment".into()));
        }
        let file = tree::root().join("tests/clients/requirements.txt");
        let pip = Cmd::new(&inner).args(["-m", "pip", "install", "-q", "-r"]);
        if pip.arg(file).run().is_err() {
            return Ok(Ready::Missing(format!(
                "pip does not install {}",
                wanted.trim()
            )));
        }
        note_installed(&home, &wanted)?;
    }
    let program = tree::root().join("tests/clients/redis_py.py");
    Ok(Ready::Run(Box::new(Cmd::new(inner).arg(program))))
}

/// Installs node-redis and ioredis in a directory of their own.
fn node(target: &Path) -> Result<Ready> {
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    for tool in ["node", npm] {
        if !answers(Cmd::new(tool).arg("--version")) {
            return Ok(Ready::Missing(format!("{tool} is not installed")));
        }
    }
    let wanted = tree::read(tree::root(), "tests/clients/package.json")?;
    let home = target.join("node");
    if !is_installed(&home, &wanted) {
        let at = |error: std::io::Error| format!("{}: {error}", home.display());
        std::fs::create_dir_all(&home).map_err(at)?;
        std::fs::write(home.join("package.json"), &wanted).map_err(at)?;
        let install = Cmd::new(npm).args(["install", "--no-package-lock", "--silent"]);
        if install.dir(&home).run().is_err() {
            return Ok(Ready::Missing("npm does not install them".into()));
        }
        note_installed(&home, &wanted)?;
    }
    let program = tree::root().join("tests/clients/node.mjs");
    let cmd = Cmd::new("node").dir(&home).arg(program);
    Ok(Ready::Run(Box::new(cmd)))
}

/// The file that holds what was installed.
fn stamp(home: &Path) -> PathBuf {
    home.join("installed")
}

fn is_installed(home: &Path, wanted: &str) -> bool {
    std::fs::read_to_string(stamp(home)).is_ok_and(|installed| installed == wanted)
}

fn note_installed(home: &Path, wanted: &str) -> Result {
    let path = stamp(home);
    std::fs::write(&path, wanted).map_err(|error| format!("{}: {error}", path.display()))
}
