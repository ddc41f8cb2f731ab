//! A pipeline with a loop: in, through replicas, back and out.

use std::time::Duration;

use rast_msgpass::{Cx, Egress, Ingress, Next, Process, Receive, graph};

const LONG: Duration = Duration::from_secs(30);

struct Reader {
    left: u64,
}
struct Parser;
struct Worker {
    sum: u64,
}

#[derive(Clone)]
struct Line(u64);
struct Job(u64);
struct Done(u64);

graph! {
    /// A small pipeline.
    pub graph App {
        processors { reader: Reader, parser: Parser, worker: [Worker; 4] }
        edges {
            ingress -> reader: u64 [cap = 16];
            reader -> parser: Line;
            parser -> worker: Job [cap = 8];
            worker -> reader: Done [unbounded];
            reader -> egress: Done [cap = 32];
        }
    }
}

impl Process<App> for Reader {
    fn ping(&mut self, cx: &mut Cx<'_, App, Self>) -> Next {
        if self.left == 0 {
            return Next::Idle;
        }
        self.left -= 1;
        cx.to::<Parser>().send(Line(self.left));
        Next::Again
    }
}
impl Receive<App, Ingress, u64> for Reader {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Parser>().send(Line(number));
    }
}
impl Receive<App, Worker, Done> for Reader {
    fn receive(&mut self, done: Done, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Egress>().send(done);
    }
}
impl Process<App> for Parser {}
impl Receive<App, Reader, Line> for Parser {
    fn receive(&mut self, line: Line, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Worker>().key(line.0).send(Job(line.0));
    }
}
impl Process<App> for Worker {}
impl Receive<App, Parser, Job> for Worker {
    fn receive(&mut self, job: Job, cx: &mut Cx<'_, App, Self>) {
        assert_eq!(rast_msgpass::replica_of(job.0, 4), cx.replica());
        self.sum += job.0;
        cx.to::<Reader>().send(Done(job.0));
    }
}

fn workers() -> impl Iterator<Item = Worker> {
    (0..4).map(|_| Worker { sum: 0 })
}

#[test]
fn messages_go_round_and_out() {
    let app = App::builder(Reader { left: 1000 }, Parser, workers())
        .workers(2)
        .start()
        .unwrap();
    let mut out = app.egress::<Reader, Done>(0);
    let numbers = app.ingress::<Reader, u64>();
    let sender = std::thread::spawn(move || {
        for number in 1000..2000 {
            numbers.send(number).unwrap();
        }
    });
    let mut seen: Vec<u64> = (0..2000).map(|_| out.recv().unwrap().0).collect();
    sender.join().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (0..2000).collect::<Vec<_>>());
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.undelivered_total(), 0, "{report}");
    assert!(report.panics.is_empty());
    assert!(out.recv().is_err());
}
