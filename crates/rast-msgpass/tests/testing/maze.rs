//! Inboxes under attack: requests with tokens, edges to any replica, edges that drop, priorities
//! and turns without time, while handlers panic, processors restart or retire, and instances move.

use std::any::Any;
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast_msgpass::primitive::Random;
use rast_msgpass::testing::for_each_seed;
use rast_msgpass::{
    Batch, Builder, Cx, DrainCause, Egress, Ingress, Next, OnPanic, Process, Receive, ReplyTo,
    Report, Restart, graph,
};

use crate::rotate::Rotate;

/// Instances on each side of an edge with inboxes.
const MANY: usize = 17;
const EDGES: usize = 12;

/// What each message carries.
#[derive(Clone, Copy)]
struct Mark {
    from: usize,
    /// Rises with each message of its edge.
    number: u64,
}

/// The messages of an edge that were made and have not met their fate.
#[derive(Default)]
struct World {
    made: [u64; EDGES],
    open: [HashMap<u64, usize>; EDGES],
    /// The last number of each pair.
    last: HashMap<(usize, usize, usize), u64>,
    faults: Vec<String>,
}

#[derive(Clone, Default)]
struct All(Arc<Mutex<World>>);

impl All {
    fn make(&self, edge: usize, from: usize) -> Mark {
        let world = &mut *self.0.lock().unwrap();
        let number = world.made[edge];
        world.made[edge] += 1;
        world.open[edge].insert(number, from);
        Mark { from, number }
    }

    fn end(&self, edge: usize, mark: Mark) {
        let world = &mut *self.0.lock().unwrap();
        if world.open[edge].remove(&mark.number).is_none() {
            let fault = format!("edge {edge}: {} has two fates", mark.number);
            world.faults.push(fault);
        }
    }

    /// A handler begins; returns a number that decides what it does.
    fn begin(&self, edge: usize, mark: Mark, to: usize) -> u64 {
        self.end(edge, mark);
        let world = &mut *self.0.lock().unwrap();
        let last = world.last.insert((edge, mark.from, to), mark.number);
        if last.is_some_and(|last| last > mark.number) {
            let fault = format!("edge {edge}: {} came late", mark.number);
            world.faults.push(fault);
        }
        Random::new(mark.number << 8 | edge as u64).draw()
    }
}

/// Panics for one number in so many, without a text.
fn panic_for(number: u64, one_in: u64) {
    if number.is_multiple_of(one_in) {
        resume_unwind(Box::new("by order"));
    }
}

macro_rules! kinds {
    ($($edge:literal $name:ident),+) => {
        $(struct $name(Mark);)+

        /// Returns the edge and the mark of a message.
        fn edge_and_mark(message: &dyn Any) -> Option<(usize, Mark)> {
            $(if let Some($name(mark)) = message.downcast_ref() {
                return Some(($edge, *mark));
            })+
            None
        }
    };
}
kinds!(0 Put, 1 Job, 2 Ask, 3 Answer, 4 Note, 5 Hint, 6 Last, 7 Task, 8 Work, 9 Hop, 10 Out, 11 Later);

graph! {
    graph Maze {
        processors {
            front: Front,
            client: [Client; MANY],
            server: [Server; MANY],
            leaf: [Leaf; MANY],
            pool: [Pool; 3],
        }
        edges {
            ingress -> front: Put [cap = 8];
            front -> client: Job [cap = 2];
            client -> server: Ask [cap = 18];
            server -> client: Answer [reply = Ask, cap = 2];
            client -> server: Note [unbounded, cap = 2];
            client -> server: Hint [cap = 2, drop_newest, high];
            client -> server: Last [latest, high];
            server -> leaf: Task [cap = 18, route = any, high];
            server -> pool: Work [cap = 1, route = any];
            leaf -> pool: Hop [unbounded, rings, cap = 1];
            pool -> egress: Out [unbounded, cap = 4];
            server -> server: Later [unbounded, cap = 1];
        }
    }
}

struct Front(All);
struct Client(All);
struct Server {
    all: All,
    kept: Vec<ReplyTo<Maze, Client, Self, Ask>>,
}
struct Leaf(All);
struct Pool(All);

fn server(all: &All) -> Server {
    Server {
        all: all.clone(),
        kept: Vec::new(),
    }
}

impl Process<Maze> for Front {}
impl Receive<Maze, Ingress, Put> for Front {
    fn receive(&mut self, Put(mark): Put, cx: &mut Cx<'_, Maze, Self>) {
        let number = self.0.begin(0, mark, 0);
        cx.to::<Client>().key(number).send(Job(self.0.make(1, 0)));
    }
}

impl Client {
    fn ask(&self, number: u64, cx: &mut Cx<'_, Maze, Self>) {
        let mark = self.0.make(2, cx.replica());
        if let Err(full) = cx.to::<Server>().key(number).try_send(Ask(mark)) {
            self.0.end(2, full.into_inner().0);
        }
    }
}
impl Process<Maze> for Client {
    fn on_start(&mut self, cx: &mut Cx<'_, Maze, Self>) {
        if cx.restarts() > 0 {
            let note = self.0.make(4, cx.replica());
            cx.to::<Server>().at(0).send(Note(note));
            self.ask(cx.restarts(), cx);
        }
    }
}
impl Receive<Maze, Front, Job> for Client {
    fn receive(&mut self, Job(mark): Job, cx: &mut Cx<'_, Maze, Self>) {
        let from = cx.replica();
        let number = self.0.begin(1, mark, from);
        // Two of the replicas get most.
        let to = [0, 3, number as usize % MANY][number as usize / MANY % 3];
        cx.to::<Server>().at(to).send(Ask(self.0.make(2, from)));
        for at in 0..number % 9 {
            let to = [to, (to + at as usize) % MANY][at as usize % 2];
            cx.to::<Server>().at(to).send(Note(self.0.make(4, from)));
        }
        cx.to::<Server>().at(to).send(Hint(self.0.make(5, from)));
        cx.to::<Server>().at(to).send(Last(self.0.make(6, from)));
        panic_for(number >> 8, 16);
    }
}
impl Receive<Maze, Server, Answer> for Client {
    fn receive(&mut self, Answer(mark): Answer, cx: &mut Cx<'_, Maze, Self>) {
        let number = self.0.begin(3, mark, cx.replica());
        if number.is_multiple_of(3) {
            self.ask(number, cx);
        }
        panic_for(number >> 8, 32);
    }
}

impl Server {
    fn free(&mut self, cx: &mut Cx<'_, Maze, Self>) {
        if let Some(token) = self.kept.pop() {
            token.send(Answer(self.all.make(3, cx.replica())), cx);
        }
    }

    fn spread(&self, cx: &mut Cx<'_, Maze, Self>) {
        let from = cx.replica();
        cx.to::<Leaf>().any().send(Task(self.all.make(7, from)));
        cx.to::<Pool>().any().send(Work(self.all.make(8, from)));
    }
}
impl Process<Maze> for Server {
    fn on_start(&mut self, cx: &mut Cx<'_, Maze, Self>) {
        if cx.restarts() > 0 {
            self.spread(cx);
        }
    }
    fn ping(&mut self, cx: &mut Cx<'_, Maze, Self>) -> Next {
        self.free(cx);
        Next::Idle
    }
    fn flush(&mut self, cx: &mut Cx<'_, Maze, Self>) {
        while !self.kept.is_empty() {
            self.free(cx);
        }
    }
}
impl Receive<Maze, Client, Ask> for Server {
    fn receive(&mut self, Ask(mark): Ask, cx: &mut Cx<'_, Maze, Self>) {
        let (own, client) = (cx.replica(), cx.sender());
        let number = self.all.begin(2, mark, own);
        match number % 8 {
            0 | 1 => {
                self.kept.push(cx.reply_to());
                cx.to::<Self>().at(own).send(Later(self.all.make(11, own)));
            }
            2 => drop(cx.reply_to::<Client, Ask>()),
            3 => {}
            _ => cx
                .to::<Client>()
                .at(client)
                .send(Answer(self.all.make(3, own))),
        }
        if number >> 8 & 1 == 0 {
            self.spread(cx);
        }
        panic_for(number >> 16, 16);
    }
}
impl Receive<Maze, Server, Later> for Server {
    fn receive(&mut self, Later(mark): Later, cx: &mut Cx<'_, Maze, Self>) {
        self.all.begin(11, mark, cx.replica());
        self.free(cx);
    }
}
impl Receive<Maze, Client, Note> for Server {
    fn receive(&mut self, Note(mark): Note, cx: &mut Cx<'_, Maze, Self>) {
        let number = self.all.begin(4, mark, cx.replica());
        self.free(cx);
        panic_for(number >> 8, 64);
    }
}
impl Receive<Maze, Client, Hint> for Server {
    fn receive(&mut self, Hint(mark): Hint, cx: &mut Cx<'_, Maze, Self>) {
        self.all.begin(5, mark, cx.replica());
    }
}
impl Receive<Maze, Client, Last> for Server {
    fn receive(&mut self, Last(mark): Last, cx: &mut Cx<'_, Maze, Self>) {
        self.all.begin(6, mark, cx.replica());
        if self.kept.len() > 2 {
            self.free(cx);
        }
    }
}
impl Process<Maze> for Leaf {}
impl Receive<Maze, Server, Task> for Leaf {
    fn receive(&mut self, Task(mark): Task, cx: &mut Cx<'_, Maze, Self>) {
        let own = cx.replica();
        let number = self.0.begin(7, mark, own);
        for to in 0..1 + number as usize % 3 {
            cx.to::<Pool>().at(to).send(Hop(self.0.make(9, own)));
        }
    }
}
impl Pool {
    fn out(&self, cx: &mut Cx<'_, Maze, Self>) {
        let out = self.0.make(10, cx.replica());
        cx.to::<Egress>().send(Out(out));
    }
}
impl Process<Maze> for Pool {}
impl Receive<Maze, Server, Work> for Pool {
    fn receive(&mut self, Work(mark): Work, cx: &mut Cx<'_, Maze, Self>) {
        self.0.begin(8, mark, cx.replica());
        self.out(cx);
    }
}
impl Receive<Maze, Leaf, Hop> for Pool {
    fn receive(&mut self, Hop(mark): Hop, cx: &mut Cx<'_, Maze, Self>) {
        self.0.begin(9, mark, cx.replica());
        self.out(cx);
    }
}

fn maze(all: &All, seed: u64) -> Builder<Maze> {
    let lost = all.clone();
    let each = |_| all.clone();
    let builder = Maze::builder(
        Front(all.clone()),
        (0..MANY).map(each).map(Client),
        (0..MANY).map(|_| server(all)),
        (0..MANY).map(each).map(Leaf),
        (0..3).map(each).map(Pool),
    )
    .balancer(Rotate)
    .workers(1 + seed as usize % 3)
    .on_undelivered(move |_, message| {
        let (edge, mark) = edge_and_mark(&*message).expect("a message of the graph");
        lost.end(edge, mark);
    });
    let builder = match seed / 3 % 3 {
        0 => builder,
        1 => builder.batch(Batch::messages(64).time(Duration::ZERO)),
        _ => builder.sample(2),
    };
    let restart = Restart::new()
        .delay(Duration::ZERO, Duration::ZERO)
        .without_limit(Duration::from_secs(1));
    let (clients, servers) = (all.clone(), all.clone());
    match seed / 9 % 3 {
        0 => builder,
        1 => builder
            .restart::<Client>(restart, move |_| Client(clients.clone()))
            .restart::<Server>(restart, move |_| server(&servers)),
        _ => builder
            .on_panic_of::<Client>(OnPanic::Retire)
            .restart::<Server>(restart.limit(2, Duration::from_secs(1)), move |_| {
                server(&servers)
            }),
    }
}

fn check(seed: u64, all: &All, report: &Report) {
    let world = all.0.lock().unwrap();
    assert!(world.faults.is_empty(), "seed {seed}: {:?}", world.faults);
    assert!(report.faults.is_empty(), "seed {seed}\n{report}");
    // One message from outside may not have got in.
    assert!(world.open[0].len() <= 1, "seed {seed}");
    for (edge, open) in world.open.iter().enumerate().skip(1) {
        assert!(
            open.is_empty(),
            "seed {seed}, edge {edge}: {open:?}\n{report}"
        );
    }
}

#[test]
fn what_goes_by_inboxes_has_one_fate_and_its_order() {
    for_each_seed(0..200, |seed| {
        let all = All::default();
        let mut app = maze(&all, seed).test(seed).unwrap();
        let out = app.collect::<Pool, Out>(0);
        let puts = all.clone();
        app.feed::<Front, Put>((0..120).map(move |_| Put(puts.make(0, 0))));
        if seed % 2 == 0 {
            // Their edges fill up.
            (0..3).for_each(|replica| app.pause::<Pool>(replica));
            app.pause::<Server>(0);
        }
        for step in 0..60 {
            app.steps(8);
            if step % 4 == 0 {
                app.handle().reshard();
            }
        }
        (0..3).for_each(|replica| app.resume::<Pool>(replica));
        app.resume::<Server>(0);
        let stops = seed % 5 == 4;
        if !stops {
            app.run_until_idle();
        }
        let report = match stops {
            true => app.stop(),
            false => match app.drain() {
                Ok(report) => report,
                Err(error) => {
                    assert_eq!(error.cause, DrainCause::Lost, "seed {seed}\n{error}");
                    *error.report
                }
            },
        };
        out.take().iter().for_each(|out| all.end(10, out.0));
        check(seed, &all, &report);
        if !stops {
            let asks = &report.metrics.edges[2];
            assert_eq!(
                (asks.unanswered, asks.depth),
                (0, 0),
                "seed {seed}\n{report}"
            );
        }
    });
}
