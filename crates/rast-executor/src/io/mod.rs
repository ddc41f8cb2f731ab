//! Sockets, polled for readiness by the workers.
//!
//! ```text
//!   socket ── Source ──► Readiness { reading, writing }      flag, tick and waiting tasks
//!                              ▲
//!   worker asleep in the poll ─┘ or looking every 64 turns
//! ```
//!
//! The poll reports changes (edges). A direction counts as ready until an operation would block;
//! then the task waits for the next edge. The tick counts edges, so that an edge between the
//! operation and the wait is not lost.
//!
//! Everything here needs a [`Runtime`](crate::Runtime): a socket belongs to the runtime that runs
//! the code that makes it. While that runtime lives, the socket may be awaited on any executor.

mod datagram;
mod reactor;
mod stream;
mod tcp;
mod udp;
#[cfg(unix)]
mod unix;

#[cfg(any(feature = "futures-io", feature = "tokio", feature = "hyper"))]
mod traits;

pub(crate) use reactor::{Reactor, Source};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
#[cfg(unix)]
pub use unix::{UnixDatagram, UnixListener, UnixStream};
