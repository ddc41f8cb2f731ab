//! The benches of the workspace: a harness that interleaves its contenders, and one file per layer.
//!
//! The method, and why this is not criterion, stands in `benches/README.md`; the figures stand in
//! `docs/performance.md`.

pub mod allocators;
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
pub mod workers;
