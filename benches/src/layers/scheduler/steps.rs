//! Steps per second: one thread posts tasks, each of which runs so many times.

use std::sync::Arc;
use std::time::Instant;

use rast::scheduler::{Next, Task};

use super::LAYER;
use super::contenders::{Ends, Load, Ours, aside};
use super::twin::{self, Then, Twin};
use crate::harness::Scenario;
use crate::workers::Sample;

/// One row: its name, load, executions, workers, steps, and steps of a smoke run.
type Row = (&'static str, Load, u64, usize, u64);

fn ours((_, load, executions, workers, _): Row, steps: u64) -> Sample {
    let ours = Ours::new(workers);
    let ends = Ends::new();
    let count = (steps / executions).max(1);
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let (ends, mut left) = (ends, executions);
            Task::new(move |_| {
                load.run();
                left -= 1;
                if left > 0 {
                    return Next::Again;
                }
                ends.add();
                Next::Exit
            })
        })
        .collect();
    // The handles keep the memory of the tasks.
    let kept: Vec<_> = tasks.iter().map(Task::handle).collect();
    let elapsed = aside(workers, || {
        let begin = Instant::now();
        for task in tasks {
            ours.scheduler.post(task).expect("it is open");
        }
        ends.reach(count);
        begin.elapsed()
    });
    let stats = ours.scheduler.stats();
    let most = stats
        .workers
        .iter()
        .map(|worker| worker.steps)
        .max()
        .unwrap_or(0);
    let share = most as f64 / (count * executions) as f64;
    drop(kept);
    Sample::new(count * executions, elapsed).with("busiest worker's share", share)
}

fn trivial((_, load, executions, workers, _): Row, steps: u64) -> Sample {
    let twin = Twin::new(workers);
    let ends = Ends::new();
    let count = (steps / executions).max(1);
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let (ends, mut left) = (ends, executions);
            twin::Task::new(move || {
                load.run();
                left -= 1;
                if left > 0 {
                    return Then::Again;
                }
                ends.add();
                Then::Exit
            })
        })
        .collect();
    let elapsed = aside(workers, || {
        let begin = Instant::now();
        for task in &tasks {
            twin.post(Arc::clone(task));
        }
        ends.reach(count);
        begin.elapsed()
    });
    Sample::new(count * executions, elapsed)
}

/// The scenarios of steps.
pub(super) fn scenarios() -> Vec<Scenario> {
    const ROWS: &[Row] = &[
        ("nano, 1 execution, 1 worker", Load::Nano, 1, 1, 1_000_000),
        ("nano, 1 execution, 2 workers", Load::Nano, 1, 2, 1_000_000),
        ("nano, 1 execution, 3 workers", Load::Nano, 1, 3, 1_000_000),
        ("nano, 1 execution, 5 workers", Load::Nano, 1, 5, 1_000_000),
        (
            "nano, 1 execution, 10 workers",
            Load::Nano,
            1,
            10,
            1_000_000,
        ),
        (
            "nano, 10 executions, 1 worker",
            Load::Nano,
            10,
            1,
            2_000_000,
        ),
        (
            "nano, 10 executions, 2 workers",
            Load::Nano,
            10,
            2,
            2_000_000,
        ),
        (
            "nano, 10 executions, 3 workers",
            Load::Nano,
            10,
            3,
            2_000_000,
        ),
        (
            "nano, 10 executions, 5 workers",
            Load::Nano,
            10,
            5,
            2_000_000,
        ),
        (
            "nano, 10 executions, 10 workers",
            Load::Nano,
            10,
            10,
            2_000_000,
        ),
        ("micro, 1 execution, 1 worker", Load::Micro, 1, 1, 100_000),
        ("micro, 1 execution, 2 workers", Load::Micro, 1, 2, 100_000),
        ("micro, 1 execution, 3 workers", Load::Micro, 1, 3, 100_000),
        ("micro, 1 execution, 5 workers", Load::Micro, 1, 5, 100_000),
        (
            "micro, 1 execution, 10 workers",
            Load::Micro,
            1,
            10,
            100_000,
        ),
        (
            "micro, 10 executions, 1 worker",
            Load::Micro,
            10,
            1,
            100_000,
        ),
        (
            "micro, 10 executions, 2 workers",
            Load::Micro,
            10,
            2,
            100_000,
        ),
        (
            "micro, 10 executions, 3 workers",
            Load::Micro,
            10,
            3,
            100_000,
        ),
        (
            "micro, 10 executions, 5 workers",
            Load::Micro,
            10,
            5,
            100_000,
        ),
        (
            "micro, 10 executions, 10 workers",
            Load::Micro,
            10,
            10,
            100_000,
        ),
    ];
    ROWS.iter().map(|&row| scenario(row)).collect()
}

fn scenario(row: Row) -> Scenario {
    let scenario = Scenario::new(LAYER, row.0, row.4, 2000)
        .ours("rast Scheduler", move |steps| ours(row, steps))
        .rival("trivial twin", move |steps| trivial(row, steps));
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = {
        let (_, load, executions, workers, _) = row;
        scenario
            .rival("tokio", move |steps| {
                super::rivals::tokio(load, executions, workers, steps)
            })
            .rival("async-executor", move |steps| {
                super::rivals::async_executor(load, executions, workers, steps)
            })
    };
    scenario
}
