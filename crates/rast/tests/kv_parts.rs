//! The parts of the `kv` example that need neither sockets nor threads, with the
//! unit tests at the foot of their files.
//!
//! Cargo runs no tests of an example; this crate includes the files and runs them.
#![cfg(all(
    feature = "alloc",
    feature = "queue",
    feature = "timers",
    feature = "sharder",
    feature = "msgpass",
    not(rast_loom)
))]
// The parts offer what the whole example uses; these tests use less.
#![allow(dead_code)]

#[path = "../examples/kv/admin.rs"]
mod admin;
#[path = "../examples/kv/args.rs"]
mod args;
#[path = "../examples/kv/clients.rs"]
mod clients;
#[path = "../examples/kv/command.rs"]
mod command;
#[path = "../examples/kv/conn.rs"]
mod conn;
#[path = "../examples/kv/encode.rs"]
mod encode;
#[path = "../examples/kv/gather.rs"]
mod gather;
#[path = "../examples/kv/glob.rs"]
mod glob;
#[path = "../examples/kv/help.rs"]
mod help;
#[path = "../examples/kv/info.rs"]
mod info;
#[path = "../examples/kv/inline.rs"]
mod inline;
#[path = "../examples/kv/key.rs"]
mod key;
#[path = "../examples/kv/local.rs"]
mod local;
#[path = "../examples/kv/memory.rs"]
mod memory;
#[path = "../examples/kv/message.rs"]
mod message;
#[path = "../examples/kv/refusal.rs"]
mod refusal;
#[path = "../examples/kv/resp.rs"]
mod resp;
#[path = "../examples/kv/ring.rs"]
mod ring;
#[path = "../examples/kv/route.rs"]
mod route;
#[path = "../examples/kv/shared.rs"]
mod shared;
#[path = "../examples/kv/store.rs"]
mod store;
#[path = "../examples/kv/value.rs"]
mod value;
