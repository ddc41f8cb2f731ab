//! What campaigns have spent: each ads reactor counts its own part, reactor 0 asks for all.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rast::reactor::reactors_task;

use crate::edge::Edge;

thread_local! {
    /// The edge of the reactor of this thread, for calls from reactor 0.
    static EDGE: RefCell<Option<Rc<Edge>>> = const { RefCell::new(None) };
}

/// Lets calls from reactor 0 find the edge of this reactor.
pub(crate) fn publish(edge: &Rc<Edge>) {
    EDGE.set(Some(Rc::clone(edge)));
}

/// Asks the ads reactors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spending;

impl Spending {
    /// What each campaign has spent.
    pub(crate) async fn all(self) -> HashMap<u64, u64> {
        let parts = reactors_task(|| async {
            let edge = EDGE.with_borrow(Clone::clone);
            edge.map(|edge| edge.spent.borrow().clone())
                .unwrap_or_default()
        });
        let mut all = HashMap::new();
        for (campaign, spent) in parts.await.into_iter().flatten().flatten() {
            *all.entry(campaign).or_default() += spent;
        }
        all
    }

    /// What one campaign has spent.
    pub(crate) async fn of(self, campaign: u64) -> u64 {
        let parts = reactors_task(move || async move {
            let edge = EDGE.with_borrow(Clone::clone);
            edge.and_then(|edge| edge.spent.borrow().get(&campaign).copied())
        });
        parts.await.into_iter().flatten().flatten().sum()
    }
}
