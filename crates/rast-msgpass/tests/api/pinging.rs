//! Pings that ask for the next one at once, and what ends such a row.

use rast_msgpass::timers::Nanos;
use rast_msgpass::{Cx, Egress, Next, OnPanic, Process, Receive, Timer, graph};

/// The message of a timer that was armed by a ping.
struct Tick;

/// What comes from the timer.
const TICK: u64 = u64::MAX;

/// Pings in a row before each interruption.
const ROW: u64 = 100;

graph! {
    graph Rows {
        processors { source: Source [source], sink: Sink }
        edges {
            source -> sink: u64 [cap = 4];
            sink -> egress: u64;
        }
    }
}

/// Sends a number in each ping. After a row it arms a timer, after two it goes idle until an
/// instant, and after three it arms a timer and panics.
#[derive(Default)]
struct Source {
    next: u64,
}
struct Sink;

impl Process<Rows> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Rows, Self>) -> Next {
        let number = self.next;
        self.next += 1;
        match number {
            ROW => {
                cx.after(Nanos::ZERO, Tick);
            }
            n if n == 3 * ROW => {
                cx.after(Nanos::ZERO, Tick);
                panic!("after three rows");
            }
            _ => {}
        }
        cx.to::<Sink>().send(number);
        match number == 2 * ROW {
            true => Next::At(cx.now()),
            false => Next::Again,
        }
    }
}
impl Receive<Rows, Timer, Tick> for Source {
    fn receive(&mut self, _: Tick, cx: &mut Cx<'_, Rows, Self>) {
        cx.to::<Sink>().send(TICK);
    }
}
impl Process<Rows> for Sink {}
impl Receive<Rows, Source, u64> for Sink {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Rows, Self>) {
        cx.to::<Egress>().send(number);
    }
}

/// The edge is short, so the row is also interrupted by a lack of room.
#[test]
fn a_row_of_pings_ends_when_a_ping_leaves_something_else_to_do() {
    for workers in [1, 2] {
        let app = Rows::builder(Source::default(), Sink)
            .workers(workers)
            .on_panic(OnPanic::Continue)
            .start()
            .expect("a valid graph");
        let mut out = app.egress::<Sink, u64>(0);
        let (mut next, mut ticks) = (0, 0);
        while next < 3 * ROW || ticks < 2 {
            match out.recv().expect("the graph runs") {
                TICK => {
                    ticks += 1;
                    assert!(next > ROW, "the first timer is armed after a row");
                }
                number => {
                    assert_eq!(number, next);
                    next += 1;
                }
            }
        }
        assert_eq!(next, 3 * ROW);
        assert_eq!(app.stop().panics.len(), 1);
    }
}
