//! `kv` as a process: what its clients see, how many there may be, and what they send.
#![cfg(all(
    feature = "alloc",
    feature = "queue",
    feature = "timers",
    feature = "sharder",
    feature = "msgpass",
    not(rast_loom)
))]

mod places;
mod protocol;
mod server;

#[path = "../kv_support/mod.rs"]
mod kv_support;
