//! The builder of a conflator.

use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use std::boxed::Box;
use std::hash::RandomState;

use crate::config::{Config, Growth, Pace, Removed};
use crate::conflator::Conflator;
use crate::marks::Marks;
use crate::mode::{Mode, Newest};
use crate::timers::{Clock, MonotonicClock, Nanos};

/// Makes a [`Conflator`]. [`Conflator::builder`] returns a builder.
///
/// ```
/// use rast_conflate::{Conflator, Growth, InPlace, Marks};
///
/// let levels = Conflator::<u32, f64>::builder()
///     .mode::<InPlace>()
///     .keys(700)
///     .growth(Growth::Refuse)
///     .marks(Marks::Flat)
///     .build();
/// assert!(levels.is_empty());
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K, V, M = Newest, S = RandomState> {
    config: Config,
    hasher: S,
    types: PhantomData<fn(K, V, M)>,
}

impl<K, V> Conflator<K, V>
where
    Newest: Mode<V>,
{
    /// Returns a builder for a conflator with other settings.
    pub fn builder() -> Builder<K, V> {
        Builder {
            config: Config {
                keys: 1024,
                growth: Growth::Grow,
                removed: Removed::Insert,
                marks: Marks::Tree,
                priorities: 1,
                pace: Pace::NONE,
                consumers: usize::MAX,
                batch: 8,
                key_figures: false,
                idle: None,
                clock: Box::new(MonotonicClock::new()),
            },
            hasher: RandomState::new(),
            types: PhantomData,
        }
    }
}

impl<K, V, M, S> Builder<K, V, M, S> {
    /// Sets how two values of a key are combined: a [`Mode`].
    pub fn mode<N: Mode<V>>(self) -> Builder<K, V, N, S> {
        Builder {
            config: self.config,
            hasher: self.hasher,
            types: PhantomData,
        }
    }

    /// Sets the hasher of the keys.
    pub fn hasher<H: BuildHasher>(self, hasher: H) -> Builder<K, V, M, H> {
        Builder {
            config: self.config,
            hasher,
            types: PhantomData,
        }
    }

    /// Sets the initial number of keys; the table has twice as many cells, rounded up to a power of
    /// two. The default is 1,024.
    ///
    /// With [`Growth::Refuse`] it is the maximum number of keys; 0 counts as 1. A removed key
    /// occupies a cell while it has a handle: a conflator whose cells are all occupied rejects new
    /// keys, however few are live.
    pub fn keys(mut self, keys: usize) -> Self {
        self.config.keys = keys.max(1);
        self
    }

    /// Sets what happens if a key is new and the table is full.
    pub fn growth(mut self, growth: Growth) -> Self {
        self.config.growth = growth;
        self
    }

    /// Sets what a put by the handle of a removed key does.
    pub fn removed(mut self, removed: Removed) -> Self {
        self.config.removed = removed;
        self
    }

    /// Sets the form of the marks.
    pub fn marks(mut self, marks: Marks) -> Self {
        self.config.marks = marks;
        self
    }

    /// Sets the number of priorities, 1 to 8; a key has the lowest one until another is set.
    ///
    /// # Panics
    ///
    /// If it is 0 or above 8.
    pub fn priorities(mut self, priorities: usize) -> Self {
        assert!(
            (1..=8).contains(&priorities),
            "a conflator has 1 to 8 priorities, not {priorities}"
        );
        self.config.priorities = priorities;
        self
    }

    /// Sets the pace of keys without a pace of their own.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.config.pace = pace;
        self
    }

    /// Sets the maximum number of consumers at a time; unlimited by default.
    pub fn consumers(mut self, consumers: usize) -> Self {
        self.config.consumers = consumers;
        self
    }

    /// Sets how many keys a consumer claims at once, 1 to 64, while there are other consumers; 8 by
    /// default.
    ///
    /// A slow handler delays the keys that its consumer has claimed: use 1 for handlers that take
    /// milliseconds.
    pub fn batch(mut self, batch: usize) -> Self {
        self.config.batch = batch.clamp(1, 64) as u32;
        self
    }

    /// Keeps statistics per key, which costs a put three atomic operations and a reading of the
    /// clock, some 30 ns.
    pub fn key_figures(mut self) -> Self {
        self.config.key_figures = true;
        self
    }

    /// Lets [`Conflator::expire`] remove keys that were not handled for `idle`; a pass then reads
    /// the clock.
    pub fn expire_after(mut self, idle: Nanos) -> Self {
        self.config.idle = Some(idle);
        self
    }

    /// Sets the clock of paces, statistics and expiry.
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.config.clock = Box::new(clock);
        self
    }

    /// Makes the conflator; allocates its table.
    pub fn build(self) -> Conflator<K, V, M, S>
    where
        K: Hash + Eq + Send + Sync + 'static,
        V: Send + 'static,
        M: Mode<V>,
        S: BuildHasher,
    {
        Conflator::with(self.config, self.hasher)
    }
}
