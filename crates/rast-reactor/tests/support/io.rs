//! What the tests of sockets and files share.
#![allow(dead_code, reason = "each test uses a part")]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use rast_reactor::io::{Backend, TcpStream};
use rast_reactor::{BuildError, Builder, Reactors};

/// Reactors with a backend; `None` if the kernel refuses io_uring.
pub(crate) fn build(builder: Builder, backend: Backend) -> Option<Reactors> {
    match builder.backend(backend).build() {
        Ok(reactors) => Some(reactors),
        Err(BuildError::Io(error)) if backend == Backend::Uring => {
            println!("not run: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Echoes by chunks until the other end closes.
pub(crate) async fn echo_chunks(stream: TcpStream) {
    while let Some(chunk) = stream.chunk().await.unwrap() {
        stream.write_all(chunk).await.0.unwrap();
    }
}

/// Polls a future once.
pub(crate) async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
