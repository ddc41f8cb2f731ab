//! Requests and answers: a cycle that credit keeps going.

use std::collections::VecDeque;

use rast_msgpass::{Cx, Egress, Ingress, Next, Process, Receive, ReplyTo, graph};

use crate::LONG;

struct Ask(u64);
struct Answer(u64);

/// Asks whenever it may, until it has asked all.
struct Client {
    next: u64,
    end: u64,
    answers: u64,
}
/// Answers later, two at a time, and waives each seventh.
#[derive(Default)]
struct Server {
    held: VecDeque<(ReplyTo<Calls, Client, Self, Ask>, u64)>,
}

graph! {
    graph Calls {
        processors { client: [Client; 2], server: Server }
        edges {
            client -> server: Ask [cap = 8, burst = 2];
            server -> client: Answer [cap = 4, reply = Ask];
            client -> egress: u64 [burst = 1];
            ingress -> server: Answer;
        }
    }
}

impl Client {
    fn ask(&mut self, cx: &mut Cx<'_, Calls, Self>) {
        if self.next < self.end {
            cx.to::<Server>().send(Ask(self.next));
            self.next += 1;
        }
    }
}

impl Process<Calls> for Client {
    fn ping(&mut self, cx: &mut Cx<'_, Calls, Self>) -> Next {
        self.ask(cx);
        self.ask(cx);
        if self.next < self.end {
            Next::Again
        } else {
            Next::Idle
        }
    }
}
impl Receive<Calls, Server, Answer> for Client {
    fn receive(&mut self, answer: Answer, cx: &mut Cx<'_, Calls, Self>) {
        self.answers += 1;
        self.ask(cx);
        cx.to::<Egress>().send(answer.0);
    }
}
impl Process<Calls> for Server {}
impl Receive<Calls, Client, Ask> for Server {
    fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Calls, Self>) {
        let sender = cx.sender();
        if ask.0.is_multiple_of(7) {
            return;
        }
        assert_eq!(cx.to::<Client>().at(sender).room::<Answer>(), 1);
        assert_eq!(cx.to::<Client>().at(1 - sender).room::<Answer>(), 0);
        self.held.push_back((cx.reply_to(), ask.0));
        assert_eq!(cx.to::<Client>().at(sender).room::<Answer>(), 0);
        // Answers lag behind, but never so far that a client runs dry.
        while self.held.len() > 1 {
            let (reply, number) = self.held.pop_front().unwrap();
            reply.send(Answer(number * 10), cx);
        }
    }
}
impl Receive<Calls, Ingress, Answer> for Server {
    fn receive(&mut self, answer: Answer, cx: &mut Cx<'_, Calls, Self>) {
        // An answer that no thread asked for, while nothing is owed.
        if self.held.is_empty() {
            cx.to::<Client>().at(1).send(answer);
        }
        while let Some((reply, number)) = self.held.pop_front() {
            reply.send(Answer(number * 10), cx);
        }
    }
}

#[test]
fn requests_within_credit_are_all_answered() {
    for workers in [1, 2, 3] {
        let client = |_| Client {
            next: 0,
            end: 701,
            answers: 0,
        };
        let app = Calls::builder((0..2).map(client), Server::default())
            .workers(workers)
            .start()
            .unwrap();
        let mut out = app.egress::<Client, u64>(0);
        let flush = app.ingress::<Server, Answer>();
        let mut seen = Vec::new();
        // 701 questions, of which 101 are waived, of two clients.
        while seen.len() < 1200 {
            match out.try_recv() {
                Ok(number) => seen.push(number),
                Err(_) if app.metrics().edges[0].received == 1402 => {
                    flush.send(Answer(0)).unwrap();
                    if let Ok(number) = out.recv_timeout(LONG) {
                        seen.push(number);
                    }
                }
                Err(_) => std::thread::yield_now(),
            }
        }
        seen.sort_unstable();
        let asked = (0..701_u64).filter(|number| number % 7 != 0);
        let expected: Vec<_> = asked.flat_map(|number| [number * 10; 2]).collect();
        assert_eq!(seen, expected);
        let report = app.drain(LONG).unwrap();
        assert_eq!(report.metrics.instances[0].sent, 701 + 600);
        assert!(
            report
                .panics
                .iter()
                .all(|panic| panic.message.contains("without a request"))
        );
    }
}

#[test]
fn an_answer_without_a_request_panics_by_name() {
    let client = |_| Client {
        next: 0,
        end: 0,
        answers: 0,
    };
    let app = Calls::builder((0..2).map(client), Server::default())
        .workers(1)
        .start()
        .unwrap();
    app.ingress::<Server, Answer>().send(Answer(1)).unwrap();
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.panics.len(), 1);
    let text = report.panics[0].to_string();
    for part in ["`Calls`", "Server -> Client: Answer", "without a request"] {
        assert!(text.contains(part), "{text}");
    }
}

mod fan {
    //! Answers whose handling asks more than was answered outgrow any bound.
    use super::*;

    pub(super) struct More;
    pub(super) struct Here;

    graph! {
        pub(super) graph Fan {
            processors { more: More, here: Here }
            edges {
                ingress -> more: u64;
                more -> here: Ask [cap = 64, burst = 3];
                here -> more: Answer [cap = 4, reply = Ask];
            }
        }
    }

    impl Process<Fan> for More {}
    impl Receive<Fan, Ingress, u64> for More {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Fan, Self>) {
            cx.to::<Here>().send(Ask(number));
        }
    }
    impl Receive<Fan, Here, Answer> for More {
        fn receive(&mut self, answer: Answer, cx: &mut Cx<'_, Fan, Self>) {
            for _ in 0..3 {
                cx.to::<Here>().send(Ask(answer.0));
            }
        }
    }
    impl Process<Fan> for Here {}
    impl Receive<Fan, More, Ask> for Here {
        fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Fan, Self>) {
            cx.to::<More>().send(Answer(ask.0));
        }
    }
}

#[test]
fn answers_that_beget_more_requests_panic_instead_of_standing_still() {
    use fan::{Fan, Here, More};
    let app = Fan::builder(More, Here).workers(2).start().unwrap();
    app.ingress::<More, u64>().send(1).unwrap();
    while app.report().panics.is_empty() {
        std::thread::yield_now();
    }
    let report = app.stop();
    assert!(report.panics[0].message.contains("outgrows any bound"));
    assert!(report.faults.is_empty(), "{report}");
}
