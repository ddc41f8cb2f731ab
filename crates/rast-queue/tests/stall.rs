//! A thread that is suspended for ever at any step of `Queue` keeps no other thread from its work;
//! `cargo xtask stall` runs it, and `docs/verification.md` describes the steps of the test.
//!
//! For each `step!` of the sources one thread, the victim, is suspended exactly there. It reaches
//! the step by chance: the victim and some others work on a queue, and yield at random steps. So it
//! also reaches the steps after failed compare-exchanges. A step that it does not reach fails the
//! test. `RAST_STALL_STEP=part` runs only the steps whose names contain that.
#![cfg(rast_stall)]

mod support;

use rast_queue::primitive::{Random, WaitStrategy};
use rast_queue::{Queue, TryPushError};
use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;
use support::Counting;

const SOURCES: [&str; 6] = [
    include_str!("../src/queue/mod.rs"),
    include_str!("../src/queue/push.rs"),
    include_str!("../src/queue/pop.rs"),
    include_str!("../src/queue/segment.rs"),
    include_str!("../src/queue/wait.rs"),
    include_str!("../src/queue/wait_list.rs"),
];

/// Tries until a step counts as one that is never reached.
const TRIES: u64 = 5_000;
/// Number of operations that each of the four threads completes while the victim is suspended.
const OPERATIONS: u64 = 200;
/// Maximum number of items of one operation.
const BATCH: u64 = 5;
/// Threads that work beside the victim until it stops.
const OTHERS: u64 = 3;

/// One thread's stop at one step.
struct Stop {
    at: &'static str,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Stopped,
    Released,
    /// It has come to the end without that step.
    Ended,
}

impl Stop {
    fn new(at: &'static str) -> Self {
        Self {
            at,
            state: Mutex::new(State::Running),
            changed: Condvar::new(),
        }
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap() = state;
        self.changed.notify_all();
    }

    fn wait_while(&self, state: State) -> State {
        let guard = self.state.lock().unwrap();
        *self.changed.wait_while(guard, |now| *now == state).unwrap()
    }

    /// Called by the victim at each step.
    fn reach(&self, name: &str) {
        if name == self.at && *self.state.lock().unwrap() == State::Running {
            self.set(State::Stopped);
            self.wait_while(State::Stopped);
        }
    }
}

/// Releases a victim at the end.
struct Release<'a>(&'a Stop);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.set(State::Released);
    }
}

thread_local! {
    static STOP: RefCell<Option<Arc<Stop>>> = const { RefCell::new(None) };
    /// `None`: this thread does not yield at steps.
    static CHANCE: RefCell<Option<Random>> = const { RefCell::new(None) };
}

#[unsafe(no_mangle)]
fn rast_stall_step(name: &'static str) {
    let stop = STOP.try_with(|stop| stop.borrow().clone());
    if let Ok(Some(stop)) = stop {
        stop.reach(name);
    }
    let _ = CHANCE.try_with(|chance| {
        if let Some(random) = &mut *chance.borrow_mut() {
            // Yields, so that other threads run between two steps: for twelve failed claims in a
            // row, or for a mark that no thread has seen yet.
            let lasts = ["pop: claim lost", "close: pinned", "close: marked"].contains(&name);
            if lasts || random.below(8) == 0 {
                thread::yield_now();
            }
        }
    });
}

/// The names of all steps, from the sources.
fn steps() -> Vec<&'static str> {
    let names: Vec<_> = SOURCES
        .iter()
        .flat_map(|source| source.split("step!(\"").skip(1))
        .map(|rest| &rest[..rest.find('"').unwrap()])
        .collect();
    let different: HashSet<_> = names.iter().collect();
    assert_eq!(
        names.len(),
        different.len(),
        "each step has a name of its own"
    );
    assert!(names.len() >= 70, "the sources are read: {}", names.len());
    names
}

/// What a thread did.
#[derive(Clone, Default)]
struct Log {
    pushed: Vec<u64>,
    popped: Vec<u64>,
}

type Under<'a> = &'a Queue<u64, Counting>;

/// What the threads do until the victim stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Work,
    Wait,
    /// The queue has waiters, and is closed at some moment.
    Close,
    /// All threads close the queue at once, while its segment is full.
    CloseFull,
    /// A closed and full queue, to which a panic of a closure puts items back.
    ComeBack,
}

const MODES: [Mode; 5] = [
    Mode::Work,
    Mode::Wait,
    Mode::Close,
    Mode::CloseFull,
    Mode::ComeBack,
];

/// One operation, chosen by `random`; `log` gets what it pushed and popped when it is done.
fn operate(queue: Under<'_>, mode: Mode, random: u64, next: &mut u64, log: &Mutex<Log>) {
    let mut done = Log::default();
    let mut fresh = || {
        *next += 1;
        *next
    };
    match (mode, random % 8) {
        (Mode::ComeBack, _) => {
            let popped = &mut done.popped;
            let _ = catch_unwind(AssertUnwindSafe(|| {
                queue.pop_batch(BATCH as usize, |item| {
                    popped.push(item);
                    resume_unwind(Box::new(()));
                })
            }));
        }
        (Mode::Close, 0) if !random.is_multiple_of(64) => done.popped.extend(queue.pop()),
        (Mode::Close, 0) | (Mode::CloseFull, 0..4) => {
            queue.close();
        }
        (Mode::Wait, 0..3) | (Mode::Close, 1..3) => {
            let timeout = Duration::from_micros(20);
            done.popped
                .extend(queue.pop_timeout(WaitStrategy::Park, timeout));
        }
        (_, 0..3) => done.popped.extend(queue.pop()),
        (_, 3) => {
            queue.pop_batch(BATCH as usize, |item| done.popped.push(item));
            // True is exact, but others are at work.
            let _ = queue.is_empty();
        }
        (_, 4) => {
            let batch = [(); BATCH as usize].map(|()| fresh());
            let taken = match queue.push_slice(&batch) {
                Ok(()) => batch.len(),
                Err(rest) => batch.len() - rest.0.len(),
            };
            done.pushed.extend(&batch[..taken]);
        }
        _ => {
            let item = fresh();
            match queue.try_push(item) {
                Ok(()) => done.pushed.push(item),
                Err(TryPushError::Closed(_)) => assert!(queue.is_closed()),
                Err(TryPushError::NoMemory(_)) => panic!("there is memory"),
            }
        }
    }
    let mut log = log.lock().unwrap();
    log.pushed.append(&mut done.pushed);
    log.popped.append(&mut done.popped);
}

/// Items of one thread lie in a range of their own.
fn first_item(thread: u64) -> u64 {
    thread << 32
}

fn drain(queue: Under<'_>, log: &Mutex<Log>) {
    let mut popped: Vec<_> = queue.drain().collect();
    // Each check of limbo frees one segment that other threads left there.
    for _ in 0..2 * OTHERS {
        popped.extend(queue.pop());
    }
    log.lock().unwrap().popped.extend(popped);
}

/// Returns the items that were pushed and those that were popped; checks that none is there twice.
fn sum_up(logs: &[Mutex<Log>]) -> [HashSet<u64>; 2] {
    let (mut pushed, mut popped) = (HashSet::new(), HashSet::new());
    for log in logs {
        let log = log.lock().unwrap();
        for item in &log.pushed {
            assert!(pushed.insert(*item), "{item:#x} is pushed twice");
        }
        for item in &log.popped {
            assert!(popped.insert(*item), "{item:#x} is popped twice");
        }
    }
    [pushed, popped]
}

/// Number of segments that the victim may keep from reuse while it is suspended at `step`.
fn kept(step: &str, mode: Mode) -> usize {
    let in_hand = match step {
        // One that is not linked yet or not needed any more, besides the full one, which is pinned.
        "fresh: spare taken"
        | "push slow: segment in hand"
        | "push slow: segment filled"
        | "push slow: link lost"
        | "keep: in hand"
        | "keep: to be freed" => 1,
        // All that were in limbo: at most one for each other thread.
        "reap: list in hand" => OTHERS as usize,
        _ => 0,
    };
    // A batch that is put back may be in one more segment.
    1 + in_hand + usize::from(mode == Mode::ComeBack)
}

/// Suspends a victim at `step`, if it reaches it in this try; returns whether it did.
fn stopped_at(step: &'static str, number: u64) -> bool {
    let mut random = Random::new(number);
    let mode = MODES[number as usize % MODES.len()];
    let slots = [2, 4, 16, 64][random.below(4)];
    let alloc = Counting::default();
    let queue = &Queue::with_segment_slots_in(slots, alloc.clone());
    // Main, the victim, the others, and the four.
    let logs: &[Mutex<Log>] = &std::array::from_fn::<_, 9, _>(|_| Mutex::default());
    if matches!(mode, Mode::CloseFull | Mode::ComeBack) {
        let mut log = logs[0].lock().unwrap();
        log.pushed = (1..=slots as u64).collect();
        queue.push_slice(&log.pushed).unwrap();
        if mode == Mode::ComeBack {
            queue.close();
        }
    }
    let (stop, ends) = (Arc::new(Stop::new(step)), &AtomicBool::new(false));
    let state = thread::scope(|scope| {
        let work = move |id: u64, operations: u64, seed: u64| {
            let mut random = Random::new(seed);
            CHANCE.set(Some(random.clone()));
            let mut next = first_item(id);
            for _ in 0..operations {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                operate(queue, mode, random.draw(), &mut next, &logs[id as usize]);
            }
            CHANCE.set(None);
        };
        let victims_seed = random.draw();
        let victim = {
            let stop = stop.clone();
            scope.spawn(move || {
                STOP.set(Some(stop.clone()));
                work(1, 200, victims_seed);
                STOP.set(None);
                if *stop.state.lock().unwrap() == State::Running {
                    stop.set(State::Ended);
                }
            })
        };
        let others: Vec<_> = (0..if mode == Mode::ComeBack { 0 } else { OTHERS })
            .map(|n| {
                let seed = random.draw();
                scope.spawn(move || work(2 + n, u64::MAX, seed))
            })
            .collect();
        // If an assertion below fails, the victim goes on, for the scope to end.
        let _release = Release(&stop);
        let state = stop.wait_while(State::Running);
        ends.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
        if state == State::Stopped {
            four_go_on(queue, logs);
            drain(queue, &logs[0]);
            waiters_go_on(queue, &logs[0]);
            drain(queue, &logs[0]);
            let blocks = alloc.blocks();
            // The spare and the last segment are always kept.
            assert!(
                blocks <= 2 + kept(step, mode),
                "{step}: {blocks} segments stay in {mode:?}"
            );
            let [pushed, popped] = sum_up(logs);
            let missing = pushed.difference(&popped).count() as u64;
            let early = popped.difference(&pushed).count() as u64;
            let most = BATCH;
            assert!(
                missing <= most,
                "{step}: {missing} items are lost in {mode:?}"
            );
            assert!(
                early <= most,
                "{step}: {early} items from nowhere in {mode:?}"
            );
            stop.set(State::Released);
        }
        victim.join().unwrap();
        state
    });
    drain(queue, &logs[0]);
    let [pushed, popped] = sum_up(logs);
    assert_eq!(pushed.len(), popped.len(), "{step}: lost in {mode:?}");
    assert!(pushed == popped, "{step}: other items come out in {mode:?}");
    assert!(
        alloc.blocks() <= 2,
        "{step}: {} segments stay in {mode:?}",
        alloc.blocks()
    );
    state == State::Stopped
}

/// Two producers and two consumers complete their operations.
fn four_go_on(queue: Under<'_>, logs: &[Mutex<Log>]) {
    thread::scope(|scope| {
        for id in 5..9 {
            scope.spawn(move || {
                let mut next = first_item(id);
                for n in 0..OPERATIONS {
                    // Pops in 0 to 3, pushes in 4 to 7, batches at 3 and 4.
                    let random = if id % 2 == 0 { n % 4 } else { 4 + n % 4 };
                    operate(queue, Mode::Work, random, &mut next, &logs[id as usize]);
                }
            });
        }
    });
}

/// In an empty queue, pops with a timeout return, and items wake the threads that sleep. There are
/// three items for two threads, because the victim may be a waiter too and take one of the
/// wake-ups.
fn waiters_go_on(queue: Under<'_>, log: &Mutex<Log>) {
    let mut done = Log::default();
    for _ in 0..3 {
        let timeout = Duration::from_micros(20);
        done.popped
            .extend(queue.pop_timeout(WaitStrategy::Park, timeout));
    }
    thread::scope(|scope| {
        let sleepers = [(); 2].map(|()| scope.spawn(|| queue.pop_wait(WaitStrategy::Park)));
        for item in first_item(9)..first_item(9) + 3 {
            thread::yield_now();
            if queue.push(item).is_ok() {
                done.pushed.push(item);
            }
        }
        for sleeper in sleepers {
            done.popped.extend(sleeper.join().unwrap());
        }
    });
    let mut log = log.lock().unwrap();
    log.pushed.append(&mut done.pushed);
    log.popped.append(&mut done.popped);
}

#[test]
fn a_thread_stopped_at_any_step_delays_no_other() {
    let mut never = Vec::new();
    let mut last = 0;
    let part = std::env::var("RAST_STALL_STEP").unwrap_or_default();
    for step in steps().into_iter().filter(|step| step.contains(&part)) {
        let reached = (0..TRIES).find(|n| stopped_at(step, last + n));
        match reached {
            // What reached this step likely reaches the next one.
            Some(tries) => {
                println!("stall: {step}: after {} tries", tries + 1);
                last += tries;
            }
            None => never.push(step),
        }
    }
    assert!(never.is_empty(), "no thread ever came to {never:?}");
}
