//! What a run of all steps prints: the part of a log that tells what failed, and the table.

use super::outcome::{Outcome, ran};
use std::time::Duration;

/// The lines of a log that show what failed: the lines up to each FAILED, the lists of failures,
/// the lines around each error or warning, and the last lines.
pub(super) fn faults(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = vec![false; lines.len()];
    let mut show = |from: usize, to: usize| shown[from..to.min(lines.len())].fill(true);
    let mut in_list = false;
    for (at, line) in lines.iter().enumerate() {
        in_list = (in_list || *line == "failures:") && !line.starts_with("test result:");
        if in_list {
            show(at, at + 1);
        }
        if line.contains("FAILED") || line.contains("not caught") {
            show(at.saturating_sub(30), at + 1);
        }
        if line.starts_with("error") || line.starts_with("warning") {
            show(at.saturating_sub(2), at + 15);
        }
    }
    show(lines.len().saturating_sub(20), lines.len());
    let mut kept = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if shown[at] {
            kept.push(*line);
        } else if at == 0 || shown[at - 1] {
            kept.push("...");
        }
    }
    // The last ones, if they are too many: the summary of a failed test run is at its end.
    kept[kept.len().saturating_sub(400)..].join("\n")
}

/// A line of the table at the end.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) time: Duration,
    /// Processor time in seconds, if it is known.
    pub(super) processor: Option<f64>,
    pub(super) outcome: Outcome,
}

/// The table at the end, its last line the count, and whether nothing failed.
pub(super) fn summary(lines: &[Line<'_>], whole: Duration) -> (String, bool) {
    let mut text = format!("\n{:<16} {:>9} {:>11}\n", "step", "time", "processor");
    let row = |name: &str, time: Duration, processor: Option<f64>| {
        let processor = processor.map_or("?".into(), |seconds| format!("{seconds:.1} s"));
        format!("{name:<16} {:>7.1} s {processor:>11}", time.as_secs_f64())
    };
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for line in lines {
        let words = match &line.outcome {
            Outcome::Passed(tests) => {
                passed += 1;
                format!("passed{}", ran(*tests))
            }
            Outcome::Failed(reason) => {
                failed += 1;
                format!("FAILED: {}", reason.lines().next().unwrap_or(""))
            }
            Outcome::NotRun(reason) => {
                skipped += 1;
                format!("not run: {reason}")
            }
        };
        text += &format!("{}  {words}\n", row(line.name, line.time, line.processor));
    }
    let processor = lines.iter().map(|line| line.processor).sum();
    text += &format!("{}\n", row("all", whole, processor));
    text += &format!("{passed} passed, {failed} failed, {skipped} skipped\n");
    (text, failed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::Tests;

    #[test]
    fn a_log_is_cut_to_what_failed() {
        let mut log: Vec<String> = (0..1000).map(|n| format!("test t{n} ... ok")).collect();
        log[500] = "test broken ... FAILED".into();
        log[510] = "failures:".into();
        log[511] = "thread 'broken' panicked".into();
        log[560] = "test result: FAILED".into();
        let cut = faults(&log.join("\n"));
        for line in [
            "test t470 ... ok".to_string(),
            log[500].clone(),
            log[511].clone(),
            log[560].clone(),
            log[999].clone(),
        ] {
            assert!(cut.contains(line.as_str()), "{line}");
        }
        for line in ["test t400 ... ok", "test t600 ... ok"] {
            assert!(!cut.contains(line), "{line}");
        }
        assert_eq!(faults("all\nof it"), "all\nof it");
        assert_eq!(faults(""), "");
    }

    #[test]
    fn the_last_line_counts() {
        let passed = |programs, passed| Outcome::Passed(Tests { programs, passed });
        let second = Duration::from_secs(1);
        let line = |name, outcome| Line {
            name,
            time: second,
            processor: Some(1.5),
            outcome,
        };
        let lines = [
            line("a", passed(3, 20)),
            line("b", Outcome::NotRun("no tool".into())),
            line("c", passed(0, 0)),
        ];
        let (text, good) = summary(&lines, second);
        assert!(good);
        assert!(text.contains("passed (3 programs, 20 tests)\n"), "{text}");
        assert!(
            text.ends_with("\n2 passed, 0 failed, 1 skipped\n"),
            "{text}"
        );
        assert!(text.contains(" 1.0 s       4.5 s\n2 passed"), "{text}");
        let failed = line("a", Outcome::Failed("x\ny".into()));
        let (text, good) = summary(&[failed], second);
        assert!(!good);
        assert!(
            text.ends_with("\n0 passed, 1 failed, 0 skipped\n"),
            "{text}"
        );
    }
}
