//! `rast-benches [LAYER] [--only PART] [--stall] [--smoke] [--json FILE] [--rounds N] [--programs
//! DIR]`.

use std::process::ExitCode;

use rast_benches::harness::Outcome;
use rast_benches::options::{Options, USAGE};
use rast_benches::quiet::Quiet;
use rast_benches::{allocators::summary, harness, layers, report};

/// The same allocator for all executors.
#[cfg(feature = "own-alloc")]
#[global_allocator]
static ALLOC: rast::alloc::RastAlloc = rast::alloc::RastAlloc;

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<(), String> {
    let options = Options::parse(std::env::args().skip(1))?;
    if options.stall {
        return layers::stall(&options);
    }
    let mut scenarios = layers::scenarios(&options)?;
    scenarios.retain(|scenario| scenario.is_named(options.only.as_deref()));
    if let (true, Some(part)) = (scenarios.is_empty(), &options.only) {
        return Err(format!("no scenario's name contains {part}"));
    }
    println!("machine: {}", report::machine());
    println!(
        "rounds: {}, rivals from other crates: {}",
        options.rounds,
        if cfg!(all(rast_rivals, feature = "rivals")) {
            "built"
        } else {
            "not built"
        },
    );
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut quiet = Quiet::new();
    for scenario in scenarios {
        let outcome = harness::run(scenario, &options, &mut quiet);
        if options.smoke {
            println!("ran: {}: {}", outcome.layer, outcome.name);
        } else {
            if outcomes
                .last()
                .is_none_or(|last| last.layer != outcome.layer)
            {
                print!("{}", report::head(outcome.layer));
            }
            print!("{}", report::rows(&outcome));
        }
        outcomes.push(outcome);
    }
    if !options.smoke {
        print_extras(&outcomes);
        print!("{}", report::hand_over(&outcomes));
        print!("{}", layers::savina(&outcomes));
        print!("{}", report::rounds(&outcomes));
        print!("{}", summary::tables(&outcomes));
        if outcomes.iter().any(|outcome| outcome.layer == "alloc") {
            for rival in layers::allocators_not_built(&options) {
                println!("\nnot built, so not measured: {rival}");
            }
        }
    }
    if let Some(file) = &options.json {
        std::fs::write(file, report::json(&outcomes, &options))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        println!("\nwritten: {}", file.display());
    }
    Ok(())
}

/// Prints the further figures of each layer that has some.
fn print_extras(outcomes: &[Outcome]) {
    let mut layer = None;
    for outcome in outcomes {
        let rows = report::extras_rows(outcome);
        if !rows.is_empty() && layer != Some(outcome.layer) {
            layer = Some(outcome.layer);
            print!("{}", report::extras_head(outcome.layer));
        }
        print!("{rows}");
    }
}
