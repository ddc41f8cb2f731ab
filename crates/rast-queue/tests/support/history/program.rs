//! Random programs, made from a seed: the operations of each thread.

use super::{Clock, Fewer, History, Log, assert_sound};
use rast_queue::primitive::{Random, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A queue that programs can drive.
pub(crate) trait Fifo: Send + Sync + 'static {
    const FEWER: Fewer = Fewer::SayEmpty;

    /// Whether the value was taken; if not, the queue is closed.
    fn push(&self, value: u64) -> bool;

    /// As [`push`](Self::push), by the form that gives up where memory is refused.
    fn try_push(&self, value: u64) -> bool {
        self.push(value)
    }

    /// How many of the values were taken before the queue was found closed.
    fn push_batch(&self, values: &[u64]) -> usize {
        values.iter().take_while(|value| self.push(**value)).count()
    }

    /// As [`push_batch`](Self::push_batch), by the form that copies from a slice.
    fn push_slice(&self, values: &[u64]) -> usize {
        self.push_batch(values)
    }

    fn pop(&self) -> Option<u64>;

    /// Hands at most `max` values to `each`; what fewer say, [`FEWER`](Self::FEWER) tells.
    fn pop_batch(&self, max: usize, each: &mut dyn FnMut(u64)) {
        for value in (0..max).map_while(|_| self.pop()) {
            each(value);
        }
    }

    /// Closes the queue; true if it was open.
    fn close(&self) -> bool;

    fn is_closed(&self) -> bool;
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    TryPush,
    PushBatch(usize),
    PushSlice(usize),
    Pop,
    PopBatch(usize),
    Close,
    IsClosed,
    /// Spins, or yields, so that threads meet in other places each time.
    Pause(usize),
}

/// How large a program is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// At least 2.
    pub(crate) threads: usize,
    /// Steps of each thread.
    pub(crate) steps: usize,
    /// Values of a batch at most.
    pub(crate) batch: usize,
    /// Whether some thread may close.
    pub(crate) closes: bool,
}

/// What each thread does.
#[derive(Clone, Debug)]
pub(crate) struct Program(Vec<Vec<Step>>);

impl Program {
    /// The program of a seed.
    pub(crate) fn random(seed: u64, size: Size) -> Self {
        let mut random = Random::new(seed);
        // Of a hundred single steps, how many push; each thread leans to one side or to none.
        let leans = [50, 50, 85, 15];
        let threads = (0..size.threads).map(|_| {
            let pushes = leans[random.below(4)];
            let steps = (0..size.steps).map(|_| Step::random(&mut random, pushes, size.batch));
            steps.collect::<Vec<_>>()
        });
        let mut threads: Vec<_> = threads.collect();
        if size.closes && random.below(3) > 0 {
            let closes = 1 + random.below(2);
            for _ in 0..closes {
                let thread = random.below(size.threads);
                let place = random.below(size.steps);
                threads[thread][place] = Step::Close;
            }
        }
        Self(threads)
    }

    /// Runs it on a thread for each part, then pops what is left; gives the history.
    pub(crate) fn run<Q: Fifo>(&self, queue: Q) -> History {
        let queue = Arc::new(queue);
        let clock = Clock::default();
        let ready = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = self
            .0
            .iter()
            .cloned()
            .enumerate()
            .map(|(number, steps)| {
                let (queue, ready, log) = (queue.clone(), ready.clone(), clock.log(number));
                let all = self.0.len();
                thread::spawn(move || {
                    // All begin at once; shuttle begins as it likes.
                    ready.fetch_add(1, Ordering::AcqRel);
                    while !cfg!(rast_shuttle) && ready.load(Ordering::Acquire) < all {
                        std::thread::yield_now();
                    }
                    let mut runner = Runner {
                        queue: &*queue,
                        log,
                        next: (number as u64 + 1) << 32,
                    };
                    steps.iter().for_each(|step| runner.step(*step));
                    runner.log.into_events()
                })
            })
            .collect();
        let mut history: History = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let mut log = clock.log(history.len());
        while log.pop(|| queue.pop()).is_some() {}
        history.push(log.into_events());
        history
    }
}

impl Step {
    fn random(random: &mut Random, pushes: usize, batch: usize) -> Self {
        let count = 1 + random.below(batch);
        match random.below(100) {
            0..3 => return Self::IsClosed,
            3..13 => return Self::Pause(random.below(40)),
            _ => {}
        }
        match (random.below(100) < pushes, random.below(6)) {
            (true, 0..3) => Self::Push,
            (true, 3) => Self::TryPush,
            (true, 4) => Self::PushBatch(count),
            (true, _) => Self::PushSlice(count),
            (false, 0..5) => Self::Pop,
            (false, _) => Self::PopBatch(count),
        }
    }
}

/// One thread of a program under way.
struct Runner<'a, Q> {
    queue: &'a Q,
    log: Log,
    next: u64,
}

impl<Q: Fifo> Runner<'_, Q> {
    fn values(&mut self, count: usize) -> Vec<u64> {
        let from = self.next;
        self.next += count as u64;
        (from..self.next).collect()
    }

    fn step(&mut self, step: Step) {
        let queue = self.queue;
        match step {
            Step::Push => {
                let value = self.values(1)[0];
                self.log.push(value, || queue.push(value));
            }
            Step::TryPush => {
                let value = self.values(1)[0];
                self.log.push(value, || queue.try_push(value));
            }
            Step::PushBatch(count) => {
                let values = self.values(count);
                self.log.push_batch(&values, || queue.push_batch(&values));
            }
            Step::PushSlice(count) => {
                let values = self.values(count);
                self.log.push_batch(&values, || queue.push_slice(&values));
            }
            Step::Pop => {
                self.log.pop(|| queue.pop());
            }
            Step::PopBatch(max) => {
                self.log
                    .pop_batch(max, Q::FEWER, |each| queue.pop_batch(max, each));
            }
            Step::Close => {
                self.log.close(|| queue.close());
            }
            Step::IsClosed => {
                self.log.is_closed(|| queue.is_closed());
            }
            Step::Pause(spins) if spins < 36 => {
                // A model has no use for many.
                let spins = if cfg!(rast_shuttle) { 1 } else { spins };
                for _ in 0..spins {
                    rast_queue::primitive::hint::spin_loop();
                }
            }
            Step::Pause(_) => thread::yield_now(),
        }
    }
}

/// Runs programs on fresh queues for `time`, each from a seed of its own, and checks their
/// histories.
///
/// A seed in `RAST_HISTORY_SEED` comes first, a thousand times.
pub(crate) fn check_for<Q: Fifo>(time: Duration, name: &str, size: Size, make: impl Fn() -> Q) {
    let check = |seed: u64| {
        let history = Program::random(seed, size).run(make());
        assert_sound(&format!("{name}, RAST_HISTORY_SEED={seed}"), &history);
    };
    if let Ok(seed) = std::env::var("RAST_HISTORY_SEED") {
        let seed = seed.parse().expect("RAST_HISTORY_SEED is a number");
        (0..1_000).for_each(|_| check(seed));
    }
    let first = rast_queue::primitive::model::draw();
    let mut seeds = Random::new(first);
    println!("{name}: seeds from {first}");
    let start = Instant::now();
    let mut programs = 0_u64;
    while programs < 10 || start.elapsed() < time {
        check(seeds.draw());
        programs += 1;
    }
    println!("{name}: {programs} programs of {size:?}");
}
