//! Processors that block, on workers of their own.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rast_msgpass::sharder::{Assignment, Balancer, Decision, LoadView, ShardId, WorkerId};
use rast_msgpass::{BuildError, Builder, Cx, Egress, Ingress, Process, Receive, graph};

use crate::LONG;
use crate::rotate::Rotate;

/// Blocks until as many messages as it is told were handled elsewhere.
struct Disk {
    began: Sender<(usize, thread::ThreadId)>,
    handled: Arc<Mutex<Receiver<()>>>,
}
/// Says when it has handled a message.
struct Count(Sender<()>);
struct Relay;

struct Wait(u64);
struct Done(u64);

graph! {
    graph Files {
        processors { disk: [Disk; 3], relay: Relay, count: [Count; 2] }
        edges {
            ingress -> disk: Wait [cap = 4];
            ingress -> relay: u64 [cap = 4];
            relay -> count: u64 [cap = 4];
            disk -> egress: Done [cap = 4];
        }
    }
}

impl Process<Files> for Disk {}
impl Receive<Files, Ingress, Wait> for Disk {
    fn receive(&mut self, Wait(count): Wait, cx: &mut Cx<'_, Files, Self>) {
        let own = (cx.replica(), thread::current().id());
        self.began.send(own).unwrap();
        let handled = self.handled.lock().unwrap();
        for _ in 0..count {
            // It fails, and does not hang, where it stops the others.
            handled.recv_timeout(LONG).expect("the others go on");
        }
        drop(handled);
        cx.to::<Egress>().send(Done(count));
    }
}
impl Process<Files> for Relay {}
impl Receive<Files, Ingress, u64> for Relay {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Files, Self>) {
        cx.to::<Count>().key(number).send(number);
    }
}
impl Process<Files> for Count {}
impl Receive<Files, Relay, u64> for Count {
    fn receive(&mut self, _: u64, _: &mut Cx<'_, Files, Self>) {
        self.0.send(()).unwrap();
    }
}

fn files() -> (Builder<Files>, Receiver<(usize, thread::ThreadId)>) {
    let (began, begins) = channel();
    let (done, handled) = channel();
    let handled = Arc::new(Mutex::new(handled));
    let disk = |_| Disk {
        began: began.clone(),
        handled: Arc::clone(&handled),
    };
    let counts = [Count(done.clone()), Count(done)];
    let builder = Files::builder((0..3).map(disk), Relay, counts);
    (builder, begins)
}

#[test]
fn a_processor_that_blocks_keeps_no_other_waiting() {
    const MESSAGES: u64 = 500;
    for workers in [1, 2] {
        let (builder, begins) = files();
        let builder = builder.workers(workers).blocking::<Disk>(2);
        let app = builder.period(Duration::from_millis(1)).start().unwrap();
        let mut done = app.egress::<Disk, Done>(0);
        let (waits, numbers) = (app.ingress::<Disk, Wait>(), app.ingress::<Relay, u64>());
        for _ in 0..3 {
            // All threads for blocking are in use, and one replica waits for one of them.
            (0..3).for_each(|disk| waits.at(disk).send(Wait(MESSAGES)).unwrap());
            for _ in 0..2 {
                begins.recv_timeout(LONG).expect("it begins");
            }
            (0..3 * MESSAGES).for_each(|number| numbers.send(number).unwrap());
            (0..3).for_each(|_| assert_eq!(done.recv_timeout(LONG).unwrap().0, MESSAGES));
            begins.recv_timeout(LONG).expect("it begins");
        }
        let report = app.drain(LONG).unwrap();
        assert_eq!(report.metrics.workers.len(), workers + 2);
        assert_eq!(report.received_total(), 9 + 2 * 9 * MESSAGES);
    }
}

#[test]
fn no_resharding_waits_for_a_handler_that_blocks() {
    const EPOCHS: u64 = 50;
    let (builder, begins) = files();
    let builder = builder.workers(2).blocking::<Disk>(1).balancer(Rotate);
    let app = builder.period(Duration::ZERO).start().unwrap();
    let mut done = app.egress::<Disk, Done>(0);
    app.ingress::<Disk, Wait>().at(0).send(Wait(1)).unwrap();
    begins.recv_timeout(LONG).expect("it begins");
    // The handler blocks until `count` has handled a message.
    while app.metrics().epochs < EPOCHS {
        app.reshard();
        thread::yield_now();
    }
    app.ingress::<Relay, u64>().send(0).unwrap();
    assert_eq!(done.recv_timeout(LONG).unwrap().0, 1);
    let report = app.drain(LONG).unwrap();
    assert!(report.metrics.moves >= EPOCHS, "{report}");
    // The handler did not give up.
    assert!(report.panics.is_empty(), "{report}");
}

#[test]
fn its_instances_and_its_workers_are_apart_from_all_others() {
    const EPOCHS: u64 = 50;
    let (builder, begins) = files();
    let builder = builder.workers(2).blocking::<Disk>(2).balancer(Rotate);
    let app = builder.start().unwrap();
    let mut done = app.egress::<Disk, Done>(0);
    let (waits, numbers) = (app.ingress::<Disk, Wait>(), app.ingress::<Relay, u64>());
    let own = |replica: usize| WorkerId::from_index(2 + replica % 2);
    let mut threads = [None; 3];
    while app.metrics().epochs < EPOCHS {
        app.reshard();
        let assignment = app.viewer().assignment().assignment;
        for (shard, &owner) in assignment.owners().iter().enumerate() {
            match shard {
                0..3 => assert_eq!(owner, own(shard)),
                _ => assert!(
                    owner.index() < 2,
                    "{} at {owner}",
                    ShardId::from_index(shard)
                ),
            }
        }
        for disk in 0..3 {
            waits.at(disk).send(Wait(1)).unwrap();
            numbers.send(disk as u64).unwrap();
            assert_eq!(done.recv_timeout(LONG).unwrap().0, 1);
            let (replica, thread) = begins.recv_timeout(LONG).unwrap();
            assert_eq!(*threads[replica].get_or_insert(thread), thread);
        }
    }
    assert_ne!(threads[0], threads[1]);
    assert_eq!(threads[0], threads[2]);
    let report = app.drain(LONG).unwrap();
    assert!(report.metrics.moves > 0);
    assert!(report.rejections.is_empty(), "{report}");
}

#[test]
fn a_graph_whose_processors_all_block_has_no_other_worker() {
    let (builder, begins) = files();
    let builder = builder.blocking::<Disk>(3).blocking::<Relay>(1);
    let app = builder.blocking::<Count>(1).start().unwrap();
    let mut done = app.egress::<Disk, Done>(0);
    app.ingress::<Disk, Wait>().at(2).send(Wait(2)).unwrap();
    assert_eq!(begins.recv_timeout(LONG).unwrap().0, 2);
    let numbers = app.ingress::<Relay, u64>();
    (0..2).for_each(|number| numbers.send(number).unwrap());
    assert_eq!(done.recv_timeout(LONG).unwrap().0, 2);
    app.reshard();
    assert_eq!(app.drain(LONG).unwrap().metrics.workers.len(), 5);
}

#[test]
fn a_wrong_configuration_is_named() {
    let text = |builder: Builder<Files>| builder.check().unwrap_err().to_string();
    let (builder, _begins) = files();
    let error = builder.blocking::<Disk>(0).check().unwrap_err();
    let expected = "processor `disk` was given 3 replicas and blocks on 0 threads: give it from \
                    1 to 3 threads";
    assert_eq!(error.to_string(), expected);
    assert!(matches!(
        error,
        BuildError::Blocking {
            threads: 0,
            given: 3,
            ..
        }
    ));
    let (builder, _begins) = files();
    assert!(text(builder.blocking::<Disk>(4)).contains("on 4 threads"));
    // The last call counts.
    let (builder, _begins) = files();
    builder
        .blocking::<Disk>(4)
        .blocking::<Disk>(3)
        .check()
        .unwrap();
    let (builder, _begins) = files();
    let builder = builder.workers(2).blocking::<Disk>(2).pin::<Disk>(0, 1);
    let expected = "processor `disk` blocks on workers of its own, so no replica of it can be \
                    pinned: remove `pin` or `blocking`";
    assert_eq!(text(builder), expected);
    // Another processor cannot be pinned to one of these workers.
    let (builder, _begins) = files();
    let builder = builder.workers(2).blocking::<Disk>(2).pin::<Relay>(0, 2);
    assert!(matches!(
        builder.check(),
        Err(BuildError::NoWorker { worker: 2, .. })
    ));
    let (builder, _begins) = files();
    let builder = builder.workers(2).blocking::<Disk>(2).pin::<Relay>(0, 1);
    let app = builder.balancer(Rotate).start().unwrap();
    let relay = app.shard_of::<Relay>(0);
    for _ in 0..3 {
        app.reshard();
        assert_eq!(
            app.viewer().assignment().assignment.owner(relay),
            WorkerId(1)
        );
    }
}

/// Notes where the shards are pinned.
struct Pins(Sender<Vec<Option<WorkerId>>>);

impl Balancer for Pins {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, view: &LoadView, _: &Assignment, _: usize) -> Decision {
        let shards = (0..view.shards()).map(ShardId::from_index);
        // The test may have ended.
        let _ = self
            .0
            .send(shards.map(|shard| view.pin_of(shard)).collect());
        Decision::Keep
    }
}

#[test]
fn the_last_pin_of_a_replica_counts() {
    for blocks in [false, true] {
        let (builder, _handled) = files();
        let builder = match blocks {
            true => builder.blocking::<Disk>(2),
            false => builder,
        };
        // The first one is to a worker that does not exist.
        let builder = builder.workers(2).pin::<Relay>(0, 7).pin::<Relay>(0, 0);
        let (sender, pins) = channel();
        let builder = builder.pin::<Relay>(0, 1).balancer(Pins(sender));
        let app = builder.start().unwrap();
        app.reshard();
        let pins = pins.recv_timeout(LONG).unwrap();
        assert_eq!(pins[3], Some(WorkerId::from_index(1)));
        let relay = app.metrics().instances[3].worker;
        assert_eq!(relay, 1);
        app.drain(LONG).unwrap();
    }
}

#[cfg(feature = "testing")]
#[test]
fn in_a_test_it_is_a_processor_like_any_other() {
    rast_msgpass::testing::for_each_seed(0..50, |seed| {
        let (builder, begins) = files();
        let mut app = builder.blocking::<Disk>(2).test(seed).unwrap();
        assert_eq!(app.metrics().workers.len(), 1);
        let out = app.collect::<Disk, Done>(0);
        app.feed::<Relay, u64>(0..4);
        app.run_until_idle();
        app.feed_by_key::<Disk, Wait>((0..4).map(|key| (key, Wait(1))));
        app.run_until_idle();
        assert_eq!((out.len(), begins.try_iter().count()), (4, 4));
        app.drain().unwrap();
    });
    // It is checked as on threads.
    let (builder, _begins) = files();
    assert!(matches!(
        builder.blocking::<Disk>(9).test(0),
        Err(BuildError::Blocking { threads: 9, .. })
    ));
}

struct Source;
/// Some of its handlers panic.
struct Middle(Arc<Mutex<u64>>);
struct Last(Vec<u64>);

graph! {
    graph Line {
        processors { source: Source, middle: [Middle; 3], last: [Last; 2] }
        edges {
            ingress -> source: u64 [cap = 8];
            source -> middle: u64 [cap = 8];
            middle -> last: u64 [cap = 8];
        }
    }
}

impl Process<Line> for Source {}
impl Receive<Line, Ingress, u64> for Source {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Line, Self>) {
        cx.to::<Middle>().at((number % 3) as usize).send(number);
    }
}
impl Process<Line> for Middle {}
impl Receive<Line, Source, u64> for Middle {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Line, Self>) {
        // It blocks while another replica has the lock.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *all += 1;
        cx.to::<Last>().at((number % 2) as usize).send(number);
        if number % 7 == 3 {
            std::panic::resume_unwind(Box::new("by order"));
        }
    }
}
impl Process<Line> for Last {}
impl Receive<Line, Middle, u64> for Last {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Line, Self>) {
        self.0.push(number);
    }
}

#[test]
fn each_pair_keeps_its_order_through_panics_and_moves() {
    const NUMBERS: u64 = 1_000;
    for threads in 1..=3 {
        let all = Arc::new(Mutex::new(0));
        let middle = |_| Middle(Arc::clone(&all));
        let lasts = [Vec::new(), Vec::new()].map(Last);
        let app = Line::builder(Source, (0..3).map(middle), lasts)
            .workers(2)
            .blocking::<Middle>(threads)
            .balancer(Rotate)
            .start()
            .unwrap();
        let numbers = app.ingress::<Source, u64>();
        for number in 0..NUMBERS {
            numbers.send(number).unwrap();
            if number % 16 == 0 {
                app.reshard();
            }
        }
        let report = app.drain(LONG).unwrap();
        let all = *all.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(all, NUMBERS, "{report}");
        let states = report.take_states::<Line, Last>();
        for Last(got) in &states {
            for replica in 0..3 {
                let pair = got.iter().filter(|number| *number % 3 == replica);
                assert!(pair.is_sorted(), "{got:?}");
            }
        }
        let count: usize = states.iter().map(|last| last.0.len()).sum();
        assert_eq!(count as u64, NUMBERS, "{report}");
    }
}
