//! Scenarios, contenders, and the loop that interleaves them.
//!
//! A scenario is one piece of work, done by every contender with the same payload, the same
//! number of operations, the same threads and the same way of waiting.
//! Each round runs every contender once, beginning with another one each time, so that a slow
//! second of the machine falls on all of them and no place in the order is privileged.
//! A ratio is taken inside a round, rival over ours, and only then its median over the rounds: the
//! drift between rounds cancels out.

use crate::options::Options;
use crate::stats::Spread;
use crate::workers::Sample;

/// One implementation of a scenario's work.
struct Contender {
    name: &'static str,
    ours: bool,
    run: Box<dyn FnMut(u64) -> Sample>,
}

/// One piece of work and those who do it.
pub struct Scenario {
    layer: &'static str,
    name: &'static str,
    ops: u64,
    smoke_ops: u64,
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
            contenders: Vec::new(),
        }
    }

    /// Adds one of ours; the first one is what the rivals are compared with.
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

/// What a contender's rounds came to.
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
}

impl Figures {
    /// Nanoseconds per operation.
    pub fn ns(&self) -> Spread {
        Spread::of(self.samples.clone())
    }

    /// The paired ratio.
    pub fn ratio(&self) -> Spread {
        Spread::of(self.ratios.clone())
    }
}

/// What a scenario came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The layer.
    pub layer: &'static str,
    /// The scenario.
    pub name: &'static str,
    /// Operations asked for in a run.
    pub ops: u64,
    /// One per contender, in the order of declaration.
    pub figures: Vec<Figures>,
}

/// Runs a scenario's rounds.
///
/// # Panics
///
/// If the first contender is not ours, or if a contender does nothing in a run.
pub fn run(mut scenario: Scenario, options: &Options) -> Outcome {
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
        })
        .collect();
    // Round 0 warms up caches, branch predictors and allocators and does not count.
    let first_counted = usize::from(!options.smoke);
    for round in 0..options.rounds + first_counted {
        let mut of_round = vec![0.0; count];
        for turn in 0..count {
            let index = (round + turn) % count;
            of_round[index] = (scenario.contenders[index].run)(ops).ns_per_op();
        }
        if round < first_counted {
            continue;
        }
        for (figure, &ns) in figures.iter_mut().zip(&of_round) {
            figure.samples.push(ns);
            figure.ratios.push(ns / of_round[0]);
        }
    }
    Outcome {
        layer: scenario.layer,
        name: scenario.name,
        ops,
        figures,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    fn options(smoke: bool, rounds: usize) -> Options {
        Options {
            layer: None,
            smoke,
            rounds,
            json: None,
        }
    }

    fn scenario(log: &Rc<RefCell<String>>) -> Scenario {
        let logged = |mark: char, ns: u64| {
            let log = Rc::clone(log);
            move |ops| {
                log.borrow_mut().push(mark);
                Sample {
                    done: ops,
                    elapsed: Duration::from_nanos(ns * ops),
                }
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
        let outcome = run(scenario(&log), &options(false, 3));
        assert_eq!(*log.borrow(), "abcbcacababc");
        assert_eq!(outcome.figures[1].samples, [6.0; 3]);
        assert_eq!(outcome.figures[1].ratio().median, 3.0);
        assert_eq!(outcome.figures[2].ratio().median, 0.5);
    }

    #[test]
    fn smoke_runs_ours_once() {
        let log = Rc::default();
        let outcome = run(scenario(&log), &options(true, 1));
        assert_eq!(*log.borrow(), "a");
        assert_eq!((outcome.ops, outcome.figures.len()), (10, 1));
    }
}
