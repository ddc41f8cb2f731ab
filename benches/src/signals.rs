//! Stops a thread at any instruction, by a signal whose handler does not return until the thread is
//! released.
//!
//! For the other threads, this is like a thread that the system does not schedule for a while. The
//! handler sleeps instead of spinning, so it takes no processor from the observed threads. It
//! accesses three atomics and calls `poll` without a descriptor. POSIX lists `poll` as
//! async-signal-safe, so the handler may interrupt any code.
//!
//! Only one thread at a time stops other threads. It stops them by [`hold`], and releases them by
//! dropping [`Held`].

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const SIGNAL: libc::c_int = libc::SIGUSR1;

/// Time between two checks of the threads that the controller stops or releases.
const LOOK: Duration = Duration::from_micros(50);

/// Requested stops that have not begun.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// Threads inside the handler.
static HELD: AtomicU32 = AtomicU32::new(0);
/// Counts releases; a held thread waits for the next one.
static RELEASES: AtomicU32 = AtomicU32::new(0);

/// A thread to stop.
#[derive(Clone, Copy, Debug)]
pub struct Target(libc::pthread_t);

// SAFETY: an identifier of a thread is a plain value that any thread may use.
unsafe impl Send for Target {}

impl Target {
    /// The calling thread.
    pub fn current() -> Self {
        // SAFETY: the function has no condition.
        Self(unsafe { libc::pthread_self() })
    }
}

/// Threads that are stopped until this is dropped.
#[derive(Debug)]
pub struct Held(());

impl Drop for Held {
    fn drop(&mut self) {
        // Release and Acquire: what the controller reads while the threads are stopped happens
        // before they continue, and the next stop does not begin before all have left the handler.
        RELEASES.fetch_add(1, Ordering::Release);
        while HELD.load(Ordering::Acquire) != 0 {
            thread::sleep(LOOK);
        }
    }
}

/// Stops these threads, and returns when all of them are stopped.
///
/// # Safety
///
/// 1. None of the threads ends before the returned value is dropped.
/// 2. No other thread calls `hold` before then.
///
/// # Panics
///
/// If the system refuses the handler or a signal.
pub unsafe fn hold(targets: &[Target]) -> Held {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
    let wanted = u32::try_from(targets.len()).expect("few threads");
    ASKED.store(wanted, Ordering::Release);
    for target in targets {
        // SAFETY: by obligation 1 the thread lives, and its handler was installed above.
        let refused = unsafe { libc::pthread_kill(target.0, SIGNAL) };
        assert_eq!(refused, 0, "a signal to a thread that lives");
    }
    while HELD.load(Ordering::Acquire) != wanted {
        thread::sleep(LOOK);
    }
    Held(())
}

fn install() {
    // SAFETY: all zeros is a valid value of this C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the pointer is to a field that is alive; the set becomes empty.
    unsafe { libc::sigemptyset(&raw mut action.sa_mask) };
    // SAFETY: the action is initialized, its handler has the type that its flags say and is
    // async-signal-safe, and no old action is requested.
    let refused = unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
    assert_eq!(refused, 0, "{}", io::Error::last_os_error());
}

extern "C" fn on_signal(_: libc::c_int) {
    let one_less = |asked: u32| asked.checked_sub(1);
    let asked = ASKED.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less);
    if asked.is_err() {
        // Another thread's signal.
        return;
    }
    let releases = RELEASES.load(Ordering::Acquire);
    HELD.fetch_add(1, Ordering::Release);
    while RELEASES.load(Ordering::Acquire) == releases {
        // errno stays as it is: without descriptors this fails only when another signal's handler
        // interrupts it, and this program has no other handler. SAFETY: no descriptor is passed, so
        // the pointer is not read.
        unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
    }
    HELD.fetch_sub(1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::sync::mpsc;

    #[test]
    fn a_held_thread_does_nothing_until_released() {
        let (count, end) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let (count, end) = (&count, &end);
            scope.spawn(move || {
                tell.send(Target::current()).expect("the test lives");
                while !end.load(Ordering::Relaxed) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            let target = told.recv().expect("the thread began");
            for _ in 0..3 {
                // SAFETY: the thread ends after `end` is set, below; this is the one controller.
                let held = unsafe { hold(&[target]) };
                let before = count.load(Ordering::Relaxed);
                for _ in 0..1000 {
                    thread::yield_now();
                }
                assert_eq!(count.load(Ordering::Relaxed), before);
                drop(held);
                while count.load(Ordering::Relaxed) == before {
                    thread::yield_now();
                }
            }
            end.store(true, Ordering::Relaxed);
        });
    }
}
