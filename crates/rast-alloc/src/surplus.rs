//! The surplus that starts the background thread, and the state of that thread.
//!
//! The surplus is the number of committed bytes beyond those in use, as a sum of what heaps report.
//! It only decides when the thread starts or wakes ([`crate::purge_thread`]); the thread finds the
//! memory to return by decay passes over the heaps.
//!
//! | `state` | set by |
//! | --- | --- |
//! | none | the kernel, which clears the page of the state in the child of a fork; the thread that stopped the background thread |
//! | starting | the thread that starts it |
//! | awake | the thread that starts or wakes it; the background thread itself, if the surplus grew while it fell asleep |
//! | asleep | the background thread, once nothing is left to return |
//! | stopping | the thread that stops it, and waits for its end |
//! | closed | the thread that unloads the library; permanently |

use core::ptr;
use core::time::Duration;

use crate::delay::DELAY;
use crate::os;
use crate::primitive::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// The surplus from which on the background thread runs.
const START_BYTES: i64 = 16 << 20;

pub(crate) const NONE: u32 = 0;
pub(crate) const STARTING: u32 = 1;
pub(crate) const AWAKE: u32 = 2;
pub(crate) const ASLEEP: u32 = 3;
pub(crate) const STOPPING: u32 = 4;
pub(crate) const CLOSED: u32 = 5;

/// Committed bytes beyond those in use, as reported by the heaps.
pub(crate) static SURPLUS: AtomicI64 = AtomicI64::new(0);
/// Whether the next call that exits its heap starts the thread.
pub(crate) static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// When the next attempt to start it is allowed, in milliseconds.
pub(crate) static RETRY_AT: AtomicU64 = AtomicU64::new(0);
/// The page with the state; null before the first start.
pub(crate) static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());
/// The page that the kernel clears in the child of a fork; all zeroes are a valid value.
pub(crate) struct Shared {
    pub(crate) state: AtomicU32,
    /// The id of the thread, while there is one.
    pub(crate) id: AtomicUsize,
}

/// Returns the page with the state, if there is one.
pub(crate) fn shared() -> Option<&'static Shared> {
    // Acquire: pairs with the Release in `make_shared`; the page is initialised. [AU1]
    let shared = SHARED.load(Ordering::Acquire);
    // SAFETY: the page is never unmapped once it is published.
    unsafe { shared.as_ref() }
}

/// Adds a change of a heap's surplus. Does not wait; starts or wakes the background thread if the
/// surplus is large.
#[cold]
pub(crate) fn report(change: i64) {
    // Relaxed: a sum; the fence below orders it before the load of the state. [AU2]
    let surplus = SURPLUS.fetch_add(change, Ordering::Relaxed) + change;
    if surplus < START_BYTES || DELAY.get().is_none() {
        return;
    }
    // SeqCst: pairs with the fence in `fall_asleep`: either this thread finds it asleep, or it sees
    // the change. [AU3]
    fence(Ordering::SeqCst);
    // Relaxed: a guess; the exchange decides. [AU4]
    match shared().map_or(NONE, |shared| shared.state.load(Ordering::Relaxed)) {
        NONE => {
            // Relaxed: a time; it publishes nothing. [AU5]
            let retry_at = RETRY_AT.load(Ordering::Relaxed);
            if retry_at == 0 || os::now_ms() >= retry_at {
                // Relaxed: a request flag. [AU6]
                IS_WANTED.store(true, Ordering::Relaxed);
            }
        }
        ASLEEP => wake(),
        _ => {}
    }
}

/// Returns `true` if the background thread should be started.
#[inline(always)]
pub(crate) fn is_wanted() -> bool {
    // Relaxed: a request flag. [AU7]
    IS_WANTED.load(Ordering::Relaxed)
}

fn wake() {
    if let Some(shared) = shared() {
        shared.change(ASLEEP, AWAKE);
    }
}

impl Shared {
    pub(crate) fn state(&self) -> u32 {
        // Acquire: pairs with the Release in `change`; the thread's id is seen. [AU16]
        self.state.load(Ordering::Acquire)
    }

    /// Changes the state and wakes all waiting threads. Returns `false` if the state was not
    /// `from`.
    pub(crate) fn change(&self, from: u32, to: u32) -> bool {
        // AcqRel: publishes the thread's id, and what the thread did before it ended, to a thread
        // that finds the new state. [AU17]
        let changed = self
            .state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        if changed.is_ok() {
            self.notify();
        }
        changed.is_ok()
    }

    /// Waits until the state is not `state`, or until the time is over; may return early.
    pub(crate) fn wait(&self, state: u32, most: Option<Duration>) {
        let most = most.map(|most| libc::timespec {
            tv_sec: most.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: most.subsec_nanos().into(),
        });
        let most = most.as_ref().map_or(ptr::null(), ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is mapped for good, and the time, if there is one, a local.
        unsafe { libc::syscall(libc::SYS_futex, self.state.as_ptr(), operation, state, most) };
    }

    pub(crate) fn notify(&self) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is mapped for good.
        unsafe { libc::syscall(libc::SYS_futex, self.state.as_ptr(), operation, i32::MAX) };
    }
}
