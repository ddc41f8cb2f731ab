//! Thread ring: the actors of a ring pass a token on. The size is the number of hops.

use std::any::Any;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::Watch;
use super::{Actor, Peers, Program, placed, started};

pub(super) struct ThreadRing;

const ACTORS: usize = 100;

pub(super) struct Member {
    index: usize,
    /// What the first token says.
    hops: u64,
    watch: Watch,
}

/// A token, with the hops that are left; `None` begins the run.
type Token = Option<u64>;

impl Member {
    /// The next member and what it gets, unless the token has arrived.
    #[inline]
    fn pass(&mut self, hops: u64) -> Option<(usize, u64)> {
        if hops == 0 {
            self.watch.part(self.index as u64);
            return None;
        }
        Some(((self.index + 1) % ACTORS, hops - 1))
    }
}

impl Actor for Member {
    type Message = Token;

    #[inline]
    fn handle(&mut self, token: Token, to: &impl Peers<Token>) {
        if let Some((next, hops)) = self.pass(token.unwrap_or(self.hops)) {
            to.send(next, Some(hops));
        }
    }
}

graph! {
    graph Ring {
        processors { member: [Member; ACTORS] [source] }
        edges { member -> member: u64 [unbounded]; }
    }
}

impl Process<Ring> for Member {
    fn ping(&mut self, cx: &mut Cx<'_, Ring, Self>) -> Next {
        if self.index == 0
            && let Some((next, hops)) = self.pass(self.hops)
        {
            cx.to::<Self>().at(next).send(hops);
        }
        Next::Idle
    }
}
impl Receive<Ring, Member, u64> for Member {
    fn receive(&mut self, hops: u64, cx: &mut Cx<'_, Ring, Self>) {
        if let Some((next, hops)) = self.pass(hops) {
            cx.to::<Self>().at(next).send(hops);
        }
    }
}

impl Program for ThreadRing {
    const NAME: &'static str = "savina: thread ring";
    const SIZE: u64 = 100_000;
    const SMOKE: u64 = 250;
    type Actor = Member;

    fn messages(size: u64) -> u64 {
        size
    }

    fn expected(size: u64) -> u64 {
        size % ACTORS as u64
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Member> {
        let member = |index| Member {
            index,
            hops: size,
            watch: watch.clone(),
        };
        (0..ACTORS).map(member).collect()
    }

    fn first() -> Vec<(usize, Token)> {
        vec![(0, None)]
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let builder = Ring::builder(Self::actors(size, watch));
        let builder = placed::<Self, _, Member>(builder, 0, ACTORS, workers);
        started(builder, workers, watch)
    }
}
