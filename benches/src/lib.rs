//! Benches of the workspace.
