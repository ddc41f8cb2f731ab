//! The background thread that gives unneeded memory back while the threads of the program sleep.
//!
//! ```text
//!   a heap's slow path   surplus changed by 1 MiB ──► SURPLUS ──► 16 MiB and more: start or wake
//!   the thread           each delay: a bounded step for each heap that no thread uses now
//!                        nothing left in any heap: sleep until woken
//! ```
//!
//! The surplus is what is committed beyond the bytes in use, as a sum of what heaps report. It only
//! says when to begin. What goes back is found by looks at the heaps ([`ThreadHeap::visit`]).
//!
//! | `state` | set by |
//! | --- | --- |
//! | none | the kernel, in the child of a fork; the thread that stopped the background thread |
//! | starting, awake | the thread that starts it; the one that wakes it |
//! | asleep | the background thread, once there is nothing left to give back |
//! | stopping | the thread that stops it, and waits for its end |
//! | closed | the thread that unloads the library; for good |
//!
//! 1. The state lies in a page that the kernel clears in the child of a fork (`MADV_WIPEONFORK`).
//!    So the child, which has no background thread, starts one of its own when it needs one. Where
//!    the kernel has no such pages there is no thread.
//! 2. The thread is started after the call that found the surplus has left its heap, by the C
//!    library, with all signals blocked. It allocates nothing, takes no lock and touches no
//!    thread-local, so that the loader may hold its locks while it is stopped.
//! 3. It ends before `RastAlloc::set_purge_delay(None)` returns, and before the library that it
//!    belongs to is unloaded or the process has ended.

use core::ffi::c_void;
use core::ptr;
use core::time::Duration;

use crate::delay::DELAY;
use crate::os;
use crate::primitive::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use crate::thread_heap::ThreadHeap;

/// The surplus from which on memory is given back in the background.
const LEAST: i64 = 16 << 20;
/// The least time between two rounds.
const PAUSE_MS: u64 = 10;
/// How long no thread tries to start the thread after the system refused.
const RETRY_MS: u64 = 10_000;
const STACK: usize = 256 << 10;

const NONE: u32 = 0;
const STARTING: u32 = 1;
const AWAKE: u32 = 2;
const ASLEEP: u32 = 3;
const STOPPING: u32 = 4;
const CLOSED: u32 = 5;

/// Bytes committed beyond those in use, as far as heaps reported them.
static SURPLUS: AtomicI64 = AtomicI64::new(0);
/// Whether the thread is to be started by the next call that leaves its heap.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// When it may be tried again, in milliseconds.
static RETRY_AT: AtomicU64 = AtomicU64::new(0);
/// The page with the state; null before the first start.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());
/// Whether there shall be no thread any more.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// What the kernel clears in the child of a fork; all zeroes are a value.
struct Shared {
    state: AtomicU32,
    /// The thread, while there is one.
    id: AtomicUsize,
}

fn shared() -> Option<&'static Shared> {
    // Acquire: pairs with the Release in `make_shared`; the page is seen as it was made. [AU1]
    let shared = SHARED.load(Ordering::Acquire);
    // SAFETY: the page is never unmapped once it is published.
    unsafe { shared.as_ref() }
}

/// Adds a change of a heap's surplus; returns at once, and wakes the thread if there is much.
#[cold]
pub(crate) fn report(change: i64) {
    // Relaxed: a sum; the fence below orders it before the look at the state. [AU2]
    let surplus = SURPLUS.fetch_add(change, Ordering::Relaxed) + change;
    if surplus < LEAST || DELAY.get().is_none() {
        return;
    }
    // SeqCst: pairs with the fence in `fall_asleep`: either this thread finds it asleep, or it sees
    // the change. [AU3]
    fence(Ordering::SeqCst);
    // Relaxed: a guess; the exchange decides. [AU4]
    match shared().map_or(NONE, |shared| shared.state.load(Ordering::Relaxed)) {
        NONE => {
            // Relaxed: a time; nothing hangs on it. [AU5]
            let retry_at = RETRY_AT.load(Ordering::Relaxed);
            if retry_at == 0 || os::now_ms() >= retry_at {
                // Relaxed: a wish. [AU6]
                IS_WANTED.store(true, Ordering::Relaxed);
            }
        }
        ASLEEP => wake(),
        _ => {}
    }
}

/// Whether [`start`] should be called.
#[inline(always)]
pub(crate) fn is_wanted() -> bool {
    // Relaxed: a wish. [AU7]
    IS_WANTED.load(Ordering::Relaxed)
}

fn wake() {
    if let Some(shared) = shared() {
        shared.change(ASLEEP, AWAKE);
    }
}

/// Starts the thread, unless there is one. The caller is outside of its heap.
#[cold]
pub(crate) fn start() {
    // Relaxed: a wish that comes now is done with this one. [AU8]
    IS_WANTED.store(false, Ordering::Relaxed);
    let is_started = make_shared().is_some_and(|shared| {
        if !shared.change(NONE, STARTING) {
            return true;
        }
        // SeqCst: pairs with the fence in `stop`: either this thread sees why there shall be none,
        // or the one that stops it sees that it starts, and waits for that. [AU21]
        fence(Ordering::SeqCst);
        // Relaxed: for good; the fence orders it. [AU9]
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
        // Relaxed: as for [AU5]. [AU11]
        RETRY_AT.store(os::now_ms() + RETRY_MS, Ordering::Relaxed);
    }
}

/// Goes by a delay that was changed. The caller is outside of its heap.
pub(crate) fn resume() {
    report(0);
    if is_wanted() {
        start();
    } else if let Some(shared) = shared() {
        shared.notify();
    }
}

/// Stops the thread, and waits for its end; a bounded step of its work at most. The caller has said
/// before, by the delay or by closing, that there shall be none.
pub(crate) fn stop() {
    // Relaxed: a wish. [AU12]
    IS_WANTED.store(false, Ordering::Relaxed);
    // SeqCst: pairs with the fence in `start`, as said there. [AU22]
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
            // Another thread starts or stops it.
            state @ (STARTING | STOPPING) => shared.wait(state, None),
            _ => return,
        }
    }
}

/// Stops the thread for good, before its code goes away.
pub(crate) fn close() {
    // Relaxed: who unloads a library sees to it that no thread uses it any more. [AU14]
    IS_CLOSED.store(true, Ordering::Relaxed);
    stop();
    if let Some(shared) = shared() {
        shared.change(NONE, CLOSED);
    }
}

/// The page with the state; `None` if the system cannot clear it in the child of a fork.
fn make_shared() -> Option<&'static Shared> {
    if let Some(shared) = shared() {
        return Some(shared);
    }
    let page = os::map(os::PAGE, os::PAGE)?;
    // SAFETY: the page was mapped above.
    let wiped = unsafe { libc::madvise(page.as_ptr().cast(), os::PAGE, libc::MADV_WIPEONFORK) };
    let published = wiped == 0 && {
        // Release: publishes the page for [AU1]. Acquire: another thread's, if it came first.
        // [AU15]
        let before = SHARED.compare_exchange(
            ptr::null_mut(),
            page.as_ptr().cast(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        before.is_ok()
    };
    if !published {
        // SAFETY: the page was mapped above, and no thread knows it.
        unsafe { os::unmap(page, os::PAGE, os::PAGE) };
    }
    shared()
}

impl Shared {
    fn state(&self) -> u32 {
        // Acquire: pairs with the Release in `change`; the thread's id is seen. [AU16]
        self.state.load(Ordering::Acquire)
    }

    /// Changes the state and wakes all that wait for that; false if it was another one.
    fn change(&self, from: u32, to: u32) -> bool {
        // AcqRel: publishes the thread's id, and what it did before it ended, to who finds the
        // state. [AU17]
        let changed = self
            .state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        if changed.is_ok() {
            self.notify();
        }
        changed.is_ok()
    }

    /// Waits until the state is not `state`, or for so long; may return before.
    fn wait(&self, state: u32, most: Option<Duration>) {
        let most = most.map(|most| libc::timespec {
            tv_sec: most.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: most.subsec_nanos().into(),
        });
        let most = most.as_ref().map_or(ptr::null(), ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is mapped for good, and the time, if there is one, a local.
        unsafe { libc::syscall(libc::SYS_futex, self.state.as_ptr(), operation, state, most) };
    }

    fn notify(&self) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is mapped for good.
        unsafe { libc::syscall(libc::SYS_futex, self.state.as_ptr(), operation, i32::MAX) };
    }
}

/// Starts the thread with all signals blocked; `None` if the system has none.
fn spawn() -> Option<usize> {
    // SAFETY: sets and attributes are plain data, for which zeroes are a value.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { core::mem::zeroed() };
    // SAFETY: the set is a local.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: the sets are locals.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    // A program with many thread-locals needs a longer stack than ours.
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
    // SAFETY: the places are writable, the attributes were made above, and the body has the right
    // signature.
    let result = unsafe {
        libc::pthread_create(id.as_mut_ptr(), attributes.as_ptr(), body, ptr::null_mut())
    };
    // SAFETY: the attributes were made above.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    // SAFETY: the call succeeded, so it wrote the place.
    (result == 0).then(|| unsafe { id.assume_init() } as usize)
}

fn join(id: usize) {
    // SAFETY: the thread was started by `create` and is joined once, by the thread that made it
    // stop.
    unsafe { libc::pthread_join(id as libc::pthread_t, ptr::null_mut()) };
}

/// The thread.
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
            // No thread starts a thread and leaves it so, but in the child of a fork, where there
            // is no such thread.
            state @ (STARTING | ASLEEP) => {
                shared.wait(state, None);
                continue;
            }
            _ => return,
        }
        let delay_ms = DELAY.get().unwrap_or(0);
        // A little longer, so that what was looked at in the last round is due in this one.
        let pause_ms = delay_ms.saturating_add(delay_ms / 8).max(PAUSE_MS);
        shared.wait(AWAKE, Some(Duration::from_millis(pause_ms)));
        if shared.state() != AWAKE || DELAY.get().is_none() {
            continue;
        }
        // Relaxed: read before the round, so that what comes during it is seen after. [AU18]
        let before = SURPLUS.load(Ordering::Relaxed);
        let is_stopped = || shared.state() != AWAKE;
        if !ThreadHeap::visit_all(&is_stopped) {
            fall_asleep(shared, before);
        }
    }
}

/// Sleeps until woken, unless something changed since the surplus was `before`.
fn fall_asleep(shared: &Shared, before: i64) {
    if !shared.change(AWAKE, ASLEEP) {
        return;
    }
    // SeqCst: pairs with the fence in `report`, as said there. [AU19]
    fence(Ordering::SeqCst);
    // Relaxed: the fence orders it. [AU20]
    if SURPLUS.load(Ordering::Relaxed) > before {
        shared.change(ASLEEP, AWAKE);
    }
}

#[cfg(all(test, not(rast_system_segments)))]
mod tests {
    use super::*;

    /// A thread that saw the wish, and was stopped before it went about it, starts nothing once
    /// there shall be no thread.
    #[test]
    fn a_wish_that_is_over_starts_no_thread() {
        for ends in [stop as fn(), close] {
            // SAFETY: the child starts or ends a thread at most, and ends; it touches nothing that
            // another thread has.
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
}
