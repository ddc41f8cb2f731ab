//! A graph under attack, on threads and under seeds: an edge of each kind, handlers that panic,
//! replicas that retire, and instances that move at every epoch.
//!
//! A [`Ledger`] has an entry for each message when it is made, and one when it meets its fate: a
//! handler began with it, the sender got it back, or `on_undelivered` got it.

use std::any::Any;
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use rast_msgpass::primitive::Random;
use rast_msgpass::{
    Builder, Cx, Egress, Ingress, OnPanic, Process, Receive, Report, Retired, graph,
};

use crate::rotate::Rotate;

/// The messages of one edge: how many, and the sum of their numbers, each mixed.
#[derive(Default)]
struct Sum {
    count: AtomicU64,
    mixed: AtomicU64,
}

impl Sum {
    fn add(&self, mark: &Mark) {
        self.count.fetch_add(1, SeqCst);
        self.mixed.fetch_add(mix(mark.id), SeqCst);
    }

    fn get(&self) -> (u64, u64) {
        (self.count.load(SeqCst), self.mixed.load(SeqCst))
    }
}

fn mix(number: u64) -> u64 {
    Random::new(number).draw()
}

/// What all that was sent came to.
#[derive(Default)]
pub(crate) struct Ledger {
    made: [Sum; EDGES],
    ended: [Sum; EDGES],
    returned: AtomicU64,
    next: AtomicU64,
    /// Messages that came behind a later one of their pair.
    late: AtomicU64,
    /// Who was told of which replica that retired.
    told: Mutex<Vec<(Watcher, usize)>>,
}

/// A processor that asked to be told, and its replica.
type Watcher = (&'static str, usize);

/// What each message carries.
pub(crate) struct Mark {
    id: u64,
    from: usize,
    /// Rises with each message of its sender.
    number: u64,
}

impl Ledger {
    /// Makes the next message of an edge.
    pub(crate) fn mark(&self, edge: usize, from: usize, number: &mut u64) -> Mark {
        *number += 1;
        let mark = Mark {
            id: self.next.fetch_add(1, SeqCst),
            from,
            number: *number,
        };
        self.made[edge].add(&mark);
        mark
    }

    /// A message has met its fate.
    pub(crate) fn end(&self, edge: usize, mark: &Mark) {
        self.ended[edge].add(mark);
    }

    /// Returns whether each replica that retired was told to each that asked.
    pub(crate) fn has_told(&self, report: &Report) -> bool {
        self.told.lock().unwrap().len() == WATCHERS.len() * retired(report).len()
    }

    /// Each message has one fate, and each pair its order. No death was told twice to one.
    pub(crate) fn check_fates(&self, report: &Report, what: &str) {
        for edge in 0..EDGES {
            let (made, ended) = (self.made[edge].get(), self.ended[edge].get());
            assert_eq!(made, ended, "{what}, edge {edge}\n{report}");
        }
        assert_eq!(self.late.load(SeqCst), 0, "{what}: out of order");
        assert!(report.faults.is_empty(), "{what}\n{report}");
        let mut told = self.told.lock().unwrap().clone();
        let all = told.len();
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), all, "{what}: told twice");
    }

    /// As `check_fates`; and each death was told to each that asked.
    pub(crate) fn check(&self, report: &Report, what: &str) {
        self.check_fates(report, what);
        let told = self.told.lock().unwrap();
        let retired = retired(report);
        for watcher in WATCHERS {
            let told = told.iter().filter(|(who, _)| *who == watcher);
            let mut told: Vec<usize> = told.map(|(_, replica)| *replica).collect();
            told.sort_unstable();
            assert_eq!(told, retired, "{what}: {watcher:?}\n{report}");
        }
    }

    /// Returns how many messages an edge that rejects has returned.
    pub(crate) fn returned(&self) -> u64 {
        self.returned.load(SeqCst)
    }
}

/// The replicas of `Part` that retired.
pub(crate) fn retired(report: &Report) -> Vec<usize> {
    let all = report.metrics.instances.iter();
    let parts = all.filter(|one| one.name == "part" && one.is_retired);
    parts.map(|one| one.replica).collect()
}

const WATCHERS: [Watcher; 3] = [("front", 0), ("front", 1), ("sink", 0)];

macro_rules! kinds {
    ($($edge:literal $name:ident),+) => {
        $(pub(crate) struct $name(pub(crate) Mark);)+

        /// Returns the edge and the mark of a message.
        fn edge_and_mark(message: &dyn Any) -> Option<(usize, &Mark)> {
            $(if let Some($name(mark)) = message.downcast_ref() {
                return Some(($edge, mark));
            })+
            None
        }
    };
}
kinds!(0 Put, 1 Job, 2 Offer, 3 Fresh, 4 Tick, 5 Last, 6 Done, 7 Out);
const EDGES: usize = 8;

graph! {
    pub(crate) graph Storm {
        processors { front: [Front; 2], part: [Part; _], sink: Sink }
        edges {
            ingress -> front: Put [cap = 8];
            front -> part: Job [cap = 4];
            front -> part: Offer [cap = 2, reject];
            front -> part: Fresh [cap = 2, drop_newest];
            front -> part: Tick [cap = 2, drop_oldest];
            front -> part: Last [latest, high];
            part -> sink: Done;
            sink -> egress: Out [cap = 64];
        }
    }
}

/// What an instance knows.
struct Own {
    ledger: Arc<Ledger>,
    /// The number of its last message.
    number: u64,
    /// The last number of each sender, by edge.
    last: HashMap<(usize, usize), u64>,
}

impl Own {
    fn new(ledger: &Arc<Ledger>) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            number: 0,
            last: HashMap::new(),
        }
    }

    fn mark(&mut self, edge: usize, from: usize) -> Mark {
        self.ledger.mark(edge, from, &mut self.number)
    }

    /// A handler begins.
    fn begin(&mut self, edge: usize, mark: &Mark) {
        self.ledger.end(edge, mark);
        let last = self.last.insert((edge, mark.from), mark.number);
        if last.is_some_and(|last| last >= mark.number) {
            self.ledger.late.fetch_add(1, SeqCst);
        }
    }

    fn told(&self, watcher: Watcher, who: Retired) {
        assert!(who.is::<Storm, Part>());
        self.ledger
            .told
            .lock()
            .unwrap()
            .push((watcher, who.replica));
    }
}

/// Panics for one message in so many, without a text.
fn panic_for(mark: &Mark, one_in: u64) {
    if mix(mark.id).is_multiple_of(one_in) {
        resume_unwind(Box::new("by order"));
    }
}

pub(crate) struct Front {
    own: Own,
    parts: usize,
}
pub(crate) struct Part {
    own: Own,
    one_in: u64,
}
pub(crate) struct Sink(Own);

impl Process<Storm> for Front {
    fn on_start(&mut self, cx: &mut Cx<'_, Storm, Self>) {
        cx.watch::<Part>();
    }
    fn on_retired(&mut self, who: Retired, cx: &mut Cx<'_, Storm, Self>) {
        self.own.told(("front", cx.replica()), who);
    }
}
impl Receive<Storm, Ingress, Put> for Front {
    fn receive(&mut self, Put(mark): Put, cx: &mut Cx<'_, Storm, Self>) {
        self.own.begin(0, &mark);
        let (own, from) = (&mut self.own, cx.replica());
        let to = (mix(!mark.id) % self.parts as u64) as usize;
        cx.to::<Part>().at(to).send(Job(own.mark(1, from)));
        if let Err(full) = cx.to::<Part>().at(to).try_send(Offer(own.mark(2, from))) {
            own.ledger.end(2, &full.into_inner().0);
            own.ledger.returned.fetch_add(1, SeqCst);
        }
        cx.to::<Part>().at(to).send(Fresh(own.mark(3, from)));
        cx.to::<Part>().at(to).send(Tick(own.mark(4, from)));
        cx.to::<Part>().at(to).send(Last(own.mark(5, from)));
        // What it sent is sent.
        panic_for(&mark, 61);
    }
}
impl Process<Storm> for Part {}
impl Receive<Storm, Front, Job> for Part {
    fn receive(&mut self, Job(mark): Job, cx: &mut Cx<'_, Storm, Self>) {
        self.own.begin(1, &mark);
        panic_for(&mark, self.one_in);
        let done = self.own.mark(6, cx.replica());
        cx.to::<Sink>().send(Done(done));
    }
}
macro_rules! begins {
    ($($edge:literal $name:ident),+) => {
        $(impl Receive<Storm, Front, $name> for Part {
            fn receive(&mut self, $name(mark): $name, _: &mut Cx<'_, Storm, Self>) {
                self.own.begin($edge, &mark);
            }
        })+
    };
}
begins!(2 Offer, 3 Fresh, 4 Tick, 5 Last);

impl Process<Storm> for Sink {
    fn on_start(&mut self, cx: &mut Cx<'_, Storm, Self>) {
        cx.watch::<Part>();
    }
    fn on_retired(&mut self, who: Retired, _: &mut Cx<'_, Storm, Self>) {
        self.0.told(("sink", 0), who);
    }
}
impl Receive<Storm, Part, Done> for Sink {
    fn receive(&mut self, Done(mark): Done, cx: &mut Cx<'_, Storm, Self>) {
        self.0.begin(6, &mark);
        let out = self.0.mark(7, 0);
        cx.to::<Egress>().send(Out(out));
    }
}

/// Makes the graph with so many parts, which panic for one job in so many and retire.
pub(crate) fn storm(ledger: &Arc<Ledger>, parts: usize, one_in: u64) -> Builder<Storm> {
    let front = || Front {
        own: Own::new(ledger),
        parts,
    };
    let part = |_| Part {
        own: Own::new(ledger),
        one_in,
    };
    let lost = Arc::clone(ledger);
    Storm::builder(
        [front(), front()],
        (0..parts).map(part),
        Sink(Own::new(ledger)),
    )
    .balancer(Rotate)
    .on_panic_of::<Part>(OnPanic::Retire)
    .on_undelivered(move |_, message| {
        let (edge, mark) = edge_and_mark(&*message).expect("a message of the graph");
        lost.end(edge, mark);
    })
}
