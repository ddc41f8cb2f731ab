//! Radix sort: a chain of actors, each of which sorts by one bit. It passes on the values without
//! the bit, and keeps the others until all values have come. The size is the number of values.

use std::any::Any;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::{Random, Watch};
use super::{Actor, Peers, Program, placed, started};

pub(super) struct RadixSort;

const BITS: usize = 60;

/// The actors: the source, the sorters, the check.
const CHECK: usize = 1 + BITS;

/// Neighbours in the chain that have the same worker.
const NEIGHBOURS: usize = 4;

/// Values of a ping of the graph.
const BURST: u64 = 64;

pub(super) enum Member {
    Source(Source),
    Sorter(Sorter),
    Check(Check),
}

pub(super) struct Source {
    left: u64,
    random: Random,
}

pub(super) struct Sorter {
    bit: usize,
    left: u64,
    kept: Vec<u64>,
}

pub(super) struct Check {
    left: u64,
    before: u64,
    sum: u64,
    watch: Watch,
}

impl Source {
    fn new(size: u64) -> Self {
        Self {
            left: size,
            random: Random::new(2048),
        }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.left -= 1;
        value(&mut self.random)
    }
}

#[inline]
fn value(random: &mut Random) -> u64 {
    random.next() & ((1 << BITS) - 1)
}

impl Sorter {
    fn new(bit: usize, size: u64) -> Self {
        Self {
            bit,
            left: size,
            kept: Vec::with_capacity(size as usize),
        }
    }

    /// Passes on a value without the bit. After the last value it passes on those with the bit.
    #[inline]
    fn sort(&mut self, value: u64, mut send: impl FnMut(u64)) {
        match (value >> self.bit) & 1 {
            0 => send(value),
            _ => self.kept.push(value),
        }
        self.left -= 1;
        if self.left == 0 {
            self.kept.drain(..).for_each(send);
        }
    }
}

impl Check {
    fn new(size: u64, watch: &Watch) -> Self {
        Self {
            left: size,
            before: 0,
            sum: 0,
            watch: watch.clone(),
        }
    }

    #[inline]
    fn check(&mut self, value: u64) {
        assert!(value >= self.before, "the values are sorted");
        self.before = value;
        self.sum = self.sum.wrapping_add(value);
        self.left -= 1;
        if self.left == 0 {
            self.watch.part(self.sum);
        }
    }
}

impl Actor for Member {
    type Message = u64;

    #[inline]
    fn handle(&mut self, value: u64, to: &impl Peers<u64>) {
        match self {
            Self::Source(source) => {
                while source.left > 0 {
                    to.send(1, source.next());
                }
            }
            Self::Sorter(sorter) => {
                let next = sorter.bit + 2;
                sorter.sort(value, |value| to.send(next, value));
            }
            Self::Check(check) => check.check(value),
        }
    }
}

graph! {
    graph Chain {
        processors { source: Source [source], sorter: [Sorter; BITS], check: Check }
        edges {
            source -> sorter: u64 [burst = BURST as usize, cap = 256];
            sorter -> sorter: u64 [unbounded, rings, cap = 256];
            sorter -> check: u64 [unbounded, cap = 256];
        }
    }
}

impl Process<Chain> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Chain, Self>) -> Next {
        for _ in 0..self.left.min(BURST) {
            let value = self.next();
            cx.to::<Sorter>().at(0).send(value);
        }
        match self.left {
            0 => Next::Idle,
            _ => Next::Again,
        }
    }
}
impl Process<Chain> for Sorter {}
impl<From> Receive<Chain, From, u64> for Sorter {
    #[inline]
    fn receive(&mut self, value: u64, cx: &mut Cx<'_, Chain, Self>) {
        let next = self.bit + 1;
        if next == BITS {
            self.sort(value, |value| cx.to::<Check>().send(value));
        } else {
            self.sort(value, |value| cx.to::<Self>().at(next).send(value));
        }
    }
}
impl Process<Chain> for Check {}
impl Receive<Chain, Sorter, u64> for Check {
    #[inline]
    fn receive(&mut self, value: u64, _: &mut Cx<'_, Chain, Self>) {
        self.check(value);
    }
}

impl Program for RadixSort {
    const NAME: &'static str = "savina: radix sort";
    const SIZE: u64 = 100_000;
    const SMOKE: u64 = 500;
    const THREADS_SHARE: u64 = 1;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        (BITS as u64 + 1) * size
    }

    fn expected(size: u64) -> u64 {
        let mut random = Random::new(2048);
        (0..size).fold(0, |sum, _| sum.wrapping_add(value(&mut random)))
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let sorters = (0..BITS).map(|bit| Member::Sorter(Sorter::new(bit, size)));
        std::iter::once(Member::Source(Source::new(size)))
            .chain(sorters)
            .chain([Member::Check(Check::new(size, watch))])
            .collect()
    }

    fn first() -> Vec<(usize, u64)> {
        vec![(0, 0)]
    }

    /// A sorter sends half of its values at its end, so mostly a few neighbours work at a time.
    fn home(actor: usize, threads: usize) -> usize {
        actor / NEIGHBOURS % threads
    }

    /// The first and the second half, which takes four fifths of the time.
    fn arbiter(actor: usize, threads: usize) -> usize {
        actor * threads / (CHECK + 1)
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let sorters = (0..BITS).map(|bit| Sorter::new(bit, size));
        let builder = Chain::builder(Source::new(size), sorters, Check::new(size, watch));
        let builder = placed::<Self, _, Source>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Sorter>(builder, 1, BITS, workers);
        let builder = placed::<Self, _, Check>(builder, CHECK, 1, workers);
        started(builder, workers, watch)
    }
}
