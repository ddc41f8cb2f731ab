//! What is on its way while a handler of a blocking processor blocks: what was sent before, and the
//! room that its message took.

use std::sync::mpsc::{Receiver, Sender, channel};

use rast_msgpass::{
    Cx, Egress, Ingress, Next, OnPanic, PAIRS_MAX, Process, Receive, Retired, graph,
};

use crate::LONG;

/// Handles two kinds of messages in one turn: one that it answers, and one that blocks until the
/// answer has arrived.
struct Both {
    begins: Receiver<()>,
    arrived: Receiver<u64>,
    answered: Option<u64>,
}

struct Ask(u64);
struct Block;

graph! {
    graph TwoWays {
        processors { both: Both }
        edges {
            ingress -> both: Ask [cap = 4];
            ingress -> both: Block [cap = 4];
            both -> egress: u64 [cap = 4];
        }
    }
}

impl Process<TwoWays> for Both {}
impl Receive<TwoWays, Ingress, Ask> for Both {
    fn receive(&mut self, Ask(number): Ask, cx: &mut Cx<'_, TwoWays, Self>) {
        if number == 0 {
            self.begins.recv_timeout(LONG).expect("all is sent");
        }
        cx.to::<Egress>().send(number);
        self.answered = Some(number);
    }
}
impl Receive<TwoWays, Ingress, Block> for Both {
    fn receive(&mut self, _: Block, _: &mut Cx<'_, TwoWays, Self>) {
        let mut arrived = None;
        while arrived != self.answered {
            let next = self.arrived.recv_timeout(LONG);
            arrived = Some(next.expect("the answer is on its way"));
        }
        self.answered = None;
    }
}

#[test]
fn what_a_handler_sent_is_on_its_way_before_the_next_one_blocks() {
    let (begin, begins) = channel();
    let (arrive, arrived) = channel();
    let both = Both {
        begins,
        arrived,
        answered: None,
    };
    let app = TwoWays::builder(both).blocking::<Both>(1).start().unwrap();
    let mut answers = app.egress::<Both, u64>(0);
    let (asks, blocks) = (app.ingress::<Both, Ask>(), app.ingress::<Both, Block>());
    // The first turn blocks until there is a message of each kind for the next one.
    asks.send(Ask(0)).unwrap();
    asks.send(Ask(1)).unwrap();
    (0..2).for_each(|_| blocks.send(Block).unwrap());
    begin.send(()).unwrap();
    for number in [0, 1] {
        assert_eq!(answers.recv_timeout(LONG).unwrap(), number);
        arrive.send(number).unwrap();
    }
    app.drain(LONG).unwrap();
}

/// Each of its handlers sends the next number, once the number before it has arrived outside.
struct Chain {
    ready: Receiver<()>,
    arrived: Receiver<u64>,
    next: u64,
}
struct Mortal;

struct Go;
struct Kill;

graph! {
    graph Hooks {
        processors { chain: Chain, mortal: [Mortal; 2] }
        edges {
            ingress -> chain: Go [cap = 4];
            ingress -> mortal: Kill [cap = 4];
            chain -> egress: u64 [cap = 16];
        }
    }
}

impl Chain {
    fn step(&mut self, cx: &mut Cx<'_, Hooks, Self>) {
        if self.next > 0 {
            let arrived = self.arrived.recv_timeout(LONG);
            let arrived = arrived.expect("what the handler before sent is on its way");
            assert_eq!(arrived, self.next - 1);
        }
        cx.to::<Egress>().send(self.next);
        self.next += 1;
    }
}

impl Process<Hooks> for Chain {
    fn on_start(&mut self, cx: &mut Cx<'_, Hooks, Self>) {
        cx.watch::<Mortal>();
        self.ready.recv_timeout(LONG).expect("all is there");
        self.step(cx);
    }

    fn ping(&mut self, cx: &mut Cx<'_, Hooks, Self>) -> Next {
        self.step(cx);
        Next::Woken(rast_msgpass::timers::Instant::MAX)
    }

    fn on_retired(&mut self, _: Retired, cx: &mut Cx<'_, Hooks, Self>) {
        self.step(cx);
    }
}
impl Receive<Hooks, Ingress, Go> for Chain {
    fn receive(&mut self, _: Go, cx: &mut Cx<'_, Hooks, Self>) {
        self.step(cx);
    }
}
impl Process<Hooks> for Mortal {}
impl Receive<Hooks, Ingress, Kill> for Mortal {
    fn receive(&mut self, _: Kill, _: &mut Cx<'_, Hooks, Self>) {
        std::panic::resume_unwind(Box::new("by order"));
    }
}

#[test]
fn what_a_hook_sent_is_on_its_way_before_the_next_handler_blocks() {
    let (begin, ready) = channel();
    let (arrive, arrived) = channel();
    let chain = Chain {
        ready,
        arrived,
        next: 0,
    };
    let app = Hooks::builder(chain, [Mortal, Mortal])
        .on_panic_of::<Mortal>(OnPanic::Retire)
        .blocking::<Chain>(1)
        .start()
        .unwrap();
    let mut numbers = app.egress::<Chain, u64>(0);
    app.ingress::<Chain, Go>().send(Go).unwrap();
    for mortal in 0..2 {
        app.ingress::<Mortal, Kill>().at(mortal).send(Kill).unwrap();
    }
    let retired = || {
        let metrics = app.metrics();
        metrics
            .instances
            .iter()
            .filter(|one| one.is_retired)
            .count()
    };
    while retired() < 2 {
        std::thread::yield_now();
    }
    begin.send(()).unwrap();
    // One turn: `on_start`, a ping, the message, two times `on_retired`, and the ping after it.
    for number in 0..6 {
        assert_eq!(numbers.recv_timeout(LONG), Ok(number));
        arrive.send(number).unwrap();
    }
    let report = app.stop();
    assert_eq!(report.panics.len(), 1, "{report}");
}

/// More than a worker can mark in one ring of wake-ups.
const COUNTS: usize = 150;

struct Many {
    held: Receiver<()>,
    go: Sender<()>,
    counted: Receiver<()>,
}
struct Busy {
    hold: Sender<()>,
    gone: Receiver<()>,
}
struct Count(Sender<()>);

#[derive(Clone)]
struct One;
struct Hold;

graph! {
    graph Fan {
        processors { many: Many, busy: Busy, count: [Count; COUNTS] }
        edges {
            ingress -> many: u64 [cap = 4];
            many -> busy: Hold [cap = 4];
            many -> count: One [cap = 4];
        }
    }
}

impl Many {
    fn wait_for_all(&self) {
        for _ in 0..COUNTS {
            let counted = self.counted.recv_timeout(LONG);
            counted.expect("the receivers run while a handler blocks");
        }
    }
}

impl Process<Fan> for Many {}
impl Receive<Fan, Ingress, u64> for Many {
    fn receive(&mut self, step: u64, cx: &mut Cx<'_, Fan, Self>) {
        match step {
            0 => cx.to::<Count>().all().send(One),
            1 => {
                self.wait_for_all();
                cx.to::<Busy>().send(Hold);
            }
            2 => {
                // The worker of the receivers takes no mark from here on.
                self.held.recv_timeout(LONG).expect("it is held");
                cx.to::<Count>().all().send(One);
            }
            _ => {
                self.go.send(()).unwrap();
                self.wait_for_all();
            }
        }
    }
}
impl Process<Fan> for Busy {}
impl Receive<Fan, Many, Hold> for Busy {
    fn receive(&mut self, _: Hold, _: &mut Cx<'_, Fan, Self>) {
        self.hold.send(()).unwrap();
        self.gone.recv_timeout(LONG).expect("it goes on");
    }
}
impl Process<Fan> for Count {}
impl Receive<Fan, Many, One> for Count {
    fn receive(&mut self, _: One, _: &mut Cx<'_, Fan, Self>) {
        self.0.send(()).unwrap();
    }
}

#[test]
fn messages_to_many_receivers_are_on_their_way_before_the_next_handler_blocks() {
    let (hold, held) = channel();
    let (go, gone) = channel();
    let (count, counted) = channel();
    let many = Many { held, go, counted };
    let counts = (0..COUNTS).map(|_| Count(count.clone()));
    let builder = Fan::builder(many, Busy { hold, gone }, counts);
    let app = builder.workers(1).blocking::<Many>(1).start().unwrap();
    let steps = app.ingress::<Many, u64>();
    (0..4).for_each(|step| steps.send(step).unwrap());
    let report = app.drain(LONG).unwrap();
    assert!(report.panics.is_empty(), "{report}");
}

/// Sends a burst that fills its edge, and then tells that it runs.
struct Eight(Sender<()>);
/// Blocks in the handler of a message until its sender goes on.
struct Stall {
    began: Sender<()>,
    goes_on: Receiver<()>,
}

graph! {
    graph Slots {
        processors { eight: Eight, stall: Stall }
        edges {
            ingress -> eight: u64 [cap = 8];
            ingress -> stall: u64 [cap = 8];
            eight -> stall: u32 [cap = 8, burst = 8];
        }
    }
}

impl Process<Slots> for Eight {}
impl Receive<Slots, Ingress, u64> for Eight {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Slots, Self>) {
        match number {
            0 => (0..8_u32).for_each(|number| cx.to::<Stall>().send(number)),
            _ => self.0.send(()).unwrap(),
        }
    }
}
impl Process<Slots> for Stall {}
impl Receive<Slots, Eight, u32> for Stall {
    fn receive(&mut self, number: u32, _: &mut Cx<'_, Slots, Self>) {
        if number == 7 {
            let goes_on = self.goes_on.recv_timeout(LONG);
            goes_on.expect("the sender has room for its burst");
        }
    }
}
impl Receive<Slots, Ingress, u64> for Stall {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Slots, Self>) {
        if number == 0 {
            self.began.send(()).unwrap();
            let goes_on = self.goes_on.recv_timeout(LONG);
            goes_on.expect("there is room at the door");
        }
    }
}

#[test]
fn the_message_of_a_handler_that_blocks_takes_no_room() {
    let (go_on, goes_on) = channel();
    let (begin, began) = channel();
    let stall = Stall {
        began: begin,
        goes_on,
    };
    let builder = Slots::builder(Eight(go_on.clone()), stall);
    let app = builder.workers(1).blocking::<Stall>(1).start().unwrap();
    let numbers = app.ingress::<Eight, u64>();
    (0..2).for_each(|number| numbers.send(number).unwrap());
    let numbers = app.ingress::<Stall, u64>();
    numbers.send(0).unwrap();
    began.recv_timeout(LONG).unwrap();
    // As many as the door has places.
    (1..=8).for_each(|number| numbers.send(number).unwrap());
    go_on.send(()).unwrap();
    let report = app.drain(LONG).unwrap();
    assert!(report.panics.is_empty(), "{report}");
}

/// Sends more than its edge has room for, and then blocks until all of it is handled.
struct Burst(Receiver<()>);
struct Tally(Sender<()>);

#[derive(Clone, Copy)]
enum Step {
    Send,
    Wait,
}
struct Nudge;

graph! {
    graph Spill {
        processors { burst: Burst, tally: Tally }
        edges {
            ingress -> burst: Step [cap = 4];
            burst -> tally: u64 [unbounded, cap = 4];
            ingress -> tally: Nudge [cap = 4];
            tally -> egress: u64 [cap = 16];
        }
    }
}

impl Process<Spill> for Burst {}
impl Receive<Spill, Ingress, Step> for Burst {
    fn receive(&mut self, step: Step, cx: &mut Cx<'_, Spill, Self>) {
        match step {
            Step::Send => (0..6).for_each(|number| cx.to::<Tally>().send(number)),
            Step::Wait => self.0.recv_timeout(LONG).expect("it is on its way"),
        }
    }
}
impl Process<Spill> for Tally {}
impl Receive<Spill, Burst, u64> for Tally {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Spill, Self>) {
        cx.to::<Egress>().send(number);
    }
}
impl Receive<Spill, Ingress, Nudge> for Tally {
    fn receive(&mut self, _: Nudge, _: &mut Cx<'_, Spill, Self>) {
        self.0.send(()).expect("it waits");
    }
}

#[test]
fn what_found_room_later_is_on_its_way_before_the_next_handler_blocks() {
    let (go, waits) = channel();
    let builder = Spill::builder(Burst(waits), Tally(go.clone()));
    let app = builder.blocking::<Burst>(1).start().unwrap();
    let mut seen = app.egress::<Tally, u64>(0);
    let (steps, nudges) = (app.ingress::<Burst, Step>(), app.ingress::<Tally, Nudge>());
    for step in [Step::Send, Step::Wait, Step::Wait] {
        steps.send(step).unwrap();
    }
    for number in 0..4 {
        assert_eq!(seen.recv_timeout(LONG), Ok(number));
    }
    // A later turn of the receiver ends the first wait, so the room for two more is there.
    nudges.send(Nudge).unwrap();
    for number in 4..6 {
        assert_eq!(seen.recv_timeout(LONG), Ok(number));
    }
    go.send(()).unwrap();
    app.drain(LONG).unwrap();
}

/// Asks so often in the handlers of two answers that each slot for an answer is reserved.
struct Client {
    answers: u64,
    pushed: Sender<()>,
    began: Receiver<()>,
    arrived: Sender<()>,
}
/// Replica 0 is asked; the others make the edges too wide for a ring per pair.
struct Server(Option<Counter>);
struct Counter {
    asks: u64,
    pushed: Receiver<()>,
    last: Sender<()>,
    began: Sender<()>,
    arrived: Receiver<()>,
}

struct Start;
struct Question;
struct Reply;
struct Halt;

/// The `cap` of the answers. There are twice as many slots.
const CREDIT: u64 = 64;
/// More than a client may ask for at its start.
const EXTRA: u64 = 2;
const ASKS: u64 = 2 * CREDIT + EXTRA;

graph! {
    graph Full {
        processors { client: Client, server: [Server; PAIRS_MAX + 1] }
        edges {
            ingress -> client: Start;
            ingress -> server: Halt [cap = 4];
            client -> server: Question [burst = 64];
            server -> client: Reply [reply = Question, cap = 64];
        }
    }
}

impl Client {
    fn ask(cx: &mut Cx<'_, Full, Self>, count: u64) {
        (0..count).for_each(|_| cx.to::<Server>().at(0).send(Question));
    }
}

impl Process<Full> for Client {}
impl Receive<Full, Ingress, Start> for Client {
    fn receive(&mut self, _: Start, cx: &mut Cx<'_, Full, Self>) {
        Self::ask(cx, CREDIT);
    }
}
impl Receive<Full, Server, Reply> for Client {
    fn receive(&mut self, _: Reply, cx: &mut Cx<'_, Full, Self>) {
        self.answers += 1;
        match self.answers {
            1 => Self::ask(cx, EXTRA),
            2 => {
                // So many that they leave before this handler returns.
                Self::ask(cx, CREDIT);
                self.pushed.send(()).unwrap();
                let began = self.began.recv_timeout(LONG);
                began.expect("all is answered, and the next handler runs");
            }
            ASKS => self.arrived.send(()).unwrap(),
            _ => {}
        }
    }
}
impl Process<Full> for Server {}
impl Receive<Full, Client, Question> for Server {
    fn receive(&mut self, _: Question, cx: &mut Cx<'_, Full, Self>) {
        let counter = self.0.as_mut().expect("only replica 0 is asked");
        counter.asks += 1;
        match counter.asks {
            // The asks that follow come without a wake-up.
            asks if asks == CREDIT + EXTRA => {
                let pushed = counter.pushed.recv_timeout(LONG);
                pushed.expect("the client asks for more");
            }
            ASKS => counter.last.send(()).unwrap(),
            _ => {}
        }
        cx.reply_to::<Client, Question>().send(Reply, cx);
    }
}
impl Receive<Full, Ingress, Halt> for Server {
    fn receive(&mut self, _: Halt, _: &mut Cx<'_, Full, Self>) {
        let counter = self.0.as_mut().expect("only replica 0 is halted");
        counter.began.send(()).unwrap();
        let arrived = counter.arrived.recv_timeout(LONG);
        arrived.expect("the last answer is on its way");
    }
}

#[test]
fn answers_through_a_full_inbox_are_on_their_way_before_the_next_handler_blocks() {
    assert!(!Full::EDGES[3].by_pair, "the client has an inbox");
    let (push, pushed) = channel();
    let (last, lasts) = channel();
    let (begin, began) = channel();
    let (arrive, arrived) = channel();
    let client = Client {
        answers: 0,
        pushed: push,
        began,
        arrived: arrive,
    };
    let mut counter = Some(Counter {
        asks: 0,
        pushed,
        last,
        began: begin,
        arrived,
    });
    let servers: Vec<_> = (0..=PAIRS_MAX).map(|_| Server(counter.take())).collect();
    let builder = Full::builder(client, servers);
    let app = builder.workers(1).blocking::<Server>(1).start().unwrap();
    app.ingress::<Client, Start>().send(Start).unwrap();
    lasts
        .recv_timeout(LONG)
        .expect("the last request is handled");
    app.ingress::<Server, Halt>().at(0).send(Halt).unwrap();
    let report = app.drain(LONG).unwrap();
    assert!(report.panics.is_empty(), "{report}");
}
