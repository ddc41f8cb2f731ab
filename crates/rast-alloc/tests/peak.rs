//! The peak of the process: what was in use at once, however memory went from thread to thread;
//! alone in its process.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle, miri))))]

use rast_alloc::RastAlloc;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// Bytes of a batch.
const BATCH: usize = 8 << 20;
/// What the harness and the vectors of batches use besides, and what heaps may not have reported.
const BESIDE: usize = 5 << 20;

/// Blocks of one size, as many bytes as a batch has.
fn batch(size: usize) -> Vec<Vec<u8>> {
    (0..BATCH / size)
        .map(|_| Vec::with_capacity(size))
        .collect()
}

/// Asserts that the peak is what `batches` at once are, and that it was not missed.
fn assert_peak(what: &str, batches: usize) {
    let peak = RastAlloc::stats().bytes_peak;
    assert!(
        peak <= batches * BATCH + BESIDE,
        "{what}: a peak of {peak} bytes where {batches} batches of {BATCH} were in use at once"
    );
}

#[test]
fn the_peak_counts_no_memory_twice() {
    // A thread that only frees: what another one took is gone at once.
    for size in [1000, 20_000, 300_000, 4 << 20] {
        let (sender, receiver) = mpsc::sync_channel::<Vec<Vec<u8>>>(0);
        let consumer = thread::spawn(move || receiver.into_iter().for_each(drop));
        for _ in 0..20 {
            sender.send(batch(size)).unwrap();
        }
        drop(sender);
        consumer.join().unwrap();
        assert_peak("a thread that only frees", 2);
    }
    // Threads that take and free, one after the other, and live on: none needs what it had.
    let step = Arc::new(Barrier::new(2));
    let sleepers: Vec<_> = [1000, 20_000, 300_000, 4 << 20, 1000, 20_000]
        .into_iter()
        .map(|size| {
            let theirs = Arc::clone(&step);
            let sleeper = thread::spawn(move || {
                drop((batch(size), batch(size)));
                theirs.wait();
                thread::park();
            });
            step.wait();
            assert_peak("threads that sleep", 2);
            sleeper
        })
        .collect();
    for sleeper in sleepers {
        sleeper.thread().unpark();
        sleeper.join().unwrap();
    }
    // And what was in use at once is seen, no matter which thread looks, and the thread that freed
    // it.
    let most = RastAlloc::stats().bytes_current + 6 * BATCH;
    let batches: Vec<_> = (0..6)
        .map(|_| thread::spawn(|| batch(100_000)).join().unwrap())
        .collect();
    thread::spawn(move || drop(batches)).join().unwrap();
    let peak = RastAlloc::stats().bytes_peak;
    assert!(
        (most - BESIDE..most + BESIDE).contains(&peak),
        "a peak of {peak} bytes instead of {most}"
    );
}
