//! Steps of `verify` that need a tool which neither Cargo nor the pinned toolchain brings.
//!
//! If the tool is missing, only these steps may be reported as skipped, with the reason.

use crate::cmd::Cmd;
use crate::count::Tests;
use crate::metadata::Workspace;
use crate::verify::{self, Outcome};
use crate::{Result, programs, tree};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// What the checkers of undefined behaviour run: the unit tests, and the integration tests of a
/// crate that has unsafe code and no unit tests for it.
const CHECKED: [&str; 2] = [
    "--lib -p rast-primitive -p rast-alloc -p rast-queue",
    "-p rast-queue --test api",
];

/// Checks licences, sources and known vulnerabilities of the dependencies.
pub(crate) fn deny() -> Result<Outcome> {
    if !answers(Cmd::cargo().args(["deny", "--version"])) {
        return Ok(Outcome::NotRun("cargo-deny is not installed".into()));
    }
    Cmd::cargo()
        .args(["deny", "--all-features", "check"])
        .run()?;
    Ok(Outcome::Passed(Tests::default()))
}

/// Undefined behaviour that miri finds.
pub(crate) fn miri() -> Result<Outcome> {
    if !answers(Cmd::cargo_of("nightly").args(["miri", "--version"])) {
        return Ok(Outcome::NotRun(
            "no nightly toolchain with the component miri".into(),
        ));
    }
    let target = Workspace::load(tree::root())?.target_dir.join("miri");
    let mut sum = Tests::default();
    for tests in CHECKED {
        sum += Cmd::cargo_of("nightly")
            .args(["miri", "test"])
            .words(tests)
            .env("CARGO_TARGET_DIR", &target)
            .count()?;
    }
    Ok(Outcome::Passed(sum))
}

/// The crates and tests that the address sanitizer runs: the crates beneath the graph, which have
/// the unsafe code. For the allocator these include tests in which it takes its memory from the
/// system's allocator, so that the sanitizer sees its blocks.
const ADDRESSED: [&str; 2] = [
    "-p rast-primitive -p rast-alloc -p rast-queue -p rast-timers -p rast-conflate -p rast-sharder -p rast-scheduler --lib --test api --test model --test it",
    "-p rast-alloc --test exchange --test refusal --test loom",
];

/// Memory errors and leaks that the address sanitizer finds. It does not need a build of std with
/// the sanitizer.
pub(crate) fn address() -> Result<Outcome> {
    if let Err(reason) = nightly() {
        return Ok(Outcome::NotRun(reason));
    }
    let target = Workspace::load(tree::root())?.target_dir.join("sanitizers");
    let commands = ADDRESSED.map(|tests| {
        Cmd::cargo_of("nightly")
            .args(["test", "--no-run", "--target", SANITIZED])
            .words(tests)
            .rustflags("-Zsanitizer=address")
            .env("CARGO_TARGET_DIR", target.join("address"))
            .without_lines()
    });
    // Some tests request more memory than there is, and expect the null pointer that the system
    // returns.
    let options = ("ASAN_OPTIONS", "allocator_may_return_null=1".to_string());
    programs::test(commands, &[options], &[]).map(Outcome::Passed)
}

/// Data races that the thread sanitizer finds. It needs a std that is built with it.
pub(crate) fn threads() -> Result<Outcome> {
    let library = match nightly() {
        Ok(sysroot) => sysroot.join("lib/rustlib/src/rust/library"),
        Err(reason) => return Ok(Outcome::NotRun(reason)),
    };
    if !library.exists() {
        return Ok(Outcome::NotRun(
            "the nightly toolchain has no component rust-src".into(),
        ));
    }
    let target = Workspace::load(tree::root())?.target_dir.join("sanitizers");
    let mut sum = Tests::default();
    for tests in CHECKED {
        sum += Cmd::cargo_of("nightly")
            .args(["test", "-Zbuild-std", "--target", SANITIZED])
            .words(tests)
            .rustflags("-Zsanitizer=thread")
            .env("CARGO_TARGET_DIR", target.join("thread"))
            .count()?;
    }
    Ok(Outcome::Passed(sum))
}

/// The only target for which the sanitizers run.
const SANITIZED: &str = "x86_64-unknown-linux-gnu";

/// The directory of the nightly toolchain, or why the sanitizers cannot use it.
fn nightly() -> std::result::Result<PathBuf, String> {
    if !(cfg!(target_os = "linux") && cfg!(target_arch = "x86_64")) {
        return Err("the sanitizers are run on Linux x86-64 alone".into());
    }
    let sysroot = Cmd::new("rustup")
        .args(["run", "nightly", "rustc", "--print", "sysroot"])
        .quiet()
        .read();
    match sysroot {
        Ok(output) if output.success => Ok(PathBuf::from(output.text.trim())),
        _ => Err("no nightly toolchain".into()),
    }
}

/// A build for a target whose standard library may not be installed.
pub(crate) fn build_for(target: &'static str) -> Result<Outcome> {
    let dir = Cmd::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .quiet()
        .read();
    let installed = dir.is_ok_and(|o| o.success && std::path::Path::new(o.text.trim()).exists());
    if !installed {
        return Ok(Outcome::NotRun(format!(
            "the target is not installed: rustup target add {target}"
        )));
    }
    for krate in ["rast-primitive", "rast-queue", "rast-timers"] {
        let check = format!("check --no-default-features --target {target} -p {krate}");
        Cmd::cargo().words(&check).run()?;
    }
    Ok(Outcome::Passed(Tests::default()))
}

/// The replies that the script below must print, one line each.
const SCRIPT: [(&str, &str); 12] = [
    ("PING", "PONG"),
    ("SET greeting hello", "OK"),
    ("GET greeting", "hello"),
    ("APPEND greeting !", "6"),
    ("STRLEN greeting", "6"),
    ("INCRBY visits 41", "41"),
    ("INCR visits", "42"),
    ("EXISTS greeting visits nothing", "2"),
    ("DEL greeting", "1"),
    ("MSET one 1 two 2", "OK"),
    ("TYPE one", "string"),
    ("PERSIST one", "0"),
];

/// Tests the kv example with the tools of Redis.
pub(crate) fn redis_tools() -> Result<Outcome> {
    for tool in ["redis-benchmark", "redis-cli"] {
        if !answers(Cmd::new(tool).arg("--version")) {
            return Ok(Outcome::NotRun(format!(
                "{tool} is not installed (Debian package redis-tools)"
            )));
        }
    }
    let kv = verify::example(&verify::smoke_programs()?, "kv");
    let port = free_port()?;
    let mut server = Server::start(kv.args(["--port", &port, "--workers", "2"]), &port)?;

    let load = "-t ping,set,get,incr,mset -n 200000 -c 50 -P 16 -r 100000 -q";
    let output = Cmd::new("redis-benchmark")
        .args(["-p", &port])
        .words(load)
        .tee()?;
    if !output.success || output.text.to_lowercase().contains("error") {
        return Err("redis-benchmark met an error".into());
    }
    let replies = script(&port)?;
    let wanted: Vec<&str> = SCRIPT.iter().map(|(_, reply)| *reply).collect();
    if replies != wanted {
        return Err(format!(
            "redis-cli printed {replies:?}, expected {wanted:?}"
        ));
    }
    server.stop()?;
    Ok(Outcome::Passed(Tests::default()))
}

/// Pipes the script into redis-cli and returns what it printed.
fn script(port: &str) -> Result<Vec<String>> {
    let at = |error: std::io::Error| format!("redis-cli: {error}");
    let mut child = Cmd::new("redis-cli")
        .args(["-p", port])
        .into_inner()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(at)?;
    if let Some(mut stdin) = child.stdin.take() {
        for (line, _) in SCRIPT {
            writeln!(stdin, "{line}").map_err(at)?;
        }
    }
    let output = child.wait_with_output().map_err(at)?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_string)
        .collect())
}

/// A running example, ended when it is dropped.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    /// Starts it and waits until it accepts.
    fn start(cmd: Cmd, port: &str) -> Result<Server> {
        let child = cmd
            .into_inner()
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("kv: {error}"))?;
        let mut server = Server(child);
        let number: u16 = port.parse().map_err(|_| "no port".to_string())?;
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, number)).is_err() {
            if let Ok(Some(status)) = server.0.try_wait() {
                return Err(format!("kv ended before it accepted: {status}"));
            }
            if start.elapsed() > Duration::from_secs(20) {
                return Err("kv did not accept within 20 s".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Sends SIGTERM and expects exit status 0.
    pub(crate) fn stop(&mut self) -> Result {
        Cmd::new("kill")
            .args(["-TERM", &self.0.id().to_string()])
            .run()?;
        let start = Instant::now();
        loop {
            match self.0.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("kv ended with {status} after SIGTERM")),
                None if start.elapsed() > Duration::from_secs(20) => {
                    return Err("kv runs on 20 s after SIGTERM".into());
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<String> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    let port = listener
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    Ok(port.to_string())
}

/// Whether a tool is there and answers.
pub(crate) fn answers(cmd: Cmd) -> bool {
    cmd.quiet().read().is_ok_and(|output| output.success)
}
