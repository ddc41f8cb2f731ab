//! Errors of calls and of the builder.

use core::any::Any;
use core::error::Error;
use core::fmt;
use std::io;
use std_alloc::boxed::Box;

use rast_executor::JoinError;

/// Makes a type an error that has one text.
macro_rules! error {
    ($error:ty, $text:literal) => {
        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str($text)
            }
        }

        impl core::error::Error for $error {}
    };
}
pub(crate) use error;

/// The reason why a call has no result.
///
/// ```
/// use rast_reactor::{CallError, Reactors, reactor_task};
///
/// let reactors = Reactors::builder().number(2).build().unwrap();
/// let call = reactors.reactor(0).unwrap().spawn(|| async {
///     reactor_task(1, || async { panic!("no") }).await.unwrap_err()
/// });
/// let error = rast_reactor::executor::block_on(call).unwrap();
/// assert!(matches!(error, CallError::Panicked(payload) if payload.is::<&str>()));
/// ```
#[non_exhaustive]
pub enum CallError {
    /// It panicked with this payload, for `std::panic::resume_unwind`.
    Panicked(Box<dyn Any + Send>),
    /// The reactor or pool that was to run it has stopped, or it was aborted.
    Stopped,
    /// There is no reactor with that number.
    NoReactor,
}

impl From<JoinError> for CallError {
    fn from(error: JoinError) -> Self {
        match error.into_panic() {
            Some(payload) => Self::Panicked(payload),
            None => Self::Stopped,
        }
    }
}

// Only the value of the payload is used, so it need not be `Debug`.
impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked(_) => "Panicked(..)",
            Self::Stopped => "Stopped",
            Self::NoReactor => "NoReactor",
        })
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked(_) => "the call panicked",
            Self::Stopped => "what was to run the call has stopped",
            Self::NoReactor => "there is no reactor of that number",
        })
    }
}

impl Error for CallError {}

/// The reason why [`Builder::build`](crate::Builder::build) failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of reactors is zero.
    NoReactors,
    /// More than 1,024 reactors.
    TooManyReactors,
    /// The number of given cores is not the number of reactors.
    Cores {
        /// The reactors.
        reactors: usize,
        /// The cores.
        cores: usize,
    },
    /// The process has no such core, or may not run on it.
    MissingCore(usize),
    /// A name contains a NUL.
    Name,
    /// The owner of a type of resources is not a reactor.
    MissingOwner {
        /// The type.
        resource: &'static str,
        /// The owner.
        owner: usize,
    },
    /// A type of resources has two owners.
    OwnedTwice(&'static str),
    /// A policy of the pool has no thread that could run it, or there are too many threads.
    Threads,
    /// The system could not start a thread.
    Spawn(io::Error),
    /// The requested backend is not available, or the system has no readiness poll.
    Io(io::Error),
    /// The number of receive buffers is not a power of two, or they have no bytes, or more than
    /// 2^30 in all.
    Chunks,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReactors => f.write_str("there is to be at least one reactor"),
            Self::TooManyReactors => f.write_str("there are to be at most 1024 reactors"),
            Self::Cores { reactors, cores } => {
                write!(f, "{reactors} reactors cannot be on {cores} cores")
            }
            Self::MissingCore(core) => write!(f, "there is no core {core} for this process"),
            Self::Name => f.write_str("the name of a thread contains a NUL"),
            Self::MissingOwner { resource, owner } => {
                write!(f, "there is no reactor {owner} to own {resource}")
            }
            Self::OwnedTwice(resource) => write!(f, "{resource} is given an owner twice"),
            Self::Threads => {
                f.write_str("the lowest class of the pool needs a thread, and 1024 are the most")
            }
            Self::Spawn(error) => write!(f, "the system gave no thread: {error}"),
            Self::Io(error) => write!(f, "no reactor can do I/O: {error}"),
            Self::Chunks => f.write_str(
                "the buffers of receives are to be a power of two, with at most 2^30 bytes in all",
            ),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Spawn(error) | Self::Io(error) => Some(error),
            _ => None,
        }
    }
}
