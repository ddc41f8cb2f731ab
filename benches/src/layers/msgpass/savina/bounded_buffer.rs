//! Bounded buffer: producers, consumers, and a manager between them. The manager lets a producer
//! make an item while there is room. The size is the number of items of one producer.

use std::any::Any;
use std::collections::VecDeque;
use std::hint::black_box;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::{Random, Watch};
use super::{Actor, Peers, Program, placed, started};

pub(super) struct BoundedBuffer;

const ROOM: usize = 50;
const PRODUCERS: usize = 40;
const CONSUMERS: usize = 40;
/// The cost of making an item, and of using it, in units of a hundred logarithms.
const COST: u64 = 25;

/// The actors: the manager, the producers, the consumers.
const FIRST_PRODUCER: usize = 1;
const FIRST_CONSUMER: usize = FIRST_PRODUCER + PRODUCERS;

pub(super) enum Member {
    Manager(Manager),
    Producer(Producer),
    Consumer(Consumer),
}

pub(super) struct Manager {
    producers: VecDeque<usize>,
    consumers: VecDeque<usize>,
    items: VecDeque<f64>,
    ended: usize,
    /// Of the bits of all items that came.
    sum: u64,
    watch: Watch,
}

pub(super) struct Producer {
    index: usize,
    left: u64,
    item: f64,
}

pub(super) struct Consumer {
    index: usize,
    item: f64,
}

/// What the manager gets, with the index of the producer or consumer.
#[derive(Clone, Copy)]
pub(super) enum ToManager {
    Item(usize, f64),
    Available(usize),
    Ended,
}

/// The manager wants an item.
#[derive(Clone, Copy)]
pub(super) struct Produce;

/// An item for a consumer.
#[derive(Clone, Copy)]
pub(super) struct Take(f64);

#[derive(Clone, Copy)]
pub(super) enum Note {
    ToManager(ToManager),
    Produce(Produce),
    Take(Take),
}

/// The work for an item.
fn work(item: f64) -> f64 {
    let mut random = Random::new(COST);
    let mut sum = black_box(item);
    for _ in 0..COST * 100 {
        let share = random.below(1 << 30) as f64 / f64::from(1 << 30);
        sum += (share + 0.01).ln();
    }
    sum
}

impl Manager {
    fn new(watch: &Watch) -> Self {
        Self {
            producers: VecDeque::new(),
            consumers: (0..CONSUMERS).collect(),
            items: VecDeque::new(),
            ended: 0,
            sum: 0,
            watch: watch.clone(),
        }
    }

    /// The consumer that gets an item, and the producer that has to make one.
    #[inline]
    fn on(&mut self, note: ToManager) -> (Option<(usize, Take)>, Option<usize>) {
        match note {
            ToManager::Item(producer, item) => {
                self.sum = self.sum.wrapping_add(item.to_bits());
                let taken = match self.consumers.pop_front() {
                    Some(consumer) => Some((consumer, Take(item))),
                    None => {
                        self.items.push_back(item);
                        None
                    }
                };
                if self.items.len() >= ROOM - PRODUCERS {
                    self.producers.push_back(producer);
                    return (taken, None);
                }
                (taken, Some(producer))
            }
            ToManager::Available(consumer) => match self.items.pop_front() {
                Some(item) => (Some((consumer, Take(item))), self.producers.pop_front()),
                None => {
                    self.consumers.push_back(consumer);
                    self.end();
                    (None, None)
                }
            },
            ToManager::Ended => {
                self.ended += 1;
                self.end();
                (None, None)
            }
        }
    }

    fn end(&self) {
        if self.ended == PRODUCERS && self.consumers.len() == CONSUMERS {
            self.watch.part(self.sum);
        }
    }
}

impl Producer {
    #[inline]
    fn produce(&mut self) -> ToManager {
        if self.left == 0 {
            return ToManager::Ended;
        }
        self.left -= 1;
        self.item = work(self.item);
        ToManager::Item(self.index, self.item)
    }
}

impl Consumer {
    #[inline]
    fn take(&mut self, Take(item): Take) -> ToManager {
        self.item = work(self.item + item);
        ToManager::Available(self.index)
    }
}

impl Actor for Member {
    type Message = Note;

    #[inline]
    fn handle(&mut self, note: Note, to: &impl Peers<Note>) {
        let answer = match (self, note) {
            (Self::Manager(manager), Note::ToManager(note)) => {
                let (taken, wanted) = manager.on(note);
                if let Some((consumer, take)) = taken {
                    to.send(FIRST_CONSUMER + consumer, Note::Take(take));
                }
                if let Some(producer) = wanted {
                    to.send(FIRST_PRODUCER + producer, Note::Produce(Produce));
                }
                return;
            }
            (Self::Producer(producer), Note::Produce(Produce)) => producer.produce(),
            (Self::Consumer(consumer), Note::Take(take)) => consumer.take(take),
            _ => panic!("no such message comes here"),
        };
        to.send(0, Note::ToManager(answer));
    }
}

graph! {
    graph Shop {
        processors {
            manager: Manager,
            producer: [Producer; PRODUCERS] [source],
            consumer: [Consumer; CONSUMERS],
        }
        edges {
            producer -> manager: ToManager [unbounded, cap = 2];
            manager -> producer: Produce [unbounded, cap = 2];
            manager -> consumer: Take [unbounded, cap = 2];
            consumer -> manager: ToManager [unbounded, cap = 2];
        }
    }
}

impl Process<Shop> for Manager {}
impl<From> Receive<Shop, From, ToManager> for Manager {
    fn receive(&mut self, note: ToManager, cx: &mut Cx<'_, Shop, Self>) {
        let (taken, wanted) = self.on(note);
        if let Some((consumer, take)) = taken {
            cx.to::<Consumer>().at(consumer).send(take);
        }
        if let Some(producer) = wanted {
            cx.to::<Producer>().at(producer).send(Produce);
        }
    }
}
impl Process<Shop> for Producer {
    fn ping(&mut self, cx: &mut Cx<'_, Shop, Self>) -> Next {
        let item = self.produce();
        cx.to::<Manager>().send(item);
        Next::Idle
    }
}
impl Receive<Shop, Manager, Produce> for Producer {
    fn receive(&mut self, _: Produce, cx: &mut Cx<'_, Shop, Self>) {
        let item = self.produce();
        cx.to::<Manager>().send(item);
    }
}
impl Process<Shop> for Consumer {}
impl Receive<Shop, Manager, Take> for Consumer {
    fn receive(&mut self, take: Take, cx: &mut Cx<'_, Shop, Self>) {
        let available = self.take(take);
        cx.to::<Manager>().send(available);
    }
}

fn producers(size: u64) -> impl Iterator<Item = Producer> {
    (0..PRODUCERS).map(move |index| Producer {
        index,
        left: size,
        item: 0.0,
    })
}

fn consumers() -> impl Iterator<Item = Consumer> {
    (0..CONSUMERS).map(|index| Consumer { index, item: 0.0 })
}

impl Program for BoundedBuffer {
    const NAME: &'static str = "savina: bounded buffer";
    const SIZE: u64 = 1_000;
    const SMOKE: u64 = 2;
    const THREADS_SHARE: u64 = 1;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        // Messages per item: produce, item, take, available. At the end each producer reports.
        (4 * size + 1) * PRODUCERS as u64
    }

    fn expected(size: u64) -> u64 {
        let mut item = 0.0;
        let bits = (0..size).map(|_| {
            item = work(item);
            item.to_bits()
        });
        let of_one = bits.fold(0, u64::wrapping_add);
        of_one.wrapping_mul(PRODUCERS as u64)
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let producers = producers(size).map(Member::Producer);
        std::iter::once(Member::Manager(Manager::new(watch)))
            .chain(producers)
            .chain(consumers().map(Member::Consumer))
            .collect()
    }

    fn first() -> Vec<(usize, Note)> {
        let producers = FIRST_PRODUCER..FIRST_CONSUMER;
        producers.map(|to| (to, Note::Produce(Produce))).collect()
    }

    fn home(actor: usize, threads: usize) -> usize {
        actor % threads
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let producers = producers(size).collect::<Vec<_>>();
        let builder = Shop::builder(Manager::new(watch), producers, consumers());
        let builder = placed::<Self, _, Manager>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Producer>(builder, FIRST_PRODUCER, PRODUCERS, workers);
        let builder = placed::<Self, _, Consumer>(builder, FIRST_CONSUMER, CONSUMERS, workers);
        started(builder, workers, watch)
    }
}
