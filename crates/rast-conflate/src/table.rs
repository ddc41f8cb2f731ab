//! One table of keys: a power-of-two number of cells, their hashes, and the marks.
//!
//! ```text
//!   tags      [ hash | 1 ][ 0 ][ hash | 1 ] ...      8 bytes each: a search reads only these
//!                                                    until one is equal
//!   entries   [ life, priority, value cell, key ] ...
//!   cold      [ pace, statistics, handler ] ...      for consumers, and puts with statistics
//!   marks     a map per priority
//!   next, prev                                       the tables of one conflator, oldest first
//! ```
//!
//! A key is in one of 16 consecutive cells; its hash selects the first of them. In a table that
//! cannot grow (`Growth::Refuse`), it may be in any cell. No cell ever moves, and a table is freed
//! only with its conflator. So handles are plain addresses, and no thread waits while the conflator
//! grows.

use core::mem::MaybeUninit;
use core::ptr;
use std::boxed::Box;
use std::vec::Vec;

use crate::cell::Cell;
use crate::life::{Life, State};
use crate::marks::{Map, Marks};
use crate::mode::Mode;
use crate::primitive::cell::UnsafeCell;
use crate::primitive::panics::drop_each;
use crate::primitive::sync::Mutex;
use crate::primitive::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Number of cells of the smallest table, and of a table that follows one with clustered keys.
#[cfg(not(any(rast_loom, rast_shuttle)))]
const CELLS_MIN: usize = 64;
#[cfg(any(rast_loom, rast_shuttle))]
const CELLS_MIN: usize = 2;

/// Number of cells in which a key is searched, in a table that may be followed by another.
#[cfg(not(any(rast_loom, rast_shuttle)))]
const WINDOW: usize = 16;
#[cfg(any(rast_loom, rast_shuttle))]
const WINDOW: usize = 1;

/// Maximum number of cells of a table.
const CELLS_MAX: usize = 1 << 30;

/// A handler of one key; see [`KeyHandle::set_handler`](crate::KeyHandle::set_handler).
pub type KeyHandler<K, V> = Box<dyn FnMut(&K, V) + Send>;

/// The handler of one key, and how often one was set. A handler that ran is put back only if none
/// was set meanwhile.
pub(crate) struct HandlerSlot<K, V> {
    pub(crate) handler: Option<KeyHandler<K, V>>,
    pub(crate) version: u64,
}

/// One cell: a key and its newest value.
#[cfg_attr(not(any(rast_loom, rast_shuttle)), repr(align(64)))]
pub(crate) struct Entry<K, C> {
    pub(crate) life: Life,
    /// Index of the map of marks that the key uses. Written by a handle, read by puts.
    pub(crate) priority: AtomicUsize,
    pub(crate) value: C,
    key: UnsafeCell<MaybeUninit<K>>,
}

/// Data of a key that a put does not need. Times are nanoseconds of the conflator's clock.
pub(crate) struct Cold<K, V> {
    /// Minimum time from one handling to the next; zero means none. Set by users.
    pub(crate) every: AtomicU64,
    /// Maximum number of handlings at once.
    pub(crate) burst: AtomicU64,
    /// Time at which the next handling would be due at an even pace. Written by the consumer that
    /// runs the key.
    pub(crate) due: AtomicU64,
    /// Time at which the key was last handled, or inserted.
    pub(crate) last: AtomicU64,
    pub(crate) puts: AtomicU64,
    /// Written by the consumer that runs the key.
    pub(crate) handled: AtomicU64,
    /// Times at which the oldest and the newest pending value were put; zero means none is pending.
    pub(crate) oldest: AtomicU64,
    pub(crate) newest: AtomicU64,
    /// Written by the consumer that runs the key.
    pub(crate) wait_max: AtomicU64,
    /// Set while the key has a handler, so that other keys do not take the lock.
    pub(crate) has_handler: AtomicUsize,
    pub(crate) handler: Mutex<HandlerSlot<K, V>>,
}

pub(crate) struct Table<K, V, M: Mode<V>> {
    pub(crate) index: usize,
    mask: usize,
    window: usize,
    tags: Box<[AtomicU64]>,
    pub(crate) entries: Box<[Entry<K, M::Cell>]>,
    pub(crate) cold: Box<[Cold<K, V>]>,
    /// One per priority.
    pub(crate) marks: Box<[Map]>,
    /// Number of cells that were ever used.
    used: AtomicUsize,
    next: AtomicPtr<Self>,
    prev: *const Self,
}

// SAFETY: keys are shared and values are sent, both by the protocol of `Life` and the cells; `prev`
// is a table that lives as long as this one.
unsafe impl<K: Send + Sync, V: Send, M: Mode<V>> Sync for Table<K, V, M> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync, V: Send, M: Mode<V>> Send for Table<K, V, M> {}

impl<K, C> Entry<K, C> {
    /// Claims the cell if it has no key, or its key was removed, is unused and has no value.
    fn claim<V>(&self) -> Option<State>
    where
        C: Cell<V>,
    {
        self.life.claim(|| self.value.is_full())
    }

    /// Returns the key.
    ///
    /// # Safety
    ///
    /// 1. The caller has a pin on the cell or runs its key, has then found a key in the cell, and
    ///    keeps the pin or runs the key as long as the borrow lasts.
    #[inline(always)]
    pub(crate) unsafe fn key(&self) -> &K {
        self.key.with(|key| {
            // SAFETY: by 1 the key is initialised, and is not removed during a pin or a run.
            unsafe { &*key.cast::<K>() }
        })
    }
}

impl<K, V> Cold<K, V> {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            every: zero(),
            burst: AtomicU64::new(1),
            due: zero(),
            last: zero(),
            puts: zero(),
            handled: zero(),
            oldest: zero(),
            newest: zero(),
            wait_max: zero(),
            has_handler: AtomicUsize::new(0),
            handler: Mutex::new(HandlerSlot {
                handler: None,
                version: 0,
            }),
        }
    }
}

impl<K, V, M: Mode<V>> Table<K, V, M> {
    /// Makes an empty table. If it `grows`, a search reads a window of it, otherwise all of it.
    pub(crate) fn new(
        cells: usize,
        grows: bool,
        marks: Marks,
        priorities: usize,
        prev: Option<&Self>,
    ) -> Box<Self> {
        let cells = cells.next_power_of_two().clamp(CELLS_MIN, CELLS_MAX);
        let entry = || Entry {
            life: Life::new(),
            priority: AtomicUsize::new(0),
            value: M::Cell::new(),
            key: UnsafeCell::new(MaybeUninit::uninit()),
        };
        let entries: Vec<_> = (0..cells).map(|_| entry()).collect();
        let maps: Vec<_> = (0..priorities).map(|_| Map::new(cells, marks)).collect();
        let tags: Vec<_> = (0..cells).map(|_| AtomicU64::new(0)).collect();
        let cold: Vec<_> = (0..cells).map(|_| Cold::new()).collect();
        Box::new(Self {
            index: prev.map_or(0, |prev| prev.index + 1),
            mask: cells - 1,
            window: if grows { WINDOW.min(cells) } else { cells },
            tags: tags.into(),
            entries: entries.into(),
            cold: cold.into(),
            marks: maps.into(),
            used: AtomicUsize::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            prev: prev.map_or(ptr::null(), ptr::from_ref),
        })
    }

    pub(crate) fn cells(&self) -> usize {
        self.mask + 1
    }

    /// Returns the next table.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Self> {
        // Acquire: pairs with the AcqRel in grow; the table is initialised. [CT7]
        let next = self.next.load(Acquire);
        // SAFETY: a table that is linked lives until the conflator is dropped, which outlives this
        // borrow.
        unsafe { next.as_ref() }
    }

    /// Returns the previous table.
    pub(crate) fn prev(&self) -> Option<&Self> {
        // SAFETY: as in next; it was linked before this one.
        unsafe { self.prev.as_ref() }
    }

    /// Returns the next table, and makes it if there is none. It gets four cells for each key of
    /// this table, so it is twice as large if the hash spreads well, and small if keys are
    /// clustered.
    ///
    /// Lock-free: a thread that loses the compare-exchange uses the winner's table.
    pub(crate) fn grow(&self, marks: Marks) -> &Self {
        if let Some(next) = self.next() {
            return next;
        }
        // Relaxed: an estimate. [CT8]
        let used = self.used.load(Relaxed);
        let new = Self::new(used * 4, true, marks, self.marks.len(), Some(self));
        let new = Box::into_raw(new);
        // AcqRel: pairs with the Acquire in next; publishes the table. [CT9]
        let linked = self
            .next
            .compare_exchange(ptr::null_mut(), new, AcqRel, Acquire);
        if linked.is_err() {
            // SAFETY: the table came from a box and was not linked, so only this thread has it.
            drop(unsafe { Box::from_raw(new) });
        }
        self.next().expect("a table was linked")
    }

    /// Unlinks the next table, to drop it.
    pub(crate) fn unlink(&mut self) -> Option<Box<Self>> {
        // Relaxed: the caller owns all tables. [CT10]
        let next = self.next.swap(ptr::null_mut(), Relaxed);
        // SAFETY: it came from a box, and by `&mut self` no other thread has it.
        (!next.is_null()).then(|| unsafe { Box::from_raw(next) })
    }

    /// Returns the cells of a hash in search order, up to the first that was never used.
    #[inline]
    pub(crate) fn window(&self, tag: u64) -> impl Iterator<Item = (usize, u64)> {
        let start = (tag >> 32) as usize;
        (0..self.window).map_while(move |step| {
            let at = (start + step) & self.mask;
            // Relaxed: the state of the cell decides, and the insertion fences before it checks for
            // a second cell of its key. [CT11]
            let here = self.tags[at].load(Relaxed);
            let is_used = here != 0 || self.entries[at].life.state() != State::Empty;
            is_used.then_some((at, here))
        })
    }

    /// Claims the first cell of the hash's window that has no key or a removed one.
    pub(crate) fn claim(&self, tag: u64) -> Option<usize> {
        let start = (tag >> 32) as usize;
        for step in 0..self.window {
            let at = (start + step) & self.mask;
            match self.entries[at].claim::<V>() {
                None => continue,
                Some(State::Empty) => {
                    // Relaxed: an estimate for the size of the next table. [CT12]
                    self.used.fetch_add(1, Relaxed);
                }
                Some(State::Removed | State::Killed) => self.clear(at),
                Some(_) => {}
            }
            return Some(at);
        }
        None
    }

    /// Frees the cell of a removed key, if it is unused and has no value.
    pub(crate) fn free(&self, at: usize) {
        let entry = &self.entries[at];
        match entry.claim::<V>() {
            Some(State::Removed | State::Killed) => {
                self.clear(at);
                entry.life.publish(State::Free, 0);
            }
            Some(was) => entry.life.publish(was, 0),
            None => {}
        }
    }

    /// Drops the key of a claimed cell, and its handler. If that panics, the claim ends and the
    /// cell is free.
    fn clear(&self, at: usize) {
        let entry = &self.entries[at];
        debug_assert!(!entry.value.is_full(), "a claimed cell has no value");
        let key = entry.key.with_mut(|key| {
            // SAFETY: the claim found a key, and no other thread has a pin or runs the cell.
            unsafe { key.cast::<K>().read() }
        });
        struct Free<'a>(Option<&'a Life>);
        impl Drop for Free<'_> {
            fn drop(&mut self) {
                if let Some(life) = self.0 {
                    life.publish(State::Free, 0);
                }
            }
        }
        let handler = core::mem::replace(
            &mut *self.cold[at].handler.lock(),
            HandlerSlot {
                handler: None,
                version: 0,
            },
        );
        let mut free = Free(Some(&entry.life));
        let parts: [Option<Part<K, V, M::Cell>>; 2] =
            [Some(Part::Key(key)), handler.handler.map(Part::Handler)];
        let mut parts = parts.into_iter().flatten();
        drop_each(|| parts.next());
        free.0 = None;
    }

    /// Puts a key into a claimed cell, which becomes tentative, with a pin for the caller.
    pub(crate) fn fill(&self, at: usize, tag: u64, key: K, pace: (u64, u64), now: u64) {
        let (entry, cold) = (&self.entries[at], &self.cold[at]);
        entry.value.open();
        entry.key.with_mut(|place| {
            // SAFETY: the claim gives this thread the cell, which has no key.
            unsafe { (*place).write(key) };
        });
        let words = [
            (&cold.every, pace.0),
            (&cold.burst, pace.1),
            (&cold.due, 0),
            (&cold.last, now),
            (&cold.puts, 0),
            (&cold.handled, 0),
            (&cold.oldest, 0),
            (&cold.newest, 0),
            (&cold.wait_max, 0),
        ];
        for (word, value) in words {
            // Relaxed: published with the key below. [CT13]
            word.store(value, Relaxed);
        }
        // Relaxed: as CT13. [CT14]
        cold.has_handler.store(0, Relaxed);
        // Relaxed: as CT13. [CT15]
        entry.priority.store(0, Relaxed);
        // Relaxed: as CT13; a search pins the cell before it compares the key. [CT16]
        self.tags[at].store(tag, Relaxed);
        entry.life.publish(State::Tentative, 1);
    }
}

impl<K, V, M: Mode<V>> Drop for Table<K, V, M> {
    fn drop(&mut self) {
        let cells = self.entries.iter_mut().zip(&mut self.cold);
        let mut parts = cells.flat_map(|(entry, cold)| {
            let state = entry.life.state();
            let is_vacant = matches!(state, State::Empty | State::Free | State::Claimed);
            let key = (!is_vacant).then(|| {
                entry.key.with_mut(|key| {
                    // SAFETY: the state says that there is a key, and by `&mut self` no other
                    // thread has the table. It is read once, since the table is dropped.
                    Part::Key(unsafe { key.cast::<K>().read() })
                })
            });
            let handler = cold.handler.get_mut().handler.take();
            let handler = handler.map(Part::Handler);
            let value = core::mem::replace(&mut entry.value, M::Cell::new());
            [key, handler, Some(Part::Value(value))]
                .into_iter()
                .flatten()
        });
        drop_each(|| parts.next());
    }
}

/// A part of a cell that the program's destructors drop. Each is dropped on its own, because a
/// second panic in the drop of a pair would abort the process.
#[expect(dead_code, reason = "they are dropped")]
enum Part<K, V, C> {
    Key(K),
    Handler(KeyHandler<K, V>),
    Value(C),
}
