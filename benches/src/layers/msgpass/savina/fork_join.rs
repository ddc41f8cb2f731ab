//! Fork-join throughput: many messages to each of many actors, which compute a sine for each. The
//! size is the number of messages to one actor.

use std::any::Any;
use std::hint::black_box;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::Watch;
use super::{Actor, Peers, Program, placed, started};

pub(super) struct ForkJoin;

const ACTORS: usize = 60;

/// Messages to each worker in a ping of the graph.
const BURST: u64 = 64;

const ANGLE: f64 = 37.2;

pub(super) enum Member {
    Source(Source),
    Worker(Worker),
}

pub(super) struct Source {
    left: u64,
}

pub(super) struct Worker {
    left: u64,
    size: u64,
    watch: Watch,
}

#[derive(Clone, Copy)]
pub(super) struct Job(f64);

impl Worker {
    #[inline]
    fn work(&mut self, Job(angle): Job) {
        let sine = black_box(angle).sin();
        black_box(sine * sine);
        self.left -= 1;
        if self.left == 0 {
            self.watch.part(self.size);
        }
    }
}

impl Actor for Member {
    type Message = Job;

    #[inline]
    fn handle(&mut self, job: Job, to: &impl Peers<Job>) {
        match self {
            Self::Worker(worker) => worker.work(job),
            Self::Source(source) => {
                for _ in 0..source.left {
                    (1..=ACTORS).for_each(|worker| to.send(worker, job));
                }
            }
        }
    }
}

graph! {
    graph Fork {
        processors { source: Source [source], worker: [Worker; ACTORS] }
        edges { source -> worker: Job [burst = BURST as usize, cap = 128]; }
    }
}

impl Process<Fork> for Source {
    fn ping(&mut self, cx: &mut Cx<'_, Fork, Self>) -> Next {
        let count = self.left.min(BURST);
        for _ in 0..count {
            cx.to::<Worker>().all().send(Job(ANGLE));
        }
        self.left -= count;
        match self.left {
            0 => Next::Idle,
            _ => Next::Again,
        }
    }
}
impl Process<Fork> for Worker {}
impl Receive<Fork, Source, Job> for Worker {
    #[inline]
    fn receive(&mut self, job: Job, _: &mut Cx<'_, Fork, Self>) {
        self.work(job);
    }
}

fn workers_of(size: u64, watch: &Watch) -> impl Iterator<Item = Worker> {
    (0..ACTORS).map(move |_| Worker {
        left: size,
        size,
        watch: watch.clone(),
    })
}

impl Program for ForkJoin {
    const NAME: &'static str = "savina: fork-join throughput";
    const SIZE: u64 = 10_000;
    const SMOKE: u64 = 100;
    const PARTS: u64 = ACTORS as u64;
    const THREADS_SHARE: u64 = 1;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        size * ACTORS as u64
    }

    fn expected(size: u64) -> u64 {
        size * ACTORS as u64
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let source = Source { left: size };
        let workers = workers_of(size, watch).map(Member::Worker);
        std::iter::once(Member::Source(source))
            .chain(workers)
            .collect()
    }

    fn first() -> Vec<(usize, Job)> {
        vec![(0, Job(ANGLE))]
    }

    fn home(actor: usize, threads: usize) -> usize {
        actor % threads
    }

    /// All actors are on one thread, because this takes half of the time.
    fn arbiter(_: usize, _: usize) -> usize {
        0
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let members = workers_of(size, watch).collect::<Vec<_>>();
        let builder = Fork::builder(Source { left: size }, members);
        let builder = placed::<Self, _, Source>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Worker>(builder, 1, ACTORS, workers);
        started(builder, workers, watch)
    }
}
