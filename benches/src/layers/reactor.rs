//! rast-reactor: reads and commits of the registry.

mod registry;

use crate::harness::Scenario;

const LAYER: &str = "reactor";

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    registry::scenarios()
}
