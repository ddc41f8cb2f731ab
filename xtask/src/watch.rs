//! Runs a command, shows what it prints, and ends it if it prints nothing for too long.
//!
//! Otherwise a test that waits for ever would block a CI job until the job's own limit, and its
//! name would not be known. The test runner prints the names of tests that run long, so the error
//! message has them.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long a command may print nothing.
pub(crate) const SILENCE: Duration = Duration::from_secs(900);

/// When the output is shown.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Show<'a> {
    /// Shows output as it comes. The returned text is standard output.
    AsItComes,
    /// Shows all output in one piece below this heading when the command has ended, because other
    /// commands may run at the same time. The returned text has both streams.
    AtTheEnd(&'a str),
}

/// A piece of output.
enum Piece {
    Out(Vec<u8>),
    Err(Vec<u8>),
}

/// Returns the exit status and the text. If the command was silent for `silence`, returns the tests
/// that were running.
pub(crate) fn run(
    command: &mut Command,
    silence: Duration,
    when: Show<'_>,
) -> io::Result<Result<(ExitStatus, String), String>> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (sender, pieces) = channel();
    if let Some(stdout) = child.stdout.take() {
        forward(stdout, sender.clone(), Piece::Out);
    }
    if let Some(stderr) = child.stderr.take() {
        forward(stderr, sender, Piece::Err);
    }
    let mut text = Vec::new();
    let has_ended = collect(&pieces, silence, when, &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    if let Show::AtTheEnd(heading) = when {
        // In one write: the parts of a format may be written apart.
        let mut out = io::stdout().lock();
        let _ = out.write_all(format!("{heading}{text}").as_bytes());
    }
    if has_ended {
        return Ok(Ok((child.wait()?, text)));
    }
    end(&mut child)?;
    Ok(Err(running(&text)))
}

/// Sends what `stream` gives until it ends.
fn forward(mut stream: impl Read + Send + 'static, to: Sender<Piece>, piece: fn(Vec<u8>) -> Piece) {
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            if to.send(piece(buffer[..n].to_vec())).is_err() {
                return;
            }
        }
    });
}

/// Takes the pieces until both streams end; `false` when none came for `silence`.
fn collect(
    pieces: &Receiver<Piece>,
    silence: Duration,
    when: Show<'_>,
    text: &mut Vec<u8>,
) -> bool {
    loop {
        // What a closed terminal refuses is lost; the command goes on.
        let _ = match (pieces.recv_timeout(silence), when) {
            (Ok(Piece::Out(bytes) | Piece::Err(bytes)), Show::AtTheEnd(_)) => {
                text.extend_from_slice(&bytes);
                Ok(())
            }
            (Ok(Piece::Out(bytes)), Show::AsItComes) => {
                text.extend_from_slice(&bytes);
                let mut out = io::stdout().lock();
                out.write_all(&bytes).and_then(|()| out.flush())
            }
            (Ok(Piece::Err(bytes)), Show::AsItComes) => io::stderr().write_all(&bytes),
            (Err(RecvTimeoutError::Disconnected), _) => return true,
            (Err(RecvTimeoutError::Timeout), _) => return false,
        };
    }
}

/// Kills `child` and every process below it.
fn end(child: &mut Child) -> io::Result<()> {
    let mut all = vec![child.id()];
    // Without `ps` only the child itself is killed.
    if let Ok(output) = Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output() {
        add_descendants(&mut all, &String::from_utf8_lossy(&output.stdout));
    }
    for pid in &all[1..] {
        let _ = Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status();
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Adds to `all` the processes whose parent is in it, from lines of process and parent.
fn add_descendants(all: &mut Vec<u32>, table: &str) {
    let pairs: Vec<(u32, u32)> = table
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::parse);
            Some((words.next()?.ok()?, words.next()?.ok()?))
        })
        .collect();
    let mut next = 0;
    while let Some(&parent) = all.get(next) {
        all.extend(
            pairs
                .iter()
                .filter(|pair| pair.1 == parent)
                .map(|pair| pair.0),
        );
        next += 1;
    }
}

/// The tests that had begun and not ended, as the end of a sentence.
fn running(text: &str) -> String {
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("test ") else {
            continue;
        };
        if let Some((name, _)) = rest.split_once(" has been running for over") {
            names.insert(name);
        } else if let Some((name, verdict)) = rest.split_once(" ...") {
            // One test at a time: the runner prints the name first and the verdict at the end.
            match verdict.trim() {
                "" => names.insert(name),
                _ => names.remove(name),
            };
        }
    }
    match names.is_empty() {
        true => String::new(),
        false => {
            let names: Vec<&str> = names.into_iter().collect();
            format!("; running: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_hang_are_named() {
        let text = "running 3 tests\ntest a ... ok\ntest b has been running for over 60 seconds\n\
                    test c has been running for over 60 seconds\ntest b ... ok\n";
        assert_eq!(running(text), "; running: c");
        assert_eq!(running("test a ... ok\ntest b ... "), "; running: b");
        assert_eq!(running("test a ... ok\n"), "");
    }

    #[test]
    fn descendants_are_found() {
        let mut all = vec![10];
        add_descendants(&mut all, " 11 10\n12 11\n13 1\n14 10\nPID PPID\n");
        assert_eq!(all, [10, 11, 14, 12]);
    }

    #[cfg(unix)]
    #[test]
    fn a_silent_command_is_ended() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test a ... '; sleep 1000; echo done"]);
        let ended = run(&mut command, Duration::from_secs(5), Show::AsItComes).expect("sh starts");
        assert_eq!(ended.err().as_deref(), Some("; running: a"));
    }

    #[cfg(unix)]
    #[test]
    fn output_and_status_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        for (when, kept) in [(Show::AsItComes, 4), (Show::AtTheEnd(""), 8)] {
            let ended = run(&mut command, SILENCE, when).expect("sh starts");
            let (status, text) = ended.expect("it ends");
            assert_eq!((status.code(), text.len()), (Some(3), kept), "{text}");
        }
    }
}
