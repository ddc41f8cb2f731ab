//! Waiting: time from post to run on an idle worker, lateness, deadlines that fire or are woken,
//! one-shot tasks, signals.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rast::scheduler::timers::Nanos;
use rast::scheduler::{Next, Task, TaskHandle};

use super::LAYER;
use super::contenders::{Ends, Ours, aside, time_aside};
use super::twin::{self, Then, Twin};
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::usage::{memory, processor_time};
use crate::workers::Sample;

/// Time between two posts to an idle scheduler.
const PAUSE: Duration = Duration::from_micros(300);

/// Judges a run by the median delay of what `post` causes. `post` gets the instant of the post, and
/// a word in which to store the delay.
fn idle(workers: usize, ops: u64, mut post: impl FnMut(Instant, Arc<AtomicU64>) + Send) -> Sample {
    aside(workers, move || {
        let mut histogram = Histogram::new();
        let begin = Instant::now();
        for _ in 0..ops {
            thread::sleep(PAUSE);
            let delay = Arc::new(AtomicU64::new(0));
            post(Instant::now(), Arc::clone(&delay));
            let mut patience = crate::workers::Patience::new();
            while delay.load(Ordering::Acquire) == 0 {
                patience.wait();
            }
            histogram.record(delay.load(Ordering::Relaxed));
        }
        Sample::new(ops, begin.elapsed())
            .judged_by(histogram.quantile(0.5))
            .with("p50", histogram.quantile(0.5))
            .with("p99", histogram.quantile(0.99))
    })
}

fn note(since: Instant, delay: &AtomicU64) {
    delay.store(since.elapsed().as_nanos().max(1) as u64, Ordering::Release);
}

fn idle_ours(ops: u64) -> Sample {
    let ours = Ours::new(1);
    let remote = ours.scheduler.remote();
    idle(1, ops, move |since, delay| {
        let task = Task::new(move |_| {
            note(since, &delay);
            Next::Exit
        });
        remote.post(task).expect("it is open");
    })
}

fn idle_trivial(ops: u64) -> Sample {
    let twin = Twin::new(1);
    idle(1, ops, |since, delay| {
        twin.post(twin::Task::new(move || {
            note(since, &delay);
            Then::Exit
        }));
    })
}

/// Posts with a deadline in 200 µs; the delay is the lateness.
fn late_ours(ops: u64) -> Sample {
    let ours = Ours::new(1);
    let remote = ours.scheduler.remote();
    idle(1, ops, move |since, delay| {
        let span = Duration::from_micros(200);
        let due = since + span;
        let at = remote.now().saturating_add(Nanos::from(span));
        let task = Task::new(move |_| {
            note(due, &delay);
            Next::Exit
        });
        remote.post_at(task, at).expect("it is open");
    })
}

fn late_trivial(ops: u64) -> Sample {
    let twin = Twin::new(1);
    idle(1, ops, |since, delay| {
        let due = since + Duration::from_micros(200);
        let task = twin::Task::new(move || {
            note(due, &delay);
            Then::Exit
        });
        twin.post_at(task, due);
    })
}

/// What ends the wait of many tasks.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// Deadlines within 100 ms, in no order.
    Time,
    /// A wake-up, with a deadline far away.
    WakeUp,
    /// A wake-up, without a deadline.
    WakeUpAlone,
}

/// The order of deadlines: spread, and not sorted.
fn spread(number: u64, within: Duration) -> Duration {
    within.mul_f64((number * 7919 % 100_003) as f64 / 100_003.0)
}

fn many_ours(by: By, count: u64) -> Sample {
    let ours = Ours::new(1);
    let ends = Ends::new();
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            Task::new(move |_| {
                ends.add();
                Next::Exit
            })
        })
        .collect();
    // They also keep the memory of the tasks, as the twin's list does.
    let handles: Vec<TaskHandle> = tasks.iter().map(Task::handle).collect();
    let elapsed = time_aside(1, || {
        let now = ours.scheduler.now();
        for (number, task) in (0..).zip(tasks) {
            let posted = match by {
                By::WakeUpAlone => ours.scheduler.post_wait(task),
                By::Time => {
                    let span = spread(number, Duration::from_millis(100));
                    ours.scheduler
                        .post_at(task, now.saturating_add(span.into()))
                }
                By::WakeUp => {
                    let span = Duration::from_secs(3600) + spread(number, Duration::from_secs(60));
                    ours.scheduler
                        .post_at(task, now.saturating_add(span.into()))
                }
            };
            posted.expect("it is open");
        }
        if by != By::Time {
            for handle in &handles {
                handle.wake().expect("it waits");
            }
        }
        ends.reach(count);
    });
    Sample::new(count, elapsed)
}

fn many_trivial(by: By, count: u64) -> Sample {
    let twin = Twin::new(1);
    let ends = Ends::new();
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            twin::Task::new(move || {
                ends.add();
                Then::Exit
            })
        })
        .collect();
    let elapsed = aside(1, || {
        let begin = Instant::now();
        for (number, task) in (0..).zip(&tasks) {
            match by {
                By::WakeUpAlone => twin.post_wait(task),
                By::Time => {
                    let at = begin + spread(number, Duration::from_millis(100));
                    twin.post_at(Arc::clone(task), at);
                }
                By::WakeUp => {
                    let span = Duration::from_secs(3600) + spread(number, Duration::from_secs(60));
                    twin.post_at(Arc::clone(task), begin + span);
                }
            }
        }
        if by != By::Time {
            for task in &tasks {
                twin.wake(task);
            }
        }
        ends.reach(count);
        begin.elapsed()
    });
    Sample::new(count, elapsed)
}

fn one_shot_ours(workers: usize, count: u64) -> Sample {
    let ours = Ours::new(workers);
    let ends = Ends::new();
    let elapsed = time_aside(workers, || {
        for _ in 0..count {
            let task = Task::new(move |_| {
                ends.add();
                Next::Exit
            });
            ours.scheduler.post(task).expect("it is open");
        }
        ends.reach(count);
    });
    Sample::new(count, elapsed)
}

fn one_shot_trivial(workers: usize, count: u64) -> Sample {
    let twin = Twin::new(workers);
    let ends = Ends::new();
    let elapsed = time_aside(workers, || {
        for _ in 0..count {
            twin.post(twin::Task::new(move || {
                ends.add();
                Then::Exit
            }));
        }
        ends.reach(count);
    });
    Sample::new(count, elapsed)
}

/// Tasks that receive five signals each, sent round by round.
const SIGNALS: u64 = 5;

fn signals_ours(ops: u64) -> Sample {
    let ours = Ours::new(1);
    let count = (ops / SIGNALS).max(1);
    let mut handles = Vec::new();
    for _ in 0..count {
        let task = Task::new(|cx| {
            cx.take_signal();
            Next::Wait
        });
        handles.push(task.handle());
        ours.scheduler.post_wait(task).expect("it is open");
    }
    let is_idle = ours.scheduler.wait_idle(Duration::from_secs(60));
    assert!(is_idle, "the tasks wait");
    let elapsed = time_aside(1, || {
        for _ in 0..SIGNALS {
            for handle in &handles {
                handle.signal().expect("it waits");
            }
        }
        assert!(
            ours.scheduler.wait_idle(Duration::from_secs(60)),
            "all are received"
        );
    });
    Sample::new(count * SIGNALS, elapsed)
}

fn signals_trivial(ops: u64) -> Sample {
    let twin = Twin::new(1);
    let count = (ops / SIGNALS).max(1);
    let received = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let received = Arc::clone(&received);
            let task = twin::Task::new(move || {
                received.fetch_add(1, Ordering::Relaxed);
                Then::Wait
            });
            twin.post_wait(&task);
            task
        })
        .collect();
    let elapsed = time_aside(1, || {
        for _ in 0..SIGNALS {
            for task in &tasks {
                twin.wake(task);
            }
        }
        // A last task comes behind all others.
        let ends = Ends::new();
        twin.post(twin::Task::new(move || {
            ends.add();
            Then::Exit
        }));
        ends.reach(1);
    });
    Sample::new(count * SIGNALS, elapsed)
}

/// A scheduler in which many tasks wait for an hour: processor time per second, and bytes per task.
/// Only the first scenario of a program shows the bytes, because later ones reuse freed memory.
fn far_deadlines(count: u64) -> Sample {
    let span = Duration::from_secs(if count < 1_000_000 { 1 } else { 10 });
    let ours = Ours::new(1);
    let before = memory();
    for number in 0..count {
        let state = [number; 2];
        let task = Task::new(move |_| {
            black_box(&state);
            Next::Exit
        });
        let hour = Duration::from_secs(3600) + spread(number, Duration::from_secs(60));
        let posted = ours.scheduler.post_after(task, hour.into());
        posted.expect("it is open");
    }
    // It comes behind all others.
    let last = ours.scheduler.spawn(|| ()).join();
    last.expect("it runs");
    let bytes = (memory() - before) / count as f64;
    let begin = processor_time();
    thread::sleep(span);
    let used = processor_time() - begin;
    Sample::new(1, used)
        .judged_by(used.as_nanos() as f64 / span.as_secs_f64())
        .with("bytes per task with a state of 16", bytes)
        .with(
            "per cent of a core",
            used.as_secs_f64() / span.as_secs_f64() * 100.0,
        )
}

/// The scenarios of waiting.
pub(super) fn scenarios() -> Vec<Scenario> {
    let many = |name, by| {
        Scenario::new(LAYER, name, 1_000_000, 2000)
            .at_most(15)
            .ours("rast Scheduler", move |count| many_ours(by, count))
            .rival("trivial twin", move |count| many_trivial(by, count))
    };
    let one_shot = |name, workers| {
        Scenario::new(LAYER, name, 1_000_000, 2000)
            .at_most(15)
            .ours("rast Scheduler", move |count| one_shot_ours(workers, count))
            .rival("trivial twin", move |count| {
                one_shot_trivial(workers, count)
            })
    };
    vec![
        Scenario::new(
            LAYER,
            "a million tasks that wait for an hour",
            1_000_000,
            2000,
        )
        .at_most(1)
        .ours("rast Scheduler", far_deadlines),
        Scenario::new(LAYER, "idle post to run p50", 1000, 20)
            .ours("rast Scheduler", idle_ours)
            .rival("trivial twin", idle_trivial),
        Scenario::new(LAYER, "lateness of a deadline p50", 1000, 20)
            .ours("rast Scheduler", late_ours)
            .rival("trivial twin", late_trivial),
        many("deadlines posted and fired", By::Time),
        many("posted with a far deadline and woken", By::WakeUp),
        many("posted without deadline and woken", By::WakeUpAlone),
        one_shot("one-shot tasks, 1 worker", 1),
        one_shot("one-shot tasks, 2 workers", 2),
        Scenario::new(LAYER, "signals", 5_000_000, 2000)
            .at_most(15)
            .ours("rast Scheduler", signals_ours)
            .rival("trivial twin", signals_trivial),
    ]
}
