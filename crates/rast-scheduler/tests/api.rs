//! The promises of the public interface, one file for each part.
#![cfg(not(any(rast_loom, rast_shuttle)))]

#[path = "support.rs"]
mod support;

#[path = "api/fairness.rs"]
mod fairness;
#[path = "api/futures.rs"]
mod futures;
#[path = "api/handles.rs"]
mod handles;
#[path = "api/joins.rs"]
mod joins;
#[path = "api/source.rs"]
mod source;
#[path = "api/stops.rs"]
mod stops;
#[path = "api/waits.rs"]
mod waits;
#[path = "api/workers.rs"]
mod workers;
