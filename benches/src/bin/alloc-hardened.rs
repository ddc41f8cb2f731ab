//! The allocators' workloads with `RastAlloc` that detects misuse.

use rast::alloc::RastAlloc;

rast_benches::allocator_program!(RastAlloc: RastAlloc, || {
    RastAlloc::purge_all();
});
