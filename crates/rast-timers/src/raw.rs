//! Three instructions and one system call for which std has no function.
//!
//! Each function here is safe to call from anywhere. Its caller documents what the returned value
//! may be used for.
#![allow(
    unsafe_code,
    reason = "instructions and a call for which std has no function"
)]

/// Whether this build can read a counter of the processor at all.
pub(crate) const HAS_COUNTER: bool = cfg!(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
));

/// Reads the time-stamp counter; instructions around it may run before or
/// after.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn counter() -> u64 {
    // SAFETY: RDTSC accesses no memory. A system may forbid it to programs (CR4.TSD); then the
    // instruction traps, as an absent one would.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the time-stamp counter after all preceding instructions have run.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn counter_ordered() -> u64 {
    // SAFETY: LFENCE is in every processor with SSE2, which x86-64 has.
    unsafe { core::arch::x86_64::_mm_lfence() };
    counter()
}

/// Returns whether the processor guarantees a counter of constant rate in all its states (CPUID
/// 80000007h, EDX bit 8).
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn counter_is_invariant() -> bool {
    const POWER: u32 = 0x8000_0007;
    #[allow(
        unused_unsafe,
        reason = "CPUID is safe to call in newer releases of Rust"
    )]
    // SAFETY: every x86-64 processor has CPUID.
    let greatest = unsafe { core::arch::x86_64::__cpuid(0x8000_0000) }.eax;
    if greatest < POWER {
        return false;
    }
    #[allow(
        unused_unsafe,
        reason = "CPUID is safe to call in newer releases of Rust"
    )]
    // SAFETY: as above; the leaf exists.
    let power = unsafe { core::arch::x86_64::__cpuid(POWER) };
    power.edx & (1 << 8) != 0
}

/// Reads the virtual count of the generic timer; instructions around it may
/// run before or after.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
pub(crate) fn counter() -> u64 {
    let count: u64;
    // SAFETY: reads one register, which an operating system makes readable for programs; it
    // accesses no memory.
    unsafe {
        core::arch::asm!(
            "mrs {count}, cntvct_el0",
            count = out(reg) count,
            options(nomem, nostack, preserves_flags)
        );
    }
    count
}

/// Reads the virtual count after all preceding instructions have run.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
pub(crate) fn counter_ordered() -> u64 {
    // SAFETY: ISB accesses no memory; without `nomem` the compiler moves no access across it.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) };
    counter()
}

/// The architecture guarantees a constant rate of the generic timer.
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(crate) fn counter_is_invariant() -> bool {
    true
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod absent {
    pub(crate) fn counter() -> u64 {
        0
    }

    pub(crate) fn counter_ordered() -> u64 {
        0
    }

    pub(crate) fn counter_is_invariant() -> bool {
        false
    }
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
pub(crate) use absent::{counter, counter_is_invariant, counter_ordered};

/// Returns the nanoseconds of a clock of the system, `None` if the system call fails.
#[cfg(all(feature = "std", any(target_os = "linux", target_os = "android")))]
#[inline]
pub(crate) fn nanos_of(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local timespec, which the call fills.
    let refused = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if refused != 0 {
        return None;
    }
    // Neither part is ever negative.
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
