//! Threads, from std or from loom.

#[cfg(rast_loom)]
pub use loom::thread::{JoinHandle, spawn, yield_now};
#[cfg(not(rast_loom))]
pub use std::thread::{JoinHandle, spawn, yield_now};
