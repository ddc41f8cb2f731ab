//! The allocator as the program's own, under threads that come and go: what they leave, what they
//! send, what they free.
#![cfg(all(feature = "std", not(rast_loom)))]

use rast_alloc::{RastAlloc, Stats};
use std::cell::RefCell;
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// The figures are the process's: every test runs alone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the runtime and the test harness may keep.
const SLACK_BYTES: usize = 64 * 1024;

/// How many bytes more are in use than before.
fn grown(start: Stats) -> usize {
    RastAlloc::stats()
        .bytes_current
        .saturating_sub(start.bytes_current)
}

/// A block with a pattern that tells whether another thread wrote to it.
struct Marked(Vec<u8>);

impl Marked {
    fn new(seed: usize) -> Self {
        let length = match seed % 7 {
            0..=3 => 1 + seed * 37 % 500,
            4 => 1 + seed * 131 % 5000,
            5 => 1 + seed * 977 % 60_000,
            _ => 1 + seed * 7919 % 3_000,
        };
        Self(vec![(length % 251) as u8; length])
    }

    fn check(&self) {
        let mark = (self.0.len() % 251) as u8;
        assert!(self.0.iter().all(|byte| *byte == mark));
    }

    /// Makes the block longer and marks it anew.
    fn grow(&mut self, more: usize) {
        self.0.reserve_exact(more);
        self.check();
        let length = self.0.len() + more;
        self.0.clear();
        self.0.resize(length, (length % 251) as u8);
    }
}

#[test]
fn threads_die_and_their_objects_live() {
    let _alone = alone();
    let start = RastAlloc::stats();
    for round in 0..20 {
        let left: Vec<Vec<Marked>> = (0..4)
            .map(|id| thread::spawn(move || (0..200).map(|n| Marked::new(n * 5 + id)).collect()))
            .map(|worker| worker.join().unwrap())
            .collect();
        // Freed by the main thread in one round, by a new thread in the next.
        let free = move || {
            left.iter().flatten().for_each(Marked::check);
            drop(left);
        };
        if round % 2 == 0 {
            free();
        } else {
            thread::spawn(free).join().unwrap();
        }
    }
    assert!(
        grown(start) <= SLACK_BYTES,
        "{start} / {}",
        RastAlloc::stats()
    );
    RastAlloc::purge_all();
    assert!(grown(start) <= SLACK_BYTES);
}

#[test]
fn a_thread_that_only_frees_does_not_grow_the_process() {
    let _alone = alone();
    let (sender, receiver) = mpsc::sync_channel::<Vec<Marked>>(4);
    let consumer = thread::spawn(move || {
        for batch in receiver {
            batch.iter().for_each(Marked::check);
        }
    });
    let mut reserved = Vec::new();
    for _ in 0..20 {
        for _ in 0..20 {
            sender.send((0..100).map(Marked::new).collect()).unwrap();
        }
        reserved.push(RastAlloc::stats().bytes_reserved);
    }
    drop(sender);
    consumer.join().unwrap();
    let (early, late) = (reserved[4], reserved[19]);
    assert!(
        late <= early + (32 << 20),
        "the process grew from {early} to {late} bytes"
    );
}

#[test]
fn a_thread_that_takes_zeroes_alone_takes_in_what_others_freed() {
    let _alone = alone();
    let (sender, receiver) = mpsc::sync_channel::<Vec<Vec<u8>>>(4);
    let consumer = thread::spawn(move || {
        for batch in receiver {
            let zeroes = [0; 4096];
            assert!(batch.iter().all(|bytes| bytes[..] == zeroes[..bytes.len()]));
        }
    });
    let mut reserved = Vec::new();
    for round in 0..20 {
        for _ in 0..20 {
            // One outer vector in all that is not zeroed; so few that its class has no slow path.
            let mut batch = Vec::with_capacity(1000);
            batch.extend((0..1000).map(|_| vec![0_u8; 2000 + round]));
            sender.send(batch).unwrap();
        }
        reserved.push(RastAlloc::stats().bytes_reserved);
    }
    drop(sender);
    consumer.join().unwrap();
    let (early, late) = (reserved[4], reserved[19]);
    assert!(
        late <= early + (32 << 20),
        "the process grew from {early} to {late} bytes"
    );
}

#[test]
fn threads_exchange_all_they_have() {
    const THREADS: usize = 4;
    let _alone = alone();
    let start = RastAlloc::stats();
    let shelves: Vec<Mutex<Vec<Marked>>> = (0..THREADS).map(|_| Mutex::default()).collect();
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for id in 0..THREADS {
            let (shelves, barrier) = (&shelves, &barrier);
            scope.spawn(move || {
                for round in 0..30 {
                    let mine: Vec<_> = (0..300).map(|n| Marked::new(n * 3 + id + round)).collect();
                    *shelves[id].lock().unwrap() = mine;
                    barrier.wait();
                    let theirs =
                        std::mem::take(&mut *shelves[(id + round) % THREADS].lock().unwrap());
                    theirs.iter().for_each(Marked::check);
                    barrier.wait();
                    drop(theirs);
                    if round % 5 == id {
                        RastAlloc::purge();
                    }
                    RastAlloc::on_idle();
                }
            });
        }
    });
    drop(shelves);
    assert!(
        grown(start) <= SLACK_BYTES,
        "{start} / {}",
        RastAlloc::stats()
    );
}

/// Bytes of address space that the process has.
#[cfg(target_os = "linux")]
fn address_space() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.expect("the address space in kB") * 1024
}

#[cfg(not(target_os = "linux"))]
fn address_space() -> usize {
    0
}

/// Thousands of threads, eight at once, each of which leaves blocks to those of the next round.
#[test]
fn a_storm_of_threads_leaves_nothing_behind() {
    const AT_ONCE: usize = 8;
    let _alone = alone();
    let storm = |rounds: usize| {
        let mut left = Vec::new();
        for round in 0..rounds {
            // All live at once, so that as many heaps are wanted in each round.
            let barrier = Arc::new(Barrier::new(AT_ONCE));
            let mut inherited = left.into_iter();
            let workers: Vec<_> = (0..AT_ONCE)
                .map(|id| {
                    let (barrier, orphan) = (Arc::clone(&barrier), inherited.next());
                    thread::spawn(move || {
                        let own: Vec<_> = (0..20).map(|n| Marked::new(n + id)).collect();
                        barrier.wait();
                        orphan.iter().flatten().for_each(Marked::check);
                        own
                    })
                })
                .collect();
            left = workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .collect();
            left.iter().flatten().for_each(Marked::check);
            if round % 64 == 63 {
                RastAlloc::purge_all();
            }
        }
    };
    storm(if cfg!(miri) { 2 } else { 64 });
    let (before, space) = (RastAlloc::stats(), address_space());
    storm(if cfg!(miri) { 2 } else { 512 });
    let (after, more) = (RastAlloc::stats(), address_space());
    println!("address space {space} / {more}, {before} / {after}");
    assert!(grown(before) <= SLACK_BYTES, "{before} / {after}");
    // Of 4096 threads none may leave as much as 2 KiB for good; a segment more may be the
    // harness's.
    assert!(
        after.bytes_reserved <= before.bytes_reserved + (8 << 20),
        "{before} / {after}"
    );
    assert!(more <= space + (8 << 20), "from {space} to {more} bytes");
}

/// Objects go through the hands of threads that all end: each grows some, frees some and adds its
/// own.
#[test]
fn objects_outlive_generations_of_threads() {
    let _alone = alone();
    let start = RastAlloc::stats();
    let mut kept: Vec<Marked> = Vec::new();
    for generation in 0..40 {
        kept = thread::spawn(move || {
            for (number, one) in kept.iter_mut().enumerate() {
                one.check();
                if number % 3 == 0 {
                    // The block's owner has ended, or is this thread by adoption.
                    one.grow(1 + number % 900);
                }
            }
            let mut number = 0;
            kept.retain(|_| {
                number += 1;
                (number + generation) % 3 != 0
            });
            kept.extend((0..150).map(|n| Marked::new(n * 7 + generation)));
            kept
        })
        .join()
        .unwrap();
    }
    kept.iter().for_each(Marked::check);
    drop(kept);
    assert!(
        grown(start) <= SLACK_BYTES,
        "{start} / {}",
        RastAlloc::stats()
    );
}

/// Two threads that only allocate and two that only free: what returns is used again.
#[test]
fn producers_and_consumers_only() {
    const BATCHES: usize = if cfg!(miri) { 8 } else { 300 };
    let _alone = alone();
    let start = RastAlloc::stats();
    let (sender, receiver) = mpsc::sync_channel::<Vec<Marked>>(4);
    let receiver = Mutex::new(receiver);
    let reserved = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let consumers = [0, 1].map(|_| {
            let receiver = &receiver;
            scope.spawn(move || {
                loop {
                    let batch = receiver.lock().unwrap().recv();
                    let Ok(batch) = batch else { return };
                    batch.iter().for_each(Marked::check);
                }
            })
        });
        let producers = [0, 1].map(|id| {
            let (sender, reserved) = (sender.clone(), &reserved);
            scope.spawn(move || {
                for batch in 0..BATCHES {
                    let batch = (0..100).map(|n| Marked::new(n * 3 + batch + id));
                    sender.send(batch.collect()).unwrap();
                    reserved
                        .lock()
                        .unwrap()
                        .push(RastAlloc::stats().bytes_reserved);
                }
            })
        });
        drop(sender);
        for worker in producers.into_iter().chain(consumers) {
            worker.join().unwrap();
        }
    });
    let reserved = reserved.into_inner().unwrap();
    let most = |part: &[usize]| part.iter().copied().max().unwrap();
    let (early, late) = (
        most(&reserved[..reserved.len() / 4]),
        most(&reserved[reserved.len() / 4..]),
    );
    println!("most reserved early {early}, late {late}");
    // Some 350 MB go through.
    assert!(late <= early + (16 << 20), "from {early} to {late} bytes");
    assert!(
        grown(start) <= SLACK_BYTES,
        "{start} / {}",
        RastAlloc::stats()
    );
}

#[test]
fn a_purge_reaches_the_other_threads() {
    let _alone = alone();
    let (ask, asked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let worker = thread::spawn(move || {
        let all: Vec<_> = (0..200_000).map(|n| Box::new([n; 20])).collect();
        drop(all);
        tell.send(()).unwrap();
        asked.recv().unwrap();
        RastAlloc::on_idle();
        tell.send(()).unwrap();
        asked.recv().unwrap();
    });
    told.recv().unwrap();
    let before = RastAlloc::stats();
    RastAlloc::purge_all();
    ask.send(()).unwrap();
    told.recv().unwrap();
    let after = RastAlloc::stats();
    // The system's allocator, where segments come from it, takes no single pages.
    let least = if cfg!(rast_system_segments) {
        4 << 20
    } else {
        12 << 20
    };
    assert!(
        after.bytes_committed + least < before.bytes_committed,
        "{before} / {after}"
    );
    ask.send(()).unwrap();
    worker.join().unwrap();
}

/// Allocates while the thread's values are destroyed.
struct Late(RefCell<Vec<Marked>>);

impl Drop for Late {
    fn drop(&mut self) {
        self.0.borrow().iter().for_each(Marked::check);
        let more: Vec<_> = (0..50).map(Marked::new).collect();
        more.iter().for_each(Marked::check);
        *self.0.borrow_mut() = more;
    }
}

#[test]
fn destructors_of_threads_allocate() {
    thread_local! {
        static FIRST: Late = const { Late(RefCell::new(Vec::new())) };
        static SECOND: Late = const { Late(RefCell::new(Vec::new())) };
    }
    let _alone = alone();
    let start = RastAlloc::stats();
    for _ in 0..20 {
        let worker = thread::spawn(|| {
            // The one is made before the thread's first own block, the other after.
            FIRST.with(|late| late.0.borrow_mut().push(Marked::new(3)));
            drop(Marked::new(5));
            SECOND.with(|late| late.0.borrow_mut().push(Marked::new(6)));
        });
        worker.join().unwrap();
    }
    assert!(
        grown(start) <= SLACK_BYTES,
        "{start} / {}",
        RastAlloc::stats()
    );
}

#[cfg(unix)]
#[test]
fn keys_of_the_c_library_allocate_last() {
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn late(value: *mut c_void) {
        // SAFETY: the value is the box below.
        let marked = unsafe { Box::from_raw(value.cast::<Marked>()) };
        marked.check();
        drop(marked);
        let more: Vec<_> = (0..100).map(Marked::new).collect();
        more.iter().for_each(Marked::check);
        CALLS.fetch_add(1, Ordering::Relaxed);
    }

    let _alone = alone();
    let mut keys = [0; 3];
    for key in &mut keys {
        // SAFETY: the place is writable and the destructor has the right signature.
        assert_eq!(unsafe { libc::pthread_key_create(key, Some(late)) }, 0);
    }
    let start = RastAlloc::stats();
    for _ in 0..10 {
        let worker = thread::spawn(move || {
            for (seed, key) in keys.into_iter().enumerate() {
                let value = Box::into_raw(Box::new(Marked::new(seed))).cast::<c_void>();
                // SAFETY: the key was made above.
                assert_eq!(unsafe { libc::pthread_setspecific(key, value) }, 0);
            }
        });
        worker.join().unwrap();
    }
    assert_eq!(CALLS.load(Ordering::Relaxed), 30);
    assert!(
        grown(start) <= SLACK_BYTES,
        "{start} / {}",
        RastAlloc::stats()
    );
}
