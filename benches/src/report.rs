//! What the program prints, and the JSON that keeps every sample.
//!
//! The printed lines are Markdown tables, so that `docs/performance.md` takes them as they are.
//! The JSON is written by hand: it holds numbers and names that this crate chooses, which is not
//! worth a dependency.

use std::fmt::Write as _;

use crate::harness::Outcome;
use crate::options::Options;

/// The machine in one line, as far as the system tells.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|info| {
            let line = info.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown model".to_owned());
    format!(
        "{cores} cores, {model}, {}-{}",
        std::env::consts::ARCH,
        std::env::consts::OS,
    )
}

/// The head of a layer's Markdown table.
pub fn head(layer: &str) -> String {
    format!(
        "\n## {layer}\n\n| scenario | contender | ns per operation: median [q1..q3] | time over the first: median [min..max] |\n|---|---|---|---|\n",
    )
}

/// A scenario's rows of that table: one per contender, the scenario's name in the first, which is
/// ours and which the others' times are divided by.
pub fn rows(outcome: &Outcome) -> String {
    let mut text = String::new();
    for (index, figures) in outcome.figures.iter().enumerate() {
        let name = if index == 0 { outcome.name } else { "" };
        let ns = figures.ns();
        let noisy = if ns.is_noisy() { " noisy" } else { "" };
        let ratio = if index == 0 {
            "1".to_owned()
        } else {
            let ratio = figures.ratio();
            // Two digits that count, for a ratio far below one too.
            let digits = if ratio.median < 0.1 { 4 } else { 2 };
            format!(
                "{:.digits$} [{:.digits$}..{:.digits$}]",
                ratio.median, ratio.min, ratio.max,
            )
        };
        writeln!(
            text,
            "| {name} | {} | {:.2} [{:.2}..{:.2}]{noisy} | {ratio} |",
            figures.name, ns.median, ns.q1, ns.q3,
        )
        .expect("a string takes it");
    }
    text
}

/// Everything as JSON: the machine, the options, and every sample of every contender.
pub fn json(outcomes: &[Outcome], options: &Options) -> String {
    let scenarios: Vec<String> = outcomes.iter().map(scenario_json).collect();
    format!(
        "{{\n  \"machine\": {},\n  \"smoke\": {},\n  \"rivals\": {},\n  \"rounds\": {},\n  \"scenarios\": [\n{}\n  ]\n}}\n",
        quoted(&machine()),
        options.smoke,
        cfg!(all(rast_rivals, feature = "rivals")),
        options.rounds,
        scenarios.join(",\n"),
    )
}

fn scenario_json(outcome: &Outcome) -> String {
    let contenders: Vec<String> = outcome
        .figures
        .iter()
        .map(|figures| {
            let samples: Vec<String> = figures.samples.iter().map(f64::to_string).collect();
            format!(
                "      {{\"name\": {}, \"ours\": {}, \"ns_per_op_median\": {}, \"ratio_median\": {}, \"ns_per_op\": [{}]}}",
                quoted(figures.name),
                figures.ours,
                figures.ns().median,
                figures.ratio().median,
                samples.join(", "),
            )
        })
        .collect();
    format!(
        "    {{\"layer\": {}, \"name\": {}, \"ops\": {}, \"contenders\": [\n{}\n    ]}}",
        quoted(outcome.layer),
        quoted(outcome.name),
        outcome.ops,
        contenders.join(",\n"),
    )
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if u32::from(control) < 0x20 => {
                write!(quoted, "\\u{:04x}", u32::from(control)).expect("a string takes it");
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Figures;

    fn outcome() -> Outcome {
        let figures = |name, ours, ns| Figures {
            name,
            ours,
            samples: vec![ns, ns],
            ratios: vec![ns / 2.0, ns / 2.0],
        };
        Outcome {
            layer: "queue",
            name: "spsc",
            ops: 10,
            figures: vec![figures("rast", true, 2.0), figures("rival", false, 5.0)],
        }
    }

    #[test]
    fn the_rows_show_the_paired_ratio() {
        assert_eq!(
            rows(&outcome()),
            "| spsc | rast | 2.00 [2.00..2.00] | 1 |\n\
             |  | rival | 5.00 [5.00..5.00] | 2.50 [2.50..2.50] |\n",
        );
    }

    #[test]
    fn the_json_holds_every_sample() {
        let options = Options::parse(std::iter::empty()).unwrap();
        let text = json(&[outcome()], &options);
        assert!(text.contains("\"ns_per_op\": [5, 5]"), "{text}");
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
