//! The allocator as the program's own, under threads that come and go: what they leave, what they send, what they free.
#![cfg(all(feature = "std", not(rast_loom)))]

use rast_alloc::{RastAlloc, Stats};
use std::cell::RefCell;
use std::sync::mpsc;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
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

/// A block with a pattern that tells whether somebody else wrote to it.
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
            assert!(batch.iter().flatten().all(|byte| *byte == 0));
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

#[test]
fn a_storm_of_threads_reuses_heaps() {
    let _alone = alone();
    let storm = |rounds: usize| {
        for round in 0..rounds {
            let workers: Vec<_> = (0..8)
                .map(|id| thread::spawn(move || drop(Marked::new(round * 8 + id))))
                .collect();
            for worker in workers {
                worker.join().unwrap();
            }
        }
    };
    storm(5);
    let before = RastAlloc::stats();
    storm(50);
    let after = RastAlloc::stats();
    assert!(
        after.bytes_reserved <= before.bytes_reserved + (64 << 20),
        "{before} / {after}"
    );
    assert!(grown(before) <= SLACK_BYTES);
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
    assert!(
        after.bytes_committed + (12 << 20) < before.bytes_committed,
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

#[cfg(unix)]
#[test]
fn the_child_of_a_fork_allocates() {
    let _alone = alone();
    let (sender, receiver) = mpsc::channel();
    // Another thread lives, holds a heap, and has freed nothing of it when the process forks.
    let theirs: Vec<_> = thread::spawn(|| (0..100).map(Marked::new).collect::<Vec<_>>())
        .join()
        .unwrap();
    let other = thread::spawn(move || {
        let mine: Vec<_> = (0..100).map(Marked::new).collect();
        receiver.recv().unwrap();
        drop(mine);
    });
    // SAFETY: the child only allocates, checks and ends, which this allocator promises to serve there.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        for round in 0..50 {
            let blocks: Vec<_> = (0..100).map(|n| Marked::new(n + round)).collect();
            if !blocks.iter().all(|block| {
                let mark = (block.0.len() % 251) as u8;
                block.0.iter().all(|byte| *byte == mark)
            }) {
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(1) };
            }
        }
        drop(theirs);
        RastAlloc::purge_all();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the child was made above, and the place is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status));
    assert_eq!(libc::WEXITSTATUS(status), 0);
    sender.send(()).unwrap();
    other.join().unwrap();
    drop(theirs);
}
