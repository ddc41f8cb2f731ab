//! The kv example.
fn main() {}
