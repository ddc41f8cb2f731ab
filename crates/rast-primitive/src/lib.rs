//! Atomics, cells, fences, parking and wake-up primitives that run on std, or, with a private cfg,
//! under the model checker loom or shuttle.
//!
//! This is the lowest layer of RAST. Code that uses it is model-checked without changes. With
//! `--cfg rast_loom`, this crate and all crates that use it have loom's atomics, cells, locks and
//! threads. Then [`model::model`] runs a scenario in every interleaving up to a bound on
//! preemptions. With `--cfg rast_shuttle` they have types that shuttle schedules, and a scenario
//! runs in many random interleavings. Without either cfg it runs as a stress test on real threads.
//!
//! # What there is
//!
//! | item | for |
//! | --- | --- |
//! | [`sync`], [`cell`], [`hint`], [`thread`] | std's building blocks of concurrent code, or their replacements in loom or shuttle |
//! | [`CachePadded`] | a value on its own cache lines |
//! | [`Counter`], [`Histogram`], [`LiveHistogram`] | counts that one thread writes and others read |
//! | [`Backoff`], [`WaitStrategy`] | a short wait without sleep; how a longer wait spins and sleeps |
//! | [`TaggedPtr`], [`AtomicTaggedPtr`] | a pointer and a count in one word, changed together |
//! | [`WideTaggedPtr`], [`AtomicWideTaggedPtr`] | the same with a count of full width, in a double word |
//! | [`LinkStack`], [`Link`] | a Treiber stack of linked nodes that is taken as a whole |
//! | [`asymmetric`] | a pair of fences: the frequent one is free, the rare one is a system call |
//! | [`fence_after_exchange`] | a full fence after a read-modify-write, free on x86-64 |
//! | [`Parker`], [`Unparker`] | the sleep of one thread, with a token |
//! | [`LocalParker`], [`LocalUnparker`] | the sleep of the calling thread, woken without a lock |
//! | [`Signal`] | a one-slot event |
//! | [`EventCount`] | sleep until a condition holds; the condition changes without a lock |
//! | [`ClassEvent`] | the same for threads of several classes; a wake-up names one class |
//! | [`Snapshot`] | a value that is replaced as a whole and read without waiting |
//! | [`Processors`] | the processors that a thread may use; moves a thread to one of them, with or without pinning it there |
//! | [`model`] | one scenario under loom, shuttle or std |
//! | [`explore`](mod@explore) | all states of a protocol that is written as a state machine |
//!
//! # When to use it
//!
//! To write lock-free structures or wake-up protocols that are model-checked, or to use one of the
//! finished primitives alone.
//!
//! # When not
//!
//! For locks on hot paths (use `parking_lot`), channels (use `rast-queue` or crossbeam), or async
//! wake-ups (use an executor's own).
//!
//! # Example
//!
//! ```
//! # #[cfg(feature = "std")] {
//! use rast_primitive::sync::{Arc, atomic::{AtomicUsize, Ordering}};
//! use rast_primitive::{EventCount, WaitStrategy, thread};
//!
//! // A one-slot mailbox: 0 is empty.
//! let mail = Arc::new((AtomicUsize::new(0), EventCount::new()));
//! let theirs = Arc::clone(&mail);
//! let sender = thread::spawn(move || {
//!     theirs.0.store(42, Ordering::Release);
//!     theirs.1.notify_one(); // A fence and a load when no thread sleeps.
//! });
//! mail.1.wait_until(WaitStrategy::Adaptive, || mail.0.load(Ordering::Acquire) != 0);
//! assert_eq!(mail.0.load(Ordering::Relaxed), 42);
//! sender.join().unwrap();
//! # }
//! ```
//!
//! # Guarantees
//!
//! - No wake-up of [`Parker`], [`Signal`] or [`EventCount`] is lost. What a thread wrote before it
//!   woke another thread happens-before the return of the other thread's wait. The argument is in
//!   each module's source. For each ordering, `docs/verification.md` names the model that fails if
//!   it is weaker.
//! - Only fences are `SeqCst`, because loom does not model other `SeqCst` operations.
//! - A panic poisons no lock. No user code runs while this crate holds one of its own locks.
//! - Progress: an operation that waits for others has a name that says so (`lock`, `park`, `wait`,
//!   `receive_blocking`, `receive_timeout`). The following take a lock for a few instructions: a
//!   wake-up of a sleeper, `EventCount::prepare` and `cancel`, the drop of a `Key` or a `Signal`,
//!   and the `Signal::send` that sets the event. Everything else is lock-free if the target has the
//!   atomic instructions.
//!
//! # Features and private cfgs
//!
//! - `std` (default): threads, locks, parking, events, [`Snapshot`], [`Processors`], [`model`],
//!   [`explore`](mod@explore), cheap [`asymmetric`] fences; adds the dependencies `parking_lot`,
//!   `crossbeam-epoch`, and on Linux `libc`. The other items need only `no_std` with `alloc`.
//! - `--cfg rast_loom`: everything from loom. Constructors are not `const` there, timed waits time
//!   out at once, and there are no scoped threads.
//! - `--cfg rast_shuttle`: scheduled by shuttle. Layouts and `const` constructors are those of std,
//!   orderings have no effect, timed waits time out at once.
//! - `--cfg rast_tagged_low`, `--cfg rast_tagged_wide`: force the layout of [`TaggedPtr`]; its
//!   tests run with all three layouts:
//!   `RUSTFLAGS="--cfg rast_tagged_low" cargo test -p rast-primitive`.
//!
//! # Platforms
//!
//! Every target of std, or of `core` with pointer-wide atomics. If the target has no 64-bit atomics
//! or no double-word compare-exchange, they come from `portable-atomic`. Models run on 64-bit
//! hosts.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc as std_alloc;
#[cfg(any(feature = "std", rast_loom, rast_shuttle))]
extern crate std;

pub mod asymmetric;
pub mod cell;
pub mod hint;
pub mod panics;
pub mod sync;
#[cfg(feature = "std")]
pub mod thread;

#[cfg(rast_shuttle)]
mod scheduled;

mod backoff;
mod cache_padded;
mod counter;
mod exchange_fence;
mod histogram;
mod link_stack;
mod random;
mod tagged;
mod wait_strategy;

#[cfg(feature = "std")]
mod class_event;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
mod counting;
#[cfg(feature = "std")]
mod deadline;
#[cfg(feature = "std")]
mod event_count;
#[cfg(feature = "std")]
mod local_parker;
#[cfg(feature = "std")]
mod lock;
#[cfg(feature = "std")]
mod parker;
#[cfg(feature = "std")]
mod processors;
#[cfg(feature = "std")]
mod signal;
#[cfg(feature = "std")]
mod snapshot;

#[cfg(feature = "std")]
pub mod explore;
#[cfg(feature = "std")]
pub mod model;

pub use backoff::Backoff;
pub use cache_padded::CachePadded;
#[cfg(feature = "std")]
pub use class_event::{ClassEvent, Seen};
pub use counter::Counter;
#[cfg(all(feature = "std", not(any(rast_loom, rast_shuttle))))]
#[doc(hidden)]
pub use counting::CountingAlloc;
#[cfg(feature = "std")]
pub use event_count::{EventCount, Key};
pub use exchange_fence::fence_after_exchange;
pub use histogram::{Histogram, LiveHistogram};
pub use link_stack::{Link, LinkStack, Linked};
#[cfg(feature = "std")]
pub use local_parker::{LocalParker, LocalUnparker};
#[cfg(feature = "std")]
pub use parker::{Parker, Unparker};
#[cfg(feature = "std")]
pub use processors::Processors;
pub use random::Random;
#[cfg(feature = "std")]
pub use signal::Signal;
#[cfg(feature = "std")]
pub use snapshot::{Snapshot, SnapshotGuard};
pub use tagged::{AddressTooWide, AtomicTaggedPtr, AtomicWideTaggedPtr, TaggedPtr, WideTaggedPtr};
#[cfg(feature = "std")]
pub use thread::thread_local;
pub use wait_strategy::WaitStrategy;
