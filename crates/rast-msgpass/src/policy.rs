//! Policies for a processor whose handler panicked, and the life of a processor.
//!
//! `docs/supervision.md` of the repository has the states and their transitions. `supervision.rs`
//! follows a policy, and `instance/life.rs` makes, begins and drops processors.

use core::fmt;
use std::any::Any;
use std::collections::VecDeque;

use crate::ending::EndedBy;
use crate::graph::EdgeInfo;
use crate::panics::text_of;
use crate::primitive::sync::Arc;
use crate::report::{Handler, PanicRecord};
use crate::timers::{Instant, Nanos};

/// What follows for a processor whose handler panicked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnPanic {
    /// The message that was being handled is lost and counted; the next one is handled.
    #[default]
    Continue,
    /// The processor is not run any more. Messages to it count as undelivered, and no sender waits
    /// for it.
    Retire,
    /// The whole graph stops.
    Stop,
}

/// The limit and the delays of restarts: how often, and after what time, a processor is replaced
/// after a panic of its handler. Used by [`Builder::restart`](crate::Builder::restart).
///
/// The first restart in a [period](Self::limit) waits for the first delay. Each further restart
/// waits twice as long as the one before, but at most for the longest delay. If the processor
/// panics again after the last restart that the limit allows in the period, it is retired or, with
/// [`or_stop`](Self::or_stop), the graph stops.
///
/// ```
/// use core::time::Duration;
/// use rast_msgpass::Restart;
///
/// // At most 3 times in 10 seconds, after 1, 2 and 4 milliseconds.
/// let restart = Restart::new()
///     .limit(3, Duration::from_secs(10))
///     .delay(Duration::from_millis(1), Duration::from_millis(100))
///     .or_stop();
/// assert_ne!(restart, Restart::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// `usize::MAX` without a limit.
    most: usize,
    within: Nanos,
    first: Nanos,
    longest: Nanos,
    pub(crate) then: OnPanic,
}

impl Restart {
    /// At most 5 restarts in 60 seconds, after 10 ms, 20 ms and so on up to 10 seconds, and then
    /// the processor retires.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            most: 5,
            within: Nanos::from_secs(60),
            first: Nanos::from_millis(10),
            longest: Nanos::from_secs(10),
            then: OnPanic::Retire,
        }
    }

    /// Allows this number of restarts in any period of this length. Each restart costs 8 bytes
    /// while it counts. With a period of zero no restart would count, so the builder's
    /// [`check`](crate::Builder::check) rejects it.
    #[must_use]
    pub fn limit(mut self, most: usize, within: impl Into<Nanos>) -> Self {
        (self.most, self.within) = (most, within.into());
        self
    }

    /// Allows any number of restarts; restarts within this period make the delay longer. Messages
    /// that [`on_start`](crate::Process::on_start) sends without room are kept at the instance, so
    /// a processor that sends there and panics each time fills the memory.
    #[must_use]
    pub fn without_limit(self, within: impl Into<Nanos>) -> Self {
        self.limit(usize::MAX, within)
    }

    /// Sets the first delay, and the longest. Zero restarts at once, in the next turn.
    #[must_use]
    pub fn delay(mut self, first: impl Into<Nanos>, longest: impl Into<Nanos>) -> Self {
        (self.first, self.longest) = (first.into(), longest.into());
        self
    }

    /// Makes a panic beyond the limit stop the graph instead of retiring the processor.
    #[must_use]
    pub const fn or_stop(mut self) -> Self {
        self.then = OnPanic::Stop;
        self
    }

    /// Returns whether there is a limit that no number of restarts reaches.
    pub(crate) fn counts_none(&self) -> bool {
        self.most != usize::MAX && self.within == Nanos::ZERO
    }

    /// Returns the delay after this number of restarts within the period.
    fn delay_after(&self, restarts: usize) -> Nanos {
        let factor = 1_u64.checked_shl(restarts as u32).unwrap_or(u64::MAX);
        let delay = self.first.as_nanos().saturating_mul(factor);
        Nanos::from_nanos(delay.min(self.longest.as_nanos()))
    }
}

impl Default for Restart {
    fn default() -> Self {
        Self::new()
    }
}

/// What a panic leads to, for one processor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Policy {
    Plain(OnPanic),
    Restart(Restart),
}

/// Makes the replacement of a replica.
pub(crate) type Factory<P> = Arc<Box<dyn Fn(usize) -> P + Send + Sync>>;

/// Takes what a panic left.
pub(crate) type OnFailure = Box<dyn Fn(Failure) + Send + Sync>;

/// What follows the panic of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Then {
    /// The processor continues.
    Continues,
    /// It is dropped, and replaced at this time of the graph's clock or soon after.
    Restarts(Instant),
    /// It is retired.
    Retires,
    /// The graph ends.
    Stops,
}

/// A panic of a handler; for [`Builder::on_failure`](crate::Builder::on_failure).
#[non_exhaustive]
pub struct Failure {
    /// The name of the processor in `graph!`.
    pub processor: &'static str,
    /// The index of its replica.
    pub replica: usize,
    /// The handler.
    pub handler: Handler,
    /// The edge of the message that was handled; `None` if there was none.
    pub edge: Option<&'static EdgeInfo>,
    /// The replica that sent the message; 0 if [`edge`](Self::edge) is `None`, and for messages
    /// from ingress or from a processor without replicas.
    pub sender: usize,
    /// The payload of the panic.
    pub payload: Box<dyn Any + Send>,
    /// A clone of the message, on an edge that is marked `keep`, made before the handler was
    /// called.
    pub message: Option<Box<dyn Any + Send>>,
    /// The time of the panic, by the clock of the graph.
    pub at: Instant,
    /// What follows.
    pub then: Then,
}

impl Failure {
    /// Returns the panic as the report has it.
    #[must_use]
    pub fn record(&self) -> PanicRecord {
        PanicRecord {
            processor: self.processor,
            replica: self.replica,
            handler: self.handler,
            edge: self.edge,
            message: text_of(&*self.payload),
            count: 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record().fmt(f)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("processor", &self.processor)
            .field("replica", &self.replica)
            .field("handler", &self.handler)
            .field("edge", &self.edge.map(ToString::to_string))
            .field("sender", &self.sender)
            .field("text", &self.record().message)
            .field("then", &self.then)
            .finish_non_exhaustive()
    }
}

/// Why a processor ends; for [`Process::on_stop`](crate::Process::on_stop).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// The graph has ended: no handler of any processor is called any more.
    Ended(EndedBy),
    /// One of its handlers panicked, and the processor is retired.
    Retired,
    /// One of its handlers panicked, and another processor replaces it.
    Restarted,
}

/// The state of one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Handlers run.
    Running,
    /// `on_start` was not called yet.
    New,
    /// A handler panicked: the processor is to be dropped.
    Failed,
    /// There is no processor until the time of its restart.
    Down,
    /// Messages that arrive are given up.
    Retired,
}

/// The restarts of one instance.
#[derive(Debug)]
pub(crate) struct Restarts {
    /// The times of the restarts that count; without a limit only the last [`REMEMBERED`] of them.
    times: VecDeque<Instant>,
    /// When the next one comes.
    pub(crate) at: Instant,
}

/// Number of restarts that are remembered without a limit: by then the delay is the longest one.
const REMEMBERED: usize = 64;

impl Restarts {
    pub(crate) const fn new() -> Self {
        Self {
            times: VecDeque::new(),
            at: Instant::ORIGIN,
        }
    }

    /// Asks for a restart; returns when it comes, or `None` past the limit.
    pub(crate) fn ask(&mut self, restart: &Restart, now: Instant) -> Option<Instant> {
        let within = restart.within.as_nanos();
        let is_past = |&at: &Instant| now.saturating_since(at).as_nanos() >= within;
        while self.times.front().is_some_and(is_past) {
            self.times.pop_front();
        }
        if self.times.len() >= restart.most {
            return None;
        }
        if restart.most == usize::MAX && self.times.len() == REMEMBERED {
            self.times.pop_front();
        }
        self.at = now.saturating_add(restart.delay_after(self.times.len()));
        self.times.push_back(now);
        Some(self.at)
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn restarts_are_counted_in_any_time_of_the_length() {
        let restart = Restart::new().limit(2, Nanos::from_nanos(10));
        let restart = restart.delay(Nanos::from_nanos(3), Nanos::from_nanos(5));
        let mut restarts = Restarts::new();
        assert_eq!(restarts.ask(&restart, at(100)), Some(at(103)));
        assert_eq!(restarts.ask(&restart, at(104)), Some(at(109)));
        assert_eq!(restarts.ask(&restart, at(109)), None);
        // The first does not count any more.
        assert_eq!(restarts.ask(&restart, at(110)), Some(at(115)));
        assert_eq!(restarts.ask(&restart, at(113)), None);
        assert_eq!(restarts.ask(&restart, at(200)), Some(at(203)));
    }

    #[test]
    fn without_a_limit_the_delay_grows_and_memory_does_not() {
        let restart = Restart::new().without_limit(Nanos::MAX);
        let restart = restart.delay(Nanos::from_nanos(1), Nanos::from_nanos(1 << 20));
        let mut restarts = Restarts::new();
        for count in 0..1_000 {
            let delay = 1 << count.min(20);
            assert_eq!(restarts.ask(&restart, at(count)), Some(at(count + delay)));
        }
        assert_eq!(restarts.times.len(), REMEMBERED);
        let none = Restart::new().limit(0, Nanos::MAX);
        assert_eq!(Restarts::new().ask(&none, at(0)), None);
    }
}
