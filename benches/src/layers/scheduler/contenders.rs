//! What the contenders share: workers on their processors, counts without contention, loads.

use std::cell::OnceCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
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
    /// A hundred stores with sequential consistency, about a microsecond.
    Micro,
}

impl Load {
    #[inline]
    pub(super) fn run(self) {
        let word = AtomicU64::new(0);
        match self {
            Self::Nano => word.store(black_box(1), Ordering::Relaxed),
            Self::Micro => (0..100).for_each(|turn| word.store(black_box(turn), Ordering::SeqCst)),
        }
        black_box(&word);
    }
}

type Cell = Arc<CachePadded<AtomicU64>>;

/// How many tasks have ended: a word per thread, so that no contender pays for a shared one.
#[derive(Clone, Default)]
pub(super) struct Ends(Arc<Mutex<Vec<Cell>>>);

thread_local! {
    static MINE: OnceCell<(usize, Cell)> = const { OnceCell::new() };
}

impl Ends {
    #[inline]
    pub(super) fn add(&self) {
        let run = Arc::as_ptr(&self.0) as usize;
        MINE.with(|mine| {
            let (of, cell) = mine.get_or_init(|| {
                let cell = Cell::default();
                self.0.lock().expect("no panic").push(Arc::clone(&cell));
                (run, cell)
            });
            debug_assert_eq!(*of, run, "workers live for one run");
            cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Release);
        });
    }

    /// Waits until so many tasks have ended.
    pub(super) fn reach(&self, wanted: u64) {
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

/// Our scheduler on threads that stand on their processors.
pub(super) struct Ours {
    pub(super) scheduler: Scheduler,
    threads: Vec<JoinHandle<()>>,
}

impl Ours {
    pub(super) fn new(workers: usize) -> Self {
        let scheduler = Scheduler::builder().workers(0).guests(workers).start();
        let scheduler = scheduler.expect("no thread is started");
        let allowed = processors::allowed();
        let threads = (0..workers)
            .map(|worker| {
                let remote = scheduler.remote();
                let processor = (!allowed.is_empty()).then(|| allowed[worker % allowed.len()]);
                thread::spawn(move || {
                    if let Some(processor) = processor {
                        processors::stand_on(processor);
                    }
                    rast::primitive::thread::set_timer_slack(1);
                    remote.work().expect("there is a seat for each");
                })
            })
            .collect();
        // Everyone is there when the first tasks have run.
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

/// Runs `work` on a thread that stands on the processor after those of the workers.
pub(super) fn aside<R: Send>(workers: usize, work: impl FnOnce() -> R + Send) -> R {
    let allowed = processors::allowed();
    thread::scope(|scope| {
        let poster = scope.spawn(move || {
            if !allowed.is_empty() {
                processors::stand_on(allowed[workers % allowed.len()]);
            }
            work()
        });
        poster.join().expect("a poster does not panic")
    })
}
