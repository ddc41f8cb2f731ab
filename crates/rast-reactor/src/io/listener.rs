//! A listening socket of either backend.

use std::io;
use std_alloc::rc::Rc;

use rast_executor::io as executor;
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

/// The socket of a listener.
pub(crate) enum Listener<L> {
    Ready {
        listener: L,
        io: Rc<Io>,
    },
    #[cfg(target_os = "linux")]
    Ring(uring::Listener),
}

impl<L: Accepts> Listener<L> {
    pub(crate) async fn accept(&self) -> io::Result<Stream<L::Stream>> {
        match self {
            Self::Ready { listener, io } => Ok(Stream::ready(io, listener.accept().await?)),
            #[cfg(target_os = "linux")]
            Self::Ring(listener) => {
                let fd = listener.accept().await?;
                Ok(Stream::on_ring(listener.ring(), fd))
            }
        }
    }

    pub(crate) async fn accept_many(&self) -> io::Result<Stream<L::Stream>> {
        match self {
            Self::Ready { .. } => self.accept().await,
            #[cfg(target_os = "linux")]
            Self::Ring(listener) => {
                let fd = listener.accept_many().await?;
                Ok(Stream::on_ring(listener.ring(), fd))
            }
        }
    }

    /// Accepts no more for [`accept_many`](Self::accept_many).
    pub(crate) fn pause(&self) {
        match self {
            Self::Ready { .. } => {}
            #[cfg(target_os = "linux")]
            Self::Ring(listener) => listener.pause(),
        }
    }

    pub(crate) fn socket(&self) -> SockRef<'_> {
        match self {
            Self::Ready { listener, .. } => listener.socket(),
            #[cfg(target_os = "linux")]
            Self::Ring(listener) => SockRef::from(listener.fd()),
        }
    }
}

/// The methods of a listener and of its stream that do not depend on their family.
macro_rules! family {
    ($listener:ident, $incoming:ident, $stream:ident) => {
        impl $listener {
            /// Takes a listener of std over, with the options that it has.
            ///
            /// # Errors
            ///
            /// What the system says.
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
                    return Ok(Self(Listener::Ring(listener), PhantomData));
                }
                let listener = executor::$listener::from_std(listener)?;
                Ok(Self(Listener::Ready { listener, io }, PhantomData))
            }

            /// Waits for a connection.
            ///
            /// Any number of tasks may wait. If the future is dropped, a connection that comes
            /// before its cancellation is closed.
            ///
            /// # Errors
            ///
            /// What the system says; an error of one connection leaves the listener as it was.
            pub async fn accept(&self) -> io::Result<$stream> {
                let stream = self.0.accept().await?;
                Ok($stream(stream, PhantomData))
            }

            /// Accepts connections one after the other: with io_uring, by one operation for all of
            /// them.
            ///
            /// That operation accepts before it is asked to, up to about 64 connections. Those that
            /// were not taken when this is dropped are for the next [`accept`](Self::accept), and
            /// are closed with the listener.
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
            /// What the system says; the next call begins again.
            pub async fn next(&mut self) -> io::Result<$stream> {
                let stream = self.0.0.accept_many().await?;
                Ok($stream(stream, PhantomData))
            }
        }

        impl Drop for $incoming<'_> {
            fn drop(&mut self) {
                self.0.0.pause();
            }
        }

        impl $stream {
            /// Takes a connection of std over, with the options that it has.
            ///
            /// # Errors
            ///
            /// What the system says.
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
                    return Ok(Self(Stream::on_ring(ring, stream.into()), PhantomData));
                }
                let stream = executor::$stream::from_std(stream)?;
                Ok(Self(Stream::ready(&io, stream), PhantomData))
            }
        }
    };
}
pub(super) use family;
