//! What edges do with messages without room, in bytes and in number, and which come first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast_msgpass::testing::{Room, TestGraph, for_each_seed};
use rast_msgpass::{
    Cx, Egress, Ingress, OnPanic, Process, Receive, Report, Restart, Weight, graph,
};

const SEEDS: u64 = 1_000;

/// A number with its sender, on an edge with the rule of its type.
macro_rules! numbered {
    ($($name:ident),+) => {
        $(#[derive(Clone, Copy, Debug, PartialEq, Eq)]
        struct $name(usize, u64);)+
    };
}
numbered!(Rejected, Newest, Oldest, Latest, Out);

struct Go(u64);

/// Sends each number on every edge to both receivers.
#[derive(Default)]
struct Sender {
    /// Of each receiver: what was returned.
    returned: [Vec<u64>; 2],
}
/// Keeps what comes, by rule and sender.
#[derive(Default)]
struct Receiver {
    got: [[Vec<u64>; 2]; 4],
}

graph! {
    graph Rules {
        processors { sender: [Sender; 2], receiver: [Receiver; 2] }
        edges {
            ingress -> sender: Go [cap = 4];
            sender -> receiver: Rejected [cap = 2, reject];
            sender -> receiver: Newest [cap = 2, drop_newest];
            sender -> receiver: Oldest [cap = 3, drop_oldest];
            sender -> receiver: Latest [latest, high];
            receiver -> egress: Out [cap = 2, drop_newest];
        }
    }
}

impl Process<Rules> for Sender {}
impl Receive<Rules, Ingress, Go> for Sender {
    fn receive(&mut self, Go(number): Go, cx: &mut Cx<'_, Rules, Self>) {
        let own = cx.replica();
        for to in 0..2 {
            let rejected = Rejected(own, number);
            let has_room = cx.to::<Receiver>().at(to).room::<Rejected>() > 0;
            let sent = cx.to::<Receiver>().at(to).try_send(rejected);
            assert_eq!(sent.is_ok(), has_room);
            if let Err(full) = sent {
                self.returned[to].push(full.into_inner().1);
            }
            assert!(cx.to::<Receiver>().at(to).has_room::<Latest>(9));
        }
        cx.to::<Receiver>().all().send(Newest(own, number));
        cx.to::<Receiver>().at(0).send(Oldest(own, number));
        let sent = cx.to::<Receiver>().at(1).try_send(Oldest(own, number));
        sent.expect("the oldest makes room");
        cx.to::<Receiver>().all().send(Latest(own, number));
    }
}
impl Process<Rules> for Receiver {}
macro_rules! receives {
    ($($at:literal $name:ident),+) => {
        $(impl Receive<Rules, Sender, $name> for Receiver {
            fn receive(&mut self, message: $name, cx: &mut Cx<'_, Rules, Self>) {
                assert_eq!(message.0, cx.sender());
                self.got[$at][message.0].push(message.1);
                cx.to::<Egress>().send(Out($at, message.1));
            }
        })+
    };
}
receives!(0 Rejected, 1 Newest, 2 Oldest, 3 Latest);

/// Messages that were dropped: the rule, the sender and the number.
type Dropped = Arc<Mutex<Vec<(usize, usize, u64)>>>;

fn rules(seed: u64, dropped: &Dropped, on_panic: OnPanic) -> TestGraph<Rules> {
    let dropped = Arc::clone(dropped);
    Rules::builder(
        [Sender::default(), Sender::default()],
        [Receiver::default(), Receiver::default()],
    )
    .workers(1 + seed as usize % 3)
    .on_panic(on_panic)
    .on_undelivered(move |_, message| {
        let lost = if let Some(message) = message.downcast_ref::<Newest>() {
            (1, message.0, message.1)
        } else if let Some(message) = message.downcast_ref::<Oldest>() {
            (2, message.0, message.1)
        } else if let Some(message) = message.downcast_ref::<Latest>() {
            (3, message.0, message.1)
        } else if let Some(message) = message.downcast_ref::<Rejected>() {
            (0, message.0, message.1)
        } else {
            (4, 0, 0)
        };
        dropped.lock().unwrap().push(lost);
    })
    .test(seed)
    .unwrap()
}

fn is_rising(numbers: &[u64]) -> bool {
    numbers.windows(2).all(|two| two[0] < two[1])
}

fn counts(report: &Report) -> [u64; 4] {
    core::array::from_fn(|rule| report.metrics.edges[1 + rule].dropped)
}

const NUMBERS: u64 = 40;

#[test]
fn each_rule_keeps_its_promise_and_counts() {
    for_each_seed(0..SEEDS, |seed| {
        let dropped = Dropped::default();
        let mut app = rules(seed, &dropped, OnPanic::Continue);
        let out = app.collect::<Receiver, Out>(0);
        for sender in 0..2 {
            app.feed_by_key::<Sender, Go>((0..NUMBERS).map(move |number| {
                let mut keys = 0..;
                let key = keys.find(|&key| rast_msgpass::replica_of(key, 2) == sender);
                (key.unwrap(), Go(number))
            }));
        }
        if seed % 3 == 0 {
            app.pause::<Receiver>(0);
            app.steps(200);
            app.resume::<Receiver>(0);
        }
        app.run_until_idle();
        let report = app.drain().unwrap();
        let (senders, receivers) = (
            report.take_states::<Rules, Sender>(),
            report.take_states::<Rules, Receiver>(),
        );
        let dropped = dropped.lock().unwrap();
        for (to, receiver) in receivers.iter().enumerate() {
            for (from, sender) in senders.iter().enumerate() {
                for rule in 0..4 {
                    assert!(is_rising(&receiver.got[rule][from]), "the order of a pair");
                }
                // What was returned and what was handled is what was sent.
                let mut all = [&receiver.got[0][from][..], &sender.returned[to]].concat();
                all.sort_unstable();
                assert_eq!(all, (0..NUMBERS).collect::<Vec<_>>());
                // The newest always comes.
                assert_eq!(receiver.got[2][from].last(), Some(&(NUMBERS - 1)));
                assert_eq!(receiver.got[3][from].last(), Some(&(NUMBERS - 1)));
                // The first ones have room.
                assert_eq!(receiver.got[1][from][..2], [0, 1]);
            }
        }
        for rule in 1..4 {
            for from in 0..2 {
                let handled = receivers
                    .iter()
                    .flat_map(|one| &one.got[rule][from])
                    .copied();
                let lost = dropped
                    .iter()
                    .filter(|lost| (lost.0, lost.1) == (rule, from));
                let mut all: Vec<u64> = handled.chain(lost.map(|lost| lost.2)).collect();
                all.sort_unstable();
                let twice = (0..NUMBERS).flat_map(|number| [number, number]);
                assert_eq!(all, twice.collect::<Vec<_>>(), "rule {rule}");
            }
            let lost = dropped.iter().filter(|lost| lost.0 == rule).count();
            assert_eq!(counts(&report)[rule], lost as u64);
        }
        assert_eq!(counts(&report)[0], 0);
        let lane = report.metrics.edges[5];
        assert_eq!(lane.sent, out.len() as u64);
        assert_eq!(report.undelivered_total(), 0);
        for edge in &report.metrics.edges[1..] {
            assert_eq!((edge.depth, edge.sent), (0, edge.received));
        }
    });
}

#[test]
fn rules_hold_where_handlers_panic_and_processors_retire() {
    for_each_seed(0..SEEDS, |seed| {
        let dropped = Dropped::default();
        let policy = [OnPanic::Continue, OnPanic::Retire][seed as usize % 2];
        let mut app = rules(seed, &dropped, policy);
        app.panic_in::<Receiver>(0, 3 + seed % 11);
        app.panic_in::<Sender>(1, 2 + seed % 7);
        app.feed_by_key::<Sender, Go>((0..2 * NUMBERS).map(|number| (number, Go(number))));
        app.run_until_idle();
        let report = app.stop();
        let sent: u64 = report.metrics.edges[1..5]
            .iter()
            .map(|edge| edge.sent)
            .sum();
        let gone: u64 = report.metrics.edges[1..5]
            .iter()
            .map(|edge| edge.received)
            .sum();
        assert_eq!(sent, gone, "what was sent was handled or given up");
        assert!(report.faults.is_empty(), "{:?}", report.faults);
    });
}

#[test]
fn a_test_fills_edges_that_never_gate() {
    for_each_seed(0..50, |seed| {
        let dropped = Dropped::default();
        let mut app = rules(seed, &dropped, OnPanic::Continue);
        app.set_room::<Sender, Receiver, Rejected>(Room::None);
        app.set_room::<Sender, Receiver, Newest>(Room::None);
        app.set_room::<Sender, Receiver, Latest>(Room::None);
        app.feed_by_key::<Sender, Go>((0..4).map(|number| (number, Go(number))));
        app.run_until_idle();
        assert_eq!(app.metrics().edges[1].received, 0);
        assert_eq!(app.metrics().edges[2].dropped, 8);
        let latest = app.metrics().edges[4];
        assert_eq!(latest.received + latest.dropped, 8);
        let returned = |app: &mut TestGraph<Rules>, of| {
            let sender = app.processor::<Sender>(of);
            sender.returned.iter().map(Vec::len).sum::<usize>()
        };
        assert_eq!(returned(&mut app, 0) + returned(&mut app, 1), 8);
    });
}

/// A message of a weight, with its number.
#[derive(Debug)]
struct Parcel(usize, u64);
struct Light(usize, u64);

impl Weight for Parcel {
    fn weight(&self) -> usize {
        assert!(self.0 < 1_000, "a parcel that cannot be weighed");
        self.0
    }
}
impl Weight for Light {
    fn weight(&self) -> usize {
        self.0
    }
}

/// What waits in the edge of parcels, by receiver.
type Scale = Arc<Mutex<[VecDeque<usize>; 2]>>;

struct Packer {
    scale: Scale,
    number: u64,
}
struct Porter {
    scale: Scale,
    got: Vec<u64>,
    light: Vec<u64>,
}

graph! {
    graph Post {
        processors { packer: Packer, porter: [Porter; 2] }
        edges {
            ingress -> packer: usize [cap = 4];
            packer -> porter: Parcel [bytes = 100, cap = 8, burst = 2];
            packer -> porter: Light [bytes = 10, cap = 4, drop_oldest];
        }
    }
}

impl Process<Post> for Packer {}
impl Receive<Post, Ingress, usize> for Packer {
    fn receive(&mut self, weight: usize, cx: &mut Cx<'_, Post, Self>) {
        for _ in 0..2 {
            let to = self.number as usize % 2;
            let waiting = |scale: &Scale| scale.lock().unwrap()[to].iter().sum::<usize>();
            let before = waiting(&self.scale);
            assert!(before < 100, "{before} bytes wait, and the handler runs");
            assert!(self.scale.lock().unwrap()[to].len() < 8);
            self.scale.lock().unwrap()[to].push_back(weight);
            cx.to::<Porter>().at(to).send(Parcel(weight, self.number));
            cx.to::<Porter>()
                .at(to)
                .send(Light(weight % 7, self.number));
            self.number += 1;
        }
    }
}
impl Process<Post> for Porter {}
impl Receive<Post, Packer, Parcel> for Porter {
    fn receive(&mut self, parcel: Parcel, cx: &mut Cx<'_, Post, Self>) {
        let first = self.scale.lock().unwrap()[cx.replica()].pop_front();
        assert_eq!(first, Some(parcel.0));
        self.got.push(parcel.1);
    }
}
impl Receive<Post, Packer, Light> for Porter {
    fn receive(&mut self, light: Light, _: &mut Cx<'_, Post, Self>) {
        self.light.push(light.1);
    }
}

fn post() -> (Packer, [Porter; 2]) {
    let scale = Scale::default();
    let porter = || Porter {
        scale: Arc::clone(&scale),
        got: Vec::new(),
        light: Vec::new(),
    };
    let porters = [porter(), porter()];
    (Packer { scale, number: 0 }, porters)
}

#[test]
fn bytes_bound_what_waits_and_gate_the_sender() {
    for_each_seed(0..SEEDS, |seed| {
        let (packer, porters) = post();
        let mut app = Post::builder(packer, porters)
            .workers(1 + seed as usize % 3)
            .test(seed)
            .unwrap();
        // Heavier than all the room is allowed, one at a time.
        let weights = (0..60).map(move |at| [1, 30, 99, 250, 0][(at + seed as usize) % 5]);
        app.feed::<Packer, usize>(weights);
        if seed % 4 == 0 {
            app.pause::<Porter>(1);
            app.steps(300);
            let edge = app.metrics().edges[1];
            assert!(edge.depth <= 16);
            app.resume::<Porter>(1);
        }
        app.run_until_idle();
        let report = app.drain().unwrap();
        let light = report.metrics.edges[2];
        assert_eq!(light.received + light.dropped, 120);
        for (at, porter) in report.take_states::<Post, Porter>().iter().enumerate() {
            let all = (0..120).filter(|number| number % 2 == at as u64);
            assert_eq!(porter.got, all.collect::<Vec<_>>());
            assert!(is_rising(&porter.light));
            assert_eq!(porter.light.last(), porter.got.last());
        }
    });
}

#[test]
fn a_message_that_cannot_be_weighed_costs_its_handler() {
    for_each_seed(0..50, |seed| {
        let (packer, porters) = post();
        let mut app = Post::builder(packer, porters).test(seed).unwrap();
        app.send::<Packer, usize>(5).unwrap();
        app.send::<Packer, usize>(1_000).unwrap();
        app.run_until_idle();
        assert_eq!(app.metrics().edges[1].sent, 2);
        assert_eq!(app.metrics().edges[1].depth, 0);
        let report = app.stop();
        assert_eq!(report.panics.len(), 1);
        assert!(report.panics[0].message.contains("cannot be weighed"));
    });
}

#[derive(Clone, Copy)]
struct Urgent(u64);
struct Bulk(u64);

/// Sends what comes in, by two edges.
struct Splitter;
#[derive(Default)]
struct Worker {
    /// Whether each handled message was urgent.
    order: Vec<bool>,
    urgent: Vec<u64>,
    bulk: Vec<u64>,
    restarts: u64,
}

graph! {
    graph Ranks {
        processors { splitter: Splitter, worker: Worker }
        edges {
            ingress -> splitter: u64 [cap = 4];
            splitter -> worker: Bulk [cap = 64];
            splitter -> worker: Urgent [cap = 64, high];
            ingress -> worker: Urgent [cap = 64, high];
            ingress -> worker: Bulk [cap = 64];
        }
    }
}

impl Process<Ranks> for Splitter {}
impl Receive<Ranks, Ingress, u64> for Splitter {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Ranks, Self>) {
        cx.to::<Worker>().send(Bulk(number));
        cx.to::<Worker>().send(Urgent(number));
    }
}
impl Process<Ranks> for Worker {
    fn on_start(&mut self, cx: &mut Cx<'_, Ranks, Self>) {
        self.restarts = cx.restarts();
    }
}
impl<F> Receive<Ranks, F, Urgent> for Worker {
    fn receive(&mut self, Urgent(number): Urgent, _: &mut Cx<'_, Ranks, Self>) {
        self.order.push(true);
        self.urgent.push(number);
    }
}
impl<F> Receive<Ranks, F, Bulk> for Worker {
    fn receive(&mut self, Bulk(number): Bulk, _: &mut Cx<'_, Ranks, Self>) {
        self.order.push(false);
        self.bulk.push(number);
    }
}

fn ranks(seed: u64) -> TestGraph<Ranks> {
    let builder = Ranks::builder(Splitter, Worker::default());
    builder.workers(1 + seed as usize % 2).test(seed).unwrap()
}

#[test]
fn high_messages_go_first_and_the_others_keep_moving() {
    for_each_seed(0..SEEDS, |seed| {
        let mut app = ranks(seed);
        app.pause::<Worker>(0);
        app.feed::<Splitter, u64>(0..40);
        app.run_until_idle();
        for number in 0..20 {
            app.send::<Worker, Bulk>(Bulk(100 + number)).unwrap();
        }
        app.resume::<Worker>(0);
        app.run_until_idle();
        let order = app.processor::<Worker>(0).order.clone();
        assert_eq!(
            (order.len(), order.iter().filter(|is| **is).count()),
            (100, 40)
        );
        // Every turn but the last of the high ones handled one of them at least, and then at most
        // a sixteenth of its batch of the others, at least one: 4 of 64.
        let last = order.iter().rposition(|is_high| *is_high).unwrap();
        let low = order[..last].iter().filter(|is| !**is).count();
        assert!(low <= 40, "{low} low messages before the last high one");
        let mut run = 0;
        for is_high in &order[..last] {
            run = if *is_high { 0 } else { run + 1 };
            assert!(run <= 4, "low messages in a row while high ones wait");
        }
        assert!(is_rising(&app.processor::<Worker>(0).urgent));
        let bulk = &app.processor::<Worker>(0).bulk;
        for all in [(0..40), (100..120)] {
            let found = bulk.iter().copied().filter(|number| all.contains(number));
            assert_eq!(found.collect::<Vec<_>>(), all.collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_high_edge_that_never_runs_dry_starves_no_other() {
    for_each_seed(0..SEEDS, |seed| {
        let mut app = ranks(seed);
        (0..10).for_each(|number| app.send::<Worker, Bulk>(Bulk(number)).unwrap());
        let urgent = app.handle().ingress::<Worker, Urgent>();
        let mut sent = 0;
        // The door of urgent messages is filled again before each turn.
        for _ in 0..200 {
            while urgent.try_send(Urgent(sent)).is_ok() {
                sent += 1;
            }
            app.step();
        }
        assert_eq!(app.processor::<Worker>(0).bulk.len(), 10);
        // And they had the greater part.
        let handled = app.processor::<Worker>(0).urgent.len();
        assert!(handled > 100, "{handled}");
        app.drain().unwrap();
    });
}

#[test]
fn ranks_outlive_a_restart() {
    for_each_seed(0..SEEDS / 4, |seed| {
        let restart = Restart::new().delay(Duration::ZERO, Duration::ZERO);
        let restart = restart.without_limit(Duration::from_secs(1));
        let mut app = Ranks::builder(Splitter, Worker::default())
            .restart::<Worker>(restart, |_| Worker::default())
            .test(seed)
            .unwrap();
        app.panic_in::<Worker>(0, 1 + seed % 50);
        app.feed::<Splitter, u64>(0..40);
        app.run_until_idle();
        let report = app.drain().unwrap();
        assert_eq!(report.metrics.instances[1].received, 80);
        assert_eq!(report.undelivered_total(), 1);
        assert_eq!(report.take_states::<Ranks, Worker>()[0].restarts, 1);
    });
}
