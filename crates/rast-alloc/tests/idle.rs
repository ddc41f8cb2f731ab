//! Memory that returns while the program sleeps, by what the system reports as resident: each
//! scenario in its own process, which waits for the condition.
#![cfg(all(
    feature = "std",
    target_os = "linux",
    not(any(rast_loom, rast_shuttle, rast_system_segments, miri))
))]

use rast_alloc::RastAlloc;
use std::process::Command;
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// Tells a process that it is the child of a test.
const CHILD: &str = "RAST_ALLOC_IDLE_CHILD";
/// Maximum wait for a condition: many times what it takes.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// Threads of the process that return memory in the background.
fn purge_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .filter(|name| name.trim() == "rast-purge")
        .count()
}

/// Waits for a condition; returns whether it came.
fn came(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if condition() {
            println!("after {:?}", start.elapsed());
            return true;
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    false
}

/// Waits until 85 of 100 bytes that were allocated since `start`, and are not in use, have
/// returned.
fn await_return(what: &str, start: usize, peak: usize) {
    assert!(
        peak > start + (100 << 20),
        "{what}: {start} to {peak} bytes"
    );
    let rest = || {
        let used = RastAlloc::stats().bytes_current;
        resident().saturating_sub(start + used)
    };
    let is_back = came(|| rest() * 100 <= (peak - start) * 15);
    println!(
        "{what}: {} of {} KiB are left",
        rest() / 1024,
        (peak - start) / 1024
    );
    assert!(
        is_back,
        "{what}: {} bytes are left: {}",
        rest(),
        RastAlloc::stats()
    );
}

/// Values of many sizes, most of them short, all of their pages written.
fn values(bytes: usize, seed: usize) -> Vec<Vec<u8>> {
    let (mut values, mut left, mut n) = (Vec::new(), bytes, seed);
    while left > 0 {
        n = n
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let size = match n >> 33 & 15 {
            0..=9 => 16 + (n >> 40) % 500,
            10..=13 => 500 + (n >> 40) % 8000,
            14 => 8000 + (n >> 40) % 60_000,
            _ => 60_000 + (n >> 40) % 400_000,
        };
        values.push(vec![1; size]);
        left = left.saturating_sub(size);
    }
    values
}

/// Threads that take values; others free them, or the same ones; then all sleep.
fn sleep_after(what: &str, threads: usize, take: fn(usize) -> Vec<Vec<u8>>, are_passed: bool) {
    let start = resident();
    let step = Arc::new(Barrier::new(threads + 1));
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel()).unzip();
    let workers: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(id, receiver)| {
            let step = Arc::clone(&step);
            let to = senders[(id + usize::from(are_passed)) % threads].clone();
            thread::spawn(move || {
                to.send(take(id)).unwrap();
                let values = receiver.recv().unwrap();
                step.wait();
                step.wait();
                drop(values);
                // It sleeps here.
                step.wait();
            })
        })
        .collect();
    step.wait();
    let peak = resident();
    step.wait();
    await_return(what, start, peak);
    step.wait();
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn values_that_others_freed_go_back_while_all_sleep() {
    in_child("values_that_others_freed_go_back_while_all_sleep", || {
        sleep_after("values of others", 4, |id| values(64 << 20, id), true);
    });
}

#[test]
fn values_that_their_threads_freed_go_back_while_all_sleep() {
    in_child(
        "values_that_their_threads_freed_go_back_while_all_sleep",
        || {
            sleep_after("own values", 4, |id| values(64 << 20, id), false);
        },
    );
}

#[test]
fn large_buffers_go_back_while_all_sleep() {
    in_child("large_buffers_go_back_while_all_sleep", || {
        let buffers = |_| (0..250).map(|_| vec![1; 512 << 10]).collect();
        sleep_after("half-MiB buffers", 2, buffers, true);
    });
}

#[test]
fn mappings_go_back_while_all_sleep() {
    in_child("mappings_go_back_while_all_sleep", || {
        let buffers = |_| (0..10).map(|_| vec![1; 3 << 20]).collect();
        sleep_after("mappings", 8, buffers, false);
    });
}

/// A thread that makes a call now and then, never on a slow path.
#[test]
fn values_go_back_while_their_thread_makes_a_few_calls() {
    in_child(
        "values_go_back_while_their_thread_makes_a_few_calls",
        || {
            let start = resident();
            let (sender, receiver) = mpsc::channel::<bool>();
            let (peaks, peak) = mpsc::channel();
            let worker = thread::spawn(move || {
                let values = values(160 << 20, 1);
                peaks.send(resident()).unwrap();
                drop(values);
                while receiver.recv().unwrap() {
                    drop(std::hint::black_box(Box::new(1_u64)));
                }
            });
            let peak = peak.recv().unwrap();
            let is_back = came(|| {
                sender.send(true).unwrap();
                resident().saturating_sub(start) * 100 <= (peak - start) * 15
            });
            sender.send(false).unwrap();
            worker.join().unwrap();
            assert!(is_back, "{}", RastAlloc::stats());
        },
    );
}

/// The thread exists once there is something to do, ends when the delay is `None`, and exists again
/// when it is not.
#[test]
fn the_delay_ends_the_background_thread() {
    in_child("the_delay_ends_the_background_thread", || {
        assert_eq!(purge_threads(), 0, "nothing is to be given back");
        let (start, kept) = (resident(), values(160 << 20, 1));
        let peak = resident();
        RastAlloc::set_purge_delay(None);
        drop(kept);
        assert_eq!(purge_threads(), 0);
        assert!(resident() > start + (peak - start) / 2, "nothing goes back");
        RastAlloc::set_purge_delay(Some(Duration::from_secs(1)));
        await_return("after the delay was set", start, peak);
        assert_eq!(purge_threads(), 1);
        let threads: Vec<_> = (0..3)
            .map(|_| thread::spawn(|| RastAlloc::set_purge_delay(None)))
            .collect();
        for one in threads {
            one.join().unwrap();
        }
        assert!(came(|| purge_threads() == 0));
    });
}

/// The child of a fork has a background thread of its own once it needs one.
#[test]
fn the_child_of_a_fork_gives_back_too() {
    in_child("the_child_of_a_fork_gives_back_too", || {
        let (start, kept) = (resident(), values(160 << 20, 1));
        let peak = resident();
        drop(kept);
        await_return("the parent", start, peak);
        assert_eq!(purge_threads(), 1);
        // SAFETY: the child runs on in this thread alone, and ends without what the parent does at
        // its end.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let result = std::panic::catch_unwind(|| {
                assert_eq!(purge_threads(), 0);
                let (start, kept) = (resident(), values(160 << 20, 2));
                let peak = resident();
                drop(kept);
                await_return("the child of a fork", start, peak);
                assert_eq!(purge_threads(), 1);
            });
            std::process::exit(i32::from(result.is_err()));
        }
        let mut status = 0;
        // SAFETY: the child is this thread's to wait for, and the status a local.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((ended, status), (child, 0), "how the child ended");
    });
}
