//! Starts an example as a process and reads what it prints.
//!
//! `cargo test` also builds the examples, but not if it builds only one test program (`--test kv`).
//! So a missing example is built here. An existing example is not rebuilt.
// Each test program uses a part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Far more than anything here takes: a guard against hanging, not a measurement.
pub(crate) const GUARD: Duration = Duration::from_secs(120);

/// An example that runs.
pub(crate) struct Program {
    pub(crate) child: Child,
    lines: Receiver<String>,
    /// The address that its first line names.
    pub(crate) address: SocketAddr,
}

fn path(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/test");
    let program = profile
        .join("examples")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !program.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "-p", "rast", "--all-features", "--example", name]);
        build.arg("--target-dir");
        build.arg(profile.parent().expect("a target directory"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let status = build.status().expect("cargo runs");
        assert!(
            status.success() && program.exists(),
            "the example was not built"
        );
    }
    program
}

/// An example with arguments, not started.
pub(crate) fn command(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(path(name));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Program {
    /// Starts an example whose first line names an address.
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        let mut command = command(name, arguments);
        let mut child = command.stderr(Stdio::inherit()).spawn().expect("it starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let first = lines.recv_timeout(GUARD).expect("a first line");
        let address = first.split_whitespace().find_map(|word| word.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in: {first}"));
        Self {
            child,
            lines,
            address,
        }
    }

    /// Waits for the end; returns its status and what it printed since the first line.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(GUARD) {
                Ok(line) => lines.push(line),
                // The output ends with the process.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the program does not end"),
            }
        }
        let status = self.child.wait().expect("a process to wait for");
        (status, lines.join("\n"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
