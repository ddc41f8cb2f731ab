//! Counting: a producer sends increments, then asks for the count. The size is their number.

use std::any::Any;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::Watch;
use super::{Actor, Peers, Program, placed, started};

pub(super) struct Counting;

/// Increments of a ping of the graph.
const BURST: u64 = 64;

pub(super) enum Member {
    Producer(Producer),
    Counter(Counter),
}

pub(super) struct Producer {
    left: u64,
    watch: Watch,
}

#[derive(Default)]
pub(super) struct Counter(u64);

pub(super) enum Note {
    Start,
    Ask(Ask),
    Count(u64),
}

/// One edge for increments and question, because the question has to come last.
pub(super) enum Ask {
    Increment,
    Retrieve,
}

impl Counter {
    #[inline]
    fn count(&mut self, ask: &Ask) -> Option<u64> {
        match ask {
            Ask::Increment => {
                self.0 += 1;
                None
            }
            Ask::Retrieve => Some(self.0),
        }
    }
}

impl Actor for Member {
    type Message = Note;

    #[inline]
    fn handle(&mut self, note: Note, to: &impl Peers<Note>) {
        match (self, note) {
            (Self::Counter(counter), Note::Ask(ask)) => {
                if let Some(count) = counter.count(&ask) {
                    to.send(0, Note::Count(count));
                }
            }
            (Self::Producer(producer), Note::Start) => {
                for _ in 0..producer.left {
                    to.send(1, Note::Ask(Ask::Increment));
                }
                to.send(1, Note::Ask(Ask::Retrieve));
            }
            (Self::Producer(producer), Note::Count(count)) => producer.watch.part(count),
            _ => panic!("no such message comes here"),
        }
    }
}

graph! {
    graph Sum {
        processors { producer: Producer [source], counter: Counter }
        edges {
            producer -> counter: Ask [cap = 1024, burst = BURST as usize];
            counter -> producer: u64 [unbounded];
        }
    }
}

impl Process<Sum> for Producer {
    fn ping(&mut self, cx: &mut Cx<'_, Sum, Self>) -> Next {
        let count = self.left.min(BURST);
        for _ in 0..count {
            cx.to::<Counter>().send(Ask::Increment);
        }
        self.left -= count;
        if count == BURST {
            return Next::Again;
        }
        cx.to::<Counter>().send(Ask::Retrieve);
        Next::Idle
    }
}
impl Receive<Sum, Counter, u64> for Producer {
    fn receive(&mut self, count: u64, _: &mut Cx<'_, Sum, Self>) {
        self.watch.part(count);
    }
}
impl Process<Sum> for Counter {}
impl Receive<Sum, Producer, Ask> for Counter {
    #[inline]
    fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Sum, Self>) {
        if let Some(count) = self.count(&ask) {
            cx.to::<Producer>().send(count);
        }
    }
}

impl Program for Counting {
    const NAME: &'static str = "savina: counting";
    const SIZE: u64 = 1_000_000;
    const SMOKE: u64 = 1000;
    const THREADS_SHARE: u64 = 1;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        size + 2
    }

    fn expected(size: u64) -> u64 {
        size
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let producer = Producer {
            left: size,
            watch: watch.clone(),
        };
        vec![
            Member::Producer(producer),
            Member::Counter(Counter::default()),
        ]
    }

    fn first() -> Vec<(usize, Note)> {
        vec![(0, Note::Start)]
    }

    fn home(actor: usize, threads: usize) -> usize {
        actor % threads
    }

    /// Both actors are on one thread, because actix is faster then.
    fn arbiter(_: usize, _: usize) -> usize {
        0
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let producer = Producer {
            left: size,
            watch: watch.clone(),
        };
        let builder = Sum::builder(producer, Counter::default());
        let builder = placed::<Self, _, Producer>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Counter>(builder, 1, 1, workers);
        started(builder, workers, watch)
    }
}
