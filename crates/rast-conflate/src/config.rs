//! Settings of a conflator.

use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use std::boxed::Box;
use std::hash::RandomState;

use crate::marks::Marks;
use crate::mode::Mode;
use crate::timers::{Clock, MonotonicClock, Nanos};
use crate::{Conflator, Newest};

/// What happens if a key is new and the table is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Another table is added; no cell moves, no thread waits.
    #[default]
    Grow,
    /// The put is rejected, with its value.
    Refuse,
}

/// What a put by the handle of a removed key does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removed {
    /// It inserts the key again.
    #[default]
    Insert,
    /// It is rejected, with its value, until a new handle or a put by key inserts the key again.
    Refuse,
}

/// Maximum rate at which a key is handled.
///
/// ```
/// use rast_conflate::{Pace, timers::Nanos};
///
/// let cooldown = Pace::cooldown(Nanos::from_millis(5));
/// let rate = Pace::rate(100, Nanos::from_secs(1)); // up to 100 at once after a quiet second
/// assert_eq!(rate.every(), Nanos::from_millis(10));
/// assert_eq!((cooldown.burst(), rate.burst()), (1, 100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    every: Nanos,
    burst: u64,
}

impl Pace {
    /// No limit.
    pub const NONE: Self = Self {
        every: Nanos::ZERO,
        burst: 1,
    };

    /// The next handling of a key begins no earlier than this span after the previous one began.
    #[must_use]
    pub const fn cooldown(every: Nanos) -> Self {
        Self { every, burst: 1 }
    }

    /// At most about `times` handlings of the key in each span `per`, and at most `times` at once.
    ///
    /// A token bucket: `times` handlings may come at once after a quiet span, and one more with
    /// each `per / times` that passes, rounded up to a nanosecond. Zero `times` counts as one.
    #[must_use]
    pub const fn rate(times: u32, per: Nanos) -> Self {
        let times = if times == 0 { 1 } else { times as u64 };
        Self {
            every: Nanos::from_nanos(per.as_nanos().div_ceil(times)),
            burst: times,
        }
    }

    /// Returns the span between two handlings at an even pace; zero means no limit.
    #[must_use]
    pub const fn every(self) -> Nanos {
        self.every
    }

    /// Returns how many handlings may come at once.
    #[must_use]
    pub const fn burst(self) -> u64 {
        self.burst
    }

    pub(crate) fn from_words(every: u64, burst: u64) -> Self {
        Self {
            every: Nanos::from_nanos(every),
            burst,
        }
    }
}

/// Settings that do not depend on type parameters.
pub(crate) struct Config {
    pub(crate) keys: usize,
    pub(crate) growth: Growth,
    pub(crate) removed: Removed,
    pub(crate) marks: Marks,
    pub(crate) priorities: usize,
    pub(crate) pace: Pace,
    pub(crate) consumers: usize,
    pub(crate) batch: u32,
    pub(crate) key_figures: bool,
    pub(crate) idle: Option<Nanos>,
    pub(crate) clock: Box<dyn Clock + Send + Sync>,
}

/// Makes a [`Conflator`]; from [`Conflator::builder`].
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

impl<K, V> Builder<K, V> {
    pub(crate) fn new() -> Self {
        Self {
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
