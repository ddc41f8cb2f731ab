//! Why a call was rejected; a rejected value is returned.

use core::error::Error;
use core::fmt;

/// A rejected put, with its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PutError<V> {
    /// The conflator is closed. If it closed during the put, the value is the key's newest pending
    /// one, which another producer may have put meanwhile.
    Closed(V),
    /// The key is new or was removed, and the conflator has its maximum number of keys.
    Full(V),
    /// The key of the handle was removed, and the conflator rejects such handles.
    Removed(V),
}

/// Why no handle was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleError {
    /// The conflator has its maximum number of keys.
    Full,
    /// The only handle of the key exists already; in mode [`Sequenced`](crate::Sequenced).
    Owned,
}

/// No consumer was made, because the conflator has its maximum number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyConsumers;

impl<V> PutError<V> {
    /// Returns the value.
    pub fn into_value(self) -> V {
        match self {
            Self::Closed(value) | Self::Full(value) | Self::Removed(value) => value,
        }
    }
}

impl PutError<()> {
    /// Returns the error with the value.
    pub(crate) fn with<V>(self, value: V) -> PutError<V> {
        match self {
            Self::Closed(()) => PutError::Closed(value),
            Self::Full(()) => PutError::Full(value),
            Self::Removed(()) => PutError::Removed(value),
        }
    }
}

impl<V> fmt::Debug for PutError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed(_) => "Closed(..)",
            Self::Full(_) => "Full(..)",
            Self::Removed(_) => "Removed(..)",
        })
    }
}

impl<V> fmt::Display for PutError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed(_) => "the conflator is closed",
            Self::Full(_) => "the conflator has all the keys that it may have",
            Self::Removed(_) => "the key of the handle was removed",
        })
    }
}

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the conflator has all the keys that it may have",
            Self::Owned => "the key has its only handle already",
        })
    }
}

impl fmt::Display for TooManyConsumers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the conflator has as many consumers as it may have")
    }
}

impl<V> Error for PutError<V> {}
impl Error for HandleError {}
impl Error for TooManyConsumers {}
