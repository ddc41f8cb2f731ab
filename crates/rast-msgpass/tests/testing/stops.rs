//! What is called after the handler that ends the graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rast_msgpass::timers::Instant;
use rast_msgpass::{Cx, Ingress, Next, OnPanic, Process, Receive, Timer, graph};

struct Tick;

/// The handler in which a processor ends the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum In {
    Start,
    Ping,
    Message,
    Timer,
    Flush,
}

/// Ends the graph, by a stop or by a panic, and counts what is called after that.
struct Ender {
    at: In,
    panics: bool,
    next: Next,
    has_ended: bool,
    after: Arc<AtomicU64>,
}

graph! {
    graph Ended {
        processors { ender: Ender [source] }
        edges { ingress -> ender: u64; }
    }
}

impl Ender {
    fn step(&mut self, at: In, cx: &mut Cx<'_, Ended, Self>) {
        if self.has_ended {
            self.after.fetch_add(1, SeqCst);
        }
        if at == self.at {
            self.has_ended = true;
            if self.panics {
                std::panic::resume_unwind(Box::new("by order"));
            }
            cx.stop();
        }
    }
}

impl Process<Ended> for Ender {
    fn on_start(&mut self, cx: &mut Cx<'_, Ended, Self>) {
        cx.after(Duration::from_nanos(1), Tick);
        self.step(In::Start, cx);
    }

    fn ping(&mut self, cx: &mut Cx<'_, Ended, Self>) -> Next {
        self.step(In::Ping, cx);
        self.next
    }

    fn flush(&mut self, cx: &mut Cx<'_, Ended, Self>) {
        self.step(In::Flush, cx);
    }
}
impl Receive<Ended, Ingress, u64> for Ender {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Ended, Self>) {
        self.step(In::Message, cx);
    }
}
impl Receive<Ended, Timer, Tick> for Ender {
    fn receive(&mut self, _: Tick, cx: &mut Cx<'_, Ended, Self>) {
        self.step(In::Timer, cx);
    }
}

#[test]
fn no_handler_and_no_ping_follows_the_one_that_ends_the_graph() {
    let late = Instant::MAX;
    for at in [In::Start, In::Ping, In::Message, In::Timer, In::Flush] {
        for next in [
            Next::Idle,
            Next::Again,
            Next::At(Instant::ORIGIN),
            Next::Woken(late),
            Next::Woken(Instant::ORIGIN),
        ] {
            for (panics, drains) in [(false, false), (true, false), (false, true), (true, true)] {
                let after = Arc::new(AtomicU64::new(0));
                let ender = Ender {
                    at,
                    panics,
                    next,
                    has_ended: false,
                    after: Arc::clone(&after),
                };
                let app = Ended::builder(ender).on_panic(OnPanic::Stop);
                let mut app = app.test(1).unwrap();
                for number in 0..3 {
                    let _ = app.send::<Ender, u64>(number);
                }
                app.steps(4);
                app.advance(Duration::from_nanos(2));
                app.steps(20);
                match drains || at == In::Flush {
                    true => drop(app.drain()),
                    false => drop(app.stop()),
                }
                let called = after.load(SeqCst);
                assert_eq!(called, 0, "{at:?}, {next:?}, panics: {panics}");
            }
        }
    }
}

#[test]
fn a_ping_that_panics_asks_for_no_other() {
    let after = Arc::new(AtomicU64::new(0));
    let ender = Ender {
        at: In::Ping,
        panics: true,
        next: Next::Again,
        has_ended: false,
        after: Arc::clone(&after),
    };
    let mut app = Ended::builder(ender).test(1).unwrap();
    app.run_until_idle();
    app.send::<Ender, u64>(1).unwrap();
    app.run_until_idle();
    // The handler of the message alone.
    assert_eq!(after.load(SeqCst), 1);
    assert_eq!(app.stop().metrics.instances[0].pings, 1);
}
