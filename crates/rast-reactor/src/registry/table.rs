//! The resources of one type, as one reactor sees them.
//!
//! ```text
//!   keys:  hash ──► key, index, generation          slots:  index ──► value, generation
//!                    │                                                  │
//!                    └──► in the owner's memory, shared by all ◄────────┘
//! ```
//!
//! | field | written | read |
//! | --- | --- | --- |
//! | `slots`, `keys` | when a commit is applied | by every read; slots of low indices are in a vector, see `places` of rast-executor |
//! | `changed`, the epoch of the last commit to this type | together with `slots` and `keys` | by every read: if it is not above the transaction's epoch, the transaction sees the slots as they are |
//! | `old_slots`, `old_keys` | when a commit is applied while a transaction is open | by transactions that were opened before |
//!
//! Rules:
//!
//! 1. No user code runs during an access to the `UnsafeCell` with the table, so no commit is
//!    applied during an access. A lookup copies the pointer to the key and ends the access. Then it
//!    compares the keys, which runs user code.
//! 2. Applying a commit reads no values or keys, because the owner may have freed them. The commit
//!    contains the hashes, and a key of the table is found by the key's address.
//! 3. A key belongs to one id from its insertion to its removal. So a transaction sees a key if and
//!    only if it sees the id, and only removed keys must be kept for older transactions.
//!
//! If no commit after the transaction's epoch has changed this type, a read by id costs a
//! comparison of epochs, a bounds check, a comparison of generations, and the load of the value.
//!
//! If several keys have the same hash, the first key is compared alone. If it is not the wanted
//! key, pointers to all these keys are copied into a list before the next comparison, because of
//! rule 1.

use core::any::Any;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::ptr::NonNull;
use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;
use std_alloc::vec::Vec;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use rast_executor::places::{Places, Vacant};

use super::resource::{Id, Resource};
use crate::epoch::{SMALL, shorten};
use crate::primitive::cell::UnsafeCell;

/// A key, in memory of the owner.
pub(super) struct Key<K> {
    pub(super) hash: u64,
    pub(super) key: K,
}

/// What a commit does to one resource.
pub(super) struct Op<T: Resource> {
    pub(super) id: Id<T>,
    /// `None`: the resource is removed.
    pub(super) value: Option<NonNull<T>>,
    /// The key that is added with a value, or removed without one; null if neither.
    pub(super) key: *const Key<T::Key>,
    /// The hash of the key.
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
    value: Option<NonNull<T>>,
    generation: u32,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<T> {}

impl<T> Vacant for Slot<T> {
    const VACANT: Self = Self {
        value: None,
        generation: 0,
    };

    fn is_vacant(&self) -> bool {
        self.value.is_none()
    }
}

impl<T> Slot<T> {
    /// The value, if the slot has that generation.
    #[inline(always)]
    fn of(self, generation: u32) -> Option<NonNull<T>> {
        if self.generation == generation {
            self.value
        } else {
            None
        }
    }
}

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
    slots: Places<Slot<T>>,
    keys: HashTable<Named<T::Key>>,
    changed: u64,
    /// By index: the old slots, each with the epoch in which it was replaced.
    old_slots: HashMap<u32, VecDeque<(u64, Slot<T>)>>,
    /// Removed keys, each with the epoch in which it was removed.
    old_keys: HashTable<(u64, Named<T::Key>)>,
    /// All old slots and keys with these epochs, oldest first.
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
    /// Removes old slots and keys that no transaction of epoch `oldest` or later sees.
    fn prune(&self, oldest: u64);
}

impl<T: Resource> State<T> {
    #[inline(always)]
    fn get(&self, id: Id<T>, epoch: u64) -> Option<NonNull<T>> {
        if self.changed <= epoch
            && let Some(slot) = self.slots.near().get(id.index as usize)
        {
            return slot.of(id.generation);
        }
        self.get_slow(id, epoch)
    }

    #[cold]
    fn get_slow(&self, id: Id<T>, epoch: u64) -> Option<NonNull<T>> {
        self.slot(id.index, epoch).of(id.generation)
    }

    /// The slot as a transaction of `epoch` sees it.
    fn slot(&self, index: u32, epoch: u64) -> Slot<T> {
        if self.changed > epoch
            && let Some(old) = self.old_slots.get(&index)
        {
            let at = old.partition_point(|&(until, _)| until <= epoch);
            if let Some(&(_, slot)) = old.get(at) {
                return slot;
            }
        }
        self.slots.get(index).copied().unwrap_or(Slot::VACANT)
    }

    /// Makes room for what a commit adds.
    fn reserve(&mut self, ops: &[Op<T>]) {
        let added = ops.iter().filter(|op| op.value.is_some());
        let indices = added.map(|op| op.id.index);
        if let (more @ 2.., Some(last)) = (indices.clone().count(), indices.max()) {
            self.slots.reserve(more, last);
        }
    }

    /// Frees memory if far more was removed than is left.
    fn fit(&mut self) {
        self.slots.fit();
        let keys = self.keys.len();
        if self.keys.capacity() > 8 * keys + SMALL {
            self.keys.shrink_to(2 * keys, |named| named.hash);
        }
    }

    /// Frees the memory of old slots and keys if far more were removed than are left.
    fn forget(&mut self) {
        shorten(&mut self.past);
        let slots = self.old_slots.len();
        if self.old_slots.capacity() > 8 * slots + SMALL {
            self.old_slots.shrink_to(2 * slots);
        }
        let keys = self.old_keys.len();
        if self.old_keys.capacity() > 8 * keys + SMALL {
            self.old_keys.shrink_to(2 * keys, |(_, named)| named.hash);
        }
    }

    fn apply(&mut self, op: &Op<T>, epoch: u64, is_read: bool) {
        let Id {
            index, generation, ..
        } = op.id;
        let new = Slot {
            value: op.value,
            generation,
        };
        let before = self.slots.put(index, new);
        if is_read {
            let old = self.old_slots.entry(index).or_default();
            old.push_back((epoch, before));
            self.past.push_back((epoch, Old::Slot(index)));
        }
        if op.key.is_null() {
            return;
        }
        if op.value.is_some() {
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
                        shorten(old);
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
        self.forget();
    }

    /// The keys with a hash.
    #[inline(always)]
    fn named(&self, hash: u64) -> impl Iterator<Item = Candidate<T>> {
        let named = self.keys.iter_hash(hash);
        named
            .filter(move |named| named.hash == hash)
            .map(Named::candidate)
    }

    /// The keys with a hash that were removed after `epoch`.
    fn once_named(&self, hash: u64, epoch: u64) -> impl Iterator<Item = Candidate<T>> {
        let old = self.old_keys.iter_hash(hash);
        old.filter(move |(until, named)| *until > epoch && named.hash == hash)
            .map(|(_, named)| named.candidate())
    }
}

/// A key and its id.
type Candidate<T> = (*const Key<<T as Resource>::Key>, Id<T>);

impl<K> Named<K> {
    #[inline(always)]
    fn candidate<T: Resource<Key = K>>(&self) -> Candidate<T> {
        (self.key, Id::new(self.index, self.generation))
    }
}

impl<T: Resource> Table<T> {
    pub(super) fn new(hasher: DefaultHashBuilder) -> Self {
        Self {
            state: UnsafeCell::new(State {
                slots: Places::default(),
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

    /// The resource of `id`, as a transaction of `epoch` sees it; the caller has this transaction
    /// open.
    #[inline(always)]
    pub(super) fn get(&self, id: Id<T>, epoch: u64) -> Option<NonNull<T>> {
        self.with(|state| state.get(id, epoch))
    }

    /// The id of a key, and its resource.
    ///
    /// # Safety
    ///
    /// A transaction of `epoch` is open on this reactor during the call.
    // Always inlined: a read takes 14.7 ns with a call, and 11.0 ns without (`bench reactor --only
    // "read by key"`, 2 cores, 2026-11-28).
    #[inline(always)]
    pub(super) unsafe fn find<Q>(&self, key: &Q, epoch: u64) -> Option<(Id<T>, NonNull<T>)>
    where
        T::Key: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        // The first key with the hash is nearly always the right one, and no commit came since.
        let first = self.with(|state| {
            let named = state.keys.find(hash, |named| named.hash == hash)?;
            let (key, id) = named.candidate();
            Some((key, id, state.get(id, epoch)))
        });
        match first {
            // SAFETY: by the caller; a key in `keys` was not removed before the transaction began.
            Some((named, id, Some(value))) if unsafe { Self::is_key(named, key) } => {
                Some((id, value))
            }
            None if self.with(|state| state.changed <= epoch) => None,
            // SAFETY: by the caller.
            _ => unsafe { self.find_slow(hash, key, epoch) },
        }
    }

    /// As [`find`](Self::find), by comparing all keys with the hash.
    ///
    /// # Safety
    ///
    /// As for `find`.
    #[cold]
    unsafe fn find_slow<Q>(&self, hash: u64, key: &Q, epoch: u64) -> Option<(Id<T>, NonNull<T>)>
    where
        T::Key: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let candidates: Vec<Candidate<T>> = self.with(|state| {
            let now = state.named(hash);
            now.chain(state.once_named(hash, epoch)).collect()
        });
        let mut candidates = candidates.into_iter();
        candidates.find_map(|(named, id)| {
            // SAFETY: by the caller; these keys are in the table, or were removed after the
            // transaction began.
            let is_key = unsafe { Self::is_key(named, key) };
            Some((id, self.get(id, epoch).filter(|_| is_key)?))
        })
    }

    /// Returns `true` if a candidate has this key.
    ///
    /// # Safety
    ///
    /// A transaction is open on this reactor. If a commit has removed the candidate, the
    /// transaction began before that commit.
    #[inline(always)]
    unsafe fn is_key<Q>(named: *const Key<T::Key>, key: &Q) -> bool
    where
        T::Key: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        // SAFETY: as the caller promises, the removal of the key, if there is one, has not passed
        // this reactor, and so the owner keeps the key.
        let named = unsafe { &*named };
        named.key.borrow() == key
    }

    /// The indices at which a transaction of `epoch` may see a resource.
    pub(super) fn indices(&self, epoch: u64) -> impl Iterator<Item = u32> + use<T> {
        let (near, far) = self.with(|state| {
            let near = state.slots.near().len() as u32;
            let mut far: Vec<u32> = state.slots.far().collect();
            if state.changed > epoch {
                let old = state.old_slots.keys().copied();
                far.extend(old.filter(|&index| index >= near));
                far.sort_unstable();
                far.dedup();
            }
            (near, far)
        });
        (0..near).chain(far)
    }

    /// The resource at an index, as a transaction of `epoch` sees it.
    pub(super) fn at(&self, index: u32, epoch: u64) -> Option<(Id<T>, NonNull<T>)> {
        let slot = self.with(|state| state.slot(index, epoch));
        Some((Id::new(index, slot.generation), slot.value?))
    }
}

impl<T: Resource> AnyTable for Table<T> {
    fn apply(&self, ops: &dyn Any, epoch: u64, is_read: bool) {
        let Some(Ops(ops)) = ops.downcast_ref::<Ops<T>>() else {
            unreachable!("table: a commit names each type by its place");
        };
        self.with_mut(|state| {
            state.reserve(ops);
            for op in ops {
                state.apply(op, epoch, is_read);
            }
            state.fit();
            state.changed = epoch;
        });
    }

    fn prune(&self, oldest: u64) {
        self.with_mut(|state| state.prune(oldest));
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    struct Unit;

    impl Resource for Unit {
        type Key = u64;
    }

    #[test]
    fn old_versions_leave_no_memory_behind_while_some_stay() {
        const MANY: u64 = 20_000;
        const STAY: usize = 4;
        let table = Table::<Unit>::new(DefaultHashBuilder::default());
        let mut unit = Unit;
        let value = NonNull::from(&mut unit);
        for epoch in 1..=MANY {
            // Half of the commits change one resource, the others one each.
            let index = if epoch % 2 == 0 { 0 } else { epoch as u32 };
            let op = Op {
                id: Id::new(index, 0),
                value: Some(value),
                key: core::ptr::null(),
                hash: 0,
            };
            table.with_mut(|state| {
                state.apply(&op, epoch, true);
                state.changed = epoch;
            });
        }
        table.prune(MANY - STAY as u64);
        table.with(|state| {
            assert_eq!(state.past.len(), STAY);
            let most = 8 * STAY + SMALL;
            let [past, slots, hot] = [
                state.past.capacity(),
                state.old_slots.capacity(),
                state.old_slots[&0].capacity(),
            ];
            assert!(
                past <= most && slots <= 2 * most && hot <= most,
                "{past} {slots} {hot}"
            );
        });
    }
}
