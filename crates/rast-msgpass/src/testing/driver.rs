//! What gives the turns of a [`TestGraph`](super::TestGraph), without the type of the graph.

use std::collections::VecDeque;
use std::panic::resume_unwind;

use super::outside::Outside;
use super::seed::share;
use crate::drain::{Drain, DrainError};
use crate::ending::EndedBy;
use crate::graph::{EdgeInfo, End};
use crate::handle::Run;
use crate::instance_core::Core;
use crate::primitive::Random;
use crate::primitive::sync::{Arc, Mutex};
use crate::report::Report;
use crate::runtime::Runtime;
use crate::sharder::{ShardId, Stepper};
use crate::shared::Shared;
use crate::timers::{Clock, Instant, ManualClock, Nanos};
use crate::trial::{Failed, Fault, Watch};

/// The most steps of one call: a graph that is never idle fails its test.
pub(super) const MOST: u64 = 1_000_000;

/// Turns that are kept for the text of a failed test.
const KEPT: usize = 16;

/// A turn that was given.
#[derive(Clone, Copy, Debug)]
struct Turn {
    shard: usize,
    batch: u32,
}

/// What gives the turns.
pub(crate) struct Driver {
    /// `None` once the graph has ended.
    stepper: Option<Stepper<Runtime>>,
    pub(super) shared: Arc<Shared>,
    pub(super) clock: ManualClock,
    pub(super) seed: u64,
    random: Random,
    /// Per processor: the most messages of a turn.
    batches: Vec<u32>,
    /// Per shard.
    pub(super) is_paused: Vec<bool>,
    pub(super) outside: Vec<Box<dyn Outside>>,
    failed: Failed,
    pub(super) steps: u64,
    pub(super) turns: u64,
    last: VecDeque<Turn>,
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        stepper: Stepper<Runtime>,
        clock: ManualClock,
        batches: Vec<u32>,
        seed: u64,
    ) -> Self {
        Self {
            is_paused: vec![false; shared.stats.len()],
            stepper: Some(stepper),
            shared,
            clock,
            seed,
            random: Random::new(seed),
            batches,
            outside: Vec::new(),
            failed: Failed::default(),
            steps: 0,
            turns: 0,
            last: VecDeque::with_capacity(KEPT),
        }
    }

    pub(super) fn stepper(&mut self) -> &mut Stepper<Runtime> {
        let stepper = self.stepper.as_mut();
        stepper.expect("the graph runs until `drain` or `stop` takes it")
    }

    /// Returns what a test may change of an instance.
    pub(super) fn core(&mut self, shard: ShardId) -> &mut Core {
        self.stepper().shard(shard).core()
    }

    /// Lets one instance, or something outside, act; returns `false` if none has anything to do.
    pub(super) fn step(&mut self) -> bool {
        self.stepper().look();
        let mut choices: Vec<Choice> = Vec::new();
        let (paused, stepper) = (&self.is_paused, self.stepper.as_ref());
        if let Some(stepper) = stepper.filter(|stepper| !stepper.handle().is_stopping()) {
            let ready = stepper.ready().filter(|shard| !paused[shard.index()]);
            choices.extend(ready.map(Choice::Instance));
        }
        let outside = self.outside.iter_mut().enumerate();
        let ready = outside.filter_map(|(at, outside)| outside.is_ready().then_some(at));
        choices.extend(ready.map(Choice::Outside));
        if choices.is_empty() {
            return false;
        }
        self.steps += 1;
        match choices[self.random.below(choices.len())] {
            Choice::Instance(shard) => self.turn(shard),
            Choice::Outside(at) => self.outside[at].act(&mut self.random),
        }
        true
    }

    fn turn(&mut self, shard: ShardId) {
        let (node, _) = self.shared.instance(shard.index());
        let batch = share(&mut self.random, self.batches[node]);
        self.turns += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        let index = shard.index();
        self.last.push_back(Turn {
            shard: index,
            batch,
        });
        let stepper = self.stepper();
        stepper.shard(shard).limit_batch(batch);
        stepper.turn(shard);
        self.outside.iter_mut().for_each(|outside| outside.retry());
        self.fail();
    }

    /// Moves the clock to the next restart, if a processor that is not paused waits for one.
    fn wait_for_restart(&mut self) -> bool {
        let mut next: Option<Instant> = None;
        for shard in 0..self.is_paused.len() {
            let at = self
                .stepper()
                .shard(ShardId::from_index(shard))
                .restarts_at();
            if let Some(at) = at.filter(|_| !self.is_paused[shard]) {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        let Some(at) = next.filter(|&at| at > self.clock.now()) else {
            return false;
        };
        self.clock.set(at);
        true
    }

    /// Resumes the panic of a watch, if there was one.
    fn fail(&self) {
        let failed = self.failed.lock().take();
        if let Some(payload) = failed {
            resume_unwind(payload);
        }
    }

    pub(super) fn run_until_idle(&mut self) {
        let first = self.steps;
        while self.step() {
            assert!(
                self.steps - first < MOST,
                "graph `{}` was not idle after {MOST} steps; use `steps` or `run_until` where a \
                 processor asks for `Next::Again`. The last turns were: {}",
                self.shared.graph,
                self.last(),
            );
        }
    }

    /// Names the last turns.
    pub(super) fn last(&self) -> String {
        let turn = |turn: &Turn| {
            let (node, replica) = self.shared.instance(turn.shard);
            let (name, batch) = (self.shared.processors[node].name, turn.batch);
            format!("{name}[{replica}] up to {batch}")
        };
        let turns: Vec<String> = self.last.iter().map(turn).collect();
        turns.join(", ")
    }

    pub(super) fn advance(&mut self, span: Nanos) {
        self.clock.advance(span);
        self.stepper().look();
    }

    pub(super) fn run_for(&mut self, span: Nanos) {
        let end = self.clock.now().saturating_add(span);
        loop {
            self.run_until_idle();
            match self.stepper().next_alarm() {
                // A graph that was stopped has no further turn.
                Some(at) if at <= end && !self.stepper().handle().is_stopping() => {
                    self.clock.set(at)
                }
                _ => break,
            }
        }
        self.clock.set(end);
        self.run_until_idle();
    }

    /// Runs until every accepted message was handled, and ends the graph.
    pub(super) fn drain(&mut self, run: &mut Run) -> Result<Report, DrainError> {
        run.shared.ending.note(EndedBy::Drain);
        let (first, mut was_idle) = (self.steps, false);
        let mut pause = || {
            // Without a step it looks once more: the last one may have been what was waited for.
            let is_idle = !self.step() && !self.wait_for_restart();
            let goes_on = !(is_idle && was_idle) && self.steps - first < MOST;
            was_idle = is_idle;
            goes_on
        };
        let stages = run.stages();
        let mut drain = Drain {
            view: &run.view,
            pause: &mut pause,
        };
        let settled = drain.settle(&stages);
        let blocked = match settled {
            Ok(()) => None,
            Err(_) => drain.blocked(&stages, |edge, lane| run.is_unrequested(edge, lane)),
        };
        self.end(run, EndedBy::Drain);
        run.drained(settled, blocked)
    }

    /// Gives a turn to an instance; returns `true` if it had one.
    pub(super) fn turn_of(&mut self, shard: ShardId) -> bool {
        self.stepper().look();
        let had_one = !self.is_paused[shard.index()] && self.stepper().turn(shard);
        self.fail();
        had_one
    }

    /// Gives turns to the other instances until they are idle.
    pub(super) fn turns_of_others(&mut self, shard: ShardId) {
        self.stepper().look();
        while !self.stepper().handle().is_stopping() {
            let paused = &self.is_paused;
            let ready = self.stepper.iter().flat_map(Stepper::ready);
            let mut others = ready.filter(|&other| other != shard && !paused[other.index()]);
            let other = others.next();
            drop(others);
            let Some(other) = other else {
                return;
            };
            self.stepper().turn(other);
            self.fail();
        }
    }

    /// Ends the graph, unless it has ended.
    pub(super) fn end(&mut self, run: &mut Run, by: EndedBy) {
        let Some(stepper) = self.stepper.take() else {
            return;
        };
        run.end_by_hand(by, stepper);
        if by == EndedBy::Dropped {
            // No report takes the processors.
            run.drop_states();
        }
        for mut outside in core::mem::take(&mut self.outside) {
            let unsent = "the destructor of an unsent message";
            run.shared.contained(unsent, || outside.end());
            run.shared.contained(unsent, || drop(outside));
        }
    }

    pub(super) fn add_watch(&mut self, edge: usize, watch: &Watch) {
        let EdgeInfo { from, to, .. } = self.shared.edges[edge];
        // Where it is seen.
        let end = if to == End::Egress { from } else { to };
        let failed = Arc::clone(&self.failed);
        for shard in self.shards(end) {
            let trial = self.core(shard).trial();
            trial.watches.push((edge, Arc::clone(watch)));
            trial.failed = Arc::clone(&failed);
        }
    }

    /// Prints how to repeat what it did.
    pub(super) fn say_last(&self) {
        eprintln!(
            "the test graph `{}` had the seed {} and {} turns, the last of them: {}",
            self.shared.graph,
            self.seed,
            self.turns,
            self.last()
        );
    }

    pub(super) fn add_faults(
        &mut self,
        shards: &[ShardId],
        edge: Option<usize>,
        nth: u64,
        text: &str,
    ) {
        assert!(nth > 0, "messages are counted from 1");
        let left = Arc::new(Mutex::new(nth));
        for &shard in shards {
            let fault = Fault {
                edge,
                left: Arc::clone(&left),
                text: text.to_owned(),
            };
            self.core(shard).trial().faults.push(fault);
        }
    }

    /// Returns the shards of an end.
    pub(super) fn shards(&self, end: End) -> Vec<ShardId> {
        let shards = end.processor().map(|node| self.shared.shards_of(node));
        shards
            .into_iter()
            .flatten()
            .map(ShardId::from_index)
            .collect()
    }
}

#[derive(Clone, Copy)]
enum Choice {
    Instance(ShardId),
    Outside(usize),
}
