//! Turns, time, and the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast_msgpass::testing::{TestGraph, for_each_seed};
use rast_msgpass::{
    Cx, DrainCause, Egress, EgressReceiver, EndedBy, Ingress, Next, Process, Receive, Timer,
    TrySendError, graph,
};

graph! {
    graph Line {
        processors { source: Source, pair: [Pair; 2], end: End }
        edges {
            ingress -> source: u64 [cap = 2];
            source -> pair: u64 [cap = 2];
            pair -> end: u64 [cap = 2];
            end -> egress: u64 [cap = 2];
        }
    }
}

#[derive(Default)]
struct Source {
    pings: Vec<u64>,
    /// When to be pinged next.
    next: Option<Duration>,
    is_busy: bool,
}
#[derive(Default)]
struct Pair;
#[derive(Default)]
struct End {
    seen: Vec<u64>,
    stops_at: Option<u64>,
}

impl Process<Line> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Line, Self>) -> Next {
        self.pings.push(cx.now().as_nanos());
        match self.next {
            _ if self.is_busy => Next::Again,
            None => Next::Idle,
            Some(after) => Next::At(cx.now().saturating_add(after.into())),
        }
    }
}
impl Receive<Line, Ingress, u64> for Source {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Line, Self>) {
        cx.to::<Pair>().at(number as usize % 2).send(number);
    }
}
impl Process<Line> for Pair {}
impl Receive<Line, Source, u64> for Pair {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Line, Self>) {
        if number >= 1_000 {
            cx.after(Duration::from_nanos(number), number);
        } else {
            cx.to::<End>().send(number);
        }
    }
}
impl Receive<Line, Timer, u64> for Pair {
    fn receive(&mut self, _: u64, cx: &mut Cx<'_, Line, Self>) {
        let now = cx.now().as_nanos();
        cx.to::<End>().send(now);
    }
}
impl Process<Line> for End {}
impl Receive<Line, Pair, u64> for End {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Line, Self>) {
        self.seen.push(number);
        if self.stops_at == Some(number) {
            cx.stop();
        }
        cx.to::<Egress>().send(number);
    }
}

fn line(seed: u64, workers: usize) -> TestGraph<Line> {
    let builder = Line::builder(Source::default(), [Pair, Pair], End::default());
    builder.workers(workers).test(seed).unwrap()
}

#[test]
fn a_seed_repeats_its_run_and_others_differ() {
    let run = |seed, workers| {
        let mut app = line(seed, workers);
        let order = app.probe::<Pair, End, u64>();
        let out = app.collect::<End, u64>(0);
        app.feed::<Source, u64>(0..50);
        app.run_until_idle();
        assert_eq!(out.len(), 50);
        let turns = app.turns();
        let report = app.drain().unwrap();
        assert_eq!((report.undelivered_total(), report.panics.len()), (0, 0));
        (turns, order.take(), out.take())
    };
    for workers in [1, 2, 4] {
        assert_eq!(run(7, workers), run(7, workers));
        let others = (0..20).filter(|&seed| run(seed, workers).1 != run(7, workers).1);
        assert!(others.count() > 10);
    }
}

#[test]
fn time_passes_only_by_hand() {
    for_each_seed(0..20, |seed| {
        let source = Source {
            next: Some(Duration::from_nanos(400)),
            ..Source::default()
        };
        let mut app = Line::builder(source, [Pair, Pair], End::default())
            .test(seed)
            .unwrap();
        app.send::<Source, u64>(2_000).unwrap();
        app.send::<Source, u64>(1_001).unwrap();
        app.run_until_idle();
        assert_eq!(app.now().as_nanos(), 0);
        assert_eq!(app.next_alarm().unwrap().as_nanos(), 400);
        app.advance(Duration::from_nanos(900));
        assert_eq!(app.processor::<Source>(0).pings, [0]);
        app.run_until_idle();
        // Times that passed are left out.
        assert_eq!(app.processor::<Source>(0).pings, [0, 900]);
        app.run_for(Duration::from_nanos(1_000));
        assert_eq!(app.processor::<Source>(0).pings, [0, 900, 1_300, 1_700]);
        assert_eq!(app.processor::<End>(0).seen, [1_001]);
        assert_eq!(app.now().as_nanos(), 1_900);
        app.run_for(Duration::from_nanos(100));
        assert_eq!(app.processor::<End>(0).seen, [1_001, 2_000]);
    });
}

#[test]
fn a_paused_receiver_fills_its_edges() {
    for_each_seed(0..50, |seed| {
        let mut app = line(seed, 1 + seed as usize % 2);
        app.pause::<End>(0);
        let mut sent = 0;
        let full = loop {
            match app.send::<Source, u64>(2 * sent) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert!(full.is_full());
        // Two in the door, and two in each of the two edges of one pair.
        assert_eq!(sent, 6);
        assert_eq!(app.metrics().edges[3].sent, 0);
        app.resume::<End>(0);
        let out = app.collect::<End, u64>(0);
        app.run_until_idle();
        assert_eq!(out.take(), [0, 2, 4, 6, 8, 10]);
    });
}

#[test]
fn a_drain_that_cannot_end_says_where() {
    let mut app = line(3, 1);
    app.send::<Source, u64>(0).unwrap();
    app.pause::<End>(0);
    let error = app.drain().unwrap_err();
    assert_eq!(error.cause, DrainCause::Deadline);
    assert_eq!(error.blocked.unwrap().edge, &Line::EDGES[2]);
    assert_eq!(error.report.undelivered_total(), 1);
    // A lane that no thread empties.
    let mut app = line(3, 1);
    (0..5).for_each(|number| app.send::<Source, u64>(number).unwrap());
    let error = app.drain().unwrap_err();
    assert_eq!(error.blocked.unwrap().edge, &Line::EDGES[3]);
}

#[test]
fn a_processor_stops_the_graph_between_two_messages() {
    for_each_seed(0..50, |seed| {
        let end = End {
            stops_at: Some(3),
            ..End::default()
        };
        // An alarm that never rings is no reason to wait for it.
        let source = Source {
            next: Some(Duration::from_nanos(5)),
            ..Source::default()
        };
        let mut app = Line::builder(source, [Pair, Pair], end).test(seed).unwrap();
        let _out = app.collect::<End, u64>(0);
        app.feed::<Source, u64>(0..100);
        app.run_until_idle();
        let by = EndedBy::Processor {
            name: "end",
            replica: 0,
        };
        assert_eq!(app.handle().ended_by(), Some(by));
        assert!(!app.step());
        app.run_for(Duration::from_secs(1));
        assert_eq!(app.processor::<End>(0).seen.last(), Some(&3));
        let door = app.handle().ingress::<Source, u64>();
        let report = app.stop();
        assert_eq!(report.ended_by, Some(by));
        assert!(matches!(door.try_send(1), Err(TrySendError::Closed(_))));
        let edges = &report.metrics.edges;
        assert!(edges.iter().all(|edge| edge.depth == 0), "{report}");
    });
}

#[test]
fn a_graph_that_is_never_idle_fails_its_test() {
    let source = Source {
        is_busy: true,
        ..Source::default()
    };
    let mut app = Line::builder(source, [Pair, Pair], End::default())
        .test(0)
        .unwrap();
    assert_eq!(app.steps(10), 10);
    assert!(app.run_until(|app| app.processor::<Source>(0).pings.len() > 20));
    let failed = catch_unwind(AssertUnwindSafe(|| app.run_until_idle()));
    let text = failed.unwrap_err();
    let text = text.downcast_ref::<String>().unwrap();
    assert!(
        text.starts_with("graph `Line` was not idle after 1000000 steps"),
        "{text}"
    );
    assert!(text.contains("source[0] up to "), "{text}");
}

#[test]
fn what_waited_beside_its_sender_is_not_there_after_the_end() {
    graph! {
        graph Spill {
            processors { one: One, other: Other }
            edges {
                ingress -> one: u64;
                one -> other: u64 [cap = 2, unbounded];
            }
        }
    }
    struct One;
    struct Other;
    impl Process<Spill> for One {}
    impl Process<Spill> for Other {}
    impl Receive<Spill, Ingress, u64> for One {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Spill, Self>) {
            cx.to::<Other>().send(number);
        }
    }
    impl Receive<Spill, One, u64> for Other {
        fn receive(&mut self, _: u64, _: &mut Cx<'_, Spill, Self>) {}
    }

    let mut app = Spill::builder(One, Other).test(0).unwrap();
    app.pause::<Other>(0);
    app.feed::<One, u64>(0..10);
    app.run_until_idle();
    assert_eq!(app.metrics().edges[1].depth, 10);
    let report = app.stop();
    let edge = &report.metrics.edges[1];
    assert_eq!((edge.depth, report.undelivered_total()), (0, 10));
}

#[test]
fn a_new_assignment_is_decided_between_two_steps() {
    let mut app = line(5, 2);
    let out = app.collect::<End, u64>(0);
    app.feed::<Source, u64>(0..20);
    app.steps(10);
    app.handle().reshard();
    app.run_until_idle();
    assert_eq!(out.len(), 20);
    assert!(app.metrics().epochs >= 1);
}

mod fan {
    //! Several senders into two lanes.
    use super::*;

    pub(super) struct Sender;
    pub(super) struct Sink;
    pub(super) struct Log;
    pub(super) struct Note;

    graph! {
        pub(super) graph Fan {
            processors { sender: [Sender; 4], sink: Sink }
            edges {
                ingress -> sender: u64 [cap = 8];
                sender -> egress: u64 [cap = 4, lanes = 2];
                sender -> sink: u64 [cap = 4];
                sender -> egress: Log [unbounded, cap = 1];
                sender -> egress: Note [drop_newest, cap = 1];
            }
        }
    }

    impl Process<Fan> for Sender {}
    impl Receive<Fan, Ingress, u64> for Sender {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Fan, Self>) {
            match number {
                0 | 1 => cx.to::<Egress>().lane(number as usize).send(number),
                3 => cx.to::<Egress>().send(Log),
                4 => cx.to::<Egress>().send(Note),
                _ => cx.to::<Sink>().send(number),
            }
        }
    }
    impl Process<Fan> for Sink {}
    impl Receive<Fan, Sender, u64> for Sink {
        fn receive(&mut self, _: u64, _: &mut Cx<'_, Fan, Self>) {}
    }
}

#[test]
fn a_drain_that_cannot_end_names_the_lane_that_is_full() {
    use fan::{Fan, Sender, Sink};
    let senders = || [Sender, Sender, Sender, Sender];
    let mut app = Fan::builder(senders(), Sink).test(1).unwrap();
    let door = app.handle().ingress::<Sender, u64>();
    let send = |sender, number| door.at(sender).try_send(number).unwrap();
    // Each has a message in lane 0, and one of them fills its ring into lane 1.
    (0..4).for_each(|sender| send(sender, 0));
    (0..6).for_each(|_| send(3, 1));
    app.run_until_idle();
    let blocked = app.drain().unwrap_err().blocked.unwrap();
    assert_eq!((blocked.edge, blocked.lane), (&Fan::EDGES[1], Some(1)));
    // No ring into a lane is full.
    let mut app = Fan::builder(senders(), Sink).test(1).unwrap();
    let door = app.handle().ingress::<Sender, u64>();
    let send = |sender, number| door.at(sender).try_send(number).unwrap();
    app.pause::<Sink>(0);
    (0..4).for_each(|sender| {
        [0, 1, 2]
            .into_iter()
            .for_each(|number| send(sender, number))
    });
    app.run_until_idle();
    let blocked = app.drain().unwrap_err().blocked.unwrap();
    assert_eq!((blocked.edge, blocked.lane), (&Fan::EDGES[2], None));
    // A message waits for room in another lane.
    let mut app = Fan::builder(senders(), Sink).test(1).unwrap();
    let door = app.handle().ingress::<Sender, u64>();
    let send = |sender, number| door.at(sender).try_send(number).unwrap();
    (0..4).for_each(|sender| send(sender, 0));
    (0..2).for_each(|_| send(0, 3));
    app.run_until_idle();
    let blocked = app.drain().unwrap_err().blocked.unwrap();
    assert_eq!((blocked.edge, blocked.lane), (&Fan::EDGES[3], Some(0)));
    // The lane that is full drops messages instead.
    let mut app = Fan::builder(senders(), Sink).test(1).unwrap();
    let door = app.handle().ingress::<Sender, u64>();
    let send = |sender, number| door.at(sender).try_send(number).unwrap();
    app.pause::<Sink>(0);
    (0..4).for_each(|sender| [4, 2].into_iter().for_each(|number| send(sender, number)));
    app.run_until_idle();
    let blocked = app.drain().unwrap_err().blocked.unwrap();
    assert_eq!((blocked.edge, blocked.lane), (&Fan::EDGES[2], None));
}

mod pair {
    //! A sender into two lanes.
    use super::*;

    pub(super) struct Sender;

    graph! {
        pub(super) graph Pair {
            processors { sender: Sender }
            edges {
                ingress -> sender: u64 [cap = 2];
                sender -> egress: u64 [cap = 2, burst = 2, lanes = 2];
            }
        }
    }

    impl Process<Pair> for Sender {}
    impl Receive<Pair, Ingress, u64> for Sender {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Pair, Self>) {
            (0..2).for_each(|lane| cx.to::<Egress>().lane(lane).send(number));
        }
    }
}

#[test]
fn a_sender_waits_at_the_lane_that_lacks_room_after_another_one_got_room() {
    use pair::{Pair, Sender};
    let mut app = Pair::builder(Sender).test(1).unwrap();
    let mut first = app.handle().egress::<Sender, u64>(0);
    let mut second = app.handle().egress::<Sender, u64>(1);
    let emptied = Arc::new(Mutex::new(None::<EgressReceiver<u64>>));
    // The turn calls it when it has published its messages, before it waits for room.
    let empties = Arc::clone(&emptied);
    first.set_waker(move || {
        if let Some(first) = &mut *empties.lock().unwrap() {
            while first.try_recv().is_ok() {}
        }
    });
    *emptied.lock().unwrap() = Some(first);
    let door = app.handle().ingress::<Sender, u64>();
    (0..2).for_each(|number| door.try_send(number).unwrap());
    app.run_until_idle();
    // After the first message neither lane had room for a burst.
    assert_eq!(second.try_recv(), Ok(0));
    app.run_until_idle();
    assert_eq!(second.try_recv(), Ok(1));
    // It holds the lane, and the lane holds it.
    drop(emptied.lock().unwrap().take());
}
