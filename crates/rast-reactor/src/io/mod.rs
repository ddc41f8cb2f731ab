//! Sockets and files of a reactor.
//!
//! ```text
//!   task ── read(buffer) ──► io_uring: the kernel has the buffer until the operation completes
//!        ◄─ (result, buffer) readiness: the thread reads when the socket is ready;
//!                            files are read by the background pool
//! ```
//!
//! An operation owns its buffer and returns it with its result. If its future is dropped, the
//! driver cancels the operation and keeps the buffer until the kernel is done with it. Dropping a
//! read loses no bytes. A connection that arrives for a dropped accept is closed.
//!
//! A socket belongs to the reactor on whose thread it was made, and stays there.
//!
//! # Panics
//!
//! Making a socket or a file panics outside of a reactor.

mod backend;
mod buffer;
mod chunk;
mod current;
mod faults;
mod options;
mod pages;
#[cfg(target_os = "linux")]
mod steer;

#[cfg(target_os = "linux")]
mod uring;

mod file;
mod listener;
mod ready;
mod seats;
mod stream;
mod tcp;
#[cfg(unix)]
mod unix;

mod group;

pub use backend::{Backend, Chosen};
pub use buffer::{Buffer, BufferMut, Slice};
pub use chunk::Chunk;
pub use faults::Faults;
pub use file::File;
pub use group::{Active, GroupBuilder, GroupListener, ListenerGroup, Requests};
pub use options::OpenOptions;
pub use seats::Watermarks;
pub use tcp::{Incoming, TcpListener, TcpStream};
#[cfg(unix)]
pub use unix::{UnixIncoming, UnixListener, UnixStream};

pub(crate) use backend::{Io, IoBuilder, IoDriver};
