//! What the contenders share: pinned workers, counters without contention, and loads.

use std::cell::{OnceCell, RefCell};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rast::primitive::CachePadded;
use rast::scheduler::Scheduler;

use crate::processors;

/// What a step does.
#[derive(Clone, Copy)]
pub(super) enum Load {
    /// Adds one.
    Nano,
    /// Stores a random truth value a hundred times with sequential consistency, as in the
    /// original's load of this name.
    Micro,
}

impl Load {
    #[inline]
    pub(super) fn run(self) {
        match self {
            Self::Nano => {
                let word = AtomicU64::new(0);
                word.store(black_box(1), Ordering::Relaxed);
                black_box(&word);
            }
            Self::Micro => RANDOM.with_borrow_mut(|random| {
                for _ in 0..100 {
                    let flag = AtomicBool::new(random.next() & 1 != 0);
                    flag.store(true, Ordering::SeqCst);
                    black_box(&flag);
                }
            }),
        }
    }
}

thread_local! {
    static RANDOM: RefCell<Twister> = RefCell::new(Twister::new(5489));
}

/// The Mersenne twister of 32 bits (Matsumoto and Nishimura, 1998), from which the original draws
/// its truth values.
struct Twister {
    state: [u32; Self::N],
    at: usize,
}

impl Twister {
    const N: usize = 624;
    const M: usize = 397;

    fn new(seed: u32) -> Self {
        let mut state = [seed; Self::N];
        for index in 1..Self::N {
            let last = state[index - 1];
            let mixed = (last ^ last >> 30).wrapping_mul(1_812_433_253);
            state[index] = mixed.wrapping_add(index as u32);
        }
        Self { state, at: Self::N }
    }

    fn next(&mut self) -> u32 {
        if self.at == Self::N {
            self.turn();
        }
        let word = self.state[self.at];
        self.at += 1;
        let word = word ^ word >> 11;
        let word = word ^ word << 7 & 0x9d2c_5680;
        let word = word ^ word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }

    fn turn(&mut self) {
        for index in 0..Self::N {
            let high = self.state[index] & 0x8000_0000;
            let low = self.state[(index + 1) % Self::N] & 0x7fff_ffff;
            let odd = if low & 1 == 0 { 0 } else { 0x9908_b0df };
            self.state[index] = self.state[(index + Self::M) % Self::N] ^ (high | low) >> 1 ^ odd;
        }
        self.at = 0;
    }
}

type Cell = CachePadded<AtomicU64>;

/// The number of tasks that have ended. Each thread has a word, so that no contender pays for a
/// shared one. The words of a run are leaked, so that a task that captures this has nothing to
/// drop.
#[derive(Clone, Copy)]
pub(super) struct Ends(&'static Mutex<Vec<&'static Cell>>);

thread_local! {
    static MINE: OnceCell<(usize, &'static Cell)> = const { OnceCell::new() };
}

impl Ends {
    pub(super) fn new() -> Self {
        Self(Box::leak(Box::default()))
    }

    #[inline]
    pub(super) fn add(self) {
        let run = core::ptr::from_ref(self.0) as usize;
        MINE.with(|mine| {
            let (of, cell) = mine.get_or_init(|| {
                let cell: &'static Cell = Box::leak(Box::default());
                self.0.lock().expect("no panic").push(cell);
                (run, cell)
            });
            debug_assert_eq!(*of, run, "workers live for one run");
            cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Release);
        });
    }

    /// Waits until so many tasks have ended.
    pub(super) fn reach(self, wanted: u64) {
        let begin = Instant::now();
        loop {
            let cells = self.0.lock().expect("no panic");
            let sum: u64 = cells.iter().map(|cell| cell.load(Ordering::Acquire)).sum();
            drop(cells);
            if sum >= wanted {
                assert_eq!(sum, wanted, "a task has ended twice");
                return;
            }
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "{sum} of {wanted} tasks ended"
            );
            thread::park_timeout(Duration::from_micros(20));
        }
    }
}

/// Our scheduler on threads that are pinned to their processors.
pub(super) struct Ours {
    pub(super) scheduler: Scheduler,
    threads: Vec<JoinHandle<()>>,
}

impl Ours {
    pub(super) fn new(workers: usize) -> Self {
        let scheduler = Scheduler::builder().workers(0).guests(workers).start();
        let scheduler = scheduler.expect("no thread is started");
        let threads = (0..workers)
            .map(|worker| {
                let remote = scheduler.remote();
                thread::spawn(move || {
                    processors::pin_in_turn(worker);
                    rast::primitive::thread::set_timer_slack(1);
                    remote.work().expect("there is a seat for each");
                })
            })
            .collect();
        // All workers have started when the first tasks have run.
        while scheduler
            .stats()
            .workers
            .iter()
            .any(|worker| worker.sleeps == 0)
        {
            thread::yield_now();
        }
        Self { scheduler, threads }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        drop(self.scheduler.stop());
        for thread in self.threads.drain(..) {
            thread.join().expect("a worker does not panic");
        }
    }
}

/// How long `work` takes [`aside`].
pub(super) fn time_aside(workers: usize, work: impl FnOnce() + Send) -> Duration {
    aside(workers, || {
        let begin = Instant::now();
        work();
        begin.elapsed()
    })
}

/// Runs `work` on a thread that is pinned to the processor after those of the workers.
pub(super) fn aside<R: Send>(workers: usize, work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let poster = scope.spawn(move || {
            processors::pin_in_turn(workers);
            work()
        });
        poster.join().expect("a poster does not panic")
    })
}
