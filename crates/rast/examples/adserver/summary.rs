//! What the program prints.

use std::io::{self, Write as _};

/// What the demo prints: a line for each thing that it has shown.
#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) lines: Vec<String>,
    pub(crate) faults: Vec<String>,
}

impl Summary {
    pub(crate) fn line(&mut self, name: &str, text: &str) {
        self.lines.push(format!("  {name:<12} {text}"));
    }

    /// Adds what was shown, or that it was not.
    pub(crate) fn add(&mut self, name: &str, shown: io::Result<String>) {
        match shown {
            Ok(text) => self.line(name, &text),
            Err(error) => {
                self.line(name, &format!("FAILED: {error}"));
                self.faults.push(format!("{name}: {error}"));
            }
        }
    }
}

/// An error unless `is_true`.
pub(crate) fn ensure(is_true: bool, why: impl FnOnce() -> String) -> io::Result<()> {
    if is_true {
        Ok(())
    } else {
        Err(io::Error::other(why()))
    }
}

/// Prints a line. The program that reads the output may have ended; that changes nothing.
pub(crate) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
