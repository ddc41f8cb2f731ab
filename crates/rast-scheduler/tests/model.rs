//! Random programs of posts, wake-ups, signals and clock moves against a plain model of one worker.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use rast_scheduler::timers::{Clock, Instant, ManualClock, Nanos};
use rast_scheduler::{Next, Scheduler, Task, TaskHandle};

/// What a task's step answers, by turns.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Again,
    /// After so many nanoseconds.
    After(u64),
    Wait,
    /// Receives the signal, then waits.
    TakeThenWait,
}

/// What the test does between two moments at which nothing is left to run.
#[derive(Clone, Copy, Debug)]
enum Act {
    Wake(usize),
    Signal(usize),
    Abort(usize),
    Advance(u64),
    Restart,
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Again),
        (1_u64..40).prop_map(Answer::After),
        Just(Answer::Wait),
        Just(Answer::TakeThenWait),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0_usize..4).prop_map(Act::Wake),
        3 => (0_usize..4).prop_map(Act::Signal),
        1 => (0_usize..4).prop_map(Act::Abort),
        4 => (1_u64..30).prop_map(Act::Advance),
        1 => Just(Act::Restart),
    ]
}

/// A task as it should be.
#[derive(Clone, Debug)]
struct Expected {
    answers: Vec<Answer>,
    turn: usize,
    /// When it runs: `Some(0)` at once, `None` only when woken.
    due: Option<u64>,
    is_woken: bool,
    is_signaled: bool,
    is_finished: bool,
    /// The time of each step.
    steps: Vec<u64>,
}

impl Expected {
    /// Runs what is to run at `now`.
    fn run(&mut self, now: u64) {
        while !self.is_finished
            && (self.is_woken || self.is_signaled || self.due.is_some_and(|due| due <= now))
        {
            self.is_woken = false;
            self.steps.push(now);
            let Some(&answer) = self.answers.get(self.turn) else {
                self.is_finished = true;
                return;
            };
            self.turn += 1;
            self.due = match answer {
                Answer::Again => Some(0),
                Answer::After(span) => Some(now + span),
                Answer::Wait => None,
                Answer::TakeThenWait => {
                    self.is_signaled = false;
                    None
                }
            };
        }
    }
}

/// The scheduler at rest: nothing is left to run at the clock's time.
fn settle(scheduler: &Scheduler, expected: &[Expected], logs: &[Arc<Mutex<Vec<u64>>>]) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let agree = || {
        expected
            .iter()
            .zip(logs)
            .all(|(expected, log)| log.lock().unwrap().len() >= expected.steps.len())
    };
    while !agree() {
        assert!(
            std::time::Instant::now() < end,
            "a step is missing: {expected:?} {logs:?}"
        );
        scheduler.look();
        std::thread::yield_now();
    }
    // Two tasks one after the other: the first may be in the round that moved the last step's task.
    for _ in 0..2 {
        scheduler.spawn(|| ()).join().unwrap();
    }
    for (expected, log) in expected.iter().zip(logs) {
        assert_eq!(expected.steps, *log.lock().unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn steps_come_when_they_should(
        programs in prop::collection::vec(prop::collection::vec(answer(), 0..8), 4),
        acts in prop::collection::vec(act(), 0..20),
    ) {
        let clock = ManualClock::at(Instant::from_nanos(1));
        let scheduler = Scheduler::builder().workers(1).clock(clock.clone()).start().unwrap();
        let logs: Vec<Arc<Mutex<Vec<u64>>>> = programs.iter().map(|_| Arc::default()).collect();
        let mut expected: Vec<Expected> = programs
            .iter()
            .map(|answers| Expected {
                answers: answers.clone(),
                turn: 0,
                due: Some(0),
                is_woken: false,
                is_signaled: false,
                is_finished: false,
                steps: Vec::new(),
            })
            .collect();
        let tasks: Vec<Task> = programs
            .into_iter()
            .zip(&logs)
            .map(|(answers, log)| {
                let (log, mut answers) = (Arc::clone(log), answers.into_iter());
                Task::new(move |cx| {
                    let now = cx.now();
                    log.lock().unwrap().push(now.as_nanos());
                    match answers.next() {
                        None => Next::Exit,
                        Some(Answer::Again) => Next::Again,
                        Some(Answer::After(span)) => cx.after(Nanos::from_nanos(span)),
                        Some(Answer::Wait) => Next::Wait,
                        Some(Answer::TakeThenWait) => {
                            cx.take_signal();
                            Next::Wait
                        }
                    }
                })
            })
            .collect();
        let handles: Vec<TaskHandle> = tasks.iter().map(Task::handle).collect();
        scheduler.post_many(tasks).unwrap();
        let mut now = 1;
        for act in std::iter::once(Act::Advance(0)).chain(acts) {
            match act {
                Act::Wake(task) => {
                    let was_finished = expected[task].is_finished;
                    prop_assert_eq!(handles[task].wake().is_err(), was_finished);
                    expected[task].is_woken = true;
                }
                Act::Signal(task) => {
                    let was_finished = expected[task].is_finished;
                    prop_assert_eq!(handles[task].signal().is_err(), was_finished);
                    expected[task].is_signaled = true;
                }
                Act::Abort(task) => {
                    let was_finished = expected[task].is_finished;
                    prop_assert_eq!(handles[task].abort().is_err(), was_finished);
                    expected[task].is_finished = true;
                    // The worker ends it in its turn.
                    while !handles[task].is_finished() {
                        std::thread::yield_now();
                    }
                }
                Act::Advance(span) => {
                    now += span;
                    clock.advance(Nanos::from_nanos(span));
                    scheduler.look();
                }
                Act::Restart => {
                    let left = scheduler.stop().unwrap();
                    let alive = expected.iter().filter(|task| !task.is_finished).count();
                    prop_assert_eq!(left.len(), alive);
                    scheduler.start().unwrap();
                    scheduler.post_many(left).unwrap();
                }
            }
            for task in &mut expected {
                task.run(now);
            }
            settle(&scheduler, &expected, &logs);
        }
        prop_assert_eq!(clock.now().as_nanos(), now);
    }
}
