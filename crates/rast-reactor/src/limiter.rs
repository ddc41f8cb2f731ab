//! A rate limiter: a number of tokens per period, with a burst, by the generic cell rate algorithm.
//!
//! The state is one number, the theoretical arrival time: the time at which all tokens taken so far
//! would have arrived at the limited rate. A request for `n` tokens adds to this time the time in
//! which `n` tokens arrive. The tokens are available if the sum is at most the duration of a burst
//! after now. The unit of time is a nanosecond divided by the number of tokens per period. So each
//! token takes a whole number of units, nothing is rounded, and no error accumulates.

use core::cell::Cell;
use core::fmt;
use core::time::Duration;

use rast_executor::timers::{Clock, Instant, MonotonicClock};

use crate::error::error;
use crate::gate::Gate;

/// Admits requests at a limited rate, with bursts; for the tasks of one thread.
///
/// # Examples
///
/// ```
/// use rast_reactor::timers::{Instant, ManualClock, Nanos};
/// use rast_reactor::{Limited, Limiter, TooLarge};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// // 10 per second, 2 at once.
/// let limiter = Limiter::with_clock(10, Duration::from_secs(1), 2, clock.clone()).unwrap();
/// assert_eq!(limiter.try_acquire(2), Ok(Ok(())));
/// let retry_at = Instant::from_nanos(100_000_000);
/// assert_eq!(limiter.try_acquire(1), Ok(Err(Limited { retry_at })));
/// clock.advance(Nanos::from_millis(100));
/// assert_eq!(limiter.try_acquire(1), Ok(Ok(())));
/// assert_eq!(limiter.try_acquire(3), Err(TooLarge));
/// ```
pub struct Limiter<C = MonotonicClock> {
    clock: C,
    /// Tokens per period: the number of units per nanosecond.
    tokens: u64,
    /// The units of a token: the nanoseconds of a period.
    token: u64,
    burst: u32,
    /// The theoretical arrival time, in units.
    arrival: Cell<u128>,
    /// Tokens for which calls of `acquire` wait.
    wanted: Cell<u64>,
    /// The first request waits for tokens, the others for their turn.
    turn: Gate,
}

/// The tokens of a call of `acquire`, until it has taken them or is dropped.
struct Wanted<'a> {
    all: &'a Cell<u64>,
    tokens: u64,
}

impl<'a> Wanted<'a> {
    fn new(all: &'a Cell<u64>, tokens: u32) -> Self {
        let tokens = u64::from(tokens);
        all.set(all.get() + tokens);
        Self { all, tokens }
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.all.set(self.all.get() - self.tokens);
    }
}

/// The rate or the burst is zero, or the period is longer than 584 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidRate;

/// The request exceeds the burst, so it can never be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// The tokens are not available yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The time, by the limiter's clock, when the tokens will be available in addition to those for
    /// which earlier requests wait. A [`try_acquire`](Limiter::try_acquire) then succeeds, if no
    /// other request comes first.
    pub retry_at: Instant,
}

error!(
    InvalidRate,
    "a rate and a burst are above zero, and a period is below 584 years"
);
error!(TooLarge, "the request is above the burst of its limiter");
error!(Limited, "the rate of the limiter is reached");

impl Limiter {
    /// Makes a limiter of `tokens` per period by the system's monotonic clock; a whole burst is
    /// available.
    ///
    /// # Errors
    ///
    /// [`InvalidRate`].
    pub fn new(tokens: u32, period: Duration, burst: u32) -> Result<Self, InvalidRate> {
        Self::with_clock(tokens, period, burst, MonotonicClock::new())
    }
}

impl<C: Clock> Limiter<C> {
    /// As [`new`](Limiter::new), with another clock.
    ///
    /// # Errors
    ///
    /// [`InvalidRate`].
    pub fn with_clock(
        tokens: u32,
        period: Duration,
        burst: u32,
        clock: C,
    ) -> Result<Self, InvalidRate> {
        let token = u64::try_from(period.as_nanos()).map_err(|_| InvalidRate)?;
        if tokens == 0 || token == 0 || burst == 0 {
            return Err(InvalidRate);
        }
        Ok(Self {
            clock,
            tokens: u64::from(tokens),
            token,
            burst,
            arrival: Cell::new(0),
            wanted: Cell::new(0),
            turn: Gate::new(1),
        })
    }

    /// Takes tokens if they are available in addition to those for which others wait. Reads the
    /// clock.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] if `tokens` is above the burst. The inner error is [`Limited`].
    pub fn try_acquire(&self, tokens: u32) -> Result<Result<(), Limited>, TooLarge> {
        if tokens > self.burst {
            return Err(TooLarge);
        }
        let now = self.clock.now();
        Ok(self.take(now, tokens, self.wanted.get()))
    }

    /// Waits until `tokens` tokens are available, and takes them: first come, first served.
    ///
    /// Cancel-safe: a dropped wait takes no tokens. The wait sleeps in the executor, whose clock
    /// must run at the same rate as the limiter's clock.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] if `tokens` is above the burst.
    ///
    /// # Panics
    ///
    /// Outside of an executor, if it has to wait.
    ///
    /// ```
    /// use rast_reactor::Limiter;
    /// use rast_reactor::executor::LocalExecutor;
    /// use std::time::Duration;
    ///
    /// let limiter = Limiter::new(1_000, Duration::from_secs(1), 1).unwrap();
    /// LocalExecutor::new().run(async {
    ///     for _ in 0..3 {
    ///         limiter.acquire(1).await.unwrap();
    ///     }
    /// });
    /// ```
    pub async fn acquire(&self, tokens: u32) -> Result<(), TooLarge> {
        if tokens > self.burst {
            return Err(TooLarge);
        }
        let _wanted = Wanted::new(&self.wanted, tokens);
        let turn = self.turn.enter().await;
        debug_assert!(turn.is_ok(), "limiter: its gate is never closed");
        loop {
            let now = self.clock.now();
            let Err(Limited { retry_at }) = self.take(now, tokens, 0) else {
                return Ok(());
            };
            rast_executor::sleep(retry_at.saturating_since(now).into()).await;
        }
    }

    /// Takes `tokens` if they are available in addition to the `wanted` tokens of earlier waits.
    /// Each wait is expected to take its tokens as soon as they are available. A wait that is
    /// polled later may be overtaken by this request, and then waits for these tokens again.
    ///
    /// Adding `wanted` and `tokens` is exact: a wait that takes its tokens in time finds an arrival
    /// time that is not in the past, so it adds only the units of its tokens.
    fn take(&self, now: Instant, tokens: u32, wanted: u64) -> Result<(), Limited> {
        let units = |tokens: u64| u128::from(tokens) * u128::from(self.token);
        let now = u128::from(now.as_nanos()) * u128::from(self.tokens);
        let (arrival, tokens) = (self.arrival.get(), u64::from(tokens));
        let at = (arrival + units(wanted + tokens)).saturating_sub(units(self.burst.into()));
        if at <= now {
            self.arrival.set(arrival.max(now) + units(tokens));
            return Ok(());
        }
        let at = at.div_ceil(u128::from(self.tokens));
        let retry_at = Instant::from_nanos(u64::try_from(at).unwrap_or(u64::MAX));
        Err(Limited { retry_at })
    }
}

impl<C> fmt::Debug for Limiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("tokens", &self.tokens)
            .field("period_ns", &self.token)
            .field("burst", &self.burst)
            .field("waiting", &(self.turn.users() + self.turn.waiting()))
            .finish_non_exhaustive()
    }
}
