//! Results, panics and cancellation by the join handle.

use rast_scheduler::{Finished, JoinError, Scheduler};
use std::panic::panic_any;
use std::sync::Arc;

use crate::support::Gate;

#[test]
fn a_join_gives_the_result_or_the_payload() {
    let scheduler = Scheduler::new(2).unwrap();
    assert_eq!(
        scheduler.spawn(|| "text".to_string()).join().unwrap(),
        "text"
    );
    let panicked = scheduler.spawn(|| panic_any(42_u8)).join();
    let Err(JoinError::Panicked(payload)) = panicked else {
        panic!("it panicked");
    };
    assert_eq!(payload.downcast_ref(), Some(&42_u8));
    let joined = scheduler.spawn_future(async { 1 });
    let handle = joined.handle();
    joined.join().unwrap();
    assert_eq!(
        handle.wake(),
        Err(Finished),
        "finished before the joiner is told"
    );
}

#[test]
fn many_joins_by_futures() {
    let scheduler = Scheduler::new(2).unwrap();
    let parts: Vec<_> = (0..1000_u64)
        .map(|part| scheduler.spawn(move || part))
        .collect();
    let sum = scheduler.spawn_future(async move {
        let mut sum = 0;
        for part in parts {
            sum += part.await.unwrap();
        }
        sum
    });
    assert_eq!(sum.join().unwrap(), 499_500);
}

#[test]
fn a_cancelled_task_says_so_and_drops_what_it_holds() {
    let scheduler = Scheduler::new(1).unwrap();
    let (entered, go) = (Gate::new(), Gate::new());
    let (at, on) = (entered.clone(), go.clone());
    let busy = scheduler.spawn(move || {
        at.open();
        on.pass();
    });
    entered.pass();
    let held = Arc::new(());
    let holds = Arc::clone(&held);
    let queued = scheduler.spawn(move || drop(holds));
    queued.abort();
    go.open();
    assert!(matches!(queued.join(), Err(JoinError::Cancelled)));
    assert_eq!(Arc::strong_count(&held), 1);
    busy.join().unwrap();

    let endless = scheduler.spawn_future(std::future::pending::<()>());
    drop(scheduler);
    assert!(matches!(endless.join(), Err(JoinError::Cancelled)));
}

#[test]
fn a_result_that_is_not_taken_is_dropped() {
    let scheduler = Scheduler::new(1).unwrap();
    let held = Arc::new(());
    let holds = Arc::clone(&held);
    drop(scheduler.spawn(move || holds));
    drop(scheduler);
    assert_eq!(Arc::strong_count(&held), 1);
}
