//! The allocators' workloads with `RastAlloc`.

use rast::alloc::RastAlloc;

rast_benches::allocator_program!(RastAlloc: RastAlloc, || {
    RastAlloc::purge_all();
});
