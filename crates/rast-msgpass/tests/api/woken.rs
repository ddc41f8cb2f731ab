//! Pings that follow messages, and those that the worker's poller asks for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast_msgpass::primitive::{Parker, Unparker, WaitStrategy};
use rast_msgpass::sharder::{Park, ShardId};
use rast_msgpass::timers::Instant;
use rast_msgpass::{BuildError, Cx, Ingress, Next, Process, Receive, graph, shard_of};

struct Front {
    taken: u64,
    said: Sender<(usize, u64)>,
}

graph! {
    graph Poll {
        processors { back: Back, front: [Front; 2] }
        edges {
            ingress -> back: u64;
            back -> front: u64 [cap = 64];
        }
    }
}

struct Back;

impl Process<Poll> for Back {}

impl Receive<Poll, Ingress, u64> for Back {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Poll, Self>) {
        cx.to::<Front>().at((number % 2) as usize).send(number);
    }
}

impl Process<Poll> for Front {
    fn ping(&mut self, cx: &mut Cx<'_, Poll, Self>) -> Next {
        let _ = self.said.send((cx.replica(), self.taken));
        Next::Woken(Instant::MAX)
    }
}

impl Receive<Poll, Back, u64> for Front {
    fn receive(&mut self, _: u64, _: &mut Cx<'_, Poll, Self>) {
        self.taken += 1;
    }
}

/// Sleeps, and says that something came when it was told so.
struct Door {
    parker: Mutex<Parker>,
    unparker: Unparker,
    came: AtomicBool,
    parks: AtomicU64,
    shard: ShardId,
}

impl Door {
    fn new(replica: usize) -> Arc<Self> {
        let parker = Parker::new();
        Arc::new(Self {
            unparker: parker.unparker(),
            parker: Mutex::new(parker),
            came: AtomicBool::new(false),
            parks: AtomicU64::new(0),
            shard: shard_of::<Poll, Front>(replica),
        })
    }
}

impl Park for Door {
    fn park(&self, timeout: Option<Duration>, ready: &mut dyn FnMut(ShardId)) {
        self.parks.fetch_add(1, Ordering::Relaxed);
        let parker = self.parker.lock().unwrap();
        match timeout {
            Some(timeout) => {
                parker.park_timeout(timeout);
            }
            None => parker.park(),
        }
        self.poll(ready);
    }

    fn poll(&self, ready: &mut dyn FnMut(ShardId)) {
        if self.came.swap(false, Ordering::AcqRel) {
            ready(self.shard);
        }
    }

    fn unpark(&self) {
        self.unparker.unpark();
    }
}

/// The graph, what its workers sleep in, and who was pinged after how many messages.
type Started = (
    rast_msgpass::Handle<Poll>,
    Vec<Arc<Door>>,
    Receiver<(usize, u64)>,
);

fn started() -> Started {
    let (said, heard) = channel();
    let fronts = (0..2).map(|_| Front {
        taken: 0,
        said: said.clone(),
    });
    let doors: Vec<_> = (0..2).map(Door::new).collect();
    let given = doors.clone();
    let app = Poll::builder(Back, fronts)
        .workers(2)
        .wait(WaitStrategy::Park)
        .park(move |worker| Arc::clone(&given[worker.index()]))
        .pin::<Front>(0, 0)
        .pin::<Front>(1, 1)
        .start()
        .expect("it starts");
    (app, doors, heard)
}

const GUARD: Duration = Duration::from_secs(60);

#[test]
fn a_ping_follows_the_messages_of_a_turn() {
    let (app, _, heard) = started();
    let numbers = app.ingress::<Back, u64>();
    let mut seen = [0; 2];
    for number in 0..100 {
        numbers.send(number).expect("it runs");
    }
    while seen != [50, 50] {
        let (replica, taken) = heard.recv_timeout(GUARD).expect("a ping");
        assert!(taken >= seen[replica]);
        seen[replica] = taken;
    }
    let metrics = app.metrics();
    assert_eq!(metrics.instances[1].worker, 0);
    assert_eq!(metrics.instances[2].worker, 1);
    app.drain(GUARD).expect("it ends");
}

#[test]
fn what_the_poller_sees_brings_a_ping() {
    let (app, doors, heard) = started();
    // The first of each, at the start.
    for _ in &doors {
        heard.recv_timeout(GUARD).expect("a ping");
    }
    for turn in 0..20 {
        let door = &doors[turn % 2];
        door.came.store(true, Ordering::Release);
        door.unpark();
        let (replica, taken) = heard.recv_timeout(GUARD).expect("a ping");
        assert_eq!((replica, taken), (turn % 2, 0));
    }
    assert!(
        doors
            .iter()
            .all(|door| door.parks.load(Ordering::Relaxed) > 0)
    );
    app.drain(GUARD).expect("it ends");
    assert!(
        heard.try_recv().is_err(),
        "a graph that drains pings nothing"
    );
}

#[test]
fn a_pin_to_a_worker_that_does_not_exist_is_refused() {
    let (said, _) = channel();
    for worker in [2, usize::MAX] {
        let fronts = (0..2).map(|_| Front {
            taken: 0,
            said: said.clone(),
        });
        let builder = Poll::builder(Back, fronts)
            .workers(2)
            .pin::<Front>(1, worker);
        let error = builder.check().unwrap_err();
        assert!(matches!(
            error,
            BuildError::NoWorker {
                replica: 1,
                workers: 2,
                ..
            }
        ));
        assert!(error.to_string().contains(&format!("worker {worker}")));
    }
}
