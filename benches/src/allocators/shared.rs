//! Threads with blocks of their own, some of which another thread frees.

use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::block::Block;
use super::random::Random;
use crate::workers::{Sample, by_two};

/// A batch of sh6bench and sh8bench.
const BATCH: usize = 2000;

/// sh6bench: each of two threads takes batches of blocks, in which small sizes are more likely. It
/// frees a batch in the order in which it was taken, in the reverse order, or every second block
/// first. A quarter of each batch is kept until the next batch.
pub(super) fn batches(ops: u64) -> Sample {
    sh(ops, false)
}

/// sh8bench: the same and also in random order; the other thread frees every fourth batch.
pub(super) fn batches_swapped(ops: u64) -> Sample {
    sh(ops, true)
}

fn sh(ops: u64, swaps: bool) -> Sample {
    let slot = Mutex::new(Vec::new());
    let work = |stream| {
        let mut random = Random::new(stream);
        let mut stays: Vec<Block> = Vec::new();
        let rounds = (ops / 2).div_ceil(BATCH as u64);
        for round in 0..rounds {
            let mut batch = Vec::with_capacity(BATCH);
            for _ in 0..BATCH {
                // A size up to a bound that is itself random: 1 to 1000 bytes, half of them below
                // 150.
                let most = random.between(1, 1000);
                batch.push(Block::new(random.between(1, most)));
            }
            if swaps && round % 4 == 3 {
                std::mem::swap(&mut *slot.lock().expect("no thread panics"), &mut batch);
            }
            let kept = batch.split_off(batch.len() - batch.len() / 4);
            free(batch, round % if swaps { 4 } else { 3 }, &mut random);
            stays = kept;
        }
        drop(stays);
        rounds * BATCH as u64
    };
    by_two(work)
}

fn free(mut batch: Vec<Block>, order: u64, random: &mut Random) {
    match order {
        0 => drop(batch),
        1 => while batch.pop().is_some() {},
        2 => {
            let mut second = false;
            batch.retain(|_| {
                second = !second;
                second
            });
            while batch.pop().is_some() {}
        }
        _ => {
            while !batch.is_empty() {
                batch.swap_remove(random.below(batch.len()));
            }
        }
    }
}

/// mstress: two threads take blocks whose sizes are powers of two, keep some for long, and free
/// others at random. They exchange some with an array that both share. Then the threads end while
/// some of their blocks are in use, and two new threads begin. An operation is a step, in which a
/// thread takes, frees or exchanges one block.
pub(super) fn stress(ops: u64) -> Sample {
    const SHARED: usize = 1000;
    const GENERATIONS: u64 = 10;
    let shared: Vec<AtomicPtr<u8>> = (0..SHARED)
        .map(|_| AtomicPtr::new(ptr::null_mut()))
        .collect();
    let exchange = |place: usize, block: Option<Block>| {
        let word = block.map_or(ptr::null_mut(), Block::into_word);
        let other = shared[place].swap(word, Ordering::AcqRel);
        // SAFETY: words in the array are null or blocks, and a swap takes each out once.
        unsafe { Block::from_word(other) }
    };
    let each = (ops / 2 / GENERATIONS).max(1);
    let work = |stream| {
        let mut random = Random::new(stream);
        let mut kept = Vec::new();
        let mut live: Vec<Option<Block>> = Vec::new();
        for _ in 0..each {
            match random.below(16) {
                0 => kept.push(block(&mut random)),
                1..=8 => live.push(Some(block(&mut random))),
                9..=11 if !live.is_empty() => {
                    let place = random.below(live.len());
                    live[place] = exchange(random.below(SHARED), live[place].take());
                }
                _ if !live.is_empty() => {
                    drop(live.swap_remove(random.below(live.len())));
                }
                _ => {}
            }
        }
        each
    };
    let mut elapsed = std::time::Duration::ZERO;
    let mut done = 0;
    for generation in 0..GENERATIONS {
        let sample = by_two(|lane| work(2 * generation + lane));
        elapsed += sample.elapsed;
        done += sample.done;
    }
    for place in 0..SHARED {
        drop(exchange(place, None));
    }
    Sample::new(done, elapsed)
}

/// A size from 16 bytes to 128 KiB. Each power of two is half as likely as the one before.
fn block(random: &mut Random) -> Block {
    let doublings = random.next().trailing_zeros().min(13);
    Block::new(16 << doublings).touched()
}

/// rptest: each of two threads takes a thousand blocks of 16 to 8000 bytes, frees half of them in
/// strides, and leaves the others in a list that the other thread frees.
pub(super) fn lists(ops: u64) -> Sample {
    const COUNT: usize = 1000;
    let slot = Mutex::new(Vec::new());
    let work = |stream| {
        let mut random = Random::new(stream);
        let rounds = (ops / 2).div_ceil(COUNT as u64);
        for _ in 0..rounds {
            let mut blocks: Vec<Option<Block>> = (0..COUNT)
                .map(|_| Some(Block::new(random.between(16, 8000)).touched()))
                .collect();
            let mut crossing: Vec<Block> = Vec::with_capacity(COUNT / 2);
            // 7 and the count have no common divisor, so each place comes once.
            for step in 0..COUNT {
                let block = blocks[step * 7 % COUNT].take();
                if step % 2 == 0 {
                    drop(block);
                } else {
                    crossing.extend(block);
                }
            }
            std::mem::swap(&mut *slot.lock().expect("no thread panics"), &mut crossing);
            drop(crossing);
        }
        rounds * COUNT as u64
    };
    by_two(work)
}
