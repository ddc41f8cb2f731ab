//! What the queues promise, case by case.
#![cfg(not(rast_loom))]

mod support;

#[path = "api/spsc_chunk.rs"]
mod chunk;
#[path = "api/list.rs"]
mod list;
#[path = "api/mpsc.rs"]
mod mpsc;
#[path = "api/queue.rs"]
mod queue;
#[path = "api/segmented.rs"]
mod segmented;
#[path = "api/spmc.rs"]
mod spmc;
#[path = "api/spsc.rs"]
mod spsc;
