//! `kv` as a process: what its clients see, how many there may be, and what they send.
#![cfg(all(
    feature = "alloc",
    feature = "queue",
    feature = "timers",
    feature = "sharder",
    feature = "msgpass",
    not(rast_loom)
))]

mod hostile;
mod places;
mod protocol;
mod server;

#[path = "../../examples/kv/encode.rs"]
#[allow(dead_code)]
mod encode;
#[path = "../../examples/kv/load.rs"]
#[allow(dead_code)]
mod load;
#[path = "../../examples/kv/route.rs"]
#[allow(dead_code)]
mod route;

#[path = "../kv_support/mod.rs"]
mod kv_support;
