//! The scenarios, one file per layer, lowest first.

/// A list of scenarios: each row has the arguments of the macro that makes one.
macro_rules! table {
    ($scenario:ident: $(($($row:tt)*))*) => {
        vec![$($scenario!($($row)*)),*]
    };
}

pub(crate) mod alloc;
mod conflate;
mod executor;
mod msgpass;
mod primitive;
mod queue;
mod reactor;
mod scheduler;
mod sharder;
mod timers;

use crate::harness::{Outcome, Scenario};
use crate::options::Options;

type Layer = (&'static str, fn(&Options) -> Vec<Scenario>);

const LAYERS: &[Layer] = &[
    ("primitive", |_| primitive::scenarios()),
    ("alloc", alloc::scenarios),
    ("queue", |_| queue::scenarios()),
    ("timers", |_| timers::scenarios()),
    ("scheduler", |_| scheduler::scenarios()),
    ("conflate", |_| conflate::scenarios()),
    ("sharder", |_| sharder::scenarios()),
    ("msgpass", msgpass::scenarios),
    ("executor", |_| executor::scenarios()),
    ("reactor", |_| reactor::scenarios()),
];

/// The scenarios of the layer that the options name, or of all of them.
///
/// # Errors
///
/// If no layer has that name.
pub fn scenarios(options: &Options) -> Result<Vec<Scenario>, String> {
    let Some(wanted) = &options.layer else {
        return Ok(LAYERS
            .iter()
            .flat_map(|(_, scenarios)| scenarios(options))
            .collect());
    };
    LAYERS
        .iter()
        .find(|(name, _)| name == wanted)
        .map(|(_, scenarios)| scenarios(options))
        .ok_or_else(|| format!("no layer is called {wanted}"))
}

/// The table of the Savina programs; empty if none ran.
pub fn savina(outcomes: &[Outcome]) -> String {
    msgpass::savina_table(outcomes)
}

/// Rivals of the allocator that are not there, because their programs were not built.
pub fn allocators_not_built(options: &Options) -> Vec<&'static str> {
    alloc::not_built(options)
}

/// The test of the queues with stalled threads.
///
/// # Errors
///
/// If a contender does not do what it claims.
pub fn stall(options: &Options) -> Result<(), String> {
    queue::stall(options)
}
