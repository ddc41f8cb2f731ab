//! Logistic map: a master tells each of several series to compute its terms. A series asks its
//! computer for one term at a time. The size is the number of terms of a series.

use std::any::Any;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::Watch;
use super::{Actor, Peers, Program, placed, started};

pub(super) struct LogisticMap;

const SERIES: usize = 10;
const RATE: f64 = 3.46;
const STEP: f64 = 0.0025;

/// Orders of a ping of the graph to each series.
const BURST: u64 = 64;

/// The actors: the master, the series, the computers.
const FIRST_SERIES: usize = 1;
const FIRST_COMPUTER: usize = FIRST_SERIES + SERIES;

pub(super) enum Member {
    Master(Master),
    Series(Series),
    Computer(Computer),
}

pub(super) struct Master {
    /// Orders to send to each series.
    left: u64,
    unknown: usize,
    sum: u64,
    watch: Watch,
}

pub(super) struct Series {
    index: usize,
    term: f64,
    /// Orders that came while the series waited for its computer.
    kept: u64,
    is_asking: bool,
    is_last: bool,
}

pub(super) struct Computer {
    index: usize,
    rate: f64,
}

#[derive(Clone, Copy)]
pub(super) enum Order {
    Next,
    /// Send the last term when all orders before are done.
    Get,
}

/// The term before, to a computer.
#[derive(Clone, Copy)]
pub(super) struct Compute(f64);
/// The next term, from a computer.
#[derive(Clone, Copy)]
pub(super) struct Computed(f64);
/// The last term of a series, to the master.
#[derive(Clone, Copy)]
pub(super) struct Last(f64);

#[derive(Clone, Copy)]
pub(super) enum Note {
    Start,
    Order(Order),
    Compute(Compute),
    Computed(Computed),
    Last(Last),
}

/// What a series sends.
enum Sends {
    Compute(Compute),
    Last(Last),
}

impl Master {
    fn new(size: u64, watch: &Watch) -> Self {
        Self {
            left: size,
            unknown: SERIES,
            sum: 0,
            watch: watch.clone(),
        }
    }

    fn last(&mut self, Last(term): Last) {
        self.sum = self.sum.wrapping_add(term.to_bits());
        self.unknown -= 1;
        if self.unknown == 0 {
            self.watch.part(self.sum);
        }
    }
}

impl Series {
    fn new(index: usize) -> Self {
        Self {
            index,
            term: (index + 1) as f64 * STEP,
            kept: 0,
            is_asking: false,
            is_last: false,
        }
    }

    #[inline]
    fn order(&mut self, order: Order) -> Option<Sends> {
        match order {
            Order::Next => self.kept += 1,
            Order::Get => self.is_last = true,
        }
        self.go_on()
    }

    #[inline]
    fn computed(&mut self, Computed(term): Computed) -> Option<Sends> {
        self.term = term;
        self.is_asking = false;
        self.go_on()
    }

    #[inline]
    fn go_on(&mut self) -> Option<Sends> {
        if self.is_asking {
            None
        } else if self.kept > 0 {
            self.kept -= 1;
            self.is_asking = true;
            Some(Sends::Compute(Compute(self.term)))
        } else {
            self.is_last.then_some(Sends::Last(Last(self.term)))
        }
    }
}

impl Computer {
    fn new(index: usize) -> Self {
        let rate = RATE + index as f64 * STEP;
        Self { index, rate }
    }

    #[inline]
    fn compute(&self, Compute(term): Compute) -> Computed {
        Computed(self.rate * term * (1.0 - term))
    }
}

impl Actor for Member {
    type Message = Note;

    #[inline]
    fn handle(&mut self, note: Note, to: &impl Peers<Note>) {
        let series = FIRST_SERIES..FIRST_COMPUTER;
        match (self, note) {
            (Self::Master(master), Note::Start) => {
                for _ in 0..master.left {
                    (series.clone()).for_each(|to_one| to.send(to_one, Note::Order(Order::Next)));
                }
                series.for_each(|to_one| to.send(to_one, Note::Order(Order::Get)));
            }
            (Self::Master(master), Note::Last(last)) => master.last(last),
            (Self::Computer(computer), Note::Compute(compute)) => {
                let computed = computer.compute(compute);
                to.send(FIRST_SERIES + computer.index, Note::Computed(computed));
            }
            (Self::Series(series), note) => {
                let sends = match note {
                    Note::Order(order) => series.order(order),
                    Note::Computed(computed) => series.computed(computed),
                    _ => panic!("no such message comes here"),
                };
                match sends {
                    Some(Sends::Compute(compute)) => {
                        to.send(FIRST_COMPUTER + series.index, Note::Compute(compute));
                    }
                    Some(Sends::Last(last)) => to.send(0, Note::Last(last)),
                    None => {}
                }
            }
            _ => panic!("no such message comes here"),
        }
    }
}

graph! {
    graph Map {
        processors {
            master: Master [source],
            series: [Series; SERIES],
            computer: [Computer; SERIES],
        }
        edges {
            master -> series: Order [burst = BURST as usize, cap = 256];
            series -> computer: Compute [unbounded, cap = 2];
            computer -> series: Computed [unbounded, cap = 2];
            series -> master: Last [unbounded, cap = 2];
        }
    }
}

impl Process<Map> for Master {
    fn ping(&mut self, cx: &mut Cx<'_, Map, Self>) -> Next {
        let count = self.left.min(BURST);
        for _ in 0..count {
            cx.to::<Series>().all().send(Order::Next);
        }
        self.left -= count;
        if count == BURST {
            return Next::Again;
        }
        cx.to::<Series>().all().send(Order::Get);
        Next::Idle
    }
}
impl Receive<Map, Series, Last> for Master {
    fn receive(&mut self, last: Last, _: &mut Cx<'_, Map, Self>) {
        self.last(last);
    }
}
impl Process<Map> for Series {}

/// Sends what a series sends.
#[inline]
fn send(cx: &mut Cx<'_, Map, Series>, sends: Option<Sends>) {
    let replica = cx.replica();
    match sends {
        Some(Sends::Compute(compute)) => cx.to::<Computer>().at(replica).send(compute),
        Some(Sends::Last(last)) => cx.to::<Master>().send(last),
        None => {}
    }
}
impl Receive<Map, Master, Order> for Series {
    #[inline]
    fn receive(&mut self, order: Order, cx: &mut Cx<'_, Map, Self>) {
        let sends = self.order(order);
        send(cx, sends);
    }
}
impl Receive<Map, Computer, Computed> for Series {
    #[inline]
    fn receive(&mut self, computed: Computed, cx: &mut Cx<'_, Map, Self>) {
        let sends = self.computed(computed);
        send(cx, sends);
    }
}
impl Process<Map> for Computer {}
impl Receive<Map, Series, Compute> for Computer {
    #[inline]
    fn receive(&mut self, compute: Compute, cx: &mut Cx<'_, Map, Self>) {
        let computed = self.compute(compute);
        cx.to::<Series>().at(self.index).send(computed);
    }
}

impl Program for LogisticMap {
    const NAME: &'static str = "savina: logistic map";
    const SIZE: u64 = 25_000;
    const SMOKE: u64 = 100;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        // Messages per term: next, compute, computed. At the end of each series: get, last.
        (3 * size + 2) * SERIES as u64
    }

    fn expected(size: u64) -> u64 {
        let last = |index| {
            let computer = Computer::new(index);
            let first = Series::new(index).term;
            (0..size).fold(first, |term, _| computer.compute(Compute(term)).0)
        };
        let bits = (0..SERIES).map(|index| last(index).to_bits());
        bits.fold(0, u64::wrapping_add)
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let series = (0..SERIES).map(|index| Member::Series(Series::new(index)));
        let computers = (0..SERIES).map(|index| Member::Computer(Computer::new(index)));
        std::iter::once(Member::Master(Master::new(size, watch)))
            .chain(series)
            .chain(computers)
            .collect()
    }

    fn first() -> Vec<(usize, Note)> {
        vec![(0, Note::Start)]
    }

    /// A series and its computer are on the same thread.
    fn home(actor: usize, threads: usize) -> usize {
        match actor.checked_sub(FIRST_SERIES) {
            None => 0,
            Some(index) => index % SERIES % threads,
        }
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let master = Master::new(size, watch);
        let series = (0..SERIES).map(Series::new);
        let builder = Map::builder(master, series, (0..SERIES).map(Computer::new));
        let builder = placed::<Self, _, Master>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Series>(builder, FIRST_SERIES, SERIES, workers);
        let builder = placed::<Self, _, Computer>(builder, FIRST_COMPUTER, SERIES, workers);
        started(builder, workers, watch)
    }
}
