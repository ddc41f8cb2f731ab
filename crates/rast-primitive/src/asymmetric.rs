//! A pair of fences of unequal cost: the frequent fence is free, and the rare one is expensive.
//!
//! ```text
//!   often:  store x        rarely:  store y
//!           order                   barrier
//!           load  y                 load  x
//! ```
//!
//! If [`barrier`] returns `true`, at least one of the two threads sees the other's store, as if
//! both fences were `fence(SeqCst)`. Two calls of [`order`] guarantee nothing to each other.
//!
//! On Linux, `barrier` is the system call `membarrier` (private, expedited). It makes each
//! processor that runs a thread of this process execute a full fence. A processor that runs no such
//! thread executed a full fence when it last switched threads. So the thread that calls `order`
//! executes a full fence at some point of its program order. If the store of `x` precedes this
//! point, the load of `x` after `barrier` sees it. Otherwise the load of `y` follows this point,
//! and sees the store of `y`, which preceded the call of `barrier`. `order` only has to keep the
//! compiler from moving the load above the store.
//!
//! Folly and the C++ proposal P1202 have such a pair.

use crate::sync::atomic::{Ordering, fence};

/// The cheap fence, for the thread that often needs one: it calls this function between its store
/// and its load. No instruction on any system.
///
/// It has an effect only towards a thread whose call of [`barrier`] returned `true`.
#[inline(always)]
pub fn order() {
    #[cfg(rast_loom)]
    // SeqCst: this fence and the one in `barrier` have a common order. [AF1]
    fence(Ordering::SeqCst);
    #[cfg(not(rast_loom))]
    // SeqCst: the compiler does not move the store above below the load that follows; `barrier`
    // orders the processor. [AF3]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// The expensive fence of the pair. The thread that seldom needs a fence calls this function
/// between its store and its load. The other thread calls [`order`]. Returns `false` if the system
/// has no such barrier or rejects the call. Then no fence was executed for the other thread, and
/// the caller knows nothing about it.
///
/// After `false` the caller must assume that the other thread has not seen the caller's store. So
/// use this function only where the caller can then give up its operation.
///
/// Lock-free if the system call is. The call takes some microseconds, or more with many processors.
/// The first call of a process registers the process, which takes the kernel 10 to 20 ms if there
/// are several threads. The barrier orders the threads of one process, not of two processes that
/// share memory.
///
/// ```
/// use rast_primitive::asymmetric;
/// use rast_primitive::sync::atomic::{AtomicBool, Ordering};
///
/// static BUSY: AtomicBool = AtomicBool::new(false);
/// static STOP: AtomicBool = AtomicBool::new(false);
///
/// // Often.
/// BUSY.store(true, Ordering::Relaxed);
/// asymmetric::order();
/// if !STOP.load(Ordering::Relaxed) {
///     // Work.
/// }
/// BUSY.store(false, Ordering::Release);
///
/// // Seldom: at least one of the two threads sees what the other stored, if there is such a
/// // barrier.
/// STOP.store(true, Ordering::Relaxed);
/// if asymmetric::barrier() && !BUSY.load(Ordering::Acquire) {
///     // The other thread is not at work, and will not begin.
/// }
/// ```
#[must_use = "false: there was no fence for other threads"]
pub fn barrier() -> bool {
    // SeqCst: pairs with the fence in `order` under a model checker; the system's barrier fences
    // the other threads. [AF2]
    fence(Ordering::SeqCst);
    cfg!(any(rast_loom, rast_shuttle)) || system::barrier()
}

#[cfg(all(
    feature = "std",
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri))
))]
mod system {
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    /// Fences all other threads of the process; registers the process first if needed.
    pub(super) fn barrier() -> bool {
        membarrier(PRIVATE_EXPEDITED)
            || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: membarrier accesses no memory of ours, and rejects unknown commands.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        result == 0
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Runs `body` in the child of a fork, and expects true.
        fn holds_in_a_child(body: impl FnOnce() -> bool) {
            // SAFETY: the child makes system calls and ends; it touches nothing that another thread
            // may have locked.
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

        #[test]
        fn the_child_of_a_fork_is_registered_as_its_parent() {
            if barrier() {
                holds_in_a_child(|| membarrier(PRIVATE_EXPEDITED) && barrier());
            }
        }

        #[test]
        fn a_barrier_that_is_forbidden_is_none() {
            let _ = barrier();
            holds_in_a_child(|| forbid() && !barrier());
        }
    }
}

#[cfg(not(all(
    feature = "std",
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri))
)))]
mod system {
    pub(super) fn barrier() -> bool {
        false
    }
}
