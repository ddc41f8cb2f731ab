//! Threads that free blocks of other threads. They pass the blocks on by rings, or by arrays.

use std::sync::Mutex;
use std::thread;

use rast::queue::spsc;

use super::block::Block;
use super::random::Random;
use crate::workers::{Patience, Sample, apart, by_two};

/// One thread takes blocks of 64 bytes, the other frees them; a ring of 1024 between them.
pub(super) fn one_way(ops: u64) -> Sample {
    pass(ops, 1024, || Block::new(64))
}

/// As [`one_way`], with blocks of 2 MiB and a ring of four slots. The first thread writes to each
/// page of a block.
pub(super) fn long_blocks(ops: u64) -> Sample {
    pass(ops, 4, || {
        let mut block = Block::new(2 << 20);
        block.write_pages();
        block
    })
}

/// One thread makes blocks, and the other one frees them; a ring of this capacity is between them.
fn pass(ops: u64, capacity: usize, make: impl Fn() -> Block + Send) -> Sample {
    let (mut sender, mut receiver) = spsc::ring(capacity);
    let send = move || {
        for _ in 0..ops {
            let mut block = make();
            let mut patience = Patience::new();
            while let Err(full) = sender.push(block) {
                block = full.0;
                patience.wait();
            }
        }
        // The thread that frees a block counts it.
        0_u64
    };
    let receive = move || {
        let mut patience = Patience::new();
        let mut done = 0;
        while done < ops {
            match receiver.pop() {
                Some(block) => {
                    drop(block);
                    done += 1;
                    patience.reset();
                }
                None => patience.wait(),
            }
        }
        done
    };
    apart(vec![Box::new(send), Box::new(receive)])
}

/// Two threads replace blocks at random, of 16 to 512 bytes, and swap their arrays of a thousand
/// through a slot at every thousandth block.
pub(super) fn swapped(ops: u64) -> Sample {
    const ARRAY: usize = 1000;
    let array = |stream| -> Vec<Block> {
        let mut random = Random::new(stream);
        (0..ARRAY)
            .map(|_| Block::new(random.between(16, 512)))
            .collect()
    };
    let slot = Mutex::new(array(0));
    by_two(|lane| {
        let stream = lane + 1;
        let mut random = Random::new(stream);
        let mut blocks = array(stream);
        for _ in 0..ops / 2 / ARRAY as u64 {
            for _ in 0..ARRAY {
                blocks[random.below(ARRAY)] = Block::new(random.between(16, 512));
            }
            std::mem::swap(&mut *slot.lock().expect("no thread panics"), &mut blocks);
        }
        ops / 2
    })
}

/// larson: the threads of a server. Each replaces blocks of 8 to 1000 bytes at random, and passes
/// its array on to its successor. There are two such chains of threads.
pub(super) fn handed_on(ops: u64) -> Sample {
    const ARRAY: usize = 5000;
    const LIFE: u64 = 50_000;
    by_two(|stream| {
        let mut random = Random::new(stream);
        let mut blocks: Vec<Block> = (0..ARRAY)
            .map(|_| Block::new(random.between(8, 1000)))
            .collect();
        let lives = (ops / 2).div_ceil(LIFE);
        for life in 0..lives {
            let next = thread::spawn(move || {
                let mut random = Random::new(stream + 2 * life);
                for _ in 0..LIFE {
                    blocks[random.below(ARRAY)] = Block::new(random.between(8, 1000)).touched();
                }
                blocks
            });
            blocks = next.join().expect("no thread panics");
        }
        lives * LIFE
    })
}

/// xmalloc: two threads that take blocks of 8 to 500 bytes in batches of 120 and free each other's.
pub(super) fn both_ways(ops: u64) -> Sample {
    const BATCH: u64 = 120;
    const AHEAD: usize = 16;
    let rounds = (ops / 2).div_ceil(BATCH);
    let (send_a, receive_a) = spsc::ring::<Vec<Block>>(AHEAD);
    let (send_b, receive_b) = spsc::ring::<Vec<Block>>(AHEAD);
    let work = move |stream, mut send: spsc::Producer<_>, mut receive: spsc::Consumer<_>| {
        let mut random = Random::new(stream);
        let (mut sent, mut received) = (0, 0);
        let mut patience = Patience::new();
        while received < rounds {
            let mut moved = false;
            if sent < rounds && !send.is_full() {
                let mut batch = Vec::with_capacity(BATCH as usize);
                for _ in 0..BATCH {
                    batch.push(Block::new(random.between(8, 500)));
                }
                send.push(batch)
                    .unwrap_or_else(|_| panic!("there was room"));
                sent += 1;
                moved = true;
            }
            if let Some(batch) = receive.pop() {
                drop(batch);
                received += 1;
                moved = true;
            }
            if moved {
                patience.reset();
            } else {
                patience.wait();
            }
        }
        // The other one waits for the rest.
        while sent < rounds {
            let batch = (0..BATCH)
                .map(|_| Block::new(random.between(8, 500)))
                .collect();
            let mut batch: Vec<Block> = batch;
            let mut patience = Patience::new();
            while let Err(full) = send.push(batch) {
                batch = full.0;
                patience.wait();
            }
            sent += 1;
        }
        rounds * BATCH
    };
    apart(vec![
        Box::new(move || work(0, send_a, receive_b)),
        Box::new(move || work(1, send_b, receive_a)),
    ])
}
