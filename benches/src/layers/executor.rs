//! rast-executor: the workloads of tokio's and async-executor's own benches, on two workers and on
//! one thread.
//!
//! The workers of each contender are pinned to different processors before the first run. All
//! contenders allocate from `RastAlloc`. Each row also has the CPU time, because a runtime may save
//! time by using another core. The `StaticExecutor` of async-executor keeps no list of its tasks,
//! so it cannot end them. It has a row, but no floor refers to it.

mod lists;
mod rigs;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals;
#[cfg(unix)]
mod web;

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rast::executor::{Runtime, sleep};

use self::lists::Lists;
use self::rigs::{Local, Ours, Rig, Single};
use crate::harness::Scenario;
use crate::workers::Sample;

const LAYER: &str = "executor";

/// What a run measures.
type Work<R> = fn(&R, u64) -> Sample;

/// Times `work`, wall clock and CPU, over two threads; it returns how many operations it did.
fn timed(work: impl FnOnce() -> u64) -> Sample {
    timed_alone(work).by(2)
}

/// As [`timed`], on one thread.
fn timed_alone(work: impl FnOnce() -> u64) -> Sample {
    let cpu = cpu_ns();
    let start = Instant::now();
    let done = work();
    let elapsed = start.elapsed();
    Sample::new(done, elapsed).with("CPU ns/op", (cpu_ns() - cpu) / done as f64)
}

/// The CPU time of the process so far.
#[cfg(unix)]
fn cpu_ns() -> f64 {
    // SAFETY: zeroes are a value of this type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the place is writable and of the right type.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// The CPU time of the process so far; zero on this system.
#[cfg(not(unix))]
fn cpu_ns() -> f64 {
    0.0
}

/// Counts down, and sends a message when it reaches zero.
#[derive(Clone)]
struct Countdown(Arc<(AtomicUsize, mpsc::SyncSender<()>)>);

impl Countdown {
    fn new(count: usize) -> (Self, mpsc::Receiver<()>) {
        let (sender, receiver) = mpsc::sync_channel(1);
        (Self(Arc::new((AtomicUsize::new(count), sender))), receiver)
    }

    fn step(&self) {
        if self.0.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.1.send(()).expect("the bench waits");
        }
    }
}

/// A value that is sent once.
#[derive(Clone, Default)]
struct Once(Arc<Mutex<(bool, Option<Waker>)>>);

impl Once {
    fn send(&self) {
        let waker = {
            let mut state = self.0.lock().expect("no panic");
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn receive(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock().expect("no panic");
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// tokio: tasks spawned by a thread outside while the workers sleep at first.
fn spawn_many_local<R: Rig>(rig: &R, ops: u64) -> Sample {
    timed(|| {
        let (countdown, done) = Countdown::new(ops as usize);
        for _ in 0..ops {
            let countdown = countdown.clone();
            rig.spawn(async move { countdown.step() });
        }
        done.recv().expect("all ran");
        ops
    })
}

/// The same from inside a task.
fn spawn_many_inside<R: Rig>(rig: &R, ops: u64) -> Sample {
    timed(|| {
        let (countdown, done) = Countdown::new(ops as usize);
        let inner = rig.clone();
        rig.spawn(async move {
            for _ in 0..ops {
                let countdown = countdown.clone();
                inner.spawn(async move { countdown.step() });
            }
        });
        done.recv().expect("all ran");
        ops
    })
}

/// tokio: tasks spawned from outside, and their handles awaited.
fn spawn_many_remote_idle<R: Rig>(rig: &R, ops: u64) -> Sample {
    timed(|| {
        let joins: Vec<_> = (0..ops).map(|_| rig.spawn_joined(async {})).collect();
        rig.block_on(async {
            for join in joins {
                join.await;
            }
        });
        ops
    })
}

/// Work of ten microseconds that lets other threads run.
fn stall() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(10) {
        std::thread::yield_now();
    }
}

/// Runs `work` beside so many tasks, which run until it is over.
fn beside<T: Future<Output = ()> + Send + 'static>(
    rig: &impl Rig,
    tasks: usize,
    task: impl Fn(Arc<AtomicBool>) -> T,
    work: impl FnOnce() -> Sample,
) -> Sample {
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..tasks {
        rig.spawn(task(Arc::clone(&stop)));
    }
    let sample = work();
    stop.store(true, Ordering::Relaxed);
    sample
}

/// tokio: the same beside two tasks for each worker that yield and stall, again and again.
fn spawn_many_remote_busy1<R: Rig>(rig: &R, ops: u64) -> Sample {
    let yields = |stop: Arc<AtomicBool>| async move {
        while !stop.load(Ordering::Relaxed) {
            R::yield_now().await;
            stall();
        }
    };
    beside(rig, 4, yields, || spawn_many_remote_idle(rig, ops))
}

/// tokio: the same beside a task for each worker that stalls and spawns its successor.
fn spawn_many_remote_busy2<R: Rig>(rig: &R, ops: u64) -> Sample {
    fn successor<R: Rig>(
        rig: R,
        stop: Arc<AtomicBool>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if !stop.load(Ordering::Relaxed) {
                stall();
                rig.spawn(successor(rig.clone(), stop));
            }
        })
    }
    let first = |stop| successor(rig.clone(), stop);
    beside(rig, 2, first, || spawn_many_remote_idle(rig, ops))
}

/// tokio: 200 tasks that yield.
fn yield_many<R: Rig>(rig: &R, ops: u64) -> Sample {
    yields(rig, 200, ops)
}

fn yields<R: Rig>(rig: &R, tasks: u64, ops: u64) -> Sample {
    timed(|| {
        let (countdown, done) = Countdown::new(tasks as usize);
        for _ in 0..tasks {
            let countdown = countdown.clone();
            rig.spawn(async move {
                for _ in 0..ops / tasks {
                    R::yield_now().await;
                }
                countdown.step();
            });
        }
        done.recv().expect("all ran");
        ops
    })
}

/// tokio: pairs of tasks that send to each other once.
fn ping_pong<R: Rig>(rig: &R, ops: u64) -> Sample {
    timed(|| {
        let (countdown, done) = Countdown::new(ops as usize);
        let inner = rig.clone();
        rig.spawn(async move {
            for _ in 0..ops {
                let (countdown, rig) = (countdown.clone(), inner.clone());
                inner.spawn(async move {
                    let (ping, pong) = (Once::default(), Once::default());
                    let (theirs, back) = (ping.clone(), pong.clone());
                    rig.spawn(async move {
                        theirs.receive().await;
                        back.send();
                    });
                    ping.send();
                    pong.receive().await;
                    countdown.step();
                });
            }
        });
        done.recv().expect("all ran");
        ops
    })
}

/// tokio: each task spawns the next.
fn chained_spawn<R: Rig>(rig: &R, ops: u64) -> Sample {
    fn link<R: Rig>(
        rig: R,
        left: u64,
        done: mpsc::SyncSender<()>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if left == 0 {
                done.send(()).expect("the bench waits");
            } else {
                let next = link(rig.clone(), left - 1, done);
                rig.spawn(next);
            }
        })
    }
    timed(|| {
        let (sender, done) = mpsc::sync_channel(1);
        rig.spawn(link(rig.clone(), ops, sender));
        done.recv().expect("all ran");
        ops
    })
}

/// async-executor: one task at a time, awaited from outside.
fn spawn_one<R: Rig>(rig: &R, ops: u64) -> Sample {
    timed(|| {
        for _ in 0..ops {
            rig.block_on(rig.spawn_joined(async {}));
        }
        ops
    })
}

/// async-executor: 300 tasks at a time, awaited inside.
fn spawn_batch<R: Rig>(rig: &R, ops: u64) -> Sample {
    timed(|| {
        for _ in 0..ops / 300 {
            let inner = rig.clone();
            rig.block_on(rig.spawn_joined(async move {
                let joins: Vec<_> = (0..300).map(|_| inner.spawn_joined(async {})).collect();
                for join in joins {
                    join.await;
                }
            }));
        }
        ops / 300 * 300
    })
}

/// async-executor: 300 chains of tasks, each of which awaits the next.
fn spawn_recursively<R: Rig>(rig: &R, ops: u64) -> Sample {
    fn go<R: Rig>(rig: R, left: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if left > 0 {
                rig.spawn_joined(go(rig.clone(), left - 1)).await;
            }
        })
    }
    timed(|| {
        let inner = rig.clone();
        rig.block_on(rig.spawn_joined(async move {
            let joins: Vec<_> = (0..300)
                .map(|_| inner.spawn_joined(go(inner.clone(), ops / 300)))
                .collect();
            for join in joins {
                join.await;
            }
        }));
        ops / 300 * 300
    })
}

/// A channel of one place, as in async-executor's bench; the same for each contender.
#[derive(Clone, Default)]
struct Channel(Arc<Mutex<Place>>);

#[derive(Default)]
struct Place {
    is_full: bool,
    sender: Option<Waker>,
    receiver: Option<Waker>,
}

impl Channel {
    /// Waits until the place is empty and fills it, or until it is full and empties it.
    async fn turn(&self, fills: bool) {
        poll_fn(|cx| {
            let mut place = self.0.lock().expect("no panic");
            if place.is_full == fills {
                let mine = if fills {
                    &mut place.sender
                } else {
                    &mut place.receiver
                };
                *mine = Some(cx.waker().clone());
                return Poll::Pending;
            }
            place.is_full = fills;
            let other = if fills {
                place.receiver.take()
            } else {
                place.sender.take()
            };
            drop(place);
            other.into_iter().for_each(Waker::wake);
            Poll::Ready(())
        })
        .await;
    }
}

/// How often each of the 300 tasks passes a value on, for so many operations.
fn rounds(ops: u64) -> u64 {
    (ops / 300).max(1)
}

/// Passes values through a ring of 300 tasks and the caller, one value at a time.
async fn ring<J: Future<Output = ()>>(ops: u64, spawn: impl Fn(Channel, Channel, u64) -> J) -> u64 {
    let rounds = rounds(ops);
    let first = Channel::default();
    let mut last = first.clone();
    let tasks: Vec<_> = (0..300)
        .map(|_| {
            let next = Channel::default();
            let from = std::mem::replace(&mut last, next.clone());
            spawn(from, next, rounds)
        })
        .collect();
    for _ in 0..rounds {
        first.turn(true).await;
        last.turn(false).await;
    }
    for task in tasks {
        task.await;
    }
    rounds * 300
}

/// A task of the ring.
async fn pass_on(from: Channel, to: Channel, rounds: u64) {
    for _ in 0..rounds {
        from.turn(false).await;
        to.turn(true).await;
    }
}

/// async-executor: 300 tasks that pass a value on; the caller, who is outside, closes the ring.
fn channels<R: Rig>(rig: &R, ops: u64) -> Sample {
    timed(|| {
        rig.block_on(ring(ops, |from, to, rounds| {
            rig.spawn_joined(pass_on(from, to, rounds))
        }))
    })
}

/// async-executor: 300 tasks that yield.
fn yield_now<R: Rig>(rig: &R, ops: u64) -> Sample {
    yields(rig, 300, ops)
}

/// The CPU time per second of a runtime whose 10,000 tasks sleep for an hour, measured over the
/// given milliseconds.
fn idle_sleepers(millis: u64) -> Sample {
    let runtime = Runtime::builder().workers(2).build();
    let runtime = runtime.expect("the system gives threads");
    let armed = Arc::new(AtomicU64::new(0));
    for _ in 0..10_000 {
        let armed = Arc::clone(&armed);
        runtime
            .spawn(async move {
                let mut rest = std::pin::pin!(sleep(Duration::from_secs(3_600)));
                poll_fn(|cx| {
                    let polled = rest.as_mut().poll(cx);
                    armed.fetch_add(1, Ordering::Release);
                    polled
                })
                .await;
            })
            .detach();
    }
    while armed.load(Ordering::Acquire) < 10_000 {
        std::thread::yield_now();
    }
    let span = Duration::from_millis(millis);
    let before = cpu_ns();
    std::thread::sleep(span);
    let cpu = cpu_ns() - before;
    Sample::new(millis, span).judged_by((cpu / span.as_secs_f64()).max(1.0))
}

/// The time from a spawn outside to its first poll, while four tasks compute 100 us and yield;
/// judged by the p99.
fn latency<R: Rig>(rig: &R, ops: u64) -> Sample {
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        let stop = Arc::clone(&stop);
        rig.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(100) {
                    std::hint::spin_loop();
                }
                R::yield_now().await;
            }
        });
    }
    let waits = Arc::new(Mutex::new(Vec::with_capacity(ops as usize)));
    let sample = timed(|| {
        for _ in 0..ops {
            let waits = Arc::clone(&waits);
            let sent = Instant::now();
            rig.block_on(rig.spawn_joined(async move {
                waits.lock().expect("no panic").push(sent.elapsed());
            }));
            std::thread::sleep(Duration::from_micros(100));
        }
        ops
    });
    stop.store(true, Ordering::Relaxed);
    let mut waits = std::mem::take(&mut *waits.lock().expect("no panic"));
    waits.sort_unstable();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize].as_nanos() as f64;
    sample
        .judged_by(at(0.99))
        .with("p50 ns", at(0.5))
        .with("p99.9 ns", at(0.999))
}

/// Bytes of a task whose future has `N` bytes besides those that it needs to wait; judged by the
/// bytes.
fn bytes<R: Rig, const N: usize>(rig: &R, ops: u64) -> Sample {
    let gate = Arc::new(AtomicBool::new(false));
    let polled = Arc::new(AtomicU64::new(0));
    let before = rast::alloc::RastAlloc::stats().bytes_current;
    let mut bytes = 0;
    let sample = timed(|| {
        let joins: Vec<_> = (0..ops)
            .map(|_| rig.spawn_joined(Waits::<N>::new(&gate, &polled)))
            .collect();
        while polled.load(Ordering::Acquire) < ops {
            std::thread::yield_now();
        }
        let held = joins.capacity() * size_of_val(&joins[0]);
        let after = rast::alloc::RastAlloc::stats().bytes_current;
        gate.store(true, Ordering::Release);
        for waker in std::mem::take(&mut *WAKERS.lock().expect("no panic")) {
            waker.wake();
        }
        rig.block_on(async {
            for join in joins {
                join.await;
            }
        });
        let wakers = ops as usize * size_of::<Waker>();
        bytes = after.saturating_sub(before).saturating_sub(held + wakers);
        ops
    });
    sample.judged_by((bytes as f64 / ops as f64).max(1.0))
}

/// The wakers of the tasks that wait.
static WAKERS: Mutex<Vec<Waker>> = Mutex::new(Vec::new());

/// Waits for the gate; the two references are 16 bytes of its size.
struct Waits<const N: usize> {
    gate: Arc<AtomicBool>,
    polled: Arc<AtomicU64>,
    rest: [u8; N],
}

impl<const N: usize> Waits<N> {
    fn new(gate: &Arc<AtomicBool>, polled: &Arc<AtomicU64>) -> Self {
        Self {
            gate: Arc::clone(gate),
            polled: Arc::clone(polled),
            rest: [0; N],
        }
    }
}

impl<const N: usize> Future for Waits<N> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        black_box(&self.rest);
        if self.gate.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        {
            let mut wakers = WAKERS.lock().expect("no panic");
            wakers.reserve_exact(1);
            wakers.push(cx.waker().clone());
        }
        self.polled.fetch_add(1, Ordering::Release);
        Poll::Pending
    }
}

/// One thread: one task at a time.
fn local_one<L: Local>(local: &L, ops: u64) -> Sample {
    timed_alone(|| {
        for _ in 0..ops {
            local.run(local.spawn(async {}));
        }
        ops
    })
}

/// Spawns so many tasks and awaits them.
async fn local_tasks<L: Local>(local: &L, tasks: u64) {
    let joins: Vec<_> = (0..tasks).map(|_| local.spawn(async {})).collect();
    for join in joins {
        join.await;
    }
}

/// One thread: 300 tasks at a time.
fn local_batch<L: Local>(local: &L, ops: u64) -> Sample {
    timed_alone(|| {
        for _ in 0..ops / 300 {
            local.run(local_tasks(local, 300));
        }
        ops / 300 * 300
    })
}

/// One thread: all tasks at once.
fn local_many<L: Local>(local: &L, ops: u64) -> Sample {
    timed_alone(|| {
        local.run(local_tasks(local, ops));
        ops
    })
}

/// One thread: 300 chains of tasks, each of which awaits the next.
fn local_recursively<L: Local>(local: &L, ops: u64) -> Sample {
    fn go<L: Local>(local: L, left: u64) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            if left > 0 {
                local.spawn(go(local.clone(), left - 1)).await;
            }
        })
    }
    timed_alone(|| {
        local.run(async {
            let joins: Vec<_> = (0..300)
                .map(|_| local.spawn(go(local.clone(), ops / 300)))
                .collect();
            for join in joins {
                join.await;
            }
        });
        ops / 300 * 300
    })
}

/// One thread: 300 tasks that yield.
fn local_yield<L: Local>(local: &L, ops: u64) -> Sample {
    let times = ops / 300;
    timed_alone(|| {
        local.run(async {
            let task = |_| {
                local.spawn(async move {
                    for _ in 0..times {
                        L::yield_now().await;
                    }
                })
            };
            let joins: Vec<_> = (0..300).map(task).collect();
            for join in joins {
                join.await;
            }
        });
        times * 300
    })
}

/// One thread: 300 tasks that pass a value on, in a ring with the caller.
fn local_channels<L: Local>(local: &L, ops: u64) -> Sample {
    timed_alone(|| {
        local.run(ring(ops, |from, to, rounds| {
            local.spawn(pass_on(from, to, rounds))
        }))
    })
}

/// Makes an executor of one thread at the first run.
fn locally<L: Local>(work: fn(&L, u64) -> Sample) -> impl FnMut(u64) -> Sample + 'static {
    let mut local: Option<L> = None;
    move |ops| work(local.get_or_insert_with(L::new), ops)
}

/// Makes the rig of a contender at its first run.
fn with<R: Rig>(work: Work<R>) -> impl FnMut(u64) -> Sample + 'static {
    let mut rig: Option<R> = None;
    move |ops| work(rig.get_or_insert_with(R::start), ops)
}

macro_rules! row {
    ($name:literal, $ops:literal, $smoke:literal, $work:ident $(::<$size:literal>)?) => {{
        let scenario = Scenario::new(LAYER, $name, $ops, $smoke)
            .ours("rast Runtime", with($work::<Ours $(, $size)?>));
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario
            .rival("tokio", with($work::<rivals::Tokio $(, $size)?>))
            .rival("async-executor", with($work::<rivals::Smol $(, $size)?>))
            .rival("StaticExecutor", with($work::<rivals::Static $(, $size)?>));
        scenario
    }};
}

macro_rules! local {
    ($name:literal, $ops:literal, $smoke:literal, $work:ident) => {{
        let scenario = Scenario::new(LAYER, $name, $ops, $smoke)
            .ours("rast LocalExecutor", locally($work::<Single>));
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario
            .rival("tokio LocalSet", locally($work::<rivals::TokioLocal>))
            .rival(
                "async-executor LocalExecutor",
                locally($work::<rivals::SmolLocal>),
            );
        scenario
    }};
}

macro_rules! lists {
    ($name:literal, $ops:literal, $smoke:literal, $work:ident) => {
        Scenario::new(LAYER, $name, $ops, $smoke)
            .ours("rast Runtime", with($work::<Ours>))
            .rival("lists", with($work::<Lists>))
    };
}

#[cfg(unix)]
macro_rules! web {
    ($name:literal, $connections:literal, $is_judged_by_p99:literal) => {{
        let scenario = Scenario::new(LAYER, $name, 20_000, 100).ours(
            "rast Runtime",
            web::hello_world::<Ours>($connections, $is_judged_by_p99),
        );
        #[cfg(all(rast_rivals, feature = "rivals"))]
        let scenario = scenario.rival(
            "tokio",
            web::hello_world::<rivals::Tokio>($connections, $is_judged_by_p99),
        );
        scenario
    }};
}

/// The scenarios.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let idle = Scenario::new(LAYER, "idle with 10,000 sleepers: CPU ns per s", 10_000, 10)
        .at_most(1)
        .ours("rast Runtime", idle_sleepers);
    let mut scenarios = vec![idle];
    scenarios.extend(table! { row:
        ("tokio: spawn_many_local", 10_000, 500, spawn_many_local)
        ("the same inside of a task", 10_000, 500, spawn_many_inside)
        ("tokio: spawn_many_remote_idle", 10_000, 500, spawn_many_remote_idle)
        ("tokio: spawn_many_remote_busy1", 10_000, 500, spawn_many_remote_busy1)
        ("tokio: spawn_many_remote_busy2", 1_000, 50, spawn_many_remote_busy2)
        ("tokio: yield_many", 200_000, 2_000, yield_many)
        ("tokio: ping_pong", 1_000, 100, ping_pong)
        ("tokio: chained_spawn", 1_000, 100, chained_spawn)
        ("async-executor: spawn_one", 1_000, 50, spawn_one)
        ("async-executor: spawn_batch", 6_000, 600, spawn_batch)
        ("async-executor: spawn_recursively", 90_000, 900, spawn_recursively)
        ("async-executor: yield_now", 90_000, 900, yield_now)
        ("async-executor: channels", 30_000, 300, channels)
        ("async-executor: spawn_many_local", 25_000, 500, spawn_many_remote_idle)
    });
    scenarios.extend(table! { lists:
        ("lists: spawn_many_local", 10_000, 500, spawn_many_local)
        ("lists: spawn inside", 10_000, 500, spawn_many_inside)
        ("lists: yield_many", 200_000, 2_000, yield_many)
        ("lists: ping_pong", 1_000, 100, ping_pong)
        ("lists: spawn_batch", 6_000, 600, spawn_batch)
        ("lists: channels", 30_000, 300, channels)
    });
    scenarios.extend(table! { row:
        ("p99 of schedule latency, saturated", 500, 5, latency)
        ("bytes per task: 16", 10_000, 100, bytes::<0>)
        ("bytes per task: 80", 10_000, 100, bytes::<64>)
        ("bytes per task: 528", 10_000, 100, bytes::<512>)
    });
    scenarios.extend(table! { local:
        ("one thread: spawn_one", 30_000, 50, local_one)
        ("one thread: spawn_batch", 30_000, 600, local_batch)
        ("one thread: spawn_many_local", 25_000, 500, local_many)
        ("one thread: spawn_recursively", 90_000, 900, local_recursively)
        ("one thread: yield_now", 90_000, 900, local_yield)
        ("one thread: channels", 90_000, 900, local_channels)
    });
    #[cfg(unix)]
    scenarios.extend(table! { web:
        ("hyper hello-world: 1 connection", 1, false)
        ("hyper hello-world: 32 connections", 32, false)
        ("hyper hello-world p99: 1 connection", 1, true)
        ("hyper hello-world p99: 32 connections", 32, true)
    });
    scenarios
}
