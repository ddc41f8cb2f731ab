//! Concurrent dictionary: workers read and write a map that one actor owns. The size is the number
//! of requests of one worker.
//!
//! Workers write odd keys and read even ones, so that the result does not depend on their order.

use std::any::Any;
use std::collections::HashMap;
use std::sync::OnceLock;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::{Random, Watch};
use super::{Actor, Peers, Program, placed, started};

pub(super) struct ConcurrentDictionary;

const WORKERS: usize = 20;
/// Percent of the requests that write.
const WRITES: u64 = 10;
/// The first keys, each with itself as its value.
const ENTRIES: i32 = i32::MAX / 4096;

pub(super) enum Member {
    Dictionary(Dictionary),
    Worker(Worker),
}

pub(super) struct Dictionary(HashMap<i32, i32>);

pub(super) struct Worker {
    index: usize,
    left: u64,
    random: Random,
    sum: u64,
    watch: Watch,
}

/// A request: the worker, the key, and what to write there.
#[derive(Clone, Copy)]
pub(super) struct Ask(usize, i32, Option<i32>);

/// What was read or written.
#[derive(Clone, Copy)]
pub(super) struct Value(Option<i32>);

#[derive(Clone, Copy)]
pub(super) enum Note {
    Start,
    Ask(Ask),
    Value(Value),
}

impl Dictionary {
    /// A copy of a map that is made once.
    fn new() -> Self {
        static FIRST: OnceLock<HashMap<i32, i32>> = OnceLock::new();
        let first = FIRST.get_or_init(|| (0..ENTRIES).map(|key| (key, key)).collect());
        Self(first.clone())
    }

    #[inline]
    fn on(&mut self, Ask(_, key, value): Ask) -> Value {
        match value {
            Some(value) => {
                self.0.insert(key, value);
                Value(Some(value))
            }
            None => Value(self.0.get(&key).copied()),
        }
    }
}

impl Worker {
    /// The next request, if the requests are not over.
    #[inline]
    fn next(&mut self) -> Option<Ask> {
        if self.left == 0 {
            self.watch.part(self.sum);
            return None;
        }
        self.left -= 1;
        Some(request(self.index, &mut self.random))
    }

    #[inline]
    fn answered(&mut self, Value(value): Value) -> Option<Ask> {
        self.sum += counted(value);
        self.next()
    }
}

fn request(worker: usize, random: &mut Random) -> Ask {
    let writes = random.below(100) < WRITES;
    // One of the first keys, as in Savina; the last one is even.
    let key = random.below(ENTRIES as u64 - 1) as i32;
    match writes {
        true => Ask(worker, key | 1, Some(random.next() as i32)),
        false => Ask(worker, key & !1, None),
    }
}

/// What a value adds to the result.
fn counted(value: Option<i32>) -> u64 {
    value.map_or(1, |value| u64::from(value.unsigned_abs()))
}

impl Actor for Member {
    type Message = Note;

    #[inline]
    fn handle(&mut self, note: Note, to: &impl Peers<Note>) {
        let next = match (self, note) {
            (Self::Dictionary(dictionary), Note::Ask(ask)) => {
                return to.send(1 + ask.0, Note::Value(dictionary.on(ask)));
            }
            (Self::Worker(worker), Note::Start) => worker.next(),
            (Self::Worker(worker), Note::Value(value)) => worker.answered(value),
            _ => panic!("no such message comes here"),
        };
        if let Some(ask) = next {
            to.send(0, Note::Ask(ask));
        }
    }
}

graph! {
    graph Library {
        processors { dictionary: Dictionary, worker: [Worker; WORKERS] [source] }
        edges {
            worker -> dictionary: Ask;
            dictionary -> worker: Value [unbounded];
        }
    }
}

impl Process<Library> for Dictionary {}
impl Receive<Library, Worker, Ask> for Dictionary {
    fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Library, Self>) {
        let value = self.on(ask);
        cx.to::<Worker>().at(ask.0).send(value);
    }
}
impl Process<Library> for Worker {
    fn ping(&mut self, cx: &mut Cx<'_, Library, Self>) -> Next {
        if let Some(ask) = self.next() {
            cx.to::<Dictionary>().send(ask);
        }
        Next::Idle
    }
}
impl Receive<Library, Dictionary, Value> for Worker {
    fn receive(&mut self, value: Value, cx: &mut Cx<'_, Library, Self>) {
        if let Some(ask) = self.answered(value) {
            cx.to::<Dictionary>().send(ask);
        }
    }
}

fn workers_of(size: u64, watch: &Watch) -> impl Iterator<Item = Worker> {
    (0..WORKERS).map(move |index| Worker {
        index,
        left: size,
        random: Random::new(index as u64),
        sum: 0,
        watch: watch.clone(),
    })
}

impl Program for ConcurrentDictionary {
    const NAME: &'static str = "savina: concurrent dictionary";
    const SIZE: u64 = 10_000;
    const SMOKE: u64 = 50;
    const PARTS: u64 = WORKERS as u64;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        2 * size * WORKERS as u64
    }

    fn expected(size: u64) -> u64 {
        let of = |index: usize| {
            let mut random = Random::new(index as u64);
            (0..size).map(move |_| match request(index, &mut random) {
                Ask(_, _, Some(written)) => counted(Some(written)),
                Ask(_, key, None) => counted(Some(key)),
            })
        };
        (0..WORKERS).flat_map(of).sum()
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let workers = workers_of(size, watch).map(Member::Worker);
        std::iter::once(Member::Dictionary(Dictionary::new()))
            .chain(workers)
            .collect()
    }

    fn first() -> Vec<(usize, Note)> {
        (1..=WORKERS).map(|to| (to, Note::Start)).collect()
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let members = workers_of(size, watch).collect::<Vec<_>>();
        let builder = Library::builder(Dictionary::new(), members);
        let builder = placed::<Self, _, Dictionary>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Worker>(builder, 1, WORKERS, workers);
        started(builder, workers, watch)
    }
}
