//! Trapezoid: 100 workers compute the area under a curve from 1 to 5. The size is the number of
//! pieces into which the area is divided.

use std::any::Any;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::Watch;
use super::{Actor, Peers, Program, placed, started};

pub(super) struct Trapezoid;

const WORKERS: usize = 100;
const LEFT: f64 = 1.0;
const RIGHT: f64 = 5.0;

pub(super) enum Member {
    Master(Box<Master>),
    Worker(Worker),
}

pub(super) struct Master {
    size: u64,
    areas: [f64; WORKERS],
    left: usize,
    watch: Watch,
}

pub(super) struct Worker(usize);

/// A part of the line, and the width of a piece.
#[derive(Clone, Copy)]
pub(super) struct Part {
    left: f64,
    right: f64,
    width: f64,
}

/// The area of the part of a worker.
#[derive(Clone, Copy)]
pub(super) struct Area(usize, f64);

#[derive(Clone, Copy)]
pub(super) enum Note {
    Start,
    Part(Part),
    Area(Area),
}

fn curve(x: f64) -> f64 {
    let wave = (x.powf(3.0) - 1.0).sin();
    wave / (x + 1.0) * (1.0 + (2.0 * x).sqrt().exp()).sqrt()
}

/// The part of a worker.
fn part(size: u64, worker: usize) -> Part {
    let share = (RIGHT - LEFT) / WORKERS as f64;
    let left = LEFT + share * worker as f64;
    Part {
        left,
        right: left + share,
        width: (RIGHT - LEFT) / size as f64,
    }
}

fn area(part: Part) -> f64 {
    // As in Savina, the remainder that does not fill a piece does not count.
    let pieces = ((part.right - part.left) / part.width) as u64;
    let piece = |number| {
        let left = part.left + number as f64 * part.width;
        0.5 * (curve(left) + curve(left + part.width)) * part.width
    };
    (0..pieces).map(piece).sum()
}

impl Master {
    fn new(size: u64, watch: &Watch) -> Self {
        Self {
            size,
            areas: [0.0; WORKERS],
            left: WORKERS,
            watch: watch.clone(),
        }
    }

    fn on(&mut self, Area(worker, area): Area) {
        self.areas[worker] = area;
        self.left -= 1;
        if self.left == 0 {
            // In the order of the workers, so that the sum is the same in each run.
            self.watch.part(self.areas.iter().sum::<f64>().to_bits());
        }
    }
}

impl Actor for Member {
    type Message = Note;

    fn handle(&mut self, note: Note, to: &impl Peers<Note>) {
        match (self, note) {
            (Self::Master(master), Note::Start) => {
                for worker in 0..WORKERS {
                    to.send(1 + worker, Note::Part(part(master.size, worker)));
                }
            }
            (Self::Master(master), Note::Area(area)) => master.on(area),
            (Self::Worker(worker), Note::Part(part)) => {
                to.send(0, Note::Area(Area(worker.0, area(part))));
            }
            _ => panic!("no such message comes here"),
        }
    }
}

graph! {
    graph Line {
        processors { master: Master [source], worker: [Worker; WORKERS] }
        edges {
            master -> worker: Part [burst = WORKERS];
            worker -> master: Area [unbounded, cap = 2];
        }
    }
}

impl Process<Line> for Master {
    fn ping(&mut self, cx: &mut Cx<'_, Line, Self>) -> Next {
        for worker in 0..WORKERS {
            cx.to::<Worker>().at(worker).send(part(self.size, worker));
        }
        Next::Idle
    }
}
impl Receive<Line, Worker, Area> for Master {
    fn receive(&mut self, area: Area, _: &mut Cx<'_, Line, Self>) {
        self.on(area);
    }
}
impl Process<Line> for Worker {}
impl Receive<Line, Master, Part> for Worker {
    fn receive(&mut self, part: Part, cx: &mut Cx<'_, Line, Self>) {
        cx.to::<Master>().send(Area(self.0, area(part)));
    }
}

impl Program for Trapezoid {
    const NAME: &'static str = "savina: trapezoid";
    const SIZE: u64 = 10_000_000;
    const SMOKE: u64 = 1000;
    const THREADS_SHARE: u64 = 1;
    type Actor = Member;

    fn messages(_: u64) -> u64 {
        2 * WORKERS as u64
    }

    fn expected(size: u64) -> u64 {
        let areas = (0..WORKERS).map(|worker| area(part(size, worker)));
        areas.sum::<f64>().to_bits()
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        std::iter::once(Member::Master(Box::new(Master::new(size, watch))))
            .chain((0..WORKERS).map(|index| Member::Worker(Worker(index))))
            .collect()
    }

    fn first() -> Vec<(usize, Note)> {
        vec![(0, Note::Start)]
    }

    fn home(actor: usize, threads: usize) -> usize {
        actor % threads
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let builder = Line::builder(Master::new(size, watch), (0..WORKERS).map(Worker));
        let builder = placed::<Self, _, Master>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Worker>(builder, 1, WORKERS, workers);
        started(builder, workers, watch)
    }
}
