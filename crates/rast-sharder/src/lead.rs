//! Leading an epoch: from frozen figures to the next assignment, in slices.
//!
//! The worker that promised last goes through the stages
//!
//! ```text
//! Collect ────────────→ Weigh ─────────────→ Begin ──→ Step ──→ Step … ──→ publish
//! 64 reports a slice    64 shards a slice    once      a budget each
//! ```
//!
//! one slice per round, between the turns of its own shards. A stop may come at any point and drops
//! the work. A failure of user code ends the decision and keeps the assignment.

use std::boxed::Box;
use std::format;
use std::string::String;
use std::vec::Vec;

use crate::assignment::Assignment;
use crate::balance::{Balancer, Decision};
use crate::controller::Controller;
use crate::core_state::{Core, CoreClock, Published};
use crate::ids::{ShardId, WorkerId};
use crate::load::LoadView;
use crate::panics::{Hook, message};
use crate::primitive::panics::{contain, discard};
use crate::primitive::sync::Arc;
use crate::protocol::{Leader, Member};
use crate::slots::Slots;
use crate::timers::{StartFinishTimer, Tick, TimerConfig};

/// Number of shards that a slice collects or weighs.
const REPORTS_PER_SLICE: usize = 64;

/// Budget of a slice of the balancer.
const BUDGET: usize = 256;

/// Minimum of the maximum number of slices of a decision; one per shard and one per pair that
/// exchanges messages are added. Past it the decision is given up.
const LEAST_MOST_SLICES: usize = 4_096;

/// State that each leader leaves to the next. Only the leader accesses it.
pub(crate) struct Desk {
    balancer: Box<dyn Balancer>,
    view: LoadView,
    /// Time of the turns that the shards of a worker reported, in nanoseconds, by worker.
    turns: Vec<f64>,
    timer: StartFinishTimer<CoreClock>,
}

impl Desk {
    pub(crate) fn new(
        balancer: Box<dyn Balancer>,
        workers: usize,
        shards: usize,
        pins: Vec<(ShardId, WorkerId)>,
        core: Arc<Core>,
    ) -> Self {
        let mut view = LoadView::new(workers, shards);
        for (shard, worker) in pins {
            view.add_pin(shard, worker);
        }
        Self {
            balancer,
            view,
            turns: std::vec![0.0; workers],
            timer: StartFinishTimer::new(CoreClock(core), TimerConfig::new()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Collect { next: usize },
    Weigh { next: usize },
    Begin,
    Step { done: usize },
}

/// A decision in progress.
#[derive(Debug)]
pub(crate) struct Lead {
    leader: Leader,
    stage: Stage,
}

/// Result of a slice.
#[derive(Debug)]
pub(crate) enum Slice {
    More(Lead),
    Decided(Leader, Option<Assignment>),
}

impl Lead {
    pub(crate) fn new(leader: Leader, core: &Core) -> Self {
        core.totals.decisions.add(1);
        Self {
            leader,
            stage: Stage::Collect { next: 0 },
        }
    }

    /// Runs one slice.
    ///
    /// # Safety
    ///
    /// 1. `desk` is the sharder's, `slots` are its slots, and `member` leads
    ///    with the leader in `self`; and
    /// 2. the caller has no borrow of any measure.
    pub(crate) unsafe fn slice<C: Controller>(
        mut self,
        desk: &mut Desk,
        member: &Member,
        core: &Core,
        controller: &C,
        slots: &Slots<C::Shard, C::Load>,
        tick: &Tick,
    ) -> Slice {
        desk.timer.start(tick);
        let decided = match self.stage {
            Stage::Collect { next } => {
                if next == 0 {
                    desk.view.clear();
                    desk.turns.fill(0.0);
                }
                let end = slots.len().min(next + REPORTS_PER_SLICE);
                for shard in (next..end).map(ShardId::from_index) {
                    // SAFETY: obligation 1: this worker leads; obligation 2, and each iteration of
                    // the loop ends its borrow.
                    let measure = unsafe { slots.measure(shard) };
                    let window = measure.window();
                    let traffic = desk.view.traffic().len();
                    let mut out = desk.view.report(shard, window);
                    if measure.is_muted {
                        continue;
                    }
                    let load = &measure.load;
                    if let Err(payload) = contain(|| controller.report(shard, load, &mut out)) {
                        let text = message(&*payload);
                        discard(payload);
                        core.panicked(member.worker(), Some(shard), Hook::Report, text);
                        desk.view.withdraw(shard, traffic);
                        continue;
                    }
                    let worker = member.with_assignment(|current| current.owner(shard));
                    desk.turns[worker.index()] += desk.view.turns(shard);
                }
                self.stage = match end == slots.len() {
                    true => Stage::Weigh { next: 0 },
                    false => Stage::Collect { next: end },
                };
                None
            }
            Stage::Weigh { next } => {
                let end = slots.len().min(next + REPORTS_PER_SLICE);
                for shard in (next..end).map(ShardId::from_index) {
                    // SAFETY: obligations 1 and 2, as for the reports.
                    let measure = unsafe { slots.measure(shard) };
                    // A report that was withdrawn has no window.
                    if measure.is_muted || desk.view.window(shard).is_zero() {
                        continue;
                    }
                    let (asked, spent) = measure.asked();
                    let worker = member.with_assignment(|current| current.owner(shard));
                    let turns = desk.turns[worker.index()];
                    desk.view.weigh(shard, asked, spent, turns);
                }
                self.stage = match end == slots.len() {
                    true => Stage::Begin,
                    false => Stage::Weigh { next: end },
                };
                None
            }
            Stage::Begin => {
                let begun = member.with_assignment(|current| {
                    contain(|| desk.balancer.begin(&desk.view, current))
                });
                self.stage = Stage::Step { done: 0 };
                begun
                    .err()
                    .map(|payload| Err(panicked(core, member, payload)))
            }
            Stage::Step { done } => {
                let step = member.with_assignment(|current| {
                    let step = contain(|| desk.balancer.step(&desk.view, current, BUDGET));
                    match step {
                        Ok(Decision::Pending) => None,
                        Ok(Decision::Keep) => Some(Ok(None)),
                        Ok(Decision::Adopt(next)) if !next.fits(current) => Some(Err(format!(
                            "the balancer returned {} shards over {} workers for {} over {}",
                            next.shards(),
                            next.workers(),
                            current.shards(),
                            current.workers(),
                        ))),
                        Ok(Decision::Adopt(next)) if next == *current => Some(Ok(None)),
                        Ok(Decision::Adopt(next)) => {
                            let mut pins = desk.view.pins().iter();
                            let moved = pins.find(|pin| next.owner(pin.0) != pin.1);
                            Some(match moved {
                                None => Ok(Some(next)),
                                Some((shard, worker)) => Err(format!(
                                    "the balancer moved {shard}, which is pinned to {worker}"
                                )),
                            })
                        }
                        Err(payload) => Some(Err(panicked(core, member, payload))),
                    }
                });
                let most = LEAST_MOST_SLICES + slots.len() + desk.view.traffic().len();
                self.stage = Stage::Step { done: done + 1 };
                match step {
                    None if done >= most => Some(Err(format!(
                        "the balancer came to no decision in {most} slices"
                    ))),
                    step => step,
                }
            }
        };
        desk.timer.finish(tick);
        core.totals.deciding.set(desk.timer.sum().as_nanos());
        match decided {
            None => Slice::More(self),
            Some(Ok(next)) => Slice::Decided(self.leader, next),
            Some(Err(why)) => {
                core.rejected(why);
                Slice::Decided(self.leader, None)
            }
        }
    }
}

/// Records a balancer's panic; returns why its decision is rejected.
#[cold]
fn panicked(core: &Core, member: &Member, payload: crate::PanicPayload) -> String {
    let text = message(&*payload);
    discard(payload);
    let why = format!("the balancer panicked: {text}");
    core.panicked(member.worker(), None, Hook::Balancer, text);
    why
}

/// Publishes the decision, to the workers and to readers outside.
pub(crate) fn publish(member: &mut Member, core: &Core, leader: Leader, next: Option<Assignment>) {
    let moved = match &next {
        Some(next) => member.with_assignment(|current| next.moved_from(current)),
        None => 0,
    };
    let epoch = member.epoch().wrapping_add(1);
    core.totals.moves.add(moved as u64);
    core.totals.last_moves.set(moved as u64);
    // Before the epoch opens, because after that another worker may lead the next epoch and store
    // first.
    if let Some(assignment) = &next {
        core.published.store(Published {
            epoch,
            assignment: assignment.clone(),
        });
    }
    core.totals.epochs.add(1);
    member.publish(leader, next.as_ref());
}
