//! Starts the `kv` example as a process and talks to it over sockets.
// Each test program uses a part of this.
#![allow(dead_code)]

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitStatus};
use std::time::Instant;

#[path = "../program/mod.rs"]
mod program;

pub(crate) use program::GUARD;
use program::Program;

/// A running `kv`.
pub(crate) struct Kv {
    program: Program,
    /// The connection that asks for figures, once one was asked for.
    asking: RefCell<Option<Raw>>,
    pub(crate) address: SocketAddr,
}

/// `kv` with arguments, not started.
pub(crate) fn command(arguments: &[&str]) -> Command {
    program::command("kv", arguments)
}

impl Kv {
    /// Starts `kv` on a free port, with two workers if the arguments do not say otherwise.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let first = ["--port", "0", "--workers", "2"];
        let program = Program::start("kv", &[&first, arguments].concat());
        let address = program.address;
        Self {
            program,
            asking: RefCell::new(None),
            address,
        }
    }

    /// The URL for the client crate.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.program.child.id()
    }

    /// A raw connection.
    pub(crate) fn connect(&self) -> Raw {
        Raw::new(self.address)
    }

    /// One figure of INFO.
    pub(crate) fn info(&self, name: &str) -> String {
        let mut asking = self.asking.borrow_mut();
        let raw = asking.get_or_insert_with(|| self.connect());
        raw.send(b"INFO\r\n");
        let text = raw.bulk();
        let prefix = format!("{name}:");
        let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
        value
            .unwrap_or_else(|| panic!("no {name} in:\n{text}"))
            .to_owned()
    }

    /// One figure of INFO as a number.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        let value = self.info(name);
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {value}"))
    }

    /// Sends a signal.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill")
            .args(["-s", name, &id])
            .status()
            .expect("kill runs");
        assert!(status.success(), "kill failed");
    }

    /// Waits for the end; returns its status and what it printed since the start.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        self.program.wait()
    }
}

/// A raw connection.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
}

impl Raw {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("kv accepts");
        stream.set_nodelay(true).expect("a socket option");
        stream
            .set_read_timeout(Some(GUARD))
            .expect("a socket option");
        stream
            .set_write_timeout(Some(GUARD))
            .expect("a socket option");
        Self { stream }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("kv reads");
    }

    /// Reads exactly the bytes that must come.
    pub(crate) fn expect(&mut self, expected: &str) {
        let mut found = vec![0; expected.len()];
        let mut at = 0;
        while at < found.len() {
            match self.stream.read(&mut found[at..]) {
                Ok(0) => break,
                Ok(count) => at += count,
                Err(error) => panic!("after {:?}: {error}", String::from_utf8_lossy(&found[..at])),
            }
            // Stop at the first difference, rather than wait for bytes that never come.
            if !expected.as_bytes().starts_with(&found[..at]) {
                break;
            }
        }
        assert_eq!(String::from_utf8_lossy(&found[..at]), expected);
    }

    /// Reads up to the end of the stream.
    pub(crate) fn rest(&mut self) -> String {
        let mut found = Vec::new();
        self.stream
            .read_to_end(&mut found)
            .expect("the stream ends in order");
        String::from_utf8_lossy(&found).into_owned()
    }

    /// Reads one line without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.stream.read_exact(&mut byte).expect("a line");
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Reads one bulk string.
    pub(crate) fn bulk(&mut self) -> String {
        let line = self.line();
        let len = line
            .strip_prefix('$')
            .and_then(|len| len.parse::<usize>().ok());
        let len = len.unwrap_or_else(|| panic!("no bulk string: {line}"));
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes).expect("a bulk string");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }
}

/// Checks `condition` repeatedly until it holds; panics with `what` if it never holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < GUARD, "never came: {what}");
        std::thread::yield_now();
    }
}
