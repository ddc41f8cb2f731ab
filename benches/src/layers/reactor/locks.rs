//! An exclusive lock, acquired and released: by one task, and by four tasks in turn.
//!
//! Every contender runs on our executor, so that only the lock differs.

use std::rc::Rc;

use rast::executor::{LocalExecutor, block_on, yield_now};
use rast::reactor::{Lock, LockScope};

use super::LAYER;
use crate::harness::Scenario;
use crate::workers::{Sample, alone};

/// Tasks that share the lock.
const TASKS: u64 = 4;
/// Acquisitions per request, if each request makes a scope.
const PER_SCOPE: u64 = 4;

/// Times one task that acquires the lock `ops` times and never waits.
fn by_one_task(ops: u64, work: impl AsyncFn(u64)) -> Sample {
    alone(|| {
        block_on(work(ops));
        ops
    })
}

/// Times four tasks, each of which yields while it holds the lock, so that the others wait.
fn in_turn<F: Future<Output = ()> + 'static>(ops: u64, task: impl Fn(u64) -> F) -> Sample {
    alone(|| {
        let executor = LocalExecutor::new();
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| executor.spawn(task(ops / TASKS)))
            .collect();
        executor.run(async {
            for task in tasks {
                task.await.expect("no task of a bench panics");
            }
        });
        ops / TASKS * TASKS
    })
}

/// Acquires our lock with one scope.
async fn acquire(lock: &Lock<u64>, ops: u64) {
    let mut scope = LockScope::new();
    for _ in 0..ops {
        *lock.exclusive(&mut scope).await.expect("there is no cycle") += 1;
    }
}

fn free() -> Scenario {
    let scenario = Scenario::new(LAYER, "lock: lock and unlock", 2_000_000, 1000)
        .ours("rast Lock, one scope", |ops| {
            let lock = Lock::new(0);
            by_one_task(ops, async |ops| acquire(&lock, ops).await)
        })
        .ours("rast Lock, a scope per 4 locks", |ops| {
            let lock = Lock::new(0);
            by_one_task(ops, async |ops| {
                for _ in 0..ops / PER_SCOPE {
                    acquire(&lock, PER_SCOPE).await;
                }
            })
        });
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = scenario
        .rival("tokio Mutex", |ops| {
            let lock = tokio::sync::Mutex::new(0_u64);
            by_one_task(ops, async |ops| {
                for _ in 0..ops {
                    *lock.lock().await += 1;
                }
            })
        })
        .rival("async-lock Mutex", |ops| {
            let lock = async_lock::Mutex::new(0_u64);
            by_one_task(ops, async |ops| {
                for _ in 0..ops {
                    *lock.lock().await += 1;
                }
            })
        });
    scenario
}

fn contended() -> Scenario {
    let scenario =
        Scenario::new(LAYER, "lock: four tasks in turn", 400_000, 400).ours("rast Lock", |ops| {
            let lock = Rc::new(Lock::new(0_u64));
            in_turn(ops, |times| {
                let lock = Rc::clone(&lock);
                async move {
                    let mut scope = LockScope::new();
                    for _ in 0..times {
                        let held = lock.exclusive(&mut scope).await;
                        let mut held = held.expect("there is no cycle");
                        *held += 1;
                        yield_now().await;
                        drop(held);
                    }
                }
            })
        });
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let scenario = scenario
        .rival("tokio Mutex", |ops| {
            let lock = Rc::new(tokio::sync::Mutex::new(0_u64));
            in_turn(ops, |times| {
                let lock = Rc::clone(&lock);
                async move {
                    for _ in 0..times {
                        let mut held = lock.lock().await;
                        *held += 1;
                        yield_now().await;
                        drop(held);
                    }
                }
            })
        })
        .rival("async-lock Mutex", |ops| {
            let lock = Rc::new(async_lock::Mutex::new(0_u64));
            in_turn(ops, |times| {
                let lock = Rc::clone(&lock);
                async move {
                    for _ in 0..times {
                        let mut held = lock.lock().await;
                        *held += 1;
                        yield_now().await;
                        drop(held);
                    }
                }
            })
        });
    scenario
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![free(), contended()]
}
