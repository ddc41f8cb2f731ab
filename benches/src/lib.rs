//! The benches of the workspace: a harness that interleaves its contenders, and one file per layer.
//!
//! `benches/README.md` describes the method, and when to use the criterion benches instead.
//! `docs/performance.md` holds the figures.

pub mod allocators;
pub mod compile_graph;
mod crossing;
pub mod harness;
pub mod histogram;
pub mod layers;
pub mod options;
mod processors;
pub mod quiet;
pub mod report;
#[cfg(unix)]
pub mod signals;
pub mod stats;
mod usage;
pub mod workers;
