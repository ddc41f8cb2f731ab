//! Clocks, amortised measuring timers with a stated bound, and exact deadline
//! stores.
//!
//! A reading of the system clock costs more than many a message handler. The
//! timers here read it once in a batch of calls and answer from a prediction in
//! between, yet every answer stays within a bound that is proved and tested.
//!
//! # What is here
//!
//! - [`Instant`] and [`Nanos`]: a point in time and a span, one `u64` of
//!   nanoseconds each.
//! - [`Clock`], with [`MonotonicClock`] and [`BootClock`] of the system,
//!   [`CoarseClock`] for the price of a load, and [`ManualClock`] for tests;
//!   [`ThreadClock`], which stands still while its thread does not run.
//! - [`TscClock`]: the processor's counter as a clock, with an [`Interval`] that
//!   says how wrong it may be.
//! - [`Tick`]: a word in which a loop publishes what time it last read; a
//!   [`Guard`] of the timers, one of several.
//! - [`PeriodicTimer`]: the time since the last call.
//! - [`StartFinishTimer`]: how long pairs of calls take in sum, with an error
//!   bar.
//! - `LatencyHistogram` (feature `histogram`): percentiles of pairs, always on.
//! - [`at_site!`]: each place in the code its own timer.
//! - [`WaitingTimer`]: whether a period is over; never early.
//! - [`DeadlineStore`]: values that wait for their time, with cancellation;
//!   [`CalendarStore`] at constant cost, [`LaneStore`] for timeouts of a few
//!   durations, [`FiringStore`] for what is hardly ever cancelled, [`HeapStore`]
//!   for few.
//! - [`remote`]: timers of one owner that any thread arms and cancels.
//!
//! # When to use it, and when not
//!
//! Use the timers where a loop turns anyway and can publish a tick: a worker
//! that measures its shards, a poll loop with periodic chores. Where a call
//! comes less than once in some microseconds, read the clock: nothing is gained
//! here. For one short duration, exact to itself, read the clock twice: a single
//! answer of these timers is an estimate, only their sums are bounded.
//!
//! # Example
//!
//! ```
//! use rast_timers::{
//!     Clock, DeadlineStore, HeapStore, MonotonicClock, Nanos, StartFinishTimer, Tick,
//!     TimerConfig, WaitingTimer,
//! };
//!
//! let clock = MonotonicClock::new();
//! let tick = Tick::new();
//! let config = TimerConfig::new();
//! let mut chore = WaitingTimer::new(clock, Nanos::from_millis(2), config);
//! let mut busy = StartFinishTimer::new(clock, config);
//! let mut deadlines = HeapStore::new();
//! deadlines.insert(clock.now().saturating_add(Nanos::from_millis(1)), "timeout");
//!
//! let mut chores = 0;
//! while chores < 2 {
//!     // The loop reads the clock once a turn, for all timers in it.
//!     let now = clock.now();
//!     tick.publish(now);
//!     deadlines.expire(now, 64, |due| assert_eq!(due.value, "timeout"));
//!     for _ in 0..100 {
//!         busy.start(&tick);
//!         std::hint::black_box(());
//!         busy.finish(&tick);
//!     }
//!     if chore.check(&tick) {
//!         chores += 1;
//!     }
//! }
//! assert!(deadlines.is_empty());
//! println!("busy for {} (give or take {})", busy.sum(), busy.error());
//! ```
//!
//! # Guarantees
//!
//! P is the period of the [`TimerConfig`], τ the period at which the tick is
//! published, δ how late it may be.
//!
//! - Periodic: −P ≤ now − sum ≤ τ + δ at every call, for every pattern of calls.
//! - Start-finish: the true sum lies within `sum ± error`, for every pattern.
//! - Waiting: never early, and a call at τ + δ past the deadline fires.
//! - Counter: the interval holds what the reference shows, under two assumptions
//!   that each anchor tests; the clock never runs backwards.
//! - Stores: due at the deadline and not before it, in order; a stale handle
//!   names nothing; a panic in a callback loses one value.
//! - Remote: each accepted value is fired, cancelled, or dropped with its owner,
//!   exactly one of these, and a cancel is told at once which.
//!
//! - Progress: timers, ticks and stores belong to one thread, or are one load or
//!   store of a word; each store says what it costs, and allocates where it grows.
//!   [`remote`] has the progress of the queue beneath it.
//!
//! The unsafe code is three small files: one reads the processor's counter and two
//! clocks of the system, one keeps the places of a lane, and one is a slot whose value
//! may be absent. The proofs, and the faults of the source document that
//! they answer, are in `docs/algorithms/timers.md`.
//!
//! # Deliberately simple for now
//!
//! Each arm through [`remote`] allocates once. The interfaces are meant to stay.
//!
//! # Features and platforms
//!
//! - `std` (default): [`MonotonicClock`], [`BootClock`] and [`ThreadClock`] on Linux
//!   and Android (brings `libc` there), [`TscClock`], [`Ticker`],
//!   [`at_site!`]. Without it the crate is `no_std` with
//!   `alloc`.
//! - `histogram`: `LatencyHistogram`; brings `hdrhistogram`.
//!
//! Runs wherever `rast-primitive` does; 64-bit atomics come from there.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

extern crate alloc as std_alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "std")]
mod raw;
mod time;

mod clock;
mod config;
#[cfg(feature = "std")]
mod counter;
mod guard;
mod interval;
mod tick;
#[cfg(feature = "std")]
mod tsc;

#[cfg(feature = "histogram")]
mod latency;
mod periodic;
#[cfg(feature = "std")]
mod site;
mod start_finish;
mod waiting;

pub mod remote;
mod store;

#[cfg(all(feature = "std", any(target_os = "linux", target_os = "android")))]
pub use clock::{BootClock, ThreadClock};
pub use clock::{Clock, CoarseClock, ManualClock};
#[cfg(feature = "std")]
pub use clock::{MonotonicClock, Ticker};
pub use config::TimerConfig;
#[cfg(feature = "std")]
pub use counter::{Counter, NoCounter, Tsc};
pub use guard::Guard;
pub use interval::Interval;
#[cfg(feature = "histogram")]
pub use latency::LatencyHistogram;
pub use periodic::PeriodicTimer;
pub use start_finish::StartFinishTimer;
pub use store::{
    CalendarStore, DeadlineStore, Expired, FiringStore, Handle, HeapStore, LaneStore, Step, Swept,
};
pub use tick::Tick;
pub use time::{Instant, Nanos};
#[cfg(any(rast_loom, rast_shuttle))]
#[doc(hidden)]
pub use tsc::{Leaves, Track, Word};
#[cfg(feature = "std")]
pub use tsc::{TscClock, TscConfig, TscGuard, TscStatus, Unstable};
pub use waiting::{Missed, WaitingTimer};

// The layers beneath: signatures here name their types, and one version serves all.
#[doc(no_inline)]
pub use rast_queue::{self as queue, alloc, primitive};

/// What the macros name; not for use by hand.
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod __private {
    pub use crate::primitive::thread_local as local;
    pub use core::cell::RefCell;
}
