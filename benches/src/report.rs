//! What the program prints, and the JSON that has every sample.
//!
//! The program prints Markdown tables, so that they can be copied to `docs/performance.md`. The
//! JSON has only numbers and names that this crate chooses, so it is written without a JSON
//! library.

use std::fmt::Write as _;

use crate::harness::{Figures, Outcome};
use crate::options::Options;
use crate::stats::Spread;

/// The machine in one line, as far as the system reports it.
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

/// A scenario's rows of that table, one per contender. The first row has the name of the scenario
/// and is ours; the ratios of the others are relative to it.
pub fn rows(outcome: &Outcome) -> String {
    let mut text = String::new();
    if outcome.figures.iter().any(|one| one.samples.is_empty()) {
        return format!("| {} | no quiet round | | |\n", outcome.name);
    }
    for (index, figures) in outcome.figures.iter().enumerate() {
        let name = if index == 0 { outcome.name } else { "" };
        let ns = figures.ns();
        let noisy = if ns.is_noisy() { " noisy" } else { "" };
        let ratio = if index == 0 {
            "1".to_owned()
        } else {
            let ratio = figures.ratio();
            // Two significant digits, also for a ratio far below one.
            ratio.text(if ratio.median < 0.1 { 4 } else { 2 })
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

/// The head of the table of further figures.
pub fn extras_head(layer: &str) -> String {
    format!(
        "\n### {layer}: further figures\n\n| scenario | contender | figures: median [min..max] |\n|---|---|---|\n",
    )
}

/// A scenario's rows of that table; none if its runs measured only times.
pub fn extras_rows(outcome: &Outcome) -> String {
    let mut text = String::new();
    let named = outcome.figures.iter().filter(|one| !one.extras.is_empty());
    for (index, figures) in named.enumerate() {
        let name = if index == 0 { outcome.name } else { "" };
        let extras: Vec<String> = figures
            .extras
            .iter()
            .map(|(name, values)| {
                let of = Spread::of(values.clone());
                format!("{name} {}", of.text(if of.median < 10.0 { 2 } else { 0 }))
            })
            .collect();
        let extras = extras.join("; ");
        writeln!(text, "| {name} | {} | {extras} |", figures.name).expect("a string takes it");
    }
    text
}

/// The percentiles by which a hand-over is judged.
const PERCENTILES: [&str; 2] = ["p50 ns", "p99 ns"];

/// The table of hand-over times: ours divided by the rival's of the same round, so lower is better.
/// Empty if no scenario has percentiles.
pub fn hand_over(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let Some((first, others)) = outcome.figures.split_first() else {
            continue;
        };
        let mut name = outcome.name;
        for other in others {
            let ratios = PERCENTILES.map(|percentile| {
                let of = |one: &'_ Figures| {
                    let extra = one.extras.iter().find(|extra| extra.0 == percentile);
                    extra.map(|extra| extra.1.clone())
                };
                let (ours, theirs) = (of(first)?, of(other)?);
                let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs);
                Some(Spread::of(ratios.collect()).text(2))
            });
            if let [Some(p50), Some(p99)] = ratios {
                writeln!(text, "| {name} | {} | {p50} | {p99} |", other.name)
                    .expect("a string takes it");
                name = "";
            }
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\n### Hand-over, the first contender's time over the other's: lower is better\n\n\
         | scenario | other contender | p50: median [min..max] | p99: median [min..max] |\n\
         |---|---|---|---|\n{text}"
    )
}

/// For the scenarios of two threads, how many of the tried rounds were quiet.
pub fn rounds(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        if let Some(tried) = outcome.tried {
            let kept = outcome.figures[0].samples.len();
            writeln!(text, "| {} | {kept} | {tried} |", outcome.name).expect("a string takes it");
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\n### Rounds of two threads\n\n| scenario | quiet, so kept | tried |\n|---|---|---|\n{text}"
    )
}

/// Everything as JSON: the machine, the options, every sample of every contender, and the
/// allocators side by side.
pub fn json(outcomes: &[Outcome], options: &Options) -> String {
    let scenarios: Vec<String> = outcomes.iter().map(scenario_json).collect();
    let text = document(options, "scenarios", &scenarios);
    let allocators = crate::allocators::summary::json(outcomes);
    if allocators.is_empty() {
        return text;
    }
    let body = text.trim_end().trim_end_matches('}').trim_end();
    format!(
        "{body},\n  \"allocators\": [\n{}\n  ]\n}}\n",
        allocators.join(",\n"),
    )
}

/// The machine and the options, and one list under its name.
pub(crate) fn document(options: &Options, name: &str, entries: &[String]) -> String {
    format!(
        "{{\n  \"machine\": {},\n  \"smoke\": {},\n  \"rivals\": {},\n  \"rounds\": {},\n  {}: [\n{}\n  ]\n}}\n",
        quoted(&machine()),
        options.smoke,
        cfg!(all(rast_rivals, feature = "rivals")),
        options.rounds,
        quoted(name),
        entries.join(",\n"),
    )
}

fn scenario_json(outcome: &Outcome) -> String {
    let contenders: Vec<String> = outcome.figures.iter().map(contender_json).collect();
    let tried = outcome.tried.map_or("null".to_owned(), |n| n.to_string());
    format!(
        "    {{\"layer\": {}, \"name\": {}, \"ops\": {}, \"rounds_tried\": {tried}, \"contenders\": [\n{}\n    ]}}",
        quoted(outcome.layer),
        quoted(outcome.name),
        outcome.ops,
        contenders.join(",\n"),
    )
}

fn contender_json(figures: &Figures) -> String {
    if figures.samples.is_empty() {
        return format!(
            "      {{\"name\": {}, \"ours\": {}, \"ns_per_op\": []}}",
            quoted(figures.name),
            figures.ours,
        );
    }
    let extras: Vec<String> = figures
        .extras
        .iter()
        .map(|(name, values)| format!("{}: {}", quoted(name), list(values)))
        .collect();
    format!(
        "      {{\"name\": {}, \"ours\": {}, \"ns_per_op_median\": {}, \"ratio_median\": {}, \"ns_per_op_spread\": {}, \"ratio_spread\": {}, \"ns_per_op\": {}, \"ratio\": {}, \"extras\": {{{}}}}}",
        quoted(figures.name),
        figures.ours,
        figures.ns().median,
        figures.ratio().median,
        spread_json(figures.ns()),
        spread_json(figures.ratio()),
        list(&figures.samples),
        list(&figures.ratios),
        extras.join(", "),
    )
}

fn spread_json(spread: Spread) -> String {
    format!(
        "{{\"min\": {}, \"q1\": {}, \"median\": {}, \"q3\": {}, \"max\": {}}}",
        spread.min, spread.q1, spread.median, spread.q3, spread.max,
    )
}

fn list(values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(f64::to_string).collect();
    format!("[{}]", values.join(", "))
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
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

    fn outcome() -> Outcome {
        let figures = |name, ours, ns| Figures {
            name,
            ours,
            samples: vec![ns, ns],
            ratios: vec![ns / 2.0, ns / 2.0],
            extras: vec![("p99 ns", vec![40.0, 60.0])],
        };
        Outcome {
            layer: "queue",
            name: "spsc",
            ops: 10,
            tried: Some(3),
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
    fn further_figures_have_their_own_table() {
        let rows = extras_rows(&outcome());
        assert!(rows.starts_with("| spsc | rast | p99 ns 50 [40..60] |\n|  | rival |"));
    }

    #[test]
    fn a_hand_over_is_better_where_it_is_lower() {
        let mut outcome = outcome();
        outcome.figures[0].extras = vec![("p50 ns", vec![1.0, 2.0]), ("p99 ns", vec![6.0, 6.0])];
        outcome.figures[1].extras = vec![("p50 ns", vec![4.0, 4.0]), ("p99 ns", vec![3.0, 3.0])];
        let text = hand_over(&[outcome]);
        assert!(
            text.ends_with("| spsc | rival | 0.38 [0.25..0.50] | 2.00 [2.00..2.00] |\n"),
            "{text}"
        );
    }

    #[test]
    fn rounds_are_reported_kept_and_tried() {
        assert!(rounds(&[outcome()]).ends_with("| spsc | 2 | 3 |\n"));
        let mut none = outcome();
        for figures in &mut none.figures {
            (figures.samples, figures.ratios) = (Vec::new(), Vec::new());
            figures.extras = Vec::new();
        }
        assert_eq!(rows(&none), "| spsc | no quiet round | | |\n");
        let options = Options::parse(std::iter::empty()).unwrap();
        let text = json(&[none], &options);
        assert!(text.contains("\"rounds_tried\": 3"), "{text}");
    }

    #[test]
    fn the_json_holds_every_sample() {
        let options = Options::parse(std::iter::empty()).unwrap();
        let text = json(&[outcome()], &options);
        for part in [
            "\"ns_per_op\": [5, 5]",
            "\"ratio\": [2.5, 2.5]",
            "\"p99 ns\": [40, 60]",
            "\"median\": 2.5",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
