//! A clock that costs one load: the last reading that some thread published.
//!
//! Other coarse clocks publish from a hidden thread. Here the caller's own loop publishes once per
//! iteration, or a [`Ticker`] thread does, which the user starts and stops.

use super::Clock;
use crate::primitive::CachePadded;
use crate::primitive::sync::Arc;
use crate::{Instant, Nanos, Tick};
use core::fmt;

/// A clock that shows the last published reading of another clock, its source.
///
/// It is never ahead of its source, and at most τ + δ behind it. τ is the time between two
/// publications, and δ is how late the last one was. The clock advances only if you call
/// [`update`](Self::update) in a loop that runs continuously, or start a [`Ticker`].
/// [`staleness`](Self::staleness) reads the source and returns how far the clock is behind it.
///
/// Clones share one word. A reading is one relaxed load and wait-free. An update is wait-free on
/// machines with an atomic maximum, and lock-free elsewhere.
///
/// ```
/// use rast_timers::{Clock, CoarseClock, ManualClock, Nanos};
/// let source = ManualClock::new();
/// let clock = CoarseClock::new(source.clone());
/// source.advance(Nanos::from_millis(3));
/// assert_eq!(clock.staleness(), Nanos::from_millis(3));
/// clock.update();
/// assert_eq!(clock.now(), source.now());
/// ```
pub struct CoarseClock<C> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    /// On its own cache line: it is written often and read by all.
    tick: CachePadded<Tick>,
    source: C,
}

impl<C: Clock> CoarseClock<C> {
    /// Makes a clock that shows what `source` shows now.
    #[must_use]
    pub fn new(source: C) -> Self {
        let clock = Self {
            shared: Arc::new(Shared {
                tick: CachePadded::new(Tick::new()),
                source,
            }),
        };
        clock.update();
        clock
    }

    /// Reads the source, publishes the reading and returns it.
    #[inline]
    pub fn update(&self) -> Instant {
        let now = self.shared.source.now();
        self.shared.tick.publish(now);
        now
    }

    /// Returns how far the clock is behind its source; reads the source.
    #[must_use]
    pub fn staleness(&self) -> Nanos {
        // Load the word first, so that the result is never too small.
        let word = self.now();
        self.shared.source.now().saturating_since(word)
    }
}

impl<C> CoarseClock<C> {
    /// Returns the tick word, for the amortised timers.
    #[must_use]
    pub fn tick(&self) -> &Tick {
        &self.shared.tick
    }

    /// Returns the clock whose readings are published.
    #[must_use]
    pub fn source(&self) -> &C {
        &self.shared.source
    }
}

impl<C> Clone for CoarseClock<C> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<C> Clock for CoarseClock<C> {
    #[inline]
    fn now(&self) -> Instant {
        self.shared.tick.now()
    }
}

impl<C> fmt::Debug for CoarseClock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CoarseClock").field(&self.now()).finish()
    }
}

#[cfg(feature = "std")]
mod ticker {
    use super::CoarseClock;
    use crate::primitive::panics::{discard, quietly};
    use crate::primitive::sync::Arc;
    use crate::primitive::sync::atomic::{AtomicBool, Ordering};
    use crate::primitive::thread::{self, JoinHandle};
    use crate::primitive::{Parker, Unparker};
    use crate::{Clock, Nanos};
    use core::fmt;
    use std::io;
    use std::string::String;
    use std::time::Duration;

    /// A thread that updates a [`CoarseClock`] periodically, until the `Ticker` is dropped.
    ///
    /// Its period is the τ of [`CoarseClock`]. The δ is the wake-up latency of the system: some 50
    /// µs on an idle machine, whole time slices on a busy one. Dropping the ticker ends the thread
    /// and joins it. If the source clock drops the ticker during a reading on the ticker's own
    /// thread, the drop does not join the thread, which ends after this reading.
    ///
    /// ```
    /// use rast_timers::{Clock, CoarseClock, MonotonicClock, Nanos, Ticker};
    /// let clock = CoarseClock::new(MonotonicClock::new());
    /// let ticker = Ticker::start(clock.clone(), Nanos::from_millis(1))?;
    /// let before = clock.now();
    /// while clock.now() == before {
    ///     std::thread::yield_now();
    /// }
    /// drop(ticker);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "std")))]
    pub struct Ticker {
        stops: Arc<AtomicBool>,
        unparker: Unparker,
        thread: Option<JoinHandle<()>>,
    }

    impl Ticker {
        /// Starts a thread that updates `clock` and then waits for `period`, in a loop; a period of
        /// zero spins.
        ///
        /// # Errors
        ///
        /// If the system cannot start a thread.
        pub fn start<C>(clock: CoarseClock<C>, period: Nanos) -> io::Result<Self>
        where
            C: Clock + Send + Sync + 'static,
        {
            let stops = Arc::new(AtomicBool::new(false));
            let parker = Parker::new();
            let unparker = parker.unparker();
            let theirs = Arc::clone(&stops);
            let thread = thread::spawn_named(String::from("rast-ticker"), move || {
                // Relaxed: the flag publishes no other memory. The unpark token that follows it
                // ends the park, and the join orders what the thread did. [CK5]
                //
                // The payload of a panic of the source clock does not reach std, which ends the
                // process if the payload's destructor panics and no thread joins.
                quietly(|| {
                    while !theirs.load(Ordering::Relaxed) {
                        clock.update();
                        parker.park_timeout(Duration::from(period));
                    }
                });
            })?;
            Ok(Self {
                stops,
                unparker,
                thread: Some(thread),
            })
        }
    }

    impl Drop for Ticker {
        fn drop(&mut self) {
            // Relaxed: see CK5. [CK6]
            self.stops.store(true, Ordering::Relaxed);
            self.unparker.unpark();
            let here = thread::current_id();
            // A thread cannot join itself; it ends by the flag.
            if let Some(thread) = self.thread.take()
                && thread.thread().id() != here
            {
                // Only the destructor of the source clock can panic here.
                if let Err(payload) = thread.join() {
                    discard(payload);
                }
            }
        }
    }

    impl fmt::Debug for Ticker {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Ticker").finish_non_exhaustive()
        }
    }
}

#[cfg(feature = "std")]
pub use ticker::Ticker;
