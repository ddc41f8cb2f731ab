//! Edges between many instances: one inbox per receiver.

use std::time::Duration;

use rast_msgpass::{
    BuildError, Cx, EdgeKind, Egress, Ingress, Next, PAIRS_MAX, Process, Receive, ReplyTo, graph,
};

const LONG: Duration = Duration::from_secs(100);

/// Messages of each sender.
const EACH: u64 = if cfg!(miri) { 8 } else { 80 };

/// What a sender's messages carry: its number, and how many it sent there before.
struct Numbered {
    from: usize,
    number: u64,
}

/// Sends to receivers in an order of its own, and counts what it sent to each.
struct Sender {
    left: u64,
    state: u64,
    sent: Vec<u64>,
}

impl Sender {
    fn new(number: usize, receivers: usize) -> Self {
        Self {
            left: EACH,
            state: number as u64 * 2 + 1,
            sent: vec![0; receivers],
        }
    }

    /// The next receiver, and what goes there.
    fn next(&mut self, from: usize) -> (usize, Numbered) {
        self.left -= 1;
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005) | 1;
        let to = (self.state >> 33) as usize % self.sent.len();
        let number = self.sent[to];
        self.sent[to] += 1;
        (to, Numbered { from, number })
    }
}

/// Checks that each sender's messages come in order.
struct Receiver {
    next: Vec<u64>,
    total: u64,
}

impl Receiver {
    fn new(senders: usize) -> Self {
        Self {
            next: vec![0; senders],
            total: 0,
        }
    }

    fn take(&mut self, message: &Numbered, sender: usize) {
        assert_eq!(message.from, sender);
        assert_eq!(message.number, self.next[sender]);
        self.next[sender] += 1;
        self.total += 1;
    }
}

const MANY: usize = 64;

graph! {
    graph Square {
        processors { sender: [Sender; MANY], receiver: [Receiver; MANY] }
        edges {
            sender -> receiver: Numbered [cap = 80];
            ingress -> sender: Start;
            receiver -> egress: u64;
        }
    }
}

struct Start;

impl Process<Square> for Sender {
    fn ping(&mut self, cx: &mut Cx<'_, Square, Self>) -> Next {
        if self.left == 0 {
            return Next::Idle;
        }
        let (to, message) = self.next(cx.replica());
        cx.to::<Receiver>().at(to).send(message);
        Next::Again
    }
}
impl Receive<Square, Ingress, Start> for Sender {
    fn receive(&mut self, _: Start, _: &mut Cx<'_, Square, Self>) {}
}
impl Process<Square> for Receiver {}
impl Receive<Square, Sender, Numbered> for Receiver {
    fn receive(&mut self, message: Numbered, cx: &mut Cx<'_, Square, Self>) {
        self.take(&message, cx.sender());
        cx.to::<Egress>().send(self.total);
    }
}

#[test]
fn sixty_four_to_sixty_four_keep_their_order_while_they_move() {
    assert!(!Square::EDGES[0].by_pair && MANY * MANY > PAIRS_MAX);
    for workers in [1, 2, 3] {
        let senders = (0..MANY).map(|number| Sender::new(number, MANY));
        let receivers = (0..MANY).map(|_| Receiver::new(MANY));
        let app = Square::builder(senders, receivers)
            .workers(workers)
            .period(Duration::from_millis(1))
            .start()
            .unwrap();
        let mut out = app.egress::<Receiver, u64>(0);
        for _ in 0..MANY as u64 * EACH {
            out.recv_timeout(LONG).unwrap();
        }
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        assert_eq!(report.received_total(), MANY as u64 * EACH);
    }
}

const THOUSAND: usize = if cfg!(miri) { 20 } else { 1000 };

graph! {
    graph Wide {
        processors { sender: [Sender; THOUSAND] [source], receiver: [Receiver; THOUSAND] }
        edges {
            sender -> receiver: Numbered;
            receiver -> sender: Numbered [unbounded, cap = 2];
        }
    }
}

impl Process<Wide> for Sender {
    fn ping(&mut self, cx: &mut Cx<'_, Wide, Self>) -> Next {
        if self.left == 0 {
            return Next::Idle;
        }
        let (to, message) = self.next(cx.replica());
        cx.to::<Receiver>().at(to).send(message);
        Next::Again
    }
}
impl Receive<Wide, Receiver, Numbered> for Sender {
    fn receive(&mut self, message: Numbered, cx: &mut Cx<'_, Wide, Self>) {
        assert_eq!(message.from, cx.replica());
    }
}
impl Process<Wide> for Receiver {}
impl Receive<Wide, Sender, Numbered> for Receiver {
    fn receive(&mut self, message: Numbered, cx: &mut Cx<'_, Wide, Self>) {
        self.take(&message, cx.sender());
        cx.to::<Sender>().at(message.from).send(message);
    }
}

#[test]
fn a_thousand_to_a_thousand_and_back() {
    let edge = &Wide::EDGES[0];
    assert_eq!(
        (edge.by_pair, edge.capacity),
        (false, 2 * THOUSAND.max(128))
    );
    let senders = (0..THOUSAND).map(|number| Sender::new(number, THOUSAND));
    let receivers = (0..THOUSAND).map(|_| Receiver::new(THOUSAND));
    let app = Wide::builder(senders, receivers)
        .workers(2)
        .period(Duration::from_millis(5))
        .start()
        .unwrap();
    let all = THOUSAND as u64 * EACH;
    while app.metrics().edges[1].received < all {
        assert!(app.report().panics.is_empty(), "{}", app.report());
        std::thread::yield_now();
    }
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.received_total(), 2 * all);
    assert_eq!(report.undelivered_total(), 0);
}

/// Sends more messages at once than an outbox holds.
struct Spread {
    is_done: bool,
}
struct Leaf;

const LEAVES: usize = 300;
const AT_ONCE: usize = 65;

graph! {
    graph Fan {
        processors { spread: Spread [source], leaf: [Leaf; LEAVES] }
        edges {
            spread -> leaf: u32 [burst = AT_ONCE];
            leaf -> egress: u32;
        }
    }
}

impl Process<Fan> for Spread {
    fn ping(&mut self, cx: &mut Cx<'_, Fan, Self>) -> Next {
        if !std::mem::replace(&mut self.is_done, true) {
            (0..AT_ONCE).for_each(|leaf| cx.to::<Leaf>().at(leaf).send(leaf as u32));
        }
        Next::Idle
    }
}
impl Process<Fan> for Leaf {}
impl Receive<Fan, Spread, u32> for Leaf {
    fn receive(&mut self, number: u32, cx: &mut Cx<'_, Fan, Self>) {
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn each_receiver_is_woken_if_one_turn_sends_more_than_an_outbox_holds() {
    let app = Fan::builder(Spread { is_done: false }, (0..LEAVES).map(|_| Leaf));
    let app = app.workers(1).start().unwrap();
    let mut out = app.egress::<Leaf, u32>(0);
    let mut seen: Vec<u32> = (0..AT_ONCE)
        .map(|_| out.recv_timeout(LONG).unwrap())
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..AT_ONCE as u32).collect::<Vec<_>>());
}

struct Client {
    left: u64,
    waiting: u64,
}
struct Server {
    kept: Vec<ReplyTo<Desk, Client, Self, Ask>>,
}
struct Ask(u64);
struct Answer(u64);

graph! {
    graph Desk {
        processors { client: [Client; 20] [source], server: [Server; 20] }
        edges {
            client -> server: Ask [burst = 2];
            server -> client: Answer [reply = Ask, cap = 8];
            client -> egress: u64 [cap = 4];
        }
    }
}

impl Process<Desk> for Client {
    fn ping(&mut self, cx: &mut Cx<'_, Desk, Self>) -> Next {
        for _ in 0..2 {
            if self.left == 0 {
                return Next::Idle;
            }
            self.left -= 1;
            self.waiting += 1;
            cx.to::<Server>().key(self.left).send(Ask(self.left));
        }
        Next::Again
    }
}
impl Receive<Desk, Server, Answer> for Client {
    fn receive(&mut self, answer: Answer, cx: &mut Cx<'_, Desk, Self>) {
        assert_eq!(cx.sender(), rast_msgpass::replica_of(answer.0, 20));
        assert!(self.waiting > 0);
        self.waiting -= 1;
        cx.to::<Egress>().send(answer.0);
    }
}
impl Process<Desk> for Server {
    fn ping(&mut self, _: &mut Cx<'_, Desk, Self>) -> Next {
        // Answers that were put off are waived.
        self.kept.clear();
        Next::Again
    }
}
impl Receive<Desk, Client, Ask> for Server {
    fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Desk, Self>) {
        let client = cx.sender();
        match ask.0 % 8 {
            0 => self.kept.push(cx.reply_to()),
            1 => panic!("it does not answer"),
            _ => cx.to::<Client>().at(client).send(Answer(ask.0)),
        }
    }
}

#[test]
fn requests_by_inboxes_are_answered_or_waived_once() {
    assert!(matches!(Desk::EDGES[1].kind, EdgeKind::Reply { .. }) && !Desk::EDGES[1].by_pair);
    let each = EACH.min(160);
    let clients = (0..20).map(|_| Client {
        left: each,
        waiting: 0,
    });
    let servers = (0..20).map(|_| Server { kept: Vec::new() });
    let app = Desk::builder(clients, servers)
        .workers(2)
        .period(Duration::from_millis(1))
        .start()
        .unwrap();
    let mut out = app.egress::<Client, u64>(0);
    let answered = 20 * each * 6 / 8;
    for _ in 0..answered {
        out.recv_timeout(LONG).unwrap();
    }
    while app.metrics().edges[0].received < 20 * each {
        std::thread::yield_now();
    }
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.undelivered_total(), 20 * each / 8);
    let panic = &report.panics[0];
    assert_eq!(panic.edge.map(|edge| edge.message), Some("Ask"));
}

struct Full;

graph! {
    graph Tight {
        processors { sender: [Sender; 64] [source], receiver: [Full; 64] }
        edges { sender -> receiver: Numbered [cap = 128, burst = 2]; }
    }
}

impl Process<Tight> for Sender {}
impl Process<Tight> for Full {}
impl Receive<Tight, Sender, Numbered> for Full {
    fn receive(&mut self, _: Numbered, _: &mut Cx<'_, Tight, Self>) {}
}

#[test]
fn an_inbox_that_is_too_small_is_refused_by_name() {
    let senders = (0..64).map(|number| Sender::new(number, 64));
    let app = Tight::builder(senders, (0..64).map(|_| Full));
    let error = app.start().expect_err("the inbox is too small");
    assert!(matches!(error, BuildError::Inbox { least: 129, .. }));
    assert_eq!(
        error.to_string(),
        "the edge Sender -> Full: Numbered has an inbox per receiver with room for 128; \
         its senders need at least 129: declare `cap = 129`"
    );
}

/// Sends its messages at once, to an inbox with little room.
struct Burst {
    left: u32,
}
/// Checks that the messages of each sender come in order.
struct Narrow {
    next: Vec<u32>,
    total: u64,
}

const CROWD: usize = if cfg!(miri) { 20 } else { 1000 };

/// Messages of each sender.
const EACH_OF_CROWD: u32 = 6;

graph! {
    graph Crowd {
        processors { burst: [Burst; CROWD] [source], narrow: [Narrow; 13] }
        edges {
            burst -> narrow: u32 [unbounded, cap = 4];
            narrow -> egress: u64;
        }
    }
}

impl Process<Crowd> for Burst {
    fn ping(&mut self, cx: &mut Cx<'_, Crowd, Self>) -> Next {
        let all = std::mem::take(&mut self.left);
        (0..all).for_each(|number| cx.to::<Narrow>().at(0).send(number));
        Next::Idle
    }
}
impl Process<Crowd> for Narrow {}
impl Receive<Crowd, Burst, u32> for Narrow {
    fn receive(&mut self, number: u32, cx: &mut Cx<'_, Crowd, Self>) {
        let next = &mut self.next[cx.sender()];
        assert_eq!(number, *next);
        *next += 1;
        self.total += 1;
        if self.total == CROWD as u64 * u64::from(EACH_OF_CROWD) {
            cx.to::<Egress>().send(self.total);
        }
    }
}

#[test]
fn a_crowd_at_a_narrow_inbox_is_woken_as_far_as_there_is_room() {
    assert!(!Crowd::EDGES[0].by_pair);
    let messages = CROWD as u64 * u64::from(EACH_OF_CROWD);
    for workers in [1, 2, 4] {
        let crowd = (0..CROWD).map(|_| Burst {
            left: EACH_OF_CROWD,
        });
        let narrow = (0..13).map(|_| Narrow {
            next: vec![0; CROWD],
            total: 0,
        });
        let app = Crowd::builder(crowd, narrow).workers(workers);
        let app = app.period(Duration::ZERO).start().unwrap();
        let mut out = app.egress::<Narrow, u64>(0);
        assert_eq!(out.recv_timeout(LONG), Ok(messages));
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        let turns = report.metrics.workers.iter().map(|worker| worker.turns);
        let turns: u64 = turns.sum();
        // A turn of each sender, and for four messages about seven wake-ups and a turn of the
        // receiver. If each release woke all, there were `CROWD` turns for four messages.
        if workers == 1 {
            assert!(
                turns < 4 * messages,
                "{turns} turns for {messages} messages"
            );
        }
    }
}
