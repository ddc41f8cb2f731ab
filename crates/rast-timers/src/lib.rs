//! Clocks with a stated error, amortised measuring timers, exact deadline
//! stores.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc as std_alloc;
#[cfg(feature = "std")]
extern crate std;

mod clock;
mod config;
mod periodic;
pub mod remote;
mod start_finish;
mod store;
mod tick;
mod time;
mod waiting;

#[cfg(feature = "std")]
pub use clock::MonotonicClock;
pub use clock::{Clock, ManualClock};
pub use config::TimerConfig;
pub use periodic::PeriodicTimer;
pub use start_finish::StartFinishTimer;
pub use store::{DeadlineStore, Expired, Handle, HeapStore};
pub use tick::Tick;
pub use time::{Instant, Nanos};
pub use waiting::{Missed, WaitingTimer};

#[doc(hidden)]
pub use rast_queue::{self as queue, alloc, primitive};
