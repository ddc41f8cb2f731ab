//! Order, the fairness bound, priorities, even shares.

use std::sync::{Arc, Mutex};

use rast_scheduler::{Next, Priority, Scheduler, Task};

use crate::support::{Count, Gate, LONG};

/// Runs tasks that note their number at each step, all ready before the first runs; returns the
/// steps in order.
fn steps_of(tasks: Vec<(Priority, usize)>) -> Vec<usize> {
    let scheduler = Scheduler::builder().workers(1).build();
    let log = Arc::new(Mutex::new(Vec::new()));
    let tasks = tasks
        .into_iter()
        .enumerate()
        .map(|(number, (priority, mut steps))| {
            let log = Arc::clone(&log);
            let task = Task::new(move |_| {
                log.lock().unwrap().push(number);
                steps -= 1;
                if steps == 0 { Next::Exit } else { Next::Again }
            });
            task.with_priority(priority)
        });
    scheduler.post_many(tasks).unwrap();
    scheduler.start().unwrap();
    assert!(scheduler.wait_idle(LONG));
    drop(scheduler);
    Arc::try_unwrap(log).unwrap().into_inner().unwrap()
}

#[test]
fn tasks_start_in_the_order_of_their_posts() {
    let steps = steps_of(vec![(Priority::Normal, 1); 1000]);
    assert_eq!(steps, (0..1000).collect::<Vec<_>>());
}

/// A task that posts itself again goes behind what is ready: between two of its steps every other
/// one runs.
#[test]
fn no_task_runs_twice_before_a_ready_one() {
    let steps = steps_of(vec![(Priority::Normal, 50); 200]);
    for pass in steps.chunks(200) {
        let mut pass = pass.to_vec();
        pass.sort_unstable();
        assert_eq!(pass, (0..200).collect::<Vec<_>>());
    }
}

/// Tasks that post themselves for ever do not keep a posted one out.
#[test]
fn a_posted_task_runs_beside_those_that_never_end() {
    for workers in 1..3 {
        let scheduler = Scheduler::new(workers).unwrap();
        for _ in 0..300 {
            scheduler.post(Task::new(|_| Next::Again)).unwrap();
        }
        for number in 0..100 {
            assert_eq!(scheduler.spawn(move || number).join().unwrap(), number);
        }
        assert_eq!(scheduler.stop().unwrap().len(), 300);
    }
}

/// The bounds of the priorities, in any window of steps.
#[test]
fn priorities_have_their_bounds() {
    let (high, normal, low) = (0, 1, 2);
    let steps = steps_of(vec![
        (Priority::High, 3000),
        (Priority::Normal, 300),
        (Priority::Low, 80),
    ]);
    let end = |number: usize| steps.iter().rposition(|&step| step == number).unwrap();
    for window in steps[..end(normal)].windows(8) {
        assert!(window.contains(&normal), "one of 8: {window:?}");
    }
    for window in steps[..end(low)].windows(32) {
        assert!(window.contains(&low), "one of 32: {window:?}");
    }
    let share = steps[..1000].iter().filter(|&&step| step == high).count();
    assert!(share >= 840, "high ones go first: {share} of 1000");
}

#[test]
fn priorities_order_what_is_ready() {
    let steps = steps_of(vec![
        (Priority::Low, 1),
        (Priority::Normal, 1),
        (Priority::High, 1),
        (Priority::High, 1),
    ]);
    assert_eq!(steps, [2, 3, 1, 0]);
}

/// Two workers share tasks that never wait: each task gets on.
#[test]
fn all_tasks_get_on_under_two_workers() {
    let scheduler = Scheduler::new(2).unwrap();
    let gate = Gate::new();
    gate.open();
    let counts: Vec<_> = (0..64).map(|_| Count::new()).collect();
    for count in &counts {
        let count = count.clone();
        let gate = gate.clone();
        scheduler
            .post(Task::new(move |_| {
                gate.pass();
                count.add();
                Next::Again
            }))
            .unwrap();
    }
    for count in &counts {
        crate::support::until("a thousand steps", || count.get() > 1000);
    }
    assert_eq!(scheduler.stop().unwrap().len(), 64);
}
