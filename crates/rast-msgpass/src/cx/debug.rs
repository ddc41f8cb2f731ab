//! How what a handler sees is printed.

use core::fmt;

use super::{All, Chosen, Cx, Port};
use crate::graph::Graph;

impl<G: Graph, P> fmt::Debug for Cx<'_, G, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx")
            .field("graph", &G::NAME)
            .field(
                "processor",
                &self.core.shared.processors[self.core.node].name,
            )
            .field("replica", &self.core.replica)
            .finish_non_exhaustive()
    }
}

impl<G, P, To> fmt::Debug for Port<'_, G, P, To> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").finish_non_exhaustive()
    }
}

impl<G, P, To, const ANY: bool> fmt::Debug for Chosen<'_, G, P, To, ANY> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chosen")
            .field("choice", &self.choice)
            .finish_non_exhaustive()
    }
}

impl<G, P, To> fmt::Debug for All<'_, G, P, To> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("All").finish_non_exhaustive()
    }
}
