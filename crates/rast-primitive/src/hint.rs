//! Hints for the processor, or for the scheduler of a model.

/// Tells the processor that this is a spin loop; in a model lets other threads run.
#[cfg(rast_shuttle)]
pub use crate::scheduled::yield_now as spin_loop;
/// Tells the processor that this is a spin loop; in a model lets other threads run.
#[cfg(not(any(rast_loom, rast_shuttle)))]
pub use core::hint::spin_loop;
/// Tells the processor that this is a spin loop; in a model lets other threads run.
#[cfg(rast_loom)]
pub use loom::hint::spin_loop;

/// Asks the processor to fetch the cache line at `address`, to be written soon.
///
/// Only a hint: any address is allowed, and nothing is read or written. It does nothing under loom,
/// under Miri, and on a processor without such an instruction.
///
/// The instruction is inline assembly instead of the compiler's intrinsic. The intrinsic uses the
/// prefetch for reads, unless the build's target features include the prefetch for writes. After a
/// prefetch for reads, a write must fetch the line a second time if another processor also has it.
///
/// ```
/// let slots = [0_u64; 64];
/// rast_primitive::hint::prefetch_write(&raw const slots[32]);
/// ```
#[inline(always)]
#[cfg_attr(
    all(target_arch = "x86_64", not(rast_loom), not(miri)),
    expect(
        clippy::pointers_in_nomem_asm_block,
        reason = "the line is asked for; no memory is read or written"
    )
)]
pub fn prefetch_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(rast_loom), not(miri)))]
    // SAFETY: PREFETCHW faults on no address and changes no register, flag or memory; 64-bit
    // processors without it execute a no-operation.
    unsafe {
        core::arch::asm!(
            "prefetchw [{address}]",
            address = in(reg) address,
            options(nomem, nostack, preserves_flags)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(rast_loom), not(miri))))]
    let _ = address;
}

/// Asks the processor to fetch the cache line at `address`, to be read soon.
///
/// Only a hint: any address is allowed, and nothing is read. It does nothing under loom, under
/// Miri, and on targets other than x86-64.
///
/// ```
/// let slots = [0_u64; 64];
/// rast_primitive::hint::prefetch_read(&raw const slots[32]);
/// ```
#[inline(always)]
pub fn prefetch_read<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(rast_loom), not(miri)))]
    // SAFETY: it faults on no address and changes no register, flag or memory. Every x86-64
    // processor has the instruction, which is part of SSE.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(rast_loom), not(miri))))]
    let _ = address;
}

/// Returns `value`, hidden from the optimizer: the compiler then knows only its type.
///
/// Use it for a bound that the compiler should not exploit. If the maximum count of a loop is a
/// small constant, the compiler would unroll the loop to a chain of comparisons, which is slower
/// than vector code. On x86-64, and on aarch64 with 64-bit pointers, the call costs a register but
/// no instruction. Elsewhere and under Miri it does nothing, so no result may depend on it.
///
/// ```
/// assert_eq!(rast_primitive::hint::opaque(8), 8);
/// ```
#[inline(always)]
#[must_use]
pub fn opaque(value: usize) -> usize {
    #[cfg(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_pointer_width = "64",
        not(miri)
    ))]
    {
        let mut value = value;
        // SAFETY: no instruction: the register is unchanged, and nothing else is touched.
        unsafe {
            core::arch::asm!(
                "/* {value} */",
                value = inout(reg) value,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        value
    }
    #[cfg(not(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        target_pointer_width = "64",
        not(miri)
    )))]
    value
}
