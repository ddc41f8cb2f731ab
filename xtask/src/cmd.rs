//! Runs outside commands and prints each before it starts.

use crate::count::Tests;
use crate::{Result, watch};
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// A command that is printed as a shell line before it runs.
pub(crate) struct Cmd {
    inner: Command,
    program: String,
    shown_env: Vec<(String, String)>,
    quiet: bool,
}

/// The result of a captured command.
pub(crate) struct Output {
    pub(crate) success: bool,
    /// Both streams if they were captured together, otherwise standard output.
    pub(crate) text: String,
}

impl Cmd {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Cmd {
        let program = program.as_ref();
        let mut inner = Command::new(program);
        inner.current_dir(crate::tree::root()).stdin(Stdio::null());
        // Cargo set these for xtask itself; they are not meant for the child.
        for (key, _) in std::env::vars_os() {
            let name = key.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                inner.env_remove(&key);
            }
        }
        let shown = Path::new(program)
            .file_stem()
            .unwrap_or(program)
            .to_string_lossy()
            .into_owned();
        Cmd {
            inner,
            program: shown,
            shown_env: Vec::new(),
            quiet: false,
        }
    }

    /// The Cargo that runs xtask, so that of the pinned toolchain.
    pub(crate) fn cargo() -> Cmd {
        Cmd::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
    }

    /// The Cargo of another toolchain, called through rustup.
    pub(crate) fn cargo_of(toolchain: &str) -> Cmd {
        let mut cmd = Cmd::new("rustup");
        for key in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"] {
            cmd.inner.env_remove(key);
        }
        cmd.args(["run", toolchain, "cargo"])
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Cmd {
        self.inner.arg(arg);
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Cmd {
        self.inner.args(args);
        self
    }

    /// Adds each word of `line`.
    pub(crate) fn words(self, line: &str) -> Cmd {
        self.args(line.split_whitespace())
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Cmd {
        let value = value.as_ref();
        self.inner.env(key, value);
        let shown = short(&value.to_string_lossy());
        self.shown_env.push((key.to_string(), shown));
        self
    }

    /// Adds to `RUSTFLAGS`, keeping what the caller of xtask set.
    pub(crate) fn rustflags(self, flags: &str) -> Cmd {
        let all = match std::env::var("RUSTFLAGS") {
            Ok(own) if !own.is_empty() => format!("{own} {flags}"),
            _ => flags.to_string(),
        };
        self.env("RUSTFLAGS", all)
    }

    /// Builds without line numbers for backtraces, which saves time and space. The programs still
    /// have the location of each panic and the names of functions.
    pub(crate) fn without_lines(self) -> Cmd {
        self.env("CARGO_PROFILE_DEV_DEBUG", "0")
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Cmd {
        self.inner.current_dir(dir);
        self
    }

    /// Does not print the command line. For commands that only query something.
    pub(crate) fn quiet(mut self) -> Cmd {
        self.quiet = true;
        self
    }

    /// The command as one would type it at the root of the workspace.
    fn line(&self) -> String {
        let quote = |text: &str| {
            if text.is_empty() || text.contains(|c: char| " \"'$&|<>();*".contains(c)) {
                format!("'{text}'")
            } else {
                text.to_string()
            }
        };
        let mut line = String::from("$");
        for (key, value) in &self.shown_env {
            line += &format!(" {key}={}", quote(value));
        }
        line += &format!(" {}", self.program);
        for arg in self.inner.get_args() {
            line += &format!(" {}", quote(&short(&arg.to_string_lossy())));
        }
        line
    }

    fn announce(&self) {
        if !self.quiet {
            println!("{}", self.line());
        }
    }

    /// Runs it and shows its output. A non-zero exit status is an error, and so is a hang.
    pub(crate) fn run(self) -> Result {
        let line = self.line();
        match self.stream()? {
            (status, _) if status.success() => Ok(()),
            (status, _) => Err(format!("`{line}` failed: {status}")),
        }
    }

    /// Runs it and returns standard output. Standard error is dropped if the command is quiet,
    /// otherwise shown.
    pub(crate) fn read(mut self) -> Result<Output> {
        self.announce();
        if self.quiet {
            self.inner.stderr(Stdio::null());
        } else {
            self.inner.stderr(Stdio::inherit());
        }
        let output = self
            .inner
            .output()
            .map_err(|error| format!("{}: {error}", self.program))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Output {
            success: output.status.success(),
            text,
        })
    }

    /// As `run`, but returns the standard output, and the caller checks the exit status.
    pub(crate) fn tee(self) -> Result<Output> {
        let (status, text) = self.stream()?;
        Ok(Output {
            success: status.success(),
            text,
        })
    }

    /// As `run`, for a `cargo test`: counts the tests that ran. It is an error if none ran.
    pub(crate) fn count(self) -> Result<Tests> {
        let line = self.line();
        let output = self.tee()?;
        match output.success {
            true => Tests::of(&output.text).some(),
            false => Err(format!("`{line}` failed")),
        }
    }

    /// Runs it under [`watch`].
    fn stream(mut self) -> Result<(ExitStatus, String)> {
        self.announce();
        if std::io::stdout().is_terminal() {
            self.inner.env("CARGO_TERM_COLOR", "always");
        }
        let line = self.line();
        watch::run(&mut self.inner, watch::SILENCE, watch::Show::AsItComes)
            .map_err(|error| format!("{}: {error}", self.program))?
            .map_err(|tests| {
                format!(
                    "`{line}` printed nothing for {} s and was ended{tests}",
                    watch::SILENCE.as_secs()
                )
            })
    }

    /// Prints the command and returns it, for callers that need more than the functions above.
    pub(crate) fn into_inner(self) -> Command {
        self.announce();
        self.inner
    }
}

/// Paths inside the workspace are shown from its root.
fn short(text: &str) -> String {
    let root = crate::tree::root().to_string_lossy().into_owned();
    text.replace(&format!("{root}{}", std::path::MAIN_SEPARATOR), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_like_a_shell() {
        let cmd = Cmd::new("cargo").args(["test", "a b"]).env("X", "1 2");
        assert_eq!(cmd.line(), "$ X='1 2' cargo test 'a b'");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        assert!(Cmd::new("no-such-program-anywhere").quiet().run().is_err());
    }
}
