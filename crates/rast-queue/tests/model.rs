//! Random operation lists against `VecDeque`, with payloads whose drops are counted.
#![cfg(not(rast_loom))]

#[path = "model/list.rs"]
mod list;
#[path = "model/mpsc.rs"]
mod mpsc;
#[path = "model/mpsc_bounded.rs"]
mod mpsc_bounded;
#[path = "model/queue.rs"]
mod queue;
#[path = "model/segmented.rs"]
mod segmented;
#[path = "model/spmc.rs"]
mod spmc;
#[path = "model/spsc.rs"]
mod spsc;
mod support;
