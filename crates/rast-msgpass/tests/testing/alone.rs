//! A processor alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rast_msgpass::testing::{Room, TestCx};
use rast_msgpass::{
    Cx, Egress, Ingress, Next, Process, Receive, ReplyTo, Timer, graph, replica_of,
};

graph! {
    graph Bank {
        processors { teller: [Teller; 2], vault: [Vault; 3] }
        edges {
            ingress -> teller: Open [cap = 2];
            teller -> vault: Take;
            vault -> teller: Given [reply = Take, cap = 2];
            teller -> egress: Done [lanes = 2];
            vault -> egress: Note [unbounded];
        }
    }
}

struct Open(u64);
#[derive(Debug, PartialEq)]
struct Take(u64);
#[derive(Debug, PartialEq)]
struct Given(u64);
#[derive(Debug, PartialEq)]
struct Done(u64);
#[derive(Debug, PartialEq)]
struct Note(u64);

#[derive(Default)]
struct Teller {
    copies: usize,
    pings: usize,
}
#[derive(Default)]
struct Vault {
    kept: Vec<ReplyTo<Bank, Teller, Vault, Take>>,
}

impl Process<Bank> for Teller {
    fn ping(&mut self, cx: &mut Cx<'_, Bank, Self>) -> Next {
        self.pings += 1;
        Next::At(cx.now().saturating_add(Duration::from_secs(1).into()))
    }
}
impl Receive<Bank, Ingress, Open> for Teller {
    fn receive(&mut self, Open(key): Open, cx: &mut Cx<'_, Bank, Self>) {
        for _ in 0..=self.copies {
            cx.to::<Vault>().key(key).send(Take(key));
        }
    }
}
impl Receive<Bank, Vault, Given> for Teller {
    fn receive(&mut self, Given(number): Given, cx: &mut Cx<'_, Bank, Self>) {
        let lane = cx.sender() % 2;
        cx.to::<Egress>().lane(lane).send(Done(number));
    }
}
impl Process<Bank> for Vault {}
impl Receive<Bank, Teller, Take> for Vault {
    fn receive(&mut self, Take(number): Take, cx: &mut Cx<'_, Bank, Self>) {
        let client = cx.sender();
        match number {
            0 => {
                self.kept.push(cx.reply_to());
                cx.every(Duration::from_millis(5), 9_u64);
            }
            // Without an answer it is waived.
            1 => {}
            3 => drop(cx.reply_to::<Teller, Take>()),
            _ => cx.to::<Teller>().at(client).send(Given(number)),
        }
    }
}
impl Receive<Bank, Timer, u64> for Vault {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Bank, Self>) {
        cx.to::<Egress>().send(Note(number));
        if let Some(token) = self.kept.pop() {
            token.send(Given(number), cx);
        }
    }
}

/// The text of a panic.
fn text_of(run: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    payload
        .downcast_ref::<String>()
        .expect("with a text")
        .clone()
}

#[test]
fn a_client_asks_by_key_and_takes_answers() {
    let mut teller = TestCx::<Bank, Teller>::at(1, Teller::default());
    for key in [7, 8] {
        teller.receive::<Ingress, Open>(Open(key));
        let vault = replica_of(key, 3);
        let asked = teller.passed::<Vault, Take>();
        assert_eq!(asked.len(), 1);
        assert_eq!(
            (asked[0].sender, asked[0].receiver, asked[0].message.0),
            (1, vault, key)
        );
        teller.receive_from::<Vault, Given>(vault, Given(key));
        let done = teller.passed::<Egress, Done>();
        assert_eq!(
            (done[0].receiver, &done[0].message),
            (vault % 2, &Done(key))
        );
    }
    assert_eq!(teller.sent::<Egress, Done>(), []);
}

#[test]
fn a_client_without_credit_waits_for_an_answer() {
    let mut teller = TestCx::<Bank, Teller>::new(Teller::default());
    let vault = replica_of(5, 3);
    for _ in 0..3 {
        teller.receive::<Ingress, Open>(Open(5));
    }
    assert_eq!(teller.sent::<Vault, Take>().len(), 2);
    teller.receive_from::<Vault, Given>(vault, Given(5));
    teller.turn();
    assert_eq!(teller.sent::<Vault, Take>().len(), 1);
    // Three requests, two of them without an answer so far.
    teller.receive_from::<Vault, Given>(vault, Given(5));
    teller.receive_from::<Vault, Given>(vault, Given(5));
    let text = text_of(|| teller.receive_from::<Vault, Given>(vault, Given(5)));
    assert!(text.contains("an answer without a request"), "{text}");
}

#[test]
fn a_server_answers_waives_and_keeps() {
    let mut vault = TestCx::<Bank, Vault>::new(Vault::default());
    vault.receive_from::<Teller, Take>(1, Take(2));
    vault.receive_from::<Teller, Take>(0, Take(1));
    let given = vault.passed::<Teller, Given>();
    assert_eq!((given[0].receiver, &given[0].message), (1, &Given(2)));
    assert_eq!((given.len(), vault.waived::<Teller, Given>()), (1, 1));

    vault.receive::<Teller, Take>(Take(0));
    assert_eq!(vault.sent::<Teller, Given>(), []);
    let armed = vault.armed();
    assert_eq!(
        (armed.len(), armed[0].repeats, armed[0].message),
        (1, true, "u64")
    );
    assert_eq!(armed[0].after, Duration::from_millis(5).into());
    vault.advance(Duration::from_millis(4));
    assert_eq!(vault.sent::<Egress, Note>(), []);
    vault.advance(Duration::from_millis(1));
    assert_eq!(vault.sent::<Egress, Note>(), [Note(9)]);
    assert_eq!(vault.sent::<Teller, Given>(), [Given(9)]);
    assert!(vault.into_inner().kept.is_empty());
}

#[test]
fn a_token_that_is_dropped_waives() {
    let mut vault = TestCx::<Bank, Vault>::new(Vault::default());
    vault.receive_from::<Teller, Take>(1, Take(3));
    vault.turn();
    assert_eq!(vault.waived::<Teller, Given>(), 1);
    assert_eq!(vault.sent::<Teller, Given>(), []);
}

#[test]
fn pings_come_at_their_time() {
    let mut teller = TestCx::<Bank, Teller>::new(Teller::default());
    assert_eq!(teller.processor().pings, 1);
    assert!(!teller.turn());
    assert_eq!(teller.next_alarm().unwrap().as_nanos(), 1_000_000_000);
    teller.advance(Duration::from_millis(999));
    assert_eq!(teller.processor().pings, 1);
    teller.advance(Duration::from_millis(1));
    assert_eq!(teller.processor().pings, 2);
}

#[test]
fn a_panic_of_the_handler_is_one_of_the_test() {
    let teller = Teller {
        copies: 1,
        ..Teller::default()
    };
    let mut teller = TestCx::<Bank, Teller>::new(teller);
    let text = text_of(|| teller.receive::<Ingress, Open>(Open(5)));
    assert!(text.contains("declare [burst = 2]"), "{text}");
}

#[test]
fn without_room_it_waits() {
    let mut teller = TestCx::<Bank, Teller>::new(Teller::default());
    teller.graph().set_room::<Teller, Vault, Take>(Room::None);
    teller.receive::<Ingress, Open>(Open(5));
    assert_eq!(teller.sent::<Vault, Take>(), []);
    teller.graph().set_room::<Teller, Vault, Take>(Room::Real);
    assert!(teller.turn());
    assert_eq!(teller.sent::<Vault, Take>(), [Take(5)]);
    // A receiver that takes nothing.
    for replica in 0..3 {
        teller.graph().pause::<Vault>(replica);
    }
    (0..2).for_each(|_| teller.receive::<Ingress, Open>(Open(5)));
    assert_eq!(teller.sent::<Vault, Take>(), []);
    teller.graph().resume::<Vault>(replica_of(5, 3));
    teller.turn();
    assert_eq!(teller.sent::<Vault, Take>().len(), 1);
    let text = text_of(|| (0..3).for_each(|_| teller.receive::<Ingress, Open>(Open(5))));
    assert!(text.contains("the door is full"), "{text}");
}

/// Sends by each rule for messages without room.
struct Ticker;
/// Sends each number out.
struct Desk;

graph! {
    graph Market {
        processors { ticker: Ticker [source], desk: Desk }
        edges {
            ticker -> desk: u8 [latest];
            ticker -> desk: u16 [drop_oldest, cap = 2];
            ticker -> desk: u32 [drop_newest, cap = 2];
            ticker -> desk: i32 [reject, cap = 2];
            desk -> egress: i64;
        }
    }
}

impl Process<Market> for Ticker {}
impl Process<Market> for Desk {}
impl<M: Into<i64>> Receive<Market, Ticker, M> for Desk {
    fn receive(&mut self, number: M, cx: &mut Cx<'_, Market, Self>) {
        cx.to::<Egress>().send(number.into());
    }
}

#[test]
fn messages_without_room_are_dropped_or_refused_as_in_the_graph() {
    let mut desk = TestCx::<Market, Desk>::new(Desk);
    desk.graph().set_room::<Desk, Egress, i64>(Room::None);
    (11..=14).for_each(|number| desk.receive::<Ticker, u8>(number));
    (21..=24).for_each(|number| desk.receive::<Ticker, u16>(number));
    (31..=34).for_each(|number| desk.receive::<Ticker, u32>(number));
    (41..=42).for_each(|number| desk.receive::<Ticker, i32>(number));
    let refused = catch_unwind(AssertUnwindSafe(|| desk.receive::<Ticker, i32>(43)));
    assert!(refused.is_err());
    desk.graph().set_room::<Desk, Egress, i64>(Room::Real);
    desk.turn();
    let mut sent = desk.sent::<Egress, i64>();
    sent.sort_unstable();
    assert_eq!(sent, [14, 23, 24, 31, 32, 41, 42]);
}

/// Gives each job to a replica with room.
struct Router;
#[derive(Default)]
struct Hand(Vec<u64>);

graph! {
    graph Crew {
        processors { router: Router [source], hand: [Hand; 300] }
        edges { router -> hand: u64 [route = any, cap = 4]; }
    }
}

impl Process<Crew> for Router {}
impl Process<Crew> for Hand {}
impl Receive<Crew, Router, u64> for Hand {
    fn receive(&mut self, job: u64, _: &mut Cx<'_, Crew, Self>) {
        self.0.push(job);
    }
}

#[test]
fn a_processor_gets_its_messages_although_any_replica_would_do() {
    assert!(!Crew::EDGES[0].by_pair);
    for replica in [0, 7] {
        let mut hand = TestCx::<Crew, Hand>::at(replica, Hand::default());
        (1..=20).for_each(|job| hand.receive::<Router, u64>(job));
        assert!(
            hand.into_inner().0.into_iter().eq(1..=20),
            "replica {replica}"
        );
    }
}
