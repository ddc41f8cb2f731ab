//! Counts the tests that ran, from the summaries of the test runner.

use crate::Result;
use std::ops::AddAssign;

/// Programs that ran, and tests that passed in them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tests {
    pub(crate) programs: usize,
    pub(crate) passed: usize,
}

impl Tests {
    /// The sum of the runner's summaries in `text`.
    pub(crate) fn of(text: &str) -> Tests {
        let mut sum = Tests::default();
        for line in text.lines() {
            let Some((_, summary)) = line.split_once("test result: ") else {
                continue;
            };
            sum.programs += 1;
            let passed = summary.split_once(". ").map(|(_, counts)| counts);
            let passed = passed.and_then(|counts| counts.split_once(" passed"));
            sum.passed += passed.and_then(|(n, _)| n.parse().ok()).unwrap_or(0);
        }
        sum
    }

    /// An error if no test passed. Otherwise a wrong name in a command would go unnoticed.
    pub(crate) fn some(self) -> Result<Tests> {
        match self.passed {
            0 => Err("no test ran".into()),
            _ => Ok(self),
        }
    }
}

impl AddAssign for Tests {
    fn add_assign(&mut self, other: Tests) {
        self.programs += other.programs;
        self.passed += other.passed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_counted() {
        let text = "test a ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\
                    test result: FAILED. 1 passed; 1 failed\n";
        let tests = Tests::of(text);
        assert_eq!((tests.programs, tests.passed), (2, 3));
        assert_eq!(tests.some(), Ok(tests));
        for none in ["nothing", "test result: ok. 0 passed; 0 failed"] {
            assert!(Tests::of(none).some().is_err(), "{none}");
        }
    }
}
