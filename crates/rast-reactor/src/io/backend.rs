//! Which driver a reactor has, and why.

use core::cell::RefCell;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std_alloc::format;
use std_alloc::rc::Rc;
use std_alloc::string::{String, ToString};
use std_alloc::vec::Vec;

use rast_executor::Driver;
use rast_executor::io::{PollDriver, Sockets};

use super::chunk::{Chunks, Free};
use super::faults::Faults;
#[cfg(target_os = "linux")]
use super::uring::{Ring, RingDriver};

/// What serves the sockets and files of a reactor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// io_uring if the kernel serves it, readiness otherwise; [`Chosen`] has the reason.
    #[default]
    Auto,
    /// io_uring of Linux 6.1 or later. If it is not available, no reactors are built.
    Uring,
    /// The system's poll for sockets, and the background pool for files.
    Readiness,
}

/// The backend that a reactor has: see [`Reactors::backend`](crate::Reactors::backend).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// [`Backend::Uring`] or [`Backend::Readiness`].
    pub backend: Backend,
    /// Why it was chosen.
    pub why: String,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.backend, self.why)
    }
}

/// How reactors do I/O.
#[derive(Clone, Debug)]
pub(crate) struct IoBuilder {
    pub(crate) backend: Backend,
    pub(crate) chunks: (u16, usize),
    pub(crate) faults: Option<Faults>,
}

impl Default for IoBuilder {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            chunks: (256, 4096),
            faults: None,
        }
    }
}

/// The I/O of a reactor, on its thread.
pub(crate) struct Io {
    #[cfg(target_os = "linux")]
    pub(crate) ring: Option<Rc<Ring>>,
    chunks: RefCell<Option<Rc<Chunks>>>,
    chunks_of: (u16, usize),
    pub(crate) faults: Option<Faults>,
}

/// The driver of a reactor's thread.
pub(crate) enum IoDriver {
    #[cfg(target_os = "linux")]
    Ring(RingDriver),
    Poll(PollDriver),
}

impl IoBuilder {
    /// Makes the driver of the calling thread.
    pub(crate) fn build(&self) -> io::Result<(Rc<Io>, IoDriver, Chosen)> {
        let why = match self.backend {
            Backend::Uring => return self.ring().map_err(forced),
            Backend::Readiness => "it was asked for".to_string(),
            Backend::Auto => match self.ring() {
                Ok(ring) => return Ok(ring),
                Err(error) => format!("io_uring was refused: {error}"),
            },
        };
        let driver = IoDriver::Poll(PollDriver::new()?);
        let backend = Backend::Readiness;
        Ok((Rc::new(self.io()), driver, Chosen { backend, why }))
    }

    fn io(&self) -> Io {
        Io {
            #[cfg(target_os = "linux")]
            ring: None,
            chunks: RefCell::new(None),
            chunks_of: self.chunks,
            faults: self.faults.clone(),
        }
    }

    #[cfg(target_os = "linux")]
    fn ring(&self) -> io::Result<(Rc<Io>, IoDriver, Chosen)> {
        let ring = Rc::new(Ring::new(self.chunks, self.faults.clone())?);
        let driver = IoDriver::Ring(RingDriver::new(&ring)?);
        let why = match self.backend {
            Backend::Auto => "the kernel serves io_uring",
            _ => "it was asked for",
        };
        let io = Io {
            ring: Some(ring),
            ..self.io()
        };
        let (backend, why) = (Backend::Uring, why.to_string());
        Ok((Rc::new(io), driver, Chosen { backend, why }))
    }

    #[cfg(not(target_os = "linux"))]
    fn ring(&self) -> io::Result<(Rc<Io>, IoDriver, Chosen)> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "io_uring is of Linux alone",
        ))
    }
}

/// The error of a backend that was asked for.
fn forced(error: io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("Backend::Uring was asked for: {error}"),
    )
}

impl Io {
    /// The buffers of receives by readiness.
    pub(crate) fn chunks(&self) -> Rc<Chunks> {
        let mut chunks = self.chunks.borrow_mut();
        let (number, bytes) = self.chunks_of;
        let chunks = chunks.get_or_insert_with(|| {
            let list: Vec<u16> = (0..number).rev().collect();
            Chunks::new(number, bytes, |_| Free::List(RefCell::new(list)))
        });
        Rc::clone(chunks)
    }

    /// Ends the operations in flight, after the tasks were dropped.
    pub(crate) fn close(&self) {
        #[cfg(target_os = "linux")]
        if let Some(ring) = &self.ring {
            ring.close();
        }
    }
}

impl Driver for IoDriver {
    fn submit(&mut self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Ring(driver) => driver.submit(),
            Self::Poll(driver) => driver.submit(),
        }
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Ring(driver) => driver.park(timeout),
            Self::Poll(driver) => driver.park(timeout),
        }
    }

    fn unparker(&self) -> Waker {
        match self {
            #[cfg(target_os = "linux")]
            Self::Ring(driver) => driver.unparker(),
            Self::Poll(driver) => driver.unparker(),
        }
    }

    fn sockets(&self) -> Option<Sockets> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Ring(_) => None,
            Self::Poll(driver) => driver.sockets(),
        }
    }
}
