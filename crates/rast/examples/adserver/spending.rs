//! What campaigns have spent: each ads reactor counts its own part, reactor 0 asks for all.

use std::collections::HashMap;

use rast::reactor::reactors_task;

use crate::edge;

/// What each campaign has spent.
pub(crate) async fn all() -> HashMap<u64, u64> {
    let parts = reactors_task(|| async {
        let edge = edge::here();
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
pub(crate) async fn of(campaign: u64) -> u64 {
    let parts = reactors_task(move || async move {
        let edge = edge::here();
        edge.and_then(|edge| edge.spent.borrow().get(&campaign).copied())
    });
    parts.await.into_iter().flatten().flatten().sum()
}
