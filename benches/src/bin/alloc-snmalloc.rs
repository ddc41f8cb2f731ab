//! The allocators' workloads with snmalloc, whose crate offers no call to give memory back.

#[cfg(rast_rivals)]
use snmalloc_rs::SnMalloc;

#[cfg(rast_rivals)]
rast_benches::allocator_program!(SnMalloc: SnMalloc, || {});

/// Without the rivals there is nothing to run.
#[cfg(not(rast_rivals))]
fn main() {}
