//! Transfers of budget between two campaigns, under a lock of each.
//!
//! A transfer takes the locks in the order of the request, and then asks the ads reactors what was
//! spent. Reactor 0 serves other requests meanwhile. So two transfers in opposite directions may
//! wait for each other. The lock that would close the cycle is refused, and its request begins
//! again after a pause.

use std::rc::Rc;
use std::time::Duration;

use rast::reactor::registry::change;
use rast::reactor::{Deadlock, Lock, Retry};

use crate::api::{Api, commit, find};
use crate::events::Event;
use crate::http::Failure;
use crate::spending;

/// The pause after a deadlock, with up to a half more or less. The default is a second.
const PAUSE: Duration = Duration::from_millis(20);

impl Api {
    fn lock_of(&self, campaign: u64) -> Rc<Lock<()>> {
        let mut locks = self.locks.borrow_mut();
        Rc::clone(locks.entry(campaign).or_default())
    }

    /// Moves budget that `from` has not spent.
    pub(crate) async fn transfer(&self, from: u64, to: u64, amount: u64) -> Result<(), Failure> {
        // Campaigns that are missing leave no locks behind, and nothing waits for itself.
        {
            let changes = change();
            find(&changes, from)?;
            find(&changes, to)?;
        }
        if from == to {
            return Err((409, "the two campaigns are one"));
        }
        let locks = (self.lock_of(from), self.lock_of(to));
        let noted = |deadlock: Deadlock| {
            self.events.add(Event::Deadlock);
            deadlock
        };
        let moved = Retry::new()
            .wait(PAUSE)
            .run(async |scope| {
                let _from = locks.0.exclusive(scope).await.map_err(noted)?;
                self.events.add(Event::TransferHolds);
                let spent = spending::of(from).await;
                let _to = locks.1.exclusive(scope).await.map_err(noted)?;
                Ok::<_, Deadlock>(shift(from, to, amount, spent).await)
            })
            .await;
        moved.unwrap_or(Err((503, "the transfer met others twice")))
    }
}

async fn shift(from: u64, to: u64, amount: u64, spent: u64) -> Result<(), Failure> {
    let mut changes = change();
    let (source, campaign) = find(&changes, from)?;
    if campaign.budget.saturating_sub(spent) < amount {
        return Err((409, "the budget is spent"));
    }
    let (target, _) = find(&changes, to)?;
    let _ = changes.update(source, |campaign| campaign.budget -= amount);
    let _ = changes.update(target, |campaign| {
        campaign.budget = campaign.budget.saturating_add(amount);
    });
    for id in [source, target] {
        let _ = changes.update(id, |campaign| campaign.version += 1);
    }
    commit(changes).await
}
