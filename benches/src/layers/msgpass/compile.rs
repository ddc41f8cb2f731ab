//! The compile time of a graph of 100 processors and 400 edges, with our `graph!` and with that of
//! a prototype.
//!
//! The prototype's source is not part of the repository. `RAST_PROTOTYPE` names its file, or the
//! directory of `graph_macro_lib.rs`. Without it ours alone is compiled.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::LAYER;
use crate::compile_graph::{Crates, Side};
use crate::harness::Scenario;
use crate::options::Options;
use crate::workers::Sample;

/// The variable with the path of the prototype.
const VARIABLE: &str = "RAST_PROTOTYPE";

/// The scenario's name.
const NAME: &str = "compile time of 100 processors and 400 edges";

/// The source of the prototype.
fn prototype() -> Result<PathBuf, String> {
    let path = std::env::var_os(VARIABLE).ok_or(format!("{VARIABLE} is not set"))?;
    let path = match Path::new(&path).is_dir() {
        true => Path::new(&path).join("graph_macro_lib.rs"),
        false => PathBuf::from(path),
    };
    match path.is_file() {
        true => Ok(path),
        false => Err(format!("{VARIABLE}: there is no file {}", path.display())),
    }
}

/// Compiles one of the crates; the figure of a run is the compiler's processor time.
fn run(crates: &Crates, side: Side) -> Sample {
    let seconds = crates.build(side).expect("the crate compiles");
    Sample::new(1, Duration::from_secs_f64(seconds)).with("seconds", seconds)
}

/// The scenario, if the options name it. A smoke run leaves it out, because it builds crates.
pub(super) fn scenario(options: &Options) -> Option<Scenario> {
    let scenario = Scenario::new(LAYER, NAME, 1, 1).at_most(5);
    if options.smoke || !scenario.is_named(options.only.as_deref()) {
        return None;
    }
    let prototype = prototype()
        .inspect_err(|why| println!("the prototype's compile time is not measured: {why}"))
        .ok();
    let crates = Crates::write(None, prototype.as_deref(), "dev").expect("the crates compile");
    let crates = Rc::new(crates);
    let side = |side| {
        let crates = Rc::clone(&crates);
        move |_| run(&crates, side)
    };
    let scenario = scenario.ours("graph!", side(Side::Ours));
    Some(match prototype {
        Some(_) => scenario.rival("prototype", side(Side::Theirs)),
        None => scenario,
    })
}
