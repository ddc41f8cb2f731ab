//! The API: reactor 0 changes campaigns, and replies when every reactor has the change.
//!
//! | request | document | does |
//! |---|---|---|
//! | `POST /campaigns` | a campaign, or `{"campaigns":[..]}` | adds the campaigns, all or none |
//! | `PUT /campaigns/ID` | `bid`, `budget`, `ads`, any of them | changes the campaign or its ads |
//! | `DELETE /campaigns/ID` | | removes a campaign with its ads |
//! | `DELETE /campaigns/ID/ads/AD` | | removes an ad |
//! | `POST /transfers` | `from`, `to`, `amount` | moves budget that is not spent |
//! | `POST /pacing` | | recomputes the pacing of all campaigns |
//! | `PUT /bidder` | `latency_ms` | sets the delay of the simulated bidder |
//!
//! A campaign is `{"id":7,"bid":120,"budget":1000,"ads":[{"id":1,"slot":"top","text":".."}]}`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use rast::reactor::executor::yield_now;
use rast::reactor::registry::{Changes, Children, Id, NotCommitted, change, read, room};
use rast::reactor::{Lock, Policy, background_task};
use simd_json::tape::Value;

use crate::batch::Columns;
use crate::conn::Site;
use crate::events::{Event, Events};
use crate::http::{Failure, Method, Replies, Request};
use crate::json::{self, LARGE, MALFORMED, POOL_FULL, Parser};
use crate::model::{Ad, Bidder, Campaign, PACING_FULL, Slot};
use crate::spending;

/// The site of reactor 0.
pub(crate) struct Api {
    pub(crate) events: Arc<Events>,
    parser: RefCell<Parser>,
    /// A lock for each campaign that took part in a transfer.
    pub(crate) locks: RefCell<HashMap<u64, Rc<Lock<()>>>>,
}

/// A campaign of a document, or changes to one.
struct Draft {
    id: Option<u64>,
    bid: Option<u64>,
    budget: Option<u64>,
    ads: Vec<Ad>,
}

impl Draft {
    fn read(value: Value<'_, '_>) -> Option<Self> {
        let object = value.as_object()?;
        let ads = match object.get("ads") {
            Some(ads) => ads.as_array()?.iter().map(read_ad).collect::<Option<_>>()?,
            None => Vec::new(),
        };
        Some(Self {
            id: json::number(value, "id").ok()?,
            bid: json::number(value, "bid").ok()?,
            budget: json::number(value, "budget").ok()?,
            ads,
        })
    }

    /// One campaign, or a list of them.
    fn read_all(value: Value<'_, '_>) -> Option<Vec<Self>> {
        match value.as_object()?.get("campaigns") {
            Some(list) => list.as_array()?.iter().map(Self::read).collect(),
            None => Some(vec![Self::read(value)?]),
        }
    }
}

/// An ad of a document.
fn read_ad(value: Value<'_, '_>) -> Option<Ad> {
    Some(Ad {
        id: json::number(value, "id").ok()??,
        slot: Slot::named(json::string(value, "slot")?)?,
        text: json::string(value, "text")?.into(),
    })
}

const NO_CAMPAIGN: Failure = (404, "there is no such campaign");
const CONFLICT: Failure = (409, "another request changed the same");
/// Campaigns that are changed before other tasks run.
const ROW: usize = 128;
/// This reactor owns all types.
const OWNED: &str = "reactor 0 owns the campaigns";

/// Commits, and waits until every reactor has the changes.
pub(crate) async fn commit(mut changes: Changes) -> Result<(), Failure> {
    loop {
        match changes.commit() {
            Ok(committed) => {
                committed.await;
                return Ok(());
            }
            // Transactions that are open keep too much of what was replaced.
            Err(NotCommitted::Full(refused)) => {
                room().await;
                changes = refused;
            }
            Err(_) => return Err(CONFLICT),
        }
    }
}

/// A campaign as these changes leave it.
pub(crate) fn find(changes: &Changes, id: u64) -> Result<(Id<Campaign>, &Campaign), Failure> {
    let found = changes.before().find::<Campaign, _>(&id);
    let (id, _) = found.ok_or(NO_CAMPAIGN)?;
    Ok((id, changes.get(id).ok_or(NO_CAMPAIGN)?))
}

/// Adds ads to a list, and replaces those of the same number.
fn set_ads(changes: &mut Changes, list: Id<Children<Ad>>, ads: Vec<Ad>) {
    let listed = changes.before().children(list);
    let mut known: HashMap<u64, Id<Ad>> = listed.map(|(id, ad)| (ad.id, id)).collect();
    let mut added = Vec::new();
    for ad in ads {
        let number = ad.id;
        if let Some(&known) = known.get(&number) {
            let _ = changes.replace(known, ad);
        } else {
            let id = changes.add(ad).expect(OWNED);
            known.insert(number, id);
            added.push(id);
        }
    }
    if !added.is_empty() {
        let _ = changes.update(list, |list| added.into_iter().for_each(|id| list.push(id)));
    }
}

/// Adds campaigns, all or none.
async fn add(drafts: Vec<Draft>) -> Result<usize, Failure> {
    let count = drafts.len();
    let mut changes = change();
    for (row, draft) in drafts.into_iter().enumerate() {
        if row % ROW == ROW - 1 {
            yield_now().await;
        }
        let (Some(id), Some(bid), Some(budget)) = (draft.id, draft.bid, draft.budget) else {
            return Err(MALFORMED);
        };
        let ads = changes.add(Children::new()).expect(OWNED);
        set_ads(&mut changes, ads, draft.ads);
        let campaign = Campaign {
            id,
            bid,
            budget,
            pacing: PACING_FULL,
            version: 1,
            ads,
        };
        if changes.insert(id, campaign).is_err() {
            return Err((409, "there is a campaign of this number"));
        }
    }
    commit(changes).await?;
    Ok(count)
}

/// Changes a campaign and its ads by one commit; returns its version.
async fn put(id: u64, draft: Draft) -> Result<u64, Failure> {
    let mut changes = change();
    let (key, campaign) = find(&changes, id)?;
    let (list, version) = (campaign.ads, campaign.version + 1);
    set_ads(&mut changes, list, draft.ads);
    let _ = changes.update(key, |campaign| {
        campaign.bid = draft.bid.unwrap_or(campaign.bid);
        campaign.budget = draft.budget.unwrap_or(campaign.budget);
        campaign.version = version;
    });
    commit(changes).await?;
    Ok(version)
}

/// Removes a campaign with its list and its ads.
async fn delete(id: u64) -> Result<(), Failure> {
    let mut changes = change();
    let (key, campaign) = find(&changes, id)?;
    let list = campaign.ads;
    let ads: Vec<_> = changes.before().children(list).map(|(ad, _)| ad).collect();
    for ad in ads {
        let _ = changes.remove(ad);
    }
    let _ = changes.remove(list);
    let _ = changes.remove(key);
    commit(changes).await
}

/// Removes an ad.
async fn delete_ad(id: u64, ad: u64) -> Result<(), Failure> {
    let mut changes = change();
    let (_, campaign) = find(&changes, id)?;
    let list = campaign.ads;
    let known = {
        let mut listed = changes.before().children(list);
        let known = listed.find(|(_, known)| known.id == ad);
        known.map(|(known, _)| known)
    };
    let known = known.ok_or((404, "there is no such ad"))?;
    let _ = changes.update(list, |list| {
        list.remove(known);
    });
    let _ = changes.remove(known);
    commit(changes).await
}

/// Sets the simulated bidder.
async fn set_bidder(latency_ms: u64) -> Result<(), Failure> {
    let mut changes = change();
    let known = changes.before().find::<Bidder, _>(&0).map(|(id, _)| id);
    let bidder = Bidder { latency_ms };
    match known {
        Some(known) => {
            let _ = changes.replace(known, bidder);
        }
        None => {
            let _ = changes.insert(0, bidder);
        }
    }
    commit(changes).await
}

impl Api {
    pub(crate) fn new(events: Arc<Events>) -> Self {
        Self {
            events,
            parser: RefCell::new(Parser::new()),
            locks: RefCell::default(),
        }
    }

    /// Reads a document: a large one in the background.
    async fn document<T: Send + 'static>(
        &self,
        body: &mut [u8],
        read: fn(Value<'_, '_>) -> Option<T>,
    ) -> Result<T, Failure> {
        if body.len() > LARGE {
            json::parse_large(body, &self.events, read).await
        } else {
            self.parser.borrow_mut().parse(body, read)
        }
    }

    /// Runs the batch over all campaigns; returns how many have another pacing.
    async fn pace(&self) -> Result<usize, Failure> {
        let spent = spending::all().await;
        let mut columns = Columns::default();
        let seen = read();
        for (row, (_, campaign)) in seen.of::<Campaign>().iter().enumerate() {
            if row % ROW == ROW - 1 {
                yield_now().await;
            }
            columns.id.push(campaign.id);
            columns.version.push(campaign.version);
            columns.budget.push(campaign.budget);
            columns
                .spent
                .push(spent.get(&campaign.id).copied().unwrap_or(0));
        }
        drop(seen);
        let batch = move || {
            columns.run();
            columns
        };
        let Ok(call) = background_task(Policy::Low, batch) else {
            self.events.add(Event::PoolFull);
            return Err(POOL_FULL);
        };
        let columns = call.await.map_err(|_| (503, "the server stops"))?;
        let mut changed = 0;
        // A commit for each part: nothing is changed by others between its begin and its commit.
        for rows in (0..columns.id.len()).step_by(ROW) {
            let mut changes = change();
            for row in rows..columns.id.len().min(rows + ROW) {
                // A campaign that was changed or removed meanwhile is left to the next batch.
                let Ok((id, campaign)) = find(&changes, columns.id[row]) else {
                    continue;
                };
                let is_same = campaign.version == columns.version[row];
                if is_same && campaign.pacing != columns.pacing[row] {
                    let pacing = columns.pacing[row];
                    let _ = changes.update(id, |campaign| campaign.pacing = pacing);
                    changed += 1;
                }
            }
            commit(changes).await?;
        }
        Ok(changed)
    }

    async fn change(
        &self,
        method: Method,
        path: &str,
        body: &mut [u8],
    ) -> Result<(u16, Option<(&'static str, u64)>), Failure> {
        let names: Vec<&str> = path.split('/').skip(1).collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| NO_CAMPAIGN);
        match (method, names.as_slice()) {
            (Method::Post, ["campaigns"]) => {
                let drafts = self.document(body, Draft::read_all).await?;
                let added = add(drafts).await?;
                Ok((201, Some(("added", added as u64))))
            }
            (Method::Put, ["campaigns", id]) => {
                let draft = self.document(body, Draft::read).await?;
                let version = put(number(id)?, draft).await?;
                Ok((200, Some(("version", version))))
            }
            (Method::Delete, ["campaigns", id]) => {
                let id = number(id)?;
                delete(id).await?;
                self.locks.borrow_mut().remove(&id);
                Ok((200, None))
            }
            (Method::Delete, ["campaigns", id, "ads", ad]) => {
                delete_ad(number(id)?, number(ad)?).await?;
                Ok((200, None))
            }
            (Method::Post, ["transfers"]) => {
                let read = |value: Value<'_, '_>| {
                    let number = |name| json::number(value, name).ok().flatten();
                    Some((number("from")?, number("to")?, number("amount")?))
                };
                let (from, to, amount) = self.document(body, read).await?;
                self.transfer(from, to, amount).await?;
                Ok((200, None))
            }
            (Method::Post, ["pacing"]) => {
                let changed = self.pace().await?;
                Ok((200, Some(("changed", changed as u64))))
            }
            (Method::Put, ["bidder"]) => {
                let read = |value: Value<'_, '_>| json::number(value, "latency_ms").ok().flatten();
                set_bidder(self.document(body, read).await?).await?;
                Ok((200, None))
            }
            (_, ["campaigns" | "transfers" | "pacing" | "bidder", ..]) => {
                Err((405, "the method is another"))
            }
            _ => Err((404, "there is no such path")),
        }
    }
}

impl Site for Api {
    async fn answer(&self, request: Request<'_>, out: &mut Replies) -> Option<u64> {
        match self
            .change(request.method, request.path, request.body)
            .await
        {
            Ok((status, Some((name, number)))) => out.reply(status, |out| {
                // Writes to a vector do not fail.
                let _ = write!(out, "{{\"{name}\":{number}}}");
            }),
            Ok((status, None)) => out.reply(status, |out| out.extend_from_slice(b"{}")),
            Err((status, why)) => out.error(status, why),
        }
        None
    }
}
