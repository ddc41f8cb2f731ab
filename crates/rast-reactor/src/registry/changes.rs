//! Changes: resources are copied, changed, and committed together.

use core::any::Any;
use core::cell::OnceCell;
use core::fmt;
use core::panic::Location;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use hashbrown::{HashMap, HashTable};

use super::owned::{Committed, Estate, Owned};
use super::read::{OUTSIDE, Read};
use super::replica::{Replica, with_current};
use super::resource::{Id, Resource};
use super::table::{Key, Log, Op, Ops, Table};
use crate::epoch::Retired;
use crate::primitive::panics::drop_each;

/// Why a change was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Another reactor owns the type.
    NotOwner {
        /// The owner.
        owner: usize,
    },
    /// The resource was deleted, or added after the changes began.
    Gone,
    /// Another resource has this key.
    Taken,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOwner { owner } => write!(f, "reactor {owner} owns these resources"),
            Self::Gone => f.write_str("the resource was deleted"),
            Self::Taken => f.write_str("there is a resource of this key"),
        }
    }
}

impl core::error::Error for Refusal {}

/// A rejected key or resource, with the reason.
pub struct Refused<V> {
    /// The reason.
    pub reason: Refusal,
    /// The rejected key or resource.
    pub value: V,
}

// `V` need not be `Debug`; the rejected value is in the field.
impl<V> fmt::Debug for Refused<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<V> fmt::Display for Refused<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<V> core::error::Error for Refused<V> {}

/// Why a commit was rejected, with the changes. No part of it was applied.
#[non_exhaustive]
pub enum NotCommitted {
    /// The owner has reached its limit of replaced memory that is not destroyed yet:
    /// [`Resources::retired_max`](crate::registry::Resources::retired_max). The changes can be
    /// committed later; [`room`](crate::registry::room) waits until then.
    Full(Changes),
    /// Another commit has changed a resource that these changes copied, or has added a resource
    /// with the same key. These changes cannot be committed; make them again, from the current
    /// resources.
    Conflict(Changes),
}

impl fmt::Debug for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Conflict(_) => "Conflict(..)",
        })
    }
}

impl fmt::Display for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "too much is retired that a transaction may read",
            Self::Conflict(_) => "another commit has changed the same resources",
        })
    }
}

impl core::error::Error for NotCommitted {}

enum State<T: Resource> {
    /// The resource is new, with its key.
    New(Option<Box<Key<T::Key>>>),
    Changed,
    Removed,
}

struct Entry<T: Resource> {
    state: State<T>,
    /// `None` if the resource is removed.
    value: Option<Box<T>>,
    bytes: usize,
    /// The last commit that was visible to the transaction that read the resource.
    since: u64,
}

/// A key or a resource of a dropped entry. Each is dropped alone: if the destructors of both
/// panicked, the second panic would abort the process.
#[expect(dead_code, reason = "they are dropped")]
enum Part<T: Resource> {
    Key(Box<Key<T::Key>>),
    Value(Box<T>),
}

impl<T: Resource> Entry<T> {
    fn into_parts(self) -> impl Iterator<Item = Part<T>> {
        let key = match self.state {
            State::New(key) => key,
            State::Changed | State::Removed => None,
        };
        let key = key.map(Part::Key);
        key.into_iter().chain(self.value.map(Part::Value))
    }
}

/// The changes of one type.
struct Draft<T: Resource> {
    entries: HashMap<Id<T>, Entry<T>>,
    /// The ids of new keys, with their hashes.
    keys: HashTable<(u64, Id<T>)>,
}

/// A part of a commit, and its bytes.
type Sealed = (Box<dyn Any + Send + Sync>, usize);

/// The changes of one type, without the type.
trait AnyDraft: Any {
    /// Returns `true` if a commit has changed one of these resources since it was read. User code
    /// runs while keys are compared.
    fn has_conflict(&self, owned: &Owned, replica: &Rc<Replica>) -> bool;
    /// Converts the changes into a part of commit `number`. No user code runs.
    fn seal(&mut self, owned: &Owned, table: usize, number: u64) -> Sealed;
    /// Returns the ids of new resources.
    fn give_up(&mut self, owned: &Owned, table: usize);
}

impl<T: Resource> Draft<T> {
    fn new() -> Self {
        Self {
            entries: HashMap::new(),
            keys: HashTable::new(),
        }
    }

    /// Returns `true` if a new resource has this key.
    fn has_key(&self, key: &Key<T::Key>) -> bool {
        let is_same = |(_, id): &(u64, Id<T>)| match &self.entries[id].state {
            State::New(Some(other)) => other.hash == key.hash && other.key == key.key,
            _ => false,
        };
        self.keys.find(key.hash, is_same).is_some()
    }

    /// Returns `true` if a committed resource that these changes do not remove has the key.
    fn is_taken(&self, table: &Table<T>, key: &Key<T::Key>, read: &Read) -> bool {
        // SAFETY: `read` is a transaction of this epoch and is open.
        let found = unsafe { table.find(&key.key, read.epoch()) };
        found.is_some_and(|(id, _)| match self.entries.get(&id) {
            Some(entry) => !matches!(entry.state, State::Removed),
            None => true,
        })
    }
}

impl<T: Resource> AnyDraft for Draft<T> {
    fn has_conflict(&self, owned: &Owned, replica: &Rc<Replica>) -> bool {
        let (place, _, table) = replica.table::<T>();
        let changed = owned.with_estate::<T, _>(place, |estate| {
            let mut entries = self.entries.iter();
            entries.any(|(&id, entry)| {
                let is_older = |last| last <= entry.since;
                !matches!(entry.state, State::New(_)) && !estate.last(id).is_some_and(is_older)
            })
        });
        if changed != Some(false) {
            return true;
        }
        if self.keys.is_empty() {
            return false;
        }
        let number = owned.number();
        let now = Read::open(replica, Location::caller());
        self.entries.values().any(|entry| match &entry.state {
            State::New(Some(key)) => entry.since != number && self.is_taken(table, key, &now),
            _ => false,
        })
    }

    fn seal(&mut self, owned: &Owned, table: usize, number: u64) -> Sealed {
        self.keys.clear();
        let retired = &mut *owned.retired.borrow_mut();
        let ops = owned.with_estate::<T, _>(table, |estate| {
            let entries = self.entries.drain();
            let ops = entries.map(|(id, entry)| seal(estate, id, entry, number, retired));
            let ops: Vec<_> = ops.collect();
            estate.fit();
            ops
        });
        let ops = ops.unwrap_or_default();
        let bytes = ops.capacity() * size_of::<Op<T>>();
        (Box::new(Ops(ops)), bytes)
    }

    fn give_up(&mut self, owned: &Owned, table: usize) {
        let _ = owned.with_estate::<T, _>(table, |estate| {
            for (id, entry) in &self.entries {
                if matches!(entry.state, State::New(_)) {
                    estate.ids.take_back(id.index, id.generation);
                }
            }
        });
    }
}

impl<T: Resource> Drop for Draft<T> {
    fn drop(&mut self) {
        let entries = self.entries.drain();
        let mut parts = entries.flat_map(|(_, entry)| entry.into_parts());
        drop_each(|| parts.next());
    }
}

/// Applies a change to the owner's state; returns the operation for all reactors.
fn seal<T: Resource>(
    estate: &mut Estate<T>,
    id: Id<T>,
    entry: Entry<T>,
    number: u64,
    retired: &mut Retired,
) -> Op<T> {
    let mut op = Op {
        id,
        value: None,
        key: core::ptr::null(),
        hash: 0,
    };
    match entry.value {
        Some(value) => {
            let key = match entry.state {
                State::New(key) => key,
                State::Changed | State::Removed => None,
            };
            let hash = key.as_ref().map(|key| key.hash);
            let value = (value, entry.bytes);
            op.value = Some(estate.put(id, value, key, number, retired));
            if let Some(hash) = hash {
                (op.key, op.hash) = (estate.key(id), hash);
            }
        }
        None => {
            op.key = estate.key(id);
            if !op.key.is_null() {
                // SAFETY: a commit made the pointer from a box, and the key is retired below.
                op.hash = unsafe { (*op.key).hash };
            }
            estate.remove(id, number, retired);
        }
    }
    op
}

/// Changes to resources of one owner, which become visible together.
///
/// A `Changes` sees the resources as they were when [`change`] made it, and copies a resource when
/// it first changes the resource. Nothing is visible before [`commit`](Self::commit). Dropping a
/// `Changes` discards all its changes. If another commit has meanwhile changed one of the same
/// resources, this commit is rejected.
///
/// If user code panics in a method of `Changes`, the changes stay as they were before the call.
///
/// ```
/// use rast_reactor::registry::{Refusal, Resource, Resources, change, read};
/// use rast_reactor::{Reactors, executor::block_on, reactor_task};
///
/// #[derive(Clone)]
/// struct Budget(u32);
/// impl Resource for Budget {
///     type Key = u64;
/// }
///
/// let resources = Resources::new().own::<Budget>(1);
/// let reactors = Reactors::builder().number(2).resources(resources).build().unwrap();
/// let task = reactors.reactor(1).unwrap().spawn(|| async {
///     let mut changes = change();
///     let id = changes.insert(5, Budget(10)).unwrap_or_else(|_| panic!("it is new"));
///     changes.commit().unwrap().await;
///
///     let before = read();
///     let mut changes = change();
///     changes.update(id, |budget| budget.0 -= 1).unwrap();
///     changes.commit().unwrap().await;
///     assert_eq!((before.get(id).unwrap().0, read().get(id).unwrap().0), (10, 9));
///
///     reactor_task(0, move || async move { change().update(id, |budget| budget.0 = 0) }).await
/// });
/// let elsewhere = block_on(task).unwrap().unwrap();
/// assert_eq!(elsewhere, Err(Refusal::NotOwner { owner: 1 }));
/// ```
///
/// They are not `Send`:
///
/// ```compile_fail,E0277
/// fn moves<T: Send>() {}
/// moves::<rast_reactor::registry::Changes>();
/// ```
#[must_use = "changes do nothing before they are committed"]
pub struct Changes {
    replica: Rc<Replica>,
    /// The transaction, and the last commit that it sees. Empty from a rejected commit until the
    /// next use, so that changes that wait for room keep no memory.
    read: OnceCell<(Read, u64)>,
    line: &'static Location<'static>,
    /// By table.
    drafts: Vec<Option<Box<dyn AnyDraft>>>,
}

/// Begins changes on the reactor that runs the caller.
///
/// # Panics
///
/// Outside of a reactor.
#[track_caller]
pub fn change() -> Changes {
    let line = Location::caller();
    with_current(|replica| {
        let replica = replica.expect(OUTSIDE);
        Changes {
            replica: Rc::clone(replica),
            read: OnceCell::from(open(replica, line)),
            line,
            drafts: Vec::new(),
        }
    })
}

/// Opens a transaction; returns it and the last commit of this reactor, which it sees.
fn open(replica: &Rc<Replica>, line: &'static Location<'static>) -> (Read, u64) {
    let read = Read::open(replica, line);
    let since = replica.owned.as_ref().map_or(0, |owned| owned.number());
    (read, since)
}

impl Changes {
    /// The transaction, and the last commit that it sees.
    fn opened(&self) -> &(Read, u64) {
        self.read.get_or_init(|| open(&self.replica, self.line))
    }

    /// The transaction that the changes began with: it sees the resources without these changes.
    /// After a rejected commit, the next call begins a new transaction.
    ///
    /// # Panics
    ///
    /// After a rejected commit, if the reactor has ended (in a destructor of a thread-local).
    pub fn before(&self) -> &Read {
        &self.opened().0
    }

    /// The resources that this reactor owns, and the index of the type, if this reactor is its
    /// owner.
    fn owned<T: Resource>(&self) -> Result<(&Rc<Owned>, usize), Refusal> {
        let (place, owner, _) = self.replica.table::<T>();
        match &self.replica.owned {
            Some(owned) if owner == self.replica.reactor => Ok((owned, place)),
            _ => Err(Refusal::NotOwner { owner }),
        }
    }

    fn draft<T: Resource>(&mut self, place: usize) -> &mut Draft<T> {
        if self.drafts.len() <= place {
            let types = self.replica.types();
            self.drafts.resize_with(types, || None);
        }
        let draft = self.drafts[place].get_or_insert_with(|| Box::new(Draft::<T>::new()));
        let draft: &mut dyn Any = &mut **draft;
        match draft.downcast_mut() {
            Some(draft) => draft,
            None => unreachable!("changes: drafts are in the order of the types"),
        }
    }

    fn draft_ref<T: Resource>(&self, place: usize) -> Option<&Draft<T>> {
        let draft: &dyn Any = &**self.drafts.get(place)?.as_ref()?;
        draft.downcast_ref()
    }

    /// A resource with these changes; `None` if they remove it, or it does not exist.
    ///
    /// # Panics
    ///
    /// If no reactor owns the type.
    #[must_use]
    pub fn get<T: Resource>(&self, id: Id<T>) -> Option<&T> {
        let (place, ..) = self.replica.table::<T>();
        let entry = self
            .draft_ref(place)
            .and_then(|draft| draft.entries.get(&id));
        match entry {
            Some(entry) => entry.value.as_deref(),
            None => self.before().get(id),
        }
    }

    /// Adds a resource without a key.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotOwner`], with the resource.
    ///
    /// # Panics
    ///
    /// If no reactor owns the type; if [`Resource::bytes`] panics; if there are 2^32 resources of
    /// the type.
    pub fn add<T: Resource>(&mut self, value: T) -> Result<Id<T>, Refused<T>> {
        match self.owned::<T>() {
            Ok((_, place)) => Ok(self.enter(place, None, value)),
            Err(reason) => Err(Refused { reason, value }),
        }
    }

    /// Adds a resource with a key.
    ///
    /// # Errors
    ///
    /// With the key and the resource: [`Refusal::NotOwner`]; [`Refusal::Taken`] if another resource
    /// has the key and these changes do not remove it.
    ///
    /// # Panics
    ///
    /// As [`add`](Self::add); if the key's `Hash` or `Eq` panics.
    pub fn insert<T: Resource>(
        &mut self,
        key: T::Key,
        value: T,
    ) -> Result<Id<T>, Refused<(T::Key, T)>> {
        let place = match self.owned::<T>() {
            Ok((_, place)) => place,
            Err(reason) => {
                let value = (key, value);
                return Err(Refused { reason, value });
            }
        };
        let (_, _, table) = self.replica.table::<T>();
        let hash = table.hash(&key);
        let key = Key { hash, key };
        let none = Draft::new();
        let draft = self.draft_ref(place).unwrap_or(&none);
        if draft.has_key(&key) || draft.is_taken(table, &key, self.before()) {
            return Err(Refused {
                reason: Refusal::Taken,
                value: (key.key, value),
            });
        }
        Ok(self.enter(place, Some(Box::new(key)), value))
    }

    fn enter<T: Resource>(
        &mut self,
        place: usize,
        key: Option<Box<Key<T::Key>>>,
        value: T,
    ) -> Id<T> {
        let bytes = value.bytes();
        let owned = self.replica.owned.as_ref();
        let given = owned.and_then(|owned| {
            let give = |estate: &mut Estate<T>| estate.ids.give();
            owned.with_estate(place, give)
        });
        let Some((index, generation)) = given else {
            unreachable!("changes: the owner was asked before");
        };
        let (_, since) = *self.opened();
        let hash = key.as_ref().map(|key| key.hash);
        let id = Id::new(index, generation);
        let draft = self.draft::<T>(place);
        let entry = Entry {
            state: State::New(key),
            value: Some(Box::new(value)),
            bytes,
            since,
        };
        draft.entries.insert(id, entry);
        if let Some(hash) = hash {
            draft
                .keys
                .insert_unique(hash, (hash, id), |&(hash, _)| hash);
        }
        id
    }

    /// Changes a copy of a resource.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotOwner`], [`Refusal::Gone`].
    ///
    /// # Panics
    ///
    /// If no reactor owns the type; if `change`, `clone` or `bytes` panics.
    pub fn update<T: Resource + Clone>(
        &mut self,
        id: Id<T>,
        change: impl FnOnce(&mut T),
    ) -> Result<(), Refusal> {
        let (_, place) = self.owned::<T>()?;
        let value = self.get(id).ok_or(Refusal::Gone)?;
        let mut copy = Box::new(value.clone());
        change(&mut copy);
        self.put(place, id, copy);
        Ok(())
    }

    /// Replaces a resource.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotOwner`] or [`Refusal::Gone`], with the new resource.
    ///
    /// # Panics
    ///
    /// If no reactor owns the type; if `bytes` does.
    pub fn replace<T: Resource>(&mut self, id: Id<T>, value: T) -> Result<(), Refused<T>> {
        let reason = match self.owned::<T>() {
            Err(reason) => reason,
            Ok(_) if self.get(id).is_none() => Refusal::Gone,
            Ok((_, place)) => {
                self.put(place, id, Box::new(value));
                return Ok(());
            }
        };
        Err(Refused { reason, value })
    }

    /// Replaces the value of an existing resource.
    fn put<T: Resource>(&mut self, place: usize, id: Id<T>, value: Box<T>) {
        let bytes = value.bytes();
        let (_, since) = *self.opened();
        let draft = self.draft::<T>(place);
        let old = match draft.entries.get_mut(&id) {
            Some(entry) => {
                entry.bytes = bytes;
                entry.value.replace(value)
            }
            None => {
                let entry = Entry {
                    state: State::Changed,
                    value: Some(value),
                    bytes,
                    since,
                };
                draft.entries.insert(id, entry);
                None
            }
        };
        drop(old);
    }

    /// Removes a resource. Its id and its key then name no resource. Resources to which it refers,
    /// such as its children, stay.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotOwner`], [`Refusal::Gone`].
    ///
    /// # Panics
    ///
    /// If no reactor owns the type.
    pub fn remove<T: Resource>(&mut self, id: Id<T>) -> Result<(), Refusal> {
        let (_, place) = self.owned::<T>()?;
        if self.get(id).is_none() {
            return Err(Refusal::Gone);
        }
        let before = self
            .draft_ref::<T>(place)
            .and_then(|draft| draft.entries.get(&id));
        let since = before.map_or_else(|| self.opened().1, |entry| entry.since);
        let removed = Entry {
            state: State::Removed,
            value: None,
            bytes: 0,
            since,
        };
        let draft = self.draft::<T>(place);
        let old = draft.entries.insert(id, removed);
        if let Some(Entry {
            state: State::New(key),
            ..
        }) = &old
        {
            draft.entries.remove(&id);
            if let Some(key) = key {
                let found = draft.keys.find_entry(key.hash, |&(_, other)| other == id);
                if let Ok(found) = found {
                    found.remove();
                }
            }
            let (owned, _) = self.owned::<T>()?;
            let _ = owned.with_estate::<T, _>(place, |estate| {
                estate.ids.take_back(id.index, id.generation);
            });
        }
        let mut parts = old.into_iter().flat_map(Entry::into_parts);
        drop_each(|| parts.next());
        Ok(())
    }

    /// Commits the changes. They are visible on this reactor at once, and on each other reactor
    /// from its next turn on. A reactor sees all of them or none. Commits of one owner become
    /// visible in the order in which they were made.
    ///
    /// The returned future waits until all reactors have applied the commit; the commit takes
    /// effect even if the future is dropped. This reactor destroys replaced resources in a later
    /// turn, when no transaction of any reactor sees them. Empty changes make a commit too.
    ///
    /// Lock-free: it waits for no reactor. Cost: two allocations, one more per changed type, and a
    /// load of a word per reactor.
    ///
    /// # Errors
    ///
    /// [`NotCommitted::Full`] if too many replaced values are not destroyed yet, and
    /// [`NotCommitted::Conflict`] if another commit has changed one of the same resources, or added
    /// one of the same keys. Both errors contain the changes. If the reactor has ended (the caller
    /// is a destructor of a thread-local), the error is always `Conflict`.
    ///
    /// # Panics
    ///
    /// If the `Eq` of a key panics; nothing is committed then.
    pub fn commit(mut self) -> Result<Committed, NotCommitted> {
        let Some(owned) = self.replica.owned.clone() else {
            // No resource can have been changed here.
            return Ok(Committed::new(None, 0));
        };
        if self.replica.has_left() {
            return Err(NotCommitted::Conflict(self));
        }
        let is_full = owned.is_full() && {
            owned.collect(usize::MAX);
            owned.is_full()
        };
        let number = owned.number();
        let mut drafts = self.drafts.iter().flatten();
        if drafts.any(|draft| draft.has_conflict(&owned, &self.replica))
            // The `Eq` of a key has made a commit.
            || number != owned.number()
        {
            self.read.take();
            return Err(NotCommitted::Conflict(self));
        }
        if is_full {
            // An open transaction would keep the memory for which the task now waits.
            self.read.take();
            return Err(NotCommitted::Full(self));
        }
        let mut log = Log::new();
        let mut bytes = 0;
        for (place, draft) in self.drafts.drain(..).enumerate() {
            if let Some(mut draft) = draft {
                let (ops, size) = draft.seal(&owned, place, number + 1);
                log.push((place, ops));
                bytes += size;
            }
        }
        let pushed = owned.push(log, bytes);
        debug_assert_eq!(pushed, number + 1, "changes: no user code runs in between");
        self.read.take();
        self.replica.follow();
        Ok(Committed::new(Some(owned), pushed))
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let Some(owned) = &self.replica.owned else {
            return;
        };
        for (place, draft) in self.drafts.iter_mut().enumerate() {
            if let Some(draft) = draft {
                draft.give_up(owned, place);
            }
        }
        let mut drafts = core::mem::take(&mut self.drafts).into_iter().flatten();
        drop_each(|| drafts.next());
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}
