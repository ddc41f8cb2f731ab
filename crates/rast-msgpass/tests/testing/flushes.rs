//! Which processors flush in a drain, and how often.

use rast_msgpass::testing::for_each_seed;
use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

const SEEDS: u64 = 50;

/// Sends what it counted whenever it flushes.
#[derive(Default)]
struct Total {
    count: u64,
    flushes: u64,
}

/// In a cycle with itself; sends as often as it is to.
#[derive(Default)]
struct Round {
    rounds: u64,
    flushes: u64,
}

/// In another cycle, and has nothing to send.
#[derive(Default)]
struct Quiet {
    flushes: u64,
}

struct Again;

graph! {
    graph Beside {
        processors { total: Total, round: Round, quiet: Quiet }
        edges {
            ingress -> total: u64;
            total -> egress: u64 [cap = 4];
            ingress -> round: u64;
            round -> round: Again [unbounded];
            ingress -> quiet: u64;
            quiet -> quiet: Again [unbounded];
        }
    }
}

impl Process<Beside> for Total {
    fn flush(&mut self, cx: &mut Cx<'_, Beside, Self>) {
        self.flushes += 1;
        cx.to::<Egress>().send(self.count);
    }
}
impl Process<Beside> for Round {
    fn flush(&mut self, cx: &mut Cx<'_, Beside, Self>) {
        self.flushes += 1;
        if self.rounds > 0 {
            self.rounds -= 1;
            cx.to::<Self>().send(Again);
        }
    }
}
impl Process<Beside> for Quiet {
    fn flush(&mut self, _: &mut Cx<'_, Beside, Self>) {
        self.flushes += 1;
    }
}
impl Receive<Beside, Ingress, u64> for Total {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Beside, Self>) {
        self.count += number;
    }
}
impl Receive<Beside, Ingress, u64> for Round {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Beside, Self>) {
        self.rounds += number;
    }
}
impl Receive<Beside, Ingress, u64> for Quiet {
    fn receive(&mut self, _: u64, _: &mut Cx<'_, Beside, Self>) {}
}
impl<P> Receive<Beside, P, Again> for Round {
    fn receive(&mut self, _: Again, _: &mut Cx<'_, Beside, Self>) {}
}
impl<P> Receive<Beside, P, Again> for Quiet {
    fn receive(&mut self, _: Again, _: &mut Cx<'_, Beside, Self>) {}
}

#[test]
fn only_the_processors_of_a_cycle_flush_again() {
    for_each_seed(0..SEEDS, |seed| {
        let app = Beside::builder(Total::default(), Round::default(), Quiet::default());
        let mut app = app.workers(1 + seed as usize % 2).test(seed).unwrap();
        let totals = app.collect::<Total, u64>(0);
        app.send::<Total, u64>(7).unwrap();
        app.send::<Round, u64>(3).unwrap();
        let report = app.drain().unwrap();
        assert_eq!(totals.take(), [7]);
        assert_eq!(report.take_states::<Beside, Total>()[0].flushes, 1);
        assert_eq!(report.take_states::<Beside, Round>()[0].flushes, 4);
        assert_eq!(report.take_states::<Beside, Quiet>()[0].flushes, 1);
    });
}
