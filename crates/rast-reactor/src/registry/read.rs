//! Read transactions.

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;
use core::panic::Location;
use std_alloc::rc::Rc;

use super::replica::{Replica, with_current};
use super::resource::{Children, Id, Resource};
use super::table::Table;

/// Message of a panic outside of a reactor.
pub(super) const OUTSIDE: &str =
    "no reactor runs on this thread: use the registry in a task of a reactor";

/// A read transaction: all resources as they were when it was opened.
///
/// It sees each commit whole or not at all. It may be kept across awaits, and does not see commits
/// that are applied meanwhile. Resources that it sees are not destroyed while it is open, so a long
/// transaction keeps the memory of replaced resources. A transaction that is open for too long
/// (over a second, unless [`Resources::long_read`](crate::registry::Resources::long_read) sets
/// another time) is counted. It is also reported to
/// [`Resources::on_long_read`](crate::registry::Resources::on_long_read) if that is set.
///
/// It is not `Send`:
///
/// ```compile_fail,E0277
/// fn moves<T: Send>() {}
/// moves::<rast_reactor::registry::Read>();
/// ```
#[must_use = "a transaction keeps what it sees; drop it when done"]
pub struct Read {
    pub(super) replica: Rc<Replica>,
    place: u32,
    epoch: u64,
}

/// Opens a read transaction on the reactor that runs the caller.
///
/// A task may have several open; dropping a transaction closes it.
///
/// Wait-free: some plain stores, and no fence or atomic read-modify-write.
///
/// # Panics
///
/// Outside of a reactor.
///
/// ```
/// use rast_reactor::registry::{Resource, Resources, change, read};
/// use rast_reactor::{Reactors, executor::block_on};
///
/// struct Limit(u32);
/// impl Resource for Limit {
///     type Key = String;
/// }
///
/// let resources = Resources::new().own::<Limit>(0);
/// let reactors = Reactors::builder().number(2).resources(resources).build().unwrap();
/// let id = reactors.reactor(0).unwrap().spawn(|| async {
///     let mut changes = change();
///     let id = changes.insert("requests".into(), Limit(10)).unwrap_or_else(|_| panic!("new"));
///     changes.commit().unwrap().await;
///     id
/// });
/// let id = block_on(id).unwrap();
/// let task = reactors.reactor(1).unwrap().spawn(move || async move {
///     let read = read();
///     assert_eq!(read.find::<Limit, _>("requests").unwrap().0, id);
///     read.get(id).unwrap().0
/// });
/// assert_eq!(block_on(task).unwrap(), 10);
/// ```
#[track_caller]
#[inline]
pub fn read() -> Read {
    let line = Location::caller();
    with_current(|replica| match replica {
        Some(replica) => Read::open(replica, line),
        None => panic!("{OUTSIDE}"),
    })
}

impl Read {
    #[inline]
    pub(super) fn open(replica: &Rc<Replica>, line: &'static Location<'static>) -> Self {
        let (place, epoch) = replica.open(line);
        Self {
            replica: Rc::clone(replica),
            place,
            epoch,
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the resources of one type. Reads through it do not search for the type again.
    ///
    /// # Panics
    ///
    /// If no reactor owns the type.
    #[must_use]
    #[inline]
    pub fn of<T: Resource>(&self) -> View<'_, T> {
        View {
            table: self.replica.table().2,
            epoch: self.epoch,
        }
    }

    /// Returns a resource by its id; `None` if it was deleted before the transaction began, or
    /// added later.
    ///
    /// Wait-free. Cost: two comparisons, the load of the slot, and the load of the resource. A map
    /// is searched as well if a commit has changed a resource of the type since this transaction
    /// began, or if the id has a high index and most resources with lower indices were deleted.
    ///
    /// # Panics
    ///
    /// If no reactor owns the type.
    #[must_use]
    #[inline]
    pub fn get<T: Resource>(&self, id: Id<T>) -> Option<&T> {
        self.of().get(id)
    }

    /// A resource by its key, with its id.
    ///
    /// Cost: a hash and a search in a map of this reactor. If the first key with this hash is
    /// another key, all keys with the hash are copied into a list.
    ///
    /// # Panics
    ///
    /// If no reactor owns the type; if the key's `Hash` or `Eq` panics.
    #[must_use]
    pub fn find<T, Q>(&self, key: &Q) -> Option<(Id<T>, &T)>
    where
        T: Resource<Key: Borrow<Q>>,
        Q: Hash + Eq + ?Sized,
    {
        self.of().find(key)
    }

    /// The children in a list, in order, without deleted ones; none if the list was deleted.
    ///
    /// # Panics
    ///
    /// If no reactor owns the type or its lists.
    pub fn children<T: Resource>(
        &self,
        list: Id<Children<T>>,
    ) -> impl Iterator<Item = (Id<T>, &T)> {
        let children = self.of::<T>();
        let ids = self.get(list).map_or(&[][..], Children::ids);
        ids.iter()
            .filter_map(move |&id| Some((id, children.get(id)?)))
    }
}

impl Drop for Read {
    #[inline]
    fn drop(&mut self) {
        self.replica.close(self.place);
    }
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Read")
            .field("reactor", &self.replica.reactor)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// The resources of one type in a transaction; made by [`Read::of`].
pub struct View<'a, T: Resource> {
    table: &'a Table<T>,
    epoch: u64,
}

impl<'a, T: Resource> View<'a, T> {
    /// As [`Read::get`].
    #[must_use]
    #[inline]
    pub fn get(&self, id: Id<T>) -> Option<&'a T> {
        let value = self.table.get(id, self.epoch)?;
        // SAFETY: the transaction that `'a` borrows sees the value, so no commit that replaced it
        // has passed this reactor, and its owner keeps it; no thread changes a committed value.
        Some(unsafe { value.as_ref() })
    }

    /// As [`Read::find`].
    #[must_use]
    #[inline]
    pub fn find<Q>(&self, key: &Q) -> Option<(Id<T>, &'a T)>
    where
        T::Key: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // SAFETY: the transaction that `'a` borrows is open.
        let (id, value) = unsafe { self.table.find(key, self.epoch) }?;
        // SAFETY: as in `get`.
        Some((id, unsafe { value.as_ref() }))
    }

    /// All resources, in no particular order. Cost: a scan of the table, whose length is a small
    /// multiple of the number of resources, and a list of far higher indices, if there are any.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &'a T)> + use<'a, T> {
        let (table, epoch) = (self.table, self.epoch);
        table.indices(epoch).filter_map(move |index| {
            let (id, value) = table.at(index, epoch)?;
            // SAFETY: as in `get`.
            Some((id, unsafe { value.as_ref() }))
        })
    }
}

impl<T: Resource> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Resource> Copy for View<'_, T> {}

impl<T: Resource> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}
