//! The background thread that returns unused memory to the OS while the program's threads sleep.
//!
//! ```text
//!   a heap's slow path   surplus changed by 1 MiB ──► SURPLUS ──► 16 MiB and more: start or wake
//!   the thread           each delay: purges each heap that no thread uses now, until a thread
//!                        needs that heap or the purge thread is to stop
//!                        nothing left in any heap: sleep until woken
//! ```
//!
//! [`crate::surplus`] defines when the thread starts, and the states that it can have.
//!
//! 1. The state is in a page that the kernel clears in the child of a fork (`MADV_WIPEONFORK`). So
//!    the child, which has no background thread, starts its own when it needs one. If the kernel
//!    does not support such pages, there is no background thread.
//! 2. An allocator call that finds a surplus of 16 MiB or more first leaves its heap and blocks all
//!    signals. Then it starts the background thread by a call of the C library. The background
//!    thread allocates nothing, takes no lock and uses no thread-local. So a thread that unloads
//!    the library may hold the loader's locks while it waits for the background thread to end.
//! 3. The background thread ends before `RastAlloc::set_purge_delay(None)` returns, and before its
//!    library is unloaded or the process has ended.

use core::ffi::c_void;
use core::ptr;
use core::time::Duration;

use crate::delay::DELAY;
use crate::os;
use crate::primitive::sync::atomic::{AtomicBool, Ordering, fence};
use crate::surplus::{
    ASLEEP, AWAKE, CLOSED, IS_WANTED, NONE, RETRY_AT, SHARED, STARTING, STOPPING, SURPLUS, Shared,
    is_wanted, report, shared,
};
use crate::thread_heap::ThreadHeap;

/// The minimum time between two rounds.
const PAUSE_MS: u64 = 10;
/// The maximum time until a waiting thread sees a change of the delay. Normally the change wakes
/// the thread, but not if it comes just before the thread sleeps.
const PART_MS: u64 = 60_000;
/// Time before a further attempt after the system could not start the thread.
const RETRY_MS: u64 = 10_000;
const STACK: usize = 256 << 10;

/// Set permanently when the library is unloaded.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Starts the thread if it is wanted. The caller is outside its heap.
#[inline(always)]
pub(crate) fn start_if_wanted() {
    if is_wanted() {
        start();
    }
}

/// Starts the thread, unless there is one. The caller must not be inside its heap.
#[cold]
fn start() {
    // Relaxed: this call serves a request that is made now. [AU8]
    IS_WANTED.store(false, Ordering::Relaxed);
    let is_started = make_shared().is_some_and(|shared| {
        if !shared.change(NONE, STARTING) {
            return true;
        }
        // SeqCst: pairs with the fence in `stop`: either this thread sees that no thread may run,
        // or the stopping thread sees the state STARTING, and waits. [AU21]
        fence(Ordering::SeqCst);
        // Relaxed: never reset; the fence orders it. [AU9]
        if IS_CLOSED.load(Ordering::Relaxed) || DELAY.get().is_none() {
            shared.change(STARTING, NONE);
            return true;
        }
        let id = spawn();
        // Relaxed: the Release below publishes it. [AU10]
        shared.id.store(id.unwrap_or_default(), Ordering::Relaxed);
        let is_started = id.is_some();
        shared.change(STARTING, if is_started { AWAKE } else { NONE });
        is_started
    });
    if !is_started {
        // Relaxed: as AU5. [AU11]
        RETRY_AT.store(os::now_ms() + RETRY_MS, Ordering::Relaxed);
    }
}

/// Applies a changed delay. The caller must not be inside its heap.
pub(crate) fn resume() {
    report(0);
    if is_wanted() {
        start();
    } else if let Some(shared) = shared() {
        shared.notify();
    }
}

/// Stops the thread, and waits for its end. The caller must first have changed the delay or closed,
/// so that no thread is started any more.
pub(crate) fn stop() {
    // Relaxed: a request flag. [AU12]
    IS_WANTED.store(false, Ordering::Relaxed);
    // SeqCst: pairs with the fence in `start`, as described there. [AU22]
    fence(Ordering::SeqCst);
    let Some(shared) = shared() else { return };
    loop {
        match shared.state() {
            state @ (AWAKE | ASLEEP) => {
                if shared.change(state, STOPPING) {
                    // Relaxed: the Acquire in `change` orders it. [AU13]
                    join(shared.id.load(Ordering::Relaxed));
                    shared.change(STOPPING, NONE);
                    return;
                }
            }
            // Another thread is starting or stopping it.
            state @ (STARTING | STOPPING) => shared.wait(state, None),
            _ => return,
        }
    }
}

/// Stops the thread permanently, before its code is unloaded.
pub(crate) fn close() {
    // Relaxed: the unloading code makes sure that no thread uses the library any more. [AU14]
    IS_CLOSED.store(true, Ordering::Relaxed);
    stop();
    if let Some(shared) = shared() {
        shared.change(NONE, CLOSED);
    }
}

/// Returns the page with the state; `None` if the system cannot clear it in the child of a fork.
fn make_shared() -> Option<&'static Shared> {
    if let Some(shared) = shared() {
        return Some(shared);
    }
    let page = os::map(os::PAGE, os::PAGE)?;
    // SAFETY: the page was mapped above.
    let wiped = unsafe { libc::madvise(page.as_ptr().cast(), os::PAGE, libc::MADV_WIPEONFORK) };
    let published = wiped == 0 && {
        // Release: publishes the page for AU1. If another thread's page came first, AU1 below
        // acquires it. [AU15]
        let before = SHARED.compare_exchange(
            ptr::null_mut(),
            page.as_ptr().cast(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        before.is_ok()
    };
    if !published {
        // SAFETY: the page was mapped above, and was not published.
        unsafe { os::unmap(page, os::PAGE, os::PAGE) };
    }
    shared()
}

/// Starts the thread with all signals blocked; `None` if the system has none.
fn spawn() -> Option<usize> {
    // SAFETY: sets and attributes are plain data, for which zeroes are a value.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { core::mem::zeroed() };
    // SAFETY: the set is a local.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: the sets are locals.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    // A program with many thread-locals needs a larger stack than `STACK`.
    let id = create(Some(STACK)).or_else(|| create(None));
    // SAFETY: the set was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    id
}

fn create(stack: Option<usize>) -> Option<usize> {
    let mut attributes = core::mem::MaybeUninit::uninit();
    // SAFETY: the place is writable.
    if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    if let Some(stack) = stack {
        // SAFETY: the attributes were made above.
        unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack) };
    }
    let mut id = core::mem::MaybeUninit::uninit();
    // SAFETY: the pointers are writable, the attributes were made above, and the body has the right
    // signature.
    let result = unsafe {
        libc::pthread_create(id.as_mut_ptr(), attributes.as_ptr(), body, ptr::null_mut())
    };
    // SAFETY: the attributes were made above.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    // SAFETY: the call succeeded, so it initialised the id.
    (result == 0).then(|| unsafe { id.assume_init() } as usize)
}

fn join(id: usize) {
    // SAFETY: `create` started the thread, and only the thread that stopped it joins it, once.
    unsafe { libc::pthread_join(id as libc::pthread_t, ptr::null_mut()) };
}

/// The body of the thread.
extern "C" fn body(_: *mut c_void) -> *mut c_void {
    // SAFETY: a name of at most 15 bytes and a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"rast-purge".as_ptr()) };
    if let Some(shared) = shared() {
        run(shared);
    }
    ptr::null_mut()
}

fn run(shared: &Shared) {
    loop {
        match shared.state() {
            AWAKE => {}
            // Another thread changes these states soon, or wakes this one. Only a fork could leave
            // them so for ever, and the child of a fork does not have this thread.
            state @ (STARTING | ASLEEP) => {
                shared.wait(state, None);
                continue;
            }
            _ => return,
        }
        let delay = DELAY.get();
        let delay_ms = delay.unwrap_or(0);
        // Slightly longer, so that memory visited in the last round is due in this one.
        let pause_ms = delay_ms.saturating_add(delay_ms / 8).max(PAUSE_MS);
        in_parts(pause_ms, |part_ms| {
            shared.wait(AWAKE, Some(Duration::from_millis(part_ms)));
            shared.state() == AWAKE && DELAY.get() == delay
        });
        if shared.state() != AWAKE || DELAY.get().is_none() {
            continue;
        }
        // Relaxed: loaded before the round, so that a change during the round is seen after it.
        // [AU18]
        let before = SURPLUS.load(Ordering::Relaxed);
        let is_stopped = || shared.state() != AWAKE;
        if !ThreadHeap::visit_all(&is_stopped) {
            fall_asleep(shared, before);
        }
    }
}

/// Waits for parts of a time, one after the other, as long as `wait` returns `true`.
fn in_parts(time_ms: u64, mut wait: impl FnMut(u64) -> bool) {
    let mut left_ms = time_ms;
    while left_ms > 0 {
        let part_ms = left_ms.min(PART_MS);
        left_ms -= part_ms;
        if !wait(part_ms) {
            return;
        }
    }
}

/// Sets the state ASLEEP, unless the surplus is larger than `before`; the loop in `run` then waits.
fn fall_asleep(shared: &Shared, before: i64) {
    if !shared.change(AWAKE, ASLEEP) {
        return;
    }
    // SeqCst: pairs with the fence in `report`, as described there. [AU19]
    fence(Ordering::SeqCst);
    // Relaxed: the fence orders it. [AU20]
    if SURPLUS.load(Ordering::Relaxed) > before {
        shared.change(ASLEEP, AWAKE);
    }
}

#[cfg(all(test, not(rast_system_segments)))]
mod tests {
    use super::*;

    /// A thread that saw the request, and was preempted before it started the thread, starts
    /// nothing once the thread is disabled.
    #[test]
    fn a_request_after_the_stop_starts_no_thread() {
        for ends in [stop as fn(), close] {
            // SAFETY: the child starts or stops at most one thread, and ends; it touches nothing
            // that another thread has.
            let child = unsafe { libc::fork() };
            if child == 0 {
                start();
                let is_started = shared().is_some_and(|shared| shared.state() == AWAKE);
                DELAY.set(None);
                ends();
                start();
                let is_over = shared().is_none_or(|shared| matches!(shared.state(), NONE | CLOSED));
                // SAFETY: it ends here, without what the parent does at its own end.
                unsafe { libc::_exit(i32::from(!is_over) + 2 * i32::from(!is_started)) };
            }
            let mut status = 0;
            // SAFETY: the child is this thread's to wait for, and the status a local.
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((ended, status), (child, 0), "how the child ended");
        }
    }

    /// A long pause is not shortened by its parts. A part at whose end the delay differs is the
    /// last one.
    #[test]
    fn the_parts_of_a_pause_are_the_pause() {
        let hour_ms = 3_600_000;
        for pause_ms in [PAUSE_MS, PART_MS, PART_MS + 1, hour_ms] {
            let mut parts = std::vec::Vec::new();
            in_parts(pause_ms, |part_ms| {
                parts.push(part_ms);
                true
            });
            assert_eq!(parts.iter().sum::<u64>(), pause_ms);
            assert!(parts.iter().all(|part_ms| (1..=PART_MS).contains(part_ms)));
        }
        let mut left = 3;
        in_parts(u64::MAX, |_| {
            left -= 1;
            left > 0
        });
        assert_eq!(left, 0);
    }
}
