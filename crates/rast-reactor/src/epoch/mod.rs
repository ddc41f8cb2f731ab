//! Epochs show when no reactor can still read what a commit replaced.
//!
//! - `ledger`: the commits of one owner, and how far each reactor has applied them.
//! - `transactions`: the read transactions that are open on one reactor.
//! - `retired`: what an owner destroys once no reactor can read it.

mod ledger;
mod retired;
mod transactions;

pub(crate) use ledger::State;
pub use ledger::{Follower, Ledger, Reader, Writer};
pub(crate) use retired::{Erased, Garbage, Retired, SMALL, shorten};
pub use transactions::LongRead;
pub(crate) use transactions::Transactions;
