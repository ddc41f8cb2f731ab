//! Scenarios, contenders, and the loop that runs the contenders in turn.
//!
//! A scenario is one piece of work. Every contender does it with the same payload, number of
//! operations, threads, and way of waiting.
//!
//! Each round runs every contender once, and each round begins with a different one. So a slow
//! second of the machine affects all of them, and no contender is always the first. Each round
//! gives one ratio, the rival's time over ours, and the report has the median of the ratios. So
//! changes of the machine from round to round cancel out.

use crate::options::Options;
use crate::quiet::{Quiet, TRIES_MAX};
use crate::stats::Spread;
use crate::workers::Sample;

/// One implementation of a scenario's work.
struct Contender {
    name: &'static str,
    ours: bool,
    run: Box<dyn FnMut(u64) -> Sample>,
}

/// One piece of work and the contenders that do it.
pub struct Scenario {
    layer: &'static str,
    name: &'static str,
    ops: u64,
    smoke_ops: u64,
    rounds_max: usize,
    contenders: Vec<Contender>,
}

impl Scenario {
    /// Names a scenario; a run does about `ops` operations, or `smoke_ops` under `--smoke`.
    pub fn new(layer: &'static str, name: &'static str, ops: u64, smoke_ops: u64) -> Self {
        Self {
            layer,
            name,
            ops,
            smoke_ops,
            rounds_max: usize::MAX,
            contenders: Vec::new(),
        }
    }

    /// Limits the rounds, for work whose run takes seconds. If more are requested, there are
    /// `rounds` of them, without a warm-up.
    pub fn at_most(mut self, rounds: usize) -> Self {
        self.rounds_max = rounds;
        self
    }

    /// Returns `true` if the scenario's name contains `part`, or if there is no `part`.
    pub fn is_named(&self, part: Option<&str>) -> bool {
        part.is_none_or(|part| self.name.contains(part))
    }

    /// Adds one of ours. The rivals are compared with the first one.
    pub fn ours(mut self, name: &'static str, run: impl FnMut(u64) -> Sample + 'static) -> Self {
        self.contenders.push(Contender {
            name,
            ours: true,
            run: Box::new(run),
        });
        self
    }

    /// Adds a rival: from std (always built) or from another crate (built with the rivals).
    pub fn rival(mut self, name: &'static str, run: impl FnMut(u64) -> Sample + 'static) -> Self {
        self.contenders.push(Contender {
            name,
            ours: false,
            run: Box::new(run),
        });
        self
    }
}

/// The results of a contender's rounds.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The contender.
    pub name: &'static str,
    /// Whether it is ours.
    pub ours: bool,
    /// Nanoseconds per successful operation, one per round.
    pub samples: Vec<f64>,
    /// Per round: this contender's time over that of our first one; over 1 means ours is faster.
    pub ratios: Vec<f64>,
    /// Further figures by name, one value per round.
    pub extras: Vec<(&'static str, Vec<f64>)>,
}

impl Figures {
    fn keep(&mut self, sample: &Sample, ratio_to: f64) {
        let ns = sample.ns_per_op();
        self.samples.push(ns);
        self.ratios.push(ns / ratio_to);
        for &(name, value) in &sample.extras {
            match self.extras.iter_mut().find(|extra| extra.0 == name) {
                Some(extra) => extra.1.push(value),
                None => self.extras.push((name, vec![value])),
            }
        }
    }

    /// Nanoseconds per operation.
    pub fn ns(&self) -> Spread {
        Spread::of(self.samples.clone())
    }

    /// The paired ratio.
    pub fn ratio(&self) -> Spread {
        Spread::of(self.ratios.clone())
    }
}

/// The results of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The layer.
    pub layer: &'static str,
    /// The scenario.
    pub name: &'static str,
    /// Requested operations per run.
    pub ops: u64,
    /// Number of rounds that were tried, if only quiet rounds are kept.
    pub tried: Option<usize>,
    /// One per contender, in the order of declaration.
    pub figures: Vec<Figures>,
}

/// Runs a scenario's rounds.
///
/// If no round was quiet, the figures hold no sample.
///
/// # Panics
///
/// If the first contender is not ours, or if a contender does nothing in a run.
pub fn run(mut scenario: Scenario, options: &Options, quiet: &mut Quiet) -> Outcome {
    assert!(
        scenario.contenders.first().is_some_and(|first| first.ours),
        "scenario {}: the first contender is ours, the others are compared with it",
        scenario.name,
    );
    if options.smoke {
        scenario.contenders.retain(|contender| contender.ours);
    }
    let ops = if options.smoke {
        scenario.smoke_ops
    } else {
        scenario.ops
    };
    let count = scenario.contenders.len();
    let mut figures: Vec<Figures> = scenario
        .contenders
        .iter()
        .map(|contender| Figures {
            name: contender.name,
            ours: contender.ours,
            samples: Vec::new(),
            ratios: Vec::new(),
            extras: Vec::new(),
        })
        .collect();
    // Round 0 warms up caches, branch predictors and allocators and does not count.
    let short = options.rounds > scenario.rounds_max;
    let rounds = options.rounds.min(scenario.rounds_max);
    let first_counted = usize::from(!options.smoke && !short);
    let (mut round, mut kept, mut tried) = (0, 0, 0);
    let mut two_threads = false;
    while kept < rounds && tried < TRIES_MAX.max(rounds) {
        let was_quiet = !two_threads || quiet.is_quiet();
        let mut of_round: Vec<Option<Sample>> = vec![None; count];
        for turn in 0..count {
            let index = (round + turn) % count;
            of_round[index] = Some((scenario.contenders[index].run)(ops));
        }
        let of_round: Vec<Sample> = of_round.into_iter().flatten().collect();
        round += 1;
        if round <= first_counted {
            two_threads = of_round.iter().any(|sample| sample.threads == 2);
            continue;
        }
        tried += 1;
        if !was_quiet || two_threads && !quiet.is_quiet() {
            continue;
        }
        kept += 1;
        let first = of_round[0].ns_per_op();
        for (figure, sample) in figures.iter_mut().zip(&of_round) {
            figure.keep(sample, first);
        }
    }
    Outcome {
        layer: scenario.layer,
        name: scenario.name,
        ops,
        tried: two_threads.then_some(tried),
        figures,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::time::Duration;

    fn options(smoke: bool, rounds: usize) -> Options {
        Options {
            smoke,
            rounds,
            ..Options::default()
        }
    }

    fn scenario(log: &Rc<RefCell<String>>) -> Scenario {
        let logged = |mark: char, ns: u64| {
            let log = Rc::clone(log);
            move |ops| {
                log.borrow_mut().push(mark);
                Sample::new(ops, Duration::from_nanos(ns * ops)).with("sent", ns as f64)
            }
        };
        Scenario::new("layer", "name", 100, 10)
            .ours("ours", logged('a', 2))
            .rival("rival", logged('b', 6))
            .rival("other", logged('c', 1))
    }

    #[test]
    fn rounds_interleave_and_rotate() {
        let log = Rc::default();
        let outcome = run(scenario(&log), &options(false, 3), &mut Quiet::new());
        assert_eq!(*log.borrow(), "abcbcacababc");
        assert_eq!(outcome.figures[1].samples, [6.0; 3]);
        assert_eq!(outcome.figures[1].ratio().median, 3.0);
        assert_eq!(outcome.figures[2].ratio().median, 0.5);
        assert_eq!(outcome.figures[1].extras, [("sent", vec![6.0; 3])]);
    }

    #[test]
    fn two_threads_are_measured_in_quiet_rounds_alone() {
        let runs = Rc::new(Cell::new(0));
        let counted = Rc::clone(&runs);
        let scenario = Scenario::new("layer", "name", 100, 10).ours("ours", move |ops| {
            counted.set(counted.get() + 1);
            let mut sample = Sample::new(ops, Duration::from_nanos(ops));
            sample.threads = 2;
            sample
        });
        let outcome = run(scenario, &options(false, 1), &mut Quiet::new());
        let tried = outcome.tried.expect("two threads");
        // The machine decides how many rounds are quiet; each was tried after the warm-up.
        assert_eq!(runs.get(), tried + 1);
        assert!(tried <= TRIES_MAX && outcome.figures[0].samples.len() <= 1);
    }

    #[test]
    fn long_work_runs_few_rounds_without_a_warm_up() {
        let log = Rc::default();
        let outcome = run(
            scenario(&log).at_most(2),
            &options(false, 3),
            &mut Quiet::new(),
        );
        assert_eq!(*log.borrow(), "abcbca");
        assert_eq!(outcome.figures[0].samples.len(), 2);
    }

    #[test]
    fn a_part_of_the_name_selects() {
        let scenario = scenario(&Rc::default());
        assert!(scenario.is_named(None));
        assert!(scenario.is_named(Some("am")));
        assert!(!scenario.is_named(Some("layer")));
    }

    #[test]
    fn smoke_runs_ours_once() {
        let log = Rc::default();
        let outcome = run(scenario(&log), &options(true, 1), &mut Quiet::new());
        assert_eq!(*log.borrow(), "a");
        assert_eq!((outcome.ops, outcome.figures.len()), (10, 1));
    }
}
