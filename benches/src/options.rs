//! The command line of `rast-benches`.

use std::path::PathBuf;

/// What to run, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Only this layer; all of them if none is named.
    pub layer: Option<String>,
    /// Only the scenarios whose name contains this.
    pub only: Option<String>,
    /// Tiny sizes, one round, ours only: proves that the benches run.
    pub smoke: bool,
    /// Runs the test with stalled threads instead of the scenarios.
    pub stall: bool,
    /// Rounds that count; one more, the warm-up, does not.
    pub rounds: usize,
    /// Where to write every sample as JSON.
    pub json: Option<PathBuf>,
    /// Directory of the allocators' programs, if not that of this program.
    pub programs: Option<PathBuf>,
}

/// How to call the program.
pub const USAGE: &str =
    "usage: rast-benches [LAYER] [--only PART] [--stall] [--smoke] [--json FILE] [--rounds N] [--programs DIR]
  LAYER      primitive, alloc, queue, timers, conflate, scheduler, executor, reactor, sharder or
             msgpass; all of them by default
  --only     only the scenarios whose name contains PART
  --stall    of queue: stops threads inside their operations and watches the others
  --smoke    tiny sizes, one round, ours only: proves that the benches run
  --json     writes every sample to FILE
  --rounds   rounds that count (default 15); one warm-up round comes before them
  --programs where the programs alloc-* stand, if not beside this one";

impl Default for Options {
    fn default() -> Self {
        Self {
            layer: None,
            only: None,
            smoke: false,
            stall: false,
            rounds: 15,
            json: None,
            programs: None,
        }
    }
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    ///
    /// A sentence that says which argument is wrong.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--smoke" => options.smoke = true,
                "--stall" => options.stall = true,
                "--only" => {
                    options.only = Some(arguments.next().ok_or("--only needs a part of a name")?);
                }
                "--json" => {
                    let file = arguments.next().ok_or("--json needs a file")?;
                    options.json = Some(PathBuf::from(file));
                }
                "--programs" => {
                    let directory = arguments.next().ok_or("--programs needs a directory")?;
                    options.programs = Some(PathBuf::from(directory));
                }
                "--rounds" => {
                    let rounds = arguments.next().ok_or("--rounds needs a number")?;
                    options.rounds = match rounds.parse() {
                        Ok(rounds) if rounds > 0 => rounds,
                        _ => return Err(format!("--rounds {rounds}: not a number above zero")),
                    };
                }
                flag if flag.starts_with('-') => return Err(format!("unknown flag {flag}")),
                layer if options.layer.is_none() => options.layer = Some(layer.to_owned()),
                extra => return Err(format!("one layer at most, so what is {extra}?")),
            }
        }
        if options.smoke {
            options.rounds = 1;
        }
        if options.stall && options.layer.as_deref() != Some("queue") {
            return Err("--stall is a test of the layer queue: queue --stall".to_owned());
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_forms_of_the_command_line() {
        let all = parse("").unwrap();
        assert_eq!((all.layer, all.smoke, all.rounds), (None, false, 15));
        let one = parse("queue --rounds 3 --json out.json").unwrap();
        assert_eq!(one.layer.as_deref(), Some("queue"));
        assert_eq!(one.rounds, 3);
        assert_eq!(one.json, Some(PathBuf::from("out.json")));
        assert_eq!(parse("--smoke --rounds 9").unwrap().rounds, 1);
        let part = parse("queue --only mpmc").unwrap();
        assert_eq!((part.only.as_deref(), part.stall), (Some("mpmc"), false));
        assert!(parse("queue --stall").unwrap().stall);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for line in [
            "--json",
            "--programs",
            "--rounds",
            "--rounds 0",
            "--rounds x",
            "--fast",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in ["queue timers", "--only", "--stall", "timers --stall"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
