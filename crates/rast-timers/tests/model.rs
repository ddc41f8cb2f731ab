//! Random patterns of calls against the stated bounds, random operations against a `BTreeMap`.
#![cfg(not(rast_loom))]

#[path = "model/measuring.rs"]
mod measuring;
#[path = "model/remote.rs"]
mod remote;
#[path = "model/store.rs"]
mod store;
#[path = "model/touches.rs"]
mod touches;
#[path = "model/world.rs"]
mod world;
