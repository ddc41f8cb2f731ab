//! Threads, from std or from loom.
//!
//! # Examples
//!
//! ```
//! use rast_primitive::thread;
//!
//! let worker = thread::spawn_named("worker-0".into(), || 6 * 7).unwrap();
//! assert_eq!(worker.join().unwrap(), 42);
//! assert!(thread::available_parallelism() >= 1);
//! ```

use std::io;
use std::string::String;

#[cfg(rast_loom)]
use loom::thread as imp;
#[cfg(not(rast_loom))]
use std::thread as imp;

pub use imp::{JoinHandle, LocalKey, ThreadId, spawn, yield_now};
#[cfg(not(rast_loom))]
pub use imp::{Scope, ScopedJoinHandle, panicking, scope};
#[cfg(rast_loom)]
pub use std::thread::panicking;

/// `std::thread_local!`, or loom's in a model.
#[cfg(rast_loom)]
pub use loom::thread_local;
/// `std::thread_local!`, or loom's in a model.
#[cfg(not(rast_loom))]
pub use std::thread_local;

/// Starts a thread that bears `name` in debuggers and panic messages.
///
/// # Errors
///
/// What the system says when it refuses another thread.
pub fn spawn_named<F, T>(name: String, f: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    imp::Builder::new().name(name).spawn(f)
}

/// Returns the identity of the calling thread.
#[must_use]
pub fn current_id() -> ThreadId {
    imp::current().id()
}

/// Returns how many threads can run at once here: at least 1, and 2 in a model.
///
/// Reads system files on Linux; ask once and keep the answer.
pub fn available_parallelism() -> usize {
    #[cfg(not(rast_loom))]
    return imp::available_parallelism().map_or(1, core::num::NonZero::get);
    #[cfg(rast_loom)]
    2
}
