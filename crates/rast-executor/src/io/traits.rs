//! The field's traits of byte streams, each behind a feature of the name of its crate.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, Read, Write};
use std::net::Shutdown;

use super::TcpStream;
#[cfg(unix)]
use super::UnixStream;
use super::reactor::Direction::{Reading, Writing};

macro_rules! traits {
    ($stream:ty) => {
        #[cfg(feature = "futures-io")]
        impl futures_io::AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll(Reading, cx, |mut socket| socket.read(bytes))
            }
        }

        #[cfg(feature = "futures-io")]
        impl futures_io::AsyncWrite for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll(Writing, cx, |mut socket| socket.write(bytes))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0
                    .poll(Writing, cx, |mut socket| socket.write_vectored(slices))
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.shutdown(Shutdown::Write))
            }
        }

        #[cfg(feature = "tokio")]
        impl tokio::io::AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let bytes = buffer.initialize_unfilled();
                let polled = self.0.poll(Reading, cx, |mut socket| socket.read(bytes));
                polled.map_ok(|count| buffer.advance(count))
            }
        }

        #[cfg(feature = "tokio")]
        impl tokio::io::AsyncWrite for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll(Writing, cx, |mut socket| socket.write(bytes))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0
                    .poll(Writing, cx, |mut socket| socket.write_vectored(slices))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.shutdown(Shutdown::Write))
            }
        }
    };
}

traits!(TcpStream);
#[cfg(unix)]
traits!(UnixStream);
