//! The parts of the protocols, for the models alone; no part of the interface.

pub use crate::credit::{CREDITS, Pair, Sent};
pub use crate::epoch::{Follower, Ledger, Reader, Writer};
