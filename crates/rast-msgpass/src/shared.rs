//! What all threads of a running graph share: tables, counts, the record of
//! what went wrong.
//!
//! Nothing here is on a hot path except the counts, each of which lives on
//! cache lines of the processor that writes it.

use std::any::Any;

use crate::calm::Calm;
use crate::check::layout;
use crate::clock::GraphClock;
use crate::counter::{Counter, Counters};
use crate::deaths::Deaths;
use crate::ending::{EndedBy, Ending};
use crate::graph::{EdgeInfo, End, ProcessorInfo, Tables};
use crate::panics;
use crate::policy::{OnFailure, Policy};
use crate::primitive::CachePadded;
use crate::primitive::panics::contain;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::thread::{self, ThreadId};
use crate::report::PanicRecord;
use crate::sends::answers_to;
use crate::sharder::ShardId;
use crate::ticket::Wakes;
use crate::timers::{Clock, Instant};
use crate::times::Times;
use crate::trace::Trace;

/// Takes a message that could not be delivered.
pub(crate) type Undelivered = Box<dyn Fn(&'static EdgeInfo, Box<dyn Any + Send>) + Send + Sync>;

/// The program's hooks for failures, and the share of messages that is measured.
#[derive(Default)]
pub(crate) struct Hooks {
    /// One message of this many is measured; none if it is zero.
    pub(crate) one_in: u32,
    pub(crate) on_failure: Option<OnFailure>,
    pub(crate) on_undelivered: Option<Undelivered>,
}

/// The counts of one instance of a processor.
pub(crate) type Stats = CachePadded<Counts>;

/// The counts of one instance. Most turns write only the first cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Counts {
    /// Per edge that leaves, in the order of the declaration.
    pub(crate) sent: Counters,
    /// Per edge that enters: handled, or given up.
    pub(crate) received: Counters,
    pub(crate) turns: Counter,
    pub(crate) busy_ns: Counter,
    /// Per edge that enters: taken from a door. Zero for edges within the graph.
    pub(crate) entered: Counters,
    /// Per edge that leaves: dropped for lack of room.
    pub(crate) dropped: Counters,
    /// Per edge that leaves, if it carries answers: requests waived.
    pub(crate) waived: Counters,
    /// Per edge that leaves, if it carries answers: the time since which the oldest request with a
    /// token is kept, in nanoseconds of the clock, plus one. Zero if none is kept.
    pub(crate) since: Counters,
    /// Per edge that leaves: the same for requests without an answer, per receiver, or for all
    /// that share an inbox. Empty if the edge carries no requests.
    pub(crate) asked: Box<[CachePadded<Counters>]>,
    pub(crate) pings: Counter,
    pub(crate) gated: Counter,
    pub(crate) panics: Counter,
    pub(crate) restarts: Counter,
    /// Number of flushes that a drain requested. Written by the thread that drains.
    pub(crate) flushes_asked: Counter,
    /// How many of these were answered.
    pub(crate) flushes: Counter,
    /// Messages to egress that found no room and wait beside the instance.
    pub(crate) kept: Counter,
    /// If messages are measured.
    pub(crate) times: Option<Times>,
}

#[cfg(not(rast_loom))]
const _: () = assert!(
    core::mem::offset_of!(Counts, entered) <= 64,
    "the counts of most turns are in one line"
);

impl Counts {
    /// `asked`: per edge that leaves, the number of counts of its requests.
    fn new(asked: &[usize], incoming: usize, times: Option<Times>) -> Self {
        let outgoing = asked.len();
        Self {
            times,
            asked: (asked
                .iter()
                .map(|&counts| CachePadded::new(Counters::new(counts))))
            .collect(),
            sent: Counters::new(outgoing),
            received: Counters::new(incoming),
            entered: Counters::new(incoming),
            dropped: Counters::new(outgoing),
            waived: Counters::new(outgoing),
            since: Counters::new(outgoing),
            pings: Counter::new(),
            turns: Counter::new(),
            gated: Counter::new(),
            busy_ns: Counter::new(),
            panics: Counter::new(),
            restarts: Counter::new(),
            flushes_asked: Counter::new(),
            flushes: Counter::new(),
            kept: Counter::new(),
        }
    }
}

/// The queues of an edge, for the number of replicas that the graph has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// As [`EdgeInfo::by_pair`].
    pub(crate) by_pair: bool,
    /// As [`EdgeInfo::capacity`].
    pub(crate) capacity: usize,
}

impl Layout {
    /// Returns the layout of each edge.
    pub(crate) fn of_all(edges: &[EdgeInfo], replicas: &[usize]) -> Box<[Self]> {
        let count = |end: End| end.processor().map_or(1, |node| replicas[node]);
        let layout = |edge: &EdgeInfo| {
            let (by_pair, capacity) = layout(
                edge.has_cap.then_some(edge.capacity),
                edge.burst,
                count(edge.from),
                count(edge.to),
                edge.has_rings || edge.is_buffered() || edge.to == End::Egress,
            );
            Self { by_pair, capacity }
        };
        edges.iter().map(layout).collect()
    }

    /// Returns how many inputs the edge has at each of its receivers.
    pub(crate) fn inputs(self, senders: usize) -> usize {
        if self.by_pair { senders } else { 1 }
    }
}

/// A running graph, as every thread sees it.
pub(crate) struct Shared {
    pub(crate) graph: &'static str,
    pub(crate) processors: &'static [ProcessorInfo],
    pub(crate) edges: &'static [EdgeInfo],
    /// Per edge.
    pub(crate) layout: Box<[Layout]>,
    /// Per processor, the number of its first instance's shard.
    pub(crate) first: Vec<usize>,
    /// Per processor, whether its handlers may block.
    pub(crate) blocking: Box<[bool]>,
    /// Per instance, which is per shard.
    pub(crate) stats: Vec<Arc<Stats>>,
    pub(crate) clock: GraphClock,
    /// When the graph was set up.
    pub(crate) since: Instant,
    /// One message of this many is measured; none if it is zero.
    pub(crate) one_in: u32,
    /// Timers that a drain, a stop or a retirement cancelled.
    timers_cancelled: AtomicU64,
    /// Per processor.
    pub(crate) policies: Vec<Policy>,
    pub(crate) on_failure: Option<OnFailure>,
    pub(crate) on_undelivered: Option<Undelivered>,
    pub(crate) deaths: Arc<Deaths>,
    panics: Mutex<Vec<PanicRecord>>,
    /// What panicked outside of handlers.
    faults: Mutex<Vec<String>>,
    /// The edges that reached their ceilings.
    ceilings: Mutex<Vec<usize>>,
    /// Per edge.
    undelivered: Box<[AtomicU64]>,
    /// Per edge: those of them that never left their sender, so that no receiver counts them.
    abandoned: Box<[AtomicU64]>,
    /// Those of them that were in the hand of a handler that panicked.
    in_hand: AtomicU64,
    /// Set when the graph ends, or is to.
    pub(crate) ending: Arc<Ending>,
    /// Set when the graph drains.
    pub(crate) calm: Calm,
    /// While the graph runs: for tokens that are dropped.
    pub(crate) wakes: Arc<Wakes>,
    /// The threads that run handlers.
    threads: Mutex<Vec<ThreadId>>,
    pub(crate) trace: Trace,
}

/// How many different panics are kept with their texts; further ones are counted.
const PANICS_KEPT: usize = 256;

impl Shared {
    /// `blocking`: processors whose handlers may block, each with its number of workers.
    pub(crate) fn new(
        tables: Tables,
        workers: usize,
        policies: Vec<Policy>,
        hooks: Hooks,
        clock: GraphClock,
        replicas: &[usize],
        blocking: &[(usize, usize)],
    ) -> Arc<Self> {
        let blocks = |node| blocking.iter().any(|&(blocked, _)| blocked == node);
        let layout = Layout::of_all(tables.edges, replicas);
        let mut first = Vec::with_capacity(tables.processors.len() + 1);
        let mut stats = Vec::new();
        for (node, &count) in replicas.iter().enumerate() {
            first.push(stats.len());
            let end = End::Processor(node);
            let asked = (0..tables.edges.len()).filter(|&edge| tables.edges[edge].from == end);
            let asked =
                asked.map(
                    |edge| match (answers_to(tables.edges, edge), tables.edges[edge].to) {
                        (Some(_), End::Processor(to)) if layout[edge].by_pair => replicas[to],
                        (answers, _) => usize::from(answers.is_some()),
                    },
                );
            let asked: Vec<usize> = asked.collect();
            let incoming = tables.edges.iter().filter(|edge| edge.to == end).count();
            for _ in 0..count {
                let times = (hooks.one_in > 0).then(|| Times::new(incoming));
                let counts = Counts::new(&asked, incoming, times);
                stats.push(Arc::new(CachePadded::new(counts)));
            }
        }
        first.push(stats.len());
        let deaths = Arc::new(Deaths::new(stats.len()));
        let instances = replicas.iter().zip(tables.processors);
        let instances =
            instances.flat_map(|(&count, info)| (0..count).map(|replica| (info.name, replica)));
        Arc::new(Self {
            graph: tables.name,
            processors: tables.processors,
            edges: tables.edges,
            layout,
            first,
            blocking: (0..replicas.len()).map(blocks).collect(),
            stats,
            since: clock.now(),
            clock,
            one_in: hooks.one_in,
            timers_cancelled: AtomicU64::new(0),
            policies,
            on_failure: hooks.on_failure,
            on_undelivered: hooks.on_undelivered,
            deaths,
            panics: Mutex::new(Vec::new()),
            faults: Mutex::new(Vec::new()),
            ceilings: Mutex::new(Vec::new()),
            in_hand: AtomicU64::new(0),
            undelivered: tables.edges.iter().map(|_| AtomicU64::new(0)).collect(),
            abandoned: tables.edges.iter().map(|_| AtomicU64::new(0)).collect(),
            ending: Arc::new(Ending::new(tables.processors, tables.edges)),
            calm: Calm::new(workers),
            wakes: Arc::default(),
            threads: Mutex::new(Vec::new()),
            trace: Trace::new(tables.name, instances),
        })
    }

    /// Returns the shards of the instances of a processor.
    pub(crate) fn shards_of(&self, node: usize) -> core::ops::Range<usize> {
        self.first[node]..self.first[node + 1]
    }

    /// Returns the shard of a replica.
    ///
    /// # Panics
    ///
    /// If there is no such replica.
    pub(crate) fn shard_of(&self, node: usize, replica: usize) -> ShardId {
        let shards = self.shards_of(node);
        assert!(
            replica < shards.len(),
            "graph `{}` has {} of `{}`, so there is no replica {replica}",
            self.graph,
            shards.len(),
            self.processors[node].type_name
        );
        ShardId::from_index(shards.start + replica)
    }

    /// Returns which instance of which processor a shard is.
    pub(crate) fn instance(&self, shard: usize) -> (usize, usize) {
        let node = self.first.partition_point(|&first| first <= shard) - 1;
        (node, shard - self.first[node])
    }

    /// Returns whether everything that was sent within the graph, or taken from a
    /// door, had been handled at some moment during this call.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut received = 0_u64;
        for stats in &self.stats {
            for counter in stats.received.iter() {
                received = received.wrapping_add(counter.get_after());
            }
        }
        let mut sent = 0_u64;
        for (shard, stats) in self.stats.iter().enumerate() {
            let end = End::Processor(self.instance(shard).0);
            let outgoing = self.edges.iter().filter(|edge| edge.from == end);
            for (edge, counter) in outgoing.zip(stats.sent.iter()) {
                if edge.to != End::Egress {
                    sent = sent.wrapping_add(counter.get());
                }
            }
            for counter in stats.entered.iter() {
                sent = sent.wrapping_add(counter.get());
            }
        }
        received == sent
    }

    /// Returns how many messages to egress wait for room beside their senders. If read after
    /// `is_quiet` has returned `true`, it includes every message that was sent before.
    pub(crate) fn kept(&self) -> u64 {
        self.stats.iter().map(|stats| stats.kept.get()).sum()
    }

    /// Returns how many messages were sent in all.
    pub(crate) fn sent(&self) -> u64 {
        let sent = self.stats.iter().flat_map(|stats| stats.sent.iter());
        sent.fold(0, |sum, count| sum.wrapping_add(count.get()))
    }

    /// Counts a panic: equal ones of the replicas of a processor are one record.
    pub(crate) fn record_panic(&self, record: PanicRecord) {
        let mut panics = self.panics.lock();
        let has_place = panics.len() < PANICS_KEPT;
        match panics.iter_mut().find(|known| known.is_equal(&record)) {
            Some(known) => known.count += 1,
            None if has_place => panics.push(record),
            None => {}
        }
    }

    /// Records that the calling thread runs user code of this graph.
    #[cold]
    pub(crate) fn enter_thread(&self) {
        let id = thread::current_id();
        let mut threads = self.threads.lock();
        if !threads.contains(&id) {
            threads.push(id);
        }
    }

    /// Returns whether the calling thread is one of this graph, which cannot wait
    /// for the graph's end.
    pub(crate) fn is_own_thread(&self) -> bool {
        self.threads.lock().contains(&thread::current_id())
    }

    /// Records a panic of user code outside handlers.
    #[cold]
    pub(crate) fn record_fault(&self, what: &str, payload: Box<dyn Any + Send>) {
        let text = panics::text(payload);
        let mut faults = self.faults.lock();
        if faults.len() < PANICS_KEPT {
            faults.push(format!("{what} panicked: {text}"));
        }
    }

    /// Records that an instance retired, and wakes its watchers. Only its holder calls it, once.
    #[cold]
    pub(crate) fn retire(&self, shard: usize) {
        let watchers = self.deaths.add(shard);
        // Not under a lock: a worker may sleep in user code.
        let handle = self.wakes.0.lock().clone();
        if let Some(handle) = handle {
            for watcher in watchers {
                handle.wake(ShardId::from_index(watcher));
            }
        }
    }

    /// Stops the graph: an unbounded edge has a message more than it keeps.
    #[cold]
    pub(crate) fn stop_at_ceiling(&self, edge: usize) {
        let mut ceilings = self.ceilings.lock();
        if ceilings.contains(&edge) {
            return;
        }
        ceilings.push(edge);
        drop(ceilings);
        let edge = &self.edges[edge];
        self.ending.stop(EndedBy::Ceiling { edge });
        let handle = self.wakes.0.lock().clone();
        if let Some(handle) = handle {
            handle.stop();
        }
    }

    pub(crate) fn ceilings(&self) -> Vec<&'static EdgeInfo> {
        let ceilings = self.ceilings.lock();
        ceilings.iter().map(|&edge| &self.edges[edge]).collect()
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.faults.lock().clone();
        faults.extend(self.clock.fault());
        faults
    }

    pub(crate) fn panics(&self) -> Vec<PanicRecord> {
        self.panics.lock().clone()
    }

    /// Calls user code outside handlers, and records its panic.
    #[inline]
    pub(crate) fn contained(&self, what: &str, code: impl FnOnce()) {
        if let Err(payload) = contain(code) {
            self.record_fault(what, payload);
        }
    }

    /// Passes an event to the subscriber of the program, whose panic is contained: the event comes
    /// while a message is in hand, or between two states of an instance.
    pub(crate) fn traced(&self, event: impl FnOnce()) {
        self.contained("a subscriber", event);
    }

    /// Counts a message that could not be delivered, and passes it to the hook.
    #[cold]
    pub(crate) fn give_up<M: Send + 'static>(&self, edge: usize, message: M) {
        self.count_undelivered(edge, 1);
        // After a panic the message counts as taken: others behind it are given up in turn.
        self.part_with("giving a message up", edge, message);
    }

    /// Drops a message for which there is no room, and passes it to the hook, if there is one. Its
    /// sender has counted it.
    #[inline(never)]
    pub(crate) fn drop_message<M: Send + 'static>(&self, edge: usize, message: M) {
        self.part_with("dropping a message", edge, message);
    }

    #[inline]
    fn part_with<M: Send + 'static>(&self, what: &str, edge: usize, message: M) {
        self.contained(what, || match &self.on_undelivered {
            Some(hook) => hook(&self.edges[edge], Box::new(message)),
            None => drop(message),
        });
    }

    /// As `give_up`, for a message that waited for room beside its sender.
    #[cold]
    pub(crate) fn abandon<M: Send + 'static>(&self, edge: usize, message: M) {
        // Relaxed: a count that orders nothing.
        self.abandoned[edge].fetch_add(1, Ordering::Relaxed);
        self.give_up(edge, message);
    }

    /// Returns how many messages of an edge never left their sender.
    pub(crate) fn abandoned(&self, edge: usize) -> u64 {
        // Relaxed: a snapshot.
        self.abandoned[edge].load(Ordering::Relaxed)
    }

    pub(crate) fn count_undelivered(&self, edge: usize, count: u64) {
        // Relaxed: a count that orders nothing. [MP11]
        self.undelivered[edge].fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a message that a panicking handler was handling.
    #[cold]
    pub(crate) fn count_in_hand(&self, edge: usize) {
        // Relaxed: as above.
        self.in_hand.fetch_add(1, Ordering::Relaxed);
        self.count_undelivered(edge, 1);
    }

    /// Returns how many messages to processors were given up before a handler got them. Exact once
    /// no handler runs.
    pub(crate) fn given_up(&self) -> u64 {
        let counts = self.edges.iter().zip(&self.undelivered);
        let within = counts.filter(|(edge, _)| edge.to != End::Egress);
        // Relaxed: a snapshot.
        let total: u64 = within.map(|(_, count)| count.load(Ordering::Relaxed)).sum();
        // Relaxed: a snapshot.
        total.saturating_sub(self.in_hand.load(Ordering::Relaxed))
    }

    pub(crate) fn count_cancelled(&self, timers: usize) {
        // Relaxed: a count that orders nothing.
        self.timers_cancelled
            .fetch_add(timers as u64, Ordering::Relaxed);
    }

    pub(crate) fn timers_cancelled(&self) -> u64 {
        // Relaxed: a snapshot.
        self.timers_cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn undelivered(&self) -> Vec<u64> {
        let counts = self.undelivered.iter();
        // Relaxed: a snapshot. [MP12]
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    }
}
