//! Clocks, amortised measuring timers with a stated error bound, and exact deadline stores.
//!
//! Reading the system clock costs more than many message handlers. The timers here read it once per
//! batch of calls and predict the time in between. A single returned time is an estimate; the error
//! of the sums, and the delay of [`WaitingTimer`], have bounds that are proved and tested.
//!
//! # What is here
//!
//! - [`Instant`] and [`Nanos`]: a point in time and a span, one `u64` of nanoseconds each.
//! - [`Clock`]: a source of time. [`MonotonicClock`] and [`BootClock`] read clocks of the system,
//!   and [`CoarseClock`] costs one load. [`ThreadClock`] counts only while its thread runs.
//!   [`ManualClock`] is for tests.
//! - [`TscClock`]: the processor's counter as a clock; its [`Interval`] contains the true time.
//! - [`Tick`]: a word in which a loop publishes its last clock reading. A tick is a [`Guard`]: a
//!   timer that finds the word unchanged knows that little time has passed.
//! - [`PeriodicTimer`]: the time since the last call.
//! - [`StartFinishTimer`]: the total duration of pairs of calls, with an error bound.
//! - `LatencyHistogram` (feature `histogram`): percentiles of the durations of such pairs, cheap
//!   enough for production.
//! - [`at_site!`]: a timer of its own for each call site.
//! - [`WaitingTimer`]: reports that a period is over, and never too early.
//! - [`DeadlineStore`]: values that wait for their deadlines and can be cancelled.
//!   [`CalendarStore`] has constant cost, [`LaneStore`] is for timeouts that have few different
//!   durations, [`FiringStore`] for values that are hardly ever cancelled, and [`HeapStore`] for
//!   few values.
//! - [`remote`]: timers that one thread (the owner) fires, and that any thread arms and cancels.
//!
//! # When to use it, and when not
//!
//! Use the timers where a loop runs continuously and can publish a tick: a worker that measures its
//! shards, or a poll loop with periodic chores. If the calls are some microseconds apart or more,
//! the timers save nothing: read the clock instead. For one short, exact duration read the clock
//! twice, because the timers bound only the error of their sums.
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
//!     // The loop reads the clock once per iteration, for all timers in it.
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
//! P is the period of the [`TimerConfig`]. τ is the period at which the tick is published, and δ is
//! how late a publication may be.
//!
//! - Periodic: −P ≤ now − sum ≤ τ + δ at every call, for every pattern of calls.
//! - Start-finish: the true sum lies within `sum ± error`, for every pattern.
//! - Waiting: the timer never fires early, and a call τ + δ or more after the deadline fires.
//! - Counter: the interval of a `TscClock` contains the time of the reference clock, if the counter
//!   has a constant rate and the drift of the reference clock is bounded. While a `TscClock` is
//!   read, it tests these two assumptions about once per millisecond. It never runs backwards.
//! - Stores: a value is due at its deadline and not before, and values leave in deadline order
//!   (except by `expire_unordered`). After a value has left, its handle never refers to a value
//!   again. A panic in a callback loses one value.
//! - Remote: each accepted value is fired, cancelled, or dropped with its owner, exactly once. A
//!   cancel reports at once whether it was in time.
//!
//! - Progress: timers and stores belong to one thread. A tick is read with one load; publishing is
//!   a load and a `fetch_max`. Each store documents its cost, and allocates only when it grows.
//!   [`remote`] has the progress guarantee of the queue beneath it.
//!
//! The unsafe code is in three modules. `raw` reads the processor's counter and two system clocks.
//! `store::lane::places` stores the entries of a lane. `store::calendar::slot` is a slot whose
//! value may be absent. The proofs, and the faults of the original RAST design, are in
//! `docs/algorithms/timers.md`.
//!
//! # Allocation
//!
//! Arming a [`remote`] timer allocates once.
//!
//! # Features and platforms
//!
//! - `std` (default): [`MonotonicClock`], [`TscClock`], [`ContainedClock`], [`Ticker`] and
//!   [`at_site!`] on all platforms; [`BootClock`] and [`ThreadClock`] on Linux and Android, with
//!   the dependency `libc`. Without `std` the crate is `no_std` with `alloc`.
//! - `histogram`: `LatencyHistogram`, with the dependency `hdrhistogram`.
//!
//! Runs on every platform of `rast-primitive`, which provides the 64-bit atomics.
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
pub use clock::{ContainedClock, MonotonicClock, Ticker};
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

/// Items that the macros name; not for direct use.
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod __private {
    pub use crate::primitive::thread_local as local;
    pub use core::cell::RefCell;
}
