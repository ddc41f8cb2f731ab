//! Draining: bringing a graph to rest.
//!
//! ```text
//!   close the doors ─► no more pings ─► quiet? ─► flush stage 0 ─► quiet? ─► flush stage 1 ─► ..
//! ```
//!
//! *Quiet* means that all sent messages have been handled, and that no message waits at its sender
//! for room in a lane. `counter.rs` has the argument for the check of the first condition. The
//! second condition is checked after the first one. A waiting message is counted as waiting before
//! the message whose handler sent it is counted as handled. So when all sent messages are counted
//! as handled, all waiting messages are counted too.

use core::fmt;
use core::time::Duration;

use crate::ending::EndedBy;
use crate::graph::{EdgeInfo, End};
use crate::report::Report;
use crate::sharder::ShardId;
use crate::stages::Stage;
use crate::view::View;

/// How long `drain` sleeps between two checks.
pub(crate) const LOOK: Duration = Duration::from_micros(200);

/// The reason why a graph did not come to rest with all messages delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DrainCause {
    /// The deadline passed first.
    Deadline,
    /// Another cause ended the graph first.
    Ended(EndedBy),
    /// A handler of the graph called `drain`: it must return before the graph can come to rest. The
    /// graph was stopped, without waiting for it.
    Handler,
    /// The graph came to rest, but some messages reached no handler, because their processor was
    /// retired.
    Lost,
}

impl fmt::Display for DrainCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("the deadline came before the graph was at rest"),
            Self::Ended(by) => write!(f, "the graph ended before it was at rest: {by}"),
            Self::Handler => {
                f.write_str("a handler of the graph called, which has to return before it can rest")
            }
            Self::Lost => f.write_str("the graph came to rest, and not all was delivered"),
        }
    }
}

/// Where messages waited when a drain gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// The edge.
    pub edge: &'static EdgeInfo,
    /// On an edge to egress, the lane whose receiver does not receive, if known.
    pub lane: Option<usize>,
    /// The number of messages that waited on the edge.
    pub messages: u64,
    /// Whether the receiver of the lane was never requested by
    /// [`Handle::egress`](crate::Handle::egress).
    pub is_unrequested: bool,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages wait on {}", self.messages, self.edge)?;
        match self.lane {
            Some(lane) if self.is_unrequested => write!(
                f,
                ", lane {lane}, whose receiver was never requested: call `Handle::egress` before \
                 messages are sent"
            ),
            Some(lane) => write!(f, ", lane {lane}, which its receiver does not empty"),
            None => Ok(()),
        }
    }
}

/// A drain lost messages, or ended before the graph was at rest.
///
/// Its `Debug` output, which is what a `main` that returns it prints, has the cause and the losses
/// instead of the whole report.
#[derive(Clone)]
#[non_exhaustive]
pub struct DrainError {
    /// The reason.
    pub cause: DrainCause,
    /// Where other messages waited, if any did.
    pub blocked: Option<Blocked>,
    /// The report, with what was lost.
    pub report: Box<Report>,
}

impl fmt::Display for DrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)?;
        let report = &self.report;
        let lost = report.undelivered_total();
        if let Some(most) = report.undelivered.iter().max_by_key(|lost| lost.messages) {
            write!(
                f,
                "\n{lost} messages were not delivered, {} of them of {}",
                most.messages, most.edge
            )?;
        }
        if let Some(blocked) = &self.blocked {
            write!(f, "\n{blocked}")?;
        }
        if let Some(panic) = report.panics.first() {
            let text = panic.message.lines().next().unwrap_or_default();
            let (name, replica) = (panic.processor, panic.replica);
            let count: u64 = report.panics.iter().map(|panic| panic.count).sum();
            write!(
                f,
                "\n{count} panics, the first in {name}[{replica}]: {text}"
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for DrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocked = self.blocked.map(|blocked| blocked.to_string());
        f.debug_struct("DrainError")
            .field("cause", &self.cause)
            .field("blocked", &blocked)
            .field("undelivered", &self.report.undelivered_total())
            .field("panics", &self.report.panics)
            .finish_non_exhaustive()
    }
}

impl core::error::Error for DrainError {}

/// A drain in progress.
pub(crate) struct Drain<'a> {
    pub(crate) view: &'a View,
    /// Lets other threads work for a moment; returns `false` once the drain must give up.
    pub(crate) pause: &'a mut dyn FnMut() -> bool,
}

impl Drain<'_> {
    /// Waits until all accepted messages are handled and flushed.
    pub(crate) fn settle(&mut self, stages: &[Stage]) -> Result<(), DrainCause> {
        for door in self.view.closers.iter().flatten() {
            door.close();
        }
        self.view.shared.calm.ask();
        self.rest()?;
        for stage in stages {
            loop {
                let before = self.view.shared.sent();
                self.flush(stage)?;
                if !stage.is_cyclic || self.view.shared.sent() == before {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Requests a flush of the processors of a stage, and waits until their messages are handled.
    /// An instance that waits for its restart answers after its `on_start` and its flush. Their
    /// messages go to this stage or a later one, and are counted before the answer.
    fn flush(&mut self, stage: &Stage) -> Result<(), DrainCause> {
        let view = self.view;
        let shared = &view.shared;
        let nodes = stage.processors.iter();
        let shards: Vec<usize> = nodes.flat_map(|&node| shared.shards_of(node)).collect();
        for &shard in &shards {
            shared.stats[shard].flushes_asked.add_after(1);
            view.sharder.wake(ShardId::from_index(shard));
        }
        self.wait(|| {
            shards.iter().all(|&shard| {
                let stats = &shared.stats[shard];
                stats.flushes.get_after() == stats.flushes_asked.get()
            })
        })?;
        self.rest()
    }

    /// Waits until no message is in flight.
    fn rest(&mut self) -> Result<(), DrainCause> {
        let view = self.view;
        self.wait(|| {
            let spent = view.closers.iter().flatten().all(|door| door.is_spent());
            let seen = view.shared.calm.all_see();
            if !seen {
                // A sleeping worker has not seen it, nor one that holds no shard.
                view.sharder.notify_all();
            }
            spent && seen && view.shared.is_quiet() && view.shared.kept() == 0
        })
    }

    fn wait(&mut self, is_done: impl Fn() -> bool) -> Result<(), DrainCause> {
        loop {
            if self.view.sharder.is_stopping() {
                let by = self.view.shared.ending.stopped_by();
                return Err(DrainCause::Ended(by.unwrap_or(EndedBy::Fault)));
            }
            if is_done() {
                return Ok(());
            }
            if !(self.pause)() {
                return Err(DrainCause::Deadline);
            }
        }
    }

    /// Finds the edge that blocks the other edges. This is an edge with a full lane, if there is
    /// one. Otherwise it is the edge with messages whose receiver is furthest downstream, and of
    /// several such edges the one with most messages.
    ///
    /// `is_unrequested`: returns whether the receiver of a lane of an edge was never requested.
    pub(crate) fn blocked(
        &self,
        stages: &[Stage],
        is_unrequested: impl Fn(usize, usize) -> bool,
    ) -> Option<Blocked> {
        let metrics = self.view.metrics();
        let waiting = metrics.edges.iter().enumerate();
        let waiting = waiting.filter(|(_, counts)| counts.depth > 0);
        let place = |end: End| match end {
            End::Processor(node) => stages
                .iter()
                .position(|stage| stage.processors.contains(&node)),
            End::Ingress | End::Egress => None,
        };
        let has_kept = self.view.shared.kept() > 0;
        let shards_of = |node| self.view.shared.shards_of(node);
        let blocked = waiting.filter_map(|(number, counts)| {
            let edge = counts.edge;
            let lanes = &self.view.lanes[number];
            let mut lane = lanes.iter().position(|lane| lane.is_waited_for());
            let rank = match edge.to {
                End::Egress if lane.is_some() => usize::MAX,
                // No sender waits for its room.
                End::Egress if edge.kind.is_lossy() => return None,
                End::Egress => {
                    // A sender that runs may find too little room for a burst, or keep messages
                    // without room, and wait then.
                    let senders = edge
                        .from
                        .processor()
                        .map_or(1, |from| shards_of(from).len());
                    let rings = (senders * lanes.len()) as u64;
                    let most = edge.capacity.saturating_sub(edge.burst) as u64;
                    if counts.depth <= rings.saturating_mul(most) && !has_kept {
                        return None;
                    }
                    lane = lanes.iter().position(|lane| lane.has_news());
                    usize::MAX - 1
                }
                to => place(to)?,
            };
            let found = Blocked {
                edge,
                lane,
                messages: counts.depth,
                is_unrequested: lane.is_some_and(|lane| is_unrequested(number, lane)),
            };
            Some((rank, found))
        });
        let last = blocked.max_by_key(|&(rank, found)| (rank, found.messages));
        last.map(|(_, found)| found)
    }
}
