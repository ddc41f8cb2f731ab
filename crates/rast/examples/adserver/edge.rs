//! The state of an ads reactor: guards, spending, a parser.
//!
//! It belongs to one reactor, so it needs no locks.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use rast::reactor::io::Requests;
use rast::reactor::{Breaker, Gate, Lane, Limiter};

use crate::events::Events;
use crate::histogram::Histogram;
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

/// Latencies measured in the server.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// From the accept of a connection to its first reply.
    pub(crate) from_accept: Histogram,
    /// From the send of a request, which it states, to its reply.
    pub(crate) from_send: Histogram,
}

/// The edge of a reactor.
pub(crate) struct Edge {
    pub(crate) requests: Requests,
    pub(crate) events: Arc<Events>,
    pub(crate) latencies: Arc<Latencies>,
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
    pub(crate) fn new(requests: Requests, events: Arc<Events>, latencies: Arc<Latencies>) -> Self {
        let clicks = Limiter::new(CLICKS, Duration::from_secs(1), CLICKS_BURST);
        Self {
            requests,
            events,
            latencies,
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

/// The zero of the clock of `sent_ns`.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds of a clock that client and server share, since both are in this process.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(BEGIN.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
