//! Costs that may grow with the number of heaps. Each is measured while many threads sleep that
//! have each allocated a block.

use std::sync::{Arc, Barrier, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use super::block::Block;
use crate::workers::Sample;

/// The stack of a thread that sleeps.
const STACK: usize = 32 << 10;

/// Does `work` while so many threads sleep, each with a block.
pub(super) fn among(threads: usize, work: impl FnOnce() -> Sample) -> Sample {
    let began = Arc::new(Barrier::new(threads + 1));
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().expect("no thread panics");
    let sleepers: Vec<_> = (0..threads)
        .map(|_| {
            let (began, gate) = (Arc::clone(&began), Arc::clone(&gate));
            let sleep = move || {
                let block = Block::new(64);
                began.wait();
                drop(gate.read());
                drop(block);
            };
            let started = thread::Builder::new().stack_size(STACK).spawn(sleep);
            started.expect("the system has as many threads")
        })
        .collect();
    began.wait();
    let sample = work();
    drop(closed);
    for sleeper in sleepers {
        sleeper.join().expect("no thread panics");
    }
    sample
}

/// The time that so many of a thousand calls of `work` do not exceed.
fn kept_by(per_mille: usize, ops: u64, mut work: impl FnMut()) -> Sample {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let mut times: Vec<Duration> = (0..ops).map(time).collect();
    times.sort_unstable();
    let at = times[(times.len() - 1) * per_mille / 1000];
    Sample::new(1, at).with("done", ops as f64)
}

/// The median time of allocating a block of 1 MiB that is kept, so that memory use reaches a new
/// maximum.
pub(super) fn peak(ops: u64) -> Sample {
    let mut blocks = Vec::with_capacity(ops as usize);
    kept_by(500, ops, || blocks.push(Block::new(1 << 20)))
}

/// The median time of a thread that takes one block and ends.
pub(super) fn first(ops: u64) -> Sample {
    kept_by(500, ops, || {
        let one = thread::spawn(|| drop(Block::new(64)));
        one.join().expect("no thread panics");
    })
}

/// The time that 99.9 % of the allocations and frees of spans without a size class do not exceed.
pub(super) fn span(ops: u64) -> Sample {
    kept_by(999, ops, || drop(Block::new(300 << 10)))
}
