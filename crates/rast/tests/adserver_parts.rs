//! The parts of the `adserver` example that need neither sockets nor threads, with the unit tests
//! at the foot of their files.
//!
//! Cargo runs no tests of an example; this crate includes the files and runs them.
#![cfg(all(feature = "reactor", feature = "io", not(rast_loom)))]
// The parts offer what the whole example uses; these tests use less.
#![allow(dead_code)]

#[path = "../examples/adserver/batch.rs"]
mod batch;
#[path = "../examples/adserver/conn.rs"]
mod conn;
#[path = "../examples/adserver/events.rs"]
mod events;
#[path = "../examples/adserver/http.rs"]
mod http;
#[path = "../examples/adserver/json.rs"]
mod json;
