//! Counts allocations over all threads: posting, waiting, waking, stepping and hopping make none.
#![cfg(not(any(rast_loom, rast_shuttle, rast_global_alloc)))]

mod support;

use rast_scheduler::primitive::CountingAlloc;
use rast_scheduler::timers::Nanos;
use rast_scheduler::{Next, Scheduler, Task, TaskHandle};

use support::LONG;

#[global_allocator]
static ALLOCATOR: CountingAlloc = CountingAlloc;

/// Tasks that own their node are posted, run, waited for, woken and signalled without an
/// allocation each: only the wait store and the ready queues allocate, while they grow.
#[test]
fn a_task_is_allocated_once() {
    const TASKS: usize = 100;
    let (one, two) = (Scheduler::new(1).unwrap(), Scheduler::new(1).unwrap());
    let mut of_passes = Vec::new();
    for _ in 0..20 {
        let tasks: Vec<Task> = (0..TASKS)
            .map(|_| {
                let (mut step, other) = (0, two.remote());
                Task::new(move |cx| {
                    step += 1;
                    if step == 5 {
                        cx.take_signal();
                    }
                    match step {
                        1 | 2 => Next::Again,
                        3 => Next::Wait,
                        4 => cx.after(Nanos::from_secs(3600)),
                        5 => Next::Hop(other.clone()),
                        6 => cx.after(Nanos::from_micros(50)),
                        _ => Next::Exit,
                    }
                })
            })
            .collect();
        let handles: Vec<TaskHandle> = tasks.iter().map(Task::handle).collect();
        let before = CountingAlloc::allocations();
        for task in tasks {
            one.post(task).unwrap();
        }
        assert!(one.wait_idle(LONG));
        for handle in &handles {
            handle.wake().unwrap();
        }
        // Each waits for an hour, or is about to.
        for handle in &handles {
            handle.signal().unwrap();
        }
        assert!(one.wait_idle(LONG) && two.wait_idle(LONG));
        of_passes.push(CountingAlloc::allocations() - before);
        assert!(handles.iter().all(TaskHandle::is_finished));
    }
    // How many tasks are in one place at once differs from pass to pass, so a store may still grow.
    let later: u64 = of_passes[1..].iter().sum();
    assert!(later < TASKS as u64, "allocations by pass: {of_passes:?}");
}
