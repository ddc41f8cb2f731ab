//! Requests: tokens that are kept, credit in both directions, room that is what it says.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rast_msgpass::{Cx, Egress, Handle, Ingress, OnPanic, Process, Receive, ReplyTo, graph};

use crate::LONG;

/// Longer than a door stays full when the graph goes on.
const SOON: Duration = Duration::from_secs(20);

fn wait_until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < SOON, "it does not come");
        std::thread::yield_now();
    }
}

mod beyond {
    //! An answer is handled beyond the credit, up to twice the cap.
    use super::*;

    pub(super) struct Client {
        pub(super) left: u64,
    }
    pub(super) struct Server;
    pub(super) struct Ask;
    pub(super) struct Answer;

    graph! {
        pub(super) graph Calls {
            processors { client: Client, server: Server }
            edges {
                ingress -> client: u64;
                client -> server: Ask [cap = 64, burst = 3];
                server -> client: Answer [cap = 4, reply = Ask];
            }
        }
    }

    impl Client {
        fn ask(&mut self, cx: &mut Cx<'_, Calls, Self>) {
            // As much as it says, and never a panic.
            while self.left > 0 && cx.to::<Server>().room::<Ask>() > 0 {
                let room = cx.to::<Server>().room::<Ask>();
                assert!(cx.to::<Server>().try_send(Ask).is_ok(), "room for {room}");
                self.left -= 1;
            }
            if self.left > 0 {
                assert!(cx.to::<Server>().try_send(Ask).is_err());
            }
        }
    }
    impl Process<Calls> for Client {}
    impl Receive<Calls, Ingress, u64> for Client {
        fn receive(&mut self, count: u64, cx: &mut Cx<'_, Calls, Self>) {
            self.left += count;
            self.ask(cx);
        }
    }
    impl Receive<Calls, Server, Answer> for Client {
        fn receive(&mut self, _: Answer, cx: &mut Cx<'_, Calls, Self>) {
            self.ask(cx);
        }
    }
    impl Process<Calls> for Server {}
    impl Receive<Calls, Client, Ask> for Server {
        fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Calls, Self>) {
            cx.to::<Client>().send(Answer);
        }
    }
}

#[test]
fn room_and_try_send_agree_while_answers_are_handled() {
    use beyond::{Calls, Client, Server};
    for workers in [1, 2] {
        let app = Calls::builder(Client { left: 0 }, Server)
            .workers(workers)
            .start()
            .unwrap();
        app.ingress::<Client, u64>().send(1000).unwrap();
        wait_until(|| app.metrics().edges[2].received == 1000 || !app.report().panics.is_empty());
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        assert_eq!(report.metrics.edges[2].received, 1000);
    }
}

mod peers {
    //! Requests between replicas of one processor, and each to itself.
    use super::*;

    pub(super) struct Voter;
    pub(super) struct Vote;
    pub(super) struct Granted;

    graph! {
        pub(super) graph Peers {
            processors { voter: [Voter; 3] }
            edges {
                ingress -> voter: usize [cap = 4];
                voter -> voter: Vote;
                voter -> voter: Granted [cap = 2, reply = Vote];
            }
        }
    }

    impl Process<Peers> for Voter {}
    impl Receive<Peers, Ingress, usize> for Voter {
        fn receive(&mut self, to: usize, cx: &mut Cx<'_, Peers, Self>) {
            cx.to::<Voter>().at(to).send(Vote);
        }
    }
    impl Receive<Peers, Voter, Vote> for Voter {
        fn receive(&mut self, vote: Vote, cx: &mut Cx<'_, Peers, Self>) {
            // Requests to the client of a request are not promised, and may find room.
            if cx.sender() == 0 && cx.replica() == 1 {
                drop(cx.to::<Voter>().at(2).try_send(vote));
            }
            cx.reply_to::<Voter, Vote>().send(Granted, cx);
        }
    }
    impl Receive<Peers, Voter, Granted> for Voter {
        fn receive(&mut self, _: Granted, _: &mut Cx<'_, Peers, Self>) {}
    }
}

#[test]
fn replicas_ask_each_other_within_their_credit() {
    use peers::{Peers, Voter};
    for workers in [1, 2, 3] {
        let app = Peers::builder([Voter, Voter, Voter])
            .workers(workers)
            .start()
            .unwrap();
        let into = app.ingress::<Voter, usize>();
        for number in 0..6000 {
            into.at(number % 3)
                .send_timeout(number / 3 % 3, SOON)
                .unwrap();
        }
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        let counts = report.metrics.edges;
        assert!(counts[1].received >= 6000);
        assert_eq!(
            (counts[1].received, counts[1].unanswered),
            (counts[2].received, 0)
        );
    }
}

mod both {
    //! Requests in both directions between two processors.
    use super::*;

    pub(super) struct Left;
    pub(super) struct Right;
    pub(super) struct Ask;
    pub(super) struct Answer;
    pub(super) struct Query;
    pub(super) struct Found;

    graph! {
        pub(super) graph Both {
            processors { left: Left, right: Right }
            edges {
                ingress -> left: u64 [cap = 4];
                ingress -> right: u64 [cap = 4];
                left -> right: Ask;
                right -> left: Answer [cap = 1, reply = Ask];
                right -> left: Query;
                left -> right: Found [cap = 1, reply = Query];
            }
        }
    }

    impl Process<Both> for Left {}
    impl Receive<Both, Ingress, u64> for Left {
        fn receive(&mut self, _: u64, cx: &mut Cx<'_, Both, Self>) {
            cx.to::<Right>().send(Ask);
        }
    }
    impl Receive<Both, Right, Answer> for Left {
        fn receive(&mut self, _: Answer, _: &mut Cx<'_, Both, Self>) {}
    }
    impl Receive<Both, Right, Query> for Left {
        fn receive(&mut self, _: Query, cx: &mut Cx<'_, Both, Self>) {
            cx.reply_to::<Right, Query>().send(Found, cx);
        }
    }
    impl Process<Both> for Right {}
    impl Receive<Both, Ingress, u64> for Right {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Both, Self>) {
            cx.to::<Left>().send(Query);
            assert!(number < 2000);
        }
    }
    impl Receive<Both, Left, Found> for Right {
        fn receive(&mut self, _: Found, _: &mut Cx<'_, Both, Self>) {}
    }
    impl Receive<Both, Left, Ask> for Right {
        fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Both, Self>) {
            cx.reply_to::<Left, Ask>().send(Answer, cx);
        }
    }
}

#[test]
fn requests_go_both_ways() {
    use both::{Both, Left, Right};
    for workers in [1, 2] {
        let app = Both::builder(Left, Right).workers(workers).start().unwrap();
        let (left, right) = (app.ingress::<Left, u64>(), app.ingress::<Right, u64>());
        for number in 0..2000 {
            left.send_timeout(number, SOON).unwrap();
            right.send_timeout(number, SOON).unwrap();
        }
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        assert_eq!(report.metrics.edges[3].received, 2000);
        assert_eq!(report.metrics.edges[5].received, 2000);
    }
}

struct Client;
/// Keeps every request until it is told what becomes of the oldest.
#[derive(Default)]
struct Server {
    kept: VecDeque<ReplyTo<Calls, Client, Server, Ask>>,
}
struct Ask;
struct Answer;
/// A later message of the client, on which the server answers.
struct Free;
struct Held(ReplyTo<Calls, Client, Server, Ask>);

#[derive(Clone, Copy, Debug)]
enum Order {
    Drop,
    /// Sends the token out of the graph.
    Out,
    Panic,
    /// Asks for a token where there is none.
    Take,
}

graph! {
    graph Calls {
        processors { client: Client, server: Server }
        edges {
            ingress -> client: Ask [sends = (Ask)];
            ingress -> client: Free [sends = (Free)];
            client -> server: Ask;
            client -> server: Free;
            server -> client: Answer [cap = 1, reply = Ask];
            client -> egress: u64;
            ingress -> server: Order;
            ingress -> server: Held;
            server -> egress: Held;
        }
    }
}

impl Process<Calls> for Client {}
impl Receive<Calls, Ingress, Ask> for Client {
    fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Calls, Self>) {
        cx.to::<Server>().send(ask);
    }
}
impl Receive<Calls, Ingress, Free> for Client {
    fn receive(&mut self, free: Free, cx: &mut Cx<'_, Calls, Self>) {
        cx.to::<Server>().send(free);
    }
}
impl Receive<Calls, Server, Answer> for Client {
    fn receive(&mut self, _: Answer, cx: &mut Cx<'_, Calls, Self>) {
        cx.to::<Egress>().send(1_u64);
    }
}
impl Process<Calls> for Server {}
impl Receive<Calls, Client, Ask> for Server {
    fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Calls, Self>) {
        self.kept.push_back(cx.reply_to());
    }
}
impl Receive<Calls, Client, Free> for Server {
    fn receive(&mut self, _: Free, cx: &mut Cx<'_, Calls, Self>) {
        if let Some(reply) = self.kept.pop_front() {
            reply.send(Answer, cx);
        }
    }
}
impl Receive<Calls, Ingress, Order> for Server {
    fn receive(&mut self, order: Order, cx: &mut Cx<'_, Calls, Self>) {
        match order {
            Order::Drop => drop(self.kept.pop_front()),
            Order::Out => {
                let reply = self.kept.pop_front().unwrap();
                cx.to::<Egress>().send(Held(reply));
            }
            Order::Panic => panic!("as ordered"),
            Order::Take => drop(cx.reply_to::<Client, Ask>()),
        }
    }
}
impl Receive<Calls, Ingress, Held> for Server {
    fn receive(&mut self, Held(reply): Held, cx: &mut Cx<'_, Calls, Self>) {
        reply.send(Answer, cx);
    }
}

/// Asks, and waits until the server has this many requests.
fn ask(app: &Handle<Calls>, count: usize, received: u64) {
    let into = app.ingress::<Client, Ask>();
    (0..count).for_each(|_| into.send_timeout(Ask, SOON).unwrap());
    wait_until(|| app.metrics().edges[2].received >= received);
}

fn start(workers: usize) -> Handle<Calls> {
    Calls::builder(Client, Server::default())
        .workers(workers)
        .start()
        .unwrap()
}

#[test]
fn a_server_answers_on_a_later_message_of_a_client_without_credit() {
    for workers in [1, 2] {
        let app = start(workers);
        let mut answers = app.egress::<Client, u64>(0);
        // Credit for one: the others wait in the door.
        ask(&app, 5, 1);
        let free = app.ingress::<Client, Free>();
        for round in 1..=5 {
            wait_until(|| app.metrics().edges[2].received >= round);
            assert!(answers.try_recv().is_err());
            free.send_timeout(Free, SOON).unwrap();
            assert_eq!(answers.recv_timeout(SOON), Ok(1));
        }
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        assert_eq!(report.metrics.edges[2].unanswered, 0);
    }
}

#[test]
fn unanswered_requests_and_their_age_are_figures() {
    let app = start(1);
    assert_eq!(app.metrics().edges[2].unanswered, 0);
    ask(&app, 1, 1);
    wait_until(|| app.metrics().edges[2].oldest > rast_msgpass::timers::Nanos::ZERO);
    let first = app.metrics().edges[2];
    assert_eq!(first.unanswered, 1);
    wait_until(|| app.metrics().edges[2].oldest > first.oldest);
    let text = app.report().to_string();
    assert!(
        text.contains("unanswered: 1 of Client -> Server: Ask, the oldest for"),
        "{text}"
    );
    app.ingress::<Client, Free>().send(Free).unwrap();
    wait_until(|| app.metrics().edges[2].unanswered == 0);
    assert_eq!(
        app.metrics().edges[2].oldest,
        rast_msgpass::timers::Nanos::ZERO
    );
    assert!(!app.report().to_string().contains("unanswered"));
}

#[test]
fn a_token_that_is_dropped_waives_wherever_it_is() {
    for workers in [1, 2] {
        let app = start(workers);
        let orders = app.ingress::<Server, Order>();
        let mut held = app.egress::<Server, Held>(0);
        // In a handler of the server.
        ask(&app, 2, 1);
        orders.send(Order::Drop).unwrap();
        // With its credit the second request goes; its token leaves the graph.
        wait_until(|| app.metrics().edges[2].received == 2);
        orders.send(Order::Out).unwrap();
        let token = held.recv_timeout(SOON).unwrap();
        ask(&app, 1, 2);
        std::thread::spawn(move || drop(token)).join().unwrap();
        wait_until(|| app.metrics().edges[2].received == 3);
        assert_eq!(app.metrics().edges[2].unanswered, 1);
        // A token outlives its graph.
        orders.send(Order::Out).unwrap();
        let token = held.recv_timeout(SOON).unwrap();
        let report = app.drain(LONG).unwrap();
        assert_eq!(report.panics, []);
        drop(token);
    }
}

#[test]
fn a_token_may_go_out_and_come_back_to_its_instance_alone() {
    let (app, other) = (start(1), start(1));
    let mut answers = app.egress::<Client, u64>(0);
    let mut held = app.egress::<Server, Held>(0);
    ask(&app, 2, 1);
    app.ingress::<Server, Order>().send(Order::Out).unwrap();
    let token = held.recv_timeout(SOON).unwrap();
    app.ingress::<Server, Held>().send(token).unwrap();
    assert_eq!(answers.recv_timeout(SOON), Ok(1));
    wait_until(|| app.metrics().edges[2].received == 2);
    // The other graph's server has no such request. The panic drops the token, which waives.
    app.ingress::<Server, Order>().send(Order::Out).unwrap();
    let token = held.recv_timeout(SOON).unwrap();
    other.ingress::<Server, Held>().send(token).unwrap();
    wait_until(|| app.metrics().edges[2].unanswered == 0);
    let report = other.drain(LONG).unwrap();
    assert!(
        report.panics[0].message.contains("of another instance"),
        "{report}"
    );
    assert!(app.drain(LONG).unwrap().panics.is_empty());
}

#[test]
fn there_is_one_token_per_request() {
    let app = start(1);
    app.ingress::<Server, Order>().send(Order::Take).unwrap();
    let report = app.drain(LONG).unwrap();
    for part in ["`Calls`", "Client -> Server: Ask", "reply_to"] {
        assert!(report.panics[0].message.contains(part), "{report}");
    }
}

#[test]
fn a_retired_server_waives_what_it_keeps() {
    for workers in [1, 2] {
        let app = Calls::builder(Client, Server::default())
            .workers(workers)
            .on_panic(OnPanic::Retire)
            .start()
            .unwrap();
        ask(&app, 1, 1);
        app.ingress::<Server, Order>().send(Order::Panic).unwrap();
        // What is sent to it from now on is given up, and waived.
        ask(&app, 10, 11);
        wait_until(|| app.metrics().edges[2].unanswered == 0);
        let _ = app.drain(LONG);
    }
}

mod hand {
    //! What a handler may do with the request in hand.
    use super::*;

    /// What the server does, and a client asks for.
    #[derive(Clone, Copy, Debug)]
    pub(super) enum How {
        Answer,
        Nothing,
        Twice,
        AnswerOther,
        AnswerAfterToken,
        AnswerThenPanic,
        Panic,
        Take,
        Look,
    }
    pub(super) struct Client;
    #[derive(Default)]
    pub(super) struct Server(Vec<ReplyTo<Hand, Client, Self, How>>);
    pub(super) struct Answer;

    graph! {
        pub(super) graph Hand {
            processors { client: [Client; 2], server: Server }
            edges {
                ingress -> client: How;
                client -> server: How;
                server -> client: Answer [cap = 1, reply = How];
                client -> egress: u8;
            }
        }
    }

    impl Process<Hand> for Client {}
    impl Receive<Hand, Ingress, How> for Client {
        fn receive(&mut self, how: How, cx: &mut Cx<'_, Hand, Self>) {
            cx.to::<Server>().send(how);
        }
    }
    impl Receive<Hand, Server, Answer> for Client {
        fn receive(&mut self, _: Answer, cx: &mut Cx<'_, Hand, Self>) {
            cx.to::<Egress>().send(0_u8);
        }
    }
    impl Process<Hand> for Server {}
    impl Receive<Hand, Client, How> for Server {
        fn receive(&mut self, how: How, cx: &mut Cx<'_, Hand, Self>) {
            let client = cx.sender();
            let mut answer = |to: usize| cx.to::<Client>().at(to).send(Answer);
            match how {
                How::Answer => answer(client),
                How::Nothing => {}
                How::Twice => {
                    answer(client);
                    answer(client);
                }
                How::AnswerOther => answer(1 - client),
                How::AnswerThenPanic => {
                    answer(client);
                    panic!("as ordered");
                }
                How::Panic => panic!("as ordered"),
                How::AnswerAfterToken => {
                    self.0.push(cx.reply_to());
                    cx.to::<Client>().at(client).send(Answer);
                }
                How::Take => self.0.push(cx.reply_to()),
                How::Look => {
                    let other = cx.to::<Client>().at(1 - client).try_send(Answer);
                    assert!(other.is_err());
                    assert!(cx.to::<Client>().at(client).has_room::<Answer>(1));
                    assert!(!cx.to::<Client>().at(client).has_room::<Answer>(2));
                    assert!(cx.to::<Client>().at(client).try_send(Answer).is_ok());
                    assert!(cx.to::<Client>().at(client).try_send(Answer).is_err());
                    assert_eq!(cx.to::<Client>().at(client).room::<Answer>(), 0);
                }
            }
        }
    }
}

#[test]
fn a_request_in_hand_is_answered_once_taken_or_waived() {
    use hand::{Client, Hand, How, Server};
    let cases = [
        // What is asked for, the answers, and the text of the panic.
        (How::Answer, 1, None),
        (How::Nothing, 0, None),
        (How::Twice, 1, Some("without a request")),
        (How::AnswerOther, 0, Some("without a request")),
        (How::AnswerAfterToken, 0, Some("without a request")),
        (How::AnswerThenPanic, 1, Some("as ordered")),
        (How::Panic, 0, Some("as ordered")),
        (How::Look, 1, None),
        (How::Take, 0, None),
    ];
    for workers in [1, 2] {
        for (how, answers, panic) in cases {
            let clients = [Client, Client];
            let app = Hand::builder(clients, Server::default())
                .workers(workers)
                .start()
                .unwrap();
            let into = app.ingress::<Client, How>();
            let mut lane = app.egress::<Client, u8>(0);
            // With credit for one, the next request shows that the one before gave it back.
            let rounds = if matches!(how, How::Take | How::AnswerAfterToken) {
                1
            } else {
                5
            };
            for round in 1..=rounds {
                into.at(0).send(how).unwrap();
                wait_until(|| app.metrics().edges[1].received == round);
            }
            into.at(1).send(How::Answer).unwrap();
            let report = app.drain(LONG).unwrap();
            assert_eq!(
                lane.drain(usize::MAX, drop) as u64,
                rounds * answers + 1,
                "{how:?}"
            );
            let count: u64 = report.panics.iter().map(|panic| panic.count).sum();
            let panics = report.panics.iter().map(|panic| &panic.message);
            match panic {
                None => assert_eq!(panics.count(), 0, "{how:?}: {report}"),
                Some(text) => {
                    assert_eq!((count, report.panics.len()), (rounds, 1), "{how:?}");
                    assert!(
                        panics.into_iter().all(|panic| panic.contains(text)),
                        "{report}"
                    );
                }
            }
            let kept = u64::from(rounds == 1);
            assert_eq!(
                report.metrics.edges[1].unanswered, kept,
                "{how:?}: {report}"
            );
        }
    }
}

mod queued {
    //! A server that cannot take its requests.
    use super::*;

    pub(super) struct Client;
    pub(super) struct Server;
    pub(super) struct Ask;
    pub(super) struct Answer;

    graph! {
        pub(super) graph Queued {
            processors { client: Client, server: Server }
            edges {
                ingress -> client: Ask;
                client -> server: Ask;
                server -> client: Answer [cap = 8, reply = Ask];
                server -> egress: u8 [cap = 1];
            }
        }
    }

    impl Process<Queued> for Client {}
    impl Receive<Queued, Ingress, Ask> for Client {
        fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Queued, Self>) {
            cx.to::<Server>().send(ask);
        }
    }
    impl Receive<Queued, Server, Answer> for Client {
        fn receive(&mut self, _: Answer, _: &mut Cx<'_, Queued, Self>) {}
    }
    impl Process<Queued> for Server {}
    impl Receive<Queued, Client, Ask> for Server {
        fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Queued, Self>) {
            cx.to::<Egress>().send(0_u8);
            cx.to::<Client>().send(Answer);
        }
    }
}

#[test]
fn the_age_of_a_request_counts_while_it_waits_in_the_queue() {
    use queued::{Ask, Client, Queued, Server};
    use rast_msgpass::timers::{ManualClock, Nanos};
    for workers in [1, 2] {
        let clock = ManualClock::new();
        let app = Queued::builder(Client, Server)
            .workers(workers)
            .clock(clock.clone())
            .start()
            .unwrap();
        let into = app.ingress::<Client, Ask>();
        let mut lane = app.egress::<Server, u8>(0);
        let asked = || app.metrics().edges[1];
        // The first is answered at once, and fills the lane.
        into.send(Ask).unwrap();
        wait_until(|| app.metrics().edges[2].received == 1);
        assert_eq!((asked().unanswered, asked().oldest), (0, Nanos::ZERO));
        // The second waits in the queue.
        into.send(Ask).unwrap();
        wait_until(|| asked().unanswered == 1);
        clock.advance(Nanos::from_secs(7));
        wait_until(|| asked().oldest >= Nanos::from_secs(7));
        let text = app.report().to_string();
        assert!(
            text.contains("unanswered: 1 of Client -> Server: Ask, the oldest for 7"),
            "{text}"
        );
        // A third does not make it look younger.
        app.look_at_clock();
        into.send(Ask).unwrap();
        wait_until(|| asked().unanswered == 2);
        assert!(asked().oldest >= Nanos::from_secs(7));
        (0..3).for_each(|_| assert_eq!(lane.recv_timeout(SOON), Ok(0)));
        wait_until(|| asked().unanswered == 0);
        assert_eq!(asked().oldest, Nanos::ZERO);
        app.drain(LONG).unwrap();
    }
}
