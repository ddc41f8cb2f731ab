//! Memory that returns to the system, by what the system reports as resident: each scenario in its
//! own process.
#![cfg(all(
    feature = "std",
    target_os = "linux",
    not(any(rast_loom, rast_shuttle, rast_system_segments))
))]

use rast_alloc::RastAlloc;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// Tells a process that it is the child of a test.
const CHILD: &str = "RAST_ALLOC_MEMORY_CHILD";

/// Runs `scenario` in a child that runs this test alone.
fn in_child(test: &str, scenario: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return scenario();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .status()
        .unwrap();
    assert!(child.success(), "{test} failed in its child");
}

/// Bytes that the process has in memory, as the kernel counts them.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages * usize::try_from(page).unwrap()
}

/// Blocks of every level, all of their pages written.
fn fill(bytes: usize, seed: usize) -> Vec<Vec<u8>> {
    let (mut blocks, mut left, mut n) = (Vec::new(), bytes, seed);
    while left > 0 {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let size = match n >> 33 & 7 {
            0..=3 => 16 + (n >> 40) % 1000,
            4 | 5 => 1000 + (n >> 40) % 30_000,
            6 => 30_000 + (n >> 40) % 300_000,
            _ => 300_000 + (n >> 40) % 2_000_000,
        };
        blocks.push(vec![1; size]);
        left = left.saturating_sub(size);
    }
    blocks
}

/// Whether all bytes of the blocks are 1; by whole blocks, as a debug build takes long for single
/// bytes.
fn are_ones(blocks: &[Vec<u8>]) -> bool {
    (blocks.iter()).all(|block| block[0] == 1 && block[1..] == block[..block.len() - 1])
}

/// Asserts how much of what was allocated since `start` has returned.
fn assert_returned(what: &str, start: usize, peak: usize, percent: usize) {
    let rest = resident().saturating_sub(start);
    let taken = peak - start;
    println!(
        "{what}: {} of {} KiB went back",
        (taken - rest.min(taken)) / 1024,
        taken / 1024
    );
    assert!(
        rest * 100 <= taken * (100 - percent),
        "{what}: {rest} of {taken} bytes are still there: {}",
        RastAlloc::stats()
    );
}

/// Threads allocate blocks, free them and sleep, so many times; asserts how much another thread
/// returns meanwhile.
struct Sleepers {
    threads: usize,
    rounds: usize,
    take: fn(usize) -> Vec<Vec<u8>>,
    fall_asleep: fn(),
}

impl Sleepers {
    fn assert_returned(self, what: &str, percent: usize) {
        let start = resident();
        let step = Arc::new(Barrier::new(self.threads + 1));
        let workers: Vec<_> = (0..self.threads)
            .map(|id| {
                let step = Arc::clone(&step);
                thread::spawn(move || {
                    for round in 0..self.rounds {
                        let blocks = (self.take)(id + round);
                        step.wait();
                        step.wait();
                        assert!(are_ones(&blocks));
                        drop(blocks);
                        (self.fall_asleep)();
                        step.wait();
                        // The thread sleeps here; the other thread purges its memory meanwhile.
                        step.wait();
                    }
                })
            })
            .collect();
        for _ in 0..self.rounds {
            step.wait();
            let peak = resident();
            assert!(peak > start + self.threads * (28 << 20));
            step.wait();
            step.wait();
            RastAlloc::purge_all();
            assert_returned(what, start, peak, percent);
            step.wait();
        }
        for worker in workers {
            worker.join().unwrap();
        }
    }
}

#[test]
fn a_purge_reaches_threads_that_sleep() {
    in_child("a_purge_reaches_threads_that_sleep", || {
        let sleepers = Sleepers {
            threads: 4,
            rounds: 2,
            take: |seed| fill(32 << 20, seed),
            fall_asleep: RastAlloc::on_idle,
        };
        sleepers.assert_returned("sleeping threads", 90);
    });
}

/// As above, with a decay pass of the background thread every 10 ms: it services some heaps while
/// they are purged.
#[test]
fn a_purge_reaches_heaps_that_the_background_thread_tends() {
    in_child(
        "a_purge_reaches_heaps_that_the_background_thread_tends",
        || {
            RastAlloc::set_purge_delay(Some(Duration::from_millis(1)));
            let sleepers = Sleepers {
                threads: 4,
                rounds: 10,
                take: |seed| fill(32 << 20, seed),
                fall_asleep: RastAlloc::on_idle,
            };
            sleepers.assert_returned("heaps that are tended", 90);
        },
    );
}

/// Threads that sleep without `on_idle`.
#[test]
fn a_purge_reaches_threads_that_sleep_unawares() {
    in_child("a_purge_reaches_threads_that_sleep_unawares", || {
        let sleepers = Sleepers {
            threads: 2,
            rounds: 3,
            take: |seed| fill(32 << 20, seed),
            fall_asleep: || {},
        };
        sleepers.assert_returned("threads that sleep unawares", 90);
    });
}

/// Many threads that each freed 30 MiB of short blocks, and block.
#[test]
fn a_purge_reaches_threads_that_block() {
    in_child("a_purge_reaches_threads_that_block", || {
        const THREADS: usize = 64;
        let start = resident();
        let step = Arc::new(Barrier::new(THREADS + 1));
        let workers: Vec<_> = (0..THREADS)
            .map(|id| {
                let step = Arc::clone(&step);
                thread::spawn(move || {
                    let sizes = (0..30_000).map(|n| 16 + (n * 977 + id) % 2000);
                    let blocks: Vec<_> = sizes.map(|size| vec![1_u8; size]).collect();
                    step.wait();
                    drop(blocks);
                    step.wait();
                    step.wait();
                })
            })
            .collect();
        step.wait();
        let peak = resident();
        assert!(peak > start + THREADS * (28 << 20));
        step.wait();
        RastAlloc::purge_all();
        assert_returned("threads that block", start, peak, 90);
        step.wait();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// A thread allocated 200 MiB that another one freed; both sleep.
#[test]
fn a_purge_reaches_what_others_freed_of_a_sleeper() {
    in_child("a_purge_reaches_what_others_freed_of_a_sleeper", || {
        let start = resident();
        let step = Arc::new(Barrier::new(3));
        let (sender, receiver) = std::sync::mpsc::channel();
        let theirs = Arc::clone(&step);
        let producer = thread::spawn(move || {
            let sizes = (0..200_000).map(|n| 16 + n * 977 % 2000);
            let blocks: Vec<_> = sizes.map(|size| vec![1_u8; size]).collect();
            sender.send(blocks).unwrap();
            theirs.wait();
            theirs.wait();
        });
        let theirs = Arc::clone(&step);
        let consumer = thread::spawn(move || {
            let blocks = receiver.recv().unwrap();
            let peak = resident();
            drop(blocks);
            theirs.wait();
            theirs.wait();
            peak
        });
        step.wait();
        RastAlloc::purge_all();
        let after = resident();
        step.wait();
        producer.join().unwrap();
        let peak = consumer.join().unwrap();
        assert!(peak > start + (190 << 20));
        let (rest, taken) = (after.saturating_sub(start), peak - start);
        assert!(
            rest * 10 <= taken,
            "{rest} of {taken} bytes are still there"
        );
    });
}

/// Two threads work while another one takes their heaps between their calls. It needs a hundred
/// purges and more while they work (160 in 0.8 s by a debug build on two cores), so that calls find
/// the heap taken, wait for it or adopt another one.
#[test]
fn a_heap_is_taken_while_its_thread_works() {
    in_child("a_heap_is_taken_while_its_thread_works", || {
        let workers: Vec<_> = (0..2)
            .map(|id| {
                thread::spawn(move || {
                    for round in 0..10 {
                        let blocks = (0..16_000).map(|n| 16 + (n * 977 + id + round) % 2000);
                        let blocks: Vec<_> = blocks.map(|size| vec![1_u8; size]).collect();
                        assert!(are_ones(&blocks));
                    }
                })
            })
            .collect();
        let mut purges = 0;
        while !workers.iter().all(|worker| worker.is_finished()) {
            RastAlloc::purge_all();
            purges += 1;
            thread::yield_now();
        }
        for worker in workers {
            worker.join().unwrap();
        }
        RastAlloc::purge_all();
        let stats = RastAlloc::stats();
        assert!(stats.bytes_committed < 4 << 20, "{stats}");
        println!("{purges} purges");
    });
}

#[test]
fn a_purge_reaches_what_ended_threads_left() {
    in_child("a_purge_reaches_what_ended_threads_left", || {
        let start = resident();
        let left: Vec<_> = (0..4)
            .map(|id| thread::spawn(move || fill(32 << 20, id)))
            .map(|worker| worker.join().unwrap())
            .collect();
        let peak = resident();
        drop(left);
        RastAlloc::purge_all();
        assert_returned("ended threads", start, peak, 90);
    });
}

#[test]
fn a_sleeper_wakes_while_others_purge_and_free() {
    in_child("a_sleeper_wakes_while_others_purge_and_free", || {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<Vec<u8>>>(2);
        let sleeper = thread::spawn(move || {
            for round in 0..150 {
                sender.send(fill(200_000, round)).unwrap();
                RastAlloc::on_idle();
                thread::yield_now();
            }
        });
        for blocks in receiver {
            assert!(are_ones(&blocks));
            drop(blocks);
            RastAlloc::purge_all();
        }
        sleeper.join().unwrap();
    });
}

/// Calls that the lists do not serve, until little is left of what was taken since `start`.
fn work_until_returned(what: &str, start: usize, peak: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        for size in 300_000..300_200 {
            std::hint::black_box(Vec::<u8>::with_capacity(size));
        }
        if resident().saturating_sub(start) * 10 < (peak - start) * 3 {
            break;
        }
        thread::yield_now();
    }
    assert_returned(what, start, peak, 70);
}

#[test]
fn memory_goes_back_by_itself() {
    in_child("memory_goes_back_by_itself", || {
        RastAlloc::set_purge_delay(Some(Duration::from_millis(10)));
        let start = resident();
        let blocks = fill(64 << 20, 1);
        let peak = resident();
        drop(blocks);
        work_until_returned("unused memory", start, peak);
    });
}

#[test]
fn memory_of_idle_threads_goes_back_by_itself() {
    in_child("memory_of_idle_threads_goes_back_by_itself", || {
        RastAlloc::set_purge_delay(Some(Duration::from_millis(10)));
        let start = resident();
        let step = Arc::new(Barrier::new(2));
        let theirs = Arc::clone(&step);
        let idler = thread::spawn(move || {
            let blocks = fill(64 << 20, 2);
            theirs.wait();
            theirs.wait();
            drop(blocks);
            RastAlloc::on_idle();
            theirs.wait();
            theirs.wait();
        });
        step.wait();
        let peak = resident();
        step.wait();
        step.wait();
        work_until_returned("an idle thread's memory", start, peak);
        step.wait();
        idler.join().unwrap();
    });
}

#[test]
fn memory_of_ended_threads_goes_back_without_a_delay() {
    in_child("memory_of_ended_threads_goes_back_without_a_delay", || {
        // Each pass of the working thread finds its own heap due, and all others at once.
        RastAlloc::set_purge_delay(Some(Duration::ZERO));
        let start = resident();
        let together = Arc::new(Barrier::new(4));
        let threads: Vec<_> = (0..4)
            .map(|id| {
                let together = Arc::clone(&together);
                thread::spawn(move || {
                    let blocks = fill(16 << 20, id);
                    together.wait();
                    blocks
                })
            })
            .collect();
        let left: Vec<_> = threads.into_iter().map(|one| one.join().unwrap()).collect();
        let peak = resident();
        drop(left);
        work_until_returned("ended threads' memory", start, peak);
    });
}
