//! A keyed conflating executor: of all values put under a key, only the newest one is kept and handled.
//!
//! TODO
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "std")]
#[doc(hidden)]
pub mod cell;
#[cfg(feature = "std")]
mod mode;

#[cfg(feature = "std")]
mod life;
#[cfg(feature = "std")]
mod marks;
#[cfg(feature = "std")]
mod table;

#[cfg(feature = "std")]
mod config;
#[cfg(feature = "std")]
mod error;
#[cfg(feature = "std")]
mod figures;
#[cfg(feature = "std")]
mod shared;

#[cfg(feature = "std")]
mod conflator;
#[cfg(feature = "std")]
mod consumer;
#[cfg(feature = "std")]
mod handle;
#[cfg(feature = "std")]
mod item;
#[cfg(feature = "std")]
mod producer;
#[cfg(feature = "async")]
mod stream;

#[cfg(feature = "std")]
pub use cell::{Bar, Integer, Merge, Plain, Word};
#[cfg(feature = "std")]
pub use config::{Builder, Growth, Pace, Removed};
#[cfg(feature = "std")]
pub use conflator::Conflator;
#[cfg(feature = "std")]
pub use consumer::{Consumer, Pass};
#[cfg(feature = "std")]
pub use error::{HandleError, PutError, TooManyConsumers};
#[cfg(feature = "std")]
pub use figures::{Figures, KeyFigures};
#[cfg(feature = "std")]
pub use handle::KeyHandle;
#[cfg(feature = "std")]
pub use item::Item;
#[cfg(feature = "async")]
pub use item::OwnedItem;
#[cfg(feature = "std")]
pub use marks::Marks;
#[cfg(feature = "std")]
pub use mode::{Greatest, InPlace, Least, ManyProducers, Merged, Mode, Newest, Sequenced, Sum};
#[cfg(feature = "std")]
pub use producer::{Producer, Removal};
#[cfg(feature = "async")]
pub use stream::Stream;

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_timers::{self as timers, alloc, primitive, queue};
