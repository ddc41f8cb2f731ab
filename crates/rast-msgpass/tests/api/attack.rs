//! The promises under attack: requests in both directions, tokens, ceilings and panics, ended at
//! random moments in every way. What was accepted was handled, or is counted as undelivered.

use rast_msgpass::primitive::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rast_msgpass::{
    Cx, DrainCause, Egress, EndedBy, Ingress, Next, OnPanic, Process, Receive, ReplyTo, Report,
    Timer, graph,
};

use crate::LONG;

/// Attacks. `RAST_SEED` repeats one of them.
const SEEDS: u64 = if cfg!(miri) { 2 } else { 100 };

/// What is done with a message is in its number.
struct Job(u64);
struct Ask(u64);
struct Answer(u64);
struct Query(u64);
struct Found(u64);
struct Note(u64);
struct Tick(u64);

const KINDS: usize = 8;

graph! {
    graph Siege {
        processors { left: [Left; 2], right: Right }
        edges {
            ingress -> left: Job [cap = 8];
            ingress -> right: Job [unbounded, ceiling = 32];
            left -> right: Ask [cap = 4];
            right -> left: Answer [cap = 2, reply = Ask];
            right -> left: Query [cap = 4];
            left -> right: Found [cap = 2, reply = Query];
            left -> right: Note [unbounded, cap = 2, ceiling = 200];
            right -> egress: Note [unbounded, cap = 4, ceiling = 100_000];
        }
    }
}

/// Per edge: messages sent, those that a handler began with, and those it panicked with.
#[derive(Default)]
struct Counts {
    sent: [AtomicU64; KINDS],
    begun: [AtomicU64; KINDS],
    panicked: [AtomicU64; KINDS],
}

impl Counts {
    fn sent(&self, edge: usize) {
        self.sent[edge].fetch_add(1, SeqCst);
    }

    /// A handler begins; it panics for one number in 32.
    fn begin(&self, edge: usize, number: u64) {
        self.begun[edge].fetch_add(1, SeqCst);
        self.panic(edge, number);
    }

    /// A handler ends; it panics after its work for one number in 32.
    fn end(&self, edge: usize, number: u64) {
        self.panic(edge, !number);
    }

    fn panic(&self, edge: usize, number: u64) {
        if Random::new(number).draw().is_multiple_of(32) {
            self.panicked[edge].fetch_add(1, SeqCst);
            // A panic that prints nothing.
            std::panic::resume_unwind(Box::new("by order"));
        }
    }
}

struct Left {
    counts: Arc<Counts>,
    kept: Vec<ReplyTo<Siege, Right, Self, Query>>,
    /// A flood reaches the ceiling.
    floods: bool,
    has_flushed: bool,
}
struct Right {
    counts: Arc<Counts>,
    kept: Vec<ReplyTo<Siege, Left, Self, Ask>>,
    has_flushed: bool,
}

impl Left {
    fn note(&self, count: u64, cx: &mut Cx<'_, Siege, Self>) {
        for number in 0..count {
            cx.to::<Right>().send(Note(number));
            self.counts.sent(6);
        }
    }

    fn free(&mut self, number: u64, cx: &mut Cx<'_, Siege, Self>) {
        if let Some(reply) = self.kept.pop() {
            reply.send(Found(number), cx);
            self.counts.sent(5);
        }
    }
}

impl Process<Siege> for Left {
    fn flush(&mut self, cx: &mut Cx<'_, Siege, Self>) {
        self.free(0, cx);
        self.kept.clear();
        // Once: the two are a cycle, which is asked until it sends nothing.
        if !core::mem::replace(&mut self.has_flushed, true) {
            self.note(1, cx);
        }
    }
}
impl Receive<Siege, Ingress, Job> for Left {
    fn receive(&mut self, Job(number): Job, cx: &mut Cx<'_, Siege, Self>) {
        self.counts.begin(0, number);
        cx.to::<Right>().send(Ask(number.rotate_left(7)));
        self.counts.sent(2);
        match number % 8 {
            0 if self.floods => self.note(300, cx),
            1 => {
                cx.after(Duration::from_micros(number % 64), Tick(number));
            }
            2 => self.free(number, cx),
            rest => self.note(rest, cx),
        }
        if number % 4096 == 4095 {
            cx.stop();
        }
        self.counts.end(0, number);
    }
}
impl Receive<Siege, Timer, Tick> for Left {
    fn receive(&mut self, Tick(number): Tick, cx: &mut Cx<'_, Siege, Self>) {
        cx.to::<Right>().send(Ask(number));
        self.counts.sent(2);
    }
}
impl Receive<Siege, Right, Answer> for Left {
    fn receive(&mut self, Answer(number): Answer, cx: &mut Cx<'_, Siege, Self>) {
        self.counts.begin(3, number);
        if number.is_multiple_of(3) {
            cx.to::<Right>().send(Ask((number / 3) | 1));
            self.counts.sent(2);
        }
        self.counts.end(3, number);
    }
}
impl Receive<Siege, Right, Query> for Left {
    fn receive(&mut self, Query(number): Query, cx: &mut Cx<'_, Siege, Self>) {
        self.counts.begin(4, number);
        match number % 4 {
            0 => {
                // One at most, so that the credit for two lets the other go on.
                self.free(number, cx);
                self.kept.push(cx.reply_to());
            }
            1 => self.note(number % 3, cx),
            2 if cx.to::<Right>().try_send(Ask(number)).is_ok() => self.counts.sent(2),
            _ => {
                cx.to::<Right>().send(Found(number));
                self.counts.sent(5);
            }
        }
        self.counts.end(4, number);
    }
}

impl Right {
    fn free(&mut self, number: u64, cx: &mut Cx<'_, Siege, Self>) {
        if let Some(reply) = self.kept.pop() {
            reply.send(Answer(number), cx);
            self.counts.sent(3);
        }
    }

    fn out(&self, number: u64, cx: &mut Cx<'_, Siege, Self>) {
        cx.to::<Egress>().send(Note(number));
        self.counts.sent(7);
    }
}

impl Process<Siege> for Right {
    fn ping(&mut self, cx: &mut Cx<'_, Siege, Self>) -> Next {
        self.out(0, cx);
        Next::At(cx.now().saturating_add(Duration::from_micros(100).into()))
    }

    fn flush(&mut self, cx: &mut Cx<'_, Siege, Self>) {
        self.free(0, cx);
        self.kept.clear();
        if !core::mem::replace(&mut self.has_flushed, true) {
            self.out(0, cx);
        }
    }
}
impl Receive<Siege, Ingress, Job> for Right {
    fn receive(&mut self, Job(number): Job, cx: &mut Cx<'_, Siege, Self>) {
        self.counts.begin(1, number);
        cx.to::<Left>().at(number as usize % 2).send(Query(number));
        self.counts.sent(4);
        self.counts.end(1, number);
    }
}
impl Receive<Siege, Left, Ask> for Right {
    fn receive(&mut self, Ask(number): Ask, cx: &mut Cx<'_, Siege, Self>) {
        self.counts.begin(2, number);
        let client = cx.sender();
        match number % 8 {
            0 => {
                self.free(number, cx);
                self.kept.push(cx.reply_to());
            }
            1 => {}
            2 => self.free(number, cx),
            3 if cx.to::<Left>().at(client).try_send(Query(number)).is_ok() => self.counts.sent(4),
            4 => drop(cx.reply_to::<Left, Ask>()),
            _ => {
                cx.to::<Left>().at(client).send(Answer(number));
                self.counts.sent(3);
            }
        }
        self.counts.end(2, number);
    }
}
impl Receive<Siege, Left, Found> for Right {
    fn receive(&mut self, Found(number): Found, cx: &mut Cx<'_, Siege, Self>) {
        self.counts.begin(5, number);
        self.out(number, cx);
        self.counts.end(5, number);
    }
}
impl Receive<Siege, Left, Note> for Right {
    fn receive(&mut self, Note(number): Note, cx: &mut Cx<'_, Siege, Self>) {
        self.counts.begin(
            6,
            number ^ cx.sender() as u64 ^ self.counts.begun[6].load(SeqCst),
        );
        self.out(number, cx);
    }
}

/// All is counted, each message once. `taken`: by the receiver of the lane.
fn account(seed: u64, report: &Report, counts: &Counts, given_up: &[AtomicU64; KINDS], taken: u64) {
    for (edge, metrics) in report.metrics.edges.iter().enumerate() {
        let name = metrics.edge;
        let mut lost = report.undelivered.iter();
        let lost = lost.find(|lost| lost.edge == name);
        let lost = lost.map_or(0, |lost| lost.messages);
        let [sent, begun, panicked] =
            [&counts.sent, &counts.begun, &counts.panicked].map(|counts| counts[edge].load(SeqCst));
        let handled = if edge == 7 { taken } else { begun - panicked };
        assert_eq!(
            sent,
            handled + lost,
            "seed {seed}, {name}: {panicked} panics\n{report}"
        );
        assert_eq!(
            given_up[edge].load(SeqCst) + panicked,
            lost,
            "seed {seed}, {name}\n{report}"
        );
        assert_eq!(metrics.sent, sent, "seed {seed}, {name}\n{report}");
    }
    assert!(report.faults.is_empty(), "seed {seed}: {report}");
}

fn attack(seed: u64) {
    let mut random = Random::new(seed);
    let (counts, given_up) = (
        Arc::new(Counts::default()),
        Arc::<[AtomicU64; KINDS]>::default(),
    );
    let left = |floods| Left {
        counts: counts.clone(),
        kept: Vec::new(),
        floods,
        has_flushed: false,
    };
    let right = Right {
        counts: counts.clone(),
        kept: Vec::new(),
        has_flushed: false,
    };
    let floods = random.draw().is_multiple_of(4);
    let policy = match random.draw() % 4 {
        0 => OnPanic::Retire,
        1 => OnPanic::Stop,
        _ => OnPanic::Continue,
    };
    let lost = given_up.clone();
    let app = Siege::builder([left(floods), left(floods)], right)
        .workers(1 + random.draw() as usize % 3)
        .period(Duration::from_millis(1))
        .on_panic(policy)
        .on_undelivered(move |edge, _| {
            let edge = Siege::EDGES.iter().position(|info| info == edge);
            lost[edge.expect("an edge of the graph")].fetch_add(1, SeqCst);
        })
        .start()
        .expect("a valid graph");
    let mut lane = app.egress::<Right, Note>(0);
    let (lefts, rights) = (app.ingress::<Left, Job>(), app.ingress::<Right, Job>());
    let stopper = app.stopper();
    let (end, moment, jobs) = (random.draw() % 4, random.draw() % 100, random.draw());
    let (settled, taken) = std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let mut taken = 0;
            while lane.recv().is_ok() {
                taken += 1;
            }
            taken
        });
        let senders: Vec<_> = (0..2)
            .map(|thread| {
                let (lefts, rights, counts) = (lefts.clone(), rights.clone(), counts.clone());
                let mut random = Random::new(jobs ^ thread);
                scope.spawn(move || {
                    for _ in 0..100 {
                        let number = random.draw();
                        let (edge, sent) = match number >> 32 & 3 {
                            0 => (1, rights.send(Job(number)).is_ok()),
                            1 => (1, rights.try_send(Job(number)).is_ok()),
                            at => (0, lefts.at(at as usize % 2).send(Job(number)).is_ok()),
                        };
                        if sent {
                            counts.sent(edge);
                        }
                    }
                })
            })
            .collect();
        // The end comes after so many jobs, or when all were sent.
        let sent = || [0, 1].map(|edge| counts.sent[edge].load(SeqCst));
        while sent().iter().sum::<u64>() < moment
            && !senders.iter().all(|sender| sender.is_finished())
        {
            std::thread::yield_now();
        }
        let settled = match end {
            0 => Ok(app.stop()),
            1 => {
                stopper.stop();
                Ok(app.wait())
            }
            _ => app.drain(LONG),
        };
        for sender in senders {
            sender.join().expect("senders do not panic");
        }
        (
            settled,
            receiver.join().expect("the receiver does not panic"),
        )
    });
    match settled {
        Ok(report) => {
            account(seed, &report, &counts, &given_up, taken);
            if end > 1 {
                let panicked: u64 = counts.panicked.iter().map(|one| one.load(SeqCst)).sum();
                assert_eq!(
                    report.undelivered_total(),
                    panicked,
                    "seed {seed}: {report}"
                );
            }
        }
        Err(error) => {
            account(seed, &error.report, &counts, &given_up, taken);
            let is_due = match error.cause {
                DrainCause::Lost => policy == OnPanic::Retire,
                DrainCause::Ended(by) => {
                    matches!(by, EndedBy::Ceiling { .. } | EndedBy::Processor { .. })
                }
                _ => false,
            };
            assert!(is_due, "seed {seed}: {error}\n{:?}", error.report.metrics);
        }
    }
}

#[test]
fn what_was_accepted_is_delivered_or_counted_whatever_happens() {
    let given = std::env::var("RAST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = match given {
        Some(seed) => seed..seed + 1,
        None => 0..SEEDS,
    };
    for seed in seeds {
        // Shown where it fails; a seed gives the same attack and another schedule.
        println!("RAST_SEED={seed}");
        attack(seed);
    }
}
