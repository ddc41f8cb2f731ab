//! The throughput of ours over the best rivals, per program and as a geometric mean.

use std::fmt::Write as _;

use super::OURS;
use crate::harness::{Figures, Outcome};
use crate::stats::{Spread, geometric_mean};

/// How the programs' scenarios begin.
const PREFIX: &str = "savina: ";

/// The actor frameworks.
const FRAMEWORKS: [&str; 3] = ["actix", "ractor", "kameo"];

/// Programs whose time is mostly computation or one long chain of messages.
const COMPUTE_BOUND: [&str; 3] = ["logistic map", "radix sort", "trapezoid"];

/// The rival with the least median time among those that `is_meant`, and its time over ours.
fn best(outcome: &Outcome, is_meant: impl Fn(&Figures) -> bool) -> Option<(&'static str, Spread)> {
    let ours = outcome.figures.first().filter(|one| one.name == OURS)?;
    let median = |one: &Figures| one.ns().median;
    let best = outcome
        .figures
        .iter()
        .filter(|one| !one.ours && is_meant(one) && !one.samples.is_empty())
        .min_by(|one, other| median(one).total_cmp(&median(other)))?;
    let pairs = best.samples.iter().zip(&ours.samples);
    let ratios: Vec<f64> = pairs.map(|(theirs, ours)| theirs / ours).collect();
    (!ratios.is_empty()).then(|| (best.name, Spread::of(ratios)))
}

fn cell(best: Option<&(&'static str, Spread)>) -> String {
    best.map_or(
        "no quiet round, or not built |".to_owned(),
        |(name, ratio)| format!("{name} | {}", ratio.text(2)),
    )
}

/// The table; empty if no program ran.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let (mut over_actors, mut over_all, mut ran) = (Vec::new(), Vec::new(), 0);
    for outcome in outcomes {
        let Some(program) = outcome.name.strip_prefix(PREFIX) else {
            continue;
        };
        let actors = best(outcome, |one| FRAMEWORKS.contains(&one.name));
        let all = best(outcome, |_| true);
        let kind = match COMPUTE_BOUND.contains(&program) {
            true => "compute",
            false => {
                ran += 1;
                over_actors.extend(actors.as_ref().map(|best| best.1.median));
                over_all.extend(all.as_ref().map(|best| best.1.median));
                "messages"
            }
        };
        let (actors, all) = (cell(actors.as_ref()), cell(all.as_ref()));
        writeln!(text, "| {program} | {kind} | {actors} | {all} |").expect("a string takes it");
    }
    if text.is_empty() {
        return text;
    }
    for (over, ratios) in [("actor framework", over_actors), ("rival", over_all)] {
        if let Some(mean) = geometric_mean(&ratios) {
            writeln!(
                text,
                "\nGeometric mean over the best {over} of each of {} message-bound programs (of \
                 {ran}): {mean:.2}.",
                ratios.len(),
            )
            .expect("a string takes it");
        }
    }
    format!(
        "\n### Savina: throughput of {OURS} over the rival's, higher is better\n\n\
         | program | bound by | best actor framework | ratio: median [min..max] | best rival | \
         ratio: median [min..max] |\n|---|---|---|---|---|---|\n{text}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &'static str, times: [f64; 4]) -> Outcome {
        let names = [OURS, "actix", "kameo", "tokio"];
        let figures = names.iter().zip(times).map(|(&name, ns)| Figures {
            name,
            ours: name == OURS,
            samples: vec![ns; 3],
            ratios: vec![ns / times[0]; 3],
            extras: Vec::new(),
        });
        Outcome {
            layer: "msgpass",
            name,
            ops: 1,
            tried: None,
            figures: figures.collect(),
        }
    }

    #[test]
    fn the_best_rivals_and_the_means_of_the_message_bound_programs() {
        let text = table(&[
            outcome("savina: big", [10.0, 40.0, 50.0, 20.0]),
            outcome("savina: banking", [10.0, 100.0, 90.0, 80.0]),
            outcome("savina: trapezoid", [10.0, 10.0, 11.0, 12.0]),
            outcome("counting on one worker", [1.0; 4]),
        ]);
        for part in [
            "| big | messages | actix | 4.00 [4.00..4.00] | tokio | 2.00 [2.00..2.00] |",
            "| banking | messages | kameo | 9.00 [9.00..9.00] | tokio | 8.00 [8.00..8.00] |",
            "| trapezoid | compute | actix | 1.00",
            "actor framework of each of 2 message-bound programs (of 2): 6.00.",
            "rival of each of 2 message-bound programs (of 2): 4.00.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("counting"));
        assert!(table(&[]).is_empty());
    }
}
