//! The resources of one type, as one reactor sees them.
//!
//! ```text
//!   keys:  hash ──► key, place, generation          slots:  place ──► value, generation
//!                    │                                                  │
//!                    └──► in the owner's memory, shared by all ◄────────┘
//! ```
//!
//! | field | written | read |
//! | --- | --- | --- |
//! | `slots`, `keys` | when a commit is applied | by every read |
//! | `changed` | with them: the epoch | by every read: at or below the transaction's epoch, the slots are what it sees |
//! | `old_slots`, `old_keys` | when a commit is applied while a transaction is open | by transactions that were opened before |
//!
//! Rules:
//!
//! 1. No user code runs during an access to the cell: a lookup copies a pointer out and compares
//!    the key after the access. So nothing is applied during one.
//! 2. Applying reads neither values nor keys, which may be freed by then: hashes are copied, and a
//!    key is found by its address.
//! 3. A key belongs to one id from its insertion to its removal. So a transaction that finds a key
//!    sees its resource if it sees the id, and only removed keys have a past.

use core::any::Any;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;
use std_alloc::vec::Vec;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::resource::{Id, Resource};
use crate::primitive::cell::UnsafeCell;

/// A key, in memory of the owner.
pub(super) struct Key<K> {
    pub(super) hash: u64,
    pub(super) key: K,
}

/// What a commit does to one resource.
pub(super) struct Op<T: Resource> {
    pub(super) id: Id<T>,
    /// Null: the resource is removed.
    pub(super) value: *const T,
    /// The key that is bound with a value, or removed without one; null if neither.
    pub(super) key: *const Key<T::Key>,
    /// Of the key.
    pub(super) hash: u64,
}

/// What a commit does to one type.
pub(super) struct Ops<T: Resource>(pub(super) Vec<Op<T>>);

// SAFETY: values and keys are `Sync`, and only their addresses are sent.
unsafe impl<T: Resource> Send for Ops<T> {}
// SAFETY: as above; nothing changes a commit after it was published.
unsafe impl<T: Resource> Sync for Ops<T> {}

/// A commit: what it does, by table.
pub(crate) type Log = Vec<(usize, Box<dyn Any + Send + Sync>)>;

struct Slot<T> {
    value: *const T,
    generation: u32,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<T> {}

struct Named<K> {
    hash: u64,
    key: *const Key<K>,
    index: u32,
    generation: u32,
}

enum Old<K> {
    Slot(u32),
    Key(u64, *const Key<K>),
}

struct State<T: Resource> {
    slots: Vec<Slot<T>>,
    keys: HashTable<Named<T::Key>>,
    changed: u64,
    /// By place: what was there, with the epoch from which on it is not.
    old_slots: HashMap<u32, VecDeque<(u64, Slot<T>)>>,
    /// Removed keys, likewise.
    old_keys: HashTable<(u64, Named<T::Key>)>,
    /// What is in the past, with the epoch from which on it is, in that order.
    past: VecDeque<(u64, Old<T::Key>)>,
}

/// The table of a type; on its reactor's thread alone.
pub(super) struct Table<T: Resource> {
    state: UnsafeCell<State<T>>,
    hasher: DefaultHashBuilder,
}

/// A table without its type.
pub(super) trait AnyTable {
    fn apply(&self, ops: &dyn Any, epoch: u64, is_read: bool);
    /// Forgets the past that no transaction of `oldest` or later sees.
    fn prune(&self, oldest: u64);
    /// The address of the `Table<T>`.
    fn address(&self) -> *const ();
}

impl<T: Resource> State<T> {
    fn slot(&self, index: u32, epoch: u64) -> Option<Slot<T>> {
        if self.changed > epoch {
            return self.slot_slow(index, epoch);
        }
        self.slots.get(index as usize).copied()
    }

    #[cold]
    fn slot_slow(&self, index: u32, epoch: u64) -> Option<Slot<T>> {
        if let Some(old) = self.old_slots.get(&index) {
            let at = old.partition_point(|&(until, _)| until <= epoch);
            if let Some(&(_, slot)) = old.get(at) {
                return Some(slot);
            }
        }
        self.slots.get(index as usize).copied()
    }

    fn apply(&mut self, op: &Op<T>, epoch: u64, is_read: bool) {
        let Id {
            index, generation, ..
        } = op.id;
        let none = Slot {
            value: core::ptr::null(),
            generation: 0,
        };
        if index as usize >= self.slots.len() {
            self.slots.resize(index as usize + 1, none);
        }
        let slot = &mut self.slots[index as usize];
        let new = Slot {
            value: op.value,
            generation,
        };
        let before = core::mem::replace(slot, new);
        if is_read {
            let old = self.old_slots.entry(index).or_default();
            old.push_back((epoch, before));
            self.past.push_back((epoch, Old::Slot(index)));
        }
        if op.key.is_null() {
            return;
        }
        if !op.value.is_null() {
            let named = Named {
                hash: op.hash,
                key: op.key,
                index,
                generation,
            };
            self.keys.insert_unique(op.hash, named, |named| named.hash);
            return;
        }
        let found = self.keys.find_entry(op.hash, |named| named.key == op.key);
        let Ok(found) = found else {
            unreachable!("table: a key is removed once, after it was bound");
        };
        let (named, _) = found.remove();
        if is_read {
            self.past.push_back((epoch, Old::Key(op.hash, op.key)));
            self.old_keys
                .insert_unique(op.hash, (epoch, named), |(_, named)| named.hash);
        }
    }

    fn prune(&mut self, oldest: u64) {
        while let Some(&(epoch, ref old)) = self.past.front()
            && epoch <= oldest
        {
            match *old {
                Old::Slot(index) => {
                    let is_last = self.old_slots.get_mut(&index).is_none_or(|old| {
                        old.pop_front();
                        old.is_empty()
                    });
                    if is_last {
                        self.old_slots.remove(&index);
                    }
                }
                Old::Key(hash, key) => {
                    let is_it = |(_, named): &(u64, Named<_>)| named.key == key;
                    let found = self.old_keys.find_entry(hash, is_it);
                    if let Ok(found) = found {
                        found.remove();
                    }
                }
            }
            self.past.pop_front();
        }
    }
}

/// The `nth` of these names that has the hash: its key and its id.
#[inline(always)]
fn candidate<'a, T: Resource>(
    names: impl Iterator<Item = &'a Named<T::Key>>,
    hash: u64,
    nth: usize,
) -> Option<(*const Key<T::Key>, Id<T>)> {
    let named = names.filter(|named| named.hash == hash).nth(nth)?;
    Some((named.key, Id::new(named.index, named.generation)))
}

impl<T: Resource> Table<T> {
    pub(super) fn new(hasher: DefaultHashBuilder) -> Self {
        Self {
            state: UnsafeCell::new(State {
                slots: Vec::new(),
                keys: HashTable::new(),
                changed: 0,
                old_slots: HashMap::new(),
                old_keys: HashTable::new(),
                past: VecDeque::new(),
            }),
            hasher,
        }
    }

    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&State<T>) -> R) -> R {
        // SAFETY: the table is on one thread, and by rule 1 no access begins during another.
        self.state.with(|state| f(unsafe { &*state }))
    }

    fn with_mut<R>(&self, f: impl FnOnce(&mut State<T>) -> R) -> R {
        // SAFETY: as in `with`.
        self.state.with_mut(|state| f(unsafe { &mut *state }))
    }

    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The resource of `id`, as a transaction of `epoch` sees it; the caller has that one open.
    #[inline]
    pub(super) fn get(&self, id: Id<T>, epoch: u64) -> Option<*const T> {
        let slot = self.with(|state| state.slot(id.index, epoch))?;
        (slot.generation == id.generation && !slot.value.is_null()).then_some(slot.value)
    }

    /// The id of a key, and its resource.
    ///
    /// # Safety
    ///
    /// A transaction of `epoch` is open on this reactor during the call.
    pub(super) unsafe fn find<Q>(&self, key: &Q, epoch: u64) -> Option<(Id<T>, *const T)>
    where
        T::Key: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let now = |state: &State<T>, nth| candidate(state.keys.iter_hash(hash), hash, nth);
        // SAFETY: as the caller promises; a key in `keys` was not removed before the transaction
        // began.
        let found = unsafe { self.look(key, epoch, now) };
        if found.is_some() || self.with(|state| state.changed <= epoch) {
            return found;
        }
        let then = |state: &State<T>, nth| {
            let old = state.old_keys.iter_hash(hash);
            let old = old.filter(|&&(until, _)| until > epoch);
            candidate(old.map(|(_, named)| named), hash, nth)
        };
        // SAFETY: as the caller promises; these keys were removed after the transaction began.
        unsafe { self.look(key, epoch, then) }
    }

    /// The first of some candidates that is of this key and seen by the transaction.
    ///
    /// # Safety
    ///
    /// As for `find`; the transaction began before the commits that removed the candidates, if any
    /// did.
    #[inline]
    unsafe fn look<Q>(
        &self,
        key: &Q,
        epoch: u64,
        candidate: impl Fn(&State<T>, usize) -> Option<(*const Key<T::Key>, Id<T>)>,
    ) -> Option<(Id<T>, *const T)>
    where
        T::Key: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        for nth in 0.. {
            let (named, id) = self.with(|state| candidate(state, nth))?;
            // SAFETY: as the caller promises, the removal of the key, if there is one, has not
            // passed this reactor, and so the owner keeps the key.
            let named = unsafe { &*named };
            if named.key.borrow() == key
                && let Some(value) = self.get(id, epoch)
            {
                return Some((id, value));
            }
        }
        None
    }

    /// How many places there are.
    pub(super) fn places(&self) -> u32 {
        self.with(|state| state.slots.len() as u32)
    }

    /// The resource at a place, as a transaction of `epoch` sees it.
    pub(super) fn at(&self, index: u32, epoch: u64) -> Option<(Id<T>, *const T)> {
        let slot = self.with(|state| state.slot(index, epoch))?;
        (!slot.value.is_null()).then(|| (Id::new(index, slot.generation), slot.value))
    }
}

impl<T: Resource> AnyTable for Table<T> {
    fn apply(&self, ops: &dyn Any, epoch: u64, is_read: bool) {
        let Some(Ops(ops)) = ops.downcast_ref::<Ops<T>>() else {
            unreachable!("table: a commit names each type by its place");
        };
        self.with_mut(|state| {
            for op in ops {
                state.apply(op, epoch, is_read);
            }
            state.changed = epoch;
        });
    }

    fn prune(&self, oldest: u64) {
        self.with_mut(|state| state.prune(oldest));
    }

    fn address(&self) -> *const () {
        core::ptr::from_ref(self).cast()
    }
}
