//! Messages that may go to any replica go to none that is retired, while there are others.

use std::collections::VecDeque;
use std::time::Duration;

use rast_msgpass::testing::{TestGraph, for_each_seed};
use rast_msgpass::{Cx, Egress, Ingress, OnPanic, Process, Receive, ReplyTo, Restart, graph};

struct Router;
#[derive(Default)]
struct Worker(u64);
struct Job;

const CAP: usize = 2;

graph! {
    graph Jobs {
        processors { router: Router, worker: [Worker; _] }
        edges {
            ingress -> router: u64 [unbounded];
            ingress -> worker: u64 [cap = CAP];
            router -> worker: Job [cap = CAP, route = any];
        }
    }
}

impl Process<Jobs> for Router {}
impl Receive<Jobs, Ingress, u64> for Router {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Jobs, Self>) {
        cx.to::<Worker>().any().send(Job);
    }
}
impl Process<Jobs> for Worker {}
impl Receive<Jobs, Router, Job> for Worker {
    fn receive(&mut self, _: Job, _: &mut Cx<'_, Jobs, Self>) {
        self.0 += 1;
    }
}
impl Receive<Jobs, Ingress, u64> for Worker {
    fn receive(&mut self, _: u64, _: &mut Cx<'_, Jobs, Self>) {
        self.0 += 1;
    }
}

/// A graph in which worker 1 is retired, and the others do not run.
fn one_retired(workers: usize, seed: u64) -> TestGraph<Jobs> {
    let builder = Jobs::builder(Router, (0..workers).map(|_| Worker::default()));
    let builder = builder.on_panic_of::<Worker>(OnPanic::Retire);
    let mut app = builder.test(seed).unwrap();
    app.panic_in::<Worker>(1, 1);
    (0..workers).for_each(|_| app.send::<Router, u64>(0).unwrap());
    app.run_until_idle();
    assert!(app.metrics().instances[2].is_retired);
    others(workers).for_each(|replica| app.pause::<Worker>(replica));
    app
}

fn others(workers: usize) -> impl Iterator<Item = usize> {
    (0..workers).filter(|&replica| replica != 1)
}

/// Lets the others run; asserts that they handle so many messages, and that only the first one of
/// worker 1 is lost.
fn assert_handled(mut app: TestGraph<Jobs>, workers: usize, count: usize) {
    others(workers).for_each(|replica| app.resume::<Worker>(replica));
    app.run_until_idle();
    let handled = others(workers).map(|replica| app.processor::<Worker>(replica).0);
    assert_eq!(handled.sum::<u64>(), count as u64);
    let report = app.stop();
    let dropped = report.metrics.edges.iter().map(|edge| edge.dropped);
    assert_eq!(dropped.sum::<u64>(), 0, "{report}");
}

#[test]
fn a_handler_sends_to_living_replicas_although_only_the_retired_one_has_room() {
    for workers in [3, 300] {
        for_each_seed(0..20, |seed| {
            let mut app = one_retired(workers, seed);
            let count = CAP * workers + 50;
            (0..count).for_each(|_| app.send::<Router, u64>(0).unwrap());
            app.run_until_idle();
            // What has no room waits before the router, or in its outbox.
            let sent = app.metrics().edges[2].sent as usize;
            assert!(sent <= workers + CAP * (workers - 1) + 1, "{sent}");
            assert_handled(app, workers, workers - 1 + count);
        });
    }
}

#[test]
fn a_living_replica_without_room_does_not_gate_the_others() {
    for resumed in [0, 2] {
        let mut app = one_retired(3, 1);
        (0..50).for_each(|_| app.send::<Router, u64>(0).unwrap());
        app.run_until_idle();
        app.resume::<Worker>(resumed);
        app.run_until_idle();
        let handled = app.processor::<Worker>(resumed).0;
        assert!(handled >= 50 - CAP as u64, "{handled}");
    }
}

#[test]
fn a_thread_sends_to_living_replicas_although_only_the_retired_one_has_room() {
    for_each_seed(0..20, |seed| {
        let app = one_retired(3, seed);
        let jobs = app.handle().ingress::<Worker, u64>();
        let sent = (0..100).filter(|&job| jobs.any().try_send(job).is_ok());
        let count = sent.count();
        assert_eq!(count, 2 * CAP);
        assert_handled(app, 3, 2 + count);
    });
}

#[test]
fn without_a_living_replica_what_is_sent_is_lost_and_counted() {
    for workers in [2, 300] {
        let mut app = Jobs::builder(Router, (0..workers).map(|_| Worker::default()))
            .on_panic_of::<Worker>(OnPanic::Retire)
            .test(1)
            .unwrap();
        (0..workers).for_each(|replica| app.panic_in::<Worker>(replica, 1));
        (0..3 * workers).for_each(|_| app.send::<Router, u64>(0).unwrap());
        app.run_until_idle();
        assert_eq!(app.metrics().edges[2].sent, 3 * workers as u64);
        let report = app.stop();
        let [lost] = &report.undelivered[..] else {
            panic!("{report}");
        };
        assert_eq!(lost.messages, 3 * workers as u64, "{report}");
    }
}

/// Asks once for each number, and once more for each answer until it has asked `LAST` times.
#[derive(Default)]
struct Client {
    asked: u64,
    answered: u64,
}
#[derive(Default)]
struct Server(u64);
struct Ask;
struct Answer;

const NUMBERS: u64 = 50;
const LAST: u64 = 100;

graph! {
    graph Asks {
        processors { client: Client, server: [Server; _] }
        edges {
            ingress -> client: u64 [unbounded];
            client -> server: Ask [cap = 4, route = any];
            server -> client: Answer [reply = Ask, cap = 2];
        }
    }
}

impl Client {
    fn ask(&mut self, cx: &mut Cx<'_, Asks, Self>) {
        cx.to::<Server>().any().send(Ask);
        self.asked += 1;
    }
}
impl Process<Asks> for Client {}
impl Receive<Asks, Ingress, u64> for Client {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Asks, Self>) {
        self.ask(cx);
    }
}
impl Receive<Asks, Server, Answer> for Client {
    fn receive(&mut self, _: Answer, cx: &mut Cx<'_, Asks, Self>) {
        self.answered += 1;
        if self.asked < LAST {
            self.ask(cx);
        }
    }
}
impl Process<Asks> for Server {}
impl Receive<Asks, Client, Ask> for Server {
    fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Asks, Self>) {
        self.0 += 1;
        cx.to::<Client>().send(Answer);
    }
}

#[test]
fn requests_wait_for_the_credit_of_living_replicas() {
    for servers in [2, 3, 300] {
        for_each_seed(0..20, |seed| {
            let builder = Asks::builder(Client::default(), (0..servers).map(|_| Server::default()));
            let builder = builder.on_panic_of::<Server>(OnPanic::Retire);
            let mut app = builder.test(seed).unwrap();
            app.panic_in::<Server>(1, 1);
            // Until server 1 has had one.
            let mut sent = 0;
            while !app.metrics().instances[2].is_retired {
                app.send::<Client, u64>(0).unwrap();
                app.run_until_idle();
                sent += 1;
                assert!(sent <= NUMBERS);
            }
            others(servers).for_each(|replica| app.pause::<Server>(replica));
            (sent..NUMBERS).for_each(|_| app.send::<Client, u64>(0).unwrap());
            app.run_until_idle();
            others(servers).for_each(|replica| app.resume::<Server>(replica));
            app.run_until_idle();
            // One request is the one that panicked.
            let (asked, answered) = {
                let client = app.processor::<Client>(0);
                (client.asked, client.answered)
            };
            assert!(asked >= LAST);
            assert_eq!(answered, asked - 1, "{servers} servers");
            let handled = others(servers).map(|replica| app.processor::<Server>(replica).0);
            assert_eq!(handled.sum::<u64>(), asked - 1);
        });
    }
}

/// Sends in bursts.
struct Hose;

const BURST: usize = 4;

graph! {
    graph Bursts {
        processors { hose: Hose, worker: [Worker; _] }
        edges {
            ingress -> hose: u64 [unbounded];
            hose -> worker: Job [cap = 8, burst = BURST, route = any];
        }
    }
}

impl Process<Bursts> for Hose {}
impl Receive<Bursts, Ingress, u64> for Hose {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Bursts, Self>) {
        (0..BURST).for_each(|_| cx.to::<Worker>().any().send(Job));
    }
}
impl Process<Bursts> for Worker {}
impl Receive<Bursts, Hose, Job> for Worker {
    fn receive(&mut self, _: Job, _: &mut Cx<'_, Bursts, Self>) {
        self.0 += 1;
    }
}

#[test]
fn what_an_outbox_keeps_goes_to_none_that_retired_since() {
    const WORKERS: usize = 300;
    let builder = Bursts::builder(Hose, (0..WORKERS).map(|_| Worker::default()));
    let builder = builder.on_panic_of::<Worker>(OnPanic::Retire);
    let mut app = builder.test(1).unwrap();
    (0..WORKERS).for_each(|replica| app.pause::<Worker>(replica));
    (0..700).for_each(|_| app.send::<Hose, u64>(0).unwrap());
    app.run_until_idle();
    // All inboxes are full, and the hose keeps a burst.
    assert_eq!(app.metrics().edges[1].sent, (8 * WORKERS + BURST) as u64);
    app.panic_in::<Worker>(7, 1);
    app.resume::<Worker>(7);
    app.run_until_idle();
    (0..WORKERS).for_each(|replica| app.resume::<Worker>(replica));
    app.run_until_idle();
    let report = app.stop();
    let [lost] = &report.undelivered[..] else {
        panic!("{report}");
    };
    // What worker 7 had.
    assert_eq!(lost.messages, 8, "{report}");
}

/// Asks until nothing takes a request.
#[derive(Default)]
struct Greedy(u64);
struct Host;

graph! {
    graph Tries {
        processors { greedy: Greedy, host: [Host; _] }
        edges {
            ingress -> greedy: u64 [unbounded];
            greedy -> host: Ask [cap = 2, route = any];
            host -> greedy: Answer [reply = Ask, cap = 2];
        }
    }
}

impl Process<Tries> for Greedy {}
impl Receive<Tries, Ingress, u64> for Greedy {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Tries, Self>) {
        while cx.to::<Host>().any().try_send(Ask).is_ok() {
            self.0 += 1;
        }
    }
}
impl Receive<Tries, Host, Answer> for Greedy {
    fn receive(&mut self, _: Answer, _: &mut Cx<'_, Tries, Self>) {}
}
impl Process<Tries> for Host {}
impl Receive<Tries, Greedy, Ask> for Host {
    fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Tries, Self>) {
        cx.to::<Greedy>().send(Answer);
    }
}

#[test]
fn a_retired_replica_gets_nothing_when_the_credit_of_the_living_is_used_up() {
    let builder = Tries::builder(Greedy::default(), [Host, Host]);
    let mut app = builder
        .on_panic_of::<Host>(OnPanic::Retire)
        .test(1)
        .unwrap();
    app.panic_in::<Host>(1, 1);
    app.send::<Greedy, u64>(0).unwrap();
    app.run_until_idle();
    assert!(app.metrics().instances[2].is_retired);
    let before = app.processor::<Greedy>(0).0;
    app.pause::<Host>(0);
    app.send::<Greedy, u64>(0).unwrap();
    app.run_until_idle();
    assert_eq!(app.processor::<Greedy>(0).0 - before, 2);
}

/// Asks one server per message, and once more for each answer.
struct Asker;
/// Keeps each request until it is told to answer.
#[derive(Default)]
struct Keeper(VecDeque<ReplyTo<Keeps, Asker, Keeper, Ask>>);
/// Makes a keeper take no further request.
struct Stop;
struct Log;

graph! {
    graph Keeps {
        processors { asker: Asker, keeper: [Keeper; 5] }
        edges {
            ingress -> asker: u64 [unbounded];
            ingress -> keeper: u64 [sends = (Answer)];
            ingress -> keeper: Stop [sends = (Log)];
            asker -> keeper: Ask [cap = 1, route = any];
            keeper -> asker: Answer [reply = Ask, cap = 3];
            keeper -> egress: Log [cap = 1];
        }
    }
}

impl Process<Keeps> for Asker {}
impl Receive<Keeps, Ingress, u64> for Asker {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Keeps, Self>) {
        cx.to::<Keeper>().any().send(Ask);
    }
}
impl Receive<Keeps, Keeper, Answer> for Asker {
    fn receive(&mut self, _: Answer, cx: &mut Cx<'_, Keeps, Self>) {
        cx.to::<Keeper>().any().send(Ask);
    }
}
impl Process<Keeps> for Keeper {}
impl Receive<Keeps, Asker, Ask> for Keeper {
    fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Keeps, Self>) {
        self.0.push_back(cx.reply_to());
    }
}
impl Receive<Keeps, Ingress, u64> for Keeper {
    fn receive(&mut self, count: u64, cx: &mut Cx<'_, Keeps, Self>) {
        for request in self.0.drain(..count as usize) {
            request.send(Answer, cx);
        }
    }
}
impl Receive<Keeps, Ingress, Stop> for Keeper {
    fn receive(&mut self, _: Stop, cx: &mut Cx<'_, Keeps, Self>) {
        cx.to::<Egress>().send(Log);
    }
}

/// Tells a keeper to answer.
fn answer(app: &mut TestGraph<Keeps>, keeper: usize, count: u64) {
    let door = app.handle().ingress::<Keeper, u64>();
    door.at(keeper).try_send(count).unwrap();
    app.run_until_idle();
}

/// Stops a keeper.
fn stop(app: &mut TestGraph<Keeps>, keeper: usize) {
    let door = app.handle().ingress::<Keeper, Stop>();
    door.at(keeper).try_send(Stop).unwrap();
    app.run_until_idle();
}

#[test]
fn an_answer_finds_a_server_with_a_slot_although_only_others_have_room() {
    const CREDIT: usize = 3;
    let mut reached = 0;
    let pairs = (0..5).flat_map(|full| (0..5).map(move |free| (full, free)));
    for (full, free) in pairs.filter(|(full, free)| full != free) {
        let keepers: [_; 5] = core::array::from_fn(|_| Keeper::default());
        let mut app = Keeps::builder(Asker, keepers).test(1).unwrap();
        let ask = |app: &mut TestGraph<Keeps>| {
            app.send::<Asker, u64>(0).unwrap();
            app.run_until_idle();
        };
        // Each of the others has a request in its ring that it does not take.
        let others = (0..5).filter(|&keeper| keeper != full && keeper != free);
        let others: Vec<usize> = others.collect();
        (0..5 * (CREDIT - 1)).for_each(|_| ask(&mut app));
        others.iter().for_each(|&keeper| stop(&mut app, keeper));
        (0..5).for_each(|_| ask(&mut app));
        // After each of their answers one of the two is asked, up to twice the credit.
        others
            .iter()
            .for_each(|&keeper| answer(&mut app, keeper, 1));
        others[1..]
            .iter()
            .for_each(|&keeper| answer(&mut app, keeper, 1));
        stop(&mut app, full);
        answer(&mut app, others[0], 1);
        let kept = [full, free].map(|keeper| app.processor::<Keeper>(keeper).0.len());
        if kept != [2 * CREDIT - 1, 2 * CREDIT] {
            // The last one went to `full` before it was stopped.
            continue;
        }
        reached += 1;
        // Only `free` has room, but no slot for one more answer.
        answer(&mut app, full, 1);
        let report = app.stop();
        assert!(report.panics.is_empty(), "{report}");
    }
    assert!(reached > 0);
}

/// Sends and asks for each message and after a restart. Panics after the last message.
struct Early;

const LAST_MESSAGE: u64 = 1;

graph! {
    graph Starts {
        processors { early: Early, host: [Host; _] }
        edges {
            ingress -> early: u64;
            early -> host: Job [cap = 1, route = any];
            early -> host: Ask [cap = 1, route = any];
            host -> early: Answer [reply = Ask, cap = 4];
        }
    }
}

impl Early {
    fn send(cx: &mut Cx<'_, Starts, Self>) {
        cx.to::<Host>().any().send(Job);
        cx.to::<Host>().any().send(Ask);
    }
}
impl Process<Starts> for Early {
    fn on_start(&mut self, cx: &mut Cx<'_, Starts, Self>) {
        if cx.restarts() > 0 {
            Self::send(cx);
        }
    }
}
impl Receive<Starts, Ingress, u64> for Early {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Starts, Self>) {
        Self::send(cx);
        assert_ne!(number, LAST_MESSAGE);
    }
}
impl Receive<Starts, Host, Answer> for Early {
    fn receive(&mut self, _: Answer, _: &mut Cx<'_, Starts, Self>) {}
}
impl Process<Starts> for Host {}
impl Receive<Starts, Early, Job> for Host {
    fn receive(&mut self, _: Job, _: &mut Cx<'_, Starts, Self>) {}
}
impl Receive<Starts, Early, Ask> for Host {
    fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Starts, Self>) {
        cx.to::<Early>().send(Answer);
    }
}

#[test]
fn what_waits_for_room_at_a_replica_that_retires_goes_to_a_living_one() {
    for victim in 0..2 {
        for_each_seed(0..20, |seed| {
            let builder = Starts::builder(Early, [Host, Host]);
            let builder = builder.on_panic_of::<Host>(OnPanic::Retire);
            let restart = Restart::new().delay(Duration::ZERO, Duration::ZERO);
            let mut app = builder.restart(restart, |_| Early).test(seed).unwrap();
            (0..2).for_each(|host| app.pause::<Host>(host));
            (0..=LAST_MESSAGE).for_each(|number| app.send::<Early, u64>(number).unwrap());
            app.run_until_idle();
            // Of each edge a message is in each ring, and one waits for room behind it.
            app.panic_in::<Host>(victim, 1);
            app.resume::<Host>(victim);
            app.run_until_idle();
            app.resume::<Host>(1 - victim);
            app.run_until_idle();
            let report = app.stop();
            let edges = &report.metrics.edges;
            assert_eq!([edges[1].sent, edges[2].sent], [3, 3]);
            // What the victim had in its rings.
            let lost = report
                .undelivered
                .iter()
                .filter(|lost| lost.edge != &Starts::EDGES[0]);
            let lost: Vec<u64> = lost.map(|lost| lost.messages).collect();
            assert_eq!(lost, [1, 1], "{report}");
            assert_eq!((edges[3].sent, edges[2].unanswered), (2, 0), "{report}");
        });
    }
}
