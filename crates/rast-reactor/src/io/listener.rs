//! A listening socket of either backend.

use core::cell::Cell;
use std::io;
use std_alloc::rc::Rc;

use rast_executor::io as executor;
use rast_executor::timers::{Instant, Nanos};
use rast_executor::{now, sleep_until};
use socket2::SockRef;

use super::backend::Io;
use super::ready::Ready;
use super::stream::Stream;
#[cfg(target_os = "linux")]
use super::uring;

/// A listener of the executor.
pub(crate) trait Accepts {
    type Stream: Ready;

    fn socket(&self) -> SockRef<'_>;

    async fn accept(&self) -> io::Result<Self::Stream>;
}

impl Accepts for executor::TcpListener {
    type Stream = executor::TcpStream;

    fn socket(&self) -> SockRef<'_> {
        SockRef::from(self)
    }

    async fn accept(&self) -> io::Result<Self::Stream> {
        Self::accept(self).await.map(|(stream, _)| stream)
    }
}

#[cfg(unix)]
impl Accepts for executor::UnixListener {
    type Stream = executor::UnixStream;

    fn socket(&self) -> SockRef<'_> {
        SockRef::from(self)
    }

    async fn accept(&self) -> io::Result<Self::Stream> {
        Self::accept(self).await
    }
}

/// How long a listener accepts nothing after the system lacked descriptors or memory. Otherwise a
/// loop that continues after errors would keep its core busy.
const REST: Nanos = Nanos::from_millis(10);

/// The socket of a listener.
enum Kind<L> {
    Ready {
        listener: L,
        io: Rc<Io>,
    },
    #[cfg(target_os = "linux")]
    Ring(uring::Listener),
}

/// A listener of either backend.
pub(crate) struct Listener<L> {
    kind: Kind<L>,
    /// After a lack of descriptors or memory: the time until which it accepts nothing.
    rests_until: Cell<Option<Instant>>,
}

impl<L: Accepts> Listener<L> {
    pub(crate) fn ready(listener: L, io: Rc<Io>) -> Self {
        Self::new(Kind::Ready { listener, io })
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn on_ring(listener: uring::Listener) -> Self {
        Self::new(Kind::Ring(listener))
    }

    fn new(kind: Kind<L>) -> Self {
        Self {
            kind,
            rests_until: Cell::new(None),
        }
    }

    /// Accepts a connection; with `many`, by one operation for all connections.
    pub(crate) async fn accept(&self, many: bool) -> io::Result<Stream<L::Stream>> {
        while let Some(until) = self.rests_until.get() {
            if now() >= until {
                self.rests_until.set(None);
            } else {
                sleep_until(until).await;
            }
        }
        let accepted = match &self.kind {
            Kind::Ready { listener, io } => {
                let stream = listener.accept().await;
                stream.map(|stream| Stream::ready(io, stream))
            }
            #[cfg(target_os = "linux")]
            Kind::Ring(listener) => {
                let fd = if many {
                    listener.accept_many().await
                } else {
                    listener.accept().await
                };
                fd.map(|fd| Stream::on_ring(listener.ring(), fd))
            }
        };
        if let Err(error) = &accepted
            && is_lack(error)
        {
            self.rests_until.set(Some(now().saturating_add(REST)));
        }
        accepted
    }

    /// Accepts no more by the operation for all connections.
    pub(crate) fn pause(&self) {
        match &self.kind {
            Kind::Ready { .. } => {}
            #[cfg(target_os = "linux")]
            Kind::Ring(listener) => listener.pause(),
        }
    }

    pub(crate) fn socket(&self) -> SockRef<'_> {
        match &self.kind {
            Kind::Ready { listener, .. } => listener.socket(),
            #[cfg(target_os = "linux")]
            Kind::Ring(listener) => SockRef::from(listener.fd()),
        }
    }
}

/// Returns `true` if the system lacks descriptors or memory, which lasts until some are freed.
fn is_lack(error: &io::Error) -> bool {
    // ENFILE and EMFILE, or WSAEMFILE; ENOBUFS of Linux.
    let numbers: &[i32] = if cfg!(windows) {
        &[10024]
    } else {
        &[23, 24, 105]
    };
    let number = error.raw_os_error();
    error.kind() == io::ErrorKind::OutOfMemory || number.is_some_and(|n| numbers.contains(&n))
}

/// The methods of a listener and of its stream that do not depend on their family.
macro_rules! family {
    ($listener:ident, $incoming:ident, $stream:ident) => {
        impl $listener {
            /// Converts a listener of std, with the options that it has.
            ///
            /// # Errors
            ///
            /// The system's error.
            ///
            /// # Panics
            ///
            /// Outside of a reactor.
            #[track_caller]
            pub fn from_std(listener: net::$listener) -> io::Result<Self> {
                let io = Io::current();
                #[cfg(target_os = "linux")]
                if let Some(ring) = &io.ring {
                    listener.set_nonblocking(false)?;
                    let listener = uring::Listener::new(ring, listener.into());
                    return Ok(Self(Listener::on_ring(listener)));
                }
                let listener = executor::$listener::from_std(listener)?;
                Ok(Self(Listener::ready(listener, io)))
            }

            /// Waits for a connection.
            ///
            /// Any number of tasks may wait. If the future is dropped, a connection that arrives
            /// before the cancellation takes effect is closed.
            ///
            /// # Errors
            ///
            /// The system's error; an error of one connection leaves the listener as it was.
            /// After a lack of descriptors or memory, the next call waits 10 ms before it accepts.
            pub async fn accept(&self) -> io::Result<$stream> {
                self.0.accept(false).await.map($stream)
            }

            /// Accepts connections one after the other. With io_uring one operation accepts all of
            /// them.
            ///
            /// That operation accepts up to about 64 connections in advance. If this is dropped,
            /// the next calls of [`accept`](Self::accept) return the connections that it has not
            /// returned. Dropping the listener closes the rest.
            pub fn incoming(&self) -> $incoming<'_> {
                $incoming(self)
            }
        }

        impl fmt::Debug for $listener {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let socket = self.0.socket();
                f.debug_tuple(stringify!($listener))
                    .field(&*socket)
                    .finish()
            }
        }

        /// Connections one after the other: see `incoming` of the listener.
        #[derive(Debug)]
        pub struct $incoming<'a>(&'a $listener);

        impl $incoming<'_> {
            /// Waits for a connection. Dropping the future loses none.
            ///
            /// # Errors
            ///
            /// As [`accept`]($listener::accept); the next call begins again.
            pub async fn next(&mut self) -> io::Result<$stream> {
                self.0.0.accept(true).await.map($stream)
            }
        }

        impl Drop for $incoming<'_> {
            fn drop(&mut self) {
                self.0.0.pause();
            }
        }

        impl $stream {
            /// Converts a connection of std, with the options that it has.
            ///
            /// # Errors
            ///
            /// The system's error.
            ///
            /// # Panics
            ///
            /// Outside of a reactor.
            #[track_caller]
            pub fn from_std(stream: net::$stream) -> io::Result<Self> {
                let io = Io::current();
                #[cfg(target_os = "linux")]
                if let Some(ring) = &io.ring {
                    stream.set_nonblocking(false)?;
                    return Ok(Self(Stream::on_ring(ring, stream.into())));
                }
                let stream = executor::$stream::from_std(stream)?;
                Ok(Self(Stream::ready(&io, stream)))
            }
        }
    };
}
pub(super) use family;
