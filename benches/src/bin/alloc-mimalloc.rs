//! The allocators' workloads with mimalloc, which returns memory by `mi_collect(true)`.

#[cfg(rast_rivals)]
use mimalloc::MiMalloc;

#[cfg(rast_rivals)]
rast_benches::allocator_program!(MiMalloc: MiMalloc, || {
    unsafe extern "C" {
        /// Of mimalloc's own interface, which the crate links but does not declare by default.
        fn mi_collect(force: bool);
    }
    // SAFETY: the call asks for nothing.
    unsafe { mi_collect(true) };
});

/// Without the rivals there is nothing to run.
#[cfg(not(rast_rivals))]
fn main() {}
