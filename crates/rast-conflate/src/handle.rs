//! The handle of one key: its pinned place in the table, so that a put hashes nothing.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use std::hash::RandomState;
use std::panic::resume_unwind;

use crate::config::Pace;
use crate::life::State;
use crate::marks::Path;
use crate::mode::{ManyProducers, Mode, Newest};
use crate::primitive::panics::{contain, discard};
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::shared::{Pinned, Place, Shared, Target};
use crate::table::{Entry, KeyHandler, Table};

/// The place of a key in a conflator; made by [`Conflator::handle`](crate::Conflator::handle).
///
/// It can be sent to another thread, and belongs to one thread at a time. In modes in which a key
/// may have several producers it can be cloned, which costs one or two atomic additions. While a
/// key has a handle, its cell is not reused for another key, whether the key is removed or not.
pub struct KeyHandle<K, V, M: Mode<V> = Newest, S = RandomState> {
    /// Dropped last, also if the drop of the key panics; it may be the last owner of the conflator.
    pub(crate) shared: ManuallyDrop<Arc<Shared<K, V, M, S>>>,
    table: NonNull<Table<K, V, M>>,
    at: usize,
    /// The cell and its marks, as direct pointers: following the table's pointers instead would be
    /// a chain of dependent loads.
    entry: NonNull<Entry<K, M::Cell>>,
    words: NonNull<[AtomicU64]>,
    levels: u32,
    bit: u32,
    /// Not `Sync`: two threads with one handle would be two producers.
    _one_thread: PhantomData<Cell<()>>,
}

// SAFETY: it is a reference to the shared tables and a pin; any thread may release either.
unsafe impl<K: Send + Sync, V: Send, M: Mode<V>, S: Send + Sync> Send for KeyHandle<K, V, M, S> {}

impl<K, V, M: Mode<V>, S> KeyHandle<K, V, M, S> {
    /// Makes a handle of the pin.
    pub(crate) fn new(shared: Arc<Shared<K, V, M, S>>, pinned: Pinned<'_, K, V, M>) -> Self {
        let place = pinned.keep();
        let Target { entry, path, .. } = place.target();
        let (table, at) = (NonNull::from(place.table), place.at);
        let (entry, words) = (NonNull::from(entry), NonNull::from(path.words));
        Self {
            shared: ManuallyDrop::new(shared),
            table,
            at,
            entry,
            words,
            levels: path.levels,
            bit: path.bit,
            _one_thread: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn place(&self) -> Place<'_, K, V, M> {
        // SAFETY: 1: the handle was made with a table of its conflator.
        let table = unsafe { self.shared.table(self.table) };
        Place { table, at: self.at }
    }

    /// Returns the parts that a put needs.
    #[inline(always)]
    pub(crate) fn target(&self) -> Target<'_, K, V, M> {
        // SAFETY: the cell belongs to the table, which lives as long as the conflator that this
        // handle keeps alive.
        let entry = unsafe { self.entry.as_ref() };
        // SAFETY: the words belong to the table or to a constant, so they live as long.
        let words = unsafe { self.words.as_ref() };
        Target {
            place: self.place(),
            entry,
            path: Path {
                words,
                levels: self.levels,
                bit: self.bit,
            },
        }
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &K {
        // SAFETY: 1: the handle has a pin on the cell, which had the key when it was pinned.
        unsafe { self.place().entry().key() }
    }

    /// Returns `true` if the key is live, that is, not removed.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.place().entry().life.state() == State::Live
    }

    /// Gives the key its own pace. A longer pace delays only the handlings after the next one. A
    /// value that the old pace delays waits for at most one [`every`](Pace::every) of the new pace.
    pub fn set_pace(&self, pace: Pace) {
        self.shared.set_pace(self.place(), pace);
    }

    /// Returns the key's pace.
    #[must_use]
    pub fn pace(&self) -> Pace {
        let cold = &self.place().table.cold[self.at];
        // Relaxed: settings. [CH1]
        let [every, burst] = [&cold.every, &cold.burst].map(|word| word.load(Relaxed));
        Pace::from_words(every, burst)
    }

    /// Gives the key a priority, of which 0 is the least urgent. A pending value is handled by the
    /// old priority or the new one.
    ///
    /// # Panics
    ///
    /// If the conflator does not have this priority.
    pub fn set_priority(&self, priority: usize) {
        let priorities = self.shared.config.priorities;
        assert!(
            priority < priorities,
            "priority {priority} of a conflator that has {priorities}"
        );
        let word = &self.place().entry().priority;
        // Relaxed: any priority that the key had is correct. [CH2]
        word.store(priority, Relaxed);
    }

    /// Returns the key's priority.
    #[must_use]
    pub fn priority(&self) -> usize {
        // Relaxed: a setting. [CH3]
        self.place().entry().priority.load(Relaxed)
    }

    /// Gives the key its own handler, which [`Consumer::pass`](crate::Consumer::pass) calls instead
    /// of its argument; `None` removes it.
    ///
    /// One consumer at a time calls it. If a handler is replaced while it runs, it finishes, and is
    /// dropped then. Handler, pace and priority belong to the key's cell. A key that is removed and
    /// comes back while it has a handle keeps them; it loses them if the cell was freed
    /// ([`Producer::remove`](crate::Producer::remove)). Takes a lock for a short time.
    pub fn set_handler(&self, handler: Option<KeyHandler<K, V>>) {
        let cold = &self.place().table.cold[self.at];
        let has = usize::from(handler.is_some());
        let old = {
            let mut slot = cold.handler.lock();
            slot.version += 1;
            // Relaxed: handlings that see it set take the lock. [CH4]
            cold.has_handler.store(has, Relaxed);
            core::mem::replace(&mut slot.handler, handler)
        };
        drop(old);
    }

    /// Returns whether the key has a handler of its own.
    #[must_use]
    pub fn has_handler(&self) -> bool {
        // Relaxed: as CH4. [CH5]
        self.place().table.cold[self.at].has_handler.load(Relaxed) != 0
    }
}

impl<K, V, M: ManyProducers<V>, S> Clone for KeyHandle<K, V, M, S> {
    fn clone(&self) -> Self {
        let pinned = self.place().pin_any();
        let pinned = pinned.expect("a cell with a handle has a key");
        Self::new(Arc::clone(&self.shared), pinned)
    }
}

impl<K, V, M: Mode<V>, S> Drop for KeyHandle<K, V, M, S> {
    fn drop(&mut self) {
        let place = self.place();
        let life = &place.entry().life;
        if M::ONE_PRODUCER {
            life.disown();
        }
        let is_removed = life.state() == State::Removed;
        life.unpin();
        // The last handle frees the cell for another key.
        let freed = match is_removed {
            true => contain(|| place.table.free(self.at)),
            false => Ok(()),
        };
        // SAFETY: the field is not used again.
        let shared = unsafe { ManuallyDrop::take(&mut self.shared) };
        if let Err(panic) = freed {
            discard(shared);
            resume_unwind(panic);
        }
    }
}

impl<K: fmt::Debug, V, M: Mode<V>, S> fmt::Debug for KeyHandle<K, V, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyHandle").field(self.key()).finish()
    }
}
