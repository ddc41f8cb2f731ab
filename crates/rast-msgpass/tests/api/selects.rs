//! Tasks that wait for several things at once, with another waker at each poll, and move between
//! threads. Only the waker of the last poll counts, as `Future::poll` allows.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use futures::{Sink, Stream};
use rast_msgpass::{
    Cx, Egress, EgressReceiver, Ingress, IngressSender, IngressSink, Process, Receive, Sending,
    SharedReceiver, graph,
};

use crate::LONG;

/// Messages that a task sends in each of its two ways.
const EACH: u64 = if cfg!(miri) { 10 } else { 2_500 };
const TASKS: usize = 4;
const THREADS: usize = 3;

struct Echo;

graph! {
    graph Echoes {
        processors { echo: Echo }
        edges {
            ingress -> echo: u64 [cap = 2];
            echo -> egress: u64 [cap = 2, lanes = 2];
        }
    }
}

impl Process<Echoes> for Echo {}
impl Receive<Echoes, Ingress, u64> for Echo {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Echoes, Self>) {
        let lane = number as usize % 2;
        cx.to::<Egress>().lane(lane).send(number);
    }
}

/// The waker of one poll of a task.
struct Ring {
    task: usize,
    poll: u64,
    rings: Sender<(usize, u64)>,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        let _ = self.rings.send((self.task, self.poll));
    }
}

enum Lane {
    Shared(SharedReceiver<u64>),
    Own(EgressReceiver<u64>),
}

impl Lane {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        match self {
            Self::Shared(out) => Pin::new(out).poll_next(cx),
            Self::Own(out) => Pin::new(out).poll_next(cx),
        }
    }
}

struct Task<'a> {
    lane: Lane,
    sink: IngressSink<u64>,
    into: &'a IngressSender<Echoes, Echo, u64>,
    sending: Option<Sending<'a, u64>>,
    /// What is left to send by the sink, and by futures.
    left: [u64; 2],
    took: u64,
    polls: u64,
}

impl Task<'_> {
    /// Polls one of three after the other until one is ready, as `select!` does. Returns `None` if
    /// all are pending, and whether the lane goes on.
    fn select(&mut self, cx: &mut Context<'_>) -> Option<bool> {
        for step in 0..3 {
            match (self.polls + step) % 3 {
                0 => {
                    if let Poll::Ready(message) = self.lane.poll(cx) {
                        self.took += u64::from(message.is_some());
                        return Some(message.is_some());
                    }
                }
                1 if self.left[0] > 0 => {
                    if let Poll::Ready(ready) = Pin::new(&mut self.sink).poll_ready(cx) {
                        ready.expect("the door is open");
                        self.left[0] -= 1;
                        let sent = Pin::new(&mut self.sink).start_send(self.left[0]);
                        sent.expect("the door is open");
                        return Some(true);
                    }
                }
                2 if self.left[1] > 0 => {
                    let (into, left) = (self.into, self.left[1]);
                    let sending = self.sending.get_or_insert_with(|| into.send_async(left));
                    if let Poll::Ready(sent) = Pin::new(sending).poll(cx) {
                        sent.expect("the door is open");
                        self.sending = None;
                        self.left[1] -= 1;
                        return Some(true);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Runs the tasks whose last waker rang, until each has ended.
fn run(
    tasks: &[Mutex<Option<Task<'_>>>],
    rung: &Mutex<Receiver<(usize, u64)>>,
    rings: &Sender<(usize, u64)>,
    done: &Mutex<VecDeque<u64>>,
    all_sent: &(dyn Fn() + Sync),
) {
    loop {
        let next = rung.lock().unwrap().recv_timeout(LONG);
        let (at, poll) = next.expect("a wake-up was lost");
        if at == tasks.len() {
            // The next thread is to end too.
            let _ = rings.send((at, 0));
            return;
        }
        let mut place = tasks[at].lock().unwrap();
        let Some(mut task) = place.take_if(|task| task.polls == poll) else {
            continue;
        };
        loop {
            task.polls += 1;
            let before = task.left;
            let waker = Waker::from(Arc::new(Ring {
                task: at,
                poll: task.polls,
                rings: rings.clone(),
            }));
            let ready = task.select(&mut Context::from_waker(&waker));
            if before != task.left && task.left == [0, 0] {
                all_sent();
            }
            match ready {
                Some(true) => {}
                Some(false) => {
                    let mut done = done.lock().unwrap();
                    done.push_back(task.took);
                    if done.len() == tasks.len() {
                        let _ = rings.send((tasks.len(), 0));
                    }
                    break;
                }
                None => {
                    *place = Some(task);
                    break;
                }
            }
        }
    }
}

#[test]
fn tasks_that_select_with_changing_wakers_lose_no_wake_up() {
    let app = Echoes::builder(Echo).workers(2).start().unwrap();
    let into = app.ingress::<Echo, u64>();
    let shared = app.egress::<Echo, u64>(0).share();
    let mut own = Some(app.egress::<Echo, u64>(1));
    let tasks: Vec<_> = (0..=TASKS)
        .map(|at| {
            let is_last = at == TASKS;
            Mutex::new(Some(Task {
                lane: match own.take_if(|_| is_last) {
                    Some(own) => Lane::Own(own),
                    None => Lane::Shared(shared.clone()),
                },
                sink: into.sink(),
                into: &into,
                sending: None,
                left: [EACH; 2],
                took: 0,
                polls: 0,
            }))
        })
        .collect();
    drop(shared);
    let (rings, rung) = channel();
    let (sent, all) = channel();
    let (rung, done) = (Mutex::new(rung), Mutex::new(VecDeque::new()));
    (0..tasks.len()).for_each(|at| rings.send((at, 0)).unwrap());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (tasks, rung, done) = (&tasks, &rung, &done);
            let (rings, sent) = (rings.clone(), sent.clone());
            scope.spawn(move || run(tasks, rung, &rings, done, &|| sent.send(()).unwrap()));
        }
        (0..tasks.len()).for_each(|_| all.recv_timeout(LONG).expect("a wake-up was lost"));
        app.drain(LONG).unwrap();
    });
    let took = done.into_inner().unwrap();
    assert_eq!(took.iter().sum::<u64>(), 2 * EACH * tasks.len() as u64);
}
