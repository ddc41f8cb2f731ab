//! The producer's side: publish the value, mark its cell, look whether a consumer waits.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::hash::RandomState;
use std::panic::resume_unwind;

use crate::cell::Cell;
use crate::config::Removed;
use crate::error::PutError;
use crate::figures::{Block, Count, Counts};
use crate::handle::KeyHandle;
use crate::life::State;
use crate::mode::{ManyProducers, Mode, Newest};
use crate::primitive::fence_after_exchange;
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::Ordering::Relaxed;
use crate::shared::{CLOSED, Place, STAMPED, Shared, Target};

/// Puts values; made by [`Conflator::producer`](crate::Conflator::producer), for one thread at a
/// time.
pub struct Producer<K, V, M: Mode<V> = Newest, S = RandomState> {
    shared: Arc<Shared<K, V, M, S>>,
    spare: <M::Cell as Cell<V>>::Spare,
    counts: Block,
}

/// What a removal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal<V> {
    /// Whether the key was there.
    pub was_present: bool,
    /// The value that waited.
    pub value: Option<V>,
}

impl<K, V, M: Mode<V>, S> Producer<K, V, M, S> {
    pub(crate) fn new(shared: Arc<Shared<K, V, M, S>>) -> Self {
        let (counts, _) = shared.ledger.open();
        Self {
            shared,
            spare: M::Cell::spare(),
            counts,
        }
    }

    /// Makes `value` the newest one of the handle's key, which becomes due to be handled.
    ///
    /// Wait-free in all modes but `Merged`, and `Least` and `Greatest` on x86-64, which are
    /// lock-free; the key is live; allocates nothing; a system call only if a consumer sleeps. The
    /// value that is replaced is dropped by this call, after everything else is done.
    ///
    /// # Errors
    ///
    /// If the conflator is closed; if the key was removed, and such handles are refused, or the
    /// conflator is full. The value comes back.
    ///
    /// # Panics
    ///
    /// If the handle is another conflator's. A panic of a merge function, or of the drop of the
    /// value that is replaced, goes on from here; the conflator is whole.
    // Always inline: out of line, a value that the caller made of several words is copied by wider
    // loads, which wait until the narrower stores have left the store buffer.
    #[inline(always)]
    pub fn put(&mut self, handle: &KeyHandle<K, V, M, S>, value: V) -> Result<(), PutError<V>> {
        assert!(
            Arc::ptr_eq(&self.shared, &handle.shared),
            "the handle is of another conflator"
        );
        let (shared, side) = self.split();
        side.put(shared, handle.target(), value, By::Handle)
    }

    /// Splits into what is shared and what is this producer's own.
    #[inline(always)]
    fn split(&mut self) -> (&Shared<K, V, M, S>, Side<'_, V, M>) {
        let side = Side {
            spare: &mut self.spare,
            counts: &self.counts,
        };
        (&self.shared, side)
    }
}

/// What a producer brings to a put.
struct Side<'a, V, M: Mode<V>> {
    spare: &'a mut <M::Cell as Cell<V>>::Spare,
    counts: &'a Counts,
}

/// By what a put names its key.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Key,
    Handle,
}

impl<V, M: Mode<V>> Side<'_, V, M> {
    /// Puts under a place on which the caller has a pin.
    #[inline(always)]
    fn put<K, S>(
        self,
        shared: &Shared<K, V, M, S>,
        target: Target<'_, K, V, M>,
        value: V,
        by: By,
    ) -> Result<(), PutError<V>> {
        let Target { place, entry, path } = target;
        let is_plain = shared.status() & (CLOSED | STAMPED) == 0;
        if !(is_plain && entry.life.state() == State::Live)
            && let Err(refused) = shared.admit_slow(place, by)
        {
            return Err(refused.with(value));
        }
        let put = entry.value.put(self.spare, value);
        // Either the tests of the marks find them clear, or the consumer that cleared them finds
        // the value.
        fence_after_exchange();
        match path.levels {
            0 => shared.mark(place),
            _ => path.mark(),
        }
        self.counts.add_put(put.conflated);
        let mut result = Ok(());
        if shared.status() & !STAMPED != 0 {
            result = self.met_slow(shared, place);
        }
        if let Some(panic) = put.panic {
            resume_unwind(panic);
        }
        // The value that was replaced is dropped here, by the caller.
        drop(put.replaced);
        result
    }

    /// A put met a close, or a consumer that waits.
    #[cold]
    fn met_slow<K, S>(
        self,
        shared: &Shared<K, V, M, S>,
        place: Place<'_, K, V, M>,
    ) -> Result<(), PutError<V>> {
        shared.wake();
        if shared.status() & CLOSED == 0 {
            return Ok(());
        }
        // Perhaps no consumer looks any more: what waits is handed back, which is this value or a
        // newer one.
        match place.entry().value.take(self.spare) {
            Some(taken) => {
                self.counts.add(Count::Returned, 1);
                self.counts.add(Count::Conflated, taken.conflated);
                Err(PutError::Closed(taken.value))
            }
            None => Ok(()),
        }
    }
}

impl<K, V, M, S> Producer<K, V, M, S>
where
    K: Hash + Eq,
    M: Mode<V>,
    S: BuildHasher,
{
    /// As [`put`](Self::put), by the key, which is hashed and searched for, and inserted if it is
    /// not there.
    ///
    /// Two atomic additions more than by handle. Lock-free where the key is inserted; that may
    /// allocate a table.
    ///
    /// # Errors
    ///
    /// If the conflator is closed, or full. The value comes back.
    pub fn put_key(&mut self, key: &K, value: V) -> Result<(), PutError<V>>
    where
        K: Clone,
        M: ManyProducers<V>,
    {
        if self.shared.status() & CLOSED != 0 {
            return Err(PutError::Closed(value));
        }
        let (shared, side) = self.split();
        match shared.find_or_insert(key) {
            Ok(pinned) => side.put(shared, pinned.0.target(), value, By::Key),
            Err(_) => Err(PutError::Full(value)),
        }
    }

    /// Removes the key, and hands back the value that waits.
    ///
    /// A put of the key that runs at the same time may count as before or after it: then its value
    /// is still handled. What the handles of the key do from now on is set by
    /// [`Builder::removed`](crate::Builder::removed). The key is dropped here, or with its last
    /// handle, or when its cell gets another key. Lock-free.
    pub fn remove(&mut self, key: &K) -> Removal<V> {
        let (shared, side) = self.split();
        let mut removal = Removal {
            was_present: false,
            value: None,
        };
        let Some(pinned) = shared.find(key) else {
            return removal;
        };
        let place = pinned.0;
        if !shared.remove(place) {
            return removal;
        }
        removal.was_present = true;
        if let Some(taken) = place.entry().value.take(side.spare) {
            side.counts.add(Count::Returned, 1);
            side.counts.add(Count::Conflated, taken.conflated);
            removal.value = Some(taken.value);
        }
        drop(pinned);
        place.table.free(place.at);
        removal
    }
}

impl<K, V, M: Mode<V>, S> Shared<K, V, M, S> {
    /// Decides on a put that is more than an exchange and its marks: the conflator is closed, the
    /// key was removed, or its figures are kept.
    #[cold]
    fn admit_slow(&self, place: Place<'_, K, V, M>, by: By) -> Result<(), PutError<()>> {
        if self.status() & CLOSED != 0 {
            return Err(PutError::Closed(()));
        }
        if place.entry().life.state() != State::Live {
            // A put by key brings a removed key back, whatever handles do.
            if by == By::Handle && self.config.removed == Removed::Refuse {
                return Err(PutError::Removed(()));
            }
            self.revive(place).map_err(|_| PutError::Full(()))?;
        }
        if self.config.key_figures {
            self.stamp(place);
        }
        Ok(())
    }

    /// Counts a put of a key, and notes its time.
    #[cold]
    fn stamp(&self, place: Place<'_, K, V, M>) {
        let cold = &place.table.cold[place.at];
        let now = self.now().as_nanos().max(1);
        // Relaxed: figures, read as of the moment, here and below. [CP1]
        cold.puts.fetch_add(1, Relaxed);
        // Relaxed: as CP1. [CP2]
        let _ = cold.oldest.compare_exchange(0, now, Relaxed, Relaxed);
        // Relaxed: as CP1. [CP3]
        cold.newest.fetch_max(now, Relaxed);
    }
}

impl<K, V, M: Mode<V>, S> Drop for Producer<K, V, M, S> {
    fn drop(&mut self) {
        self.shared.ledger.close(&self.counts);
    }
}

impl<K, V, M: Mode<V>, S> fmt::Debug for Producer<K, V, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}
