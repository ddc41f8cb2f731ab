//! Costs that may grow with the number of heaps: each is measured while many threads sleep that
//! have taken a block.

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

/// The time that so many of a thousand calls of `work` keep.
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

/// Blocks of 1 MiB that stay, each of which makes a new peak: the middle time.
pub(super) fn peak(ops: u64) -> Sample {
    let mut blocks = Vec::with_capacity(ops as usize);
    kept_by(500, ops, || blocks.push(Block::new(1 << 20)))
}

/// A thread that takes one block and ends: the middle time.
pub(super) fn first(ops: u64) -> Sample {
    kept_by(500, ops, || {
        let one = thread::spawn(|| drop(Block::new(64)));
        one.join().expect("no thread panics");
    })
}

/// Spans without a class, taken and given back: the time that 99.9 % keep.
pub(super) fn span(ops: u64) -> Sample {
    kept_by(999, ops, || drop(Block::new(300 << 10)))
}
