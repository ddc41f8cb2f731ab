//! How long an item takes to a consumer that sleeps whenever it finds no item.
//!
//! The schedule is that of `latency`: 32 items every 100 us. Each item is stamped when its push
//! begins. The consumer waits by the call that the contender's documentation names for this. So the
//! time includes the wake-up by the system, and the pushes of a burst include the producer's cost
//! of waking. Ours waits by `WaitStrategy::Park`, which sleeps at once; the rivals spin before they
//! sleep, for as long as their code decides.

use std::collections::VecDeque;
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Condvar, Mutex};

use rast::primitive::{EventCount, Signal, WaitStrategy};
use rast::queue::{Queue, mpsc, spmc, spsc};

use super::LAYER;
use super::latency::{BURST, BURST_OPS, Schedule};
use crate::harness::Scenario;
use crate::workers::Sample;

/// What the bounded contenders have room for; a burst always fits.
const ROOM: usize = 1024;

/// A queue with a call that waits for an item.
trait Sleeping: 'static {
    type Producer: Send;
    type Consumer: Send;

    fn new() -> (Self::Producer, Self::Consumer);
    fn push(producer: &mut Self::Producer, item: u64);
    fn pop_wait(consumer: &mut Self::Consumer) -> u64;
}

/// Defines a contender by its two ends and three expressions.
macro_rules! sleeping {
    (
        $(#[$meta:meta])* $name:ident: $producer:ty, $consumer:ty;
        new $new:expr;
        push |$pushed:ident, $item:ident| $push:expr;
        pop_wait |$popped:ident| $pop:expr;
    ) => {
        $(#[$meta])*
        pub(super) struct $name;

        impl Sleeping for $name {
            type Producer = $producer;
            type Consumer = $consumer;

            fn new() -> (Self::Producer, Self::Consumer) {
                $new
            }

            #[inline]
            fn push($pushed: &mut Self::Producer, $item: u64) {
                $push
            }

            #[inline]
            fn pop_wait($popped: &mut Self::Consumer) -> u64 {
                $pop
            }
        }
    };
}

/// A contender whose ends are those of a channel with `send` and `recv`.
macro_rules! channel {
    ($name:ident: $sender:ty, $receiver:ty = $new:expr) => {
        sleeping! {
            $name: $sender, $receiver;
            new $new;
            push |sender, item| sender.send(item).expect("both ends live");
            pop_wait |receiver| receiver.recv().expect("both ends live");
        }
    };
}

sleeping! {
    Many: Arc<Queue<u64>>, Arc<Queue<u64>>;
    new {
        let queue = Arc::new(Queue::new());
        (Arc::clone(&queue), queue)
    };
    push |queue, item| queue.push(item).expect("no thread closes it");
    pop_wait |queue| queue.pop_wait(WaitStrategy::Park).expect("no thread closes it");
}

sleeping! {
    /// Ours for one consumer, which sleeps on a `Signal` that a push into the empty queue sends.
    Boxed: (mpsc::Producer<u64>, Arc<Signal>), (mpsc::Consumer<u64>, Arc<Signal>);
    new {
        let (producer, consumer) = mpsc::queue();
        let signal = Arc::new(Signal::new());
        ((producer, Arc::clone(&signal)), (consumer, signal))
    };
    push |end, item| {
        if end.0.push(item).expect("no thread closes it") {
            end.1.send();
        }
    };
    pop_wait |end| loop {
        if let Some(item) = end.0.pop() {
            break item;
        }
        end.1.receive_blocking();
    };
}

sleeping! {
    /// Ours for one producer, whose `publish` tells when to send a `Signal`.
    Blocks: (spmc::Producer<u64>, Arc<Signal>), (spmc::Consumer<u64>, Arc<Signal>);
    new {
        let (producer, consumer) = spmc::queue();
        let signal = Arc::new(Signal::new());
        ((producer, Arc::clone(&signal)), (consumer, signal))
    };
    push |end, item| {
        end.0.push_pending(item);
        if end.0.publish() {
            end.1.send();
        }
    };
    pop_wait |end| loop {
        if let Some(item) = end.0.pop() {
            break item;
        }
        end.1.receive_blocking();
    };
}

sleeping! {
    /// Our ring with an `EventCount`.
    Ring: (spsc::Producer<u64>, Arc<EventCount>), (spsc::Consumer<u64>, Arc<EventCount>);
    new {
        let (producer, consumer) = spsc::ring(ROOM);
        let event = Arc::new(EventCount::new());
        ((producer, Arc::clone(&event)), (consumer, event))
    };
    push |end, item| {
        while end.0.push(item).is_err() {
            std::hint::spin_loop();
        }
        end.1.notify_one();
    };
    pop_wait |end| loop {
        if let Some(item) = end.0.pop() {
            break item;
        }
        end.1.wait_until(WaitStrategy::Park, || !end.0.is_empty());
    };
}

channel! { StdChannel: std_mpsc::Sender<u64>, std_mpsc::Receiver<u64> = std_mpsc::channel() }
channel! {
    StdBounded: std_mpsc::SyncSender<u64>, std_mpsc::Receiver<u64> = std_mpsc::sync_channel(ROOM)
}

/// A list behind a lock, and what its consumer sleeps on.
type Locked = Arc<(Mutex<VecDeque<u64>>, Condvar)>;

sleeping! {
    StdLock: Locked, Locked;
    new {
        let queue = Locked::default();
        (Arc::clone(&queue), queue)
    };
    push |queue, item| {
        queue.0.lock().expect("no panic inside").push_back(item);
        queue.1.notify_one();
    };
    pop_wait |queue| {
        let items = queue.0.lock().expect("no panic inside");
        let mut items = queue
            .1
            .wait_while(items, |items| items.is_empty())
            .expect("no panic inside");
        items.pop_front().expect("it is not empty")
    };
}

#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals {
    use super::{ROOM, Sleeping};

    channel! {
        Crossbeam: crossbeam_channel::Sender<u64>, crossbeam_channel::Receiver<u64> =
            crossbeam_channel::unbounded()
    }
    channel! {
        CrossbeamBounded: crossbeam_channel::Sender<u64>, crossbeam_channel::Receiver<u64> =
            crossbeam_channel::bounded(ROOM)
    }
    channel! { Flume: flume::Sender<u64>, flume::Receiver<u64> = flume::unbounded() }
    channel! { Kanal: kanal::Sender<u64>, kanal::Receiver<u64> = kanal::unbounded() }

    sleeping! {
        Tokio: tokio::sync::mpsc::UnboundedSender<u64>, tokio::sync::mpsc::UnboundedReceiver<u64>;
        new tokio::sync::mpsc::unbounded_channel();
        push |sender, item| sender.send(item).expect("both ends live");
        pop_wait |receiver| receiver.blocking_recv().expect("both ends live");
    }

    sleeping! {
        /// `rtrb`, which has no call that waits, with the parker of the crate `parking`.
        Rtrb: (rtrb::Producer<u64>, parking::Unparker), (rtrb::Consumer<u64>, parking::Parker);
        new {
            let (producer, consumer) = rtrb::RingBuffer::new(ROOM);
            let (parker, unparker) = parking::pair();
            ((producer, unparker), (consumer, parker))
        };
        push |end, item| {
            while end.0.push(item).is_err() {
                std::hint::spin_loop();
            }
            end.1.unpark();
        };
        pop_wait |end| loop {
            if let Ok(item) = end.0.pop() {
                break item;
            }
            end.1.park();
        };
    }
}

/// 32 items each 100 us to a consumer that sleeps.
fn hand_over<Q: Sleeping>(ops: u64) -> Sample {
    let (mut producer, mut consumer) = Q::new();
    // The ends live until both have ended.
    let (near, far) = (&mut producer, &mut consumer);
    Schedule::new(ops, BURST.0, BURST.1).run(
        |schedule| schedule.send(|item| Q::push(near, item)),
        |schedule, seen| schedule.receive(seen, || Some(Q::pop_wait(far))),
    )
}

fn scenario(name: &'static str) -> Scenario {
    Scenario::new(LAYER, name, BURST_OPS.0, BURST_OPS.1)
}

/// The scenarios, one for each kind of queue.
pub(super) fn scenarios() -> Vec<Scenario> {
    let many = scenario("hand-over p50, 32 items per 100 us, sleeping, Queue")
        .ours("rast Queue", hand_over::<Many>)
        .rival("std Mutex<VecDeque> and Condvar", hand_over::<StdLock>)
        .rival("std mpsc", hand_over::<StdChannel>);
    let one_consumer = scenario("hand-over p50, 32 items per 100 us, sleeping, mpsc")
        .ours("rast mpsc and Signal", hand_over::<Boxed>)
        .rival("std mpsc", hand_over::<StdChannel>);
    let one_producer = scenario("hand-over p50, 32 items per 100 us, sleeping, spmc")
        .ours("rast spmc and Signal", hand_over::<Blocks>)
        .rival("std Mutex<VecDeque> and Condvar", hand_over::<StdLock>);
    let ring = scenario("hand-over p50, 32 items per 100 us, sleeping, ring")
        .ours("rast spsc::ring and EventCount", hand_over::<Ring>)
        .rival("std mpsc::sync_channel", hand_over::<StdBounded>);
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let (many, one_consumer, one_producer, ring) = (
        many.rival("crossbeam-channel", hand_over::<rivals::Crossbeam>)
            .rival("kanal", hand_over::<rivals::Kanal>)
            .rival("flume", hand_over::<rivals::Flume>),
        one_consumer
            .rival("crossbeam-channel", hand_over::<rivals::Crossbeam>)
            .rival("tokio mpsc", hand_over::<rivals::Tokio>),
        one_producer
            .rival("crossbeam-channel", hand_over::<rivals::Crossbeam>)
            .rival("flume", hand_over::<rivals::Flume>),
        ring.rival("rtrb and parking", hand_over::<rivals::Rtrb>)
            .rival(
                "crossbeam-channel, bounded",
                hand_over::<rivals::CrossbeamBounded>,
            ),
    );
    vec![many, one_consumer, one_producer, ring]
}
