//! A running graph allocates nothing for a message: counted by the program's own allocator.
#![cfg(not(rast_loom))]

use std::thread;
use std::time::{Duration, Instant};

use rast_msgpass::alloc::RastAlloc;
use rast_msgpass::primitive::WaitStrategy;
use rast_msgpass::{Cx, Egress, Next, Process, Receive, graph};

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// Messages of each kind before the count begins, and while it runs.
const WARM: u64 = if cfg!(miri) { 50 } else { 20_000 };
const COUNTED: u64 = if cfg!(miri) { 50 } else { 100_000 };

graph! {
    graph App {
        processors { source: Source [source], relay: [Relay; 17], gather: [Gather; 16], sink: Sink }
        edges {
            source -> relay: Job [cap = 64, burst = 4];
            // More than 256 pairs, so each receiver has an inbox.
            relay -> gather: Part [cap = 64];
            relay -> sink: Done [cap = 64];
            source -> sink: Ask [cap = 16];
            sink -> source: Answer [reply = Ask];
            sink -> egress: Seen [cap = 64];
        }
    }
}

struct Source(u64);
struct Relay;
struct Gather;
struct Sink {
    seen: u64,
    before: u64,
}

struct Job;
struct Part;
struct Done;
struct Ask;
struct Answer;

/// How many messages have come through, and the calls of the allocator since the count began.
struct Seen(u64, u64);

fn calls() -> u64 {
    let stats = RastAlloc::stats();
    stats.allocations + stats.reallocations + stats.frees
}

impl Process<App> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, App, Self>) -> Next {
        for _ in 0..2 {
            self.0 += 1;
            cx.to::<Relay>().key(self.0).send(Job);
            cx.to::<Relay>().any().send(Job);
        }
        cx.to::<Sink>().send(Ask);
        Next::Again
    }
}
impl Receive<App, Sink, Answer> for Source {
    fn receive(&mut self, _: Answer, _: &mut Cx<'_, App, Self>) {}
}
impl Process<App> for Relay {}
impl Receive<App, Source, Job> for Relay {
    fn receive(&mut self, _: Job, cx: &mut Cx<'_, App, Self>) {
        let to = cx.replica() % 16;
        cx.to::<Gather>().at(to).send(Part);
        cx.to::<Sink>().send(Done);
    }
}
impl Process<App> for Gather {}
impl Receive<App, Relay, Part> for Gather {
    fn receive(&mut self, _: Part, _: &mut Cx<'_, App, Self>) {}
}
impl Process<App> for Sink {}
impl Receive<App, Source, Ask> for Sink {
    fn receive(&mut self, _: Ask, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Source>().send(Answer);
    }
}
impl Receive<App, Relay, Done> for Sink {
    fn receive(&mut self, _: Done, cx: &mut Cx<'_, App, Self>) {
        self.seen += 1;
        if self.seen == WARM {
            self.before = calls();
        }
        if self.seen.is_multiple_of(16) {
            let since = if self.seen < WARM {
                0
            } else {
                calls() - self.before
            };
            cx.to::<Egress>().send(Seen(self.seen, since));
        }
    }
}

// One test, so that no other thread allocates meanwhile. The workers do not sleep, because a
// thread's first sleep allocates, and nothing is resharded, because that does.
#[test]
fn a_message_allocates_nothing() {
    let sink = Sink { seen: 0, before: 0 };
    let (relays, gathers) = ([const { Relay }; 17], [const { Gather }; 16]);
    let app = App::builder(Source(0), relays, gathers, sink)
        .workers(2)
        .wait(WaitStrategy::Spin)
        .period(Duration::ZERO)
        .start()
        .unwrap();
    let mut figures = app.egress::<Sink, Seen>(0);
    let limit = Instant::now() + Duration::from_secs(120);
    loop {
        match figures.try_recv() {
            Ok(Seen(seen, since)) => {
                assert_eq!(since, 0, "calls of the allocator, {seen} messages in");
                if seen >= WARM + COUNTED {
                    break;
                }
            }
            Err(_) => {
                assert!(Instant::now() < limit, "the graph does not go on");
                thread::yield_now();
            }
        }
    }
    assert!(app.stop().panics.is_empty());
}
