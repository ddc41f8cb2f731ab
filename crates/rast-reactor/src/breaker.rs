//! A circuit breaker: after repeated failures, calls are rejected for a while.
//!
//! ```text
//!            5 failures in a row                   the time is over: one probe
//!   Closed ──────────────────────► Open until t ──────────────────────────► Probing
//!     ▲                               ▲                                       │  │
//!     │                               └── fails, is dropped, or is late ──────┘  │
//!     └───────────────────────────────────── succeeds ──────────────────────────┘
//! ```
//!
//! The breaker counts its changes of state. It ignores the result of a call if the state has
//! changed since the call was admitted. So an older call that fails during a probe does not open
//! the breaker, and a late probe does not close it.

use core::cell::Cell;
use core::fmt;
use core::time::Duration;
use std_alloc::rc::Rc;

use rast_executor::timers::{Clock, Instant, MonotonicClock};

use crate::error::error;
use crate::random::{between, part};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    Probing { deadline: Instant },
}

/// The configuration of a breaker.
#[derive(Clone, Copy, Debug)]
struct Setup {
    failures: u32,
    wait: Duration,
    wait_max: Duration,
    jitter_percent: u32,
    probe: Duration,
}

struct Core<C> {
    clock: C,
    setup: Setup,
    state: Cell<State>,
    /// The number of the state.
    number: Cell<u64>,
    /// The duration of the next open state.
    wait: Cell<Duration>,
}

/// Rejects calls to a failing service for a while, and then admits one call as a probe.
///
/// After 5 failures in a row the breaker opens: it rejects calls for 100 ms, the open time, and
/// then admits one probe. If the probe succeeds, the breaker closes. If it fails, is dropped, or
/// has no result after 10 s, the breaker opens again. Each time in a row that it opens again, the
/// open time is twice as long, up to 30 s. A random part of at most 20 % is subtracted from each
/// open time. All these numbers can be set.
///
/// For the tasks of one thread; clones are the same breaker. A call takes no lock and allocates
/// nothing, and reads the clock only if the state depends on it.
///
/// # Examples
///
/// ```
/// use rast_reactor::timers::ManualClock;
/// use rast_reactor::{Breaker, Open};
///
/// let clock = ManualClock::new();
/// let breaker = Breaker::builder().failures(2).clock(clock.clone()).build();
/// for _ in 0..2 {
///     breaker.admit().unwrap().fail();
/// }
/// let Err(Open { retry_at }) = breaker.admit() else { panic!("it is open") };
/// clock.set(retry_at);
/// let probe = breaker.admit().unwrap();
/// assert!(probe.is_probe() && breaker.admit().is_err());
/// probe.succeed();
/// assert!(!breaker.admit().unwrap().is_probe());
/// ```
pub struct Breaker<C = MonotonicClock>(Rc<Core<C>>);

/// The breaker rejected a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// When it may admit a probe, by its clock.
    pub retry_at: Instant,
}

error!(Open, "the breaker is open");

/// A call that a breaker admitted. Report its result by [`succeed`](Self::succeed) or
/// [`fail`](Self::fail).
///
/// If it is dropped without a result, a probe counts as failed, and any other call does not count.
#[must_use = "a probe that is dropped has failed"]
pub struct Admission<C: Clock = MonotonicClock> {
    core: Rc<Core<C>>,
    number: u64,
    is_probe: bool,
    is_told: bool,
}

/// Builds a [`Breaker`].
#[derive(Clone, Debug)]
#[must_use = "it makes a breaker by `build`"]
pub struct BreakerBuilder<C = MonotonicClock> {
    setup: Setup,
    clock: C,
}

impl Breaker {
    /// Starts to build a breaker.
    pub fn builder() -> BreakerBuilder {
        BreakerBuilder {
            setup: Setup {
                failures: 5,
                wait: Duration::from_millis(100),
                wait_max: Duration::from_secs(30),
                jitter_percent: 20,
                probe: Duration::from_secs(10),
            },
            clock: MonotonicClock::new(),
        }
    }
}

impl<C> BreakerBuilder<C> {
    /// Sets the number of failures in a row after which it opens; 0 counts as 1.
    pub fn failures(mut self, failures: u32) -> Self {
        self.setup.failures = failures.max(1);
        self
    }

    /// Sets the first and the maximum duration of the open state; the maximum is at least the
    /// first.
    pub fn wait(mut self, first: Duration, most: Duration) -> Self {
        self.setup.wait = first;
        self.setup.wait_max = most.max(first);
        self
    }

    /// Sets by how many percent the open state may be shorter, at most 100.
    pub fn jitter_percent(mut self, percent: u32) -> Self {
        self.setup.jitter_percent = percent;
        self
    }

    /// Sets the time after which a probe without a result counts as failed.
    pub fn probe(mut self, limit: Duration) -> Self {
        self.setup.probe = limit;
        self
    }

    /// Sets the clock.
    pub fn clock<D: Clock>(self, clock: D) -> BreakerBuilder<D> {
        BreakerBuilder {
            setup: self.setup,
            clock,
        }
    }

    /// Makes a closed breaker.
    #[must_use]
    pub fn build(self) -> Breaker<C> {
        Breaker(Rc::new(Core {
            clock: self.clock,
            state: Cell::new(State::Closed { failures: 0 }),
            number: Cell::new(0),
            wait: Cell::new(self.setup.wait),
            setup: self.setup,
        }))
    }
}

impl<C> Clone for Breaker<C> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<C: Clock> Breaker<C> {
    /// Admits or rejects a call.
    ///
    /// # Errors
    ///
    /// [`Open`], also during a probe.
    pub fn admit(&self) -> Result<Admission<C>, Open> {
        let core = &self.0;
        let is_probe = !matches!(core.state.get(), State::Closed { .. });
        if is_probe {
            core.probe()?;
        }
        Ok(Admission {
            core: Rc::clone(core),
            number: core.number.get(),
            is_probe,
            is_told: false,
        })
    }

    /// Returns `true` if it would admit any call.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.0.state.get(), State::Closed { .. })
    }
}

impl<C: Clock> Core<C> {
    fn change(&self, state: State) {
        self.state.set(state);
        self.number.set(self.number.get() + 1);
    }

    /// Opens at `at`, and doubles the duration of the next open state.
    fn open(&self, at: Instant) {
        let most = self.wait.get();
        let wait = between(most - part(most, self.setup.jitter_percent), most);
        self.wait
            .set(most.saturating_mul(2).min(self.setup.wait_max));
        let until = at.saturating_add(wait.into());
        self.change(State::Open { until });
    }

    /// Starts a probe if it is due.
    fn probe(&self) -> Result<(), Open> {
        let now = self.clock.now();
        if let State::Probing { deadline } = self.state.get() {
            if now < deadline {
                return Err(Open { retry_at: deadline });
            }
            // A late probe counts as failed from its deadline on.
            self.open(deadline);
        }
        if let State::Open { until } = self.state.get()
            && now < until
        {
            return Err(Open { retry_at: until });
        }
        let deadline = now.saturating_add(self.setup.probe.into());
        self.change(State::Probing { deadline });
        Ok(())
    }

    /// Records the result of a call that the state `number` admitted.
    fn tell(&self, number: u64, is_success: bool) {
        if number != self.number.get() {
            return;
        }
        match (self.state.get(), is_success) {
            (State::Closed { .. }, true) => {
                self.state.set(State::Closed { failures: 0 });
            }
            (State::Closed { failures }, false) if failures + 1 >= self.setup.failures => {
                self.open(self.clock.now());
            }
            (State::Closed { failures }, false) => {
                let failures = failures + 1;
                self.state.set(State::Closed { failures });
            }
            (State::Probing { deadline }, is_success) => {
                let now = self.clock.now();
                if now >= deadline {
                    self.open(deadline);
                } else if is_success {
                    self.wait.set(self.setup.wait);
                    self.change(State::Closed { failures: 0 });
                } else {
                    self.open(now);
                }
            }
            // An open breaker admits nothing.
            (State::Open { .. }, _) => {}
        }
    }
}

impl<C: Clock> Admission<C> {
    /// Returns `true` if this call is the probe.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// Reports that the call succeeded.
    pub fn succeed(mut self) {
        self.is_told = true;
        self.core.tell(self.number, true);
    }

    /// Reports that the call failed.
    pub fn fail(mut self) {
        self.is_told = true;
        self.core.tell(self.number, false);
    }
}

impl<C: Clock> Drop for Admission<C> {
    fn drop(&mut self) {
        if self.is_probe && !self.is_told {
            self.core.tell(self.number, false);
        }
    }
}

impl<C> fmt::Debug for Breaker<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Breaker").field(&self.0.state.get()).finish()
    }
}

impl<C: Clock> fmt::Debug for Admission<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("is_probe", &self.is_probe)
            .finish_non_exhaustive()
    }
}
