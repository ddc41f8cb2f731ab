//! The allocator as the program's global one: threads free each other's blocks, and the statistics
//! return to their start.
#![cfg(all(feature = "std", not(rast_loom)))]

use rast_alloc::RastAlloc;
use std::sync::mpsc;
use std::thread;

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// What the runtime and the test harness may keep: thread names, lazily made tables.
const SLACK_BYTES: usize = 64 * 1024;

// One test, so that no other moves the figures.
#[test]
fn threads_free_each_others_memory_and_the_figures_come_back() {
    const THREADS: usize = 3;
    let rounds = if cfg!(miri) { 20 } else { 2000 };

    let start = RastAlloc::stats();
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::channel::<Vec<u8>>()).unzip();
    let workers: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(id, receiver)| {
            let next = senders[(id + 1) % THREADS].clone();
            thread::spawn(move || {
                for round in 0..rounds {
                    let mut message = vec![id as u8; 1 + (round * 37) % 4000];
                    message.extend_from_slice(&[0; 100]);
                    next.send(message).unwrap();
                    // Freed here, taken there.
                    while let Ok(foreign) = receiver.try_recv() {
                        assert_eq!(foreign[0] as usize, (id + THREADS - 1) % THREADS);
                    }
                }
                receiver
            })
        })
        .collect();
    drop(senders);
    let left: Vec<_> = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .collect();
    for receiver in left {
        receiver.into_iter().for_each(drop);
    }
    let end = RastAlloc::stats();

    let moved = (THREADS * rounds) as u64;
    assert!(end.allocations - start.allocations >= moved);
    assert!(
        end.reallocations - start.reallocations >= moved / 2,
        "{start} / {end}"
    );
    assert!(end.bytes_peak >= end.bytes_current);
    let grown = end.bytes_current.saturating_sub(start.bytes_current);
    assert!(
        grown <= SLACK_BYTES,
        "{grown} bytes did not come back: {start} / {end}"
    );
    assert!(end.live().abs_diff(start.live()) < 200, "{start} / {end}");
}
