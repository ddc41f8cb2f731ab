//! The producer's side: publish the value, mark its cell, check whether a consumer sleeps.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::hash::RandomState;
use std::panic::resume_unwind;

use crate::cell::{Cell, Put};
use crate::config::Removed;
use crate::error::PutError;
use crate::figures::{Block, Count, Counts};
use crate::handle::KeyHandle;
use crate::life::State;
use crate::mode::{ManyProducers, Mode, Newest};
use crate::primitive::fence_after_exchange;
use crate::primitive::panics::{contain, discard};
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

/// Result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal<V> {
    /// `true` if the key was in the conflator.
    pub was_present: bool,
    /// The pending value.
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

    /// Makes `value` the newest one of the handle's key, and marks the key for handling.
    ///
    /// If the key was not removed, the put allocates nothing and is wait-free. In mode `Merged`,
    /// and on x86-64 in modes `Least` and `Greatest`, it is only lock-free. It makes a system call
    /// only if a consumer sleeps. The last step of the call is to drop the replaced value.
    ///
    /// # Errors
    ///
    /// If the conflator is closed. A put under a removed key also fails if the conflator is full,
    /// or if it rejects handles of removed keys (`Removed::Refuse`). The error contains the value.
    /// If the conflator closes during the put, the error contains the key's pending value, which
    /// may be a newer one of another producer.
    ///
    /// # Panics
    ///
    /// If the handle belongs to another conflator. A panic of a merge function, or of the drop of
    /// the replaced value, propagates; the conflator stays consistent. If the conflator closed
    /// during a put that panics, the value that the error would contain is dropped.
    // Always inline. Without inlining, the caller stores a value of several words one word at a
    // time, and this function copies it by wider loads. These wait until the narrower stores have
    // left the store buffer.
    #[inline(always)]
    pub fn put(&mut self, handle: &KeyHandle<K, V, M, S>, value: V) -> Result<(), PutError<V>> {
        assert!(
            Arc::ptr_eq(&self.shared, &handle.shared),
            "the handle is of another conflator"
        );
        let (shared, side) = self.split();
        side.put(shared, handle.target(), value, By::Handle)
    }

    /// Splits into the shared part and the state of this producer.
    #[inline(always)]
    fn split(&mut self) -> (&Shared<K, V, M, S>, Side<'_, V, M>) {
        let side = Side {
            spare: &mut self.spare,
            counts: &self.counts,
        };
        (&self.shared, side)
    }
}

/// State that a producer uses in a put.
struct Side<'a, V, M: Mode<V>> {
    spare: &'a mut <M::Cell as Cell<V>>::Spare,
    counts: &'a Counts,
}

/// How a put names its key.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Key,
    Handle,
}

impl<V, M: Mode<V>> Side<'_, V, M> {
    /// Puts a value into a cell; the caller must have a pin on it.
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
        if put.panic.is_some() || result.is_err() {
            return end_slow(put, result);
        }
        // The caller's thread drops the replaced value here.
        drop(put.replaced);
        Ok(())
    }

    /// Handles a put that found the conflator closed, or a waiting consumer.
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
        // Perhaps no consumer checks the cell any more: take the pending value, which is this put's
        // or a newer one.
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

/// Ends a put that met a close, or whose merge panicked. The first panic continues; then the values
/// are dropped, whose destructors may panic too.
#[cold]
fn end_slow<V>(put: Put<V>, result: Result<(), PutError<V>>) -> Result<(), PutError<V>> {
    let dropped = contain(|| drop(put.replaced)).err();
    let first = match put.panic {
        Some(first) => {
            discard(dropped);
            first
        }
        None => match dropped {
            Some(first) => first,
            None => return result,
        },
    };
    discard(result);
    resume_unwind(first)
}

impl<K, V, M, S> Producer<K, V, M, S>
where
    K: Hash + Eq,
    M: Mode<V>,
    S: BuildHasher,
{
    /// As [`put`](Self::put), but by key. The call hashes the key, searches for it, and inserts it
    /// if it is not there.
    ///
    /// Costs two atomic additions more than a put by handle. Lock-free if the key is inserted; the
    /// insertion may allocate a table.
    ///
    /// # Errors
    ///
    /// If the conflator is closed, or full. The error contains the value, as in `put`.
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

    /// Removes the key, and returns its pending value.
    ///
    /// A concurrent put of the key may count as before or after the removal; in the second case its
    /// value is still handled. [`Builder::removed`](crate::Builder::removed) sets how handles of
    /// the key behave from now on. The key is dropped here, or with its last handle, or when its
    /// cell is reused. Lock-free.
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
        if let Err(panic) = contain(|| place.table.free(place.at)) {
            // Its destructor may panic too.
            discard(removal);
            resume_unwind(panic);
        }
        removal
    }
}

impl<K, V, M: Mode<V>, S> Shared<K, V, M, S> {
    /// Handles a put that is more than a swap and its marks: the conflator is closed, the key was
    /// removed, or statistics are kept.
    #[cold]
    fn admit_slow(&self, place: Place<'_, K, V, M>, by: By) -> Result<(), PutError<()>> {
        if self.status() & CLOSED != 0 {
            return Err(PutError::Closed(()));
        }
        if place.entry().life.state() != State::Live {
            // A put by key brings a removed key back, whatever the setting for handles.
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

    /// Counts a put of a key, and records its time.
    #[cold]
    fn stamp(&self, place: Place<'_, K, V, M>) {
        let cold = &place.table.cold[place.at];
        let now = self.now().as_nanos().max(1);
        // Relaxed: statistics, here and below. [CP1]
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
