//! Sockets, polled for readiness by the workers.
//!
//! ```text
//!   socket ── Source ──► Readiness { reading, writing }      flag, tick and waiting tasks
//!                              ▲
//!   worker asleep in the poll ─┘ or looking every 64 turns
//! ```
//!
//! The poll reports changes (edges). A direction (reading or writing) counts as ready until an
//! operation would block; then the task waits for the next edge. A counter of edges, the tick,
//! shows whether an edge came between the operation and the wait, so such an edge is not lost.
//!
//! If several tasks wait for one direction, an edge wakes one of them, and a task whose operation
//! succeeds wakes the next. So a datagram or a connection costs two polls of tasks, however many
//! tasks wait. The first task takes it, and the next finds nothing. A dropped future passes its
//! wake-up on to the next future. If a woken future is neither polled nor dropped, the others wait
//! for the next edge.
//!
//! A socket belongs to the executor on which it is made. That executor is a
//! [`Runtime`](crate::Runtime), or a [`LocalExecutor`](crate::LocalExecutor) whose driver is a
//! [`PollDriver`]. While that executor lives, tasks of any other executor may also await the
//! socket.

mod datagram;
mod poll;
mod reactor;
mod readiness;
mod source;
mod stream;
mod tcp;
mod udp;
#[cfg(unix)]
mod unix;

#[cfg(any(feature = "futures-io", feature = "tokio", feature = "hyper"))]
mod traits;

pub use poll::PollDriver;
pub(crate) use reactor::Reactor;
pub use reactor::Sockets;
pub(crate) use source::Source;
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
#[cfg(unix)]
pub use unix::{UnixDatagram, UnixListener, UnixStream};
