//! The tool of the workspace.
fn main() {}
