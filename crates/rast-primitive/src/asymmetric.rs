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
/// assert!(asymmetric::heavy() && !BUSY.load(Relaxed));
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
/// False only where [`light`] relies on the system and the system, asked again, refuses, for instance because a filter of
/// system calls was installed after the first call. The caller has then learnt nothing about the other thread.
///
/// Lock-free; a system call of about a microsecond, longer the more processors run threads of the process.
#[must_use = "false: there was no fence"]
pub fn heavy() -> bool {
    prepare();
    // SeqCst: pairs with the full fence that light may be; the barrier behind it fences the others. [AF2]
    fence(Ordering::SeqCst);
    !system::is_able() || system::barrier()
}

/// Asks the system once whether it has the barrier; before that [`light`] is a full fence.
///
/// To be called where something is set up anyway. Wait-free but for the first call's system call.
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

    /// Nobody has asked; the system is able; it is not.
    const UNKNOWN: u8 = 0;
    const ABLE: u8 = 1;
    const UNABLE: u8 = 2;

    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    #[inline]
    pub(super) fn is_able() -> bool {
        // Relaxed: it changes once, away from UNKNOWN; who reads an old value executes a full fence, which pairs with
        // either kind of heavy. ABLE was stored after the process was registered, and heavy reads it coherently after
        // its own `prepare`. [AF3]
        STATE.load(Ordering::Relaxed) == ABLE
    }

    /// Keeps the compiler from moving an access across.
    #[inline]
    pub(super) fn order() {
        // SeqCst: the store above is not moved below the load that follows; the processor is held to it by heavy. [AF6]
        compiler_fence(Ordering::SeqCst);
    }

    pub(super) fn prepare() {
        // Relaxed: as above. [AF4]
        if STATE.load(Ordering::Relaxed) != UNKNOWN {
            return;
        }
        let found = if membarrier(REGISTER_PRIVATE_EXPEDITED) {
            ABLE
        } else {
            UNABLE
        };
        // Relaxed: the first answer holds for all threads. [AF5]
        let _ = STATE.compare_exchange(UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn barrier() -> bool {
        // A child made by `vfork`, or one whose registration was lost, may register again.
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

    #[inline]
    pub(super) const fn order() {}

    #[inline]
    pub(super) const fn prepare() {}

    pub(super) fn barrier() -> bool {
        true
    }
}
