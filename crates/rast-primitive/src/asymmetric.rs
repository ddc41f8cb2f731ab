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
    #[cfg(rast_loom)]
    if bare::IS_BARE.get() {
        return;
    }
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
    #[cfg(rast_loom)]
    if bare::IS_BARE.get() {
        return false;
    }
    prepare();
    // SeqCst: pairs with the full fence that light may be; the barrier behind it fences the others. [AF2]
    fence(Ordering::SeqCst);
    system::is_unable() || system::barrier() || system::is_unable()
}

/// The cheap half of [`barrier`]: no instruction on any system, and no fence by itself.
///
/// Between a store and a load of the thread that passes often, as [`light`]. It is worth something only to a thread whose
/// call of `barrier` returned true.
#[inline(always)]
pub fn order() {
    #[cfg(rast_loom)]
    // SeqCst: of this fence and the one in `barrier` one is first in their common order. [AF9]
    fence(Ordering::SeqCst);
    #[cfg(not(rast_loom))]
    // SeqCst: the store above is not moved below the load that follows; the processor is held to it by `barrier`. [AF11]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// The dear half of [`order`]; false where the system has no such barrier, and nothing is learnt then.
///
/// For protocols that can do without: where this returns false, the thread that passes seldom leaves the other one alone.
///
/// ```
/// use rast_primitive::asymmetric;
/// use rast_primitive::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// static BUSY: AtomicBool = AtomicBool::new(false);
/// static STOP: AtomicBool = AtomicBool::new(false);
///
/// // Often.
/// BUSY.store(true, Relaxed);
/// asymmetric::order();
/// let may_go_on = !STOP.load(Relaxed);
/// BUSY.store(false, Relaxed);
/// assert!(may_go_on);
///
/// // Seldom: of the two threads at least one sees what the other stored, if there is such a barrier.
/// STOP.store(true, Relaxed);
/// let is_stopped = asymmetric::barrier() && !BUSY.load(Relaxed);
/// ```
///
/// Lock-free as far as the kernel is; costs as [`heavy`].
#[must_use = "false: there was no fence"]
pub fn barrier() -> bool {
    prepare();
    // SeqCst: pairs with the fence that `order` is in a model; the system's barrier fences the others. [AF10]
    fence(Ordering::SeqCst);
    cfg!(any(rast_loom, rast_shuttle)) || !system::is_unable() && system::barrier()
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

/// Runs models in which [`light`] is nothing at all, and [`heavy`] says so.
///
/// The full fence that `light` is in a model publishes and acquires, too, which it does not where it relies on the system;
/// it hides orderings beside it that are too weak. Models of the protocol that the fences belong to need them, others of the
/// same structure do without.
#[cfg(rast_loom)]
#[doc(hidden)]
pub fn without_fences(models: impl FnOnce()) {
    let _with_fences = bare::Begun::new();
    models();
}

#[cfg(rast_loom)]
mod bare {
    use core::cell::Cell;

    // A model runs all of its threads on the one that called it.
    std::thread_local! {
        pub(super) static IS_BARE: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) struct Begun;

    impl Begun {
        pub(super) fn new() -> Self {
            IS_BARE.set(true);
            Self
        }
    }

    impl Drop for Begun {
        fn drop(&mut self) {
            IS_BARE.set(false);
        }
    }
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
            decide(membarrier(REGISTER_PRIVATE_EXPEDITED));
        }
    }

    /// Fences all others; if it cannot, and nobody can have found ABLE, nobody will.
    pub(super) fn barrier() -> bool {
        // The registration may be under way in another thread, or lost in a process restored from a checkpoint.
        let is_done = membarrier(PRIVATE_EXPEDITED)
            || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED);
        // The thread that asks may be stopped for good, or none of this process: the child of a fork has but one of its
        // parent's. If the system refuses before anybody can have found ABLE, nobody ever will.
        decide(is_done);
        is_done
    }

    /// Ends ASKING, unless another thread has; returns what it ended with.
    fn decide(is_able: bool) -> u8 {
        let found = if is_able { ABLE } else { UNABLE };
        // Relaxed: as in is_able; one answer wins, and is for good. [AF8]
        match STATE.compare_exchange(ASKING, found, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => found,
            Err(decided) => decided,
        }
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: membarrier reads and writes no memory of ours; what it does not know it refuses.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        result == 0
    }

    #[cfg(test)]
    mod tests {
        use super::super::{barrier, heavy, prepare};
        use super::*;

        /// Runs `body` in the child of a fork, and expects true.
        fn holds_in_a_child(body: impl FnOnce() -> bool) {
            // SAFETY: the child makes system calls and ends; it touches nothing that another thread may have locked.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let holds = body();
                // SAFETY: it ends here, without what the parent does at its own end.
                unsafe { libc::_exit(libc::c_int::from(!holds)) };
            }
            assert!(child > 0, "fork");
            let mut status = 0;
            // SAFETY: the child is this thread's to wait for, and the status a local.
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((ended, status), (child, 0), "what the child found");
        }

        /// The system refuses the call from here on, in this process.
        fn forbid() -> bool {
            let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
                code: code as u16,
                jt,
                jf,
                k,
            };
            // Load the call's number; is it membarrier? Refuse, or allow.
            let mut filter = [
                step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
                step(
                    libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                    0,
                    1,
                    libc::SYS_membarrier as u32,
                ),
                step(
                    libc::BPF_RET | libc::BPF_K,
                    0,
                    0,
                    libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
                ),
                step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
            ];
            let program = libc::sock_fprog {
                len: filter.len() as u16,
                filter: filter.as_mut_ptr(),
            };
            // SAFETY: it takes numbers.
            let kept = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            let mode = libc::SECCOMP_MODE_FILTER;
            // SAFETY: the program and its steps are live locals.
            let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
            kept == 0 && set == 0 && !membarrier(PRIVATE_EXPEDITED)
        }

        fn state() -> u8 {
            STATE.load(Ordering::Relaxed)
        }

        #[test]
        fn the_child_of_a_fork_is_registered_as_its_parent() {
            prepare();
            if is_able() {
                holds_in_a_child(|| is_able() && membarrier(PRIVATE_EXPEDITED) && heavy());
            }
        }

        /// The thread that asked was stopped, or is not there in the child of a fork.
        #[test]
        fn nobody_depends_on_who_asks() {
            holds_in_a_child(|| {
                STATE.store(ASKING, Ordering::Relaxed);
                let found = [UNABLE, ABLE];
                heavy() && state() == found[usize::from(membarrier(PRIVATE_EXPEDITED))]
            });
            holds_in_a_child(|| {
                STATE.store(ASKING, Ordering::Relaxed);
                // Its answer comes too late: others go by full fences from then on.
                forbid() && heavy() && state() == UNABLE && decide(true) == UNABLE && heavy()
            });
        }

        #[test]
        fn without_the_barrier_all_fences_are_full() {
            holds_in_a_child(|| {
                STATE.store(UNKNOWN, Ordering::Relaxed);
                forbid() && heavy() && state() == UNABLE
            });
        }

        #[test]
        fn a_barrier_says_whether_it_was_one() {
            prepare();
            holds_in_a_child(|| barrier() == is_able());
            holds_in_a_child(|| forbid() && !barrier());
        }

        #[test]
        fn a_barrier_that_is_forbidden_later_is_not_taken_for_one() {
            prepare();
            if is_able() {
                holds_in_a_child(|| forbid() && !heavy() && state() == ABLE);
            }
        }
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
        false
    }
}
