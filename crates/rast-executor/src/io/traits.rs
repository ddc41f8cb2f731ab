//! The byte-stream traits of other crates, each behind a feature with the crate's name.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::net::Shutdown;

use super::TcpStream;
#[cfg(unix)]
use super::UnixStream;

/// A trait of writing. The three differ in the name of the close, and in one more method.
macro_rules! write {
    ($write:path, $stream:ty, $close:ident $(, $more:item)?) => {
        impl $write for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_write(None, cx, bytes)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_write_vectored(cx, slices)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn $close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.shutdown(Shutdown::Write))
            }

            $($more)?
        }
    };
}

macro_rules! traits {
    ($stream:ty) => {
        #[cfg(feature = "futures-io")]
        impl futures_io::AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_read(None, cx, bytes)
            }
        }

        #[cfg(feature = "futures-io")]
        write!(futures_io::AsyncWrite, $stream, poll_close);

        #[cfg(feature = "tokio")]
        impl tokio::io::AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                // SAFETY: nothing uninitialised is written to it.
                let place = unsafe { buffer.unfilled_mut() };
                let polled = self.0.poll_read_uninit(cx, place);
                polled.map_ok(|count| {
                    // SAFETY: the read has filled so many bytes.
                    unsafe { buffer.assume_init(count) };
                    buffer.advance(count);
                })
            }
        }

        #[cfg(feature = "tokio")]
        write!(
            tokio::io::AsyncWrite,
            $stream,
            poll_shutdown,
            fn is_write_vectored(&self) -> bool {
                true
            }
        );

        #[cfg(feature = "hyper")]
        impl hyper::rt::Read for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                mut buffer: hyper::rt::ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                // SAFETY: nothing uninitialised is written to it.
                let place = unsafe { buffer.as_mut() };
                let polled = self.0.poll_read_uninit(cx, place);
                polled.map_ok(|count| {
                    // SAFETY: the read has filled so many bytes.
                    unsafe { buffer.advance(count) }
                })
            }
        }

        #[cfg(feature = "hyper")]
        write!(
            hyper::rt::Write,
            $stream,
            poll_shutdown,
            fn is_write_vectored(&self) -> bool {
                true
            }
        );
    };
}

traits!(TcpStream);
#[cfg(unix)]
traits!(UnixStream);
