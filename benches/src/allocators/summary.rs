//! The allocators side by side: ratios of our figure over each rival's, as the goals are stated.
//! Lower is better.
//!
//! The tables of the harness divide the rival's time by ours. The ratios here are the inverses.

use std::fmt::Write as _;

use super::{BASE_MIB, IDLE_MIB, LEFT_MIB, PEAK_MIB};
use crate::harness::{Figures, Outcome};
use crate::layers::alloc::{HARDENED, LAYER};
use crate::report::quoted;
use crate::stats::{Spread, geometric_mean};

/// The share of returned memory is shown only for workloads that added at least this much.
const RETURN_MIB_LEAST: f64 = 2.0;

/// The outcomes of this layer that have a rival.
fn compared(outcomes: &[Outcome]) -> impl Iterator<Item = &Outcome> {
    outcomes
        .iter()
        .filter(|outcome| outcome.layer == LAYER && outcome.figures.len() > 1)
}

/// The rivals, in the order of the tables.
fn rivals(outcomes: &[Outcome]) -> Vec<&'static str> {
    let mut rivals = Vec::new();
    for figures in compared(outcomes).flat_map(|outcome| &outcome.figures[1..]) {
        if !figures.ours && !rivals.contains(&figures.name) {
            rivals.push(figures.name);
        }
    }
    rivals
}

fn of<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a Figures> {
    outcome.figures.iter().find(|figures| figures.name == name)
}

fn extra<'a>(figures: &'a Figures, name: &str) -> Option<&'a [f64]> {
    let extra = figures.extras.iter().find(|extra| extra.0 == name)?;
    Some(&extra.1)
}

/// Our time over the rival's, a ratio for each round.
fn time(outcome: &Outcome, rival: &str) -> Option<Spread> {
    let ratios = &of(outcome, rival)?.ratios;
    Some(Spread::of(
        ratios.iter().map(|ratio| ratio.recip()).collect(),
    ))
}

/// Our peak over the rival's, a ratio for each round.
fn peak(outcome: &Outcome, rival: &str) -> Option<Spread> {
    let ours = extra(&outcome.figures[0], PEAK_MIB)?;
    let theirs = extra(of(outcome, rival)?, PEAK_MIB)?;
    Some(Spread::of(
        ours.iter().zip(theirs).map(|(a, b)| a / b).collect(),
    ))
}

/// Medians: MiB that a workload added, how much of it was returned to the system when all blocks
/// were free, and how much after a call that tells the allocator to return memory.
fn given_back(figures: &Figures) -> Option<[f64; 3]> {
    let median = |name| Some(Spread::of(extra(figures, name)?.to_vec()).median);
    let (base, peak) = (median(BASE_MIB)?, median(PEAK_MIB)?);
    let added = peak - base;
    Some([added, peak - median(LEFT_MIB)?, peak - median(IDLE_MIB)?])
}

/// The geometric mean of a column, as its last cell shows it.
fn mean(column: &[f64]) -> String {
    geometric_mean(column).map_or("-".to_owned(), |mean| format!("{mean:.3}"))
}

type Ratio = fn(&Outcome, &str) -> Option<Spread>;

/// The tables: time, peak memory, and returned memory. Empty if no rival ran.
pub fn tables(outcomes: &[Outcome]) -> String {
    let rivals = rivals(outcomes);
    if rivals.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for (title, ratio) in [("time", time as Ratio), ("peak resident memory", peak)] {
        ratios_table(&mut text, outcomes, &rivals, title, ratio);
    }
    return_table(&mut text, outcomes);
    hardened_table(&mut text, outcomes);
    text
}

fn ratios_table(
    text: &mut String,
    outcomes: &[Outcome],
    rivals: &[&str],
    title: &str,
    ratio: Ratio,
) {
    text.push('\n');
    let mut line = |parts: Vec<String>| {
        writeln!(text, "| {} |", parts.join(" | ")).expect("a string takes it");
    };
    line_head(&mut line, title, rivals);
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); rivals.len()];
    for outcome in compared(outcomes) {
        let mut parts = vec![outcome.name.to_owned()];
        let mut worst: Option<(f64, &str)> = None;
        for (rival, column) in rivals.iter().zip(&mut columns) {
            let Some(spread) = ratio(outcome, rival) else {
                parts.push("-".to_owned());
                continue;
            };
            column.push(spread.median);
            parts.push(spread.text(2));
            if worst.is_none_or(|worst| spread.median > worst.0) {
                worst = Some((spread.median, rival));
            }
        }
        parts.push(worst.map_or("-".to_owned(), |(by, rival)| format!("{by:.2} {rival}")));
        line(parts);
    }
    let mut parts = vec!["geometric mean".to_owned()];
    parts.extend(columns.iter().map(|column| mean(column)));
    parts.push(String::new());
    line(parts);
}

fn line_head(line: &mut impl FnMut(Vec<String>), title: &str, rivals: &[&str]) {
    let mut head = vec![format!("RastAlloc's {title} over, lower is better")];
    head.extend(rivals.iter().map(|rival| (*rival).to_owned()));
    head.push("over the best".to_owned());
    let dashes = vec!["---".to_owned(); head.len()];
    line(head);
    line(dashes);
}

fn return_table(text: &mut String, outcomes: &[Outcome]) {
    let mut contenders: Vec<&str> = Vec::new();
    for figures in compared(outcomes).flat_map(|outcome| &outcome.figures) {
        if !contenders.contains(&figures.name) {
            contenders.push(figures.name);
        }
    }
    writeln!(
        text,
        "\n| of the memory that a workload added has gone back, by itself; when asked | {} |\n|---|{}",
        contenders.join(" | "),
        "---|".repeat(contenders.len()),
    )
    .expect("a string takes it");
    let mut sums = vec![[0.0; 3]; contenders.len()];
    for outcome in compared(outcomes) {
        let mut parts = Vec::new();
        for (name, sums) in contenders.iter().zip(&mut sums) {
            match of(outcome, name).and_then(given_back) {
                Some(back) if back[0] >= RETURN_MIB_LEAST => {
                    for (sum, part) in sums.iter_mut().zip(back) {
                        *sum += part;
                    }
                    parts.push(shares(&back));
                }
                Some(back) => parts.push(format!("({:.1} MiB)", back[0])),
                None => parts.push("-".to_owned()),
            }
        }
        writeln!(text, "| {} | {} |", outcome.name, parts.join(" | ")).expect("a string takes it");
    }
    let sums: Vec<String> = sums.iter().map(shares).collect();
    writeln!(text, "| all | {} |", sums.join(" | ")).expect("a string takes it");
}

/// What hardening costs: that build's time and peak over the plain one's.
fn hardened_table(text: &mut String, outcomes: &[Outcome]) {
    let over_plain = |ratio: Ratio| -> Vec<(&str, Spread)> {
        compared(outcomes)
            .filter_map(|outcome| Some((outcome.name, ratio(outcome, HARDENED)?)))
            .map(|(name, plain_over)| (name, plain_over.recip()))
            .collect()
    };
    let (time, peak) = (over_plain(time), over_plain(peak));
    if time.is_empty() {
        return;
    }
    text.push_str(
        "\n| hardened over plain, lower is better | time | peak resident memory |\n|---|---|---|\n",
    );
    for (name, time) in &time {
        let peak = peak.iter().find(|peak| peak.0 == *name);
        let peak = peak.map_or("-".to_owned(), |peak| peak.1.text(2));
        writeln!(text, "| {name} | {} | {peak} |", time.text(2)).expect("a string takes it");
    }
    let mean_of =
        |of: &[(&str, Spread)]| mean(&of.iter().map(|one| one.1.median).collect::<Vec<_>>());
    let (time, peak) = (mean_of(&time), mean_of(&peak));
    writeln!(text, "| geometric mean | {time} | {peak} |").expect("a string takes it");
}

fn shares(back: &[f64; 3]) -> String {
    let share = |part: f64| (100.0 * part / back[0].max(f64::MIN_POSITIVE)).round();
    format!(
        "{} %; {} % of {:.1} MiB",
        share(back[1]),
        share(back[2]),
        back[0]
    )
}

/// The medians and geometric means as JSON, an object for each rival.
pub(crate) fn json(outcomes: &[Outcome]) -> Vec<String> {
    rivals(outcomes)
        .into_iter()
        .map(|rival| {
            let mut fields = vec![format!("\"over\": {}", quoted(rival))];
            for (name, ratio) in [("time", time as Ratio), ("peak", peak)] {
                let medians: Vec<(&str, f64)> = compared(outcomes)
                    .filter_map(|outcome| Some((outcome.name, ratio(outcome, rival)?.median)))
                    .collect();
                let values: Vec<f64> = medians.iter().map(|median| median.1).collect();
                let entries: Vec<String> = medians
                    .iter()
                    .map(|(workload, median)| format!("{}: {median}", quoted(workload)))
                    .collect();
                fields.push(format!("\"{name}\": {{{}}}", entries.join(", ")));
                if let Some(mean) = geometric_mean(&values) {
                    fields.push(format!("\"{name}_geometric_mean\": {mean}"));
                }
            }
            format!("    {{{}}}", fields.join(", "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(layer: &'static str) -> Outcome {
        let figures = |name, ours, ns: f64, peak| Figures {
            name,
            ours,
            samples: vec![ns],
            ratios: vec![ns / 2.0],
            extras: vec![
                (BASE_MIB, vec![2.0]),
                (PEAK_MIB, vec![peak]),
                (LEFT_MIB, vec![peak]),
                (IDLE_MIB, vec![4.0]),
            ],
        };
        Outcome {
            layer,
            name: "work",
            ops: 1,
            tried: None,
            figures: vec![
                figures("ours", true, 2.0, 12.0),
                figures("rival", false, 4.0, 6.0),
            ],
        }
    }

    #[test]
    fn ratios_are_ours_over_theirs() {
        let tables = tables(&[outcome(LAYER)]);
        assert!(
            tables.contains("| work | 0.50 [0.50..0.50] | 0.50 rival |"),
            "{tables}"
        );
        assert!(
            tables.contains("| work | 2.00 [2.00..2.00] | 2.00 rival |"),
            "{tables}"
        );
        assert!(
            tables.contains("| work | 0 %; 80 % of 10.0 MiB |"),
            "{tables}"
        );
        assert!(json(&[outcome(LAYER)])[0].contains("\"time_geometric_mean\": 0.5"));
    }

    #[test]
    fn other_layers_have_no_summary() {
        assert_eq!(tables(&[outcome("queue")]), "");
    }
}
