//! The resources of the ad server: what reactor 0 changes and all reactors read.
//!
//! ```text
//!   key 7 ──► Campaign { bid, pacing, ads } ──id of a list──► Children<Ad> ──ids──► Ad, Ad, ..
//! ```
//!
//! A change of an ad copies neither its list nor its campaign. An added ad copies only the list.

use rast::reactor::registry::{Children, Id, NoKey, Read, Resource, Resources};

/// Where an ad is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    Top,
    Side,
    Foot,
}

impl Slot {
    pub(crate) const ALL: [Self; 3] = [Self::Top, Self::Side, Self::Foot];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Top => "top",
            Self::Side => "side",
            Self::Foot => "foot",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|slot| slot.name() == name)
    }
}

/// The pacing of a campaign that has spent nothing, in thousandths.
pub(crate) const PACING_FULL: u64 = 1000;

/// A campaign; its key is its number.
#[derive(Clone, Debug)]
pub(crate) struct Campaign {
    pub(crate) id: u64,
    /// What an ad shown costs.
    pub(crate) bid: u64,
    pub(crate) budget: u64,
    /// How much of the bid counts, in thousandths: what the batch made of budget and spending.
    pub(crate) pacing: u64,
    /// How often it was changed.
    pub(crate) version: u64,
    pub(crate) ads: Id<Children<Ad>>,
}

impl Resource for Campaign {
    type Key = u64;
}

/// What is shown.
#[derive(Clone, Debug)]
pub(crate) struct Ad {
    pub(crate) id: u64,
    pub(crate) slot: Slot,
    pub(crate) text: Box<str>,
}

impl Resource for Ad {
    type Key = NoKey;

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

/// How the simulated bidder behaves; its key is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bidder {
    pub(crate) latency_ms: u64,
}

impl Resource for Bidder {
    type Key = u64;
}

/// The types, all owned by reactor 0.
pub(crate) fn resources() -> Resources {
    Resources::new()
        .own::<Campaign>(0)
        .own::<Ad>(0)
        .own::<Children<Ad>>(0)
        .own::<Bidder>(0)
}

/// The score of a campaign: 0 if it shows nothing.
pub(crate) fn score(bid: u64, pacing: u64) -> u64 {
    bid.saturating_mul(pacing) / PACING_FULL
}

/// The ad of a list that is shown in a slot: the first one.
pub(crate) fn ad_of(read: &Read, list: Id<Children<Ad>>, slot: Slot) -> Option<&Ad> {
    read.children(list)
        .map(|(_, ad)| ad)
        .find(|ad| ad.slot == slot)
}
