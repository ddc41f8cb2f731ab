//! rast-alloc: `RastAlloc` against the system's allocator.
//!
//! Called in place, so `RastAlloc` may be inlined where a global allocator could not be.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

use rast::alloc::RastAlloc;

use crate::harness::Scenario;
use crate::workers::{Job, Sample, alone, together};

const LAYER: &str = "alloc";

/// A small xorshift generator: the same sequence for every contender.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// A block with the layout it was taken with; given back on drop.
struct Block<'a, A: GlobalAlloc> {
    allocator: &'a A,
    address: *mut u8,
    layout: Layout,
}

impl<'a, A: GlobalAlloc> Block<'a, A> {
    #[inline]
    fn new(allocator: &'a A, size: usize) -> Self {
        let layout = Layout::from_size_align(size, 8).expect("a small layout");
        assert!(layout.size() > 0);
        // SAFETY: the layout's size is not zero, asserted above.
        let address = unsafe { allocator.alloc(layout) };
        assert!(!address.is_null(), "out of memory");
        // SAFETY: the block is `size` > 0 bytes long and ours; this touches its first byte.
        unsafe { address.write(1) };
        Self {
            allocator,
            address: black_box(address),
            layout,
        }
    }
}

impl<A: GlobalAlloc> Drop for Block<'_, A> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `address` came from this allocator with this layout in `new`, and only this
        // drop gives it back.
        unsafe { self.allocator.dealloc(self.address, self.layout) };
    }
}

/// Takes 64 bytes and gives them back.
fn pairs(allocator: &impl GlobalAlloc, ops: u64) -> u64 {
    for _ in 0..ops {
        drop(Block::new(allocator, black_box(64)));
    }
    ops
}

/// Takes a thousand blocks of 16..=1024 bytes, gives them back in another order.
fn batches(allocator: &impl GlobalAlloc, ops: u64) -> u64 {
    const BATCH: u64 = 1000;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut blocks = Vec::with_capacity(BATCH as usize);
    let rounds = ops.div_ceil(BATCH);
    for _ in 0..rounds {
        for _ in 0..BATCH {
            blocks.push(Block::new(allocator, 16 + random.below(1009)));
        }
        while !blocks.is_empty() {
            blocks.swap_remove(random.below(blocks.len()));
        }
    }
    rounds * BATCH
}

/// Two threads that do `work` at once.
fn twice(work: impl Fn(u64) -> u64 + Sync, ops: u64) -> Sample {
    let work = &work;
    let jobs: Vec<Job<'_>> = (0..2)
        .map(|_| Box::new(move || work(ops / 2)) as Job<'_>)
        .collect();
    together(jobs)
}

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(LAYER, "take and give back 64 bytes", 10_000_000, 1000)
            .ours("RastAlloc", |ops| alone(|| pairs(&RastAlloc, ops)))
            .rival("std System", |ops| alone(|| pairs(&System, ops))),
        Scenario::new(
            LAYER,
            "a thousand of 16..=1024 bytes, random order",
            2_000_000,
            1000,
        )
        .ours("RastAlloc", |ops| alone(|| batches(&RastAlloc, ops)))
        .rival("std System", |ops| alone(|| batches(&System, ops))),
        Scenario::new(LAYER, "the same on two threads", 4_000_000, 2000)
            .ours("RastAlloc", |ops| {
                twice(|each| batches(&RastAlloc, each), ops)
            })
            .rival("std System", |ops| {
                twice(|each| batches(&System, each), ops)
            }),
    ]
}
