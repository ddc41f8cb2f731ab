//! A call to another thread's executor and back. Ours is a call between reactors. Tokio's is a
//! spawn on the other runtime, whose result comes back through a oneshot channel.
//!
//! Idle: one call at a time, so that each thread sleeps while the other one works. Busy: 32 tasks
//! on each thread call the other thread, so that neither sleeps.

use std::time::Instant;

use rast::executor::block_on;
use rast::reactor::{Pool, Reactors, reactor_task, spawn_local};

use super::{LAYER, two_processors};
use crate::harness::Scenario;
use crate::usage::processor_time;
use crate::workers::Sample;

/// Tasks of each thread that call the other thread, if both are busy.
const TASKS: u64 = 32;

/// Two executors, each on its own thread and processor.
trait Pair: 'static {
    fn start() -> Self;

    /// Starts tasks on the executor `from`, each of which calls the other executor `each` times.
    /// The future ends with the last task.
    fn calls(&self, from: usize, tasks: u64, each: u64) -> impl Future<Output = ()> + 'static;
}

/// Ours.
struct Ours(Reactors);

impl Pair for Ours {
    fn start() -> Self {
        let builder = Reactors::builder().number(2);
        let builder = builder.cores(two_processors().into_iter().flatten());
        let pool = Pool::builder().threads([0, 0, 1]);
        Self(builder.pool(pool).build().expect("two threads"))
    }

    fn calls(&self, from: usize, tasks: u64, each: u64) -> impl Future<Output = ()> + 'static {
        let reactor = self.0.reactor(from).expect("one of the two");
        let done = reactor.spawn(move || async move {
            let task = |_| {
                spawn_local(async move {
                    for number in 0..each {
                        let call = reactor_task(1 - from, move || async move { number });
                        assert_eq!(call.await.expect("it runs"), number);
                    }
                })
            };
            let tasks: Vec<_> = (0..tasks).map(task).collect();
            for task in tasks {
                task.await.expect("no task of a bench panics");
            }
        });
        async move { done.await.expect("no task of a bench panics") }
    }
}

/// Times `work`, wall clock and processor time, on two threads.
fn timed(ops: u64, work: impl FnOnce()) -> Sample {
    let cpu = processor_time();
    let start = Instant::now();
    work();
    let elapsed = start.elapsed();
    let cpu = processor_time().saturating_sub(cpu);
    let cpu = cpu.as_nanos() as f64 / ops as f64;
    Sample::new(ops, elapsed).with("CPU ns/op", cpu).by(2)
}

fn idle<P: Pair>() -> impl FnMut(u64) -> Sample + 'static {
    let mut pair: Option<P> = None;
    move |ops| {
        let pair = pair.get_or_insert_with(P::start);
        timed(ops, || block_on(pair.calls(0, 1, ops)))
    }
}

fn busy<P: Pair>() -> impl FnMut(u64) -> Sample + 'static {
    let mut pair: Option<P> = None;
    move |ops| {
        let pair = pair.get_or_insert_with(P::start);
        let each = ops.div_ceil(2 * TASKS);
        timed(each * 2 * TASKS, || {
            let both = [0, 1].map(|from| pair.calls(from, TASKS, each));
            block_on(async {
                for one in both {
                    one.await;
                }
            });
        })
    }
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    let one = Scenario::new(LAYER, "call and back, both idle", 2_000, 64)
        .ours("rast reactor_task", idle::<Ours>());
    let many = Scenario::new(LAYER, "call and back, both busy", 100_000, 128)
        .ours("rast reactor_task", busy::<Ours>());
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let (one, many) = (
        one.rival("tokio spawn and oneshot", idle::<rivals::Tokio>()),
        many.rival("tokio spawn and oneshot", busy::<rivals::Tokio>()),
    );
    vec![one, many]
}

#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals {
    use std::future::pending;

    use tokio::runtime::{Builder, Handle};
    use tokio::sync::oneshot;

    /// Two runtimes of tokio with one thread each.
    pub(super) struct Tokio([Handle; 2]);

    impl super::Pair for Tokio {
        fn start() -> Self {
            Self([0, 1].map(|index| {
                let (sender, receiver) = std::sync::mpsc::channel();
                std::thread::spawn(move || {
                    crate::processors::pin_in_turn(index);
                    let runtime = Builder::new_current_thread().build();
                    let runtime = runtime.expect("a runtime without I/O");
                    sender.send(runtime.handle().clone()).expect("it waits");
                    runtime.block_on(pending::<()>());
                });
                receiver.recv().expect("the thread runs")
            }))
        }

        fn calls(&self, from: usize, tasks: u64, each: u64) -> impl Future<Output = ()> + 'static {
            let other = self.0[1 - from].clone();
            let done = self.0[from].spawn(async move {
                let task = |_| {
                    let other = other.clone();
                    tokio::spawn(async move {
                        for number in 0..each {
                            let (sender, receiver) = oneshot::channel();
                            other.spawn(async move { sender.send(number) });
                            assert_eq!(receiver.await.expect("it runs"), number);
                        }
                    })
                };
                let tasks: Vec<_> = (0..tasks).map(task).collect();
                for task in tasks {
                    task.await.expect("no task of a bench panics");
                }
            });
            async move { done.await.expect("no task of a bench panics") }
        }
    }
}
