//! Timers: messages of an instance to itself, at an instant.
//!
//! A timer is armed from a fresh reading of the graph's clock, and fires in the first turn that
//! starts at or after its deadline, so never early. The instance reports the first deadline to the
//! sharder. `timer_store.rs` has the stores of deadlines and messages.
//!
//! The handler of a timer runs like that of a message: only if there is room, and one at a time.
//! Timers do not count as sent messages. A drain cancels them, as it ends pings.

use core::fmt;
use core::marker::PhantomData;

use crate::cx::Cx;
use crate::graph::Graph;
use crate::instance_core::Core;
use crate::process::Receive;
use crate::timer_store::Name;
use crate::timers::{Instant, Nanos};

/// The sender of messages that a processor sends to itself by [`Cx::after`] or [`Cx::every`]: `impl
/// Receive<App, Timer, Tick> for Worker`.
#[derive(Debug)]
pub enum Timer {}

/// The id of a timer of one instance with a message `M`; for [`Cx::cancel`].
pub struct TimerId<M> {
    name: Name,
    message: PhantomData<fn() -> M>,
}

impl<M> Clone for TimerId<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for TimerId<M> {}

impl<M> PartialEq for TimerId<M> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<M> Eq for TimerId<M> {}

impl<M> fmt::Debug for TimerId<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimerId").field(&self.name).finish()
    }
}

/// Removes one message from a store and calls its handler; returns `true` if one was due.
type Fire<P> = fn(&mut P, &mut Core, usize, Instant) -> bool;

fn fire<G, P, M>(processor: &mut P, core: &mut Core, kind: usize, now: Instant) -> bool
where
    G: Graph,
    P: Receive<G, Timer, M>,
    M: Send + 'static,
{
    let Some(message) = core.timers.take::<M>(kind, now) else {
        return false;
    };
    core.delivering(None, &message);
    processor.receive(message, &mut Cx::new(core));
    true
}

impl Core {
    /// Handles the message of the first timer, if it is due; returns `true` if it was. Panics if
    /// the handler does.
    pub(crate) fn fire<P: 'static>(&mut self, processor: &mut P, now: Instant) -> bool {
        let Some((kind, fire)) = self.timers.due::<Fire<P>>(now) else {
            return false;
        };
        self.invocation += 1;
        self.sender = 0;
        fire(processor, self, kind, now)
    }
}

impl<G: Graph, P> Cx<'_, G, P> {
    /// Sends a message to this instance itself, after `delay`. It arrives as `Receive<G, Timer,
    /// M>`, never early, and needs no edge. While an edge that leaves the instance lacks room, the
    /// message waits.
    ///
    /// A drain or a stop cancels it, and counts it in
    /// [`Report::timers_cancelled`](crate::Report::timers_cancelled). Reads the clock; O(log n) for
    /// n timers; allocates when the store grows.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, Timer, graph};
    ///
    /// struct Late;
    /// graph! {
    ///     graph App {
    ///         processors { late: Late }
    ///         edges { ingress -> late: u64; late -> egress: u64; }
    ///     }
    /// }
    /// impl Process<App> for Late {}
    /// impl Receive<App, Ingress, u64> for Late {
    ///     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
    ///         cx.after(Duration::from_millis(1), number);
    ///         let never = cx.after(Duration::from_secs(60), 0_u64);
    ///         assert_eq!(cx.cancel(never), Some(0));
    ///     }
    /// }
    /// impl Receive<App, Timer, u64> for Late {
    ///     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
    ///         cx.to::<Egress>().send(number);
    ///     }
    /// }
    ///
    /// let app = App::builder(Late).start()?;
    /// let mut out = app.egress::<Late, u64>(0);
    /// app.ingress::<Late, u64>().send(7)?;
    /// assert_eq!(out.recv(), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after<M>(&mut self, delay: impl Into<Nanos>, message: M) -> TimerId<M>
    where
        P: Receive<G, Timer, M> + 'static,
        M: Send + 'static,
    {
        let delay = delay.into();
        let at = self.now().saturating_add(delay);
        self.core().arming::<M>(delay, false);
        let fire: Fire<P> = fire::<G, P, M>;
        let name = self.core().timers.after(fire, at, message);
        TimerId {
            name,
            message: PhantomData,
        }
    }

    /// Sends copies of a message to this instance itself, each `period` from now on, as
    /// [`after`](Self::after) does. Instants that have passed before their message is handled are
    /// skipped; the others keep their schedule. A period of zero counts as a nanosecond.
    pub fn every<M>(&mut self, period: impl Into<Nanos>, message: M) -> TimerId<M>
    where
        P: Receive<G, Timer, M> + 'static,
        M: Clone + Send + 'static,
    {
        let period = period.into();
        let at = self.now().saturating_add(period);
        self.core().arming::<M>(period, true);
        let fire: Fire<P> = fire::<G, P, M>;
        let name = self.core().timers.every(fire, at, period, message);
        TimerId {
            name,
            message: PhantomData,
        }
    }

    /// Cancels a timer and returns its message; `None` if the message was handled, or the timer was
    /// cancelled before. The id of another instance may match another timer here, or none.
    pub fn cancel<M: Send + 'static>(&mut self, timer: TimerId<M>) -> Option<M> {
        self.core().timers.cancel(timer.name)
    }

    /// Requests a call of [`Process::ping`](crate::Process::ping) at `at` or soon after, never
    /// before, independently of what the last ping requested. The earliest of several requests
    /// counts. A ping that comes before `at` by another cause leaves the request as it is.
    pub fn wake_at(&mut self, at: Instant) {
        let wake_at = &mut self.core().wake_at;
        *wake_at = Some(wake_at.map_or(at, |before| before.min(at)));
    }
}
