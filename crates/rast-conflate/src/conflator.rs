//! The conflator: makes producers, handles and consumers, and inspects all keys.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::hash::RandomState;

use crate::cell::Cell;
use crate::config::{Config, Pace};
use crate::consumer::Consumer;
use crate::error::{HandleError, TooManyConsumers};
use crate::figures::{Figures, KeyFigures};
use crate::handle::KeyHandle;
use crate::life::State;
use crate::mode::{Mode, Newest};
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::Ordering::Relaxed;
use crate::producer::Producer;
use crate::shared::{Place, Shared};
use crate::table::Table;
use crate::timers::Nanos;

/// Keeps the newest value per key, and passes it to a consumer. At any time, at most one consumer
/// handles a key.
///
/// Clones refer to the same conflator. It lives until all its clones, producers, handles and
/// consumers are dropped.
///
/// ```
/// use rast_conflate::Conflator;
///
/// let quotes = Conflator::new();
/// let mut producer = quotes.producer();
/// let eurusd = quotes.handle(&"EURUSD").unwrap();
/// producer.put(&eurusd, 1.0841).unwrap();
/// producer.put(&eurusd, 1.0843).unwrap(); // Replaces the other one.
/// producer.put_key(&"USDJPY", 155.2).unwrap();
///
/// let mut seen = Vec::new();
/// let mut consumer = quotes.consumer().unwrap();
/// consumer.pass(|key, price| seen.push((*key, price)));
/// seen.sort_by_key(|quote| quote.0);
/// assert_eq!(seen, [("EURUSD", 1.0843), ("USDJPY", 155.2)]);
/// ```
pub struct Conflator<K, V, M: Mode<V> = Newest, S = RandomState> {
    shared: Arc<Shared<K, V, M, S>>,
}

impl<K: Hash + Eq + Send + Sync + 'static, V: Send + 'static> Conflator<K, V>
where
    Newest: Mode<V>,
{
    /// Makes a conflator with the default settings of [`Builder`](crate::Builder).
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }
}

impl<K: Hash + Eq + Send + Sync + 'static, V: Send + 'static> Default for Conflator<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V, M, S> Conflator<K, V, M, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + 'static,
    M: Mode<V>,
    S: BuildHasher,
{
    pub(crate) fn with(config: Config, hasher: S) -> Self {
        Self {
            shared: Arc::new(Shared::new(config, hasher)),
        }
    }

    /// Makes a producer, for one thread at a time. Allocates its spare node, if the mode has nodes.
    #[must_use]
    pub fn producer(&self) -> Producer<K, V, M, S> {
        Producer::new(Arc::clone(&self.shared))
    }

    /// Makes a consumer, for one thread at a time. Allocates.
    ///
    /// # Errors
    ///
    /// If the maximum number, [`Builder::consumers`](crate::Builder::consumers), exists already.
    pub fn consumer(&self) -> Result<Consumer<K, V, M, S>, TooManyConsumers> {
        let limit = self.shared.config.consumers;
        let one_more = |count| (count < limit).then_some(count + 1);
        // Relaxed: a counter that publishes nothing. [CC1]
        let counted = self
            .shared
            .consumers
            .fetch_update(Relaxed, Relaxed, one_more);
        match counted {
            Ok(_) => Ok(Consumer::new(Arc::clone(&self.shared))),
            Err(_) => Err(TooManyConsumers),
        }
    }

    /// Returns a handle of the key, with which a put hashes nothing. Inserts the key if it is not
    /// there.
    ///
    /// Lock-free if the key is inserted. A key that has a handle but never had a value also counts
    /// as a key.
    ///
    /// # Errors
    ///
    /// If the conflator has its maximum number of keys, or, in mode
    /// [`Sequenced`](crate::Sequenced), if the key's handle exists already.
    pub fn handle(&self, key: &K) -> Result<KeyHandle<K, V, M, S>, HandleError>
    where
        K: Clone,
    {
        let found = self.shared.find_or_insert(key);
        let pinned = found.map_err(|_| HandleError::Full)?;
        let life = &pinned.0.entry().life;
        if M::ONE_PRODUCER && !life.own() {
            return Err(HandleError::Owned);
        }
        if pinned.state() == State::Removed && self.shared.revive(pinned.0).is_err() {
            if M::ONE_PRODUCER {
                life.disown();
            }
            return Err(HandleError::Full);
        }
        Ok(KeyHandle::new(Arc::clone(&self.shared), pinned))
    }

    /// Returns `true` if the key is live. Lock-free.
    pub fn contains(&self, key: &K) -> bool {
        let found = self.shared.find(key);
        found.is_some_and(|pinned| pinned.state() == State::Live)
    }

    /// Returns the statistics of a key, `None` if it is not live.
    pub fn key_figures(&self, key: &K) -> Option<KeyFigures> {
        let found = self.shared.find(key)?;
        (found.state() == State::Live).then(|| self.figures_at(found.0))
    }

    /// Gives a key its own pace, as [`KeyHandle::set_pace`]; returns `false` if the key is not
    /// live.
    pub fn set_pace(&self, key: &K, pace: Pace) -> bool {
        let found = self.shared.find(key);
        let live = found.filter(|pinned| pinned.state() == State::Live);
        live.map(|pinned| self.shared.set_pace(pinned.0, pace))
            .is_some()
    }
}

impl<K, V, M: Mode<V>, S> Conflator<K, V, M, S> {
    /// Returns a snapshot of the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Returns `true` if there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many keys have a pending value. Checks every cell.
    #[must_use]
    pub fn pending(&self) -> usize {
        let places = self.shared.places();
        places.filter(|place| place.entry().value.is_full()).count()
    }

    /// Returns the number of cells of all tables.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.shared.tables().map(Table::cells).sum()
    }

    /// Calls `each` for every key that is live during the whole call, with its statistics. Checks
    /// every cell; blocks no other thread.
    pub fn for_each(&self, mut each: impl FnMut(&K, KeyFigures)) {
        for place in self.shared.places() {
            if let Some(pinned) = place.pin_live() {
                each(pinned.key(), self.figures_at(place));
            }
        }
    }

    /// Returns the totals so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.shared.ledger.read()
    }

    /// Returns the age of the newest value of the key that waits longest; `None` if none is
    /// pending.
    ///
    /// Checks every cell. Needs [`Builder::key_figures`](crate::Builder::key_figures).
    #[must_use]
    pub fn age(&self) -> Option<Nanos> {
        let mut oldest = None;
        self.for_each(|_, figures| oldest = oldest.max(figures.age));
        oldest
    }

    /// Returns `true` if the conflator is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Rejects puts from now on, and wakes all consumers. Accepted values can still be handled, and
    /// no pace delays them any more. Returns `true` if the conflator was open.
    ///
    /// A concurrent put is either accepted, or fails and returns the key's newest pending value.
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Closes the conflator, and passes every pending value to `each`, without a handler; returns
    /// their number.
    ///
    /// Concurrent puts and handlers continue; call `drain` again after them to get the rest of a
    /// merging put. If `each` panics, the values it was not given yet stay pending.
    pub fn drain(&self, mut each: impl FnMut(&K, V)) -> usize {
        struct Returned<'a, K, V, M: Mode<V>, S>(&'a Shared<K, V, M, S>, Figures);
        impl<K, V, M: Mode<V>, S> Drop for Returned<'_, K, V, M, S> {
            fn drop(&mut self) {
                self.0.ledger.add_past(self.1);
            }
        }
        self.close();
        let mut spare = M::Cell::spare();
        let mut sum = Returned(&*self.shared, Figures::default());
        for place in self.shared.places() {
            if place.entry().value.is_full()
                && let Some(pinned) = place.pin_any()
                && let Some(taken) = place.entry().value.take(&mut spare)
            {
                sum.1.returned += 1;
                sum.1.conflated += taken.conflated;
                each(pinned.key(), taken.value);
            }
        }
        sum.1.returned as usize
    }

    /// Removes every key that was not handled for the span of
    /// [`Builder::expire_after`](crate::Builder::expire_after) and has no pending value; returns
    /// their number.
    ///
    /// Checks every cell; call it now and then. A concurrently put value is not lost. Its key comes
    /// back, or, with [`Removed::Refuse`](crate::Removed::Refuse), the value is handled and the key
    /// stays removed. Without the setting no key expires.
    pub fn expire(&self) -> usize {
        let Some(idle) = self.shared.config.idle else {
            return 0;
        };
        let now = self.shared.now();
        let mut removed = 0;
        for place in self.shared.places() {
            let Place { table, at } = place;
            let Some(pinned) = place.pin_live() else {
                continue;
            };
            // Relaxed: a time stamp. [CC2]
            let last = table.cold[at].last.load(Relaxed);
            let is_idle = now.as_nanos().saturating_sub(last) >= idle.as_nanos();
            if is_idle && !place.entry().value.is_full() && self.shared.remove(place) {
                removed += 1;
                drop(pinned);
                table.free(at);
            }
        }
        removed
    }

    fn figures_at(&self, place: Place<'_, K, V, M>) -> KeyFigures {
        let cold = &place.table.cold[place.at];
        let [submitted, handled, newest, wait_max] = [&cold.puts, &cold.handled, &cold.newest, &cold.wait_max]
                // Relaxed: a snapshot. [CC3]
                .map(|word| word.load(Relaxed));
        let is_pending = place.entry().value.is_full();
        let now = || self.shared.now().as_nanos();
        KeyFigures {
            submitted,
            handled,
            is_pending,
            age: (is_pending && newest != 0)
                .then(|| Nanos::from_nanos(now().saturating_sub(newest))),
            wait_max: Nanos::from_nanos(wait_max),
        }
    }
}

impl<K, V, M: Mode<V>, S> Clone for Conflator<K, V, M, S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K, V, M: Mode<V>, S> fmt::Debug for Conflator<K, V, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conflator")
            .field("keys", &self.len())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
