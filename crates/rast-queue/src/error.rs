//! The errors of pushes, each of which contains the item.
//!
//! They need no bounds on `T`: the errors implement `Debug` and `Display` even if the item does
//! not.

use core::error::Error;
use core::fmt;

/// The ring was full; contains the item.
///
/// ```
/// use rast_queue::{Full, spsc};
///
/// let (mut producer, _consumer) = spsc::ring(1);
/// producer.push("first").unwrap();
/// let Err(Full(item)) = producer.push("second") else { panic!() };
/// assert_eq!(item, "second");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

/// The queue is closed; contains the item.
///
/// ```
/// use rast_queue::{Closed, Queue};
///
/// let queue = Queue::new();
/// queue.close();
/// assert_eq!(queue.push(7), Err(Closed(7)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T>(pub T);

/// The reason why [`Queue::try_push`](crate::Queue::try_push), or another `try_push`, failed;
/// contains the item.
///
/// ```
/// use rast_queue::{TryPushError, spmc};
///
/// let (mut producer, _consumer) = spmc::queue();
/// match producer.try_push("task") {
///     Ok(()) => {}
///     Err(TryPushError::NoMemory(task)) => println!("{task} has to wait"),
///     Err(TryPushError::Closed(task)) => println!("{task} is not wanted"),
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TryPushError<T> {
    /// The queue is closed.
    Closed(T),
    /// The item needs another segment, block or node, and the allocator failed.
    NoMemory(T),
}

impl<T> Full<T> {
    /// Returns the item that was refused.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Closed<T> {
    /// Returns the item that was refused.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TryPushError<T> {
    /// Returns the item that was refused.
    pub fn into_inner(self) -> T {
        match self {
            Self::Closed(item) | Self::NoMemory(item) => item,
        }
    }
}

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed(..)")
    }
}

impl<T> fmt::Debug for TryPushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed(_) => "Closed(..)",
            Self::NoMemory(_) => "NoMemory(..)",
        })
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no room for the item")
    }
}

impl<T> fmt::Display for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed: no item is taken any more")
    }
}

impl<T> fmt::Display for TryPushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed(_) => "closed: no item is taken any more",
            Self::NoMemory(_) => "no memory for the item",
        })
    }
}

impl<T> Error for Full<T> {}
impl<T> Error for Closed<T> {}
impl<T> Error for TryPushError<T> {}

impl<T> From<Closed<T>> for TryPushError<T> {
    fn from(error: Closed<T>) -> Self {
        Self::Closed(error.0)
    }
}
