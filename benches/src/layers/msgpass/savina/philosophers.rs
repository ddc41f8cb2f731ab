//! Philosophers: each asks an arbitrator for two forks, and asks again at once if it is denied
//! them. The size is the number of meals of one philosopher.

use std::any::Any;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::Watch;
use super::{Actor, Peers, Program, placed, started};

pub(super) struct Philosophers;

const COUNT: usize = 20;

pub(super) enum Member {
    Arbitrator(Arbitrator),
    Philosopher(Philosopher),
}

pub(super) struct Arbitrator {
    taken: [bool; COUNT],
    meals: u64,
    ended: usize,
    watch: Watch,
}

pub(super) struct Philosopher {
    index: usize,
    left: u64,
}

/// What a philosopher says: an index among the philosophers.
#[derive(Clone, Copy)]
pub(super) enum Ask {
    Hungry(usize),
    Done(usize),
    Exit,
}

#[derive(Clone, Copy)]
pub(super) enum Answer {
    Eat,
    Denied,
}

#[derive(Clone, Copy)]
pub(super) enum Note {
    Start,
    Ask(Ask),
    Answer(Answer),
}

impl Arbitrator {
    fn new(watch: &Watch) -> Self {
        Self {
            taken: [false; COUNT],
            meals: 0,
            ended: 0,
            watch: watch.clone(),
        }
    }

    #[inline]
    fn on(&mut self, ask: Ask) -> Option<(usize, Answer)> {
        match ask {
            Ask::Hungry(who) => {
                let (left, right) = (who, (who + 1) % COUNT);
                if self.taken[left] || self.taken[right] {
                    return Some((who, Answer::Denied));
                }
                (self.taken[left], self.taken[right]) = (true, true);
                Some((who, Answer::Eat))
            }
            Ask::Done(who) => {
                let (left, right) = (who, (who + 1) % COUNT);
                assert!(self.taken[left] && self.taken[right], "it has both forks");
                (self.taken[left], self.taken[right]) = (false, false);
                self.meals += 1;
                None
            }
            Ask::Exit => {
                self.ended += 1;
                if self.ended == COUNT {
                    self.watch.part(self.meals);
                }
                None
            }
        }
    }
}

impl Philosopher {
    /// What the arbitrator gets: one message, or two after a meal.
    #[inline]
    fn on(&mut self, answer: Answer) -> (Ask, Option<Ask>) {
        match answer {
            Answer::Denied => (Ask::Hungry(self.index), None),
            Answer::Eat => {
                self.left -= 1;
                let next = match self.left {
                    0 => Ask::Exit,
                    _ => Ask::Hungry(self.index),
                };
                (Ask::Done(self.index), Some(next))
            }
        }
    }
}

impl Actor for Member {
    type Message = Note;

    #[inline]
    fn handle(&mut self, note: Note, to: &impl Peers<Note>) {
        match (self, note) {
            (Self::Arbitrator(arbitrator), Note::Ask(ask)) => {
                if let Some((who, answer)) = arbitrator.on(ask) {
                    to.send(1 + who, Note::Answer(answer));
                }
            }
            (Self::Philosopher(philosopher), Note::Start) => {
                to.send(0, Note::Ask(Ask::Hungry(philosopher.index)));
            }
            (Self::Philosopher(philosopher), Note::Answer(answer)) => {
                let (ask, next) = philosopher.on(answer);
                to.send(0, Note::Ask(ask));
                if let Some(next) = next {
                    to.send(0, Note::Ask(next));
                }
            }
            _ => panic!("no such message comes here"),
        }
    }
}

graph! {
    graph Meal {
        processors { arbitrator: Arbitrator, philosopher: [Philosopher; COUNT] [source] }
        edges {
            philosopher -> arbitrator: Ask [burst = 2, cap = 4];
            arbitrator -> philosopher: Answer [unbounded, cap = 2];
        }
    }
}

impl Process<Meal> for Arbitrator {}
impl Receive<Meal, Philosopher, Ask> for Arbitrator {
    fn receive(&mut self, ask: Ask, cx: &mut Cx<'_, Meal, Self>) {
        if let Some((who, answer)) = self.on(ask) {
            cx.to::<Philosopher>().at(who).send(answer);
        }
    }
}
impl Process<Meal> for Philosopher {
    fn ping(&mut self, cx: &mut Cx<'_, Meal, Self>) -> Next {
        cx.to::<Arbitrator>().send(Ask::Hungry(self.index));
        Next::Idle
    }
}
impl Receive<Meal, Arbitrator, Answer> for Philosopher {
    fn receive(&mut self, answer: Answer, cx: &mut Cx<'_, Meal, Self>) {
        let (ask, next) = self.on(answer);
        cx.to::<Arbitrator>().send(ask);
        if let Some(next) = next {
            cx.to::<Arbitrator>().send(next);
        }
    }
}

fn philosophers(size: u64) -> impl Iterator<Item = Philosopher> {
    (0..COUNT).map(move |index| Philosopher { index, left: size })
}

impl Program for Philosophers {
    const NAME: &'static str = "savina: philosophers";
    const SIZE: u64 = 10_000;
    const SMOKE: u64 = 50;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        // Messages per meal: hungry, eat, done. A denial and the messages that follow it do not
        // count.
        (3 * size + 1) * COUNT as u64
    }

    fn expected(size: u64) -> u64 {
        size * COUNT as u64
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let philosophers = philosophers(size).map(Member::Philosopher);
        std::iter::once(Member::Arbitrator(Arbitrator::new(watch)))
            .chain(philosophers)
            .collect()
    }

    fn first() -> Vec<(usize, Note)> {
        (1..=COUNT).map(|to| (to, Note::Start)).collect()
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let philosophers = philosophers(size).collect::<Vec<_>>();
        let builder = Meal::builder(Arbitrator::new(watch), philosophers);
        let builder = placed::<Self, _, Arbitrator>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Philosopher>(builder, 1, COUNT, workers);
        started(builder, workers, watch)
    }
}
