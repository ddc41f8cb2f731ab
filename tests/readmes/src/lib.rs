//! The examples of every README, run as doc tests.
//!
//! `cargo test -p readmes --doc`

/// Names the READMEs; each becomes the documentation of an item that exists only for doc tests.
macro_rules! readmes {
    ($($name:ident: $path:literal),+ $(,)?) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!($path)]
            pub mod $name {}
        )+
    };
}

readmes! {
    root: "../../../README.md",
    alloc: "../../../crates/rast-alloc/README.md",
    executor: "../../../crates/rast-executor/README.md",
    conflate: "../../../crates/rast-conflate/README.md",
    facade: "../../../crates/rast/README.md",
    msgpass: "../../../crates/rast-msgpass/README.md",
    primitive: "../../../crates/rast-primitive/README.md",
    queue: "../../../crates/rast-queue/README.md",
    reactor: "../../../crates/rast-reactor/README.md",
    scheduler: "../../../crates/rast-scheduler/README.md",
    sharder: "../../../crates/rast-sharder/README.md",
    timers: "../../../crates/rast-timers/README.md",
}
