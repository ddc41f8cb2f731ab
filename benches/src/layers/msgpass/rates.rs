//! One hop and three hops at a fixed rate: the times from the planned sends to the last handler.
//!
//! The loop is open: message `n` is planned at `n` intervals after the start. Its time counts from
//! the planned instant, even if it was sent later. So if a contender falls behind, its times
//! include the wait of messages that were not sent yet.
//!
//! Each scenario compares the graph of this project ("ours") with one rival. Before the first run
//! it measures the peak rate of both, by 500,000 messages that are sent at once. Then both get
//! messages at half of the lower peak rate.
//!
//! Every contender uses two processors of the machine. Ours has one worker on each. The source is
//! on the first worker, and the receivers of all hops are on the other one. A rival has a sending
//! thread on the first processor. The second processor runs the rival's runtime, which has one
//! thread. If a rival has no runtime, the second processor runs one thread per hop.
//!
//! Runs are short, because the host takes a processor away for some milliseconds, several times per
//! second. A long run would contain such a pause, which would determine its p99. The first fifth of
//! the messages of a run is not recorded.
//!
//! The processor time is that of the whole process. It includes the source, which always spins.

use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rast::msgpass::{Cx, Next, Process, Receive, graph};

use super::LAYER;
use super::actors::{Actor, Peers, Rival, Threads};
use super::savina::watch::{Watch, watch};
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::processors;
use crate::usage::processor_time;
use crate::workers::Sample;

/// Messages that a ping sends at most.
const BURST: u64 = 64;

/// Messages of a run that measures the peak.
const PEAK: u64 = 500_000;

/// The time from the start of the source to the first planned message. The other threads have
/// started by then.
const LEAD: Duration = Duration::from_millis(5);

/// When message `n` is planned, in nanoseconds.
#[derive(Clone)]
struct Plan {
    interval_ns: f64,
    count: u64,
    watch: Watch,
}

impl Plan {
    fn planned(&self, number: u64) -> u64 {
        planned(number, self.interval_ns)
    }

    fn now(&self) -> u64 {
        let start = self.watch.began() + LEAD;
        Instant::now().saturating_duration_since(start).as_nanos() as u64
    }
}

fn planned(number: u64, interval_ns: f64) -> u64 {
    (number as f64 * interval_ns) as u64
}

/// Where the messages end.
struct Last {
    plan: Plan,
    left: u64,
    /// Messages that are recorded; those before them warm up.
    recorded: u64,
    times: Histogram,
    whole: Arc<Mutex<Histogram>>,
}

impl Last {
    #[inline]
    fn take(&mut self, planned: u64) {
        if self.left <= self.recorded {
            self.times.record(self.plan.now().saturating_sub(planned));
        }
        self.left -= 1;
        if self.left == 0 {
            let times = std::mem::take(&mut self.times);
            *self.whole.lock().expect("no panic") = times;
            self.plan.watch.part(0);
        }
    }
}

/// The actors of a rival: those that pass messages on, and the last one.
enum Member {
    Relay(usize),
    Last(Box<Last>),
}

impl Actor for Member {
    type Message = u64;

    #[inline]
    fn handle(&mut self, planned: u64, to: &impl Peers<u64>) {
        match self {
            Self::Relay(next) => to.send(*next, planned),
            Self::Last(last) => last.take(planned),
        }
    }
}

/// The source of the graphs.
struct Source {
    plan: Plan,
    next: u64,
}

impl Source {
    /// The planned times of the messages that are due, at most a burst.
    #[inline]
    fn due(&mut self) -> impl Iterator<Item = u64> {
        self.plan.watch.begin();
        let (first, now, interval_ns) = (self.next, self.plan.now(), self.plan.interval_ns);
        let is_due = |number: &u64| planned(*number, interval_ns) <= now;
        let end = (first + BURST).min(self.plan.count);
        self.next += (first..end).take_while(is_due).count() as u64;
        (first..self.next).map(move |number| planned(number, interval_ns))
    }

    fn then(&self) -> Next {
        match self.next < self.plan.count {
            true => Next::Again,
            false => Next::Idle,
        }
    }
}

mod one {
    use super::*;

    graph! {
        graph One {
            processors { source: Source [source], last: Last }
            edges { source -> last: u64 [cap = 1024, burst = BURST as usize]; }
        }
    }

    impl Process<One> for Source {
        fn ping(&mut self, cx: &mut Cx<'_, One, Self>) -> Next {
            for planned in self.due() {
                cx.to::<Last>().send(planned);
            }
            self.then()
        }
    }
    impl Process<One> for Last {}
    impl Receive<One, Source, u64> for Last {
        #[inline]
        fn receive(&mut self, planned: u64, _: &mut Cx<'_, One, Self>) {
            self.take(planned);
        }
    }

    pub(super) fn start(source: Source, last: Last) -> Box<dyn Any> {
        let builder = One::builder(source, last).workers(2).pin_threads();
        let builder = builder.pin::<Source>(0, 0).pin::<Last>(0, 1);
        Box::new(builder.start().expect("a valid graph"))
    }
}

mod three {
    use super::*;

    graph! {
        graph Three {
            processors { source: Source [source], first: First, second: Second, last: Last }
            edges {
                source -> first: u64 [cap = 1024, burst = BURST as usize];
                first -> second: u64 [cap = 1024];
                second -> last: u64 [cap = 1024];
            }
        }
    }

    struct First;
    struct Second;

    impl Process<Three> for Source {
        fn ping(&mut self, cx: &mut Cx<'_, Three, Self>) -> Next {
            for planned in self.due() {
                cx.to::<First>().send(planned);
            }
            self.then()
        }
    }
    impl Process<Three> for First {}
    impl Receive<Three, Source, u64> for First {
        #[inline]
        fn receive(&mut self, planned: u64, cx: &mut Cx<'_, Three, Self>) {
            cx.to::<Second>().send(planned);
        }
    }
    impl Process<Three> for Second {}
    impl Receive<Three, First, u64> for Second {
        #[inline]
        fn receive(&mut self, planned: u64, cx: &mut Cx<'_, Three, Self>) {
            cx.to::<Last>().send(planned);
        }
    }
    impl Process<Three> for Last {}
    impl Receive<Three, Second, u64> for Last {
        #[inline]
        fn receive(&mut self, planned: u64, _: &mut Cx<'_, Three, Self>) {
            self.take(planned);
        }
    }

    pub(super) fn start(source: Source, last: Last) -> Box<dyn Any> {
        let builder = Three::builder(source, First, Second, last)
            .workers(2)
            .pin_threads();
        let builder = builder.pin::<Source>(0, 0).pin::<First>(0, 1);
        let builder = builder.pin::<Second>(0, 1).pin::<Last>(0, 1);
        Box::new(builder.start().expect("a valid graph"))
    }
}

/// Runs a contender with a number of messages, a number of hops and an interval.
type Run = fn(hops: usize, count: u64, interval_ns: f64) -> Sample;

/// Measures a run: its sample has the time per message and the percentiles.
fn measured(
    count: u64,
    interval_ns: f64,
    run: impl FnOnce(Plan, Last, &dyn Fn() -> Sample) -> Sample,
) -> Sample {
    let (watch, end) = watch(1);
    let whole = Arc::new(Mutex::new(Histogram::new()));
    let plan = Plan {
        interval_ns,
        count,
        watch,
    };
    let last = Last {
        plan: plan.clone(),
        left: count,
        recorded: count - count / 5,
        times: Histogram::new(),
        whole: Arc::clone(&whole),
    };
    let before = processor_time();
    let sample = run(plan, last, &|| end.wait(count, 0));
    let taken = (processor_time() - before).as_secs_f64();
    let times = whole.lock().expect("no panic");
    let percentiles = [
        ("p50 ns", 0.5),
        ("p99 ns", 0.99),
        ("p99.9 ns", 0.999),
        ("p99.99 ns", 0.9999),
    ];
    let sample = sample
        .by(2)
        .judged_by(times.quantile(0.99))
        .with("processor time per message, ns", taken * 1e9 / count as f64);
    percentiles
        .into_iter()
        .fold(sample, |sample, (name, share)| {
            sample.with(name, times.quantile(share))
        })
}

fn ours(hops: usize, count: u64, interval_ns: f64) -> Sample {
    measured(count, interval_ns, |plan, last, wait| {
        let source = Source { plan, next: 0 };
        let running = match hops {
            1 => one::start(source, last),
            _ => three::start(source, last),
        };
        let sample = wait();
        drop(running);
        sample
    })
}

fn theirs<R: Rival>(hops: usize, count: u64, interval_ns: f64) -> Sample {
    let processors = processors::allowed();
    let pin_to = |index: usize| {
        if let Some(&processor) = processors.get(index) {
            processors::pin_to(processor);
        }
    };
    let run = || {
        // The threads of the rival inherit the processor of the thread that starts them.
        pin_to(1);
        measured(count, interval_ns, |plan, last, wait| {
            let mut actors: Vec<Member> = (1..hops).map(Member::Relay).collect();
            actors.push(Member::Last(Box::new(last)));
            R::run(actors, &vec![0; hops], 1, |peers| {
                pin_to(0);
                plan.watch.begin();
                for number in 0..plan.count {
                    let planned = plan.planned(number);
                    while plan.now() < planned {
                        std::hint::spin_loop();
                    }
                    peers.send(0, planned);
                }
                wait()
            })
        })
    };
    std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
}

/// Messages per nanosecond if all are sent at once.
fn peak(run: Run, hops: usize) -> f64 {
    let sample = run(hops, PEAK, 0.0);
    sample.done as f64 / sample.elapsed.as_nanos() as f64
}

/// The scenario of ours and one rival.
fn row<R: Rival>(name: &'static str, hops: usize) -> Scenario {
    // The interval, once both peaks are known.
    let interval = Rc::new(Cell::new(None));
    let at_half = move |run: Run| {
        let interval = Rc::clone(&interval);
        move |count| {
            let interval_ns = interval.get().unwrap_or_else(|| {
                let lower = peak(ours, hops).min(peak(theirs::<R>, hops));
                interval.set(Some(2.0 / lower));
                2.0 / lower
            });
            run(hops, count, interval_ns).with("messages per second", 1e9 / interval_ns)
        }
    };
    Scenario::new(LAYER, name, 50_000, 1000)
        .ours("rast graph", at_half(ours))
        .rival(R::NAME, at_half(theirs::<R>))
}

/// The scenarios.
pub(super) fn scenarios() -> Vec<Scenario> {
    let threads = [
        row::<Threads>("rates: one hop, beside threads", 1),
        row::<Threads>("rates: three hops, beside threads", 3),
    ];
    #[cfg(not(all(rast_rivals, feature = "rivals")))]
    let others = [];
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let others = {
        use super::actors::{Actix, Kameo, Ractor, Tasks};
        [
            row::<Actix>("rates: one hop, beside actix", 1),
            row::<Ractor>("rates: one hop, beside ractor", 1),
            row::<Kameo>("rates: one hop, beside kameo", 1),
            row::<Tasks>("rates: one hop, beside tokio", 1),
            row::<Actix>("rates: three hops, beside actix", 3),
            row::<Ractor>("rates: three hops, beside ractor", 3),
            row::<Kameo>("rates: three hops, beside kameo", 3),
            row::<Tasks>("rates: three hops, beside tokio", 3),
        ]
    };
    threads.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_of_a_rate_arrives() {
        for hops in [1, 3] {
            for run in [ours as Run, theirs::<Threads>] {
                let sample = run(hops, 2000, 1000.0);
                assert_eq!(sample.done, 2000);
            }
        }
    }
}
