//! The model of the demo: campaigns as the acknowledged updates left them, and the answer that each
//! ad request must get.
//!
//! Each client thread has campaigns of its own, and changes and requests them one after the other.
//! So every answer is known, although the threads run at the same time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use rast::primitive::Random;

use crate::ads::{NO_AD, write_ad};
use crate::batch::pacing;
use crate::client::{Client, Reply};
use crate::json::write_string;
use crate::model::{PACING_FULL, Slot, score};

/// A campaign in the model.
#[derive(Clone, Debug)]
struct Campaign {
    bid: u64,
    budget: u64,
    pacing: u64,
    version: u64,
    /// In the order of the list.
    ads: Vec<(u64, Slot, String)>,
}

/// A client with its model.
pub(crate) struct Oracle {
    api: Client,
    ads: Vec<Client>,
    /// The campaigns of this client have the numbers from here on.
    base: u64,
    campaigns: BTreeMap<u64, Campaign>,
    /// By campaign; the server keeps it when a campaign is removed.
    spent: BTreeMap<u64, u64>,
    random: Random,
    updates: u64,
    /// Replies that were checked.
    pub(crate) checked: u64,
}

/// How many campaigns a client has at most.
const CAMPAIGNS: u64 = 24;
/// How many ads a campaign has at most.
const ADS: u64 = 4;

/// A reply that is not the one of the model.
fn wrong(what: &str, reply: &Reply, expected: &str) -> io::Error {
    let (status, body) = (reply.status, &reply.body);
    io::Error::other(format!("{what}: got {status} {body}, expected {expected}"))
}

fn write_ads(out: &mut String, ads: &[(u64, Slot, String)]) {
    out.push_str("\"ads\":[");
    for (at, (id, slot, text)) in ads.iter().enumerate() {
        let mut quoted = Vec::new();
        write_string(&mut quoted, text);
        let text = String::from_utf8_lossy(&quoted);
        let comma = if at == 0 { "" } else { "," };
        let slot = slot.name();
        let _ = write!(
            out,
            "{comma}{{\"id\":{id},\"slot\":\"{slot}\",\"text\":{text}}}"
        );
    }
    out.push(']');
}

impl Oracle {
    /// Connects a client. It has campaigns from `base` on.
    pub(crate) fn connect(api: SocketAddr, ads: SocketAddr, base: u64) -> io::Result<Self> {
        Ok(Self {
            api: Client::connect(api)?,
            ads: (0..3)
                .map(|_| Client::connect(ads))
                .collect::<io::Result<_>>()?,
            base,
            campaigns: BTreeMap::new(),
            spent: BTreeMap::new(),
            random: Random::new(base + 1),
            updates: 0,
            checked: 0,
        })
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random.draw() % below
    }

    fn slot(&mut self) -> Slot {
        Slot::ALL[self.draw(3) as usize]
    }

    /// A new ad; its text has what must be escaped.
    fn ad(&mut self, id: u64) -> (u64, Slot, String) {
        self.updates += 1;
        let text = format!("ad \"{id}\" of update {} \\ \u{20ac}", self.updates);
        (id, self.slot(), text)
    }

    /// A random update of the API, or random ad requests.
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let id = self.base + self.draw(CAMPAIGNS);
        match self.draw(20) {
            0..4 => self.add(id),
            4..7 => self.change(id),
            7 => self.remove(id),
            8 => self.remove_ad(id),
            9..12 => self.pipeline(),
            _ => {
                let (body, slot, candidates) = self.request();
                let at = self.draw(self.ads.len() as u64) as usize;
                let reply = self.ads[at].call("POST", "/ads", &body)?;
                self.check(&reply, slot, &candidates)
            }
        }
    }

    fn update(
        &mut self,
        (method, path): (&str, String),
        body: &str,
        expected: (u16, String),
    ) -> io::Result<()> {
        let reply = self.api.call(method, &path, body)?;
        self.checked += 1;
        let is_right = reply.status == expected.0
            && (reply.status >= 400 || reply.body == expected.1)
            && reply.reactor == 0;
        if is_right {
            return Ok(());
        }
        let expected = format!("{} {}", expected.0, expected.1);
        Err(wrong(
            &format!("{method} {path} {body:.100}"),
            &reply,
            &expected,
        ))
    }

    fn add(&mut self, id: u64) -> io::Result<()> {
        let campaign = Campaign {
            bid: 1 + self.draw(50),
            budget: 1 + self.draw(5000),
            pacing: PACING_FULL,
            version: 1,
            ads: (0..self.draw(ADS + 1)).map(|ad| self.ad(ad)).collect(),
        };
        let (bid, budget) = (campaign.bid, campaign.budget);
        let mut body = format!("{{\"id\":{id},\"bid\":{bid},\"budget\":{budget},");
        write_ads(&mut body, &campaign.ads);
        body.push('}');
        let to = ("POST", "/campaigns".to_owned());
        if self.campaigns.contains_key(&id) {
            return self.update(to, &body, (409, String::new()));
        }
        self.update(to, &body, (201, "{\"added\":1}".into()))?;
        self.campaigns.insert(id, campaign);
        Ok(())
    }

    fn change(&mut self, id: u64) -> io::Result<()> {
        let bid = 1 + self.draw(50);
        let number = self.draw(ADS);
        let ad = self.ad(number);
        let mut body = format!("{{\"bid\":{bid},");
        write_ads(&mut body, std::slice::from_ref(&ad));
        body.push('}');
        let to = ("PUT", format!("/campaigns/{id}"));
        let Some(campaign) = self.campaigns.get_mut(&id) else {
            return self.update(to, &body, (404, String::new()));
        };
        campaign.bid = bid;
        campaign.version += 1;
        match campaign.ads.iter_mut().find(|known| known.0 == ad.0) {
            Some(known) => *known = ad,
            None => campaign.ads.push(ad),
        }
        let expected = format!("{{\"version\":{}}}", campaign.version);
        self.update(to, &body, (200, expected))
    }

    fn remove(&mut self, id: u64) -> io::Result<()> {
        let is_there = self.campaigns.remove(&id).is_some();
        let status = if is_there { 200 } else { 404 };
        self.update(
            ("DELETE", format!("/campaigns/{id}")),
            "",
            (status, "{}".into()),
        )
    }

    fn remove_ad(&mut self, id: u64) -> io::Result<()> {
        let ad = self.draw(ADS);
        let ads = self
            .campaigns
            .get_mut(&id)
            .map(|campaign| &mut campaign.ads);
        let is_there = ads.is_some_and(|ads| {
            let before = ads.len();
            ads.retain(|known| known.0 != ad);
            ads.len() < before
        });
        let status = if is_there { 200 } else { 404 };
        let path = format!("/campaigns/{id}/ads/{ad}");
        self.update(("DELETE", path), "", (status, "{}".into()))
    }

    /// A random ad request.
    fn request(&mut self) -> (String, Slot, Vec<u64>) {
        let slot = self.slot();
        let count = 1 + self.draw(8);
        let candidates: Vec<_> = (0..count)
            .map(|_| self.base + self.draw(CAMPAIGNS))
            .collect();
        let body = format!(
            "{{\"slot\":\"{}\",\"campaigns\":{candidates:?}}}",
            slot.name()
        );
        (body, slot, candidates)
    }

    /// Requests that are sent at once on one connection, one of them in chunks.
    fn pipeline(&mut self) -> io::Result<()> {
        let requests: Vec<_> = (0..4).map(|_| self.request()).collect();
        let mut bytes = String::new();
        for (at, (body, ..)) in requests.iter().enumerate() {
            if at == 1 {
                let (front, back) = body.split_at(body.len() / 2);
                let (first, second) = (front.len(), back.len());
                bytes.push_str("POST /ads HTTP/1.1\r\nhost: adserver\r\n");
                bytes.push_str("transfer-encoding: chunked\r\n\r\n");
                let _ = write!(
                    bytes,
                    "{first:x}\r\n{front}\r\n{second:X};a=b\r\n{back}\r\n"
                );
                bytes.push_str("0\r\n\r\n");
            } else {
                bytes.push_str(&crate::client::request("POST", "/ads", body));
            }
        }
        let at = self.draw(self.ads.len() as u64) as usize;
        self.ads[at].send(&bytes)?;
        for (_, slot, candidates) in requests {
            let reply = self.ads[at].receive()?;
            self.check(&reply, slot, &candidates)?;
        }
        Ok(())
    }

    /// Checks the answer of an ad request, and counts what it costs.
    fn check(&mut self, reply: &Reply, slot: Slot, candidates: &[u64]) -> io::Result<()> {
        let chosen = candidates
            .iter()
            .filter_map(|&id| Some((id, self.campaigns.get(&id)?)))
            .filter_map(|(id, campaign)| {
                let ad = campaign.ads.iter().find(|ad| ad.1 == slot)?;
                let score = score(campaign.bid, campaign.pacing);
                (score > 0).then_some((score, std::cmp::Reverse(id), campaign, ad))
            })
            .max_by_key(|&(score, id, ..)| (score, id));
        let mut expected = Vec::new();
        match chosen {
            Some((_, std::cmp::Reverse(id), campaign, ad)) => {
                let numbers = (id, campaign.bid, campaign.version);
                write_ad(&mut expected, numbers, (ad.0, &ad.2));
                *self.spent.entry(id).or_default() += campaign.bid;
            }
            None => expected.extend_from_slice(NO_AD.as_bytes()),
        }
        self.checked += 1;
        let is_right =
            reply.status == 200 && reply.body.as_bytes() == expected && reply.reactor != 0;
        if is_right {
            return Ok(());
        }
        let expected = String::from_utf8_lossy(&expected);
        Err(wrong(
            &format!("ads {slot:?} {candidates:?}"),
            reply,
            &expected,
        ))
    }

    /// The batch has run: campaigns have the pacing of what they spent.
    pub(crate) fn pace(&mut self) {
        for (id, campaign) in &mut self.campaigns {
            let spent = self.spent.get(id).copied().unwrap_or(0);
            campaign.pacing = pacing(campaign.budget, spent);
        }
    }

    /// Asks for each campaign alone, in each slot.
    pub(crate) fn check_all(&mut self) -> io::Result<()> {
        for id in self.base..self.base + CAMPAIGNS {
            for slot in Slot::ALL {
                let body = format!("{{\"slot\":\"{}\",\"campaigns\":[{id}]}}", slot.name());
                let at = self.draw(self.ads.len() as u64) as usize;
                let reply = self.ads[at].call("POST", "/ads", &body)?;
                self.check(&reply, slot, &[id])?;
            }
        }
        Ok(())
    }
}
