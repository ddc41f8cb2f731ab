//! The doors: ingress from many threads, egress by lanes, wakers, both ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use rast_msgpass::{
    Cx, Egress, EndedBy, Ingress, Process, Receive, RecvTimeoutError, TryRecvError, TrySendError,
    graph,
};

use crate::LONG;

struct Part;

#[derive(Debug, PartialEq)]
struct Put {
    client: usize,
    number: u64,
}

graph! {
    graph Store {
        processors { part: [Part; 4] }
        edges {
            ingress -> part: Put [cap = 8];
            part -> egress: Put [cap = 4, lanes = 2];
        }
    }
}

impl Process<Store> for Part {}
impl Receive<Store, Ingress, Put> for Part {
    fn receive(&mut self, put: Put, cx: &mut Cx<'_, Store, Self>) {
        assert_eq!(put.number % 4, cx.replica() as u64);
        let lane = put.client % 2;
        cx.to::<Egress>().lane(lane).send(put);
    }
}

fn parts() -> impl Iterator<Item = Part> {
    (0..4).map(|_| Part)
}

#[test]
fn many_threads_enter_and_each_order_is_kept() {
    const EACH: u64 = 2000;
    let app = Store::builder(parts()).workers(2).start().unwrap();
    let into = app.ingress::<Part, Put>();
    std::thread::scope(|scope| {
        for client in 0..4 {
            let into = into.clone();
            scope.spawn(move || {
                for number in 0..EACH {
                    into.at(number as usize % 4)
                        .send(Put { client, number })
                        .unwrap();
                }
            });
        }
        for lane in 0..2 {
            let mut out = app.egress::<Part, Put>(lane);
            scope.spawn(move || {
                // Per client and part the numbers come in order.
                let mut last = [[None; 4]; 4];
                for _ in 0..2 * EACH {
                    let put = out.recv_timeout(LONG).unwrap();
                    assert_eq!(put.client % 2, lane);
                    let last = &mut last[put.client][put.number as usize % 4];
                    assert!(last.is_none_or(|last| last < put.number));
                    *last = Some(put.number);
                }
                assert_eq!(out.try_recv(), Err(TryRecvError::Empty));
                out
            });
        }
    });
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.received_total(), 4 * EACH);
    assert_eq!(report.metrics.edges[1].received, 4 * EACH);
}

#[test]
fn a_full_door_says_so_and_a_closed_one_too() {
    let app = Store::builder(parts()).workers(1).start().unwrap();
    let into = app.ingress::<Part, Put>();
    let put = |number| Put { client: 0, number };
    // No thread takes the lane: ring, batch and door fill up.
    let mut accepted = 0;
    let back = loop {
        match into.at(1).send_timeout(put(1), Duration::from_millis(300)) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100);
    };
    assert!(back.is_full());
    assert_eq!(back.into_inner(), put(1));
    assert!(
        into.at(1)
            .try_send(put(1))
            .is_err_and(|error| error.is_full())
    );
    assert_eq!(into.at(1).len(), 8);
    assert!(into.at(0).is_empty());
    // A sender that waits gets its message back when the graph stops.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| into.at(1).send(put(1)));
        let error = app.drain(Duration::from_millis(20)).unwrap_err();
        assert_eq!(waiting.join().unwrap().unwrap_err().into_inner(), put(1));
        // Eight in the door, four in the lane that no thread can take any more.
        assert_eq!(error.report.undelivered_total(), 12);
        assert!(error.to_string().contains("12 messages"));
    });
    assert!(matches!(
        into.at(0).try_send(put(0)),
        Err(TrySendError::Closed(_))
    ));
    assert!(into.at(1).send(put(1)).is_err());
}

#[test]
fn a_panic_while_messages_are_taken_costs_one_of_them() {
    let app = Store::builder(parts()).workers(1).start().unwrap();
    let into = app.ingress::<Part, Put>();
    let mut out = app.egress::<Part, Put>(0);
    for number in [0, 4, 8] {
        into.at(0).send(Put { client: 0, number }).unwrap();
    }
    while app.metrics().edges[1].sent < 3 {
        std::thread::yield_now();
    }
    let mut seen = Vec::new();
    let taking = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        out.drain(3, |put| {
            assert!(put.number != 4, "the second");
            seen.push(put.number);
        })
    }));
    assert!(taking.is_err());
    out.drain(3, |put| seen.push(put.number));
    assert_eq!(seen, [0, 8]);
    assert_eq!(app.metrics().edges[1].received, 3);
    assert_eq!(app.metrics().edges[1].depth, 0);
}

#[test]
fn what_left_is_there_after_the_end() {
    let app = Store::builder(parts()).workers(2).start().unwrap();
    let into = app.ingress::<Part, Put>();
    let mut out = app.egress::<Part, Put>(0);
    assert!(app.try_egress::<Part, Put>(0).is_none());
    assert_eq!(
        out.recv_timeout(Duration::from_millis(1)),
        Err(RecvTimeoutError::Elapsed)
    );
    for number in 0..8 {
        into.at(number as usize % 4)
            .send(Put { client: 0, number })
            .unwrap();
    }
    app.drain(LONG).unwrap();
    assert!(!out.is_closed());
    let mut seen = 0;
    assert_eq!(out.drain(3, |_| seen += 1), 3);
    assert_eq!(out.drain(100, |_| seen += 1), 5);
    assert_eq!(seen, 8);
    assert!(out.is_closed());
    assert_eq!(out.try_recv(), Err(TryRecvError::Closed(EndedBy::Drain)));
    let drained = RecvTimeoutError::Closed(EndedBy::Drain);
    assert_eq!(out.recv_timeout(LONG), Err(drained));
}

#[test]
fn a_waker_is_enough_to_miss_nothing() {
    const ROUNDS: u64 = 3000;
    let app = Store::builder(parts()).workers(2).start().unwrap();
    let into = app.ingress::<Part, Put>();
    let mut out = app.egress::<Part, Put>(0);
    let (wake, woken) = mpsc::sync_channel::<()>(1);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    out.set_waker(move || {
        counted.fetch_add(1, SeqCst);
        let _ = wake.try_send(());
    });
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..ROUNDS {
                into.at(number as usize % 4)
                    .send(Put { client: 0, number })
                    .unwrap();
            }
        });
        let mut seen = 0;
        while seen < ROUNDS {
            woken.recv_timeout(LONG).unwrap();
            loop {
                let taken = out.drain(16, |_| seen += 1);
                if taken < 16 {
                    break;
                }
            }
        }
    });
    assert!(calls.load(SeqCst) as u64 <= ROUNDS + 1);
    let before = calls.load(SeqCst);
    drop(app);
    // The end is announced too.
    assert!(calls.load(SeqCst) > before);
    assert!(out.is_closed());
}

struct Runner;

graph! {
    graph Circle {
        processors { runner: Runner }
        edges {
            ingress -> runner: u64;
            runner -> egress: u64;
        }
    }
}

impl Process<Circle> for Runner {}
impl Receive<Circle, Ingress, u64> for Runner {
    fn receive(&mut self, left: u64, cx: &mut Cx<'_, Circle, Self>) {
        cx.to::<Egress>().send(left);
    }
}

#[test]
fn messages_that_come_one_by_one_make_many_rounds_of_one_turn() {
    let app = Circle::builder(Runner)
        .workers(1)
        .batch(200)
        .start()
        .unwrap();
    let into = app.ingress::<Runner, u64>();
    let out = Arc::new(Mutex::new(app.egress::<Runner, u64>(0)));
    let (done, finished) = mpsc::channel();
    // The waker runs between two rounds of a turn. It answers each message with the
    // next one, so that each round finds one, more often than a word has bits.
    let (from, to) = (Arc::clone(&out), into.clone());
    out.lock().unwrap().set_waker(move || {
        // It is called at once, too, while the lock is held here.
        let Ok(mut out) = from.try_lock() else { return };
        while let Ok(left) = out.try_recv() {
            match left {
                0 => done.send(()).unwrap(),
                _ => to.try_send(left - 1).unwrap(),
            }
        }
    });
    into.send(1000).unwrap();
    finished.recv_timeout(LONG).unwrap();
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.received_total(), 1001);
    assert!(report.faults.is_empty(), "{:?}", report.faults);
}

#[test]
#[should_panic(expected = "was handed out before")]
fn a_lane_has_one_receiver() {
    let app = Store::builder(parts()).workers(1).start().unwrap();
    let _first = app.egress::<Part, Put>(1);
    let _second = app.egress::<Part, Put>(1);
}

#[test]
fn handles_and_senders_are_for_any_thread() {
    fn any_thread<T: Send + Sync>() {}
    fn one_thread<T: Send>() {}
    any_thread::<rast_msgpass::Handle<Store>>();
    any_thread::<rast_msgpass::Stopper>();
    any_thread::<rast_msgpass::IngressSender<Store, Part, Put>>();
    one_thread::<rast_msgpass::EgressReceiver<Put>>();
}
