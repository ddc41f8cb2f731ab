//! Visits every state of a protocol that is written as a state machine.
//!
//! loom runs the code itself in every interleaving, and a protocol of more than a few steps has too
//! many interleavings. Here the user writes the protocol as a [`Machine`]: a state is a small
//! value, and a step of a thread is one access to shared memory. Equal states are visited once, so
//! millions of states take seconds. A machine is sequentially consistent; loom checks weaker
//! orderings.
//!
//! States are visited breadth-first, so the first fault found has the shortest trace. They are
//! stored as fingerprints of 128 bits. The steps between them, which are the edges of a graph, are
//! stored too. Two properties of this graph are checked:
//!
//! - Progress. A cycle is a fault: in it some threads step forever and none completes an operation.
//!   Without a cycle, the threads that are not suspended complete their operations. The longest
//!   path bounds the steps of all threads together.
//! - Solo runs. From each state, each thread alone reaches the end of its operation, unless it
//!   waits for another thread. The longest of these runs is reported.

use core::fmt::{self, Write as _};
use core::hash::{BuildHasherDefault, Hash, Hasher};
use std::collections::HashMap;
use std::string::String;
use std::vec::Vec;

const NOWHERE: u32 = u32::MAX;

/// A protocol: the steps of its threads, one access to shared memory at a time.
///
/// ```
/// use rast_primitive::explore::{Limits, Machine, explore};
///
/// /// Two threads that add one by a load and a store.
/// struct Adds;
///
/// #[derive(Clone, Copy, Hash)]
/// struct State {
///     sum: u8,
///     seen: [Option<u8>; 2],
///     is_done: [bool; 2],
/// }
///
/// impl Machine for Adds {
///     type State = State;
///     type Notes = ();
///
///     fn threads(&self) -> usize {
///         2
///     }
///     fn start(&self) -> State {
///         State { sum: 0, seen: [None; 2], is_done: [false; 2] }
///     }
///     fn is_enabled(&self, state: &State, thread: usize) -> bool {
///         !state.is_done[thread]
///     }
///     fn step(&self, state: &mut State, thread: usize) -> Result<bool, String> {
///         match state.seen[thread] {
///             None => state.seen[thread] = Some(state.sum),
///             Some(seen) => {
///                 state.sum = seen + 1;
///                 state.is_done[thread] = true;
///             }
///         }
///         Ok(state.is_done[thread])
///     }
///     fn check_end(&self, state: &State) -> Result<(), String> {
///         if state.sum == 2 { Ok(()) } else { Err(format!("the sum is {}", state.sum)) }
///     }
///     fn describe(&self, before: &State, thread: usize, _: &State) -> String {
///         format!("sees {:?}", before.seen[thread])
///     }
/// }
///
/// let fault = explore(&Adds, Limits::new(1000)).unwrap_err();
/// assert_eq!((fault.what.as_str(), fault.steps), ("the sum is 1", 4));
/// ```
pub trait Machine {
    /// The whole state, including the local variables of the threads.
    type State: Copy + Hash;

    /// What [`note`](Self::note) collects over all states.
    type Notes: Default;

    /// The number of threads.
    fn threads(&self) -> usize;

    /// The initial state.
    fn start(&self) -> Self::State;

    /// Returns the thread that steps before any other thread starts, or `None` once this prologue
    /// is over. A trace contains the steps of the prologue.
    fn prologue(&self, state: &Self::State) -> Option<usize> {
        let _ = state;
        None
    }

    /// Returns `true` if `thread` can step: it has not ended, and does not wait.
    fn is_enabled(&self, state: &Self::State, thread: usize) -> bool;

    /// Makes one step of an enabled thread. Returns `true` if the step completed an operation.
    ///
    /// # Errors
    ///
    /// The step violates a promise of the protocol.
    fn step(&self, state: &mut Self::State, thread: usize) -> Result<bool, String>;

    /// Returns `true` if `thread` is inside an operation, so that a switch away from it is a
    /// preemption.
    fn is_inside(&self, state: &Self::State, thread: usize) -> bool {
        let _ = (state, thread);
        false
    }

    /// Checks an invariant of every state.
    ///
    /// # Errors
    ///
    /// The invariant that does not hold.
    fn check(&self, state: &Self::State) -> Result<(), String> {
        let _ = state;
        Ok(())
    }

    /// Checks an invariant of states in which no thread is enabled.
    ///
    /// # Errors
    ///
    /// The invariant that does not hold.
    fn check_end(&self, state: &Self::State) -> Result<(), String> {
        let _ = state;
        Ok(())
    }

    /// Runs an experiment on a state. Returns `true` if there was one to run.
    ///
    /// # Errors
    ///
    /// What failed.
    fn probe(&self, state: &Self::State) -> Result<bool, String> {
        let _ = state;
        Ok(false)
    }

    /// Collects notes about a new state.
    fn note(&self, state: &Self::State, notes: &mut Self::Notes) {
        let _ = (state, notes);
    }

    /// Describes one step, for a trace.
    fn describe(&self, before: &Self::State, thread: usize, after: &Self::State) -> String;
}

/// The limits of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of states; more are a fault.
    pub states: usize,
    /// Maximum number of preemptions in a schedule: switches away from a thread inside an
    /// operation.
    pub preemptions: Option<u8>,
    /// Whether to [`probe`](Machine::probe) each state.
    pub probes: bool,
}

impl Limits {
    /// No bound on preemptions, at most `states` states, no probes.
    #[must_use]
    pub const fn new(states: usize) -> Self {
        Self {
            states,
            preemptions: None,
            probes: false,
        }
    }
}

/// The result of an exploration without a fault.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Explored<N> {
    /// Number of states.
    pub states: usize,
    /// Number of steps.
    pub edges: usize,
    /// Number of states with an experiment.
    pub probes: usize,
    /// Length of the longest path from the initial state to an end.
    pub longest: u32,
    /// Length of the longest run of one thread alone to the end of its operation.
    pub alone: u32,
    /// The notes of the machine.
    pub notes: N,
}

impl<N> fmt::Display for Explored<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "states={} edges={} probes={} longest={} alone={}",
            self.states, self.edges, self.probes, self.longest, self.alone
        )
    }
}

/// A fault, and the shortest path to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// Description of the fault.
    pub what: String,
    /// The steps, one per line.
    pub trace: String,
    /// Number of steps.
    pub steps: usize,
    /// Number of states visited until then.
    pub states: usize,
}

/// Explores `machine`.
///
/// # Errors
///
/// The first fault: an error of the machine, a cycle, or more states than the limit.
///
/// # Panics
///
/// If there are 2^32 states, or more than 8 threads.
pub fn explore<M: Machine>(machine: &M, limits: Limits) -> Result<Explored<M::Notes>, Fault> {
    assert!(machine.threads() <= 8, "a byte has a bit for each thread");
    let mut explorer = Explorer {
        machine,
        limits,
        threads: machine.threads(),
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

/// Returns the trace of the schedule `way` of `machine`.
pub fn trace<M: Machine>(machine: &M, way: &[usize]) -> String {
    let mut state = machine.start();
    let mut text = String::new();
    for &thread in way {
        let before = state;
        let end = match machine.step(&mut state, thread) {
            Ok(false) => String::new(),
            Ok(true) => "  [returns]".into(),
            Err(what) => std::format!("  ** {what}"),
        };
        let step = machine.describe(&before, thread, &state);
        // Writing to a string does not fail.
        let _ = writeln!(text, "  thread {thread}: {step}{end}");
    }
    text
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

/// A state, and the number of preemptions on the path to it.
#[derive(Clone, Copy)]
struct Node<S> {
    id: u32,
    state: S,
    last: u8,
    preemptions: u8,
}

struct Explorer<'a, M: Machine> {
    machine: &'a M,
    limits: Limits,
    threads: usize,
    /// The steps before the initial state.
    prologue: Vec<usize>,
    ids: HashMap<u128, u32, BuildHasherDefault<Identity>>,
    /// By state: the state from which it was first reached, and the thread.
    origins: Vec<(u32, u8)>,
    /// By state and thread: the next state. By state: the threads whose step completed an
    /// operation.
    steps: Vec<u32>,
    finishing: Vec<u8>,
    explored: Explored<M::Notes>,
}

impl<M: Machine> Explorer<'_, M> {
    fn visit_all(&mut self) -> Result<(), Fault> {
        let mut state = self.machine.start();
        while let Some(thread) = self.machine.prologue(&state) {
            self.prologue.push(thread);
            let stepped = self.machine.step(&mut state, thread);
            stepped.map_err(|what| self.fault(what, NOWHERE, None))?;
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

    fn expand(
        &mut self,
        node: &Node<M::State>,
        next: &mut Vec<Node<M::State>>,
    ) -> Result<(), Fault> {
        if self.limits.probes {
            let probed = self.machine.probe(&node.state);
            let made = probed.map_err(|what| self.fault(what, node.id, None))?;
            self.explored.probes += usize::from(made);
        }
        let mut is_end = true;
        for thread in 0..self.threads {
            if !self.machine.is_enabled(&node.state, thread) {
                continue;
            }
            is_end = false;
            let mut preemptions = node.preemptions;
            if let Some(most) = self.limits.preemptions {
                let last = usize::from(node.last);
                if last < self.threads
                    && last != thread
                    && self.machine.is_inside(&node.state, last)
                {
                    if preemptions == most {
                        continue;
                    }
                    preemptions += 1;
                }
            }
            let mut state = node.state;
            let stepped = self.machine.step(&mut state, thread);
            let checked = stepped.and_then(|ends| self.machine.check(&state).map(|()| ends));
            let finishes = checked.map_err(|what| self.fault(what, node.id, Some(thread)))?;
            let origin = (node.id, thread as u8);
            let id = self.meet(state, thread as u8, preemptions, origin, next);
            self.steps[node.id as usize * self.threads + thread] = id;
            self.finishing[node.id as usize] |= u8::from(finishes) << thread;
            self.explored.edges += 1;
            if self.origins.len() > self.limits.states {
                let what = std::format!("more than {} states", self.limits.states);
                return Err(self.fault(what, id, None));
            }
        }
        if is_end && let Err(what) = self.machine.check_end(&node.state) {
            return Err(self.fault(what, node.id, None));
        }
        Ok(())
    }

    /// Returns the number of a state; a new state is queued for expansion.
    fn meet(
        &mut self,
        state: M::State,
        last: u8,
        preemptions: u8,
        origin: (u32, u8),
        next: &mut Vec<Node<M::State>>,
    ) -> u32 {
        let mut mixer = Mixer::default();
        state.hash(&mut mixer);
        let mut key = mixer.both();
        if self.limits.preemptions.is_some() {
            key ^= u128::from(last) << 64 | u128::from(preemptions) << 72;
        }
        assert!(
            self.origins.len() < NOWHERE as usize,
            "fewer than 2^32 states"
        );
        let id = self.origins.len() as u32;
        let known = *self.ids.entry(key).or_insert(id);
        if known != id {
            return known;
        }
        self.machine.note(&state, &mut self.explored.notes);
        self.origins.push(origin);
        self.steps.resize(self.steps.len() + self.threads, NOWHERE);
        self.finishing.push(0);
        next.push(Node {
            id,
            state,
            last,
            preemptions,
        });
        id
    }

    /// Checks the graph for cycles, and computes the longest path and the longest solo run.
    fn judge_graph(&mut self) -> Result<(), Fault> {
        let (count, threads) = (self.origins.len(), self.threads);
        let mut incoming = std::vec![0_u8; count];
        for &to in self.steps.iter().filter(|&&to| to != NOWHERE) {
            // A state has few predecessors: at most a handful per thread, each by one step.
            incoming[to as usize] = incoming[to as usize]
                .checked_add(1)
                .expect("few predecessors");
        }
        let mut order = Vec::with_capacity(count);
        order.push(0_u32);
        let mut at = 0;
        while at < order.len() {
            for &to in &self.steps[order[at] as usize * threads..][..threads] {
                if to == NOWHERE {
                    continue;
                }
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
        let mut longest = std::vec![0_u32; count];
        let mut alone = std::vec![0_u32; count * threads];
        for &id in order.iter().rev() {
            let id = id as usize;
            for thread in 0..threads {
                let to = self.steps[id * threads + thread];
                if to == NOWHERE {
                    continue;
                }
                longest[id] = longest[id].max(longest[to as usize] + 1);
                let finishes = self.finishing[id] >> thread & 1 != 0;
                let rest = if finishes {
                    0
                } else {
                    alone[to as usize * threads + thread]
                };
                alone[id * threads + thread] = rest + 1;
                self.explored.alone = self.explored.alone.max(rest + 1);
            }
        }
        self.explored.longest = longest[0];
        Ok(())
    }

    /// Makes a fault at state `id`, with the step that failed after it.
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
            trace: trace(self.machine, &way),
            steps: way.len(),
            states: self.origins.len(),
            what,
        }
    }
}

/// Two multiplicative hashes of the written bytes, eight bytes at a time.
struct Mixer {
    word: u64,
    filled: u32,
    one: u64,
    other: u64,
}

impl Default for Mixer {
    fn default() -> Self {
        Self {
            word: 0,
            filled: 0,
            one: 0x243f_6a88_85a3_08d3,
            other: 0x1319_8a2e_0370_7344,
        }
    }
}

impl Mixer {
    fn mix(&mut self) {
        self.one = (self.one ^ self.word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.one ^= self.one >> 29;
        self.other = (self.other.rotate_left(23) ^ self.word).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.other ^= self.other >> 32;
        self.word = 0;
        self.filled = 0;
    }

    fn both(mut self) -> u128 {
        self.mix();
        self.mix();
        u128::from(self.one) << 64 | u128::from(self.other)
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u8(byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.word |= u64::from(byte) << self.filled;
        self.filled += 8;
        if self.filled == 64 {
            self.mix();
        }
    }

    fn write_i8(&mut self, byte: i8) {
        self.write_u8(byte.cast_unsigned());
    }

    // Most numbers are small: indices, and discriminants of an enum.
    fn write_usize(&mut self, number: usize) {
        match u8::try_from(number) {
            Ok(small) if small < u8::MAX => self.write_u8(small),
            _ => {
                self.write_u8(u8::MAX);
                self.write(&number.to_ne_bytes());
            }
        }
    }

    fn write_isize(&mut self, number: isize) {
        self.write_usize(number.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        self.one
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    /// One thread that counts.
    struct Counts;

    impl Machine for Counts {
        type State = usize;
        type Notes = ();

        fn threads(&self) -> usize {
            1
        }

        fn start(&self) -> usize {
            0
        }

        fn is_enabled(&self, state: &usize, _: usize) -> bool {
            *state < 1000
        }

        fn step(&self, state: &mut usize, _: usize) -> Result<bool, String> {
            *state += 1;
            Ok(*state == 1000)
        }

        fn describe(&self, before: &usize, _: usize, _: &usize) -> String {
            before.to_string()
        }
    }

    /// Two threads that step in turn, each inside one operation, so that each switch is a
    /// preemption.
    struct Turns;

    impl Machine for Turns {
        type State = usize;
        type Notes = ();

        fn threads(&self) -> usize {
            2
        }

        fn start(&self) -> usize {
            0
        }

        fn is_enabled(&self, state: &usize, thread: usize) -> bool {
            *state < 1000 && state % 2 == thread
        }

        fn step(&self, state: &mut usize, _: usize) -> Result<bool, String> {
            *state += 1;
            Ok(*state >= 999)
        }

        fn is_inside(&self, _: &usize, _: usize) -> bool {
            true
        }

        fn describe(&self, before: &usize, _: usize, _: &usize) -> String {
            before.to_string()
        }
    }

    #[test]
    fn a_schedule_has_at_most_so_many_preemptions() {
        for most in [0, 1, 254, 255] {
            let mut limits = Limits::new(2000);
            limits.preemptions = Some(most);
            let explored = explore(&Turns, limits).map_err(|fault| fault.what);
            // The first state, that after the first step, and one for each preemption.
            let states = 2 + usize::from(most);
            assert_eq!(explored.map(|seen| seen.states), Ok(states), "{most}");
        }
    }

    #[test]
    fn numbers_that_differ_are_different_states() {
        let explored = explore(&Counts, Limits::new(2000)).map_err(|fault| fault.what);
        assert_eq!(explored.map(|seen| seen.states), Ok(1001));
    }
}
