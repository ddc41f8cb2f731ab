//! Testing a processor: alone, with a clock that the test moves, and in its graph, in many orders
//! of events.
//!
//! `cargo run --example testing --features testing`
//!
//! In a program of one's own, what `main` calls here are functions under `#[test]`, and the
//! feature `testing` is enabled under `[dev-dependencies]`.

use std::collections::VecDeque;
use std::time::Duration;

use rast::msgpass::testing::{TestCx, for_each_seed};
use rast::msgpass::{Cx, Egress, Ingress, Process, Receive, Timer, graph};

/// At most so many jobs pass in a window.
const MOST: usize = 2;
const WINDOW: Duration = Duration::from_millis(10);

struct Job(u32);
#[derive(Clone, Debug, PartialEq)]
struct Passed(u32);
/// A window has ended.
struct Tick;

graph! {
    graph App {
        processors { throttle: Throttle }
        edges {
            ingress -> throttle: Job;
            throttle -> egress: Passed [burst = 2];
        }
    }
}

#[derive(Default)]
struct Throttle {
    passed: usize,
    waiting: VecDeque<u32>,
}
impl Process<App> for Throttle {}
impl Receive<App, Ingress, Job> for Throttle {
    fn receive(&mut self, Job(number): Job, cx: &mut Cx<'_, App, Self>) {
        if self.passed == 0 {
            cx.after(WINDOW, Tick);
        }
        if self.passed < MOST {
            self.passed += 1;
            cx.to::<Egress>().send(Passed(number));
        } else {
            self.waiting.push_back(number);
        }
    }
}
impl Receive<App, Timer, Tick> for Throttle {
    fn receive(&mut self, _: Tick, cx: &mut Cx<'_, App, Self>) {
        self.passed = self.waiting.len().min(MOST);
        if self.passed > 0 {
            cx.after(WINDOW, Tick);
        }
        for number in self.waiting.drain(..self.passed) {
            cx.to::<Egress>().send(Passed(number));
        }
    }
}

/// The processor without a graph around it: exact times, no threads.
fn two_pass_in_each_window() {
    let mut throttle = TestCx::<App, Throttle>::new(Throttle::default());
    (0..5).for_each(|number| throttle.receive::<Ingress, Job>(Job(number)));
    assert_eq!(throttle.sent::<Egress, Passed>(), [Passed(0), Passed(1)]);
    throttle.advance(Duration::from_millis(9));
    assert_eq!(throttle.sent::<Egress, Passed>(), []);
    throttle.advance(Duration::from_millis(1));
    assert_eq!(throttle.sent::<Egress, Passed>(), [Passed(2), Passed(3)]);
    throttle.advance(WINDOW);
    assert_eq!(throttle.sent::<Egress, Passed>(), [Passed(4)]);
    throttle.advance(WINDOW);
    assert_eq!(throttle.next_alarm(), None, "an idle throttle has no timer");
}

/// The graph, as it runs on threads, on this one: a seed decides whose turn it is. A seed that
/// fails is printed, and `RAST_SEED=17` repeats it.
fn nothing_is_lost_or_overtaken(seed: u64) {
    let mut app = App::builder(Throttle::default())
        .test(seed)
        .expect("a valid graph");
    app.feed::<Throttle, Job>((0..20).map(Job));
    let passed = app.collect::<Throttle, Passed>(0);
    app.run_for(20 * WINDOW);
    assert_eq!(passed.take(), (0..20).map(Passed).collect::<Vec<_>>());
}

fn main() {
    two_pass_in_each_window();
    for_each_seed(0..1_000, nothing_is_lost_or_overtaken);
    println!("1 case and 1,000 seeds passed");
}
