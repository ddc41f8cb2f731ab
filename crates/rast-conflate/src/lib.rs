//! A keyed conflating executor: of all values put under a key, only the newest is kept and handled.
//!
//! Producers put values under keys, from any number of threads; consumers pass the newest value of
//! each key to handlers. A value that no consumer took before the next put is replaced; the
//! producer of the newer value drops the older one.
//!
//! # What is here
//!
//! | item | for |
//! | --- | --- |
//! | [`Conflator`], [`Builder`] | the conflator itself: keys, statistics, `close`, `drain` |
//! | [`Producer`], [`KeyHandle`] | putting values; a put by a handle does not hash the key |
//! | [`Consumer`], [`Item`] | handling: `pass`, `run`, `try_next` |
//! | [`Newest`], [`InPlace`], [`Sequenced`], [`Sum`], [`Least`], [`Greatest`], [`Merged`] | how two values of a key are combined |
//! | [`Marks`], [`Growth`], [`Removed`], [`Pace`] | settings |
//! | `Stream` (feature `async`) | handling in an async task |
//!
//! # When to use it, and when not
//!
//! Use it where updates come faster than they can be handled and only the newest per key matters:
//! quotes, positions, sensor readings, cache invalidations. Where every value counts, use a queue.
//! For one key, a watch channel is simpler.
//!
//! # Example
//!
//! ```
//! use rast_conflate::primitive::WaitStrategy;
//! use rast_conflate::Conflator;
//! use std::thread;
//!
//! let positions = Conflator::<u32, (f64, f64)>::new();
//! let consumers: Vec<_> = (0..2)
//!     .map(|_| {
//!         let mut consumer = positions.consumer().unwrap();
//!         thread::spawn(move || {
//!             consumer.run(WaitStrategy::Adaptive, |ship, (x, y)| {
//!                 println!("ship {ship} is at {x}, {y}");
//!             })
//!         })
//!     })
//!     .collect();
//!
//! let mut producer = positions.producer();
//! let ships: Vec<_> = (0..10).map(|ship| positions.handle(&ship).unwrap()).collect();
//! for minute in 0..1000 {
//!     for ship in &ships {
//!         producer.put(ship, (f64::from(minute), f64::from(*ship.key()))).unwrap();
//!     }
//! }
//! positions.close();
//! for consumer in consumers {
//!     consumer.join().unwrap();
//! }
//! let figures = positions.figures();
//! assert_eq!(figures.submitted, 10_000);
//! assert_eq!(figures.handled + figures.conflated, 10_000);
//! ```
//!
//! # Guarantees
//!
//! - The last value of a key is handled. No older value of a key is handled after a newer one.
//! - A key is handled by one consumer at a time.
//! - In a pass each key is handled at most once. With equal priorities and no [`Pace`], each key
//!   that had a value when the pass began is handled, so no key starves.
//! - Every accepted value is handled, conflated (replaced by or combined with a newer one),
//!   returned, or lost to a panicking handler. It is counted as such ([`Figures`]).
//! - A put by the handle of a live key (one that was not removed) is wait-free. There are two
//!   exceptions, in which it is only lock-free: mode [`Merged`], and on x86-64 the modes [`Least`]
//!   and [`Greatest`]. Such a put allocates nothing, and makes a system call only to wake a
//!   sleeping consumer. A suspended producer delays only its own value; in mode [`Merged`] it also
//!   delays the earlier values that it is merging with its own.
//! - Inserting a key, removing it and growing the tables are lock-free; sleeping and waking take a
//!   lock.
//! - A panic of a handler is caught and counted. A panic of a merge function or of a value's drop
//!   propagates to the caller of the put. No panic of user code blocks a key or leaks a cell;
//!   `docs/algorithms/conflate.md` lists all cases.
//!
//! # Memory
//!
//! The first table has two cells for each key of [`Builder::keys`], and at least 64. After growth
//! the tables have two to twelve cells per key. A cell takes some 190 bytes with its key. In mode
//! [`Newest`] a key also has a node of its value's size. Tables are freed with the conflator.
//!
//! # Features and platforms
//!
//! - `async`: `Stream`, with the dependency `futures-core`.
//!
//! Runs on every platform on which `rast-primitive` has threads. The algorithm and its correctness
//! arguments are in `docs/algorithms/conflate.md`.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate std;

#[doc(hidden)]
pub mod cell;
mod mode;

mod life;
mod marks;
mod table;

mod config;
mod error;
mod figures;
mod shared;

mod builder;
mod conflator;
mod consumer;
mod handle;
mod item;
mod producer;
#[cfg(feature = "async")]
mod stream;

pub use builder::Builder;
pub use cell::{Bar, Integer, Merge, Plain, Word};
pub use config::{Growth, Pace, Removed};
pub use conflator::Conflator;
pub use consumer::{Consumer, Pass};
pub use error::{HandleError, PutError, TooManyConsumers};
pub use figures::{Figures, KeyFigures};
pub use handle::KeyHandle;
pub use item::Item;
#[cfg(feature = "async")]
pub use item::OwnedItem;
pub use marks::Marks;
pub use mode::{Greatest, InPlace, Least, ManyProducers, Merged, Mode, Newest, Sequenced, Sum};
pub use producer::{Producer, Removal};
#[cfg(feature = "async")]
pub use stream::Stream;
pub use table::KeyHandler;

// The crates whose types are in signatures here, so that a program uses the same versions.
#[doc(no_inline)]
pub use rast_timers::{self as timers, alloc, primitive, queue};
