//! Under 1,000 seeds, which takes long.

#[path = "invariant.rs"]
mod invariant;
#[path = "maze.rs"]
mod maze;
#[path = "storm.rs"]
mod storms;
#[path = "supervision.rs"]
mod supervision;
