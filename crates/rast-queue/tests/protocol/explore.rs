//! Visits every state of a model, in breadth, so that the first fault found has the shortest trace.
//!
//! Visited states are kept as fingerprints of 128 bits. The edges are kept too, because two questions are about the
//! graph and not about a state:
//!
//! - Lock-freedom. An operation that is finished never comes back, so a cycle is an execution in which some threads
//!   step for ever and none finishes anything. A finite graph without one is a protocol that, with any threads stopped
//!   anywhere, lets the others finish. The longest path bounds the steps of all threads together.
//! - A thread alone. From each state, each thread by itself reaches the end of its operation; the longest of these
//!   runs is reported.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::{BuildHasherDefault, Hasher};

use super::machine::Model;
use super::probe::Prober;
use super::state::{At, POOL, State, THREADS};

const NOWHERE: u32 = u32::MAX;

/// How to explore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// More states than this end the exploration with a fault.
    pub(crate) states: usize,
    /// Only schedules with at most so many switches away from a thread inside of an operation.
    pub(crate) preemptions: Option<u8>,
    /// Drains and polls where at most one thread is inside of an operation.
    pub(crate) probes: bool,
}

/// What an exploration without a fault saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) edges: usize,
    pub(crate) probes: usize,
    /// The longest path from the beginning to an end.
    pub(crate) longest: u32,
    /// The longest run of one thread alone to the end of its operation.
    pub(crate) alone: u32,
    /// How far the indices went past the slots.
    pub(crate) tail_over: u8,
    pub(crate) head_over: u8,
    /// Times that an address was given to the queue again.
    pub(crate) recycled: u8,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "states={} edges={} probes={} longest={} alone={} over tail={} head={} retired={}",
            self.states,
            self.edges,
            self.probes,
            self.longest,
            self.alone,
            self.tail_over,
            self.head_over,
            self.recycled
        )
    }
}

/// A fault, and the shortest way to it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) what: String,
    pub(crate) trace: String,
    pub(crate) steps: usize,
    pub(crate) states: usize,
}

#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are fingerprints");
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A state, and what a bound on preemptions needs to know of the way to it.
#[derive(Clone, Copy)]
struct Node {
    id: u32,
    state: State,
    last: u8,
    preemptions: u8,
}

pub(crate) struct Explorer<'a> {
    model: &'a Model,
    limits: Limits,
    prober: Prober,
    /// The steps before the first state.
    prologue: Vec<usize>,
    ids: HashMap<u128, u32, BuildHasherDefault<Identity>>,
    /// By state: where it was first reached from, and by whom.
    origins: Vec<(u32, u8)>,
    /// By state: where each thread leads, and whether that step finished its operation.
    steps: Vec<[u32; THREADS]>,
    finishing: Vec<u8>,
    explored: Explored,
}

/// Explores `model`; a fault is what the protocol promises not to do.
pub(crate) fn explore(model: &Model, limits: Limits) -> Result<Explored, Fault> {
    let mut explorer = Explorer {
        model,
        limits,
        prober: Prober::new(model),
        prologue: Vec::new(),
        ids: HashMap::default(),
        origins: Vec::new(),
        steps: Vec::new(),
        finishing: Vec::new(),
        explored: Explored::default(),
    };
    explorer.visit_all()?;
    explorer.judge_graph()?;
    Ok(explorer.explored)
}

impl Explorer<'_> {
    fn visit_all(&mut self) -> Result<(), Fault> {
        let mut state = State::new(self.model.slots);
        while state.threads[0].operation < self.model.prologue {
            self.prologue.push(0);
            if let Err(what) = self.model.step(&mut state, 0) {
                return Err(self.fault(what, NOWHERE, None));
            }
        }
        let mut level = Vec::new();
        self.meet(state, u8::MAX, 0, (NOWHERE, 0), &mut level);
        while !level.is_empty() {
            let mut next = Vec::new();
            for node in &level {
                self.expand(node, &mut next)?;
            }
            level = next;
        }
        self.explored.states = self.origins.len();
        Ok(())
    }

    fn expand(&mut self, node: &Node, next: &mut Vec<Node>) -> Result<(), Fault> {
        if self.limits.probes {
            match self.prober.probe(&node.state) {
                Ok(made) => self.explored.probes += usize::from(made),
                Err(what) => return Err(self.fault(what, node.id, None)),
            }
        }
        for thread in 0..self.model.threads() {
            if self.model.is_done(&node.state, thread) {
                continue;
            }
            let mut preemptions = node.preemptions;
            if let Some(most) = self.limits.preemptions {
                let last = usize::from(node.last);
                if last < THREADS && last != thread && node.state.threads[last].at != At::Begin {
                    preemptions += 1;
                }
                if preemptions > most {
                    continue;
                }
            }
            let mut state = node.state;
            let stepped = self.model.step(&mut state, thread);
            if let Err(what) = stepped.and_then(|()| self.model.check_bounds(&state)) {
                return Err(self.fault(what, node.id, Some(thread)));
            }
            let finishes = state.threads[thread].operation != node.state.threads[thread].operation;
            let id = self.meet(
                state,
                thread as u8,
                preemptions,
                (node.id, thread as u8),
                next,
            );
            self.steps[node.id as usize][thread] = id;
            self.finishing[node.id as usize] |= u8::from(finishes) << thread;
            self.explored.edges += 1;
            if self.origins.len() > self.limits.states {
                let what = format!("more than {} states", self.limits.states);
                return Err(self.fault(what, id, None));
            }
        }
        Ok(())
    }

    /// The number of a state; a new one is to be expanded.
    fn meet(
        &mut self,
        state: State,
        last: u8,
        preemptions: u8,
        origin: (u32, u8),
        next: &mut Vec<Node>,
    ) -> u32 {
        let mut key = state.fingerprint();
        if self.limits.preemptions.is_some() {
            key ^= u128::from(last) << 64 | u128::from(preemptions) << 72;
        }
        let id = self.origins.len() as u32;
        let known = *self.ids.entry(key).or_insert(id);
        if known != id {
            return known;
        }
        let explored = &mut self.explored;
        explored.tail_over = explored
            .tail_over
            .max(state.tail.index.saturating_sub(self.model.slots));
        explored.head_over = explored
            .head_over
            .max(state.head.index.saturating_sub(self.model.slots));
        explored.recycled = explored.recycled.max(state.retired);
        self.origins.push(origin);
        self.steps.push([NOWHERE; THREADS]);
        self.finishing.push(0);
        next.push(Node {
            id,
            state,
            last,
            preemptions,
        });
        id
    }

    /// Cycles, the longest path, and the runs of one thread alone.
    fn judge_graph(&mut self) -> Result<(), Fault> {
        let count = self.steps.len();
        let mut incoming = vec![0_u8; count];
        for &to in self.steps.iter().flatten().filter(|&&to| to != NOWHERE) {
            // A state has few predecessors: at most a handful per thread, each by one step.
            incoming[to as usize] = incoming[to as usize]
                .checked_add(1)
                .expect("few predecessors");
        }
        let mut order = Vec::with_capacity(count);
        order.push(0_u32);
        let mut at = 0;
        while at < order.len() {
            for &to in self.steps[order[at] as usize]
                .iter()
                .filter(|&&to| to != NOWHERE)
            {
                incoming[to as usize] -= 1;
                if incoming[to as usize] == 0 {
                    order.push(to);
                }
            }
            at += 1;
        }
        if let Some(stuck) = incoming.iter().position(|&left| left != 0) {
            let what = "threads can step for ever without finishing anything".into();
            return Err(self.fault(what, stuck as u32, None));
        }
        let mut longest = vec![0_u32; count];
        let mut alone = vec![[0_u32; THREADS]; count];
        for &id in order.iter().rev() {
            let id = id as usize;
            for (thread, &to) in self.steps[id].iter().enumerate() {
                if to == NOWHERE {
                    continue;
                }
                longest[id] = longest[id].max(longest[to as usize] + 1);
                let finishes = self.finishing[id] >> thread & 1 != 0;
                let rest = if finishes {
                    0
                } else {
                    alone[to as usize][thread]
                };
                alone[id][thread] = rest + 1;
                self.explored.alone = self.explored.alone.max(rest + 1);
            }
        }
        self.explored.longest = longest[0];
        Ok(())
    }

    /// The way to state `id`, with the step that failed after it.
    fn fault(&self, what: String, id: u32, failing: Option<usize>) -> Fault {
        let mut way = Vec::new();
        let mut at = id;
        while at != NOWHERE {
            let (from, thread) = self.origins[at as usize];
            way.extend((from != NOWHERE).then_some(usize::from(thread)));
            at = from;
        }
        way.extend(self.prologue.iter().rev());
        way.reverse();
        way.extend(failing);
        Fault {
            trace: trace(self.model, &way),
            steps: way.len(),
            states: self.origins.len(),
            what,
        }
    }
}

/// A schedule, step by step, with what each step changed.
pub(crate) fn trace(model: &Model, way: &[usize]) -> String {
    let mut state = State::new(model.slots);
    let mut text = String::new();
    for &thread in way {
        let before = state;
        let local = &before.threads[thread];
        let operation = model.programs[thread][usize::from(local.operation)];
        let outcome = model.step(&mut state, thread);
        let at = if local.at == At::Begin {
            operation.first()
        } else {
            local.at
        };
        write!(text, "  thread {thread} {operation:?}: {at:?}").unwrap();
        changes(&mut text, &before, &state);
        if state.threads[thread].operation != local.operation {
            text.push_str("  [returns]");
        }
        if let Err(what) = outcome {
            write!(text, "  ** {what}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn changes(text: &mut String, before: &State, after: &State) {
    let word = |word: super::state::Word| {
        let closed = if word.closed { " CLOSED" } else { "" };
        format!("({} {}{closed})", word.segment, word.index)
    };
    let mut change = |name: String, before: String, after: String| {
        if before != after {
            write!(text, "  {name} {before} -> {after}").unwrap();
        }
    };
    change("tail".into(), word(before.tail), word(after.tail));
    change("head".into(), word(before.head), word(after.head));
    change("hint".into(), word(before.hint), word(after.hint));
    let fields = |state: &State| [state.retired, state.first, state.limbo, state.spare];
    for (at, name) in ["retired", "first", "limbo", "spare"].iter().enumerate() {
        change(
            (*name).into(),
            fields(before)[at].to_string(),
            fields(after)[at].to_string(),
        );
    }
    for at in 0..POOL {
        let (old, new) = (&before.segments[at], &after.segments[at]);
        let name = |field: &str| format!("{}.{field}", at + 1);
        change(
            name("allocated"),
            old.allocated.to_string(),
            new.allocated.to_string(),
        );
        change(name("next"), old.next.to_string(), new.next.to_string());
        change(
            name("control"),
            old.control.to_string(),
            new.control.to_string(),
        );
        for (index, (old, new)) in old.slots.iter().zip(&new.slots).enumerate() {
            let show = |slot: &super::state::Slot| format!("{}/{}", slot.value, slot.state);
            change(name(&format!("slot{index}")), show(old), show(new));
        }
    }
}
