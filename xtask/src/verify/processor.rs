//! Processor time of a step, where the system has `/proc`.

/// How the line starts by which a step reports its processor time.
const START: &str = "processor time: ";

/// The line with the processor time of this process and of its ended children.
pub(super) fn line() -> Option<String> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    Some(format!("{START}{:.1} s", seconds(&stat)?))
}

/// What the last such line of a log says, in seconds.
pub(super) fn said(log: &str) -> Option<f64> {
    let mut lines = log.lines().rev();
    let words = lines.find_map(|line| line.strip_prefix(START))?;
    words.strip_suffix(" s")?.parse().ok()
}

/// Reads `/proc/PID/stat`: time of the program and of the system, then those of its children.
fn seconds(stat: &str) -> Option<f64> {
    // The name of the program, in parentheses, may have spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let times = fields.get(11..15)?.iter().map(|field| field.parse::<u64>());
    let ticks = times.sum::<Result<u64, _>>().ok()?;
    // Linux counts them in hundredths of a second for every program.
    Some(ticks as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_system_says() {
        let stat = "12 (a b) c) S 1 2 3 4 5 6 7 8 9 10 100 20 3000 40 20 0 1\n";
        assert_eq!(seconds(stat), Some(31.6));
        for wrong in ["", "12 (a) S 1 2", "12 (a) S 1 2 3 4 5 6 7 8 9 10 x 1 1 1"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert_eq!(
            said("processor time: 1.0 s\ntext\nprocessor time: 31.6 s\n== a: passed\n"),
            Some(31.6)
        );
        assert_eq!(said("text\n"), None);
    }
}
