//! Ping-pong: two actors send a ball to each other. The size is the number of pings.

use std::any::Any;

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::watch::Watch;
use super::{Actor, Peers, Program, placed, started};

pub(super) struct PingPong;

pub(super) enum Player {
    Ping(Ping),
    Pong(Pong),
}

pub(super) struct Ping {
    left: u64,
    watch: Watch,
}
pub(super) struct Pong;

impl Ping {
    /// The ball to send, if there is a further ping.
    #[inline]
    fn next(&mut self, ball: u64) -> Option<u64> {
        if self.left == 0 {
            self.watch.part(ball);
            return None;
        }
        self.left -= 1;
        Some(ball)
    }
}

impl Actor for Player {
    type Message = u64;

    #[inline]
    fn handle(&mut self, ball: u64, to: &impl Peers<u64>) {
        match self {
            Self::Ping(ping) => {
                if let Some(ball) = ping.next(ball) {
                    to.send(1, ball);
                }
            }
            Self::Pong(Pong) => to.send(0, ball + 1),
        }
    }
}

graph! {
    graph Table {
        processors { ping: Ping [source], pong: Pong }
        edges {
            ping -> pong: u64;
            pong -> ping: u64 [unbounded];
        }
    }
}

impl Process<Table> for Ping {
    fn ping(&mut self, cx: &mut Cx<'_, Table, Self>) -> Next {
        if let Some(ball) = self.next(0) {
            cx.to::<Pong>().send(ball);
        }
        Next::Idle
    }
}
impl Receive<Table, Pong, u64> for Ping {
    fn receive(&mut self, ball: u64, cx: &mut Cx<'_, Table, Self>) {
        if let Some(ball) = self.next(ball) {
            cx.to::<Pong>().send(ball);
        }
    }
}
impl Process<Table> for Pong {}
impl Receive<Table, Ping, u64> for Pong {
    fn receive(&mut self, ball: u64, cx: &mut Cx<'_, Table, Self>) {
        cx.to::<Ping>().send(ball + 1);
    }
}

impl Program for PingPong {
    const NAME: &'static str = "savina: ping-pong";
    const SIZE: u64 = 40_000;
    const SMOKE: u64 = 100;
    type Actor = Player;

    fn messages(size: u64) -> u64 {
        2 * size
    }

    fn expected(size: u64) -> u64 {
        size
    }

    fn actors(size: u64, watch: &Watch) -> Vec<Player> {
        let ping = Ping {
            left: size,
            watch: watch.clone(),
        };
        vec![Player::Ping(ping), Player::Pong(Pong)]
    }

    fn first() -> Vec<(usize, u64)> {
        vec![(0, 0)]
    }

    fn graph(size: u64, workers: usize, watch: &Watch) -> Box<dyn Any> {
        let ping = Ping {
            left: size,
            watch: watch.clone(),
        };
        let builder = Table::builder(ping, Pong);
        let builder = placed::<Self, _, Ping>(builder, 0, 1, workers);
        let builder = placed::<Self, _, Pong>(builder, 1, 1, workers);
        started(builder, workers, watch)
    }
}
