//! The allocators' workloads with the system's allocator; glibc's returns memory by `malloc_trim`.

use std::alloc::System;

rast_benches::allocator_program!(System: System, collect);

fn collect() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call asks for nothing.
    unsafe {
        libc::malloc_trim(0);
    }
}
