//! The types of resources, and the ids by which they name each other.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use std_alloc::vec::Vec;

/// A type of resources. Each such type has one owner reactor, and every reactor reads its
/// resources.
///
/// ```
/// use rast_reactor::registry::Resource;
///
/// #[derive(Clone)]
/// struct Campaign {
///     name: String,
/// }
///
/// impl Resource for Campaign {
///     type Key = u64;
///
///     fn bytes(&self) -> usize {
///         size_of::<Self>() + self.name.capacity()
///     }
/// }
/// assert_eq!(Campaign { name: String::new() }.bytes(), size_of::<Campaign>());
/// ```
pub trait Resource: Send + Sync + 'static {
    /// The key by which resources of this type are found, in addition to their id; [`NoKey`] if
    /// there is none.
    ///
    /// A key is shared by all reactors and dropped by the owner.
    type Key: Eq + Hash + Send + Sync + 'static;

    /// Returns the bytes of the resource, for the limit of replaced memory; by default the size of
    /// `Self`.
    fn bytes(&self) -> usize
    where
        Self: Sized,
    {
        size_of::<Self>()
    }
}

/// The key of resources without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoKey {}

/// The stable name of a resource: it stays the same when the resource changes.
///
/// The id of a deleted resource never names a resource again. An id from other
/// [`Reactors`](crate::Reactors) may name another resource of the type.
///
/// ```
/// use rast_reactor::registry::Id;
///
/// # struct Ad;
/// # impl rast_reactor::registry::Resource for Ad { type Key = u64; }
/// let id = Id::<Ad>::from_bits((7 << 32) | 1);
/// assert_eq!(Id::from_bits(id.to_bits()), id);
/// ```
pub struct Id<T> {
    pub(super) index: u32,
    pub(super) generation: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    pub(super) fn new(index: u32, generation: u32) -> Self {
        Self {
            index,
            generation,
            of: PhantomData,
        }
    }

    /// Returns the id as a number, for messages and logs.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }

    /// Returns the id of a number from [`to_bits`](Self::to_bits). Other numbers give ids that name
    /// no resource or another one.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self::new(bits as u32, (bits >> 32) as u32)
    }
}

// Written by hand, because derived implementations would require the same of `T`.
impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.to_bits().cmp(&other.to_bits())
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_bits().hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({}.{})", self.index, self.generation)
    }
}

/// A list of children. It is a resource itself, and its parent contains its id.
///
/// Ids are stable, so a change of a child copies neither the list nor the parent. Adding or
/// removing a child copies only the list. A deleted child may still be in the list: `get` of its id
/// then returns `None`, and `children` skips it. Deleting a parent or a list does not delete the
/// children.
///
/// ```
/// use rast_reactor::registry::{Children, Resource, Resources, change, read};
/// use rast_reactor::{Reactors, executor::block_on};
///
/// struct Ad(&'static str);
/// impl Resource for Ad {
///     type Key = u64;
/// }
///
/// let resources = Resources::new().own::<Ad>(0).own::<Children<Ad>>(0);
/// let reactors = Reactors::builder().number(1).resources(resources).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(|| async {
///     let mut changes = change();
///     let ad = changes.insert(17, Ad("shoes")).unwrap_or_else(|_| panic!("it is new"));
///     let ads: Children<Ad> = [ad].into_iter().collect();
///     let list = changes.add(ads).unwrap_or_else(|_| panic!("it is owned here"));
///     changes.commit().unwrap().await;
///
///     let read = read();
///     let names: Vec<_> = read.children(list).map(|(_, ad)| ad.0).collect();
///     assert_eq!(names, ["shoes"]);
/// });
/// block_on(task).unwrap();
/// ```
pub struct Children<T> {
    ids: Vec<Id<T>>,
}

impl<T> Children<T> {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { ids: Vec::new() }
    }

    /// Adds a child at the end.
    pub fn push(&mut self, id: Id<T>) {
        self.ids.push(id);
    }

    /// Removes a child; returns whether it was there. Cost: a look at each.
    pub fn remove(&mut self, id: Id<T>) -> bool {
        let before = self.ids.len();
        self.ids.retain(|&other| other != id);
        self.ids.len() != before
    }

    /// The ids, in order.
    #[must_use]
    pub fn ids(&self) -> &[Id<T>] {
        &self.ids
    }
}

impl<T> Default for Children<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Children<T> {
    fn clone(&self) -> Self {
        Self {
            ids: self.ids.clone(),
        }
    }
}

impl<T> FromIterator<Id<T>> for Children<T> {
    fn from_iter<I: IntoIterator<Item = Id<T>>>(ids: I) -> Self {
        Self {
            ids: ids.into_iter().collect(),
        }
    }
}

impl<T> fmt::Debug for Children<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.ids).finish()
    }
}

impl<T: Resource> Resource for Children<T> {
    type Key = NoKey;

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.ids.capacity() * size_of::<Id<T>>()
    }
}
