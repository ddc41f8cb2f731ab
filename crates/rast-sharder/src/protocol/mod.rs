//! The baton protocol: which thread may access which shard and which table, without any thread
//! waiting.
//!
//! ```text
//!             63            32 31       16 15        0
//!   word     | epoch          | members   | promised |      one line
//!             31                       16 15        0
//!   holder   | zero                      | id + 1   |      one line per shard
//!
//!   place    index in its holder's list     beside the holder word
//!
//!   pages    [ epoch even ] [ epoch odd ]   an Assignment and its changes each: see `page.rs`
//!   seat     sleeping + park                one line per worker
//!   inbox    rings and bits: see `inbox.rs` one per worker
//!   stop, requests, notices                 one line each
//! ```
//!
//! An *epoch* is the time in which one assignment of shards to workers is valid. A *page* is a
//! table of the owners in an epoch. All workers except dedicated ones (rule 7) are *members*. Once
//! per epoch a member *promises* to update no load figures until the next epoch.
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | word | each member once per epoch (promise), the leader (publish) | all members, each round |
//! | page of the epoch | no thread | members of that epoch |
//! | other page | the leader, once all members have promised | no thread |
//! | holder | the worker that the page names, to take the shard; its holder, to free it; a thread that wakes the shard and does not find its holder. This thread adds zero, so that it is ordered before the next take | the worker that the page names; threads that wake the shard |
//! | place | the holder | the holder |
//! | seat | its worker; threads that wake the worker | threads that wake the worker |
//! | inbox | threads that wake a shard of its worker; the worker, which takes the wake-ups | the same |
//! | stop, requests, notices | any thread | all members |
//!
//! Rules:
//!
//! 1. A worker takes a shard only if the page of its epoch names it as owner and the holder word
//!    is free.
//! 2. A worker frees a shard only if the page of a newer epoch names another owner, or when it
//!    leaves for good.
//! 3. A member promises once per epoch, and only when it holds all shards that the page assigns to
//!    it. After that it updates no figures until the next epoch.
//! 4. The worker that promises last leads. Only the leader reads figures, writes the other page and
//!    publishes the next epoch, by one store.
//! 5. No thread waits in this protocol. A worker that cannot take a shard yet runs those that it
//!    holds.
//! 6. A worker checks `stop` before every turn.
//! 7. A dedicated worker, whose turns may block, is no member. It keeps the shards of the first
//!    page, never promises or leads, and reads no further page. No shard moves to or from it, and
//!    the leader does not read its figures. So no epoch waits for its turns.
//!
//! Why these rules are safe is explained in `docs/algorithms/sharder.md`. This module starts no
//! thread and reads no clock, so that loom can run it: `tests/loom.rs`.

mod baton;
mod inbox;
mod member;
mod page;
mod park;
mod word;

pub use baton::Baton;
pub(crate) use inbox::MAX_SHARDS;
pub use member::{Leader, Member, Promise};
pub use page::Change;
pub use park::Park;
pub(crate) use park::ThreadPark;
pub use word::{FREE, Word};
