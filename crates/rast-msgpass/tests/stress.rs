//! Nothing is lost, doubled or reordered while instances move at every epoch
//! and ingress, edges of both kinds, timers, requests and egress are busy.
//!
//! One second in a plain run, a minute in `cargo xtask verify`, ten in
//! `verify --full`: `RAST_STRESS_SECONDS` says how long. The seed is printed;
//! `RAST_STRESS_SEED` repeats it.
#![cfg(not(rast_loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rast_msgpass::sharder::{Assignment, Balancer, Decision, LoadView, WorkerId};
use rast_msgpass::timers::Nanos;
use rast_msgpass::{Cx, Egress, Ingress, Next, Process, Receive, graph};

const LONG: Duration = Duration::from_secs(100);

/// Instances of each stage: few, so that the edge has rings; many, so that it has inboxes.
const FEW: usize = 4;
const MANY: usize = 40;
/// Threads that send, and lanes.
const CLIENTS: usize = 2;

/// A number per sender and receiver, which the receiver expects to rise by one.
#[derive(Clone, Debug)]
struct Parcel {
    /// Of the thread that sent it, or `TIMER`.
    client: usize,
    from: usize,
    number: u64,
    mix: u64,
}

const TIMER: usize = usize::MAX;

#[derive(Debug)]
struct Order {
    sent: Vec<u64>,
    next: Vec<u64>,
}

impl Order {
    fn new(senders: usize, receivers: usize) -> Self {
        Self {
            sent: vec![0; receivers],
            next: vec![0; senders],
        }
    }

    /// Numbers a parcel on its way to a receiver.
    fn send(&mut self, mut parcel: Parcel, from: usize, to: usize) -> Parcel {
        parcel.from = from;
        parcel.number = self.sent[to];
        self.sent[to] += 1;
        parcel
    }

    /// Checks a parcel that came from a sender.
    fn take(&mut self, parcel: &Parcel, sender: usize) {
        assert_eq!(parcel.from, sender, "the sender is named");
        assert_eq!(parcel.number, self.next[sender], "in order, and each once");
        self.next[sender] += 1;
    }
}

fn mix(state: u64) -> u64 {
    let state = (state ^ state >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state ^ state >> 29
}

graph! {
    graph Mill {
        processors {
            front: [Front; FEW],
            middle: [Middle; MANY],
            late: [Late; MANY],
            back: [Back; FEW],
        }
        edges {
            ingress -> front: Parcel [cap = 16];
            front -> middle: Parcel [cap = 4, burst = 2];
            middle -> late: Parcel [cap = 48];
            middle -> late: Ask [cap = 48];
            late -> middle: Answer [reply = Ask, cap = 4];
            late -> back: Parcel [cap = 2];
            back -> front: Receipt [unbounded, cap = 1];
            back -> egress: Parcel [cap = 4, lanes = CLIENTS];
        }
    }
}

struct Receipt(Parcel);
struct Ask(u64);
struct Answer(u64);

struct Front {
    doors: Vec<u64>,
    out: Order,
    back: Order,
    timers: Arc<AtomicU64>,
    next: Instant,
    beats: u64,
}
impl Process<Mill> for Front {
    fn ping(&mut self, cx: &mut Cx<'_, Mill, Self>) -> Next {
        // A parcel of its own at each beat of a timer.
        if self.next <= Instant::now() {
            self.next = Instant::now() + Duration::from_micros(500);
            self.beats += 1;
            self.timers.fetch_add(1, Ordering::Relaxed);
            let parcel = Parcel {
                client: TIMER,
                from: 0,
                number: 0,
                mix: mix(self.beats),
            };
            self.pass(parcel, cx);
        }
        Next::At(cx.now().saturating_add(Nanos::from_micros(500)))
    }
}
impl Front {
    fn pass(&mut self, parcel: Parcel, cx: &mut Cx<'_, Mill, Self>) {
        let to = parcel.mix as usize % MANY;
        let parcel = self.out.send(parcel, cx.replica(), to);
        cx.to::<Middle>().at(to).send(parcel);
    }
}
impl Receive<Mill, Ingress, Parcel> for Front {
    fn receive(&mut self, parcel: Parcel, cx: &mut Cx<'_, Mill, Self>) {
        assert_eq!(parcel.number, self.doors[parcel.client], "by the door");
        self.doors[parcel.client] += 1;
        self.pass(parcel, cx);
    }
}
impl Receive<Mill, Back, Receipt> for Front {
    fn receive(&mut self, receipt: Receipt, cx: &mut Cx<'_, Mill, Self>) {
        self.back.take(&receipt.0, cx.sender());
    }
}

struct Middle {
    order: Order,
    front: Order,
    asked: u64,
    answered: u64,
}
impl Process<Mill> for Middle {}
impl Receive<Mill, Front, Parcel> for Middle {
    fn receive(&mut self, mut parcel: Parcel, cx: &mut Cx<'_, Mill, Self>) {
        self.front.take(&parcel, cx.sender());
        parcel.mix = mix(parcel.mix);
        let to = parcel.mix as usize % MANY;
        if parcel.mix.is_multiple_of(3) {
            self.asked += 1;
            cx.to::<Late>().at(to).send(Ask(parcel.mix));
        }
        let parcel = self.order.send(parcel, cx.replica(), to);
        cx.to::<Late>().at(to).send(parcel);
    }
}
impl Receive<Mill, Late, Answer> for Middle {
    fn receive(&mut self, answer: Answer, cx: &mut Cx<'_, Mill, Self>) {
        assert_eq!(answer.0 as usize % MANY, cx.sender());
        self.answered += 1;
        assert!(self.answered <= self.asked);
    }
}

struct Late {
    order: Order,
    out: Order,
    sink: u64,
}
impl Process<Mill> for Late {}
impl Receive<Mill, Middle, Parcel> for Late {
    fn receive(&mut self, mut parcel: Parcel, cx: &mut Cx<'_, Mill, Self>) {
        self.order.take(&parcel, cx.sender());
        parcel.mix = mix(parcel.mix);
        let to = parcel.mix as usize % FEW;
        let parcel = self.out.send(parcel, cx.replica(), to);
        cx.to::<Back>().at(to).send(parcel);
    }
}
impl Receive<Mill, Middle, Ask> for Late {
    fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Mill, Self>) {
        self.sink ^= ask.0;
        let client = cx.sender();
        match ask.0 % 5 {
            0 => {}
            _ => cx.to::<Middle>().at(client).send(Answer(ask.0)),
        }
    }
}

struct Back {
    order: Order,
    out: Order,
}
impl Process<Mill> for Back {}
impl Receive<Mill, Late, Parcel> for Back {
    fn receive(&mut self, parcel: Parcel, cx: &mut Cx<'_, Mill, Self>) {
        self.order.take(&parcel, cx.sender());
        let to = parcel.mix as usize / FEW % FEW;
        let receipt = self.out.send(parcel.clone(), cx.replica(), to);
        cx.to::<Front>().at(to).send(Receipt(receipt));
        let lane = match parcel.client {
            TIMER => 0,
            client => client,
        };
        cx.to::<Egress>().lane(lane).send(parcel);
    }
}

/// Moves about a third of the instances at each decision.
struct Shuffle(u64);

impl Balancer for Shuffle {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, view: &LoadView, current: &Assignment, _: usize) -> Decision {
        let mut owners = current.owners().to_vec();
        for owner in &mut owners {
            self.0 = mix(self.0.wrapping_add(1));
            if self.0.is_multiple_of(3) {
                *owner = WorkerId::from_index((self.0 >> 20) as usize % view.workers());
            }
        }
        match Assignment::new(owners, view.workers()) {
            Ok(next) => Decision::Adopt(next),
            Err(_) => Decision::Keep,
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn nothing_is_lost_while_everything_moves() {
    let seconds = setting("RAST_STRESS_SECONDS").unwrap_or(1);
    let seed = setting("RAST_STRESS_SEED").unwrap_or_else(|| {
        let since = std::time::UNIX_EPOCH.elapsed().expect("the clock is set");
        since.as_nanos() as u64
    });
    println!("RAST_STRESS_SEED={seed}, {seconds} s");
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < until {
        round(mix(seed.wrapping_add(rounds)), until);
        rounds += 1;
    }
}

/// Runs one graph for a second or two, with 2 to 4 workers.
fn round(seed: u64, until: Instant) {
    let timers = Arc::new(AtomicU64::new(0));
    let fronts = (0..FEW).map(|_| Front {
        doors: vec![0; CLIENTS],
        out: Order::new(0, MANY),
        back: Order::new(FEW, 0),
        timers: Arc::clone(&timers),
        next: Instant::now(),
        beats: 0,
    });
    let middles = (0..MANY).map(|_| Middle {
        order: Order::new(0, MANY),
        front: Order::new(FEW, 0),
        asked: 0,
        answered: 0,
    });
    let lates = (0..MANY).map(|_| Late {
        order: Order::new(MANY, 0),
        out: Order::new(0, FEW),
        sink: 0,
    });
    let backs = (0..FEW).map(|_| Back {
        order: Order::new(MANY, 0),
        out: Order::new(0, FEW),
    });
    let app = Mill::builder(fronts, middles, lates, backs)
        .workers(2 + seed as usize % 3)
        .balancer(Shuffle(seed))
        .period(Duration::from_micros(100))
        .start()
        .expect("a valid graph");
    assert!(Mill::EDGES[1].by_pair && !Mill::EDGES[2].by_pair && !Mill::EDGES[4].by_pair);
    let stop = AtomicBool::new(false);
    let until = until.min(Instant::now() + Duration::from_secs(2));
    let (sent, taken, report) = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let into = app.ingress::<Front, Parcel>();
                let stop = &stop;
                scope.spawn(move || {
                    let mut state = mix(seed ^ client as u64);
                    let mut numbers = [0; FEW];
                    let mut sent = 0;
                    while !stop.load(Ordering::Relaxed) {
                        state = mix(state.wrapping_add(1));
                        let to = state as usize % FEW;
                        let parcel = Parcel {
                            client,
                            from: 0,
                            number: numbers[to],
                            mix: state,
                        };
                        numbers[to] += 1;
                        sent += 1;
                        into.at(to).send(parcel).expect("the graph is open");
                    }
                    sent
                })
            })
            .collect();
        let takers: Vec<_> = (0..CLIENTS)
            .map(|lane| {
                let mut out = app.egress::<Back, Parcel>(lane);
                scope.spawn(move || {
                    let mut taken = 0_u64;
                    while out.recv().is_ok() {
                        taken += 1;
                    }
                    taken
                })
            })
            .collect();
        while Instant::now() < until && app.report().panics.is_empty() {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        let sent: u64 = senders
            .into_iter()
            .map(|one| one.join().expect("it sent"))
            .sum();
        let report = app.drain(LONG).expect("it comes to rest");
        let taken: u64 = takers
            .into_iter()
            .map(|one| one.join().expect("it took"))
            .sum();
        (sent, taken, report)
    });
    assert!(report.panics.is_empty(), "{report}");
    assert_eq!(report.undelivered_total(), 0, "{report}");
    assert_eq!(sent + timers.load(Ordering::Relaxed), taken, "{report}");
    assert!(
        report.rejections.is_empty() && report.faults.is_empty(),
        "{report}"
    );
    println!(
        "{taken} parcels, {} epochs, {} moves",
        report.metrics.epochs, report.metrics.moves
    );
}
