//! Threads that write to small blocks of their own, which is slow if two of them share a cache
//! line.

use super::block::Block;
use crate::workers::{Job, Sample, apart, by_two};

const THREADS: u64 = 2;
/// How often a block of 8 bytes is written.
const TIMES: usize = 100;

/// cache-scratch: each thread gets a small block that the main thread took, writes it and frees it.
/// Then it takes blocks of its own. If the allocator gives it the freed place again, both threads
/// write to one cache line. An operation is a block written a hundred times.
pub(super) fn scratch(ops: u64) -> Sample {
    let given: Vec<Block> = (0..THREADS).map(|_| Block::new(8)).collect();
    let jobs = given.into_iter().map(|mut block| {
        Box::new(move || {
            block.write_all(TIMES);
            drop(block);
            write(ops / THREADS)
        }) as Job<'_>
    });
    apart(jobs.collect())
}

/// cache-thrash: the same, with only the blocks that each thread takes itself.
pub(super) fn thrash(ops: u64) -> Sample {
    by_two(|_| write(ops / THREADS))
}

fn write(ops: u64) -> u64 {
    for _ in 0..ops {
        Block::new(8).write_all(TIMES);
    }
    ops
}
