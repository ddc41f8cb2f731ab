//! Resources that one reactor changes and all reactors read.
//!
//! Each type of [`Resource`] has one owner reactor, set by [`Resources::own`]. The owner
//! [changes](change) copies of resources and [commits](Changes::commit) them together. Every
//! reactor has its own tables of pointers, so a [`read()`] searches memory of its own thread,
//! without a fence. The resources themselves are shared and never change after their commit. The
//! owner destroys a replaced resource when no open transaction (read view) of any reactor
//! sees it.
//!
//! An [`Id`] names a resource, and stays the same when the resource changes. A parent contains the
//! id of a list, [`Children`], which contains the ids of the parent's children. So a change of a
//! child copies neither the list nor the parent.
//!
//! ```
//! use rast_reactor::registry::{Resource, Resources, change, read};
//! use rast_reactor::{Reactors, executor::block_on};
//!
//! #[derive(Clone)]
//! struct Campaign {
//!     budget: u64,
//! }
//! impl Resource for Campaign {
//!     type Key = u64;
//! }
//!
//! let resources = Resources::new().own::<Campaign>(0);
//! let reactors = Reactors::builder().number(2).resources(resources).build().unwrap();
//! let owner = reactors.reactor(0).unwrap().spawn(|| async {
//!     let mut changes = change();
//!     let id = changes.insert(7, Campaign { budget: 100 }).unwrap_or_else(|_| panic!("new"));
//!     changes.commit().unwrap().await; // All reactors have it.
//!     id
//! });
//! let id = block_on(owner).unwrap();
//! let reader = reactors.reactor(1).unwrap().spawn(move || async move {
//!     let read = read();
//!     let by_key = read.find::<Campaign, _>(&7).unwrap().1;
//!     (by_key.budget, read.get(id).unwrap().budget)
//! });
//! assert_eq!(block_on(reader).unwrap(), (100, 100));
//! ```

mod changes;
mod deferred;
mod owned;
mod read;
mod replica;
mod resource;
mod resources;
mod table;
mod wakers;

pub use crate::epoch::LongRead;
pub use changes::{Changes, NotCommitted, Refusal, Refused, change};
pub use deferred::{defer, retired, room};
pub use owned::Committed;
pub use read::{Read, View, read};
pub use resource::{Children, Id, NoKey, Resource};
pub use resources::Resources;

pub(crate) use replica::{Replica, Shared, polled};
pub(crate) use resources::Plan;
