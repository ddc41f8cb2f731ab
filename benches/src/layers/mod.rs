//! The scenarios, one file per layer, lowest first.

mod alloc;
mod msgpass;
mod primitive;
mod queue;
mod sharder;
mod timers;

use crate::harness::Scenario;
use crate::options::Options;

type Layer = (&'static str, fn() -> Vec<Scenario>);

const LAYERS: &[Layer] = &[
    ("primitive", primitive::scenarios),
    ("alloc", alloc::scenarios),
    ("queue", queue::scenarios),
    ("timers", timers::scenarios),
    ("sharder", sharder::scenarios),
    ("msgpass", msgpass::scenarios),
];

/// The scenarios of one layer, or of all of them.
///
/// # Errors
///
/// If no layer has that name.
pub fn scenarios(layer: Option<&str>) -> Result<Vec<Scenario>, String> {
    let Some(wanted) = layer else {
        return Ok(LAYERS
            .iter()
            .flat_map(|(_, scenarios)| scenarios())
            .collect());
    };
    LAYERS
        .iter()
        .find(|(name, _)| *name == wanted)
        .map(|(_, scenarios)| scenarios())
        .ok_or_else(|| format!("no layer is called {wanted}"))
}

/// The test of the queues with stalled threads.
///
/// # Errors
///
/// If a contender does not do what it claims.
pub fn stall(options: &Options) -> Result<(), String> {
    queue::stall(options)
}
