//! The tool of the workspace: `cargo xtask COMMAND`.
//!
//! One file per command. Each prints the commands that it runs, so that you can repeat them by
//! hand. This crate is built before everything else, so its only dependency is `cargo_metadata`.

mod bench;
mod clients;
mod cmd;
mod count;
mod layers;
mod loom;
mod metadata;
mod orderings;
mod outside;
mod package;
mod paths;
mod programs;
mod shuttle;
mod soak;
mod source;
mod space;
mod stall;
mod tidy;
mod tree;
mod variant;
mod verify;
mod watch;
mod weak;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

commands:
  verify [--quick] [--full] [--strict] [--only STEP]
                                run every check; --quick: fmt, clippy, layers, tidy, build, doc tests,
                                and the tests that are not in a module named `long`
                                --full: more of what takes minutes; CONTRIBUTING.md says what
                                --strict: a step that was not run counts as failed
                                --only: this step alone, to repeat one that failed
  layers                        check who names whom among the crates
  tidy                          check the house rules that a program can see
  loom [-p CRATE]               run the loom models, print executions and bound
  loom --weak LABEL             weaken one labelled ordering in a copy and expect its model to fail;
                                LABEL may be `all`
  shuttle [-p CRATE]            run the same models, and longer ones, in random schedules
  stall                         stop a thread of the queue at each step, while others go on
  soak                          hold the clock by counter against the system's, three minutes
  bench [LAYER] [--only PART] [--stall] [--smoke] [--rounds N] [--json FILE] [--rivals]
                                run the benches; rivals run too unless --smoke is given without --rivals
                                --only: the scenarios whose name contains PART
                                --stall: of queue, stop threads inside their operations
  package                       build and test every crate from its unpacked package
";

/// The result of every command. An error is a sentence for the reader.
type Result<T = ()> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command that `args` names. Returns `Ok(false)` if its checks failed; they have printed
/// why.
fn dispatch(args: &[String]) -> Result<bool> {
    let Some((command, rest)) = args.split_first() else {
        print!("{USAGE}");
        return Ok(true);
    };
    match command.as_str() {
        "--help" | "-h" | "help" => {
            print!("{USAGE}");
            Ok(true)
        }
        "verify" => verify::command(rest),
        "layers" => layers::command(rest),
        "tidy" => tidy::command(rest),
        "loom" => loom::command(rest),
        "shuttle" => shuttle::command(rest),
        "soak" => soak::command(rest),
        "stall" => stall::command(rest),
        "bench" => bench::command(rest),
        "package" => package::command(rest),
        other => Err(format!("no command `{other}`\n\n{USAGE}")),
    }
}

/// Returns an error for the first remaining argument.
fn no_more(args: &[String]) -> Result {
    match args.first() {
        None => Ok(()),
        Some(arg) => Err(format!("unknown argument `{arg}`\n\n{USAGE}")),
    }
}

/// Returns an error with all of `errors`, if there are any.
fn no_errors(errors: &[String]) -> Result {
    match errors {
        [] => Ok(()),
        _ => Err(errors.join("; ")),
    }
}

/// The names that follow each `-p`; any other argument is an error.
fn packages(args: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = args;
    while let [flag, after @ ..] = rest
        && ["-p", "--package"].contains(&flag.as_str())
    {
        let [name, after @ ..] = after else {
            return Err("-p needs the name of a crate".into());
        };
        names.push(name.clone());
        rest = after;
    }
    no_more(rest).map(|()| names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|a| (*a).to_string()).collect()
    }

    #[test]
    fn usage_is_not_an_error_and_unknown_words_are() {
        assert_eq!(dispatch(&[]), Ok(true));
        assert_eq!(dispatch(&strings(&["--help"])), Ok(true));
        assert!(dispatch(&strings(&["frobnicate"])).is_err());
        for command in [
            "verify", "layers", "tidy", "loom", "shuttle", "bench", "package",
        ] {
            let message = dispatch(&strings(&[command, "--frobnicate"])).unwrap_err();
            assert!(message.contains("--frobnicate"), "{command}: {message}");
        }
    }
    #[test]
    fn packages_are_named_and_nothing_else() {
        let names = |args: &[&str]| packages(&strings(args));
        assert_eq!(names(&[]), Ok(vec![]));
        assert_eq!(
            names(&["-p", "a", "--package", "b"]),
            Ok(strings(&["a", "b"]))
        );
        assert!(names(&["-p"]).is_err());
        assert!(names(&["-p", "a", "b"]).is_err());
    }
}
