//! The baton protocol: who may touch what, without anybody waiting.
//!
//! ```text
//!             63            32 31       16 15        0
//!   word     | epoch          | members   | promised |      one line
//!             31                       16 15        0
//!   holder   | flags (run bit: 16)       | id + 1   |      one line per shard
//!
//!   pages    [ epoch even ] [ epoch odd ]   an Assignment each
//!   seat     parked + unparker              one line per worker
//!   inbox    rings and bits: see `inbox.rs` one per worker
//!   stop, requests                          one line each
//! ```
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | word | each member once per epoch (promise), the leader (publish) | all members, each turn |
//! | page of the epoch | no thread | members of that epoch |
//! | other page | the leader, once all have promised | no thread |
//! | holder | the worker that the page names; its holder, to free it | that worker; who wakes the shard |
//! | seat | its worker; who wakes it | who wakes it |
//! | inbox | who wakes a shard | its worker |
//! | stop, requests | anybody | all members |
//!
//! Rules:
//!
//! 1. A worker takes a shard only when the page of its epoch names it and the
//!    holder word says free.
//! 2. A worker frees a shard only when the page of a newer epoch names another,
//!    or when it leaves for good.
//! 3. A worker promises once per epoch, and only when it holds all that the
//!    page names for it. From then on it updates no figures.
//! 4. The worker whose promise is the last leads. It alone reads figures,
//!    writes the other page and publishes the next epoch, with one store.
//! 5. No thread waits in here. A worker that cannot take a shard yet goes on with
//!    those that it has.
//! 6. A worker looks at `stop` in every turn.
//!
//! The argument is in `docs/algorithms/sharder.md`. This module knows no
//! threads and no time, so that loom can drive it: `tests/loom.rs`.

mod baton;
mod inbox;
mod member;
mod park;
mod word;

pub use baton::Baton;
pub(crate) use inbox::MAX_SHARDS;
pub use member::{Leader, Member, Promise};
pub use park::Park;
pub(crate) use park::ThreadPark;
pub use word::{FREE, RUN_BIT, Word};
