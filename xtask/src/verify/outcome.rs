//! How a step ended, and the line by which it reports that to the process that started it.

use crate::Result;
use crate::count::Tests;
use crate::tidy::count;

/// How a step ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// With the tests that it ran, if it runs any.
    Passed(Tests),
    Failed(String),
    NotRun(String),
}

/// What a step's result counts as.
pub(super) fn judge(outside: bool, strict: bool, result: Result<Outcome>) -> Outcome {
    match result {
        Ok(Outcome::NotRun(reason)) if strict || !outside => {
            Outcome::Failed(format!("not run: {reason}"))
        }
        Ok(outcome) => outcome,
        Err(reason) => Outcome::Failed(reason),
    }
}

/// The line that says how a step ended.
pub(super) fn verdict(name: &str, outcome: &Outcome) -> String {
    let words = match outcome {
        Outcome::Passed(tests) => format!("passed{}", ran(*tests)),
        Outcome::Failed(reason) => format!("FAILED: {reason}"),
        Outcome::NotRun(reason) => format!("not run: {reason}"),
    };
    format!("== {name}: {words}")
}

/// The outcome that the last verdict in a step's log says, if it has one.
pub(super) fn said(name: &str, log: &str) -> Option<Outcome> {
    let start = format!("== {name}: ");
    let mut lines = log.lines().rev();
    let words = lines.find_map(|line| line.strip_prefix(&start))?;
    Some(match words.split_once(": ") {
        Some(("not run", reason)) => Outcome::NotRun(reason.to_string()),
        Some(("FAILED", reason)) => Outcome::Failed(reason.to_string()),
        _ => Outcome::Passed(read(words.strip_prefix("passed")?)?),
    })
}

/// ` (3 programs, 20 tests)`; nothing for a step that runs no tests.
pub(super) fn ran(tests: Tests) -> String {
    match tests.programs {
        0 => String::new(),
        programs => format!(
            " ({}, {})",
            count(programs, "program"),
            count(tests.passed, "test")
        ),
    }
}

/// What `ran` wrote.
fn read(text: &str) -> Option<Tests> {
    if text.is_empty() {
        return Some(Tests::default());
    }
    let inner = text.strip_prefix(" (")?.strip_suffix(')')?;
    let (programs, passed) = inner.split_once(", ")?;
    let number = |text: &str| text.split_once(' ')?.0.parse().ok();
    Some(Tests {
        programs: number(programs)?,
        passed: number(passed)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_outside_steps_may_be_absent() {
        let absent = || Ok(Outcome::NotRun("no tool".into()));
        assert!(matches!(judge(true, false, absent()), Outcome::NotRun(_)));
        assert!(matches!(judge(true, true, absent()), Outcome::Failed(_)));
        assert!(matches!(judge(false, false, absent()), Outcome::Failed(_)));
        let passed = Outcome::Passed(Tests::default());
        assert_eq!(judge(false, false, Ok(passed.clone())), passed);
        assert_eq!(
            judge(true, false, Err("x".into())),
            Outcome::Failed("x".into())
        );
    }

    #[test]
    fn what_a_step_says_is_read() {
        let tests = |programs, passed| Tests { programs, passed };
        for outcome in [
            Outcome::Passed(Tests::default()),
            Outcome::Passed(tests(1, 1)),
            Outcome::Passed(tests(109, 1840)),
            Outcome::Failed("a: b; c".into()),
            Outcome::NotRun("no tool: x".into()),
        ] {
            let log = format!("text\n{}\n", verdict("a b", &outcome));
            assert_eq!(said("a b", &log), Some(outcome));
            assert_eq!(said("a", &log), None);
        }
        assert_eq!(said("a", "== a: passed by\n"), None);
    }
}
