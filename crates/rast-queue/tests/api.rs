//! The promises of the queues, one file for each part.
#![cfg(not(rast_loom))]

mod support;

#[path = "api/spsc_chunk.rs"]
mod chunk;
#[path = "api/dealloc_panic.rs"]
mod dealloc_panic;
#[cfg(feature = "std")]
#[path = "api/drop_panic.rs"]
mod drop_panic;
#[path = "api/drop_random.rs"]
mod drop_random;
#[path = "api/list.rs"]
mod list;
#[path = "api/mpmc.rs"]
mod mpmc;
#[path = "api/mpsc.rs"]
mod mpsc;
#[path = "api/queue.rs"]
mod queue;
#[cfg(feature = "async")]
#[path = "api/queue_async.rs"]
mod queue_async;
#[cfg(feature = "async")]
#[path = "api/queue_async_random.rs"]
mod queue_async_random;
#[path = "api/queue_batch.rs"]
mod queue_batch;
#[path = "api/queue_memory.rs"]
mod queue_memory;
#[path = "api/queue_panic.rs"]
mod queue_panic;
#[cfg(feature = "std")]
#[path = "api/queue_wait.rs"]
mod queue_wait;
#[path = "api/segmented.rs"]
mod segmented;
#[path = "api/spmc.rs"]
mod spmc;
#[path = "api/spsc.rs"]
mod spsc;
