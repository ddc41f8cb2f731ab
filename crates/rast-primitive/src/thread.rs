//! Threads, from std, loom or shuttle.
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
#[cfg(rast_shuttle)]
use shuttle::thread as imp;
#[cfg(not(any(rast_loom, rast_shuttle)))]
use std::thread as imp;

#[cfg(rast_shuttle)]
pub use crate::scheduled::yield_now;
#[cfg(not(rast_shuttle))]
pub use imp::yield_now;
pub use imp::{JoinHandle, LocalKey, ThreadId, spawn};
#[cfg(not(rast_loom))]
pub use imp::{Scope, ScopedJoinHandle, scope};
pub use std::thread::panicking;

/// `std::thread_local!`, or in a model loom's or shuttle's.
#[cfg(any(rast_loom, rast_shuttle))]
pub use crate::model_thread_local as thread_local;
#[cfg(rast_loom)]
#[doc(hidden)]
pub use loom::thread_local as model_local;
#[cfg(rast_shuttle)]
#[doc(hidden)]
pub use shuttle::thread_local as model_local;
/// `std::thread_local!`, or in a model loom's or shuttle's.
#[cfg(not(any(rast_loom, rast_shuttle)))]
pub use std::thread_local;

/// loom's thread-locals have no `const` form.
#[cfg(any(rast_loom, rast_shuttle))]
#[doc(hidden)]
#[macro_export]
macro_rules! model_thread_local {
    ($(#[$meta:meta])* static $name:ident: $type:ty = const { $value:expr };) => {
        $crate::thread::model_local! { $(#[$meta])* static $name: $type = $value; }
    };
    ($($any:tt)*) => {
        $crate::thread::model_local! { $($any)* }
    };
}

/// Starts a thread with a name for debuggers and panic messages.
///
/// # Panics
///
/// If the name contains a zero byte.
///
/// # Errors
///
/// The error of the system if it cannot start a thread.
pub fn spawn_named<F, T>(name: String, f: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    imp::Builder::new().name(name).spawn(f)
}

/// Sets how late the system may end a timed sleep of the calling thread, to save power. Returns
/// `true` if it was set.
///
/// Linux uses 50 µs by default; the value 0 sets this default. Elsewhere, and under loom, shuttle
/// and Miri, the call does nothing. One system call.
///
/// ```
/// # #[cfg(all(target_os = "linux", not(any(rast_loom, rast_shuttle, miri))))]
/// assert!(rast_primitive::thread::set_timer_slack(1));
/// ```
pub fn set_timer_slack(nanos: u32) -> bool {
    #[cfg(all(
        any(target_os = "linux", target_os = "android"),
        not(any(rast_loom, rast_shuttle, miri))
    ))]
    {
        // SAFETY: the call reads a number and touches no memory of ours.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(nanos)) == 0 }
    }
    #[cfg(not(all(
        any(target_os = "linux", target_os = "android"),
        not(any(rast_loom, rast_shuttle, miri))
    )))]
    {
        let _ = nanos;
        false
    }
}

/// Returns the identity of the calling thread.
#[must_use]
pub fn current_id() -> ThreadId {
    imp::current().id()
}

/// Returns the number of threads that can run at once: at least 1, and 2 in a model.
///
/// Reads system files on Linux; call it once and store the result.
pub fn available_parallelism() -> usize {
    #[cfg(not(any(rast_loom, rast_shuttle)))]
    return imp::available_parallelism().map_or(1, core::num::NonZero::get);
    #[cfg(any(rast_loom, rast_shuttle))]
    2
}

/// As [`spawn_named`], with a stack of `stack_bytes` if that is given. Under loom and shuttle the
/// size is ignored.
///
/// # Panics
///
/// As [`spawn_named`].
///
/// # Errors
///
/// As [`spawn_named`].
///
/// ```
/// use rast_primitive::thread;
///
/// let worker = thread::spawn_sized("small".into(), Some(1 << 20), || 6 * 7).unwrap();
/// assert_eq!(worker.join().unwrap(), 42);
/// ```
pub fn spawn_sized<F, T>(
    name: String,
    stack_bytes: Option<usize>,
    f: F,
) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let builder = imp::Builder::new().name(name);
    #[cfg(not(any(rast_loom, rast_shuttle)))]
    let builder = match stack_bytes {
        Some(bytes) => builder.stack_size(bytes),
        None => builder,
    };
    #[cfg(any(rast_loom, rast_shuttle))]
    let _ = stack_bytes;
    builder.spawn(f)
}
