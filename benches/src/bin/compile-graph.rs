//! How long a graph of 100 processors and 400 edges takes to compile with our `graph!` and with
//! another one: processor time of the compiler, in alternating rounds.
//!
//! ```text
//! compile-graph [--prototype FILE] [--rounds N] [--profile check|dev|release] [--tree DIR]
//! ```
//!
//! `FILE` is the source of a library with a macro `graph!` of the same form. Without `FILE`, only
//! ours is compiled. `DIR` is the workspace whose rast-msgpass is measured, this one by default.
//! The dependencies are built before the first round.

use std::path::PathBuf;

use rast_benches::compile_graph::{Crates, Result, Side};
use rast_benches::stats::Spread;

fn main() -> Result<()> {
    let (mut prototype, mut rounds, mut profile) = (None, 5, "dev".to_owned());
    let mut root = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().ok_or(format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--prototype" => prototype = Some(PathBuf::from(value)),
            "--rounds" => rounds = value.parse()?,
            "--profile" => profile = value,
            "--tree" => root = Some(PathBuf::from(value)),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    let crates = Crates::write(root.as_deref(), prototype.as_deref(), &profile)?;
    let (mut ours, mut ratios) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if prototype.is_none() {
            ours.push(crates.build(Side::Ours)?);
            println!("round {round}: ours {:.2} s", ours[round]);
            continue;
        }
        // The order alternates, because the second one may find its files in the page cache.
        let (own, their) = match round % 2 {
            0 => {
                let own = crates.build(Side::Ours)?;
                (own, crates.build(Side::Theirs)?)
            }
            _ => {
                let their = crates.build(Side::Theirs)?;
                (crates.build(Side::Ours)?, their)
            }
        };
        println!("round {round}: ours {own:.2} s, theirs {their:.2} s");
        ours.push(own);
        ratios.push(own / their);
    }
    let spread = Spread::of(ours);
    println!("{profile}: ours {:.2} s (median)", spread.median);
    if prototype.is_some() {
        let spread = Spread::of(ratios);
        println!(
            "{profile}: ours over theirs {:.2} ({:.2} to {:.2})",
            spread.median, spread.min, spread.max
        );
    }
    Ok(())
}
