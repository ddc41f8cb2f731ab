//! Which messages are measured, and how their send time gets to their receiver.
//!
//! The messages of a queue form blocks of `every` messages, and one message of each block is
//! measured. A random number, from the seed of the queue and the number of the block, chooses it.
//! So the choice follows no pattern of the load.
//!
//! ```text
//!   ring      | . . x . | . . . x | x . . . | . x . .     both ends compute the x
//!   stamps      t         t         t         -           one word per block: the send time
//! ```
//!
//! | queue | message chosen by | where the send time is |
//! | --- | --- | --- |
//! | ring per pair | both ends, by the index of the message in the ring | [`Stamps`], a word per block |
//! | inbox | the sender | [`Marks`] (send times under a lock); a bit of the message's tag says that its time is there |
//! | buffer, door | the sender | beside the message |
//!
//! A stamp of a ring is written before its message is published, and read before the slot of the
//! message is released. So the ring's own orderings make the stamp visible. No stamp is overwritten
//! before it is read, because there are stamps for more messages than the ring has slots.

use std::collections::VecDeque;

use crate::clock::GraphClock;
use crate::counter::Counter;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::{CachePadded, Random};
use crate::queue::spsc::{Consumer, Producer};
use crate::timers::Clock;

/// The time of a message that is not measured.
pub(crate) const UNMEASURED: u64 = u64::MAX;

/// Returns the time in nanoseconds.
pub(crate) fn now(clock: &GraphClock) -> u64 {
    clock.now().as_nanos()
}

/// How often a queue is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// One message in this number is measured; at least 1.
    every: usize,
    seed: u64,
}

impl Plan {
    /// Returns the plan of a graph, or `None` if nothing is measured. `queue`: its numbers among
    /// all queues.
    pub(crate) fn new(one_in: u32, queue: [usize; 3]) -> Option<Self> {
        let mix = |seed: u64, part: &usize| Random::new(seed ^ *part as u64).draw();
        (one_in > 0).then(|| Self {
            every: one_in as usize,
            seed: queue.iter().fold(0, mix),
        })
    }

    /// Returns which message of a block is measured.
    fn place(self, block: u64) -> usize {
        Random::new(self.seed ^ block).below(self.every)
    }
}

/// The next message of a queue that is measured.
#[derive(Debug)]
pub(crate) struct Mark {
    plan: Plan,
    /// The number of its block.
    block: u64,
    /// The index of the first message of the block, wrapping.
    first: usize,
    /// The index of the message, wrapping.
    at: usize,
}

impl Mark {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            block: 0,
            first: 0,
            at: plan.place(0),
        }
    }

    /// Goes on to the next block.
    fn advance(&mut self) {
        self.block += 1;
        self.first = self.first.wrapping_add(self.plan.every);
        self.at = self.first.wrapping_add(self.plan.place(self.block));
    }

    /// Returns how many messages go before the next one that is measured, at `index` or after it.
    fn ahead(&mut self, index: usize) -> usize {
        loop {
            let ahead = self.at.wrapping_sub(index);
            if ahead <= usize::MAX / 2 {
                return ahead;
            }
            // It went by without being measured: given up.
            self.advance();
        }
    }
}

/// The send times of the measured messages in a ring.
#[derive(Debug)]
struct Stamps(Box<[Counter]>);

impl Stamps {
    /// Makes stamps for a ring with this many slots.
    ///
    /// Block `b + blocks` uses the stamp of block `b` again. Its messages come more than `capacity`
    /// messages after those of block `b`: at least `blocks - 1` whole blocks and one message.
    fn new(plan: Plan, capacity: usize) -> Self {
        let blocks = capacity / plan.every + 2;
        Self((0..blocks).map(|_| Counter::new()).collect())
    }

    fn of(&self, block: u64) -> &Counter {
        &self.0[(block % self.0.len() as u64) as usize]
    }
}

/// A measured message that waits for room beside its ring.
#[derive(Debug)]
struct Late {
    index: usize,
    block: u64,
    sent: u64,
}

/// The sender's end of the stamps of a ring.
pub(crate) struct Departures {
    clock: GraphClock,
    mark: Mark,
    stamps: Arc<Stamps>,
    late: VecDeque<Late>,
}

impl Departures {
    /// Returns how many messages may be staged before one that is measured. Called only if no
    /// message waits for room.
    pub(crate) fn ahead<T>(&mut self, ring: &Producer<T>) -> usize {
        self.mark.ahead(ring.index())
    }

    /// A message was staged, or is the last of `spilled` that wait for room.
    pub(crate) fn sent<T>(&mut self, ring: &Producer<T>, spilled: usize) {
        let index = ring.index().wrapping_add(spilled).wrapping_sub(1);
        if self.mark.ahead(index) > 0 {
            return;
        }
        let (block, sent) = (self.mark.block, now(&self.clock));
        self.mark.advance();
        match spilled {
            0 => self.stamps.of(block).set(sent),
            _ => self.late.push_back(Late { index, block, sent }),
        }
    }

    /// A message that waited for room was staged.
    pub(crate) fn staged<T>(&mut self, ring: &Producer<T>) {
        let index = ring.index().wrapping_sub(1);
        if self.late.front().is_some_and(|late| late.index == index)
            && let Some(late) = self.late.pop_front()
        {
            self.stamps.of(late.block).set(late.sent);
        }
    }
}

/// The receiver's end of the stamps of a ring.
#[derive(Debug)]
pub(crate) struct Arrivals {
    mark: Mark,
    stamps: Arc<Stamps>,
}

impl Arrivals {
    /// Returns when the next message was sent, if it is measured and present. Limits `max` to that
    /// message, to zero if it is measured but not present, or to the messages before the next
    /// measured one.
    pub(crate) fn next<T>(&mut self, ring: &Consumer<T>, max: &mut usize) -> Option<u64> {
        match self.mark.ahead(ring.index()) {
            0 if ring.is_empty() => {
                // One that comes now is not taken before it was looked at.
                *max = 0;
                None
            }
            0 => {
                *max = 1;
                Some(self.stamps.of(self.mark.block).get())
            }
            ahead => {
                *max = ahead.min(*max);
                None
            }
        }
    }
}

/// Makes both ends of the stamps of a ring.
pub(crate) fn stamps(plan: Plan, capacity: usize, clock: &GraphClock) -> (Departures, Arrivals) {
    let stamps = Arc::new(Stamps::new(plan, capacity));
    let departures = Departures {
        clock: clock.clone(),
        mark: Mark::new(plan),
        stamps: Arc::clone(&stamps),
        late: VecDeque::new(),
    };
    let mark = Mark::new(plan);
    (departures, Arrivals { mark, stamps })
}

/// Chooses among the messages of one sender.
pub(crate) struct Draw {
    clock: GraphClock,
    mark: Mark,
    index: usize,
}

impl Draw {
    pub(crate) fn new(plan: Plan, clock: &GraphClock) -> Self {
        Self {
            clock: clock.clone(),
            mark: Mark::new(plan),
            index: 0,
        }
    }

    /// Returns the time if the next message is measured, otherwise [`UNMEASURED`].
    pub(crate) fn look(&mut self) -> u64 {
        match self.mark.ahead(self.index) {
            0 => now(&self.clock),
            _ => UNMEASURED,
        }
    }

    /// Counts the message: it was sent.
    pub(crate) fn count(&mut self) {
        self.index = self.index.wrapping_add(1);
    }

    /// Does both.
    pub(crate) fn draw(&mut self) -> u64 {
        let sent = self.look();
        self.count();
        sent
    }
}

/// Chooses among the messages of all threads.
pub(crate) struct SharedDraw {
    clock: GraphClock,
    plan: Plan,
    drawn: CachePadded<AtomicU64>,
}

impl SharedDraw {
    pub(crate) fn new(plan: Plan, clock: &GraphClock) -> Self {
        Self {
            clock: clock.clone(),
            plan,
            drawn: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Counts a message; returns as [`Draw::look`]. One read-modify-write: an addition that is lost
    /// would change the share of messages that are measured.
    pub(crate) fn draw(&self) -> u64 {
        // Relaxed: a count that orders nothing.
        let index = self.drawn.fetch_add(1, Ordering::Relaxed);
        let every = self.plan.every as u64;
        match self.plan.place(index / every) as u64 == index % every {
            true => now(&self.clock),
            false => UNMEASURED,
        }
    }
}

/// In the tag of a message: [`Marks`] have its time.
pub(crate) const MARKED: u32 = 1 << 29;

/// The send times of the measured messages in an inbox, with their senders.
///
/// A sender enters the time before it pushes the message, so the receiver finds it. The times of
/// one sender are in the order of its messages. There are at most as many times as the inbox has
/// slots, plus one per sender that is about to push.
#[derive(Default)]
pub(crate) struct Marks(Mutex<VecDeque<(u32, u64)>>);

impl Marks {
    /// Makes marks for an inbox with this many slots.
    pub(crate) fn new(plan: Plan, capacity: usize) -> Self {
        let expected = capacity / plan.every + 1;
        Self(Mutex::new(VecDeque::with_capacity(expected)))
    }

    pub(crate) fn enter(&self, sender: u32, sent: u64) {
        self.0.lock().push_back((sender, sent));
    }

    /// Takes the last mark of a sender back: there was no room for its message.
    pub(crate) fn take_back(&self, sender: u32) {
        let mut marks = self.0.lock();
        let last = marks.iter().rposition(|&(of, _)| of == sender);
        last.and_then(|at| marks.remove(at));
    }

    /// Takes the first mark of a sender.
    pub(crate) fn take(&self, sender: u32) -> u64 {
        let mut marks = self.0.lock();
        let first = marks.iter().position(|&(of, _)| of == sender);
        let mark = first.and_then(|at| marks.remove(at));
        mark.map_or(UNMEASURED, |(_, sent)| sent)
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;
    use crate::queue::spsc::ring;
    use crate::timers::{ManualClock, Nanos};

    fn plan(every: u32) -> Plan {
        Plan::new(every, [1, 2, 3]).expect("something is measured")
    }

    #[test]
    fn each_block_has_one_message_that_is_measured() {
        for every in [1, 2, 7, 1_000] {
            let mut mark = Mark::new(plan(every));
            // Also over the end of the range.
            mark.first = usize::MAX - 5 * every as usize;
            mark.at = mark.first;
            let mut index = mark.first;
            for block in 0..10 {
                let ahead = mark.ahead(index);
                assert!(ahead < 2 * every as usize, "{every}: {ahead}");
                index = index.wrapping_add(ahead);
                assert_eq!((mark.ahead(index), mark.block), (0, block));
                index = index.wrapping_add(1);
            }
        }
        assert!(Plan::new(0, [0; 3]).is_none());
    }

    #[test]
    fn what_went_by_without_being_measured_is_given_up() {
        let mut mark = Mark::new(plan(4));
        assert!(mark.ahead(39) < 8);
        assert!(mark.block >= 9);
    }

    #[test]
    fn each_stamp_gets_to_its_message_however_full_the_ring_is() {
        for (capacity, every) in [(1, 1), (4, 1), (4, 3), (8, 5), (8, 64)] {
            let clock = ManualClock::new();
            let shared = GraphClock::new(clock.clone());
            let (mut producer, mut consumer) = ring::<u64>(capacity);
            let (mut departures, mut arrivals) = stamps(plan(every), capacity, &shared);
            let (mut random, mut spilled) = (Random::new(u64::from(every)), VecDeque::new());
            let (mut sent, mut taken, mut measured) = (0_u64, 0_u64, 0_u64);
            for _ in 0..20_000 {
                clock.advance(Nanos::from_nanos(1));
                // The message is the time of its send.
                let now = shared.now().as_nanos();
                match random.below(3) {
                    0 if spilled.len() < 5 => {
                        let message = match spilled.is_empty() {
                            true => producer.stage(now).err().map(|full| full.into_inner()),
                            false => Some(now),
                        };
                        spilled.extend(message);
                        sent += 1;
                        departures.sent(&producer, spilled.len());
                    }
                    1 => {
                        while let Some(message) = spilled.pop_front() {
                            if let Err(full) = producer.stage(message) {
                                spilled.push_front(full.into_inner());
                                break;
                            }
                            departures.staged(&producer);
                        }
                        producer.publish();
                    }
                    _ => {
                        let mut max = 2;
                        let stamp = arrivals.next(&consumer, &mut max);
                        for _ in 0..max {
                            let Some(message) = consumer.take() else {
                                break;
                            };
                            taken += 1;
                            if let Some(stamp) = stamp {
                                assert_eq!((stamp, max), (message, 1));
                                measured += 1;
                            }
                        }
                        consumer.release();
                    }
                }
            }
            assert!(sent >= taken && taken > 1_000, "{taken} of {sent}");
            let expected = taken / u64::from(every);
            assert!(measured.abs_diff(expected) <= 1, "{measured} of {taken}");
        }
    }

    #[test]
    fn marks_of_senders_are_in_the_order_of_each() {
        let marks = Marks::new(plan(1), 4);
        for (sender, sent) in [(1, 10), (2, 20), (1, 11), (2, 21)] {
            marks.enter(sender, sent);
        }
        marks.take_back(1);
        assert_eq!([marks.take(2), marks.take(1)], [20, 10]);
        assert_eq!([marks.take(2), marks.take(1)], [21, UNMEASURED]);
    }
}
