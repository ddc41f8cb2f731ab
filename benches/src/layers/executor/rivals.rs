//! tokio and async-executor behind the trait of these benches.

use std::future::{Future, pending};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_lite::future;

use super::rigs::{Local, Rig, pin};

/// tokio's runtime of many threads.
#[derive(Clone)]
pub(super) struct Tokio(Arc<tokio::runtime::Runtime>);

/// tokio's handle, without the result.
pub(super) struct TokioJoin(tokio::task::JoinHandle<()>);

impl Future for TokioJoin {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|result| result.expect("no task of a bench panics"))
    }
}

impl Rig for Tokio {
    type Join = TokioJoin;

    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        pin(Self(Arc::new(runtime.expect("the system gives threads"))))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future);
    }

    fn spawn_joined(&self, future: impl Future<Output = ()> + Send + 'static) -> TokioJoin {
        TokioJoin(self.0.spawn(future))
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }
}

#[cfg(unix)]
impl super::web::Web for Tokio {
    fn serve(&self) -> std::net::SocketAddr {
        let bind = async { tokio::net::TcpListener::bind("127.0.0.1:0").await };
        let listener = self.block_on(bind).expect("a free port");
        let address = listener.local_addr().expect("an address");
        self.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).expect("a socket option");
                let stream = hyper_util::rt::TokioIo::new(stream);
                tokio::spawn(async move { super::web::connection!(stream) });
            }
        });
        address
    }
}

/// async-executor on two threads.
#[derive(Clone)]
pub(super) struct Smol(Arc<async_executor::Executor<'static>>);

impl Rig for Smol {
    type Join = async_executor::Task<()>;

    fn start() -> Self {
        let executor = Arc::new(async_executor::Executor::new());
        for _ in 0..2 {
            let executor = Arc::clone(&executor);
            std::thread::spawn(move || future::block_on(executor.run(pending::<()>())));
        }
        pin(Self(executor))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    fn spawn_joined(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join {
        self.0.spawn(future)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        future::block_on(future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        future::yield_now()
    }
}

/// async-executor without its list of tasks, on two threads.
#[derive(Clone)]
pub(super) struct Static(&'static async_executor::StaticExecutor);

impl Rig for Static {
    type Join = async_executor::Task<()>;

    fn start() -> Self {
        let executor = async_executor::Executor::new().leak();
        for _ in 0..2 {
            std::thread::spawn(|| future::block_on(executor.run(pending::<()>())));
        }
        pin(Self(executor))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    fn spawn_joined(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join {
        self.0.spawn(future)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        future::block_on(future)
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        future::yield_now()
    }
}

/// tokio on one thread.
#[derive(Clone)]
pub(super) struct TokioLocal(Rc<(tokio::runtime::Runtime, tokio::task::LocalSet)>);

impl Local for TokioLocal {
    type Join = TokioJoin;

    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime without threads");
        Self(Rc::new((runtime, tokio::task::LocalSet::new())))
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> TokioJoin {
        TokioJoin(self.0.1.spawn_local(future))
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.0.1.block_on(&self.0.0, future)
    }

    fn yield_now() -> impl Future<Output = ()> {
        tokio::task::yield_now()
    }
}

/// async-executor on one thread.
#[derive(Clone)]
pub(super) struct SmolLocal(Rc<async_executor::LocalExecutor<'static>>);

impl Local for SmolLocal {
    type Join = async_executor::Task<()>;

    fn new() -> Self {
        Self(Rc::new(async_executor::LocalExecutor::new()))
    }

    fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Self::Join {
        self.0.spawn(future)
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        future::block_on(self.0.run(future))
    }

    fn yield_now() -> impl Future<Output = ()> {
        future::yield_now()
    }
}
