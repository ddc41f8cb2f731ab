//! A pair of fences of unequal cost: the one on the hot path is free, the other pays for both.
//!
//! ```text
//!   often:  store x        seldom:  store y
//!           light                   heavy
//!           load  y                 load  x
//! ```
//!
//! Of the two threads at least one sees the other's store, as if both fences were `fence(SeqCst)`.
//! Two light fences promise nothing to each other; two heavy ones do.
//!
//! On Linux, heavy is the system call `membarrier` (private, expedited): it makes each processor that runs a thread of
//! this process execute a full fence, and one that runs none has executed one when it left off.
//! So there is a point in the program order of the other thread at which that fence stands. If its store of `x` comes
//! before that point, the load of `x` after heavy sees it; otherwise its load of `y` comes after that point too, and sees
//! the store of `y`, which came before the call. What is left for light is to keep the compiler from moving the load up.
//! Elsewhere, and where the system refuses, both are full fences, and the argument is the language's own.
//!
//! Folly and the C++ proposal P1202 have the same pair.

use crate::sync::atomic::{Ordering, fence};

/// The cheap half: between a store and a load of the thread that passes often.
///
/// Wait-free; no instruction but the load of a flag once [`prepare`] has found the system able, a full fence otherwise.
///
/// ```
/// use rast_primitive::asymmetric;
/// use rast_primitive::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// static BUSY: AtomicBool = AtomicBool::new(false);
/// static STOP: AtomicBool = AtomicBool::new(false);
///
/// // Often: of this thread and the one below, at least one sees what the other stored.
/// BUSY.store(true, Relaxed);
/// asymmetric::light();
/// let may_go_on = !STOP.load(Relaxed);
/// BUSY.store(false, Relaxed);
/// assert!(may_go_on);
///
/// // Seldom.
/// STOP.store(true, Relaxed);
/// if asymmetric::heavy() {
///     assert!(!BUSY.load(Relaxed));
/// }
/// ```
#[inline]
pub fn light() {
    if system::is_able() {
        system::order();
    } else {
        // SeqCst: of this fence and the one in `heavy` one is first in their common order, so the thread whose fence is
        // second sees the other's store. [AF1]
        fence(Ordering::SeqCst);
    }
}

/// The dear half: between a store and a load of the thread that passes seldom; false if it could not be executed.
///
/// False only where [`light`] relies on the system and the system, asked again, refuses: because a filter of system calls
/// was installed after the first call (then for good), or for want of memory. The caller has then learnt nothing about the
/// other thread, and needs another way.
///
/// Lock-free as far as the kernel is; a system call of some microseconds, more with many processors. It orders threads of
/// one process, not of two that share memory.
#[must_use = "false: there was no fence"]
pub fn heavy() -> bool {
    prepare();
    // SeqCst: pairs with the full fence that light may be; the barrier behind it fences the others. [AF2]
    fence(Ordering::SeqCst);
    system::is_unable() || system::barrier()
}

/// Asks the system once whether it has the barrier; before that [`light`] is a full fence.
///
/// To be called where something is set up anyway: the first call of a process that has several threads takes the kernel
/// 10 to 20 ms. Others do not wait for it: while it asks, [`light`] goes on as a full fence. A queue asks with its first
/// segment; a program that minds asks when it starts.
#[inline]
pub fn prepare() {
    system::prepare();
}

#[cfg(all(
    feature = "std",
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri))
))]
mod system {
    use core::sync::atomic::{AtomicU8, Ordering, compiler_fence};

    /// Nobody has asked; somebody is asking; the system is able; it is not.
    const UNKNOWN: u8 = 0;
    const ASKING: u8 = 1;
    const ABLE: u8 = 2;
    const UNABLE: u8 = 3;

    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    #[inline]
    pub(super) fn is_able() -> bool {
        // Relaxed: who reads an old value executes a full fence, which pairs with either kind of heavy; ABLE is stored
        // after the process was registered, and is for good. [AF3]
        STATE.load(Ordering::Relaxed) == ABLE
    }

    /// False also while somebody asks: others may find the answer to be ABLE at any time.
    pub(super) fn is_unable() -> bool {
        // Relaxed: UNABLE is for good, so that nobody ever found ABLE. [AF7]
        STATE.load(Ordering::Relaxed) == UNABLE
    }

    /// Keeps the compiler from moving an access across.
    #[inline]
    pub(super) fn order() {
        // SeqCst: the store above is not moved below the load that follows; the processor is held to it by heavy. [AF6]
        compiler_fence(Ordering::SeqCst);
    }

    pub(super) fn prepare() {
        // Relaxed: a guess. [AF4]
        if STATE.load(Ordering::Relaxed) != UNKNOWN {
            return;
        }
        // Relaxed: the one who asks is told apart, no more. [AF5]
        let asks = STATE.compare_exchange(UNKNOWN, ASKING, Ordering::Relaxed, Ordering::Relaxed);
        if asks.is_ok() {
            let found = if membarrier(REGISTER_PRIVATE_EXPEDITED) {
                ABLE
            } else {
                UNABLE
            };
            // Relaxed: as in is_able. [AF8]
            STATE.store(found, Ordering::Relaxed);
        }
    }

    pub(super) fn barrier() -> bool {
        // The registration may be under way in another thread, or lost in a process restored from a checkpoint.
        membarrier(PRIVATE_EXPEDITED)
            || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: membarrier reads and writes no memory of ours; what it does not know it refuses.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        result == 0
    }
}

#[cfg(not(all(
    feature = "std",
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri))
)))]
mod system {
    #[inline]
    pub(super) const fn is_able() -> bool {
        false
    }

    pub(super) const fn is_unable() -> bool {
        true
    }

    #[inline]
    pub(super) const fn order() {}

    #[inline]
    pub(super) const fn prepare() {}

    pub(super) fn barrier() -> bool {
        true
    }
}
