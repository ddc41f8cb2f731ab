//! A library with `RastAlloc` as its global allocator, for a test that loads and unloads it.
#![cfg(not(any(rast_loom, rast_shuttle)))]

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: rast_alloc::RastAlloc = rast_alloc::RastAlloc;

/// Takes so many bytes in blocks of many sizes, writes to them and frees them; returns their
/// number.
#[unsafe(no_mangle)]
pub extern "C" fn work(bytes: usize) -> usize {
    let (mut blocks, mut left) = (Vec::new(), bytes);
    while left > 0 {
        let block = vec![1_u8; (16 + left * 7919 % 5000).min(left)];
        left -= block.len();
        blocks.push(block);
    }
    std::hint::black_box(&blocks).len()
}
