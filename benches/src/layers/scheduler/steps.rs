//! Steps per second: one thread posts tasks, each of which runs so many times.

use std::sync::Arc;

use rast::scheduler::{Next, Task};

use super::LAYER;
use super::contenders::{Ends, Load, Ours, time_aside};
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
    let elapsed = time_aside(workers, || {
        for task in tasks {
            ours.scheduler.post(task).expect("it is open");
        }
        ends.reach(count);
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
    let elapsed = time_aside(workers, || {
        for task in &tasks {
            twin.post(Arc::clone(task));
        }
        ends.reach(count);
    });
    Sample::new(count * executions, elapsed)
}

/// The scenarios of steps.
pub(super) fn scenarios() -> Vec<Scenario> {
    const LOADS: [(&str, Load, u64, u64); 4] = [
        ("nano", Load::Nano, 1, 1_000_000),
        ("nano", Load::Nano, 10, 2_000_000),
        ("micro", Load::Micro, 1, 100_000),
        ("micro", Load::Micro, 10, 100_000),
    ];
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let rows = LOADS
        .iter()
        .flat_map(|&(load_name, load, executions, steps)| {
            [1, 2, 3, 5, 10].map(|workers| {
                let name = format!(
                    "{load_name}, {executions} execution{}, {workers} worker{}",
                    plural(executions),
                    plural(workers as u64)
                );
                // A scenario's name lives as long as the program.
                scenario((name.leak(), load, executions, workers, steps))
            })
        });
    rows.collect()
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
