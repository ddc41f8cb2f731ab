//! rast-alloc: pairs, batches, growth, and a heap of its own.
//!
//! The allocator is called by its type, so the compiler may inline it into the loop. A program
//! whose global allocator it is also pays for a call; `rast-benches alloc` measures that.

mod settings;

use std::hint::black_box;
use std::ptr::NonNull;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Throughput};
use rast::alloc::{Allocator, Heap, Layout, RastAlloc, vec};
use rast::primitive::Random;

/// Blocks of a batch.
const BATCH: usize = 1000;
/// Items of a vector that grows: its memory moves through nine size classes.
const GROWTH: u64 = 1000;

fn main() {
    settings::run("alloc", |group| {
        pairs(group);
        batches(group);
        growth(group);
    });
}

/// Allocates and releases one block.
fn pairs(group: &mut BenchmarkGroup<'_, WallTime>) {
    for (name, size) in [("pair_64_bytes", 64), ("pair_1_mib", 1 << 20)] {
        let layout = layout(size);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let block = allocate(&RastAlloc, black_box(layout));
                // SAFETY: the block came from this allocator by this layout, and is released once.
                unsafe { RastAlloc.deallocate(block, layout) };
            });
        });
    }
}

/// Allocates a thousand blocks of 16 to 1024 bytes and releases them in another order.
fn batches(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("batch_1000_mixed", |bencher| {
        let mut batch = Batch::new(RastAlloc);
        bencher.iter(|| batch.turn());
    });
    let heap = Heap::new();
    group.bench_function("heap_batch_1000_mixed", |bencher| {
        let mut batch = Batch::new(&heap);
        bencher.iter(|| batch.turn());
    });
}

/// Pushes to a vector that starts empty.
fn growth(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.throughput(Throughput::Elements(GROWTH));
    group.bench_function("vec_growth_1000", |bencher| {
        bencher.iter(|| {
            let mut numbers = vec::Vec::new_in(RastAlloc);
            for number in 0..GROWTH {
                numbers.push(black_box(number));
            }
            numbers.len()
        });
    });
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a size of a bench")
}

#[inline]
fn allocate(allocator: &impl Allocator, layout: Layout) -> NonNull<u8> {
    let block = allocator.allocate(layout).expect("there is memory");
    block.cast()
}

/// Sizes and an order of release, the same in every run.
struct Batch<A: Allocator> {
    allocator: A,
    layouts: Vec<Layout>,
    /// Indices of `layouts`, each once.
    order: Vec<usize>,
    blocks: Vec<NonNull<u8>>,
}

impl<A: Allocator> Batch<A> {
    fn new(allocator: A) -> Self {
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
        let mut below = |bound: usize| random.below(bound);
        let layouts = (0..BATCH).map(|_| layout(16 + below(1009))).collect();
        let mut order: Vec<usize> = (0..BATCH).collect();
        for last in (1..BATCH).rev() {
            order.swap(last, below(last + 1));
        }
        Self {
            allocator,
            layouts,
            order,
            blocks: Vec::with_capacity(BATCH),
        }
    }

    fn turn(&mut self) {
        for &layout in &self.layouts {
            self.blocks.push(allocate(&self.allocator, layout));
        }
        for &index in &self.order {
            // SAFETY: the block came from this allocator by this layout above, and `order` names it
            // once.
            unsafe {
                self.allocator
                    .deallocate(self.blocks[index], self.layouts[index]);
            }
        }
        self.blocks.clear();
    }
}
