//! Pings that were requested for a time, beside pings of other causes.

use std::time::Duration;

use rast_msgpass::testing::for_each_seed;
use rast_msgpass::timers::Instant;
use rast_msgpass::{Cx, Ingress, Next, Process, Receive, graph};

const SEEDS: u64 = 50;

/// Asks for pings in its handlers and by its pings.
struct Sleeper {
    /// What the first ping returns, and what `on_start` and each message ask for.
    first: Next,
    at_start: Option<u64>,
    pings: Vec<u64>,
}

graph! {
    graph Sleeps {
        processors { sleeper: Sleeper [source] }
        edges { ingress -> sleeper: u64; }
    }
}

impl Process<Sleeps> for Sleeper {
    fn on_start(&mut self, cx: &mut Cx<'_, Sleeps, Self>) {
        if let Some(at) = self.at_start {
            cx.wake_at(Instant::from_nanos(at));
        }
    }

    fn ping(&mut self, cx: &mut Cx<'_, Sleeps, Self>) -> Next {
        self.pings.push(cx.now().as_nanos());
        core::mem::take(&mut self.first)
    }
}
impl Receive<Sleeps, Ingress, u64> for Sleeper {
    fn receive(&mut self, at: u64, cx: &mut Cx<'_, Sleeps, Self>) {
        cx.wake_at(Instant::from_nanos(at));
    }
}

/// Returns the times of pings up to 1 µs.
fn pings(seed: u64, first: Next, at_start: Option<u64>, asked: &[u64]) -> Vec<u64> {
    let sleeper = Sleeper {
        first,
        at_start,
        pings: Vec::new(),
    };
    let mut app = Sleeps::builder(sleeper).test(seed).unwrap();
    app.run_until_idle();
    for &at in asked {
        app.send::<Sleeper, u64>(at).unwrap();
    }
    app.run_for(Duration::from_micros(1));
    app.processor::<Sleeper>(0).pings.clone()
}

#[test]
fn a_ping_of_another_cause_leaves_the_request_for_a_later_one() {
    let at = |nanos| Next::At(Instant::from_nanos(nanos));
    let woken = Next::Woken(Instant::MAX);
    for_each_seed(0..SEEDS, |seed| {
        assert_eq!(pings(seed, Next::Idle, Some(100), &[]), [0, 100]);
        assert_eq!(pings(seed, at(50), None, &[100]), [0, 50, 100]);
        assert_eq!(pings(seed, at(100), None, &[50]), [0, 50]);
        assert_eq!(pings(seed, at(100), None, &[100]), [0, 100]);
        assert_eq!(pings(seed, woken, None, &[100]), [0, 0, 100]);
        // The earliest of several requests counts.
        assert_eq!(pings(seed, Next::Idle, Some(90), &[100, 70, 80]), [0, 70]);
    });
}
