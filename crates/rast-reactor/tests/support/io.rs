//! What the tests of sockets and files share.
#![allow(dead_code, reason = "each test uses a part")]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use rast_reactor::io::{Backend, Buffer, BufferMut, TcpStream};
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

/// What a [`Hooked`] buffer does beside being a vector. Its destructor is code of the program too.
pub(crate) trait Hook: 'static {
    /// Called by each method that returns something.
    fn asked(&self) {}

    /// Called when bytes were read, before the length is set.
    fn filled(&self) {}
}

/// A vector whose methods call a hook.
pub(crate) struct Hooked<H> {
    pub(crate) bytes: Vec<u8>,
    pub(crate) hook: H,
}

impl<H> Hooked<H> {
    /// Makes an empty buffer with room for so many bytes.
    pub(crate) fn new(capacity: usize, hook: H) -> Self {
        let bytes = Vec::with_capacity(capacity);
        Self { bytes, hook }
    }
}

// SAFETY: 1. to 3. the memory is the vector's own, and a hook does not change it.
unsafe impl<H: Hook> Buffer for Hooked<H> {
    fn as_ptr(&self) -> *const u8 {
        self.hook.asked();
        self.bytes.as_ptr()
    }

    fn len(&self) -> usize {
        self.hook.asked();
        self.bytes.len()
    }
}

// SAFETY: as above; the vector owns its memory up to its capacity.
unsafe impl<H: Hook> BufferMut for Hooked<H> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.hook.asked();
        self.bytes.as_mut_ptr()
    }

    fn capacity(&self) -> usize {
        self.hook.asked();
        self.bytes.capacity()
    }

    unsafe fn set_len(&mut self, len: usize) {
        self.hook.filled();
        // SAFETY: by the caller.
        unsafe { self.bytes.set_len(len) };
    }
}

/// Counts the drops of buffers, and panics in them if it is told to.
pub(crate) struct Drops {
    count: Arc<AtomicUsize>,
    panics: bool,
}

impl Hook for Drops {}

impl Drop for Drops {
    fn drop(&mut self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics, "a buffer's destructor");
    }
}

/// An empty buffer whose drop is counted, and panics if it is told to.
pub(crate) fn counted(capacity: usize, count: &Arc<AtomicUsize>, panics: bool) -> Hooked<Drops> {
    let count = Arc::clone(count);
    Hooked::new(capacity, Drops { count, panics })
}
