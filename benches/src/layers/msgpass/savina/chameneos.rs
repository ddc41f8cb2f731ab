//! Chameneos: creatures meet in pairs at a mall and change their colours. The size is the number of
//! meetings.

use std::any::Any;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::Watch;
use super::{Actor, Peers, Program, placed, started};

pub(super) struct Chameneos;

const CREATURES: usize = 100;

/// The actor of the mall; the creatures come after it.
const MALL: usize = 0;

pub(super) enum Member {
    Mall(Mall),
    Creature(Creature),
}

pub(super) struct Mall {
    meetings: u64,
    waiting: Option<usize>,
    ended: usize,
    sum: u64,
    watch: Watch,
}

pub(super) struct Creature {
    index: usize,
    colour: u8,
    meetings: u64,
}

/// A creature, by its index among the creatures, and its colour.
#[derive(Clone, Copy)]
pub(super) struct Meet {
    who: usize,
    colour: u8,
}

/// The mall's answer.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Meet(Meet),
    Exit,
}

/// The colour after a meeting.
#[derive(Clone, Copy)]
pub(super) struct Change(u8);

#[derive(Clone, Copy)]
pub(super) enum ToMall {
    Meet(Meet),
    Count(u64),
}

#[derive(Clone, Copy)]
pub(super) enum Note {
    Start,
    ToMall(ToMall),
    Call(Call),
    Change(Change),
}

impl Mall {
    /// The creature to call, and what it gets.
    #[inline]
    fn on(&mut self, note: ToMall) -> Option<(usize, Call)> {
        match note {
            ToMall::Meet(meet) if self.meetings == 0 => Some((meet.who, Call::Exit)),
            ToMall::Meet(meet) => match self.waiting.take() {
                Some(other) => {
                    self.meetings -= 1;
                    Some((other, Call::Meet(meet)))
                }
                None => {
                    self.waiting = Some(meet.who);
                    None
                }
            },
            ToMall::Count(meetings) => {
                self.sum += meetings;
                self.ended += 1;
                if self.ended == CREATURES {
                    self.watch.part(self.sum);
                }
                None
            }
        }
    }
}

impl Creature {
    fn meet(&self) -> ToMall {
        ToMall::Meet(Meet {
            who: self.index,
            colour: self.colour,
        })
    }

    /// Takes the colour that is left after a meeting of two.
    #[inline]
    fn change(&mut self, Change(colour): Change) -> ToMall {
        self.colour = colour;
        self.meetings += 1;
        self.meet()
    }

    /// The other creature and its colour after the meeting, and what the mall gets.
    #[inline]
    fn called(&mut self, call: Call) -> (Option<(usize, Change)>, ToMall) {
        match call {
            Call::Exit => (None, ToMall::Count(self.meetings)),
            Call::Meet(meet) => {
                let colour = match self.colour == meet.colour {
                    true => self.colour,
                    false => 3 - self.colour - meet.colour,
                };
                let to_mall = self.change(Change(colour));
                (Some((meet.who, Change(colour))), to_mall)
            }
        }
    }
}

impl Actor for Member {
    type Message = Note;

    #[inline]
    fn handle(&mut self, note: Note, to: &impl Peers<Note>) {
        let to_mall = match (self, note) {
            (Self::Mall(mall), Note::ToMall(note)) => {
                if let Some((creature, call)) = mall.on(note) {
                    to.send(1 + creature, Note::Call(call));
                }
                return;
            }
            (Self::Creature(creature), Note::Start) => creature.meet(),
            (Self::Creature(creature), Note::Change(change)) => creature.change(change),
            (Self::Creature(creature), Note::Call(call)) => {
                let (other, to_mall) = creature.called(call);
                if let Some((other, change)) = other {
                    to.send(1 + other, Note::Change(change));
                }
                to_mall
            }
            _ => panic!("no such message comes here"),
        };
        to.send(MALL, Note::ToMall(to_mall));
    }
}

graph! {
    graph Place {
        processors { mall: Mall, creature: [Creature; CREATURES] [source] }
        edges {
            creature -> mall: ToMall [unbounded, cap = 16];
            mall -> creature: Call [unbounded, cap = 16];
            creature -> creature: Change [unbounded, cap = 16];
        }
    }
}

impl Process<Place> for Mall {}
impl Receive<Place, Creature, ToMall> for Mall {
    fn receive(&mut self, note: ToMall, cx: &mut Cx<'_, Place, Self>) {
        if let Some((creature, call)) = self.on(note) {
            cx.to::<Creature>().at(creature).send(call);
        }
    }
}
impl Process<Place> for Creature {
    fn ping(&mut self, cx: &mut Cx<'_, Place, Self>) -> Next {
        cx.to::<Mall>().send(self.meet());
        Next::Idle
    }
}
impl Receive<Place, Mall, Call> for Creature {
    fn receive(&mut self, call: Call, cx: &mut Cx<'_, Place, Self>) {
        let (other, to_mall) = self.called(call);
        if let Some((other, change)) = other {
            cx.to::<Self>().at(other).send(change);
        }
        cx.to::<Mall>().send(to_mall);
    }
}
impl Receive<Place, Creature, Change> for Creature {
    fn receive(&mut self, change: Change, cx: &mut Cx<'_, Place, Self>) {
        let to_mall = self.change(change);
        cx.to::<Mall>().send(to_mall);
    }
}

fn mall(size: u64, watch: &Watch) -> Mall {
    Mall {
        meetings: size,
        waiting: None,
        ended: 0,
        sum: 0,
        watch: watch.clone(),
    }
}

fn creatures() -> impl Iterator<Item = Creature> {
    (0..CREATURES).map(|index| Creature {
        index,
        colour: (index % 3) as u8,
        meetings: 0,
    })
}

impl Program for Chameneos {
    const NAME: &'static str = "savina: chameneos";
    const SIZE: u64 = 200_000;
    const SMOKE: u64 = 200;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        // Both come to the mall, one is called, and the other one learns its colour. At the end
        // each comes, is sent away, and says how often it met.
        4 * size + 3 * CREATURES as u64
    }

    fn expected(size: u64) -> u64 {
        2 * size
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let creatures = creatures().map(Member::Creature);
        std::iter::once(Member::Mall(mall(size, watch)))
            .chain(creatures)
            .collect()
    }

    fn first() -> Vec<(usize, Note)> {
        (1..=CREATURES).map(|to| (to, Note::Start)).collect()
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let builder = Place::builder(mall(size, watch), creatures());
        let builder = placed::<Self, _, Mall>(builder, MALL, 1, workers);
        let builder = placed::<Self, _, Creature>(builder, 1, CREATURES, workers);
        started(builder, workers, watch)
    }
}
