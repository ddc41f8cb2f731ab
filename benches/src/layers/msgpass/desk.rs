//! Requests that the server answers at once, or when the next request comes.

use rast::msgpass::{Builder, Cx, Next, Process, Receive, ReplyTo, graph};

use super::span::{Span, measured};
use super::{LAYER, on_one_worker};
use crate::harness::Scenario;
use crate::workers::Sample;

/// Requests under way, at most.
const FLIGHT: u64 = 64;

graph! {
    /// A client that asks, and a server.
    pub(super) graph Desk {
        processors { client: Client [source], server: Server }
        edges {
            client -> server: Ask [burst = FLIGHT as usize];
            server -> client: Answer [reply = Ask];
        }
    }
}

struct Client {
    /// Requests under way at once.
    flight: u64,
    to_send: u64,
    to_come: u64,
    span: Span,
}
struct Server {
    keeps: bool,
    kept: Option<ReplyTo<Desk, Client, Self, Ask>>,
}
struct Ask(u64);
struct Answer(u64);

impl Process<Desk> for Client {
    fn ping(&mut self, cx: &mut Cx<'_, Desk, Self>) -> Next {
        self.span.begin();
        let first = self.flight.min(self.to_send);
        (0..first).for_each(|number| cx.to::<Server>().send(Ask(number)));
        self.to_send -= first;
        Next::Idle
    }
}
impl Receive<Desk, Server, Answer> for Client {
    fn receive(&mut self, Answer(number): Answer, cx: &mut Cx<'_, Desk, Self>) {
        self.to_come -= 1;
        if self.to_come == 0 {
            self.span.end();
        }
        if self.to_send > 0 {
            self.to_send -= 1;
            cx.to::<Server>().send(Ask(number));
        }
    }
}
impl Process<Desk> for Server {}
impl Receive<Desk, Client, Ask> for Server {
    fn receive(&mut self, Ask(number): Ask, cx: &mut Cx<'_, Desk, Self>) {
        if !self.keeps {
            cx.to::<Client>().send(Answer(number));
        } else if let Some(before) = self.kept.replace(cx.reply_to()) {
            before.send(Answer(number), cx);
        }
    }
}

/// `keeps`: the server keeps the token of each request and answers it when the next request comes.
pub(super) fn run(
    ops: u64,
    flight: u64,
    keeps: bool,
    setting: impl FnOnce(Builder<Desk>) -> Builder<Desk>,
) -> Sample {
    measured(ops, |span| {
        let client = Client {
            flight,
            to_send: ops,
            // The server keeps the token of the last request.
            to_come: ops - u64::from(keeps),
            span,
        };
        let server = Server { keeps, kept: None };
        setting(Desk::builder(client, server))
            .start()
            .expect("a valid graph")
    })
}

/// The scenario.
pub(super) fn scenario() -> Scenario {
    let by = |keeps| move |ops| run(ops, FLIGHT, keeps, on_one_worker);
    Scenario::new(LAYER, "request and answer on one worker", 2_000_000, 200)
        .ours("answered at once", by(false))
        .ours("answered by a kept token", by(true))
}
