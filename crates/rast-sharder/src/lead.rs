//! How the leader of an epoch makes the next assignment from the load figures, in slices.
//!
//! The worker that promised last (`protocol/mod.rs`) is the leader, and goes through the stages
//! below. All members have promised, so no figure changes meanwhile.
//!
//! ```text
//! Collect ───→ Weigh ─────→ Begin ──→ Step ──→ Step … ──→ Check ───→ Copy ──────→ publish
//! 64 reports   64 shards    once      a budget each       some       8,192 owners    ↑
//! a slice      a slice                                    a slice    a slice         │
//!    └ the balancer needs no figures ────────────────────────────────────────────────┘
//! ```
//!
//! The leader runs one slice per round, between the turns of its own shards. If the sharder stops,
//! the work is dropped. If the balancer panics, the decision ends and the assignment stays. If
//! `report` panics for a shard, the figures of this shard are left out.
//!
//! The cost of the first four stages grows with the number of used shards, and includes the
//! balancer's own time. All stages are skipped for a balancer that would keep the assignment
//! whatever the figures are, for example if there is one worker. Check and Copy are for decisions
//! that move shards; Copy makes the table of owners that threads outside the sharder read.

mod changes;

use std::boxed::Box;
use std::format;
use std::string::String;
use std::vec::Vec;

use self::changes::{Check, Checks, Copying, Next};
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
use crate::timers::{Nanos, StartFinishTimer, Tick, TimerConfig};

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
    checks: Checks,
    timer: StartFinishTimer<CoreClock>,
}

impl Desk {
    pub(crate) fn new(
        balancer: Box<dyn Balancer>,
        workers: usize,
        shards: usize,
        pins: Vec<(ShardId, WorkerId)>,
        dedicated: &[WorkerId],
        core: Arc<Core>,
    ) -> Self {
        let mut view = LoadView::new(workers, shards);
        for &worker in dedicated {
            view.dedicate(worker);
        }
        for (shard, worker) in pins {
            view.add_pin(shard, worker);
        }
        Self {
            balancer,
            view,
            turns: std::vec![0.0; workers],
            checks: Checks::new(shards),
            timer: StartFinishTimer::new(CoreClock(core), TimerConfig::new()),
        }
    }
}

/// A place in the lists of used shards of all workers.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    worker: usize,
    at: usize,
}

impl Cursor {
    fn next_worker(self) -> Self {
        Self {
            worker: self.worker + 1,
            at: 0,
        }
    }
}

#[derive(Debug)]
enum Stage {
    /// The balancer is asked whether it needs figures; if so, as `Collect` from the start.
    Ask,
    Collect(Cursor),
    Weigh(Cursor),
    Begin,
    Step {
        done: usize,
    },
    Check(Check),
    Copy(Copying),
}

/// The result of a slice.
enum Then {
    Go(Stage),
    /// The assignment stays.
    Keep,
    Change(Next),
    /// The decision is rejected, for this reason.
    Reject(String),
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
    Decided(Leader, Option<Next>),
}

impl Lead {
    pub(crate) fn new(leader: Leader, core: &Core) -> Self {
        core.totals.decisions.add(1);
        Self {
            leader,
            stage: Stage::Ask,
        }
    }

    /// Runs one slice.
    ///
    /// # Safety
    ///
    /// 1. `desk` is the sharder's, `slots` are its slots, and `member` leads
    ///    with the leader in `self`; and
    /// 2. the caller has no borrow of any measure or window.
    pub(crate) unsafe fn slice<C: Controller>(
        self,
        desk: &mut Desk,
        member: &Member,
        core: &Core,
        controller: &C,
        slots: &Slots<C::Shard, C::Load>,
        tick: &Tick,
    ) -> Slice {
        let Self { leader, stage } = self;
        desk.timer.start(tick);
        let then = match stage {
            Stage::Ask => match ask(desk, member, core) {
                Ok(true) => {
                    // SAFETY: the obligations of this function.
                    Then::Go(unsafe {
                        collect(Cursor::default(), desk, member, core, controller, slots)
                    })
                }
                unneeded => {
                    // SAFETY: the obligations of this function.
                    let used = unsafe { count_used(desk, slots) };
                    core.totals.last_used.set(used);
                    match unneeded {
                        Ok(_) => Then::Keep,
                        Err(why) => Then::Reject(why),
                    }
                }
            },
            Stage::Collect(cursor) => {
                // SAFETY: the obligations of this function.
                Then::Go(unsafe { collect(cursor, desk, member, core, controller, slots) })
            }
            Stage::Weigh(cursor) => {
                // SAFETY: the obligations of this function.
                Then::Go(unsafe { weigh(cursor, desk, slots) })
            }
            Stage::Begin => {
                let begun = member.with_assignment(|current| {
                    contain(|| desk.balancer.begin(&desk.view, current))
                });
                match begun {
                    Ok(()) => Then::Go(Stage::Step { done: 0 }),
                    Err(payload) => Then::Reject(panicked(core, member, payload)),
                }
            }
            Stage::Step { done } => step(done, desk, member, core),
            Stage::Check(mut check) => {
                let checked = member
                    .with_assignment(|current| check.slice(current, &desk.view, &mut desk.checks));
                match checked {
                    None => Then::Go(Stage::Check(check)),
                    Some(Err(why)) => Then::Reject(why),
                    Some(Ok(())) => match check.checked() {
                        None => Then::Keep,
                        Some(Ok(next)) => Then::Change(next),
                        Some(Err(copying)) => Then::Go(Stage::Copy(copying)),
                    },
                }
            }
            Stage::Copy(mut copying) => {
                match member.with_assignment(|current| copying.slice(current)) {
                    None => Then::Go(Stage::Copy(copying)),
                    Some(next) => Then::Change(next),
                }
            }
        };
        desk.timer.finish(tick);
        core.totals.deciding.set(desk.timer.sum().as_nanos());
        match then {
            Then::Go(stage) => Slice::More(Self { leader, stage }),
            Then::Keep => Slice::Decided(leader, None),
            Then::Change(next) => Slice::Decided(leader, Some(next)),
            Then::Reject(why) => {
                core.rejected(why);
                Slice::Decided(leader, None)
            }
        }
    }
}

/// Empties the desk, and returns whether the balancer needs figures; an error if it panicked.
///
/// The answer applies to the thread times of the next window too, because reading them costs each
/// worker two system calls.
fn ask(desk: &mut Desk, member: &Member, core: &Core) -> Result<bool, String> {
    desk.view.clear();
    desk.turns.fill(0.0);
    let Desk { balancer, view, .. } = desk;
    let needs_figures = member
        .with_assignment(|current| contain(|| balancer.needs_figures(view, current)))
        .map_err(|payload| panicked(core, member, payload));
    core.set_needs_figures(needs_figures != Ok(false));
    needs_figures
}

/// Returns the number of used shards.
///
/// # Safety
///
/// As of [`Lead::slice`].
unsafe fn count_used<S: Send, L: Send>(desk: &Desk, slots: &Slots<S, L>) -> u64 {
    let workers = (0..desk.turns.len()).map(WorkerId::from_index);
    // A dedicated worker makes no promise, so its window may change.
    let members = workers.filter(|&worker| !desk.view.is_dedicated(worker));
    let used = members.map(|worker| {
        // SAFETY: obligation 1: this worker leads, and `worker` has promised; obligation 2, and
        // this borrow ends here.
        let window = unsafe { slots.window(worker) };
        window.used.len() as u64
    });
    used.sum()
}

/// Collects the reports of some used shards.
///
/// # Safety
///
/// As of [`Lead::slice`].
unsafe fn collect<C: Controller>(
    mut cursor: Cursor,
    desk: &mut Desk,
    member: &Member,
    core: &Core,
    controller: &C,
    slots: &Slots<C::Shard, C::Load>,
) -> Stage {
    for _ in 0..REPORTS_PER_SLICE {
        if cursor.worker == desk.turns.len() {
            core.totals.last_used.set(desk.view.used().len() as u64);
            return Stage::Weigh(Cursor::default());
        }
        let worker = WorkerId::from_index(cursor.worker);
        if desk.view.is_dedicated(worker) {
            // It makes no promise, so its figures may change.
            cursor = cursor.next_worker();
            continue;
        }
        // SAFETY: obligation 1: this worker leads, and `worker` has promised; obligation 2, and
        // each iteration of the loop ends its borrow.
        let window = unsafe { slots.window(worker) };
        let Some(&shard) = window.used.get(cursor.at) else {
            desk.view.set_worker_window(worker, window.length());
            cursor = cursor.next_worker();
            continue;
        };
        cursor.at += 1;
        // SAFETY: as above.
        let measure = unsafe { slots.measure(shard) };
        debug_assert_eq!(measure.number, window.number, "it is of this window");
        if measure.is_stale {
            // It is listed as a shard that was not measured.
            desk.view.report(shard, Nanos::ZERO);
            continue;
        }
        let length = window.length_from(measure.since);
        let traffic = desk.view.traffic().len();
        let mut out = desk.view.report(shard, length);
        let load = &measure.load;
        if let Err(payload) = contain(|| controller.report(shard, load, &mut out)) {
            let text = message(&*payload);
            discard(payload);
            core.panicked(member.worker(), Some(shard), Hook::Report, text);
            desk.view.withdraw(shard, traffic);
            continue;
        }
        desk.turns[worker.index()] += desk.view.turns(shard);
    }
    Stage::Collect(cursor)
}

/// Weighs the loads of some used shards, after all reports.
///
/// # Safety
///
/// As of [`Lead::slice`].
unsafe fn weigh<S: Send, L: Send>(
    mut cursor: Cursor,
    desk: &mut Desk,
    slots: &Slots<S, L>,
) -> Stage {
    for _ in 0..REPORTS_PER_SLICE {
        if cursor.worker == desk.turns.len() {
            return Stage::Begin;
        }
        let worker = WorkerId::from_index(cursor.worker);
        if desk.view.is_dedicated(worker) {
            cursor = cursor.next_worker();
            continue;
        }
        // SAFETY: obligations 1 and 2, as for the reports.
        let window = unsafe { slots.window(worker) };
        let Some(&shard) = window.used.get(cursor.at) else {
            cursor = cursor.next_worker();
            continue;
        };
        cursor.at += 1;
        // SAFETY: as above.
        let measure = unsafe { slots.measure(shard) };
        let turns = desk.turns[worker.index()];
        desk.view.weigh(shard, measure.ready, window.spent, turns);
    }
    Stage::Weigh(cursor)
}

/// Lets the balancer work for a slice.
fn step(done: usize, desk: &mut Desk, member: &Member, core: &Core) -> Then {
    let decided = member.with_assignment(|current| {
        match contain(|| desk.balancer.step(&desk.view, current, BUDGET)) {
            Ok(Decision::Pending) => None,
            Ok(Decision::Keep) => Some(Then::Keep),
            Ok(Decision::Adopt(next)) if !next.fits(current) => Some(Then::Reject(format!(
                "the balancer returned {} shards over {} workers for {} over {}",
                next.shards(),
                next.workers(),
                current.shards(),
                current.workers(),
            ))),
            Ok(Decision::Adopt(next)) => Some(Then::Go(Stage::Check(Check::of_owners(next)))),
            Ok(Decision::Move(moves)) => {
                let check = Check::of_moves(moves, &mut desk.checks);
                Some(Then::Go(Stage::Check(check)))
            }
            Err(payload) => Some(Then::Reject(panicked(core, member, payload))),
        }
    });
    let most = LEAST_MOST_SLICES + desk.view.shards() + desk.view.traffic().len();
    match decided {
        Some(then) => then,
        None if done >= most => {
            Then::Reject(format!("the balancer came to no decision in {most} slices"))
        }
        None => Then::Go(Stage::Step { done: done + 1 }),
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
pub(crate) fn publish(member: &mut Member, core: &Core, leader: Leader, next: Option<Next>) {
    let Next { changes, owners } = next.unwrap_or_default();
    core.totals.moves.add(changes.len() as u64);
    core.totals.last_moves.set(changes.len() as u64);
    // Before the epoch opens, because after that another worker may lead the next epoch and store
    // first.
    if let Some(assignment) = owners {
        core.published.store(Published {
            epoch: member.epoch().wrapping_add(1),
            assignment,
        });
    }
    core.totals.epochs.add(1);
    member.publish_changes(leader, &changes);
}
