//! Senders of one edge take turns at its receiver.

use rast_msgpass::{Cx, Egress, Next, Process, Receive, graph};

use crate::LONG;

const BURSTS: u64 = 500;
const BURST: u64 = 128;

/// Replica 0 sends bursts, replica 1 one message in the midst of them.
struct Source {
    pings: u64,
}
struct Sink {
    seen: u64,
    found: u64,
}
struct Number(usize);

graph! {
    graph Shares {
        processors { source: [Source; 2] [source], sink: Sink }
        edges {
            source -> sink: Number [cap = 256, burst = 128];
            sink -> egress: u64;
        }
    }
}

impl Process<Shares> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Shares, Self>) -> Next {
        self.pings += 1;
        let replica = cx.replica();
        match replica {
            0 => (0..BURST).for_each(|_| cx.to::<Sink>().send(Number(0))),
            _ if self.pings == 20 => cx.to::<Sink>().send(Number(1)),
            _ => {}
        }
        let last = if replica == 0 { BURSTS } else { 20 };
        match self.pings < last {
            true => Next::Again,
            false => Next::Idle,
        }
    }
}
impl Process<Shares> for Sink {}
impl Receive<Shares, Source, Number> for Sink {
    fn receive(&mut self, Number(from): Number, cx: &mut Cx<'_, Shares, Self>) {
        self.seen += 1;
        if from == 1 {
            self.found = self.seen;
        }
        if self.seen == BURSTS * BURST + 1 {
            cx.to::<Egress>().send(self.found);
        }
    }
}

#[test]
fn a_busy_sender_leaves_others_their_turn() {
    let sink = Sink { seen: 0, found: 0 };
    let sources = [Source { pings: 0 }, Source { pings: 0 }];
    // One worker: the turns come in the same order in each run.
    let app = Shares::builder(sources, sink).workers(1).start().unwrap();
    let mut out = app.egress::<Sink, u64>(0);
    let found = out.recv_timeout(LONG).unwrap();
    // It was sent after at most 20 bursts, and one turn of the sink handles 64 messages.
    assert!(found <= 30 * BURST, "it came as number {found}");
    app.drain(LONG).unwrap();
}
