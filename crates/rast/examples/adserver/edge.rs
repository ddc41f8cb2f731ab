//! The state of an ads reactor: guards, spending, a parser.
//!
//! It belongs to one reactor, so it needs no locks.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rast::primitive::Histogram;
use rast::reactor::io::Requests;
use rast::reactor::{Breaker, Gate, Lane, Limiter, reactors_task};

use crate::events::Events;
use crate::json::Parser;

/// Bids that run at once.
pub(crate) const BIDS_MAX: usize = 4;
/// Bids that wait at the gate.
pub(crate) const BIDS_WAITING_MAX: usize = 4;
/// The time limit of a bid.
pub(crate) const BID_LIMIT: Duration = Duration::from_millis(50);
/// Clicks per second.
const CLICKS: u32 = 100;
/// Clicks at once.
pub(crate) const CLICKS_BURST: u32 = 20;

/// Latencies measured in the server, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    /// From the accept of a connection to its first reply.
    pub(crate) from_accept: Histogram<5>,
    /// From the send of a request, which it states, to its reply.
    pub(crate) from_send: Histogram<5>,
}

/// The edge of a reactor.
pub(crate) struct Edge {
    pub(crate) requests: Requests,
    pub(crate) events: Arc<Events>,
    pub(crate) latencies: RefCell<Latencies>,
    pub(crate) parser: RefCell<Parser>,
    /// Memory for the candidates of a request.
    pub(crate) candidates: Cell<Vec<u64>>,
    pub(crate) gate: Gate,
    pub(crate) breaker: Breaker,
    pub(crate) clicks: Limiter,
    pub(crate) bid_limit: Lane,
    /// What each campaign has spent here.
    pub(crate) spent: RefCell<HashMap<u64, u64>>,
}

impl Edge {
    /// Makes the edge of the reactor that runs the caller.
    pub(crate) fn new(requests: Requests, events: Arc<Events>) -> Self {
        let clicks = Limiter::new(CLICKS, Duration::from_secs(1), CLICKS_BURST);
        Self {
            requests,
            events,
            latencies: RefCell::default(),
            parser: RefCell::new(Parser::new()),
            candidates: Cell::default(),
            gate: Gate::new(BIDS_MAX),
            breaker: Breaker::builder().build(),
            clicks: clicks.expect("the rate and the burst are above zero"),
            bid_limit: Lane::new(BID_LIMIT),
            spent: RefCell::default(),
        }
    }

    /// Counts what a campaign spends.
    pub(crate) fn spend(&self, campaign: u64, price: u64) {
        *self.spent.borrow_mut().entry(campaign).or_default() += price;
    }
}

thread_local! {
    /// The edge of the reactor of this thread, for calls from reactor 0.
    static EDGE: RefCell<Option<Rc<Edge>>> = const { RefCell::new(None) };
}

/// Lets calls from reactor 0 find the edge of this reactor.
pub(crate) fn publish(edge: &Rc<Edge>) {
    EDGE.set(Some(Rc::clone(edge)));
}

/// The edge of this reactor.
pub(crate) fn here() -> Option<Rc<Edge>> {
    EDGE.with_borrow(Clone::clone)
}

/// Takes what the ads reactors have measured since the last call, on reactor 0.
pub(crate) async fn take_latencies() -> Latencies {
    let parts = reactors_task(|| async { here().map(|edge| edge.latencies.take()) });
    let mut all = Latencies::default();
    for part in parts.await.into_iter().flatten().flatten() {
        all.from_accept.merge(&part.from_accept);
        all.from_send.merge(&part.from_send);
    }
    all
}

/// The zero of the clock of `sent_ns`.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds of a clock that client and server share, since both are in this process.
pub(crate) fn now_ns() -> u64 {
    nanos(BEGIN.elapsed())
}

/// A duration in nanoseconds.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
