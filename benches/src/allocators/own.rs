//! Threads that free their own blocks.

use std::hint::black_box;

use super::block::Block;
use super::random::Random;
use crate::workers::{Sample, alone, by_two};

/// Takes 64 bytes and gives them back.
pub(super) fn pairs(ops: u64) -> Sample {
    alone(|| {
        for _ in 0..ops {
            drop(Block::new(black_box(64)));
        }
        ops
    })
}

/// Takes a thousand blocks of 16 to 1024 bytes and gives them back in random order.
pub(super) fn batches(ops: u64) -> Sample {
    alone(|| random_order(ops, 1000, 16, 1024))
}

/// Takes a hundred blocks of 8 to 200 KiB, touches one byte of each and gives them back in random
/// order.
pub(super) fn wide(ops: u64) -> Sample {
    alone(|| random_order(ops, 100, 8 << 10, 200 << 10))
}

fn random_order(ops: u64, batch: u64, least: usize, most: usize) -> u64 {
    let mut random = Random::new(0);
    let mut blocks = Vec::with_capacity(batch as usize);
    let rounds = ops.div_ceil(batch);
    for _ in 0..rounds {
        for _ in 0..batch {
            blocks.push(Block::new(random.between(least, most)));
        }
        while !blocks.is_empty() {
            blocks.swap_remove(random.below(blocks.len()));
        }
    }
    rounds * batch
}

/// alloc-test: picks a random place in a big table; takes a block for it if it is empty, and frees
/// the block otherwise. Sizes go up to 1 KiB, each power of two equally likely. An operation is one
/// allocation or one free, so half a pair.
pub(super) fn table(ops: u64) -> Sample {
    const PLACES: usize = 1 << 17;
    alone(|| {
        let mut random = Random::new(0);
        let mut places: Vec<Option<Block>> = Vec::new();
        places.resize_with(PLACES, || None);
        for _ in 0..ops {
            let place = &mut places[random.below(PLACES)];
            if place.take().is_none() {
                let most = 8 << random.below(8);
                *place = Some(Block::new(1 + random.below(most)).touched());
            }
        }
        ops
    })
}

/// glibc's bench-malloc-simple: a number of blocks of one size, freed in the order in which they
/// were taken.
pub(super) fn simple(ops: u64) -> Sample {
    const SIZES: [usize; 6] = [8, 32, 128, 512, 1024, 4096];
    const COUNTS: [usize; 4] = [25, 100, 400, 1600];
    alone(|| {
        let mut blocks = Vec::with_capacity(COUNTS[3]);
        let mut done = 0;
        while done < ops {
            for size in SIZES {
                for count in COUNTS {
                    // The same number of blocks in total for each count.
                    for _ in 0..COUNTS[3] / count {
                        blocks.extend((0..count).map(|_| Block::new(size)));
                        blocks.drain(..).for_each(drop);
                        done += count as u64;
                    }
                }
            }
        }
        done
    })
}

/// glibc's bench-malloc-thread: each of two threads replaces blocks at random in a set of a
/// thousand, small sizes being likelier by the inverse of their square.
pub(super) fn simple_threads(ops: u64) -> Sample {
    const SET: usize = 1024;
    by_two(|stream| {
        let mut random = Random::new(stream);
        // Inverse transform: the density falls with the square of the size, from 4 bytes up to 32
        // KiB.
        let sizes: Vec<usize> = (0..8192)
            .map(|_| {
                let part = random.below(1 << 20) as f64 / (1 << 20) as f64;
                (1.0 / (1.0 / 4.0 - part * (1.0 / 4.0 - 1.0 / 32768.0))) as usize
            })
            .collect();
        let mut blocks: Vec<Option<Block>> = Vec::new();
        blocks.resize_with(SET, || None);
        for _ in 0..ops / 2 {
            let size = sizes[random.below(sizes.len())];
            let place = &mut blocks[random.below(SET)];
            drop(place.take());
            *place = Some(Block::new(size));
        }
        ops / 2
    })
}
