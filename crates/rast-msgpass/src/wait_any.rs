//! Waiting on several lanes at once.
//!
//! A [`WaitAny`] registers a waker with each lane; all these wakers notify one event count.
//! `egress.rs` shows why no wake-up is lost. The check before a sleep finds a lane ready or empty,
//! and a lane that was found empty calls its waker for the next message.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use crate::egress::{EgressReceiver, sealed};
use crate::primitive::sync::Arc;
use crate::primitive::{EventCount, WaitStrategy};
use crate::sharder;

/// An [`EgressReceiver`] of any message, for [`WaitAny`].
pub trait Waitable: sealed::Lane {}

impl<M> Waitable for EgressReceiver<M, sharder::Handle> {}

/// Waits until one of several [`EgressReceiver`]s has a message, for one thread that receives from
/// all of them.
///
/// ```
/// # use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
/// # struct Sort;
/// # struct Odd(u64);
/// # struct Even(u64);
/// # graph! {
/// #     graph App {
/// #         processors { sort: Sort }
/// #         edges {
/// #             ingress -> sort: u64;
/// #             sort -> egress: Odd;
/// #             sort -> egress: Even;
/// #         }
/// #     }
/// # }
/// # impl Process<App> for Sort {}
/// # impl Receive<App, Ingress, u64> for Sort {
/// #     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
/// #         match number % 2 {
/// #             0 => cx.to::<Egress>().send(Even(number)),
/// #             _ => cx.to::<Egress>().send(Odd(number)),
/// #         }
/// #     }
/// # }
/// use rast_msgpass::WaitAny;
///
/// let app = App::builder(Sort).start()?;
/// let (mut odd, mut even) = (app.egress::<Sort, Odd>(0), app.egress::<Sort, Even>(0));
/// let numbers = app.ingress::<Sort, u64>();
/// (1..=4).for_each(|number| numbers.send(number).unwrap());
///
/// let mut any = WaitAny::new();
/// let mut sums = [0, 0];
/// while sums != [4, 6] {
///     match any.wait(&mut [&mut odd, &mut even]) {
///         0 => sums[0] += odd.recv()?.0,
///         _ => sums[1] += even.recv()?.0,
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct WaitAny {
    event: Arc<EventCount>,
    strategy: WaitStrategy,
    /// The receiver that is checked first; it changes, so that each has its turn.
    first: usize,
}

impl WaitAny {
    /// Waits by [`WaitStrategy::Adaptive`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how it waits.
    #[must_use]
    pub fn strategy(mut self, strategy: WaitStrategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Waits until a receiver has a message, or will never get one again, and returns its index in
    /// the list. Of several such receivers it returns the next one in turn. Blocking.
    ///
    /// It replaces the [waker](EgressReceiver::set_waker) of each receiver in the list. Cost: one
    /// check of each receiver.
    ///
    /// # Panics
    ///
    /// If the list is empty.
    pub fn wait(&mut self, receivers: &mut [&mut dyn Waitable]) -> usize {
        loop {
            if let Some(found) = self.wait_until(receivers, None) {
                return found;
            }
        }
    }

    /// As [`wait`](Self::wait), at most `timeout`. Blocking.
    ///
    /// # Panics
    ///
    /// If the list is empty.
    pub fn wait_timeout(
        &mut self,
        receivers: &mut [&mut dyn Waitable],
        timeout: Duration,
    ) -> Option<usize> {
        self.wait_until(receivers, Instant::now().checked_add(timeout))
    }

    fn wait_until(
        &mut self,
        receivers: &mut [&mut dyn Waitable],
        deadline: Option<Instant>,
    ) -> Option<usize> {
        assert!(!receivers.is_empty(), "there is a receiver to wait for");
        for receiver in &mut *receivers {
            receiver.listen(&self.event);
        }
        let (count, first) = (receivers.len(), self.first);
        let found = self.event.wait_for(self.strategy, deadline, || {
            let mut places = (0..count).map(|step| (first + step) % count);
            places.find(|&place| receivers[place].is_ready())
        });
        if let Some(found) = found {
            self.first = found + 1;
        }
        found
    }
}

impl fmt::Debug for WaitAny {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitAny")
            .field("strategy", &self.strategy)
            .finish_non_exhaustive()
    }
}
