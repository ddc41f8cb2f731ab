//! Ad requests: every reactor except reactor 0 answers them from its replica of the registry.

use std::io::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rast::primitive::CountingAlloc;
use rast::reactor::executor::{sleep, yield_now};
use rast::reactor::io::Active;
use rast::reactor::registry::{Read, read};
use rast::reactor::{EnterError, Open};
use simd_json::prelude::ValueAsScalar as _;
use simd_json::tape::Value;

use crate::conn::{Answered, Site};
use crate::edge::{BIDS_WAITING_MAX, Edge, nanos, now_ns};
use crate::events::Event;
use crate::http::{Method, Replies, Request};
use crate::json::{self, LARGE};
use crate::model::{Ad, Bidder, Campaign, Slot, ad_of, score};

/// Candidates that are looked at before other tasks run.
const ROW: usize = 1024;
/// The most microseconds of simulated work of a request.
const WORK_MAX_US: u64 = 1000;

/// The site of an ads reactor.
pub(crate) struct Ads {
    pub(crate) edge: Rc<Edge>,
}

/// What an ad request asks for.
struct AdRequest {
    slot: Slot,
    candidates: Vec<u64>,
    /// Simulated work in microseconds.
    work_us: u64,
    /// When it was sent.
    sent_ns: Option<u64>,
}

impl AdRequest {
    /// Takes the request from a document; `candidates` is memory for it.
    fn read(value: Value<'_, '_>, mut candidates: Vec<u64>) -> Option<Self> {
        let slot = Slot::named(json::string(value, "slot")?)?;
        let listed = value.as_object()?.get("campaigns")?.as_array()?;
        candidates.clear();
        for id in listed.iter() {
            candidates.push(id.as_u64()?);
        }
        let work_us = json::number(value, "work_us").ok()?.unwrap_or(0);
        Some(Self {
            slot,
            candidates,
            work_us: work_us.min(WORK_MAX_US),
            sent_ns: json::number(value, "sent_ns").ok()?,
        })
    }
}

/// Of the candidates with an ad for the slot, the campaign with the highest score, or with the
/// lowest number if scores are equal.
async fn best<'a>(read: &'a Read, request: &AdRequest) -> Option<(&'a Campaign, &'a Ad)> {
    let mut best: Option<(u64, &Campaign, &Ad)> = None;
    for (at, id) in request.candidates.iter().enumerate() {
        if at % ROW == ROW - 1 {
            // The transaction stays open: all candidates are seen as of one moment.
            yield_now().await;
        }
        let Some((_, campaign)) = read.find::<Campaign, _>(id) else {
            continue;
        };
        let score = score(campaign.bid, campaign.pacing);
        let is_better = best.is_none_or(|(most, other, _)| {
            score > most || (score == most && campaign.id < other.id)
        });
        if score > 0
            && is_better
            && let Some(ad) = ad_of(read, campaign.ads, request.slot)
        {
            best = Some((score, campaign, ad));
        }
    }
    best.map(|(_, campaign, ad)| (campaign, ad))
}

/// Writes the answer of an ad request; the model of the demo writes it too.
pub(crate) fn write_ad(out: &mut Vec<u8>, campaign: (u64, u64, u64), ad: (u64, &str)) {
    let (id, price, version) = campaign;
    let _ = write!(
        out,
        "{{\"campaign\":{id},\"price\":{price},\"version\":{version},\"ad\":{},\"text\":",
        ad.0
    );
    json::write_string(out, ad.1);
    out.push(b'}');
}

/// The answer if no campaign has an ad.
pub(crate) const NO_AD: &str = "{\"ad\":null}";

impl Ads {
    async fn ad(&self, body: &mut [u8], out: &mut Replies) -> Option<u64> {
        let edge = &*self.edge;
        let request = if body.len() > LARGE {
            json::parse_large(body, &edge.events, |value| {
                AdRequest::read(value, Vec::new())
            })
            .await
        } else {
            let candidates = edge.candidates.take();
            let mut parser = edge.parser.borrow_mut();
            parser.parse(body, |value| AdRequest::read(value, candidates))
        };
        let request = match request {
            Ok(request) => request,
            Err((status, why)) => {
                out.error(status, why);
                return None;
            }
        };
        if request.work_us > 0 {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(request.work_us) {
                std::hint::spin_loop();
            }
        }
        let read = read();
        match best(&read, &request).await {
            Some((campaign, ad)) => {
                edge.spend(campaign.id, campaign.bid);
                let numbers = (campaign.id, campaign.bid, campaign.version);
                out.reply(200, |out| write_ad(out, numbers, (ad.id, &ad.text)));
            }
            None => out.reply(200, |out| out.extend_from_slice(NO_AD.as_bytes())),
        }
        edge.candidates.set(request.candidates);
        request.sent_ns
    }

    /// Asks the simulated bidder, behind a gate and a breaker.
    async fn bid(&self, out: &mut Replies) {
        let edge = &*self.edge;
        let _pass = match edge.gate.try_enter() {
            Ok(pass) => pass,
            Err(EnterError::Full) if edge.gate.waiting() < BIDS_WAITING_MAX => {
                edge.events.add(Event::GateFull);
                match edge.gate.enter().await {
                    Ok(pass) => pass,
                    Err(_) => return out.error(503, "the gate is closed"),
                }
            }
            Err(_) => {
                edge.events.add(Event::GateFull);
                return out.error(503, "the gate is full");
            }
        };
        let admission = match edge.breaker.admit() {
            Ok(admission) => admission,
            Err(Open { .. }) => {
                edge.events.add(Event::BreakerRefused);
                return out.error(503, "the breaker is open");
            }
        };
        let bidder = read().find::<Bidder, _>(&0).map(|(_, bidder)| *bidder);
        let latency = Duration::from_millis(bidder.map_or(0, |bidder| bidder.latency_ms));
        let is_probe = admission.is_probe();
        if crate::conn::within(sleep(latency), edge.bid_limit.sleep())
            .await
            .is_some()
        {
            admission.succeed();
            if is_probe {
                edge.events.add(Event::BreakerClosed);
            }
            out.reply(200, |out| out.extend_from_slice(b"{\"bid\":1}"));
        } else {
            admission.fail();
            if !edge.breaker.is_closed() {
                edge.events.add(Event::BreakerOpened);
            }
            out.error(504, "the bidder is slow");
        }
    }

    /// Counts clicks, as many per second as the limiter lets through.
    fn clicks(&self, body: &mut [u8], out: &mut Replies) {
        let edge = &*self.edge;
        let count = edge.parser.borrow_mut().parse(body, |value| {
            let count = json::number(value, "count").ok()??;
            u32::try_from(count).ok()
        });
        match count.map(|count| edge.clicks.try_acquire(count)) {
            Ok(Ok(Ok(()))) => out.reply(200, |out| out.extend_from_slice(b"{}")),
            Ok(Ok(Err(_))) => {
                edge.events.add(Event::Limited);
                out.error(429, "the rate is reached");
            }
            Ok(Err(_)) => {
                edge.events.add(Event::TooLarge);
                out.error(422, "more clicks than the burst");
            }
            Err((status, why)) => out.error(status, why),
        }
    }
}

impl Site for Ads {
    async fn answer(&self, request: Request<'_>, out: &mut Replies) -> Option<u64> {
        match (request.method, request.path) {
            (Method::Post, "/ads") => return self.ad(request.body, out).await,
            (Method::Post, "/bids") => self.bid(out).await,
            (Method::Post, "/clicks") => self.clicks(request.body, out),
            (Method::Get, "/stats") => out.reply(200, |out| {
                let calls = CountingAlloc::calls_of_thread();
                let _ = write!(out, "{{\"allocator_calls\":{calls}}}");
            }),
            (_, "/ads" | "/bids" | "/clicks" | "/stats") => out.error(405, "the method is another"),
            _ => out.error(404, "there is no such path"),
        }
        None
    }

    fn begin(&self) -> Option<Active> {
        Some(self.edge.requests.begin())
    }

    fn answered(&self, answered: Answered) {
        let mut latencies = self.edge.latencies.borrow_mut();
        if let Some(accepted) = answered.accepted {
            latencies.from_accept.record(nanos(accepted.elapsed()));
        }
        if let Some(sent_ns) = answered.sent_ns {
            let span = now_ns().saturating_sub(sent_ns);
            latencies.from_send.record(span);
        }
    }
}
