//! Big: each actor pings one of all actors, chosen at random, and waits for its answer. The size
//! is the number of pings of one actor.

use std::any::Any;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::{Random, Watch};
use super::{Actor, Peers, Program, placed, started};

pub(super) struct Big;

const ACTORS: usize = 120;

pub(super) struct Member {
    index: u32,
    left: u64,
    random: Random,
    /// The actor whose answer is awaited.
    asked: u32,
    sum: u64,
    watch: Watch,
}

/// The index of the sender.
#[derive(Clone, Copy)]
pub(super) struct Ping(u32);
/// The index of the sender.
#[derive(Clone, Copy)]
pub(super) struct Pong(u32);

/// One edge of the graph for pings and answers, so that an actor has one inbox.
#[derive(Clone, Copy)]
pub(super) enum Ball {
    Ping(Ping),
    Pong(Pong),
}

#[derive(Clone, Copy)]
pub(super) enum Note {
    Start,
    Ball(Ball),
}

impl Member {
    /// The next ping, if the pings are not over.
    #[inline]
    fn next(&mut self) -> Option<(usize, Ball)> {
        if self.left == 0 {
            self.watch.part(self.sum);
            return None;
        }
        self.left -= 1;
        self.asked = self.random.below(ACTORS as u64) as u32;
        Some((self.asked as usize, Ball::Ping(Ping(self.index))))
    }

    /// The actor that gets something, and what.
    #[inline]
    fn on(&mut self, ball: Ball) -> Option<(usize, Ball)> {
        match ball {
            Ball::Ping(Ping(by)) => Some((by as usize, Ball::Pong(Pong(self.index)))),
            Ball::Pong(Pong(by)) => {
                assert_eq!(by, self.asked, "the one that was asked answers");
                self.sum += u64::from(by) + 1;
                self.next()
            }
        }
    }
}

impl Actor for Member {
    type Message = Note;

    #[inline]
    fn handle(&mut self, note: Note, to: &impl Peers<Note>) {
        let next = match note {
            Note::Start => self.next(),
            Note::Ball(ball) => self.on(ball),
        };
        if let Some((next, ball)) = next {
            to.send(next, Note::Ball(ball));
        }
    }
}

graph! {
    graph Party {
        processors { member: [Member; ACTORS] [source] }
        edges { member -> member: Ball [unbounded, cap = 256]; }
    }
}

impl Process<Party> for Member {
    fn ping(&mut self, cx: &mut Cx<'_, Party, Self>) -> Next {
        if let Some((next, ball)) = self.next() {
            cx.to::<Self>().at(next).send(ball);
        }
        Next::Idle
    }
}
impl Receive<Party, Member, Ball> for Member {
    fn receive(&mut self, ball: Ball, cx: &mut Cx<'_, Party, Self>) {
        if let Some((next, ball)) = self.on(ball) {
            cx.to::<Self>().at(next).send(ball);
        }
    }
}

impl Program for Big {
    const NAME: &'static str = "savina: big";
    const SIZE: u64 = 20_000;
    const SMOKE: u64 = 20;
    const PARTS: u64 = ACTORS as u64;
    const THREADS_SHARE: u64 = 100;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        2 * size * ACTORS as u64
    }

    fn expected(size: u64) -> u64 {
        let of = |index: usize| {
            let mut random = Random::new(index as u64);
            (0..size).map(move |_| random.below(ACTORS as u64) + 1)
        };
        (0..ACTORS).flat_map(of).sum()
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let member = |index| Member {
            index: index as u32,
            left: size,
            random: Random::new(index as u64),
            asked: 0,
            sum: 0,
            watch: watch.clone(),
        };
        (0..ACTORS).map(member).collect()
    }

    fn first() -> Vec<(usize, Note)> {
        (0..ACTORS).map(|to| (to, Note::Start)).collect()
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let builder = Party::builder(Self::actors(size, watch));
        let builder = placed::<Self, _, Member>(builder, 0, ACTORS, workers);
        started(builder, workers, watch)
    }
}
