//! The trait of a runtime in these benches, and its implementation by ours.

use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Barrier};

use rast::executor::{JoinHandle, LocalExecutor, Runtime, yield_now};

use crate::processors;

/// A runtime of two workers; clones are handles.
pub(super) trait Rig: Clone + Send + Sync + 'static {
    /// The handle of a task.
    type Join: Future<Output = ()> + Send;

    /// Starts it and puts its workers on processors of their own.
    fn start() -> Self;

    /// Spawns a task and detaches it.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static);

    /// Spawns a task.
    fn spawn_joined(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join;

    /// Waits on the calling thread.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// Lets the others run.
    fn yield_now() -> impl Future<Output = ()> + Send;
}

/// Pins the two workers to different processors. It spawns two tasks that wait for each other, so
/// each worker runs one of them.
pub(super) fn pin<R: Rig>(rig: R) -> R {
    let barrier = Arc::new(Barrier::new(3));
    for worker in 0..2 {
        let barrier = Arc::clone(&barrier);
        rig.spawn(async move {
            barrier.wait();
            processors::pin_in_turn(worker);
        });
    }
    barrier.wait();
    rig
}

/// Ours.
#[derive(Clone)]
pub(super) struct Ours(Arc<Runtime>);

/// Our handle, without the result.
pub(super) struct Join(pub(super) JoinHandle<()>);

impl Future for Join {
    type Output = ();

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<()> {
        std::pin::Pin::new(&mut self.0)
            .poll(cx)
            .map(|result| result.expect("no task of a bench panics"))
    }
}

impl Rig for Ours {
    type Join = Join;

    fn start() -> Self {
        let runtime = Runtime::builder().workers(2).build();
        pin(Self(Arc::new(runtime.expect("the system gives threads"))))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    fn spawn_joined(&self, future: impl Future<Output = ()> + Send + 'static) -> Join {
        Join(self.0.spawn(future))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        yield_now()
    }
}

/// An executor of one thread; clones are handles.
pub(super) trait Local: Clone + 'static {
    /// The handle of a task.
    type Join: Future<Output = ()>;

    /// Makes it.
    fn new() -> Self;

    /// Spawns a task.
    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Self::Join;

    /// Runs tasks until `future` is ready.
    fn run<F: Future>(&self, future: F) -> F::Output;

    /// Lets the others run.
    fn yield_now() -> impl Future<Output = ()>;
}

/// Ours on one thread.
#[derive(Clone)]
pub(super) struct Single(Rc<LocalExecutor>);

impl Local for Single {
    type Join = Join;

    fn new() -> Self {
        Self(Rc::new(LocalExecutor::new()))
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Join {
        Join(self.0.spawn(future))
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.0.run(future)
    }

    fn yield_now() -> impl Future<Output = ()> {
        yield_now()
    }
}
