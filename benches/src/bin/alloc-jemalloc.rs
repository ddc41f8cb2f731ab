//! The allocators' workloads with jemalloc, which returns memory by a purge of all its arenas.

#[cfg(rast_rivals)]
use tikv_jemallocator::Jemalloc;

#[cfg(rast_rivals)]
rast_benches::allocator_program!(Jemalloc: Jemalloc, || {
    use std::ffi::{c_char, c_int, c_void};
    use std::ptr;

    unsafe extern "C" {
        /// Of jemalloc's own interface, under the prefix that the crate builds it with.
        #[link_name = "_rjem_mallctl"]
        fn mallctl(
            name: *const c_char,
            old: *mut c_void,
            old_length: *mut usize,
            new: *mut c_void,
            new_length: usize,
        ) -> c_int;
    }
    for name in [c"thread.tcache.flush", c"arena.4096.purge"] {
        // SAFETY: both take and give no value; 4096 means all arenas.
        let refused = unsafe {
            mallctl(name.as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0)
        };
        assert_eq!(refused, 0, "{name:?}");
    }
});

/// Without the rivals there is nothing to run.
#[cfg(not(rast_rivals))]
fn main() {}
