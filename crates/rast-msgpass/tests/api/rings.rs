//! An edge between many instances that is declared with `rings`.

use std::time::Duration;

use rast_msgpass::{BuildError, Cx, Egress, Ingress, PAIRS_MAX, Process, Receive, graph};

const LONG: Duration = Duration::from_secs(100);

const STAGES: usize = 17;

/// Messages of each run.
const EACH: u64 = if cfg!(miri) { 8 } else { 300 };

/// A number on its way through the stages.
struct Passed(u64);

struct Front;
struct Stage;

/// Checks that the messages come in order.
struct Last(u64);

graph! {
    graph Declared {
        processors { front: Front, stage: [Stage; STAGES], last: Last }
        edges {
            ingress -> front: u64;
            front -> stage: Passed;
            stage -> stage: Passed [unbounded, rings, cap = 16];
            stage -> last: Passed [unbounded, cap = 16];
            last -> egress: u64;
        }
    }
}

impl Process<Declared> for Front {}
impl Receive<Declared, Ingress, u64> for Front {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Declared, Self>) {
        cx.to::<Stage>().at(0).send(Passed(number));
    }
}
impl Process<Declared> for Stage {}
impl<From> Receive<Declared, From, Passed> for Stage {
    fn receive(&mut self, passed: Passed, cx: &mut Cx<'_, Declared, Self>) {
        match cx.replica() + 1 {
            STAGES => cx.to::<Last>().send(passed),
            next => cx.to::<Self>().at(next).send(passed),
        }
    }
}
impl Process<Declared> for Last {}
impl Receive<Declared, Stage, Passed> for Last {
    fn receive(&mut self, Passed(number): Passed, cx: &mut Cx<'_, Declared, Self>) {
        assert_eq!(number, self.0);
        self.0 += 1;
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn declared_rings_keep_the_order_while_instances_move() {
    let edges = Declared::EDGES;
    assert!(edges[2].by_pair && STAGES * STAGES > PAIRS_MAX);
    for workers in [1, 2, 3] {
        let app = Declared::builder(Front, (0..STAGES).map(|_| Stage), Last(0))
            .workers(workers)
            .period(Duration::from_millis(1))
            .start()
            .unwrap();
        let numbers = app.ingress::<Front, u64>();
        let mut out = app.egress::<Last, u64>(0);
        for number in 0..EACH {
            numbers.send(number).unwrap();
        }
        for number in 0..EACH {
            assert_eq!(out.recv_timeout(LONG), Ok(number));
        }
        let report = app.drain(LONG).unwrap();
        assert!(report.panics.is_empty(), "{report}");
        assert_eq!(report.take_states::<Declared, Last>()[0].0, EACH);
    }
}

/// The most inputs of an instance.
const INPUTS: usize = 1 << 30;

struct Part;
struct Sum;

graph! {
    graph TooWide {
        processors { part: [Part; _] [source], sum: Sum }
        edges {
            part -> sum: u8 [rings];
            ingress -> sum: u8;
        }
    }
}

impl Process<TooWide> for Part {}
impl Process<TooWide> for Sum {}
impl<From> Receive<TooWide, From, u8> for Sum {
    fn receive(&mut self, _: u8, _: &mut Cx<'_, TooWide, Self>) {}
}

#[test]
fn more_inputs_than_a_note_can_name_are_refused() {
    // A part has no size, so a vector of them takes no memory.
    let builder = |parts: Vec<Part>| TooWide::builder(parts, Sum).workers(1);
    let fits = builder(Vec::from([const { Part }; INPUTS - 1]));
    fits.check().expect("as many as may be");
    let error = builder(Vec::from([const { Part }; INPUTS])).start();
    let error = error.expect_err("one input too many");
    assert!(matches!(error, BuildError::Inputs { inputs, .. } if inputs == INPUTS + 1));
    assert_eq!(
        error.to_string(),
        "processor `sum` has 1073741825 inputs and may have 1073741824: give fewer replicas to its \
         senders, or declare an edge to it without `rings`"
    );
}
