//! Restarts at one place each, and sends that panic.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast_msgpass::testing::{Room, TestCx, TestGraph, for_each_seed};
use rast_msgpass::{
    Cx, Egress, Failure, Handler, Ingress, Next, Process, Receive, ReplyTo, Restart, Retired,
    Stopped, Then, Timer, graph,
};

graph! {
    graph Lend {
        processors { client: Client, server: Server, pair: [Pair; 2] }
        edges {
            ingress -> client: Ask [cap = 8];
            ingress -> client: How;
            ingress -> client: Look [sends = ()];
            client -> server: Ask [keep];
            server -> client: Answer [reply = Ask, cap = 4];
            client -> pair: How;
            client -> egress: Answer [cap = 8, burst = 2];
        }
    }
}

/// What the server does with it: 0 keeps its token, 1 has it in a timer, 2 panics, others answer.
#[derive(Clone, Debug, PartialEq)]
struct Ask(u64);
#[derive(Clone, Debug, PartialEq)]
struct Answer(u64);
/// A send that panics, or not.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Burst(usize),
    Lane(usize),
    TryLane(usize),
}
/// Looks at the room of a replica of the pair.
struct Look(usize);
struct Late(Token);

type Token = ReplyTo<Lend, Client, Server, Ask>;

#[derive(Default)]
struct Client {
    /// Requests of `on_start`.
    asks: u64,
    refused: u64,
    told: Vec<Retired>,
    why: Option<Arc<Mutex<Vec<Stopped>>>>,
}
#[derive(Default)]
struct Server {
    kept: Vec<Token>,
}
struct Pair;

impl Process<Lend> for Client {
    fn on_start(&mut self, cx: &mut Cx<'_, Lend, Self>) {
        cx.watch::<Pair>();
        for _ in 0..self.asks {
            self.refused += u64::from(cx.to::<Server>().try_send(Ask(3)).is_err());
        }
    }
    fn on_stop(&mut self, why: Stopped) {
        if let Some(all) = &self.why {
            all.lock().unwrap().push(why);
        }
    }
    fn on_retired(&mut self, who: Retired, cx: &mut Cx<'_, Lend, Self>) {
        assert!(who.is::<Lend, Pair>() && !who.is::<Lend, Server>());
        cx.to::<Egress>().send(Answer(who.replica as u64));
        self.told.push(who);
    }
}
impl Receive<Lend, Ingress, Ask> for Client {
    fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Lend, Self>) {
        cx.to::<Server>().send(ask);
    }
}
impl Receive<Lend, Ingress, How> for Client {
    fn receive(&mut self, how: How, cx: &mut Cx<'_, Lend, Self>) {
        match how {
            How::Burst(count) => {
                (0..count).for_each(|at| cx.to::<Egress>().send(Answer(at as u64)));
            }
            How::Lane(lane) => cx.to::<Egress>().lane(lane).send(Answer(0)),
            How::TryLane(lane) => {
                let _ = cx.to::<Egress>().lane(lane).try_send(Answer(0));
            }
        }
    }
}
impl Receive<Lend, Ingress, Look> for Client {
    fn receive(&mut self, Look(replica): Look, cx: &mut Cx<'_, Lend, Self>) {
        assert_eq!(cx.to::<Pair>().at(replica).room::<How>(), 0);
    }
}
impl Receive<Lend, Server, Answer> for Client {
    fn receive(&mut self, answer: Answer, cx: &mut Cx<'_, Lend, Self>) {
        cx.to::<Egress>().send(answer);
    }
}
impl Process<Lend> for Server {}
impl Receive<Lend, Client, Ask> for Server {
    fn receive(&mut self, Ask(number): Ask, cx: &mut Cx<'_, Lend, Self>) {
        match number {
            0 => self.kept.push(cx.reply_to()),
            1 => {
                let token = cx.reply_to();
                cx.after(Duration::from_micros(5), Late(token));
            }
            2 => std::panic::resume_unwind(Box::new(7_u8)),
            _ => cx.to::<Client>().send(Answer(number)),
        }
    }
}
impl Receive<Lend, Timer, Late> for Server {
    fn receive(&mut self, Late(token): Late, cx: &mut Cx<'_, Lend, Self>) {
        assert!(self.kept.is_empty(), "this one is new");
        token.send(Answer(1), cx);
    }
}
impl Process<Lend> for Pair {}
impl Receive<Lend, Client, How> for Pair {
    fn receive(&mut self, _: How, _: &mut Cx<'_, Lend, Self>) {}
}

fn restart() -> Restart {
    let delay = Duration::from_micros(10);
    Restart::new().delay(delay, delay)
}

fn lend(seed: u64, client: Client) -> TestGraph<Lend> {
    let builder = Lend::builder(client, Server::default(), [Pair, Pair]);
    builder
        .restart(restart(), |_| Server::default())
        .test(seed)
        .unwrap()
}

#[test]
fn tokens_of_the_state_waive_and_others_stay_valid() {
    for_each_seed(0..1_000, |seed| {
        let mut app = lend(seed, Client::default());
        let out = app.collect::<Client, Answer>(0);
        app.feed::<Client, Ask>((0..4).map(Ask));
        app.run_until_idle();
        // One is in a timer, and one in the queue; the others waived at once.
        assert_eq!(app.metrics().edges[3].unanswered, 2, "seed {seed}");
        app.run_for(Duration::from_micros(9));
        assert_eq!(app.metrics().instances[1].restarts, 0, "seed {seed}");
        app.run_for(Duration::from_micros(1));
        assert_eq!(app.metrics().instances[1].restarts, 1, "seed {seed}");
        assert_eq!(out.take(), [Answer(1), Answer(3)], "seed {seed}");
        let report = app.drain().unwrap();
        assert_eq!(report.metrics.edges[3].unanswered, 0, "seed {seed}");
        assert_eq!(report.panics.len(), 1, "{report}");
    });
}

#[test]
fn a_hook_gets_what_a_panic_left() {
    let failures: Arc<Mutex<Vec<Failure>>> = Arc::default();
    let all = failures.clone();
    let mut app = Lend::builder(Client::default(), Server::default(), [Pair, Pair])
        .restart(restart(), |_| -> Server { panic!("no second server") })
        .on_failure(move |failure| all.lock().unwrap().push(failure))
        .test(3)
        .unwrap();
    app.advance(Duration::from_micros(3));
    app.send::<Client, Ask>(Ask(2)).unwrap();
    app.run_for(Duration::from_micros(10));
    let failures = failures.lock().unwrap();
    let [first, second] = &failures[..] else {
        panic!("a handler and a factory panicked: {failures:?}");
    };
    assert_eq!(
        (first.processor, first.replica, first.sender),
        ("server", 0, 0)
    );
    assert_eq!(
        (first.handler, first.edge),
        (Handler::Message, Some(&Lend::EDGES[3]))
    );
    assert_eq!(first.payload.downcast_ref(), Some(&7_u8));
    let message = first
        .message
        .as_ref()
        .and_then(|message| message.downcast_ref());
    assert_eq!(message, Some(&Ask(2)));
    assert_eq!((first.at.as_nanos(), second.at.as_nanos()), (3_000, 13_000));
    assert!(matches!(first.then, Then::Restarts(at) if at == second.at));
    assert_eq!(second.handler, Handler::Factory);
    assert!(second.edge.is_none() && second.message.is_none());
    assert_eq!(
        second.to_string(),
        "server[0] in its factory: no second server"
    );
}

#[test]
fn a_client_that_restarts_without_credit_goes_on() {
    for_each_seed(0..1_000, |seed| {
        let client = || Client {
            asks: 3,
            ..Client::default()
        };
        let mut app = Lend::builder(client(), Server::default(), [Pair, Pair])
            .restart(
                Restart::new().delay(Duration::ZERO, Duration::ZERO),
                move |_| client(),
            )
            .test(seed)
            .unwrap();
        app.pause::<Server>(0);
        app.panic_at::<Ingress, Client, How>(1);
        let out = app.collect::<Client, Answer>(0);
        app.feed::<Client, How>([How::Burst(0); 2]);
        app.run_until_idle();
        let metrics = app.metrics();
        assert_eq!(metrics.instances[0].restarts, 1, "seed {seed}");
        // The credit is four, and each start may send its burst of one beyond it.
        assert!(
            (4..=5).contains(&metrics.edges[3].sent),
            "seed {seed}: {metrics:?}"
        );
        assert!(app.processor::<Client>(0).refused > 0);
        app.resume::<Server>(0);
        app.run_until_idle();
        // The answers to both came, and the second message after them.
        let report = app.drain().unwrap();
        assert_eq!(report.metrics.edges[1].received, 2, "seed {seed}: {report}");
        assert_eq!(
            report.metrics.edges[3].unanswered, 0,
            "seed {seed}: {report}"
        );
        assert_eq!(out.len() as u64, metrics.edges[3].sent, "seed {seed}");
    });
}

#[test]
fn alone_it_learns_of_its_end_and_of_others() {
    let why: Arc<Mutex<Vec<Stopped>>> = Arc::default();
    let client = Client {
        why: Some(why.clone()),
        ..Client::default()
    };
    let mut client = TestCx::<Lend, Client>::new(client);
    client.retire::<Pair>(1);
    client.retire::<Pair>(1);
    client.retire::<Pair>(0);
    assert_eq!(client.sent::<Egress, Answer>(), [Answer(1), Answer(0)]);
    let told = client.into_inner().told;
    assert_eq!(
        told.iter().map(|who| who.replica).collect::<Vec<_>>(),
        [1, 0]
    );
    assert!(matches!(why.lock().unwrap()[..], [Stopped::Ended(_)]));
}

#[test]
fn without_room_a_replica_that_is_not_there_panics_all_the_same() {
    let mut app = lend(1, Client::default());
    app.set_room::<Client, Pair, How>(Room::None);
    for replica in [1, 2, usize::MAX] {
        app.handle()
            .ingress::<Client, Look>()
            .try_send(Look(replica))
            .unwrap();
    }
    app.run_until_idle();
    let report = app.stop();
    assert_eq!(report.metrics.instances[0].panics, 2, "{report}");
    let text = &report.panics[0].message;
    assert!(
        text.ends_with("-> Pair: How: there is no replica 2, only 2"),
        "{text}"
    );
}

#[test]
fn a_probe_sees_no_message_whose_send_panics() {
    for (how, seen, panics) in [
        (How::Burst(2), 2, 0),
        (How::Burst(3), 2, 1),
        (How::Lane(0), 1, 0),
        (How::Lane(1), 0, 1),
        (How::TryLane(0), 1, 0),
        (How::TryLane(1), 0, 1),
    ] {
        let mut app = lend(1, Client::default());
        let probe = app.probe::<Client, Egress, Answer>();
        let out = app.collect::<Client, Answer>(0);
        app.send::<Client, How>(how).unwrap();
        app.run_until_idle();
        assert_eq!((probe.len(), out.len()), (seen, seen), "{how:?}");
        assert_eq!(app.stop().metrics.instances[0].panics, panics, "{how:?}");
    }
}

/// A ping is never early, and comes again to the next processor.
#[test]
fn the_next_processor_is_pinged() {
    graph! {
        graph Beat {
            processors { source: Source [source] }
            edges { source -> egress: u64; }
        }
    }
    struct Source(u64);
    impl Process<Beat> for Source {
        fn ping(&mut self, cx: &mut Cx<'_, Beat, Self>) -> Next {
            self.0 += 1;
            if self.0 == 3 {
                std::panic::resume_unwind(Box::new("the third"));
            }
            let number = cx.restarts() * 10 + self.0;
            cx.to::<Egress>().send(number);
            Next::At(cx.now().saturating_add(Duration::from_micros(1).into()))
        }
    }
    let mut app = Beat::builder(Source(0))
        .restart(restart(), |_| Source(0))
        .test(1)
        .unwrap();
    let out = app.collect::<Source, u64>(0);
    app.run_for(Duration::from_micros(25));
    assert_eq!(out.take(), [1, 2, 11, 12, 21, 22]);
    assert_eq!(app.stop().panics[0].count, 2);
}
