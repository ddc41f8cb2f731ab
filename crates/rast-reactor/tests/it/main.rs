//! Tests that need no process of their own, a file for each subject.
#![cfg(not(any(rast_loom, rast_shuttle)))]

mod admission;
mod ended;
mod epochs;
mod guards;
mod hostile;
mod io;
mod locks;
mod pool;
mod registry;
mod registry_model;
mod spin;
mod stop;
mod timers;

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/waker.rs"]
mod waker;
